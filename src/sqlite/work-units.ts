/** Finding, counting and reading units. */
import {
  availableSince,
  compareNames,
  emptyTally,
  hasLanes,
  nameToBytes,
  prefixEnd,
  unitRow,
  waitingSample,
  workUnitStatuses,
  type CountSlice,
  type WorkUnitRow,
  type WorkUnitStatus,
  type WorkUnitWhere,
} from "../core/index.ts";
import type { Row, Statement, Value } from "./driver.ts";
import { extrasOf } from "./extras.ts";
import type { Spec, State } from "./state.ts";
import { exactName, findUnit, findUnitByName, standing, type Unit } from "./units.ts";
import { readNeeds } from "./working-set.ts";

/** A long operation in steps. At each yield the event loop may get a turn; the transaction stays open meanwhile. */
export type Steps<Answer> = Generator<undefined, Answer>;

/** How many rows a listing reads between two yields to the event loop. */
export const rowsAtOnce = 1000;

interface Found {
  id: number;
  name: string;
}

/** With more leases than this, pending units are not sorted: the query walks all units in name order instead. */
const maxSorted = 20_000;
/** The same for available units by partition, which need no lookup of the units themselves. */
const maxSortedInLanes = 100_000;
/** The same for the distinct priorities of available units, whose lists are merged. */
const maxPlaces = 32;

/** Sorts after every name: names have at most 4,096 bytes. */
const aboveAll = Buffer.alloc(4097, 0xff);

/** The first matching units in name order. Reads only the tables of the wanted statuses. */
function findUnits(state: State, spec: Spec, where: WorkUnitWhere, limit: number): Found[] {
  const { names, previous, prefix = "" } = where;
  const statuses = where.statuses === undefined ? workUnitStatuses : [...new Set(where.statuses)];
  const start = nameToBytes(prefix);
  const end = prefixEnd(prefix);
  const after = previous === undefined ? null : nameToBytes(previous);
  if (names !== undefined) {
    const found: Found[] = [];
    for (const name of [...new Set(names)].sort(compareNames)) {
      if (found.length === limit) break;
      const bytes = nameToBytes(name);
      if (bytes.compare(start) < 0 || (end !== null && bytes.compare(end) >= 0)) continue;
      if (after !== null && bytes.compare(after) <= 0) continue;
      const unit = findUnitByName(state, spec, name);
      if (unit === undefined || !statuses.includes(unit.status)) continue;
      if (passes(state, unit.id, where)) found.push({ id: unit.id, name: unit.name });
    }
    return found;
  }
  const { min, max } = nameRange(where);
  const { sql } = state;
  if (statuses.length === workUnitStatuses.length)
    return sql.unitsByName.all(spec.id, min, max, limit).map((row) => readFound(state, spec, row));
  const lists = statuses.flatMap((status) => findByStatus(state, spec, status, min, max, limit));
  return mergeFound(
    lists.map((rows) => rows.map((row) => readFound(state, spec, row))),
    limit,
  );
}

/** The range of matching names: from `min` up to, not including, `max`. */
function nameRange({ previous, prefix = "" }: WorkUnitWhere): { min: Buffer; max: Buffer } {
  const start = nameToBytes(prefix);
  const after = previous === undefined ? null : nameToBytes(previous);
  // the smallest name after another is that name with a zero byte appended
  const min = after !== null && after.compare(start) >= 0 ? Buffer.concat([after, Buffer.of(0)]) : start;
  return { min, max: prefixEnd(prefix) ?? aboveAll };
}

/** Checks the conditions that need a lookup per unit: label, failure group and end time. */
function passes(state: State, id: number, { label, error, endedSince }: WorkUnitWhere): boolean {
  if (label !== undefined && !extrasOf(state, id).labels.includes(label)) return false;
  if (error !== undefined && state.sql.groupOf.get(id)?.[0] !== error) return false;
  return endedSince === undefined || Number(state.sql.endOf.get(id)?.[0] ?? -1) >= endedSince;
}

/** Whether a few matching units may be spread among many that do not match. */
const isSparse = ({ label, error, endedSince }: WorkUnitWhere): boolean =>
  label !== undefined || error !== undefined || endedSince !== undefined;

/** Like `findUnits`, in slices. A slice ends after `limit` matching units or, for sparse conditions, after `limit` examined units. */
export function sliceUnits(
  state: State,
  spec: Spec,
  where: WorkUnitWhere,
  limit: number,
): { ids: number[]; next: string | null } {
  const { label, error, statuses } = where;
  if (!isSparse(where) || where.names !== undefined) {
    const found = findUnits(state, spec, where, limit + 1);
    const next = found.length > limit ? (found[limit - 1]?.name ?? null) : null;
    return { ids: found.slice(0, limit).map(({ id }) => id), next };
  }
  const { min, max } = nameRange(where);
  const read = (row: Row): Found => readFound(state, spec, row);
  const rows =
    error !== undefined
      ? state.sql.unitsByFailure.all(spec.id, error, min, max, limit).map(read)
      : label !== undefined
        ? state.sql.unitsByLabel.all(spec.id, nameToBytes(label), min, max, limit).map(read)
        : findUnits(state, spec, where, limit);
  const ids = rows
    .map(({ id }) => id)
    .filter((id) => {
      if (!passes(state, id, where)) return false;
      const status = statuses === undefined ? null : standing(state, id);
      return status === null || statuses === undefined || statuses.includes(status);
    });
  return { ids, next: rows.length < limit ? null : (rows.at(-1)?.name ?? null) };
}

/** The rows of the first matching units in name order. */
export function* listUnits(
  state: State,
  spec: Spec,
  where: WorkUnitWhere,
  limit: number,
): Steps<WorkUnitRow[]> {
  const rows: WorkUnitRow[] = [];
  for (let from = where; rows.length < limit; yield) {
    const left = limit - rows.length;
    const atOnce = isSparse(where) ? rowsAtOnce : Math.min(left, rowsAtOnce);
    const { ids, next } = sliceUnits(state, spec, from, atOnce);
    for (const id of ids.slice(0, left)) {
      const unit = findUnit(state, id);
      if (unit !== undefined) rows.push(readUnitRow(state, unit, where.asAdded));
    }
    if (next === null) break;
    from = { ...where, previous: next };
  }
  return rows;
}

export function* countUnits(
  state: State,
  spec: Spec,
  where: WorkUnitWhere,
  limit: number,
): Steps<CountSlice> {
  const { ids, next } = sliceUnits(state, spec, where, limit);
  const counts = emptyTally();
  let done = 0;
  for (const id of ids) {
    if (++done % rowsAtOnce === 0) yield;
    const status = standing(state, id);
    if (status !== null) counts[status]++;
  }
  return { counts, next };
}

/**
 * When the longest-waiting unit became available. Looks at a sample only: the units at both ends of the claim order or, with
 * partitions, any units.
 */
export function waitingSince(state: State, spec: Spec): { since: number; exact: boolean } {
  const { sql } = state;
  const rows = hasLanes(spec.meta)
    ? sql.waitingInLanes.all(spec.id, 2 * waitingSample)
    : [...sql.firstWaiting.all(spec.id, waitingSample), ...sql.lastWaiting.all(spec.id, waitingSample)];
  const times = rows.map(([created, since, notBefore, attemptEnd]) =>
    availableSince({
      created: created as number,
      since: (since as number | null) ?? 0,
      notBefore: notBefore as number,
      attemptEnd: (attemptEnd as number | null) ?? 0,
    }),
  );
  return { since: Math.min(...times), exact: spec.counts.available <= 2 * waitingSample };
}

const readFound = (state: State, spec: Spec, [id, name]: Row): Found => ({
  id: id as number,
  name: exactName(state, spec, id as number, name),
});

/** The first units of one status, as one or several lists in name order. */
function findByStatus(
  state: State,
  spec: Spec,
  status: WorkUnitStatus,
  min: Value,
  max: Value,
  limit: number,
): Row[][] {
  const { sql } = state;
  if (spec.counts[status] === 0) return [];
  const list = (statement: Statement): Row[][] => [statement.all(spec.id, min, max, limit)];
  switch (status) {
    case "blocked":
      return list(sql.blockedByName);
    case "finished":
      return list(sql.finishedByName);
    case "failed":
      return list(sql.failedByName);
    case "delayed":
      return list(sql.delayedByName);
    case "pending":
      return list(spec.counts.pending > maxSorted ? sql.pendingWalk : sql.pendingByName);
    case "available": {
      if (hasLanes(spec.meta))
        return list(spec.counts.available > maxSortedInLanes ? sql.readyLaneWalk : sql.readyLaneByName);
      const places: Value[] = [];
      for (
        let next = sql.firstReady.get(spec.id);
        next !== undefined;
        next = sql.nextPlace.get(spec.id, next[0] ?? null)
      ) {
        if (places.push(next[0] ?? null) > maxPlaces) return list(sql.readyWalk);
      }
      return places.map((one) => sql.readyByName.all(spec.id, one, min, max, limit));
    }
  }
}

function mergeFound(lists: Found[][], limit: number): Found[] {
  if (lists.length === 1) return lists[0] ?? [];
  return lists
    .flat()
    .sort((a, b) => compareNames(a.name, b.name))
    .slice(0, limit);
}

/** The row of a unit, with the statuses of its dependencies. */
export const readUnitRow = (state: State, unit: Unit, asAdded = false): WorkUnitRow =>
  unitRow(
    unit,
    readNeeds(state, unit.id).map(({ workSpec, workUnit, kind, target }) => ({
      workSpec,
      workUnit,
      kind,
      status: standing(state, target),
    })),
    extrasOf(state, unit.id),
    asAdded,
  );
