/** Adding, finding, changing and deleting units. */
import {
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
  type WorkUnitRow,
  type WorkUnitStatus,
  type WorkUnitWhere,
} from "../core/index.ts";
import type { Session, Transaction } from "./connection.ts";
import { findNeeds, forgetNeeds, park, resolve, setNeeds } from "./dependents.ts";
import { catchUpUnit } from "./expiry.ts";
import {
  extraArrays,
  extrasFrom,
  newUnit,
  place,
  readNeeds,
  readUnit,
  statusCode,
  unitColumns,
  unitRow,
  type Batch,
  type Need,
  type Spec,
  type Unit,
} from "./state.ts";
import { comparePlaces, placeOf, type Place } from "./floor.ts";
import { emptyDelta, tallyConflict, tallyEpoch, tallyInsert, tallyOf, writeTallies } from "./tally.ts";
import { byteas, CopyRows, dataBytes, float8s, int2s, int8s, keyPrefix, nameKey, nameOf } from "./values.ts";

// ---- adding

/**
 * Units that are all new and wait for nothing, in one statement. Throws a unique violation when one of them exists, and
 * answers false when the work spec is not there any more; then nothing was written.
 */
const insertStatement = (named: boolean): string => `
  WITH spec AS MATERIALIZED (SELECT id, namespace FROM @spec WHERE id = $1 AND NOT dead),
  added AS (
    INSERT INTO @unit (id, spec, key, long_name, status, place, not_before, created, data${named ? ", queues, labels" : ""})
    SELECT g.id, spec.id, g.key, g.long_name, g.status, g.place, g.not_before, $2, g.data${named ? ", e.queues, e.labels" : ""}
    FROM spec, unnest($3::bigint[], $4::bytea[], $5::bytea[], $6::smallint[], $7::float8[], $8::bigint[], $9::bytea[])
      AS g (id, key, long_name, status, place, not_before, data)${named ? ` LEFT JOIN (${extrasFrom(14)}) e ON e.id = g.id` : ""}
    RETURNING status${named ? ", id, spec, key, labels" : ""}
  )${
    named
      ? `, labelled AS (
    INSERT INTO @label (spec, label, key, unit)
    SELECT a.spec, @label_key(l.label), a.key, a.id FROM added a, unnest(a.labels) AS l (label)
    ON CONFLICT (spec, label, key) DO UPDATE SET unit = excluded.unit
  )`
      : ""
  }, noted AS (
    INSERT INTO @request (namespace, spec, id, time, answer)
    SELECT namespace, id, $10::bytea, $2, $11::text FROM spec WHERE $10::bytea IS NOT NULL
  ), tallied AS (
    ${tallyInsert}
    SELECT $1, pg_backend_pid(), count(*) FILTER (WHERE status = 0), count(*) FILTER (WHERE status = 1), 0, 0, 0, 0, 0, 0,
      count(*) FILTER (WHERE status = 0), CASE WHEN bool_or(status = 0) THEN ${tallyEpoch} ELSE 0 END,
      $12::float8, $13::bytea
    FROM added HAVING count(*) > 0
    ${tallyConflict}
  )
  SELECT 1 FROM spec`;

export const insertSql = insertStatement(false);
/** For units of which some have queues or labels. */
export const insertNamedSql = insertStatement(true);

/** From so many on, adds go by COPY: a third less work for the server, for two more round trips. */
export const copyFromUnits = 500;

interface NewRow {
  id: number;
  put: WorkUnitPut;
  key: Buffer;
  long: Buffer | null;
}

/**
 * New rows in the order of their keys: two adds of the same names wait for each other at the first of them. In any other order
 * each may hold what the other waits for, and eight engines that added the same fifty names spent half a minute in deadlocks.
 */
export function inKeyOrder(puts: readonly WorkUnitPut[], ids: readonly number[]): NewRow[] {
  const rows = puts.map((put, i): NewRow => ({ id: ids[i]!, put, ...nameKey(put.name) }));
  const sorted = rows.every((row, i) => i === 0 || Buffer.compare(rows[i - 1]!.key, row.key) <= 0);
  return sorted ? rows : rows.sort((a, b) => Buffer.compare(a.key, b.key));
}

/** The first place among those that can be claimed now, and how many those are. */
function firstPlace(rows: readonly NewRow[], now: number): { first: Place | null; available: number } {
  let first: Place | null = null;
  let available = 0;
  for (const { put, key } of rows) {
    if (put.notBefore > now) continue;
    available++;
    const at: Place = { place: placeOf(put.priority), key };
    if (first === null || comparePlaces(at, first) < 0) first = at;
  }
  return { first, available };
}

/** The same by COPY. */
export async function copyUnits(
  tx: Transaction,
  spec: Spec,
  rows: readonly NewRow[],
  request: { id: Buffer; answer: string } | null,
  now: number,
): Promise<boolean> {
  const copy = new CopyRows(rows.length);
  for (const { id, put, key, long } of rows) {
    copy.row(9);
    copy.int8(id);
    copy.int8(spec.id);
    copy.bytes(key);
    copy.bytes(long);
    copy.int2(put.notBefore > now ? 1 : 0);
    copy.float8(placeOf(put.priority));
    copy.int8(put.notBefore);
    copy.int8(now);
    copy.data(put.data);
  }
  await tx.copy(
    `COPY @unit (id, spec, key, long_name, status, place, not_before, created, data) FROM STDIN (FORMAT binary)`,
    copy.end(),
  );
  const [alive] = await tx.rows("SELECT 1 FROM @spec WHERE id = $1 AND NOT dead", [spec.id]);
  if (alive === undefined) return false;
  if (request !== null)
    await tx.rows("INSERT INTO @request (namespace, spec, id, time, answer) VALUES ($1, $2, $3, $4, $5)", [
      spec.namespace,
      spec.id,
      request.id,
      now,
      request.answer,
    ]);
  const { first, available } = firstPlace(rows, now);
  const delta = { ...emptyDelta(), available, delayed: rows.length - available, arrivals: available, first };
  await writeTallies(tx, new Map([[spec.id, delta]]));
  return true;
}

export function insertValues(
  spec: number,
  rows: readonly NewRow[],
  request: { id: Buffer; answer: string } | null,
  now: number,
): unknown[] {
  const { first } = firstPlace(rows, now);
  return [
    spec,
    now,
    int8s(rows.map(({ id }) => id)),
    byteas(rows.map(({ key }) => key)),
    byteas(rows.map(({ long }) => long)),
    int2s(rows.map(({ put }) => (put.notBefore > now ? 1 : 0))),
    float8s(rows.map(({ put }) => placeOf(put.priority))),
    int8s(rows.map(({ put }) => put.notBefore)),
    byteas(rows.map(({ put }) => dataBytes(put.data))),
    request?.id ?? null,
    request?.answer ?? null,
    first?.place ?? null,
    first?.key ?? null,
  ];
}

export const isNamed = ({ queues, labels }: WorkUnitPut): boolean =>
  queues !== undefined || labels !== undefined;

/** What the statement for units with queues or labels is given besides. */
export function namedValues(rows: readonly NewRow[]): unknown[] {
  const named = rows.filter(({ put }) => isNamed(put)).map(({ id, put }) => ({ ...put, id }));
  const { ids, kinds, values } = extraArrays(named);
  return [ids, kinds, values];
}

/** Adds any units; the names must not be loaded before. */
export async function putUnits(
  batch: Batch,
  spec: Spec,
  puts: readonly WorkUnitPut[],
  origin: string | null = null,
): Promise<AddedWorkUnit[]> {
  await prepareUnits(
    batch,
    spec,
    puts.map(({ name }) => name),
  );
  return putLoadedUnits(batch, spec, puts, origin);
}

/** Reads the units of these names, with what they wait for, and makes them current. */
export async function prepareUnits(batch: Batch, spec: Spec, names: readonly string[]): Promise<void> {
  await batch.loadNames(spec, names);
  const found = names.map((name) => batch.find(spec, name)).filter((unit) => unit !== undefined);
  await batch.loadNeeds(found.filter(({ needRows }) => needRows === null));
  for (const unit of found) await catchUpUnit(batch, unit);
  await batch.nextIds(names.length);
}

export async function putLoadedUnits(
  batch: Batch,
  spec: Spec,
  puts: readonly WorkUnitPut[],
  origin: string | null = null,
): Promise<AddedWorkUnit[]> {
  const { now } = batch;
  // units that wait for others are found first, all of them, so that a refused one changes nothing
  const fresh = new Map<string, Unit>();
  let needs: Map<Unit, Need[]> | null = null;
  if (puts.some((put) => put.dependencies !== null)) {
    const all = new Map<string, Unit>();
    for (const put of puts) {
      if (all.has(put.name)) continue;
      let unit = batch.find(spec, put.name);
      if (unit === undefined) fresh.set(put.name, (unit = newUnit(batch.takeId(), spec, put, now)));
      all.set(put.name, unit);
    }
    needs = await findNeeds(batch, spec, puts, all);
  }
  const answer: AddedWorkUnit[] = [];
  // all are known before any is looked at: those that wait may wait for others of the same add
  for (const unit of fresh.values()) batch.units.set(unit.id, unit);
  for (const put of puts) {
    let unit = batch.find(spec, put.name);
    const created = unit === undefined;
    if (unit === undefined) {
      unit = fresh.get(put.name) ?? newUnit(batch.takeId(), spec, put, now);
      batch.add(unit);
      unit.priority = put.priority;
      unit.notBefore = put.notBefore;
      unit.data = put.data;
      batch.setExtras(unit, put.queues, put.labels);
    } else {
      if (unit.status === "finished" || unit.status === "failed") {
        batch.supersede(unit);
        unit.tries = 0;
        unit.status = "available";
        unit.since = now;
      }
      batch.setData(unit, put.data);
      batch.setExtras(unit, put.queues, put.labels);
      unit.priority = put.priority;
      unit.notBefore = put.notBefore;
    }
    if (origin !== null) unit.origin = origin;
    const needed = put.dependencies === null ? undefined : needs?.get(unit);
    if (needed !== undefined) setNeeds(batch, unit, needed);
    await batch.loadNeeds([unit]);
    if (unit.status === "pending") place(unit, "pending");
    else await park(batch, unit);
    answer.push({ name: unit.name, id: unit.id, created, status: unit.status });
  }
  return answer;
}

// ---- finding

interface Range {
  conditions: string[];
  values: unknown[];
}

/** Conditions on names. `$1` is the spec; keys are compared where they are looked for. */
function nameRange(where: WorkUnitWhere, keys = "u"): Range {
  const conditions: string[] = [];
  const values: unknown[] = [];
  const value = (given: unknown): string => `$${values.push(given) + 1}`;
  if (where.names !== undefined) {
    const named = [...new Set(where.names)].map((name) => nameKey(name).key);
    conditions.push(`${keys}.key = ANY (${value(byteas(named))}::bytea[])`);
  }
  if (where.previous !== undefined)
    conditions.push(`${keys}.key > ${value(nameKey(where.previous).key)}::bytea`);
  if (where.prefix !== undefined) {
    const start = nameToBytes(where.prefix);
    const end = prefixEnd(where.prefix);
    conditions.push(`${keys}.key >= ${value(keyPrefix(start))}::bytea`);
    // the key of a very long name is not all of it
    conditions.push(`coalesce(u.long_name, u.key) >= ${value(start)}::bytea`);
    if (end !== null) {
      const whole = value(end);
      if (start.length === keyPrefix(start).length) conditions.push(`${keys}.key < ${whole}::bytea`);
      conditions.push(`coalesce(u.long_name, u.key) < ${whole}::bytea`);
    }
  }
  return { conditions, values };
}

/** So many rows are read by their status and sorted, rather than found one by one in the order of names. */
const fewEnough = 20_000;

/**
 * The first matching units in name order. All statuses: along the index of names. Some: by the small indexes of the statuses
 * when there are few of them, else along the names too, where many are met.
 */
async function selectUnits<Found>(
  session: Session,
  spec: Spec,
  where: WorkUnitWhere,
  columns: string,
  limit: number,
  read: (row: readonly unknown[]) => Found,
): Promise<Found[]> {
  const { statuses } = where;
  if (where.label !== undefined) return selectLabelled(session, spec, where, columns, limit, read);
  const { conditions, values } = nameRange(where);
  const given = [spec.id, ...values, limit];
  const tail = `ORDER BY u.key LIMIT $${given.length}`;
  const condition = conditions.map((one) => ` AND ${one}`).join("");
  if (statuses?.length === 0 || where.names?.length === 0) return [];
  const codes = statuses === undefined ? null : statusCodes(statuses);
  let from = `@unit u WHERE u.spec = $1${condition}`;
  if (codes !== null) {
    if (where.names === undefined && (await isRare(session, spec, statuses ?? []))) {
      // literal statuses: only then may the partial indexes be used; MATERIALIZED: no walk along the names instead
      const parts = codes.map(
        (code) => `SELECT * FROM @unit u WHERE u.spec = $1 AND u.status = ${code}${condition}`,
      );
      const few = `WITH few AS MATERIALIZED (${parts.join(" UNION ALL ")})`;
      return (await session.rows(`${few} SELECT ${columns} FROM few u ${tail}`, given)).map(read);
    }
    from += ` AND u.status IN (${codes.join(", ")})`;
  }
  return (await session.rows(`SELECT ${columns} FROM ${from} ${tail}`, given)).map(read);
}

/**
 * The same of units with a label, along the label's own index. LATERAL and LIMIT keep the planner from beginning with the
 * units.
 */
async function selectLabelled<Found>(
  session: Session,
  spec: Spec,
  where: WorkUnitWhere,
  columns: string,
  limit: number,
  read: (row: readonly unknown[]) => Found,
): Promise<Found[]> {
  const { statuses, label = "", names } = where;
  if (statuses?.length === 0 || names?.length === 0) return [];
  const { conditions, values } = nameRange(where, "b");
  const given = [spec.id, ...values, nameToBytes(label), limit];
  const standing = statuses === undefined ? "" : ` AND u.status IN (${statusCodes(statuses).join(", ")})`;
  const rows = await session.rows(
    `SELECT ${columns} FROM @label b CROSS JOIN LATERAL (
       SELECT * FROM @unit u WHERE u.id = b.unit${standing} LIMIT 1
     ) u WHERE b.spec = $1 AND b.label = @label_key($${given.length - 1}::bytea)${conditions.map((one) => ` AND ${one}`).join("")}
     ORDER BY b.key LIMIT $${given.length}`,
    given,
  );
  return rows.map(read);
}

const statusCodes = (statuses: readonly WorkUnitStatus[]): number[] =>
  [...new Set(statuses)].map((status) => statusCode[status]).sort();

export async function countUnits(
  session: Session,
  spec: Spec,
  where: WorkUnitWhere,
  limit: number,
): Promise<CountSlice> {
  const read = (row: readonly unknown[]): [number, Buffer, Buffer | null] =>
    row as unknown as [number, Buffer, Buffer | null];
  const rows = await selectUnits(session, spec, where, "u.status, u.key, u.long_name", limit + 1, read);
  const more = rows.length > limit;
  if (more) rows.pop();
  const counts = emptyTally();
  for (const [code] of rows) counts[workUnitStatuses[code] ?? "available"]++;
  const last = rows.at(-1);
  return { counts, next: more && last !== undefined ? nameOf(last[1], last[2]) : null };
}

/** Since when units wait, of those at both ends of the claim order of each work spec; see `availableSince` of core. */
export const waitingSinceSql = `
  SELECT n.name, s.name, c.available, least(first.since, last.since)
  FROM @namespace n JOIN @spec s ON s.namespace = n.id AND NOT s.dead, LATERAL ${tallyOf("s.id")} c,
    LATERAL (${oldestOf("u.place, u.key")}) first, LATERAL (${oldestOf("u.place DESC, u.key DESC")}) last
  WHERE NOT n.dead AND ($1::bytea IS NULL OR n.name = $1::bytea) AND c.available > 0 AND first.since IS NOT NULL
  ORDER BY n.name, s.name`;

function oldestOf(order: string): string {
  return `
    SELECT min(since) AS since FROM (
      SELECT greatest(coalesce(u.since, u.created), u.not_before, coalesce(u.attempt_end, 0)) AS since
      FROM @unit u WHERE u.spec = s.id AND u.status = 0 ORDER BY ${order} LIMIT ${waitingSample}
    ) AS sampled`;
}

async function isRare(session: Session, spec: Spec, statuses: readonly WorkUnitStatus[]): Promise<boolean> {
  const [row] = await session.rows(
    `SELECT c.available, c.delayed, c.blocked, c.pending, c.finished, c.failed FROM ${tallyOf("$1")} c`,
    [spec.id],
  );
  const counts = row as number[];
  const matching = [...new Set(statuses)].reduce((sum, status) => sum + (counts[statusCode[status]] ?? 0), 0);
  const all = counts.reduce((sum, count) => sum + count, 0);
  return matching <= fewEnough && matching * 4 < all;
}

export async function readUnits(
  session: Session,
  spec: Spec,
  where: WorkUnitWhere,
  limit: number,
  now: number,
): Promise<WorkUnitRow[]> {
  const units = await selectUnits(session, spec, where, unitColumns, limit, (row) => readUnit(row, spec));
  return unitRows(session, units, now);
}

async function unitRows(session: Session, units: readonly Unit[], now: number): Promise<WorkUnitRow[]> {
  const needy = units.filter(({ needs }) => needs);
  if (needy.length > 0) {
    const needs = await readNeeds(session, needy, now);
    for (const unit of needy) unit.needRows = needs.get(unit.id) ?? [];
  }
  return units.map(unitRow);
}

/** The first matching units, locked, and where to go on. */
async function takeSlice(
  batch: Batch,
  spec: Spec,
  where: WorkUnitWhere,
  limit: number,
  data: boolean,
): Promise<{ units: Unit[]; next: string | null }> {
  const ids = await selectUnits(batch.tx, spec, where, "u.id", limit + 1, (row) => row[0] as number);
  const more = ids.length > limit;
  if (more) ids.pop();
  await batch.load(ids, { data });
  // what changed between the two looks matches no more, but still is where the slice ends
  const units = ids.map((id) => batch.units.get(id)).filter((unit) => unit !== undefined);
  const matching = units.filter(
    ({ status }) => where.statuses === undefined || where.statuses.includes(status),
  );
  return { units: matching, next: more ? (units.at(-1)?.name ?? null) : null };
}

// ---- changing

export async function updateUnits(
  batch: Batch,
  spec: Spec,
  where: WorkUnitWhere,
  change: WorkUnitChange,
  limit: number,
): Promise<UnitSlice> {
  const { units, next } = await takeSlice(batch, spec, where, limit, change.kind === "reset");
  await batch.loadNeeds(units);
  let count = 0;
  for (const unit of units) if (await updateUnit(batch, unit, change)) count++;
  await batch.flush();
  return { count, next };
}

async function updateUnit(batch: Batch, unit: Unit, change: WorkUnitChange): Promise<boolean> {
  const { status } = unit;
  const ended = status === "finished" || status === "failed";
  if (change.kind === "reset") {
    if (!ended && status !== "pending") return false;
    batch.supersede(unit);
    unit.tries = 0;
    unit.since = batch.now;
    await park(batch, unit);
    return true;
  }
  if (change.kind === "set-delay" && (ended || status === "pending")) return false;
  if (change.kind === "set-priority") unit.priority = change.priority;
  else if (change.kind === "adjust-priority") unit.priority += change.by;
  else unit.notBefore = change.notBefore;
  if (ended || status === "pending") place(unit, status);
  else await park(batch, unit);
  return true;
}

// ---- deleting

export async function deleteUnits(
  batch: Batch,
  spec: Spec,
  where: WorkUnitWhere,
  limit: number,
): Promise<UnitSlice> {
  const { units, next } = await takeSlice(batch, spec, where, limit, false);
  await removeUnits(batch, units);
  await batch.flush();
  return { count: units.length, next };
}

/** Takes units away with all that is theirs; whoever waits for them goes on or fails. The caller flushes. */
export async function removeUnits(batch: Batch, units: readonly Unit[]): Promise<void> {
  if (units.length === 0) return;
  for (const unit of units) unit.deleted = true;
  const ids = int8s(units.map(({ id }) => id));
  await batch.tx.rows("DELETE FROM @unit WHERE id = ANY ($1::bigint[])", [ids]);
  const tried = units
    .filter(({ attempts, attempt }) => attempts > (attempt === null ? 0 : 1))
    .map(({ id }) => id);
  if (tried.length > 0)
    await batch.tx.rows("DELETE FROM @history WHERE unit = ANY ($1::bigint[])", [int8s(tried)]);
  await forgetNeeds(batch, units);
  // only when all are gone: one that waits for another of these is not failed on the way
  await resolve(batch, units);
}
