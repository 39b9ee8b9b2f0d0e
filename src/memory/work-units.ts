/** Finding, counting and reading units. */
import {
  availableSince,
  compareNames,
  emptyTally,
  nameHasPrefix,
  unitRow,
  waitingSample,
  workUnitStatuses,
  type CountSlice,
  type WorkUnitRow,
  type WorkUnitWhere,
} from "../core/index.ts";
import type { Spec, Unit, UnitTable } from "./state.ts";
import { targetStatus } from "./working-set.ts";

/** The matching units in name order. */
export function* findUnits(spec: Spec, where: WorkUnitWhere): Generator<Unit> {
  const { names, statuses, prefix = "", label, error, endedSince, previous } = where;
  const matches = (unit: Unit): boolean =>
    (statuses === undefined || statuses.includes(unit.status)) &&
    nameHasPrefix(unit.name, prefix) &&
    (label === undefined || unit.extras.labels.includes(label)) &&
    (endedSince === undefined || (hasEnded(unit) && (unit.attempt?.end ?? 0) >= endedSince)) &&
    (previous === undefined || compareNames(unit.name, previous) > 0);
  const group = error === undefined ? undefined : spec.failures.units(error);
  if (error !== undefined && group === undefined) return;
  if (names !== undefined) {
    for (const name of [...new Set(names)].sort(compareNames)) {
      const unit = spec.units.get(name);
      if (unit !== undefined && matches(unit) && (error === undefined || spec.failures.isOf(unit, error)))
        yield unit;
    }
    return;
  }
  const start = (unit: Unit): boolean =>
    previous !== undefined && compareNames(previous, prefix) >= 0
      ? compareNames(unit.name, previous) > 0
      : compareNames(unit.name, prefix) >= 0;
  if (group !== undefined || label !== undefined) {
    const units = group ?? spec.labels.get(label ?? "");
    for (const unit of units?.from(start) ?? []) {
      if (!nameHasPrefix(unit.name, prefix)) return;
      if (matches(unit)) yield unit;
    }
    return;
  }
  for (const unit of spec.units.find(statuses ?? workUnitStatuses, start)) {
    if (!nameHasPrefix(unit.name, prefix)) return;
    if (endedSince === undefined || matches(unit)) yield unit;
  }
}

const hasEnded = ({ status }: Unit): boolean => status === "finished" || status === "failed";

/** The first matching units, and the name to continue after. */
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

/** Counts the first matching units by status, and returns the name to continue after. */
export function countUnits(spec: Spec, where: WorkUnitWhere, limit: number): CountSlice {
  const { units, next } = takeSlice(spec, where, limit);
  const counts = emptyTally();
  for (const { status } of units) counts[status]++;
  return { counts, next };
}

/**
 * When the unit that has waited longest became available, of those at both ends of the claim order; or of the first names, where
 * units are handed out by partition.
 */
export function waitingSince(spec: Spec): { since: number; exact: boolean } {
  let since = Infinity;
  const sample =
    spec.lanes === null ? spec.ready.ends(waitingSample) : first(spec.available(), 2 * waitingSample);
  for (const unit of sample) {
    const { created, notBefore, since: from, attempt } = unit;
    const one = availableSince({ created, notBefore, since: from, attemptEnd: attempt?.end ?? 0 });
    since = Math.min(since, one);
  }
  return { since, exact: spec.units.counts.available <= 2 * waitingSample };
}

function* first(units: Iterable<Unit>, count: number): Generator<Unit> {
  let left = count;
  for (const unit of units) {
    if (left-- === 0) return;
    yield unit;
  }
}

export const readUnit = (units: UnitTable, unit: Unit, asAdded = false): WorkUnitRow =>
  unitRow(
    unit,
    unit.needs.map((need) => ({
      workSpec: need.workSpec,
      workUnit: need.workUnit,
      kind: need.kind,
      status: targetStatus(units, need),
    })),
    unit.extras,
    asAdded,
  );
