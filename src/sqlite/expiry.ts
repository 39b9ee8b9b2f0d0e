/**
 * Expired leases, elapsed delays, timers and schedules take effect by rule. Their rows are updated here, lazily: when a verb needs
 * them, in bounded slices.
 */
import { byExpiration, expireUnits, isRunDue, makeRuns, releaseDue, ringTimers } from "../core/index.ts";
import { expirePlain, releasePlain } from "./fast-paths.ts";
import type { Spec, State } from "./state.ts";
import { apply } from "./working-set.ts";

/** The most units that one call moves: about 10 ms of work. */
export const maxMoved = 1000;

export interface Moved {
  expired: number;
  due: number;
  generated: number;
  /** Nothing is overdue any more. */
  done: boolean;
}

/** Whether anything in the spec is overdue. Costs a few comparisons. */
export function isBehind(state: State, spec: Spec, now: number): boolean {
  if (isRunDue(spec.meta, now)) return true;
  const lease = state.leases.first(spec.id);
  if (lease !== undefined && lease.expiration <= now) return true;
  if (spec.timed && firstTimer(state, spec) <= now) return true;
  const due = firstDue(state, spec);
  return due !== null && due <= now;
}

function firstTimer(state: State, spec: Spec): number {
  if (!spec.timed) return Infinity;
  if (spec.ring === undefined) spec.ring = (state.sql.firstTimer.get(spec.id)?.[0] ?? null) as number | null;
  return spec.ring ?? Infinity;
}

export function firstDue(state: State, spec: Spec): number | null {
  if (spec.due === undefined)
    spec.due =
      spec.counts.delayed === 0
        ? null
        : ((state.sql.firstDelayed.get(spec.id)?.[0] ?? null) as number | null);
  return spec.due;
}

/**
 * Moves overdue units of these specs, about `limit` of them. Where units depend on others, leases end in order of time across
 * specs: the end of the first may decide the outcome of the second.
 */
export function catchUp(state: State, specs: readonly Spec[], now: number, limit = maxMoved): Moved {
  // in order of creation for every caller, so that schedules make their units in the same order, too
  const behind = specs.filter((spec) => isBehind(state, spec, now)).sort((a, b) => a.id - b.id);
  if (behind.length === 0) return { expired: 0, due: 0, generated: 0, done: true };
  // timers first: units past their `expires` fail before the steps below can make them available
  let due = ringDue(state, behind, now, limit);
  const expired = expireLeases(state, behind, now, limit);
  for (const spec of behind) due += releaseDelayed(state, spec, now, limit - due);
  let generated = 0;
  for (const spec of behind)
    if (isRunDue(spec.meta, now)) generated += apply(state, now, (set) => makeRuns(set, spec));
  const done = expired < limit && due < limit ? true : !behind.some((spec) => isBehind(state, spec, now));
  return { expired, due, generated, done };
}

function expireLeases(state: State, specs: readonly Spec[], now: number, limit: number): number {
  let count = 0;
  const left: number[] = [];
  for (const spec of specs) {
    const leases = state.leases.ended(spec.id, now, limit - count);
    count += leases.length;
    if (leases.length === 0 || expirePlain(state, spec, leases, now)) continue;
    for (const { unit } of leases) left.push(unit);
  }
  if (left.length > 0) apply(state, now, (set) => expireUnits(set, set.units(left).sort(byExpiration)));
  return count;
}

/** Rings timers in order of time across specs. */
function ringDue(state: State, specs: readonly Spec[], now: number, limit: number): number {
  const rung = specs
    .flatMap((spec) =>
      firstTimer(state, spec) <= now ? state.sql.rung.all(spec.id, now, Math.max(0, limit)) : [],
    )
    .map(([unit, time]) => ({ unit: unit as number, time: time as number }))
    .sort((a, b) => a.time - b.time || a.unit - b.unit)
    .map(({ unit }) => unit)
    .slice(0, Math.max(0, limit));
  if (rung.length === 0) return 0;
  apply(state, now, (set) => ringTimers(set, set.units(rung)));
  return rung.length;
}

function releaseDelayed(state: State, spec: Spec, now: number, limit: number): number {
  const first = firstDue(state, spec);
  if (first === null || first > now || limit <= 0) return 0;
  const rows = state.sql.due.all(spec.id, now, limit);
  const ids = rows.map(([id]) => id as number);
  if (!releasePlain(state, spec, ids, rows.at(-1)?.[1] as number))
    apply(state, now, (set) => releaseDue(set, set.units(ids)));
  return ids.length;
}
