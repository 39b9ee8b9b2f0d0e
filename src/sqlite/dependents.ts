/** What hangs on a unit: the units that wait for it. */
import {
  brokenDependency,
  CoordinateError,
  dependencyState,
  findCycle,
  nameToBytes,
  type DependencyKind,
  type WorkUnitPut,
} from "../core/index.ts";
import {
  failUnit,
  findUnit,
  nameValue,
  needsOf,
  needsState,
  needState,
  place,
  saveUnit,
  unplace,
  waitingStatus,
  type Spec,
  type State,
  type Unit,
} from "./state.ts";

export interface NewNeed {
  target: number;
  kind: DependencyKind;
  workSpec: string;
  workUnit: string;
}

/**
 * Finds what the units of an add wait for, before anything is changed: units that exist, or others of the same
 * add, whose ids by name are in `ids`. Throws for unknown ones and for cycles.
 */
export function findNeeds(
  state: State,
  spec: Spec,
  puts: readonly WorkUnitPut[],
  ids: ReadonlyMap<string, number>,
): Map<number, NewNeed[]> {
  const found = new Map<number, NewNeed[]>();
  const names = new Map<number, string>();
  for (const put of puts) {
    const id = ids.get(put.name);
    if (id === undefined || put.dependencies === null) continue;
    names.set(id, put.name);
    const needs = put.dependencies.map(({ workSpec, workUnit, kind }): NewNeed => {
      const other = spec.space.specs.get(workSpec);
      const target =
        (other === spec ? ids.get(workUnit) : undefined) ??
        (other === undefined ? undefined : state.sql.unitId.get(other.id, nameValue(workUnit))?.[0]);
      if (typeof target !== "number")
        throw new CoordinateError(
          "bad_dependency",
          `${put.name} waits for ${workUnit} of work spec ${workSpec}, which does not exist`,
        );
      names.set(target, workUnit);
      return { target, kind, workSpec, workUnit };
    });
    found.set(id, needs);
  }
  const needsOfId = (id: number): number[] => {
    const needs = found.get(id) ?? needsOf(state, id);
    for (const { target, workUnit } of needs) names.set(target, workUnit);
    return needs.map(({ target }) => target);
  };
  for (const [id, needs] of found) {
    const cycle = needs.length === 0 ? null : findCycle(id, needsOfId);
    if (cycle !== null)
      throw new CoordinateError("dependency_cycle", cycle.map((one) => names.get(one) ?? "").join(" -> "));
  }
  return found;
}

export function setNeeds(state: State, unit: Unit, needs: readonly NewNeed[]): void {
  dropNeeds(state, unit.id);
  needs.forEach(({ target, kind, workSpec, workUnit }, position) => {
    const met = dependencyState(kind, findUnit(state, target)?.status ?? null) === "met";
    state.writes++;
    state.sql.addNeed.run(
      unit.id,
      position,
      Number(kind === "hard"),
      Number(met),
      target,
      nameToBytes(workSpec),
      nameToBytes(workUnit),
    );
  });
  if (needs.length > 0) state.nextId("needs", needs.length);
}

export function dropNeeds(state: State, unit: number): void {
  if (state.counters.needs === 0) return;
  const dropped = state.sql.dropNeeds.run(unit);
  if (dropped > 0) {
    state.writes++;
    state.nextId("needs", -dropped);
  }
}

const dependentsOf = (state: State, unit: number): number[] =>
  state.counters.needs === 0 ? [] : state.sql.dependents.all(unit).map(([id]) => id as number);

/** A unit ended or was deleted: what it meets stays met, its dependents go on or fail, and then theirs. */
export function resolve(state: State, ended: number, now: number): void {
  if (state.counters.needs === 0) return;
  const work = [ended];
  for (let unit = work.pop(); unit !== undefined; unit = work.pop()) {
    for (const dependent of dependentsOf(state, unit)) {
      needsOf(state, dependent).forEach((need, position) => {
        if (!need.met && needState(need) === "met") state.sql.setMet.run(dependent, position);
      });
      const loaded = findUnit(state, dependent);
      if (loaded !== undefined && unblock(state, loaded, now)) work.push(dependent);
    }
  }
}

/** Places and saves a unit that nobody runs: where it waits, or failed when what it waits for is broken. */
export function park(state: State, unit: Unit, now: number): void {
  place(state, unit, waitingStatus(state, unit, now));
  saveUnit(state, unit);
  if (unit.status === "blocked" && unblock(state, unit, now)) resolve(state, unit.id, now);
}

/** True when the unit failed over it. Saves what it changes. */
function unblock(state: State, unit: Unit, now: number): boolean {
  if (unit.status !== "blocked") return false;
  const needs = needsOf(state, unit.id);
  const standing = needsState(needs);
  if (standing === "open") return false;
  if (standing === "broken") {
    const broken = needs.find((need) => needState(need) === "broken");
    if (broken === undefined) return false;
    failUnit(state, unit, "", brokenDependency(broken.workSpec, broken.workUnit, broken.status), now);
    return true;
  }
  unplace(state, unit);
  unit.since = now;
  place(state, unit, waitingStatus(state, unit, now));
  saveUnit(state, unit);
  return false;
}
