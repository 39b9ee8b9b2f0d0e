/** Adding, finding, changing and deleting units. */
import {
  availableSince,
  compareNames,
  emptyTally,
  nameToBytes,
  prefixEnd,
  waitingSample,
  workUnitStatuses,
  type AddedWorkUnit,
  type CountSlice,
  type UnitSlice,
  type WorkUnitChange,
  type WorkUnitPut,
  type WorkUnitStatus,
  type WorkUnitWhere,
} from "../core/index.ts";
import { dropNeeds, findNeeds, park, resolve, setNeeds, type NewNeed } from "./dependents.ts";
import type { Row, Statement, Value } from "./driver.ts";
import { addExtra, dropExtra, dropExtras, extraOf, setExtra } from "./extras.ts";
import {
  dataValue,
  exactName,
  findUnit,
  findUnitByName,
  isUsualName,
  nameValue,
  place,
  saveUnit,
  statusOf,
  supersede,
  unplace,
  type Origin,
  type Spec,
  type State,
  type Unit,
} from "./state.ts";
import { unitState } from "./schema.ts";
import { manyRows } from "./statements.ts";

/** A long piece of work that lets others have their turn where it yields; the transaction stays open meanwhile. */
export type Steps<Answer> = Generator<undefined, Answer>;

// ---- adding

/** How many units are looked at one by one before others have a chance of a turn. */
export const unitsAtOnce = 100;

export interface Put extends WorkUnitPut {
  /** The attempt whose output asks for it. */
  origin?: Origin;
}

export function* putUnits(
  state: State,
  spec: Spec,
  puts: readonly Put[],
  now: number,
): Steps<AddedWorkUnit[]> {
  if (puts.some((put) => put.dependencies !== null)) return putWithNeeds(state, spec, puts, now);
  const added: AddedWorkUnit[] = [];
  // who adds units that exist does so in long rows: after one piece that was not all new, none is tried as such
  let allNew = true;
  for (let from = 0; from < puts.length; from += manyRows) {
    if (from > 0) yield;
    const many = puts.length <= manyRows ? puts : puts.slice(from, from + manyRows);
    const fresh: AddedWorkUnit[] | null = allNew ? addFresh(state, spec, many, now) : null;
    const rows: AddedWorkUnit[] = fresh ?? many.map((put) => putOne(state, spec, put, false, undefined, now));
    allNew = rows.every(({ created }) => created);
    added.push(...rows);
  }
  return added;
}

/** Adds units that are all new with a few statements for all of them; null when that is not so. */
function addFresh(state: State, spec: Spec, puts: readonly Put[], now: number): AddedWorkUnit[] | null {
  if (!puts.every(({ name }) => isUsualName(name))) return null;
  const { sql } = state;
  state.writes++;
  const first = state.counters.unit + 1;
  const last = first + puts.length - 1;
  let created = 0;
  if (puts.length < manyRows) {
    for (const [i, { name, data, priority, notBefore, origin }] of puts.entries())
      created += sql.addOneUnit.run(
        first + i,
        spec.id,
        name,
        priority,
        notBefore,
        now,
        dataValue(data),
        origin?.unit ?? null,
        origin?.number ?? null,
      );
  } else if (
    puts.every(({ priority, notBefore, origin }) => priority === 0 && notBefore === 0 && origin === undefined)
  ) {
    const values: Value[] = [first, spec.id, now];
    for (const { name, data } of puts) values.push(name, dataValue(data));
    created = sql.addPlainUnits.run(...values);
  } else {
    const values: Value[] = [first, spec.id, now];
    for (const { name, data, priority, notBefore, origin } of puts)
      values.push(name, dataValue(data), priority, notBefore, origin?.unit ?? null, origin?.number ?? null);
    created = sql.addUnits.run(...values);
  }
  if (created < puts.length) {
    // some exist, or one name comes twice: one by one then, and with the ids they would have had
    if (created > 0) sql.dropUnitRange.run(first, last);
    return null;
  }
  state.nextId("unit", puts.length);
  state.touch(spec);
  for (const [i, put] of puts.entries()) addExtra(state, spec, first + i, put);
  const [one] = puts;
  let available = 1;
  if (puts.length === 1 && one!.notBefore <= now)
    sql.addReady.run(spec.id, 0 - one!.priority, one!.name, first, 0);
  else {
    available = sql.readyRange.run(first, last, now);
    if (available < puts.length) sql.delayRange.run(first, last, now);
  }
  spec.counts.available += available;
  spec.counts.delayed += puts.length - available;
  return puts.map(({ name, priority, notBefore }, i) => {
    const delayed = notBefore > now;
    if (delayed && spec.due !== undefined) spec.due = Math.min(spec.due ?? notBefore, notBefore);
    if (!delayed && spec.top !== undefined) spec.top = Math.max(spec.top ?? priority, priority);
    return { name, id: first + i, created: true, status: delayed ? "delayed" : "available" };
  });
}

/** Units that wait for others are found first, all of them, so that a refused one changes nothing. */
function putWithNeeds(state: State, spec: Spec, puts: readonly Put[], now: number): AddedWorkUnit[] {
  const fresh = new Map<string, number>();
  const ids = new Map<string, number>();
  for (const { name } of puts) {
    if (ids.has(name)) continue;
    let id = state.sql.unitId.get(spec.id, nameValue(name))?.[0];
    if (typeof id !== "number") fresh.set(name, (id = state.nextId("unit")));
    ids.set(name, id);
  }
  const needs = findNeeds(state, spec, puts, ids);
  // the new ones are there before any of them is looked at by one that waits for it
  for (const put of puts) {
    const id = fresh.get(put.name);
    if (id !== undefined && findUnitByName(state, spec, put.name) === undefined)
      addUnit(state, spec, put, id, now);
  }
  return puts.map((put) => {
    const id = ids.get(put.name);
    const needed = put.dependencies === null || id === undefined ? undefined : needs.get(id);
    return putOne(state, spec, put, fresh.delete(put.name), needed, now);
  });
}

function putOne(
  state: State,
  spec: Spec,
  put: Put,
  fresh: boolean,
  needs: NewNeed[] | undefined,
  now: number,
): AddedWorkUnit {
  let unit = findUnitByName(state, spec, put.name);
  const created = fresh || unit === undefined;
  if (unit === undefined) unit = addUnit(state, spec, put, state.nextId("unit"), now);
  else if (!fresh) {
    unplace(state, unit);
    if (unit.status === "finished" || unit.status === "failed") {
      supersede(state, unit, now);
      unit.tries = 0;
      unit.status = "available";
      unit.since = now;
    }
  }
  unit.data = put.data;
  unit.priority = put.priority;
  unit.notBefore = put.notBefore;
  if (put.origin !== undefined) unit.origin = put.origin;
  if (needs !== undefined) setNeeds(state, unit, needs);
  setExtra(state, unit, put);
  if (unit.status === "pending") keep(state, unit);
  else park(state, unit, now);
  return { name: unit.name, id: unit.id, created, status: unit.status };
}

function addUnit(
  state: State,
  spec: Spec,
  { name, data, priority, notBefore }: Put,
  id: number,
  now: number,
): Unit {
  if (spec.plain && !isUsualName(name)) {
    spec.plain = false;
    state.undo(() => {
      spec.plain = true;
    });
    state.sql.setSpecPlain.run(spec.id);
  }
  state.writes++;
  state.sql.addUnit.run(id, spec.id, nameValue(name), priority, notBefore, now, dataValue(data));
  return {
    id,
    spec,
    name,
    status: "available",
    data,
    priority,
    notBefore,
    created: now,
    attempts: 0,
    tries: 0,
    origin: null,
    attempt: null,
    since: 0,
  };
}

/** Puts a unit back where it stood. */
function keep(state: State, unit: Unit): void {
  place(state, unit, unit.status);
  saveUnit(state, unit);
}

// ---- finding

interface Found {
  id: number;
  name: string;
}

/** Past this many, leases are not sorted and places of priority not merged: units are met in name order instead. */
const mostSorted = 20_000;
const mostPlaces = 32;

/** Above every name: names have at most 4,096 bytes. */
const aboveAll = Buffer.alloc(4097, 0xff);

/** The first matching units in name order. Takes what it needs from the tables by status: nothing else is looked at. */
export function findUnits(state: State, spec: Spec, where: WorkUnitWhere, limit: number): Found[] {
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
      if (where.label === undefined || extraOf(state, unit.id).labels.includes(where.label))
        found.push({ id: unit.id, name: unit.name });
    }
    return found;
  }
  const { least, most } = nameRange(where);
  const { sql } = state;
  if (statuses.length === workUnitStatuses.length)
    return sql.unitsByName.all(spec.id, least, most, limit).map((row) => readFound(state, spec, row));
  const lists = statuses.flatMap((status) => findByStatus(state, spec, status, least, most, limit));
  return mergeFound(
    lists.map((rows) => rows.map((row) => readFound(state, spec, row))),
    limit,
  );
}

/** Where names begin and end. */
function nameRange({ previous, prefix = "" }: WorkUnitWhere): { least: Buffer; most: Buffer } {
  const start = nameToBytes(prefix);
  const after = previous === undefined ? null : nameToBytes(previous);
  // the least name after another is that name with a zero byte
  const least = after !== null && after.compare(start) >= 0 ? Buffer.concat([after, Buffer.of(0)]) : start;
  return { least, most: prefixEnd(prefix) ?? aboveAll };
}

export const standing = (state: State, unit: number): WorkUnitStatus | null => {
  const row = state.sql.unitStanding.get(unit);
  return row === undefined ? null : statusOf(row[0] as number, row[1] === 1, row[2] === 1);
};

/**
 * The same as a slice, which is cut after `limit` units or, where a label is asked for, after as many that have it: a few
 * that match may stand among many that do not.
 */
export function sliceUnits(
  state: State,
  spec: Spec,
  where: WorkUnitWhere,
  limit: number,
): { found: Found[]; next: string | null } {
  const { label, statuses } = where;
  if (label === undefined || where.names !== undefined) {
    const found = findUnits(state, spec, where, limit + 1);
    const next = found.length > limit ? (found[limit - 1]?.name ?? null) : null;
    return { found: found.slice(0, limit), next };
  }
  const { least, most } = nameRange(where);
  const rows = state.sql.unitsByLabel
    .all(spec.id, nameToBytes(label), least, most, limit)
    .map((row) => readFound(state, spec, row));
  const found = rows.filter(({ id }) => {
    const status = statuses === undefined ? null : standing(state, id);
    return status === null || statuses === undefined || statuses.includes(status);
  });
  return { found, next: rows.length < limit ? null : (rows.at(-1)?.name ?? null) };
}

export function* countUnits(
  state: State,
  spec: Spec,
  where: WorkUnitWhere,
  limit: number,
): Steps<CountSlice> {
  const { found, next } = sliceUnits(state, spec, where, limit);
  const counts = emptyTally();
  let done = 0;
  for (const { id } of found) {
    if (++done % 1000 === 0) yield;
    const status = standing(state, id);
    if (status !== null) counts[status]++;
  }
  return { counts, next };
}

/** When the unit became available that has waited longest, of those at both ends of the claim order. */
export function waitingSince(state: State, spec: Spec): { since: number; exact: boolean } {
  const { sql } = state;
  const rows = [
    ...sql.firstWaiting.all(spec.id, waitingSample),
    ...sql.lastWaiting.all(spec.id, waitingSample),
  ];
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
  least: Value,
  most: Value,
  limit: number,
): Row[][] {
  const { sql } = state;
  if (spec.counts[status] === 0) return [];
  const list = (statement: Statement): Row[][] => [statement.all(spec.id, least, most, limit)];
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
      return list(spec.counts.pending > mostSorted ? sql.pendingWalk : sql.pendingByName);
    case "available": {
      const places: Value[] = [];
      for (
        let next = sql.firstReady.get(spec.id);
        next !== undefined;
        next = sql.nextPlace.get(spec.id, next[0] ?? null)
      ) {
        if (places.push(next[0] ?? null) > mostPlaces) return list(sql.readyWalk);
      }
      return places.map((one) => sql.readyByName.all(spec.id, one, least, most, limit));
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

// ---- changing

/** The ids of the first matching units, and where to go on. */
export function takeSlice(
  state: State,
  spec: Spec,
  where: WorkUnitWhere,
  limit: number,
): { ids: number[]; next: string | null } {
  const { found, next } = sliceUnits(state, spec, where, limit);
  return { ids: found.map(({ id }) => id), next };
}

export function* updateUnits(
  state: State,
  spec: Spec,
  where: WorkUnitWhere,
  change: WorkUnitChange,
  limit: number,
  now: number,
): Steps<UnitSlice> {
  const { ids, next } = takeSlice(state, spec, where, limit);
  let count = 0;
  let done = 0;
  for (const id of ids) {
    if (++done % unitsAtOnce === 0) yield;
    const unit = findUnit(state, id);
    if (unit !== undefined && updateUnit(state, unit, change, now)) count++;
  }
  return { count, next };
}

function updateUnit(state: State, unit: Unit, change: WorkUnitChange, now: number): boolean {
  const { status } = unit;
  const ended = status === "finished" || status === "failed";
  if (change.kind === "reset") {
    if (!ended && status !== "pending") return false;
    unplace(state, unit);
    supersede(state, unit, now);
    unit.tries = 0;
    unit.since = now;
    park(state, unit, now);
    return true;
  }
  if (change.kind === "set-delay" && (ended || status === "pending")) return false;
  unplace(state, unit);
  if (change.kind === "set-priority") unit.priority = change.priority;
  else if (change.kind === "adjust-priority") unit.priority += change.by;
  else unit.notBefore = change.notBefore;
  if (ended || status === "pending") keep(state, unit);
  else park(state, unit, now);
  return true;
}

// ---- deleting

/** Deletes units of one spec, by id. */
export function* deleteUnits(state: State, spec: Spec, ids: readonly number[], now: number): Steps<void> {
  state.noteEnds(ids);
  if (state.counters.needs === 0) {
    for (let from = 0; from < ids.length; from += deletedAtOnce) {
      if (from > 0) yield;
      deleteMany(state, spec, ids.slice(from, from + deletedAtOnce));
    }
    return;
  }
  let done = 0;
  for (const id of ids) {
    const unit = findUnit(state, id);
    if (unit === undefined) continue;
    unplace(state, unit);
    forget(state, unit);
    if (++done % unitsAtOnce === 0) yield;
  }
  // only when all are gone: one that waits for another of these is not failed on the way
  for (const id of ids) resolve(state, id, now);
}

const deletedAtOnce = 500;

/** While nothing waits for anything, a few statements do for many. */
function deleteMany(state: State, spec: Spec, ids: readonly number[]): void {
  const { sql } = state;
  const { counts } = spec;
  const list = JSON.stringify(ids);
  state.touch(spec);
  state.writes++;
  for (const [stored, count] of sql.countStates.all(list)) {
    if (stored === unitState.finished) counts.finished -= count as number;
    else if (stored === unitState.failed) counts.failed -= count as number;
    else if (stored === unitState.blocked) counts.blocked -= count as number;
  }
  for (const id of ids) if (state.leases.get(id) !== undefined) state.setLease(id, undefined);
  counts.pending -= sql.dropLeases.run(list);
  counts.available -= sql.dropReadyMany.run(list);
  counts.delayed -= sql.dropDelayedMany.run(list);
  if (spec.retained > 0) sql.dropEndedMany.run(list);
  dropExtras(state, spec, ids);
  sql.dropHistoryMany.run(list);
  sql.dropUnits.run(list);
  spec.top = spec.due = undefined;
}

/** Takes a unit out of everything but where it stands. */
export function forget(state: State, unit: Unit): void {
  dropNeeds(state, unit.id);
  dropExtra(state, unit.spec, unit.id, unit.name);
  state.writes++;
  state.sql.dropUnit.run(unit.id);
  if (unit.attempts > (unit.attempt === null ? 0 : 1)) state.sql.dropHistory.run(unit.id);
}
