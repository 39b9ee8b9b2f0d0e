/** What hangs on a unit: units made from outputs, and units that wait for it. */
import { brokenDependency, CoordinateError, findCycle, type WorkUnitPut } from "../core/index.ts";
import {
  failUnit,
  linksOf,
  needState,
  needsState,
  needStatus,
  place,
  unplace,
  waitingStatus,
  type Need,
  type Spec,
  type Unit,
} from "./state.ts";

/**
 * Finds what the units of an add wait for, before anything is changed: units that exist, or others of the same
 * add. Throws for unknown ones and for cycles.
 */
export function findNeeds(
  spec: Spec,
  puts: readonly WorkUnitPut[],
  units: ReadonlyMap<string, Unit>,
): Map<Unit, Need[]> {
  const found = new Map<Unit, Need[]>();
  for (const put of puts) {
    const unit = units.get(put.name);
    if (unit === undefined || put.dependencies === null) continue;
    const needs = put.dependencies.map(({ workSpec, workUnit, kind }): Need => {
      const other = spec.space.specs.get(workSpec);
      const need = (other === spec ? units.get(workUnit) : undefined) ?? other?.units.get(workUnit);
      if (need === undefined)
        throw new CoordinateError(
          "bad_dependency",
          `${put.name} waits for ${workUnit} of work spec ${workSpec}, which does not exist`,
        );
      return { unit: need, kind, met: false };
    });
    found.set(unit, needs);
  }
  const needsOf = (unit: Unit): Unit[] =>
    (found.get(unit) ?? unit.links?.needs ?? []).map((need) => need.unit);
  for (const [unit, needs] of found) {
    const cycle = needs.length === 0 ? null : findCycle(unit, needsOf);
    if (cycle !== null)
      throw new CoordinateError("dependency_cycle", cycle.map(({ name }) => name).join(" -> "));
  }
  return found;
}

export function setNeeds(unit: Unit, needs: Need[]): void {
  const links = linksOf(unit);
  for (const need of links.needs) need.unit.links?.dependents.delete(unit);
  links.needs = needs;
  for (const need of needs) {
    need.met = needState(need) === "met";
    linksOf(need.unit).dependents.add(unit);
  }
}

/** A unit ended or was deleted: what it meets stays met, its dependents go on or fail, and then theirs. */
export function resolve(ended: Unit, now: number): void {
  const work = [ended];
  for (let unit = work.pop(); unit !== undefined; unit = work.pop()) {
    if (unit.links === null) continue;
    for (const dependent of unit.links.dependents) {
      for (const need of dependent.links?.needs ?? []) need.met = needState(need) === "met";
      if (unblock(dependent, now)) work.push(dependent);
    }
  }
}

/** Places a unit that nobody runs: where it waits, or failed when what it waits for is broken. */
export function park(unit: Unit, now: number): void {
  place(unit, waitingStatus(unit, now));
  if (unit.status === "blocked" && unblock(unit, now)) resolve(unit, now);
}

/** True when the unit failed over it. */
function unblock(unit: Unit, now: number): boolean {
  if (unit.deleted || unit.status !== "blocked" || unit.links === null) return false;
  const { needs } = unit.links;
  const state = needsState(needs);
  if (state === "open") return false;
  if (state === "broken") {
    const broken = needs.find((need) => needState(need) === "broken");
    if (broken === undefined) return false;
    failUnit(unit, "", brokenDependency(broken.unit.spec.name, broken.unit.name, needStatus(broken)), now);
    return true;
  }
  unplace(unit);
  unit.links.since = now;
  place(unit, waitingStatus(unit, now));
  return false;
}
