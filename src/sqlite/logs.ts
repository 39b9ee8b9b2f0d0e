/** The logs that tasks write: one row for each attempt that has logged something. */
import { appendLog, type AttemptKey, type LogWrite, type StoredLog } from "../core/index.ts";
import type { State } from "./state.ts";
import { findUnit } from "./units.ts";
import type { Steps } from "./work-units.ts";

/** Logs that are read or written between two yields to the event loop. */
const logsAtOnce = 100;

/** Whether the attempt was made and its unit still exists. */
function isAttempt(state: State, ns: string, { unitId, number }: AttemptKey): boolean {
  const unit = findUnit(state, unitId);
  return unit !== undefined && !unit.spec.deleted && unit.spec.space.name === ns && number <= unit.attempts;
}

function readLog(state: State, { unitId, number }: AttemptKey): StoredLog | null {
  const row = state.hasLogs ? state.sql.attemptLog.get(unitId, number) : undefined;
  return row === undefined ? null : { total: row[0] as number, text: row[1] as string };
}

export function* writeLogs(state: State, ns: string, writes: readonly LogWrite[]): Steps<boolean[]> {
  const answers: boolean[] = [];
  for (const write of writes) {
    const exists = isAttempt(state, ns, write);
    const old = exists ? readLog(state, write) : null;
    const log = exists ? appendLog(old, write) : null;
    if (log !== null && log !== old) {
      state.writes++;
      state.hasLogs = true;
      state.sql.setAttemptLog.run(write.unitId, write.number, log.total, log.text);
    }
    if (answers.push(exists) % logsAtOnce === 0) yield;
  }
  return answers;
}

export function* readLogs(
  state: State,
  ns: string,
  keys: readonly AttemptKey[],
): Steps<(StoredLog | null | undefined)[]> {
  const logs: (StoredLog | null | undefined)[] = [];
  for (const key of keys)
    if (logs.push(isAttempt(state, ns, key) ? readLog(state, key) : undefined) % logsAtOnce === 0) yield;
  return logs;
}

export function dropLogs(state: State, units: readonly number[]): void {
  if (state.hasLogs) state.sql.dropLogs.run(JSON.stringify(units));
}
