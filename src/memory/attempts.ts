/** Reads attempts: of a unit, those that a worker holds, and those that it ever claimed. */
import {
  attemptRow,
  compareKeys,
  type AttemptCursor,
  type AttemptKey,
  type AttemptRow,
  type AttemptState,
  type ListedAttempt,
} from "../core/index.ts";
import type { Unit, UnitTable, Worker } from "./state.ts";

export function findAttempt(unit: Unit, number: number): AttemptRow | null {
  const attempt =
    unit.attempt?.number === number ? unit.attempt : unit.history?.find((one) => one.number === number);
  return attempt === undefined ? null : attemptRow(unit, attempt);
}

/** The oldest first. */
export function attemptsOf(unit: Unit): AttemptRow[] {
  const attempts = [...(unit.history ?? []), ...(unit.attempt === null ? [] : [unit.attempt])];
  return attempts.map((attempt) => attemptRow(unit, attempt));
}

/** The attempts that workers hold, by unit. */
export const heldAttempts = (
  units: UnitTable,
  workers: readonly (Worker | undefined)[],
  previous: AttemptCursor | null,
  limit: number,
  now: number,
): ListedAttempt[] =>
  workers
    .flatMap((worker) => heldBy(units, worker, now))
    .filter(({ unit }) => !unit.spec.deleted)
    .map(({ unit, attempt }) => ({ unitId: unit.id, number: attempt.number, unit, attempt }))
    .filter((one) => previous === null || compareKeys(one, previous) > 0)
    .sort(compareKeys)
    .slice(0, limit)
    .map(({ unit, attempt }) => ({ row: attemptRow(unit, attempt), position: null }));

/** The attempts that a worker holds, and those that it lost whose leases have not ended. */
function heldBy(
  units: UnitTable,
  worker: Worker | undefined,
  now: number,
): { unit: Unit; attempt: AttemptState }[] {
  const held: { unit: Unit; attempt: AttemptState }[] = [];
  for (const unit of worker?.holds ?? [])
    if (unit.attempt !== null) held.push({ unit, attempt: unit.attempt });
  for (const [attempt, unit] of worker?.lost ?? [])
    if (attempt.expiration > now && units.get(unit.id) === unit) held.push({ unit, attempt });
    else worker?.lost.delete(attempt);
  return held;
}

/** The attempts that a worker claimed, newest first. Skips attempts of deleted units. */
export function loggedAttempts(
  { log }: Worker,
  previous: AttemptCursor | null,
  limit: number,
  find: (key: AttemptKey) => AttemptRow | null,
): ListedAttempt[] {
  const rows: ListedAttempt[] = [];
  const [before = Infinity] = previous?.position ?? [];
  let skipping = previous !== null && previous.position === null;
  for (let i = log.length - 3; i >= 0 && rows.length < limit; i -= 3) {
    const [place = 0, unitId = 0, number = 0] = log.slice(i, i + 3);
    if (place >= before) continue;
    if (skipping) skipping = unitId !== previous?.unitId || number !== previous.number;
    else {
      const row = find({ unitId, number });
      if (row !== null) rows.push({ row, position: [place] });
    }
  }
  return rows;
}
