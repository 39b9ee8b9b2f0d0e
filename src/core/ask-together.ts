/** Merges the requests of concurrent callers into one call. */
import { isRefusal } from "./errors.ts";

export interface Asked<Item, Answer> {
  readonly items: readonly Item[];
  readonly resolve: (answers: Answer[]) => void;
  readonly reject: (error: unknown) => void;
}

/**
 * Sends the items of all callers in one call, and gives each caller the answers to its own items. A refused call has changed
 * nothing: each caller's items are then sent separately, so that a bad item fails only the caller that sent it. `isOfItem` tells
 * whether an error may be due to a single item; by default, refusals. Rejects only when a callback of a caller has thrown, after all
 * callers have been answered.
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
    if (alone || !isOfItem(error)) {
      callEach(callers, ({ reject }) => reject(error));
      return;
    }
    const asked = await Promise.allSettled(callers.map((caller) => askTogether([caller], ask)));
    for (const one of asked) if (one.status === "rejected") throw one.reason;
    return;
  }
  if (alone) {
    only.resolve(answers);
    return;
  }
  let at = 0;
  callEach(callers, ({ items, resolve }) => resolve(answers.slice(at, (at += items.length))));
}

/** Calls all callers back even if one of them throws, then throws the first error. */
function callEach<Caller>(callers: readonly Caller[], call: (caller: Caller) => void): void {
  const thrown: unknown[] = [];
  for (const caller of callers)
    try {
      call(caller);
    } catch (error) {
      thrown.push(error);
    }
  if (thrown.length > 0) throw thrown[0];
}
