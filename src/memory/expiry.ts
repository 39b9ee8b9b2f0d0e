/** Expired leases and elapsed delays take effect by rule. Units are moved here, when a verb is about to look at them. */
import { expireUnits, releaseDue } from "../core/index.ts";
import type { Space, Spec, Unit } from "./state.ts";
import { MemorySet, run, type Tables } from "./working-set.ts";

const isBehind = ({ leases, due }: Spec, now: number): boolean =>
  (leases.first()?.attempt?.expiration ?? Infinity) <= now || (due.first()?.notBefore ?? Infinity) <= now;

/**
 * Brings a spec up to date. Where units depend on others, all specs of the namespace: a lease that ends there may fail a unit
 * here.
 */
export function catchUp(tables: Tables, spec: Spec, now: number): void {
  if (spec.space.needy > 0) catchUpSpace(tables, spec.space, now);
  else if (isBehind(spec, now)) catchUpSpec(tables, spec, now);
}

export function catchUpSpace(tables: Tables, space: Space, now: number): void {
  for (const spec of space.specs.values()) if (isBehind(spec, now)) catchUpSpec(tables, spec, now);
}

export function catchUpSpec(
  tables: Tables,
  { leases, due }: Spec,
  now: number,
  limit = Infinity,
): { expired: number; due: number } {
  const lapsed = first(leases, (unit) => (unit.attempt?.expiration ?? Infinity) <= now, limit);
  if (lapsed.length > 0) run(expireUnits(new MemorySet(tables, now), lapsed));
  const over = first(due, (unit) => unit.notBefore <= now, limit);
  if (over.length > 0) run(releaseDue(new MemorySet(tables, now), over));
  return { expired: lapsed.length, due: over.length };
}

function first(units: Iterable<Unit>, wanted: (unit: Unit) => boolean, limit: number): Unit[] {
  const found: Unit[] = [];
  for (const unit of units) {
    if (found.length >= limit || !wanted(unit)) break;
    found.push(unit);
  }
  return found;
}
