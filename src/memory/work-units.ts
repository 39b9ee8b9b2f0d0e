/** Adding, finding, changing and deleting units. */
import {
  availableSince,
  compareNames,
  emptyTally,
  nameHasPrefix,
  waitingSample,
  workUnitStatuses,
  type AddedWorkUnit,
  type CountSlice,
  type UnitSlice,
  type WorkUnitChange,
  type WorkUnitPut,
  type WorkUnitWhere,
} from "../core/index.ts";
import { findNeeds, park, resolve, setNeeds } from "./dependents.ts";
import {
  letGo,
  linksOf,
  place,
  setLabels,
  supersede,
  unplace,
  Unit,
  type Need,
  type Spec,
  type UnitTable,
} from "./state.ts";

export function putUnits(
  table: UnitTable,
  spec: Spec,
  puts: readonly WorkUnitPut[],
  now: number,
  origin: string | null = null,
): AddedWorkUnit[] {
  // units that wait for others are found first, all of them, so that a refused one changes nothing
  const fresh = new Map<string, Unit>();
  let needs: Map<Unit, Need[]> | null = null;
  if (puts.some((put) => put.dependencies !== null)) {
    const all = new Map<string, Unit>();
    for (const put of puts) {
      if (all.has(put.name)) continue;
      let unit = spec.units.get(put.name);
      if (unit === undefined) fresh.set(put.name, (unit = newUnit(table, spec, put, now)));
      all.set(put.name, unit);
    }
    needs = findNeeds(spec, puts, all);
  }
  return puts.map((put) => {
    let unit = spec.units.get(put.name);
    const created = unit === undefined;
    if (unit === undefined) {
      unit = fresh.get(put.name) ?? newUnit(table, spec, put, now);
      spec.noteName(unit.name);
      spec.units.set(unit.name, unit);
      spec.names.add(unit);
      table.add(unit);
    } else {
      unplace(unit);
      if (unit.status === "finished" || unit.status === "failed") {
        supersede(unit, now);
        unit.tries = 0;
        linksOf(unit).since = now;
        spec.names.change(unit, "available");
      }
    }
    unit.data = put.data;
    unit.priority = put.priority;
    unit.notBefore = put.notBefore;
    if (origin !== null) linksOf(unit).origin = origin;
    if (put.queues !== undefined) linksOf(unit).queues = put.queues;
    else if (unit.links !== null) unit.links.queues = [];
    if (put.labels !== undefined || (unit.links?.labels.length ?? 0) > 0) setLabels(unit, put.labels ?? []);
    const needed = put.dependencies === null ? undefined : needs?.get(unit);
    if (needed !== undefined) setNeeds(unit, needed);
    if (unit.status === "pending") place(unit, "pending");
    else park(unit, now);
    return { name: unit.name, id: unit.id, created, status: unit.status };
  });
}

const newUnit = (table: UnitTable, spec: Spec, put: WorkUnitPut, now: number): Unit =>
  new Unit(++table.lastId, spec, put.name, put.data, put.priority, put.notBefore, now);

/** The matching units in name order. */
export function* findUnits(spec: Spec, where: WorkUnitWhere): Generator<Unit> {
  const { names, statuses, prefix = "", label, previous } = where;
  const matches = (unit: Unit): boolean =>
    (statuses === undefined || statuses.includes(unit.status)) &&
    nameHasPrefix(unit.name, prefix) &&
    (label === undefined || unit.links?.labels.includes(label) === true) &&
    (previous === undefined || compareNames(unit.name, previous) > 0);
  if (names !== undefined) {
    for (const name of [...new Set(names)].sort(compareNames)) {
      const unit = spec.units.get(name);
      if (unit !== undefined && matches(unit)) yield unit;
    }
    return;
  }
  const start = (unit: Unit): boolean =>
    previous !== undefined && compareNames(previous, prefix) >= 0
      ? compareNames(unit.name, previous) > 0
      : compareNames(unit.name, prefix) >= 0;
  if (label !== undefined) {
    for (const unit of spec.labels.get(label)?.from(start) ?? []) {
      if (!nameHasPrefix(unit.name, prefix)) return;
      if (matches(unit)) yield unit;
    }
    return;
  }
  for (const unit of spec.names.find(statuses ?? workUnitStatuses, start)) {
    if (!nameHasPrefix(unit.name, prefix)) return;
    yield unit;
  }
}

/** The first matching units, and where to go on. */
export function takeSlice(
  spec: Spec,
  where: WorkUnitWhere,
  limit: number,
): { units: Unit[]; next: string | null } {
  const units: Unit[] = [];
  for (const unit of findUnits(spec, where)) {
    if (units.length === limit) return { units, next: units.at(-1)?.name ?? null };
    units.push(unit);
  }
  return { units, next: null };
}

export function updateUnits(
  spec: Spec,
  where: WorkUnitWhere,
  change: WorkUnitChange,
  limit: number,
  now: number,
): UnitSlice {
  const { units, next } = takeSlice(spec, where, limit);
  let count = 0;
  for (const unit of units) if (updateUnit(unit, change, now)) count++;
  return { count, next };
}

function updateUnit(unit: Unit, change: WorkUnitChange, now: number): boolean {
  const { status } = unit;
  const ended = status === "finished" || status === "failed";
  if (change.kind === "reset") {
    if (!ended && status !== "pending") return false;
    unplace(unit);
    supersede(unit, now);
    unit.tries = 0;
    linksOf(unit).since = now;
    park(unit, now);
    return true;
  }
  if (change.kind === "set-delay" && (ended || status === "pending")) return false;
  unplace(unit);
  if (change.kind === "set-priority") unit.priority = change.priority;
  else if (change.kind === "adjust-priority") unit.priority += change.by;
  else unit.notBefore = change.notBefore;
  if (ended || status === "pending") place(unit, status);
  else park(unit, now);
  return true;
}

/** The first matching units by status, and where to go on. */
export function countUnits(spec: Spec, where: WorkUnitWhere, limit: number): CountSlice {
  const { units, next } = takeSlice(spec, where, limit);
  const counts = emptyTally();
  for (const { status } of units) counts[status]++;
  return { counts, next };
}

/** When the unit became available that has waited longest, of those at both ends of the claim order. */
export function waitingSince(spec: Spec): { since: number; exact: boolean } {
  let since = Infinity;
  for (const unit of spec.ready.ends(waitingSample)) {
    const { created, notBefore, links, attempt } = unit;
    const one = availableSince({
      created,
      notBefore,
      since: links?.since ?? 0,
      attemptEnd: attempt?.end ?? 0,
    });
    since = Math.min(since, one);
  }
  return { since, exact: spec.ready.size <= 2 * waitingSample };
}

export function deleteUnits(table: UnitTable, units: readonly Unit[], now: number): void {
  for (const unit of units) {
    unplace(unit);
    unit.spec.units.delete(unit.name);
    unit.spec.names.remove(unit);
    forget(table, unit);
  }
  // only when all are gone: one that waits for another of these is not failed on the way
  for (const unit of units) resolve(unit, now);
}

/** Takes a unit out of everything but its spec's orders. */
export function forget(table: UnitTable, unit: Unit): void {
  unit.deleted = true;
  if (unit.links !== null && unit.links.labels.length > 0) setLabels(unit, []);
  unit.spec.space.watches.ended(unit.id);
  table.delete(unit);
  if (unit.attempt !== null) letGo(unit, unit.attempt);
  if (unit.links !== null) for (const need of unit.links.needs) need.unit.links?.dependents.delete(unit);
}
