/** Changing and deleting units that an operator selected. */
import { changeUnit, followBefore, removeUnit } from "./life.ts";
import { conclude } from "./batching.ts";
import type { WorkUnitChange } from "./store.ts";
import type { Rule, UnitState, WorkingSet } from "./working-set.ts";

/** Units between two places where others may have a turn. */
const unitsPerTurn = 100;

/** Changes units in the order given; answers how many the change concerned. */
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
  if (set.isUnresolved()) yield* conclude(set);
  return count;
}

/** Deletes units, and then looks at what depended on them. `retired`: they are no longer kept, and nobody wanted them gone. */
export function* removeUnits<Unit extends UnitState>(
  set: WorkingSet<Unit>,
  units: readonly Unit[],
  retired = false,
): Rule<void> {
  for (const [i, unit] of units.entries()) {
    if (i > 0 && i % unitsPerTurn === 0) yield undefined;
    removeUnit(set, unit, retired);
  }
  if (set.isUnresolved()) yield* conclude(set);
}
