/** Definitions of operations on a pair of stores, and placeholders in their arguments. */
import type fc from "fast-check";
import type { Page, TallyRow, WorkUnitRow } from "../../../src/core/index.ts";
import { type Accepted, Operations } from "../operations.ts";
import { type Pair, type Side, both, isRefusal } from "../pair.ts";
import { crowd, queueNames, specNames, workerNames } from "../vocabulary.ts";

export const operations = new Operations<Pair>(({ measure }) => measure);

/** Defines an operation whose names may be placeholders for existing work specs, queues or workers. */
export function operation<Args extends object>(
  kind: string,
  weight: number,
  floor: number,
  args: fc.Arbitrary<Args>,
  perform: (pair: Pair, args: Args) => Promise<Accepted | boolean>,
): void {
  operations.define(kind, weight, floor, args, async (pair, given) =>
    perform(pair, (await resolved(pair, given as Record<string, unknown>)) as Args),
  );
}

export const done = (answer: unknown): boolean => !isRefusal(answer);
export const some = (answer: unknown): boolean =>
  done(answer) && (typeof answer === "number" ? answer > 0 : Array.isArray(answer) && answer.length > 0);

/** Replaces the placeholders `*2` and `+2` by names. */
async function resolved(pair: Pair, args: Record<string, unknown>): Promise<Record<string, unknown>> {
  const { spec, queue, worker } = args;
  const found = { ...args };
  if (isMark(spec)) {
    const rows = (await both(pair, ({ engine, ns }) => engine.tally(ns))) as TallyRow[];
    const fitting = rows.filter(({ counts }) =>
      spec.startsWith("+") ? counts.available > 0 : Object.values(counts).some((count) => count > 0),
    );
    found.spec = picked(fitting, spec)?.workSpec ?? "a";
  }
  if (isMark(queue)) {
    const { rows } = await pair.memory.listQueues(pair.ns);
    found.queue = picked(rows, queue)?.name ?? queueNames[0];
  }
  if (isMark(worker)) {
    const rows = await pair.memory.getAttempts(pair.ns, pair.attempts.slice(-10));
    const names = rows.flatMap((row) => (row === null || row.worker === crowd ? [] : [row.worker]));
    found.worker = picked(names, worker) ?? workerNames[0];
  }
  return found;
}

const isMark = (value: unknown): value is string => typeof value === "string" && /^[*+]\d$/.test(value);
const picked = <Item>(items: readonly Item[], mark: string): Item | undefined =>
  items[Number(mark.slice(1)) % Math.max(1, items.length)];

export const requestName = (pair: Pair, id: string | undefined): { requestId?: string } =>
  id === undefined ? {} : { requestId: id === "new" ? `new ${++pair.lastRequest}` : id };

type By = "name" | "id" | "old id";
export const ref = (side: Side, spec: string, by: By) =>
  by === "name" ? spec : side.byId(spec, by === "old id");

/** All units, in the order of work specs and names. */
export async function everyUnit(pair: Pair, limit = 30): Promise<{ workSpec: string; workUnit: string }[]> {
  const found: { workSpec: string; workUnit: string }[] = [];
  for (const spec of specNames) {
    const listed = await both(pair, ({ engine, ns }) => engine.listWorkUnits(ns, spec, { limit }));
    if (isRefusal(listed)) continue;
    for (const { name } of (listed as Page<WorkUnitRow>).rows) found.push({ workSpec: spec, workUnit: name });
  }
  return found;
}

/** The arguments without undefined values. */
export const defined = <Args extends object>(
  args: Args,
): { [Key in keyof Args]: Exclude<Args[Key], undefined> } =>
  Object.fromEntries(Object.entries(args).filter(([, value]) => value !== undefined)) as {
    [Key in keyof Args]: Exclude<Args[Key], undefined>;
  };
