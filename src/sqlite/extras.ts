/**
 * What few units have: queues that hear of their end, and labels. Kept apart, and counted, so that a store in which no unit
 * has any never looks. Labels stand a second time in a table of their own, in name order, where they are looked for.
 */
import { attemptId, nameToBytes, type WorkUnitPut } from "../core/index.ts";
import { addMessage } from "./queues.ts";
import { nameValue, type Spec, type State, type Unit } from "./state.ts";

export interface Extra {
  queues: readonly string[];
  labels: readonly string[];
}

const none: Extra = { queues: [], labels: [] };

const readNames = (value: unknown): readonly string[] =>
  typeof value === "string" ? (JSON.parse(value) as string[]) : none.queues;

const namesValue = (names: readonly string[] | undefined): string | null =>
  names === undefined || names.length === 0 ? null : JSON.stringify(names);

export function extraOf(state: State, unit: number): Extra {
  if (state.counters.extras === 0) return none;
  const row = state.sql.extra.get(unit);
  return row === undefined ? none : { queues: readNames(row[0]), labels: readNames(row[1]) };
}

export const hasQueues = (state: State, unit: number): boolean =>
  state.counters.extras > 0 && extraOf(state, unit).queues.length > 0;

/** Of a unit that has none yet. */
export function addExtra(
  state: State,
  spec: Spec,
  unit: number,
  { name, queues, labels }: Pick<WorkUnitPut, "name" | "queues" | "labels">,
): void {
  if (queues === undefined && labels === undefined) return;
  state.writes++;
  state.sql.addExtra.run(unit, namesValue(queues), namesValue(labels));
  state.nextId("extras");
  for (const label of labels ?? none.labels)
    state.sql.addLabel.run(spec.id, nameToBytes(label), nameValue(name), unit);
}

/** In place of what the unit had. */
export function setExtra(state: State, { id, spec }: Unit, put: WorkUnitPut): void {
  dropExtra(state, spec, id, put.name);
  addExtra(state, spec, id, put);
}

export function dropExtra(state: State, spec: Spec, unit: number, name: string): void {
  if (state.counters.extras === 0) return;
  const { labels } = extraOf(state, unit);
  if (state.sql.dropExtra.run(unit) === 0) return;
  state.writes++;
  state.nextId("extras", -1);
  for (const label of labels) state.sql.dropLabel.run(spec.id, nameToBytes(label), nameValue(name));
}

/** The same of many units of one spec. */
export function dropExtras(state: State, spec: Spec, ids: readonly number[]): void {
  if (state.counters.extras === 0) return;
  const list = JSON.stringify(ids);
  for (const [name, labels] of state.sql.labelsOf.all(list))
    for (const label of readNames(labels))
      state.sql.dropLabel.run(spec.id, nameToBytes(label), name as Uint8Array);
  const dropped = state.sql.dropExtras.run(list);
  if (dropped > 0) state.nextId("extras", -dropped);
}

/** A unit has ended and is saved: who named a queue for that is told there, who waits is woken after the commit. */
export function ended(state: State, unit: Unit, now: number): void {
  state.noteEnd(unit.id);
  const { attempt, status, spec } = unit;
  // of a work spec that was deleted nobody hears any more, though its rows are still there
  if (state.counters.extras === 0 || spec.deleted || (status !== "finished" && status !== "failed")) return;
  for (const queue of extraOf(state, unit.id).queues)
    addMessage(state, spec.space, {
      queue,
      workSpec: spec.name,
      workUnit: unit.name,
      attempt: attempt === null ? null : attemptId(unit.id, attempt.number),
      status,
      data: attempt?.data ?? unit.data,
      at: now,
    });
}
