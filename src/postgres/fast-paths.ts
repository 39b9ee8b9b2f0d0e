/**
 * The fast paths of add and settle: one statement that is a transaction by itself. Each does what the rules of core would do, or
 * nothing. The fast paths of claims are in `claims.ts` and `lane-claims.ts`, and that of expiry in `expiry.ts`.
 * `PostgresParts.fastPaths` switches all of them off, and tests run the same random histories with and without them. Everywhere
 * else in this store the rules of core decide what happens to a unit.
 */
import {
  actionStatus,
  addsInterleaved,
  hasLanes,
  interleaveByPartition,
  nameToBytes,
  readOutputs,
  unchanged,
  type AttemptChanged,
  type Outputs,
  type Settle,
  type WorkSpecMeta,
  type WorkUnitPut,
} from "../core/index.ts";
import { failUnless, isRow, oneOrAll, type Database, type Row, type Transaction } from "./connection.ts";
import { hasOverdue } from "./expiry.ts";
import { extraArrays, extrasFrom, labelRows, retryArrays } from "./extras.ts";
import { comparePlaces, placeOf, type Place } from "./floor.ts";
import { LaneNotes, noteColumns, noteInsert, notesFrom, writeNotes } from "./lanes.ts";
import { countedSql } from "./outcomes.ts";
import { takeSeqs } from "./queues.ts";
import { hasOverdueAcross, atOf, endedInsert, leaseDelete, waitingInsert } from "./standing.ts";
import { epochOf, tallyConflict, tallyInsert } from "./tally.ts";
import { laneOf, type Spec } from "./units.ts";
import { bools, byteas, CopyRows, dataBytes, float8s, int2s, int4s, int8s } from "./values.ts";

// ---- adding

/**
 * Records the request and counts the units, if the work spec still exists. `counts` is a row with the numbers of available and of
 * delayed units.
 */
const notedAndCounted = (counts: string): string => `noted AS (
    INSERT INTO @request (namespace, spec, id, time, answer)
    SELECT namespace, id, $3::bytea, $2::bigint, $4::text FROM spec WHERE $3::bytea IS NOT NULL
  ), tallied AS (
    ${tallyInsert}
    SELECT spec.id, pg_backend_pid(), c.available, c.delayed, 0, 0, 0, 0, 0, 0,
      c.available, CASE WHEN c.available > 0 THEN $7::bigint ELSE 0 END, $5::float8, $6::bytea, 0
    FROM spec, ${counts} AS c (available, delayed)
    ${tallyConflict}
  )
  SELECT 1 FROM spec`;

/**
 * Inserts units that are all new and have no dependencies. Throws a unique violation if one of them exists. Returns no row, and
 * writes nothing, if the work spec is gone or, where $8 is the digest of its metadata as last seen, if its metadata has changed
 * or it has overdue work.
 */
const insertStatement = (named: boolean): string => `
  WITH spec AS MATERIALIZED (
    SELECT s.id, s.namespace, s.laned FROM @spec s JOIN @namespace n ON n.id = s.namespace
    WHERE s.id = $1 AND NOT s.dead
      AND ($8::text IS NULL OR NOT n.dead AND md5(s.meta) = $8::text AND NOT ${hasOverdue("s", "$2::bigint")})
  ), added AS (
    INSERT INTO @unit (id, spec, key, status, place, not_before, created, data${named ? ", lane, partition, queues, labels, retry, max_tries" : ""})
    SELECT g.id, spec.id, g.key, g.status, g.place, g.not_before, $2::bigint, g.data${named ? ", g.lane, g.partition, e.queues, e.labels, r.retry, r.max_tries" : ""}
    FROM spec, unnest($9::bigint[], $10::bytea[], $11::smallint[], $12::float8[], $13::bigint[], $14::bytea[]${named ? ", $15::bytea[], $16::bytea[]" : ""})
      AS g (id, key, status, place, not_before, data${named ? ", lane, partition" : ""})${
        named
          ? ` LEFT JOIN (${extrasFrom(17)}) e ON e.id = g.id
      LEFT JOIN unnest($29::bigint[], $30::text[], $31::int[]) AS r (id, retry, max_tries) ON r.id = g.id`
          : ""
      }
    RETURNING id, spec, key, status, place, not_before${named ? ", lane, max_tries" : ""}
  ), stands AS (
    INSERT INTO @waiting (unit, spec, at, status, key${named ? ", lane, max_tries" : ""})
    SELECT u.id, u.spec, ${atOf}, u.status, u.key${named ? ", u.lane, u.max_tries" : ""} FROM added u
  ), ${
    named
      ? `labelled AS (
    INSERT INTO @label (spec, label, key, unit)
    SELECT l.* FROM spec, unnest($20::bigint[], $21::bytea[], $22::bytea[], $23::bigint[]) AS l (spec, label, key, unit)
    ON CONFLICT (spec, label, key) DO UPDATE SET unit = excluded.unit
  ), told AS (
    ${noteInsert(`spec, ${notesFrom(24)} WHERE spec.laned`)}
  ), `
      : ""
  }${notedAndCounted("(SELECT count(*) FILTER (WHERE status = 0), count(*) FILTER (WHERE status = 1) FROM added)")}`;

/** After a COPY: records the request and counts the units. */
const copiedSql = `
  WITH spec AS MATERIALIZED (SELECT id, namespace FROM @spec WHERE id = $1 AND NOT dead),
  ${notedAndCounted("(VALUES ($8::bigint, $9::bigint))")}`;

export const insertSql = insertStatement(false);
/** For units of which some have queues, labels, a partition or their own try limit. */
export const insertNamedSql = insertStatement(true);

/** Adds of at least this many units use COPY: a third less work for the server, for two more round trips. */
export const copyFromUnits = 500;

interface NewRow {
  id: number;
  put: WorkUnitPut;
  key: Buffer;
}

/**
 * New rows in the order in which they are written, which is that of their keys: concurrent adds of the same names wait for each other
 * at the first of them. In any other order each may hold a row that the other waits for: eight engines that added the same fifty
 * names spent half a minute in deadlocks.
 *
 * A COPY for partitions that take turns follows their turns instead, so that a claim finds its units beside each other: with 10,000
 * partitions the server takes a sixth less time. Two loads of the same units write them in the same order. Loads that share only some
 * names may deadlock; the server then ends one, which is repeated.
 */
export function inWriteOrder(
  meta: WorkSpecMeta,
  puts: readonly WorkUnitPut[],
  ids: readonly number[],
): NewRow[] {
  const byTurn = puts.length >= copyFromUnits && addsInterleaved(meta, puts.length);
  const given = byTurn ? interleaveByPartition(puts) : puts;
  const rows = given.map((put, i): NewRow => ({ id: ids[i]!, put, key: nameToBytes(put.name) }));
  const sorted = byTurn || rows.every((row, i) => i === 0 || Buffer.compare(rows[i - 1]!.key, row.key) <= 0);
  return sorted ? rows : rows.sort((a, b) => Buffer.compare(a.key, b.key));
}

/** The first place among the units that can be claimed now, and how many there are. */
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

/** The same by COPY. Returns false if the work spec is gone. */
export async function copyUnits(
  tx: Transaction,
  spec: Spec,
  rows: readonly NewRow[],
  request: { id: Buffer; answer: string } | null,
  now: number,
): Promise<boolean> {
  const copy = new CopyRows(rows.length);
  const partitioned = hasLanes(spec.meta) || rows.some(({ put }) => put.partition !== undefined);
  for (const { id, put, key } of rows) {
    copy.row(partitioned ? 10 : 8);
    copy.int8(id);
    copy.int8(spec.id);
    copy.bytes(key);
    copy.int2(put.notBefore > now ? 1 : 0);
    copy.float8(placeOf(put.priority));
    copy.int8(put.notBefore);
    copy.int8(now);
    copy.data(put.data);
    if (!partitioned) continue;
    const { lane, long: partition } = laneOf(put.partition, spec.meta);
    copy.bytes(lane);
    copy.bytes(partition);
  }
  await tx.copy(
    `COPY @unit (id, spec, key, status, place, not_before, created, data${partitioned ? ", lane, partition" : ""}) FROM STDIN (FORMAT binary)`,
    copy.end(),
  );
  if (hasLanes(spec.meta)) await writeNotes(tx, arrivalNotes(spec, rows, now));
  const { available } = firstPlace(rows, now);
  const waiting = new CopyRows(rows.length);
  for (const { id, put, key } of rows) {
    const delayed = put.notBefore > now;
    waiting.row(partitioned ? 6 : 5);
    waiting.int8(id);
    waiting.int8(spec.id);
    waiting.float8(delayed ? put.notBefore : placeOf(put.priority));
    waiting.int2(delayed ? 1 : 0);
    waiting.bytes(key);
    if (partitioned) waiting.bytes(laneOf(put.partition, spec.meta).lane);
  }
  await tx.copy(
    `COPY @waiting (unit, spec, at, status, key${partitioned ? ", lane" : ""}) FROM STDIN (FORMAT binary)`,
    waiting.end(),
  );
  const counted = [...addValues(spec.id, rows, request, now), available, rows.length - available];
  return (await tx.rows(copiedSql, counted)).length > 0;
}

/** The first values of both add statements. */
function addValues(
  spec: number,
  rows: readonly NewRow[],
  request: { id: Buffer; answer: string } | null,
  now: number,
): unknown[] {
  const { first } = firstPlace(rows, now);
  return [
    spec,
    now,
    request?.id ?? null,
    request?.answer ?? null,
    first?.place ?? null,
    first?.key ?? null,
    epochOf(now),
  ];
}

/** `seen`: the digest of the work spec's metadata as last seen; null if the spec was read just now. */
export const insertValues = (
  spec: number,
  rows: readonly NewRow[],
  request: { id: Buffer; answer: string } | null,
  seen: string | null,
  now: number,
): unknown[] => [
  ...addValues(spec, rows, request, now),
  seen,
  int8s(rows.map(({ id }) => id)),
  byteas(rows.map(({ key }) => key)),
  int2s(rows.map(({ put }) => (put.notBefore > now ? 1 : 0))),
  float8s(rows.map(({ put }) => placeOf(put.priority))),
  int8s(rows.map(({ put }) => put.notBefore)),
  byteas(rows.map(({ put }) => dataBytes(put.data))),
];

export const hasExtras = ({ queues, labels, retry }: WorkUnitPut): boolean =>
  queues !== undefined || labels !== undefined || retry !== undefined;

export const isNamed = (put: WorkUnitPut): boolean => put.partition !== undefined || hasExtras(put);

/** The additional values of `insertNamedSql`. */
export function namedValues(spec: Spec, rows: readonly NewRow[], now: number): unknown[] {
  const named = rows
    .filter(({ put }) => hasExtras(put))
    .map(({ id, put, key }) => ({ ...put, id, spec: spec.id, key }));
  const { ids, kinds, values } = extraArrays(named);
  const lanes = rows.map(({ put }) => laneOf(put.partition, spec.meta));
  return [
    byteas(lanes.map(({ lane }) => lane)),
    byteas(lanes.map(({ long }) => long)),
    ...[ids, kinds, values],
    ...labelRows(named).values,
    ...arrivalNotes(spec, rows, now).values(),
    ...retryArrays(named),
  ];
}

/** Notes for the next claim: the lanes of the units, and the first unit of each that can be claimed now. */
function arrivalNotes(spec: Spec, rows: readonly NewRow[], now: number): LaneNotes {
  const notes = new LaneNotes();
  if (hasLanes(spec.meta))
    for (const { put, key } of rows)
      if (put.notBefore <= now)
        notes.add(spec.id, put.partition ?? "", { place: placeOf(put.priority), key });
  return notes;
}

// ---- settling

const plainUnit = (queued: boolean): string => `u.attempts = g.number AND u.attempt_status = 0
      AND u.attempt_expiration > $2::bigint AND NOT (u.needs AND g.action = 2)
      AND NOT (g.action = 3 AND g.time < u.attempt_expiration)
      AND NOT ((u.dependents${queued ? "" : " OR u.queues IS NOT NULL"}) AND g.action < 2)`;

const toldColumns = `, u.attempts, u.attempt_end, u.queues, coalesce(u.long_name, u.key) AS name,
      coalesce(CASE WHEN u.attempt_own THEN u.attempt_data END, u.data) AS data`;

/** Messages are numbered in the order that the caller gave the changes in ($12): the changes themselves come sorted by unit. */
const toldSql = `told AS (
    INSERT INTO @message (seq, namespace, unit, at, number, status, queue, spec, name, data)
    SELECT ($11::bigint[])[row_number() OVER (ORDER BY ($12::int[])[c.at], q.at)], s.namespace, c.id, c.attempt_end,
      c.attempts, c.status, q.queue, s.name, c.name, c.data
    FROM changed c JOIN @spec s ON s.id = c.spec CROSS JOIN LATERAL unnest(c.queues) WITH ORDINALITY AS q (queue, at)
    WHERE c.status >= 4
  ), `;

/** Notes for the next claim of a work spec with lanes: units of these lanes have stopped running. */
const notedSql = `noted AS (
    ${noteInsert(`(SELECT c.spec, ${noteColumns}, row_number() OVER () AS number FROM changed c JOIN @spec s ON s.id = c.spec
      WHERE s.laned AND c.status <> 3 AND c.lane IS NOT NULL) AS n`)}
  ), `;
const happeningOf = {
  finish: "finished",
  fail: "failed",
  error: "retried",
  retry: "retried",
  expire: "expired",
} as const;

/** Records failed units, for the failure groups. */
const failedSql = `failed AS (
    INSERT INTO @failed (unit, spec, key) SELECT c.id, c.spec, c.key FROM changed c WHERE c.status = 5
  ), `;

/** The work specs whose changes are plain. `source` is a row source with a `spec` and whether any change of it `chains`. */
const fitFrom = (source: string, laned: boolean): string => `
    FROM ${source} f JOIN @spec s ON s.id = f.spec JOIN @namespace n ON n.id = s.namespace
    WHERE NOT s.dead AND n.name = $1 AND NOT (f.chains AND s.next_spec <> '')${laned ? "" : " AND NOT s.laned"}`;

/** Returns one row for each work spec. Fails unless all changes were plain. */
const sureAnswer = (laned: boolean): string => `
  SELECT c.ats, c.expirations, c.spec, c.took FROM (
    SELECT spec, array_agg(at) AS ats, array_agg(attempt_expiration) AS expirations, array_agg(took) AS took FROM changed GROUP BY spec
  ) c, (
    SELECT ${failUnless("coalesce(sum(f.units), 0) = $3::bigint", "coalesce(sum(f.units), 0)")} AS sure
    ${fitFrom("(SELECT spec, count(*) AS units, bool_or(chains) AS chains FROM changed GROUP BY spec)", laned)} AND s.count_ms = 0
  ) fit WHERE fit.sure = 1`;

const fastActions = { finish: 0, fail: 1, retry: 2, renew: 3 } as const;

/**
 * Settles the changes if all of them are plain, and otherwise none. A change is plain if it is of a current attempt whose lease
 * has not ended, with nothing to chain, no dependents, and no queues (unless `queued`); `judge` says "apply" to all of these. The
 * UPDATE repeats the conditions: a unit that changed between the check and the write is left alone, and gets no answer.
 *
 * `attempt_status = 0` says the same as `status = 3`. LATERAL and LIMIT keep the planner from joining the other way round. Units
 * come sorted by id, and are locked in that order.
 *
 * $1 namespace, $2 now, $3 how many; then per change the unit, number, action, time, data, and whether it may chain; $10 the
 * second that arrivals are recorded under.
 */
const settleStatement = ({ queued, laned, fails, retries, counted, sure }: SettleKind): string => `
  WITH given AS MATERIALIZED (
    SELECT * FROM unnest($4::bigint[], $5::int[], $6::smallint[], $7::bigint[], $8::bytea[], $9::boolean[])
      WITH ORDINALITY AS g (id, number, action, time, data, chains, at)
  ), across AS MATERIALIZED (
    SELECT ${hasOverdueAcross("$2::bigint")} AS past
  ), ${
    sure
      ? ""
      : `found AS MATERIALIZED (
    SELECT f.spec, count(*) AS units, bool_or(g.chains) AS chains${queued ? ", sum(cardinality(f.queues)) AS messages" : ""}${counted ? ", bool_or(g.action = 1) AS fails" : ""}
    FROM given g CROSS JOIN LATERAL (
      SELECT u.spec${queued ? ", u.queues" : ""} FROM @unit u WHERE u.id = g.id AND ${plainUnit(queued)} LIMIT 1
    ) f
    GROUP BY f.spec
  ), fit AS MATERIALIZED (
    SELECT sum(f.units) AS units${queued ? ", coalesce(sum(f.messages), 0) <= cardinality($11::bigint[]) AS enough" : ""}
    ${fitFrom("found", laned)} AND NOT (SELECT past FROM across)
      AND (s.count_ms = 0${counted ? " OR s.count_ms > 0 AND NOT f.fails" : ""})
  ), `
  }changed AS (
    UPDATE @unit u SET
      status = CASE g.action WHEN 0 THEN 4 WHEN 1 THEN 5 WHEN 3 THEN 3 ELSE CASE WHEN g.time > $2::bigint THEN 1 ELSE 0 END END,
      not_before = CASE WHEN g.action = 2 THEN g.time ELSE u.not_before END,
      attempt_status = CASE g.action WHEN 0 THEN 2 WHEN 1 THEN 3 WHEN 2 THEN 4 ELSE 0 END,
      attempt_end = CASE WHEN g.action = 3 THEN 0 ELSE greatest($2::bigint, u.attempt_start) END,
      attempt_expiration = CASE WHEN g.action = 3 THEN g.time ELSE u.attempt_expiration END,
      attempt_own = u.attempt_own OR g.data IS NOT NULL,
      attempt_data = coalesce(g.data, u.attempt_data)
    FROM ${sure ? "" : "fit, "}given g WHERE ${isRow("u.id", "g.id")} AND ${plainUnit(queued)}
      AND ${sure ? "NOT (SELECT past FROM across)" : `fit.units = $3::bigint${queued ? " AND fit.enough" : ""}`}
    RETURNING u.spec, u.status, u.attempt_expiration, u.place, u.key, g.at, u.attempt_end - u.attempt_start AS took, u.attempt_end AS ended,
      u.id, u.lease${sure ? ", g.chains" : ""}${laned || retries ? ", u.lane, u.partition" : ""}${retries ? ", u.not_before, u.tries, u.max_tries" : ""}${queued ? toldColumns : ""}
  ), stopped AS (${leaseDelete}
  ), ended AS (${endedInsert}
  ), ${
    retries
      ? `returned AS (${waitingInsert("changed u WHERE u.status < 3")}
  ), `
      : ""
  }${queued ? toldSql : ""}${laned ? notedSql : ""}${fails ? failedSql : ""}${counted ? countedSql : ""}tallied AS (
    ${tallyInsert}
    SELECT spec, pg_backend_pid(), count(*) FILTER (WHERE status = 0), count(*) FILTER (WHERE status = 1), 0,
      -count(*) FILTER (WHERE status <> 3), count(*) FILTER (WHERE status = 4), count(*) FILTER (WHERE status = 5), 0, 0,
      count(*) FILTER (WHERE status = 0), CASE WHEN bool_or(status = 0) THEN $10::bigint ELSE 0 END,
      (array_agg(place ORDER BY place, key) FILTER (WHERE status = 0))[1],
      (array_agg(key ORDER BY place, key) FILTER (WHERE status = 0))[1], max(ended)
    FROM changed WHERE status <> 3 GROUP BY spec
    ${tallyConflict}
  )
  ${sure ? sureAnswer(laned) : "SELECT at, attempt_expiration, spec, took FROM changed UNION ALL SELECT 0, 0, 0, 0 FROM across WHERE past"}`;

/**
 * The same for changes that only finish attempts of one number, without data, which is what a busy worker settles most. Units are
 * found by their ids in one scan, and lists and counts are written once for each work spec. It fails like a `sure` statement. The
 * check is the left side of the join, which is always read, so that it also fails if no unit was changed.
 *
 * $1 namespace, $2 now, $3 how many, $4 units, $5 the number of the attempts.
 */
const finishStatement = (laned: boolean): string => `
  WITH across AS MATERIALIZED (
    SELECT ${hasOverdueAcross("$2::bigint")} AS past
  ), changed AS (
    UPDATE @unit u SET status = 4, attempt_status = 2, attempt_end = greatest($2::bigint, u.attempt_start)
    WHERE u.id = ANY ($4::bigint[]) AND u.attempts = $5::int AND u.attempt_status = 0 AND u.attempt_expiration > $2::bigint
      AND NOT u.dependents AND u.queues IS NULL AND NOT (SELECT past FROM across)
    RETURNING u.id, u.spec, u.status, u.lease, u.attempt_expiration, u.attempt_end AS ended,
      u.attempt_end - u.attempt_start AS took${laned ? ", u.lane, u.partition, u.place, u.key" : ""}
  ), lists AS MATERIALIZED (
    SELECT spec, ended, count(*) AS units, array_agg(id) AS ids, ${oneOrAll("attempt_expiration")} AS expirations, ${oneOrAll("took")} AS took
    FROM changed GROUP BY spec, ended
  ), sums AS MATERIALIZED (
    SELECT spec, sum(units)::bigint AS units, max(ended) AS ended, true AS chains FROM lists GROUP BY spec
  ), stopped AS (${leaseDelete}
  ), ended AS (
    INSERT INTO @ended (spec, at, status, units) SELECT spec, ended, 4, ids FROM lists
  ), ${laned ? notedSql : ""}tallied AS (
    ${tallyInsert}
    SELECT spec, pg_backend_pid(), 0, 0, 0, -units, units, 0, 0, 0, 0, 0, NULL::float8, NULL::bytea, ended FROM sums
    ${tallyConflict}
  )
  SELECT l.spec, l.units, l.took, l.expirations, CASE WHEN cardinality(l.expirations) > 1 OR (SELECT count(*) FROM lists) > 1 THEN l.ids END
  FROM (
    SELECT ${failUnless("coalesce(sum(f.units), 0) = $3::bigint", "coalesce(sum(f.units), 0)")} AS sure ${fitFrom("sums", laned)} AND s.count_ms = 0
  ) fit LEFT JOIN lists l ON fit.sure = 1`;

export const finishSql = finishStatement(false);
export const finishLanedSql = finishStatement(true);

/** The number of the attempts, if all changes only finish attempts of one number; otherwise null. */
function onlyFinished(changes: readonly Settle[]): number | null {
  const number = changes[0]?.number ?? 0;
  for (const change of changes)
    if (change.action !== "finish" || change.data !== null || change.number !== number) return null;
  return number <= 0x7fffffff ? number : null;
}

async function finishAll(
  db: Database,
  ns: string,
  changes: readonly Settle[],
  number: number,
  laned: boolean,
  now: number,
): Promise<AttemptChanged[]> {
  const units = int8s(changes.map(({ unitId }) => unitId));
  const sql = laned ? finishLanedSql : finishSql;
  const lists = await db.write(sql, [nameToBytes(ns), now, changes.length, units, number], {
    repeatable: true,
  });
  const expirations = new Map<number, number>();
  const same = (lists as unknown as FinishedRow[])[0]?.[3][0] ?? 0;
  for (const [spec, count, took, ends, ids] of lists as unknown as FinishedRow[]) {
    if (took.length === 1) db.historyCounts.note(spec, "finished", now, took[0]!, count);
    else for (const ms of took) db.historyCounts.note(spec, "finished", now, ms, 1);
    for (const [i, id] of (ids ?? []).entries()) expirations.set(id, ends.length === 1 ? ends[0]! : ends[i]!);
  }
  return changes.map((change) => ({
    ...unchanged(change),
    changed: true,
    status: "finished",
    expirationTime: expirations.get(change.unitId) ?? same,
  }));
}

/**
 * `took`: how long the attempts ran. `expirations`: when their leases would have ended. Both have one element if all are equal.
 * `ids` is null if there is only one row, with one expiration.
 */
type FinishedRow = [spec: number, count: number, took: number[], expirations: number[], ids: number[] | null];

/**
 * `queued`: some units have queues; $11 numbers for their messages, $12 the order of the changes. `laned`: some work specs have
 * lanes. `fails`, `retries`: some changes fail or retry. `counted`: some work specs have breakers; then failures are not plain.
 * `sure`: nothing is checked first, and the statement fails if a change is not plain.
 */
interface SettleKind {
  queued: boolean;
  laned: boolean;
  fails: boolean;
  retries: boolean;
  counted: boolean;
  sure: boolean;
}

const kindNumber = ({ queued, laned, fails, retries, counted, sure }: SettleKind): number =>
  [queued, laned, fails, retries, counted, sure].reduce((sum, has, i) => sum + (Number(has) << i), 0);

const settleStatements = new Map<number, string>();

export function settleSql(kind: SettleKind): string {
  const number = kindNumber(kind);
  let sql = settleStatements.get(number);
  if (sql === undefined) settleStatements.set(number, (sql = settleStatement(kind)));
  return sql;
}

/**
 * Returns the answers in the order of the changes; undefined where the rules have to decide. `queues` is the most queues that a
 * unit may have: that many message numbers are taken first for each unit that ends. `laned`, `counted` and `sure`: see
 * `SettleKind`, and `isNotPlain` for the error of `sure`. `pastAcross`: overdue work in other specs may have to come first, see
 * `hasOverdueAcross`.
 */
export async function settlePlain(
  db: Database,
  ns: string,
  changes: readonly Settle[],
  queues: number,
  { laned, counted, sure }: Pick<SettleKind, "laned" | "counted" | "sure">,
  now: number,
): Promise<{ answers: (AttemptChanged | undefined)[]; pastAcross: boolean }> {
  const number = sure && queues === 0 && !counted ? onlyFinished(changes) : null;
  if (number !== null)
    return { answers: await finishAll(db, ns, changes, number, laned, now), pastAcross: false };
  const answers = new Array<AttemptChanged | undefined>(changes.length).fill(undefined);
  const sorted = changes
    .map((change, i) => ({ change, i }))
    .sort((a, b) => a.change.unitId - b.change.unitId);
  const plain = plainValues(
    ns,
    sorted.map(({ change }) => change),
    now,
  );
  if (plain === null) return { answers, pastAcross: true };
  const ends = changes.filter(({ action }) => action === "finish" || action === "fail").length;
  let rows: Row[];
  const fails = changes.some(({ action }) => action === "fail");
  const retries = changes.some(({ action }) => action === "retry");
  const tells = queues > 0 && ends > 0;
  const answer = (at: number, expirationTime: number, spec: number, took: number): void => {
    const { change, i } = sorted[at - 1]!;
    if (change.action !== "renew") db.historyCounts.note(spec, happeningOf[change.action], now, took, 1);
    answers[i] = { ...unchanged(change), changed: true, status: actionStatus[change.action], expirationTime };
  };
  // data with outputs is for a work spec that chains, where the optimistic statement would fail
  const isSure = sure && !tells && !counted && !changes.some((one) => one.data !== null && mayChain(one));
  const sql = settleSql({ queued: tells, laned, fails, retries, counted, sure: isSure });
  if (isSure) {
    const lists = await db.write(sql, plain, { repeatable: true });
    for (const [ats, expirations, spec, took] of lists as unknown as [number[], number[], number, number[]][])
      for (const [i, at] of ats.entries()) answer(at, expirations[i]!, spec, took[i]!);
    return { answers, pastAcross: false };
  }
  if (!tells) rows = await db.write(sql, plain, { repeatable: true });
  else {
    const seqs = await takeSeqs(db, ends * queues);
    const order = int4s(sorted.map(({ i }) => i));
    rows = await db.write(sql, [...plain, int8s(seqs), order], { repeatable: true });
  }
  for (const [at, expirationTime, spec, took] of rows as [number, number, number, number][]) {
    if (at === 0) return { answers, pastAcross: true };
    answer(at, expirationTime, spec, took);
  }
  return { answers, pastAcross: false };
}

/** The values of the settle statement; null if a change is not plain by itself. */
function plainValues(ns: string, changes: readonly Settle[], now: number): unknown[] | null {
  const actions: number[] = [];
  const units = new Set<number>();
  for (const { action, time, unitId, number, untried, reason, progress } of changes) {
    if (action === "expire" || action === "error" || untried || reason !== undefined) return null;
    if (action === "renew" && (time <= now || progress !== null)) return null;
    if (units.has(unitId)) return null;
    if (number > 0x7fffffff) return null;
    units.add(unitId);
    actions.push(fastActions[action]);
  }
  return [
    nameToBytes(ns),
    now,
    changes.length,
    int8s(changes.map(({ unitId }) => unitId)),
    int4s(changes.map(({ number }) => number)),
    int2s(actions),
    int8s(changes.map(({ time }) => time)),
    byteas(changes.map(({ data }) => dataBytes(data))),
    bools(changes.map(mayChain)),
    epochOf(now),
  ];
}

/**
 * Whether the attempt's data may have outputs. Without data in the change, the data that was written before counts: it is not
 * known here.
 */
const mayChain = ({ action, data }: Settle): boolean =>
  action === "finish" &&
  (data === null || (typeof data === "string" ? /"output"|\\u/.test(data) : hasOutputs(readOutputs(data))));

const hasOutputs = ({ units, errors }: Outputs): boolean => units.length > 0 || errors.length > 0;
