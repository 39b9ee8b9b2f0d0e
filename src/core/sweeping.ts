/** Effects of elapsed time: leases expire, delays end, timers fire, exhausted units fail, ended units are no longer kept. */
import { resolveConsequences } from "./batching.ts";
import { exhaust, expire, isExhausted, ring, wait } from "./life.ts";
import { specTryLimit } from "./retry.ts";
import type { RetentionLimit } from "./work-spec.ts";
import type { Rule, UnitState, WorkingSet } from "./working-set.ts";

/** The rule yields after this many units, so that the store can run other work. */
const unitsPerTurn = 100;

/** The order in which leases end. */
export function byExpiration(a: UnitState, b: UnitState): number {
  const first = a.attempt?.expiration ?? 0;
  const second = b.attempt?.expiration ?? 0;
  return first < second ? -1 : first > second ? 1 : a.id - b.id;
}

/**
 * Expires the leases of these units, in the order of `units`. The effects on their dependents are dated back to the expiry: they
 * hold from then on by rule, whenever a query notices.
 */
export function* expireUnits<Unit extends UnitState>(
  set: WorkingSet<Unit>,
  units: readonly Unit[],
): Rule<void> {
  for (const [i, unit] of units.entries()) {
    if (i > 0 && i % unitsPerTurn === 0) yield undefined;
    if (unit.attempt?.status === "pending" && unit.attempt.expiration <= set.now)
      expire(set, unit, unit.attempt, unit.attempt.expiration);
  }
  if (set.isUnresolved()) yield* resolveConsequences(set);
}

/** Ends the delays of these units. */
export function* releaseDue<Unit extends UnitState>(
  set: WorkingSet<Unit>,
  units: readonly Unit[],
): Rule<void> {
  for (const unit of units) {
    if (unit.status !== "delayed" || unit.notBefore > set.now) continue;
    set.leave(unit);
    wait(set, unit, set.now);
  }
  if (set.isUnresolved()) yield* resolveConsequences(set);
}

/** Handles the timers of these units, in the order of the deadlines and expiries that have passed. */
export function* ringTimers<Unit extends UnitState>(
  set: WorkingSet<Unit>,
  units: readonly Unit[],
): Rule<void> {
  // a unit past both times: its timer fired at the first, but its expiry decides when it fails, and with it its dependents
  const momentOf = (unit: Unit): number => {
    const { deadline = 0, expires = Infinity } = set.timing(unit) ?? {};
    return expires <= set.now ? expires : deadline;
  };
  const inOrder =
    units.length > 1 ? [...units].sort((a, b) => momentOf(a) - momentOf(b) || a.id - b.id) : units;
  for (const [i, unit] of inOrder.entries()) {
    if (i > 0 && i % unitsPerTurn === 0) yield undefined;
    const { status } = unit;
    if (status === "available" || status === "delayed" || status === "blocked") ring(set, unit);
  }
  if (set.isUnresolved()) yield* resolveConsequences(set);
}

/** What is logged when a store and the rules disagree: see `Swept.stuck`. */
export const stuckText = "housekeeping skips units that the store counts as exhausted although they are not";

/** Fails the units that were tried too often, one after the other, the least tried first; returns how many. */
export function* exhaustUnits<Unit extends UnitState>(
  set: WorkingSet<Unit>,
  units: readonly Unit[],
): Rule<number> {
  let count = 0;
  for (const unit of [...units].sort((a, b) => a.tries - b.tries || a.id - b.id)) {
    if (unit.status !== "available" || !isExhausted(set, unit, specTryLimit(unit.spec.meta))) continue;
    exhaust(set, unit, "");
    if (++count % unitsPerTurn === 0) yield undefined;
    if (set.isUnresolved()) yield* resolveConsequences(set);
  }
  return count;
}

/**
 * How many of the oldest ended units are no longer kept. `ends` are their end times in rising order, at most as many as may be
 * removed at once; `count` is the number of all ended units.
 */
export function countRetired(
  { maxAgeMs, maxCount }: RetentionLimit,
  ends: readonly number[],
  count: number,
  now: number,
): number {
  const over = maxCount === undefined ? 0 : count - maxCount;
  const until = maxAgeMs === undefined ? -Infinity : now - maxAgeMs;
  const kept = ends.findIndex((end, i) => end > until && i >= over);
  return kept < 0 ? ends.length : kept;
}
