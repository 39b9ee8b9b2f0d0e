/** Expired leases, elapsed delays and schedules take effect by rule. Units are moved here, when a verb is about to look at them. */
import { byExpiration, expireUnits, isRunDue, makeRuns, releaseDue, ringTimers } from "../core/index.ts";
import { expirationOf, timerOf, type Space, type Spec, type Unit } from "./state.ts";
import { run, type MemorySet } from "./working-set.ts";

const isBehind = ({ leases, due, timers, meta }: Spec, now: number): boolean =>
  isRunDue(meta, now) ||
  (timers.size > 0 && isRung(timers.first(), now)) ||
  (leases.first()?.attempt?.expiration ?? Infinity) <= now ||
  (due.first()?.notBefore ?? Infinity) <= now;

const isRung = (unit: Unit | undefined, now: number): boolean => unit !== undefined && timerOf(unit) <= now;

/**
 * Brings a spec up to date. If units of the namespace have dependencies or deadlines, all its specs: a lease that ends in one spec
 * may fail a unit of another.
 */
export function catchUp(set: MemorySet, spec: Spec, now: number): void {
  if (spec.space.needy > 0 || spec.space.timed) catchUpSpace(set, spec.space, now);
  else if (isBehind(spec, now)) catchUpSpecs(set, [spec], now);
}

export function catchUpSpace(set: MemorySet, space: Space, now: number): void {
  for (const spec of space.specs.values())
    if (isBehind(spec, now)) {
      catchUpSpecs(set, space.specs.values(), now);
      return;
    }
}

/** Expires leases in the order of time across specs: the first one may decide what happens to the second unit. */
export function catchUpSpecs(
  set: MemorySet,
  specs: Iterable<Spec>,
  now: number,
  limit = Infinity,
): { expired: number; due: number; generated: number } {
  const behind = [...specs];
  const rung = behind
    .flatMap(({ timers }) => first(timers, (unit) => isRung(unit, now), limit))
    .sort((a, b) => timerOf(a) - timerOf(b) || a.id - b.id)
    .slice(0, limit);
  if (rung.length > 0) run(ringTimers(set.at(now), rung));
  const lapsed: Unit[] = [];
  const over: Unit[] = [];
  for (const { leases, due } of behind) {
    lapsed.push(...firstLapsed(leases, now, limit));
    over.push(...first(due, (unit) => unit.notBefore <= now, limit));
  }
  lapsed.sort(byExpiration).splice(limit);
  over.splice(limit);
  if (lapsed.length > 0) run(expireUnits(set.at(now), lapsed));
  if (over.length > 0) run(releaseDue(set.at(now), over));
  let generated = 0;
  for (const spec of behind) if (isRunDue(spec.meta, now)) generated += run(makeRuns(set.at(now), spec));
  return { expired: lapsed.length, due: over.length + rung.length, generated };
}

/** The first `limit` units, and all others whose leases ended at the same time as the last: `byExpiration` orders those differently. */
function firstLapsed(leases: Iterable<Unit>, now: number, limit: number): Unit[] {
  const found: Unit[] = [];
  for (const unit of leases) {
    const expiration = expirationOf(unit);
    const last = found.at(-1);
    if (expiration > now) break;
    if (found.length >= limit && (last === undefined || expiration > expirationOf(last))) break;
    found.push(unit);
  }
  return found;
}

function first(units: Iterable<Unit>, wanted: (unit: Unit) => boolean, limit: number): Unit[] {
  const found: Unit[] = [];
  for (const unit of units) {
    if (found.length >= limit || !wanted(unit)) break;
    found.push(unit);
  }
  return found;
}
