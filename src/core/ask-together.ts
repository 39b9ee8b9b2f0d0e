/** Merges the requests of concurrent callers into one call. */
import { isRefusal } from "./errors.ts";

export interface Asked<Item, Answer> {
  readonly items: readonly Item[];
  readonly resolve: (answers: Answer[]) => void;
  readonly reject: (error: unknown) => void;
}

/**
 * Sends the items of all callers in one call, and gives each caller the answers to its own items. A refused call has changed
 * nothing: each caller's items are then sent separately, so that a bad item fails only the caller that sent it. Never rejects.
 * `isOfItem` tells whether an error may be due to a single item; by default, refusals.
 */
export async function askTogether<Item, Answer>(
  callers: readonly Asked<Item, Answer>[],
  ask: (items: readonly Item[]) => Promise<Answer[]>,
  isOfItem: (error: unknown) => boolean = isRefusal,
): Promise<void> {
  const [only] = callers;
  const alone = only !== undefined && callers.length === 1;
  let answers: Answer[];
  try {
    answers = await ask(alone ? only.items : callers.flatMap(({ items }) => items));
  } catch (error) {
    if (!alone && isOfItem(error)) await Promise.all(callers.map((caller) => askTogether([caller], ask)));
    else for (const { reject } of callers) reject(error);
    return;
  }
  if (alone) {
    only.resolve(answers);
    return;
  }
  let at = 0;
  for (const { items, resolve } of callers) resolve(answers.slice(at, (at += items.length)));
}
