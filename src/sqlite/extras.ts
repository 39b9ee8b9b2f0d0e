/**
 * Optional fields that few units have: queues for end messages, labels, own try limits and times. They are in a separate table, and
 * its rows are counted, so that a store without any skips the lookup. Labels are also in table `label`, in name order, for searches.
 */
import {
  areExtras,
  batchOf,
  hasTimer,
  nameToBytes,
  noExtras,
  ownTryLimit,
  type Extras,
  type UnitRetry,
  type UnitTiming,
} from "../core/index.ts";
import type { Spec, State } from "./state.ts";
import { nameValue } from "./values.ts";

const readNames = (value: unknown): readonly string[] =>
  typeof value === "string" ? (JSON.parse(value) as string[]) : noExtras.queues;

const namesValue = (names: readonly string[]): string | null =>
  names.length === 0 ? null : JSON.stringify(names);

export function extrasOf(state: State, unit: number): Extras {
  if (state.counters.extras === 0) return noExtras;
  const row = state.sql.extra.get(unit);
  if (row === undefined) return noExtras;
  const [queues, labels, retry, timing] = row;
  return {
    queues: readNames(queues),
    labels: readNames(labels),
    retry: typeof retry === "string" ? (JSON.parse(retry) as UnitRetry) : null,
    timing: typeof timing === "string" ? (JSON.parse(timing) as UnitTiming) : null,
  };
}

/** Whether the end of the unit has effects besides its dependents: on queues or a batch. */
export function hasEndEffects(state: State, unit: number): boolean {
  const { queues, labels } = extrasOf(state, unit);
  return queues.length > 0 || batchOf(labels) !== null;
}

/** Whether any of the units is in a batch. */
export const anyInBatch = (state: State, ids: readonly number[]): boolean =>
  state.counters.extras > 0 &&
  state.sql.labelsOf.all(JSON.stringify(ids)).some(([, labels]) => batchOf(readNames(labels)) !== null);

interface Named {
  id: number;
  spec: Spec;
  name: string;
}

/** Adds the extras of a unit that has none yet. */
export function addExtras(state: State, { id, spec, name }: Named, extras: Extras): void {
  if (!areExtras(extras)) return;
  const { queues, labels, retry, timing } = extras;
  if (hasTimer(timing) && !spec.timed) {
    spec.timed = state.timed = true;
    state.undo(() => (spec.timed = false));
    state.sql.setSpecTimed.run(spec.id);
  }
  state.writes++;
  state.sql.addExtra.run(
    id,
    namesValue(queues),
    namesValue(labels),
    retry === null ? null : JSON.stringify(retry),
    ownTryLimit(retry),
    timing === null ? null : JSON.stringify(timing),
  );
  state.nextId("extras");
  for (const label of labels) state.sql.addLabel.run(spec.id, nameToBytes(label), nameValue(name), id);
}

/** Replaces the extras of a unit. */
export function setExtras(state: State, unit: Named, extras: Extras): void {
  if (state.counters.extras > 0) {
    const { labels } = extrasOf(state, unit.id);
    if (state.sql.dropExtra.run(unit.id) > 0) {
      state.writes++;
      state.nextId("extras", -1);
      for (const label of labels)
        state.sql.dropLabel.run(unit.spec.id, nameToBytes(label), nameValue(unit.name));
    }
  }
  addExtras(state, unit, extras);
}

/** Removes the extras of many units of one spec. */
export function dropExtras(state: State, spec: Spec, ids: readonly number[]): void {
  if (state.counters.extras === 0) return;
  const list = JSON.stringify(ids);
  for (const [name, labels] of state.sql.labelsOf.all(list))
    for (const label of readNames(labels))
      state.sql.dropLabel.run(spec.id, nameToBytes(label), name as Uint8Array);
  const dropped = state.sql.dropExtras.run(list);
  if (dropped > 0) state.nextId("extras", -dropped);
}
