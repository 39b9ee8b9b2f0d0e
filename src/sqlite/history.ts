/** Reads and writes the records of the history (table `record`). */
import type { HistoryRow, StoredRecord } from "../core/index.ts";
import type { State } from "./state.ts";
import type { Steps } from "./work-units.ts";

/** Rows that are written between two yields to the event loop. */
const rowsAtOnce = 1000;

export function* putRecords(state: State, writer: number, rows: readonly HistoryRow[]): Steps<void> {
  state.writes++;
  for (const [i, { namespace, spec, stepMs, time, data }] of rows.entries()) {
    if (i > 0 && i % rowsAtOnce === 0) yield;
    const space = state.spaces.get(namespace);
    const live = spec === 0 || state.specs.get(spec)?.deleted === false;
    if (space !== undefined && live) state.sql.putRecord.run(space.id, spec, stepMs, time, writer, data);
  }
}

export function* readRecords(
  state: State,
  ns: string,
  specs: readonly number[],
  stepMs: number,
  from: number,
  to: number,
): Steps<StoredRecord[]> {
  const records: StoredRecord[] = [];
  const space = state.spaces.get(ns);
  if (space === undefined) return records;
  for (const spec of specs) {
    for (const [of, time, data] of state.sql.records.all(space.id, spec, stepMs, from, to))
      records.push({ spec: of as number, time: time as number, data: data as string });
    yield;
  }
  return records;
}

export function dropOldRecords(state: State, stepMs: number, before: number, limit: number): number {
  const old = state.sql.oldRecords.all(stepMs, before, limit);
  for (const [namespace, spec, time, writer] of old) {
    state.writes++;
    state.sql.dropRecord.run(namespace!, spec!, stepMs, time!, writer!);
  }
  return old.length;
}
