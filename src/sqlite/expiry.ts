/** What is past its time counts as such by rule; here it is moved, whenever it is met, a bounded piece at a time. */
import { park } from "./dependents.ts";
import { findUnit, unplace, type Attempt, type Spec, type State, type Unit } from "./state.ts";

/** The attempt's lease has ended: the unit waits again, the attempt may still be settled late. */
export function expire(state: State, unit: Unit, attempt: Attempt, end: number, now: number): void {
  unplace(state, unit);
  attempt.status = "expired";
  attempt.end = end;
  park(state, unit, now);
}

/** What one call moves at most: about 10 ms of work. */
export const mostMoved = 1000;

export interface Moved {
  expired: number;
  due: number;
  /** Nothing is past its time any more. */
  done: boolean;
}

/** Whether anything in the spec is past its time: a comparison or two. */
export function isBehind(state: State, spec: Spec, now: number): boolean {
  const lease = state.leases.first(spec.id);
  if (lease !== undefined && lease.expiration <= now) return true;
  const due = firstDue(state, spec);
  return due !== null && due <= now;
}

export function firstDue(state: State, spec: Spec): number | null {
  if (spec.due === undefined)
    spec.due =
      spec.counts.delayed === 0
        ? null
        : ((state.sql.firstDelayed.get(spec.id)?.[0] ?? null) as number | null);
  return spec.due;
}

/** Moves what is past its time, a bounded piece at a time. */
export function catchUp(state: State, spec: Spec, now: number, limit = mostMoved): Moved {
  if (!isBehind(state, spec, now)) return { expired: 0, due: 0, done: true };
  const expired = expireLeases(state, spec, now, limit);
  const due = releaseDue(state, spec, now, limit);
  return { expired, due, done: expired < limit && due < limit ? true : !isBehind(state, spec, now) };
}

function expireLeases(state: State, spec: Spec, now: number, limit: number): number {
  const leases = state.leases.ended(spec.id, now, limit);
  if (leases.length === 0) return 0;
  state.touch(spec);
  state.writes++;
  if (state.counters.needs > 0) {
    for (const { unit: id, expiration } of leases) {
      const unit = findUnit(state, id);
      if (unit === undefined || unit.attempt === null) continue;
      expire(state, unit, unit.attempt, expiration, now);
    }
    return leases.length;
  }
  const { sql } = state;
  const ids = JSON.stringify(leases.map(({ unit }) => unit));
  sql.expireMany.run(ids);
  sql.dropLeases.run(ids);
  const available = sql.waitAgain.run(ids, now);
  const delayed = available < leases.length ? sql.delayAgain.run(ids, now) : 0;
  for (const { unit } of leases) state.setLease(unit, undefined);
  spec.counts.pending -= leases.length;
  spec.counts.available += available;
  spec.counts.delayed += delayed;
  spec.top = spec.due = undefined;
  return leases.length;
}

function releaseDue(state: State, spec: Spec, now: number, limit: number): number {
  const first = firstDue(state, spec);
  if (first === null || first > now || limit <= 0) return 0;
  const rows = state.sql.due.all(spec.id, now, limit);
  const [unit, notBefore] = (rows.at(-1) ?? []) as number[];
  if (unit === undefined || notBefore === undefined) return 0;
  state.touch(spec);
  state.writes++;
  state.sql.readyMany.run(JSON.stringify(rows.map(([id]) => id)));
  state.sql.dropDue.run(spec.id, notBefore, unit);
  spec.counts.delayed -= rows.length;
  spec.counts.available += rows.length;
  spec.top = spec.due = undefined;
  return rows.length;
}
