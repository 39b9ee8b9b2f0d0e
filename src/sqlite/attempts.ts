/** Reads attempts: by key, by the request that claimed them, and by worker. */
import {
  attemptRow,
  compareKeys,
  type AttemptCursor,
  type AttemptKey,
  type AttemptRow,
  type ListedAttempt,
} from "../core/index.ts";
import type { Space, State } from "./state.ts";
import { findUnit, pastAttempt, pastAttempts, type Unit } from "./units.ts";
import { loggedAttempts } from "./workers.ts";

/** The attempts of the first claim with this request id, as far as they still run; null if there was none. */
export function claimedBefore(state: State, space: Space, requestId: string | null): AttemptRow[] | null {
  const before =
    requestId === null
      ? undefined
      : state.sql.request.get(space.id, JSON.stringify(`claim ${requestId}`))?.[0];
  if (typeof before !== "string") return null;
  return (JSON.parse(before) as string[])
    .map((id) => {
      const [unitId = 0, number = 0] = id.split(".").map(Number);
      return findAttempt(state, space.name, { unitId, number });
    })
    .filter((row) => row !== null)
    .filter((row) => row.status === "pending" && row.active);
}

export function findAttempt(state: State, ns: string, { unitId, number }: AttemptKey): AttemptRow | null {
  const unit = findUnit(state, unitId);
  if (unit === undefined || unit.spec.deleted || unit.spec.space.name !== ns) return null;
  const attempt = unit.attempt?.number === number ? unit.attempt : pastAttempt(state, unitId, number);
  return attempt === undefined ? null : attemptRow(unit, attempt);
}

/** The oldest first. */
export function attemptsOf(state: State, unit: Unit): AttemptRow[] {
  const attempts = pastAttempts(state, unit.id);
  if (unit.attempt !== null) attempts.push(unit.attempt);
  return attempts.map((attempt) => attemptRow(unit, attempt));
}

/** The attempts that workers hold, by unit. */
export function heldAttempts(
  state: State,
  ns: string,
  workers: readonly number[],
  previous: AttemptCursor | null,
  limit: number,
  now: number,
): ListedAttempt[] {
  const keys = workers
    .flatMap((worker) => heldBy(state, worker, now))
    .filter((key) => previous === null || compareKeys(key, previous) > 0)
    .sort(compareKeys);
  const rows: ListedAttempt[] = [];
  for (const key of keys) {
    if (rows.length === limit) break;
    const row = findAttempt(state, ns, key);
    if (row !== null) rows.push({ row, position: null });
  }
  return rows;
}

/** The attempts that a worker holds, and those that it lost before their leases ended. */
function heldBy(state: State, worker: number, now: number): AttemptKey[] {
  const held = [...state.leases.heldBy(worker)].map((unitId) => ({
    unitId,
    number: state.leases.get(unitId)?.number ?? 0,
  }));
  const lost = state.sql.heldPast
    .all(worker, now)
    .map(([unitId, number]) => ({ unitId: unitId as number, number: number as number }));
  return [...held, ...lost];
}

/** The logged attempts of a worker, newest first. Skips attempts of deleted units. */
export function logged(
  state: State,
  ns: string,
  worker: number,
  previous: AttemptCursor | null,
  limit: number,
): ListedAttempt[] {
  const rows: ListedAttempt[] = [];
  const place = previous?.position ?? null;
  const [time = Number.MAX_SAFE_INTEGER, number] =
    place ?? (previous === null ? [] : [findAttempt(state, ns, previous)?.startTime]);
  let skipping = previous !== null;
  for (const { position, ...key } of loggedAttempts(state, worker, time, number)) {
    if (rows.length === limit) break;
    // the log row in which the previous page ended was deleted: this row comes after it
    if (place !== null && (position[0] !== place[0] || position[1] !== place[1])) skipping = false;
    if (skipping) skipping = key.unitId !== previous?.unitId || key.number !== previous.number;
    else {
      const row = findAttempt(state, ns, key);
      if (row !== null) rows.push({ row, position });
    }
  }
  return rows;
}
