/** Changes and deletes units that an operator selected. */
import { changeUnit, followBefore, removeUnit, resolve, ring } from "./life.ts";
import { resolveConsequences } from "./batching.ts";
import type { WorkUnitChange } from "./store.ts";
import type { Rule, UnitState, WorkingSet } from "./working-set.ts";

/** Units processed between two points where other calls may run. */
const unitsPerTurn = 100;

/**
 * Changes units in the given order; returns how many the change applied to. Dependencies are looked at when all units are reset: in
 * whatever order they come, none fails because of one that is reset, too.
 */
export function* changeUnits<Unit extends UnitState>(
  set: WorkingSet<Unit>,
  units: readonly Unit[],
  change: WorkUnitChange,
): Rule<number> {
  let count = 0;
  for (const [i, unit] of units.entries()) {
    if (i > 0 && i % unitsPerTurn === 0) yield undefined;
    if (set.isUnresolved()) yield* followBefore(set, unit);
    if (changeUnit(set, unit, change)) count++;
  }
  if (change.kind === "reset")
    for (const [i, unit] of units.entries()) {
      if (i > 0 && i % unitsPerTurn === 0) yield undefined;
      if (set.isUnresolved()) yield* followBefore(set, unit);
      resolve(set, unit, set.now);
      // a deadline that passed after the unit had ended takes effect now
      if (unit.status === "blocked") ring(set, unit);
    }
  if (set.isUnresolved()) yield* resolveConsequences(set);
  return count;
}

/** Deletes units, then resolves their dependents. `retired`: retention removes them, not a request to delete them. */
export function* removeUnits<Unit extends UnitState>(
  set: WorkingSet<Unit>,
  units: readonly Unit[],
  retired = false,
): Rule<void> {
  for (const [i, unit] of units.entries()) {
    if (i > 0 && i % unitsPerTurn === 0) yield undefined;
    removeUnit(set, unit, retired);
  }
  if (set.isUnresolved()) yield* resolveConsequences(set);
}
