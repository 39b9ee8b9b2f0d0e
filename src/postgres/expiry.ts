/**
 * Expired leases, elapsed delays and schedules take effect by rule. Rows are updated when an operation meets them. Whether there
 * are any is one probe of small indexes, part of the statement that looks up the work spec.
 */
import {
  byExpiration,
  expireUnits,
  graceMs,
  makeRuns,
  missingWorkSpec,
  nameToBytes,
  releaseDue,
  ringTimers,
  workSpecName,
  type Rule,
  type WorkSpecRef,
} from "../core/index.ts";
import { isRow, type Database } from "./connection.ts";
import { noteColumns, noteInsert } from "./lanes.ts";
import {
  hasNeedyPast,
  hasOverdueAcross,
  hasTimerPast,
  isDue,
  isLapsed,
  mayLapse,
  refileLeases,
  runningIds,
  waitingInsert,
} from "./standing.ts";
import { epochOf, tallyConflict, tallyInsert } from "./tally.ts";
import { readSpec, specColumns, type Spec } from "./units.ts";
import { int8s } from "./values.ts";
import { apply, PostgresSet, type Allocate } from "./working-set.ts";

/** `fast`: update many rows per statement, not by the rules of core. `allocate`: gives ids to the units that a schedule makes. */
export interface CatchUpOptions {
  fast: boolean;
  allocate: Allocate;
}

/** Rows updated in one statement: few enough that other transactions do not wait long for them. */
const slice = 2000;

/**
 * Whether a spec has overdue work (expired leases, elapsed delays, a run of its schedule), or any spec has overdue work that
 * affects other specs. `spec` is the alias of the spec's row.
 */
export const hasOverdue = (spec: string, now: string): string => `(
  ${mayLapse(`${spec}.id`, now)}
  OR ${isDue(`${spec}.id`, now)}
  OR ${hasRunDue(spec, now)}
  OR ${hasOverdueAcross(now)})`;

/** As `isRunDue` of core. */
const hasRunDue = (spec: string, now: string): string =>
  `coalesce((${spec}.next_run <= ${now} OR ${spec}.last_run > ${now} + ${graceMs}) AND NOT ${spec}.paused, false)`;

/** A work spec, and the digest of its metadata; the digest is null if the spec had overdue work. */
export interface LookedUp {
  readonly spec: Spec;
  readonly seen: string | null;
}

/** Finds the work spec, and catches up on its overdue work unless `ways` is null. Throws if the spec does not exist. */
export async function lookUp(
  db: Database,
  ns: string,
  ref: WorkSpecRef,
  now: number,
  ways: CatchUpOptions | null,
): Promise<LookedUp> {
  const [row] = await db.rows(
    `SELECT s.id, ${hasOverdue("s", "$3::bigint")}, md5(s.meta), ${specColumns}
     FROM @namespace n JOIN @spec s ON s.namespace = n.id AND NOT s.dead
     WHERE n.name = $1 AND NOT n.dead AND s.name = $2`,
    [nameToBytes(ns), nameToBytes(workSpecName(ref)), now],
  );
  if (row === undefined || (typeof ref !== "string" && ref.id !== row[0])) throw missingWorkSpec(ref);
  const spec = readSpec(row[0] as number, row.slice(3));
  const isLate = row[1] === true;
  if (isLate && ways !== null) await catchUp(db, spec.id, now, Infinity, ways);
  return { spec, seen: isLate ? null : (row[2] as string) };
}

// a delayed unit has no unmet dependencies: it would be blocked
export const moveSql = `
  WITH lapsed AS MATERIALIZED (
    SELECT u.id, u.needs FROM @unit u WHERE ${isLapsed("$1", "$2::bigint")}
    ORDER BY u.attempt_expiration LIMIT $3 FOR UPDATE SKIP LOCKED
  ), due AS MATERIALIZED (
    SELECT u.id, w.ctid AS row FROM @waiting w JOIN @unit u ON ${isRow("u.id", "w.unit")}
    WHERE w.spec = $1 AND w.status = 1 AND w.at <= $2::bigint AND u.status = 1
    ORDER BY w.at LIMIT $3 FOR UPDATE SKIP LOCKED
  ), expired AS (
    UPDATE @unit u SET status = CASE WHEN u.not_before > $2::bigint THEN 1 ELSE 0 END, attempt_status = 1,
      attempt_end = greatest(u.attempt_expiration, u.attempt_start)
    FROM lapsed WHERE ${isRow("u.id", "lapsed.id")} AND NOT lapsed.needs RETURNING u.status, u.place, u.key, u.lane, u.partition, u.attempt_end,
      u.id, u.spec, u.not_before, u.tries, u.max_tries
  ), ready AS (
    UPDATE @unit u SET status = 0 FROM due WHERE ${isRow("u.id", "due.id")} RETURNING u.status, u.place, u.key, u.lane, u.partition, due.row
  ), returned AS (${waitingInsert("expired u")}
  ), raised AS (
    UPDATE @waiting w SET status = 0, at = r.place FROM ready r WHERE w.ctid = r.row
  ), noted AS (
    ${noteInsert(`(SELECT s.id AS spec, ${noteColumns}, row_number() OVER () AS number
      FROM (SELECT status, place, key, lane, partition FROM expired UNION ALL SELECT status, place, key, lane, partition FROM ready) AS c JOIN @spec s ON s.id = $1
      WHERE s.laned AND c.lane IS NOT NULL) AS n`)}
  ), moved AS MATERIALIZED (
    SELECT count(*) FILTER (WHERE status = 0) AS available, count(*) FILTER (WHERE status = 1) AS delayed,
      (SELECT count(*) FROM ready) AS due, (SELECT count(*) FROM lapsed WHERE needs) AS needy
    FROM expired
  ), first AS MATERIALIZED (
    SELECT place, key FROM (SELECT place, key FROM expired WHERE status = 0 UNION ALL SELECT place, key FROM ready) AS came
    ORDER BY place, key LIMIT 1
  ), tallied AS (
    ${tallyInsert}
    SELECT $1, pg_backend_pid(), available + due, delayed - due, 0, -(available + delayed), 0, 0, 0, 0,
      available + due, CASE WHEN available + due > 0 THEN $4::bigint ELSE 0 END,
      (SELECT place FROM first), (SELECT key FROM first), (SELECT coalesce(max(attempt_end), 0) FROM expired)
    FROM moved WHERE available + delayed + due > 0
    ${tallyConflict}
  )
  SELECT available + delayed, due, needy, (SELECT ${hasRunDue("s", "$2::bigint")} FROM @spec s WHERE s.id = $1) FROM moved`;

/** Catches up on the overdue work of one work spec. Skips units that another daemon has locked to do the same. */
export async function catchUp(
  db: Database,
  spec: number,
  now: number,
  limit: number,
  { fast, allocate }: CatchUpOptions,
): Promise<{ expired: number; due: number; generated: number }> {
  const moved = { ...(await moveAcross(db, now, limit, allocate)), generated: 0 };
  for (;;) {
    const max = Math.min(slice, limit - Math.max(moved.expired, moved.due));
    if (max <= 0) return moved;
    const { expired, due, runDue } = fast
      ? await movePlain(db, spec, now, max)
      : await moveByRule(db, spec, now, max, allocate);
    moved.expired += expired;
    moved.due += due;
    if (runDue) moved.generated += await makeDueRuns(db, spec, now, allocate);
    if (expired < max && due < max) return moved;
  }
}

/** The units that an operation concerns, by id. */
interface Concerned {
  ns: string;
  units: readonly number[];
}

/**
 * Catches up on what `hasOverdueAcross` finds, in all specs. Skips units that another transaction has locked: the caller would
 * wait for as long as that is open. With `concerned`, does nothing if none of these units exists.
 */
export async function moveAcross(
  db: Database,
  now: number,
  limit: number,
  allocate: Allocate,
  concerned?: Concerned,
): Promise<{ expired: number; due: number }> {
  const { ns, units } = concerned ?? { ns: "", units: [] };
  const [past] = await db.rows(
    `SELECT f.there AND ${hasTimerPast("$1::bigint")}, f.there AND ${hasNeedyPast("$1::bigint")} FROM (
       SELECT $2::boolean OR EXISTS (SELECT 1 FROM @unit u JOIN @spec s ON s.id = u.spec AND NOT s.dead
         JOIN @namespace n ON n.id = s.namespace AND n.name = $3 WHERE u.id = ANY ($4::bigint[])) AS there
     ) AS f`,
    [now, concerned === undefined, nameToBytes(ns), int8s(units)],
  );
  const move = async (
    sql: string,
    rule: (set: PostgresSet, ids: readonly number[]) => Rule<void>,
  ): Promise<number> => {
    let moved = 0;
    for (;;) {
      const max = Math.min(slice, limit - moved);
      if (max <= 0) return moved;
      const count = await db.transaction(
        async (tx) => {
          const ids = ((await tx.rows(sql, [now, max])) as [number][]).map(([id]) => id);
          const set = new PostgresSet(tx, now, allocate);
          await set.loadUnits(ids);
          await apply(set, rule(set, ids));
          return ids.length;
        },
        { repeatable: true },
      );
      moved += count;
      if (count < max) return moved;
    }
  };
  // timers first: a unit that still waits after this has not reached its expiry
  const due = past?.[0] === true ? await move(timersSql, (set, ids) => ringTimers(set, set.units(ids))) : 0;
  if (past?.[1] !== true) return { expired: 0, due };
  const expired = await move(needySql, (set, ids) => expireUnits(set, set.units(ids).sort(byExpiration)));
  await refileLeases(db, null, now);
  return { expired, due };
}

// units of a deleted spec that are not purged yet have no more effects: their timers are cleared
const timersSql = `
  WITH rung AS MATERIALIZED (
    SELECT u.id, u.timer, s.dead FROM @unit u JOIN @spec s ON s.id = u.spec
    WHERE u.timer IS NOT NULL AND u.timer <= $1::bigint ORDER BY u.timer, u.id LIMIT $2 FOR UPDATE OF u SKIP LOCKED
  ), silenced AS (
    UPDATE @unit u SET timer = NULL FROM rung r WHERE ${isRow("u.id", "r.id")} AND r.dead
  )
  SELECT id FROM rung WHERE NOT dead ORDER BY timer, id`;
const needySql = `
  SELECT u.id FROM @unit u WHERE u.id = ANY (${runningIds("l.needy AND l.expiration <= $1::bigint")})
    AND u.needs AND u.attempt_status = 0 AND u.attempt_expiration <= $1::bigint
  ORDER BY u.attempt_expiration, u.id LIMIT $2 FOR UPDATE SKIP LOCKED`;

/** Makes the units of a schedule under the lock of its spec's row: one daemon makes them, and the others find them made. */
function makeDueRuns(db: Database, id: number, now: number, allocate: Allocate): Promise<number> {
  return db.transaction(
    async (tx) => {
      const [row] = await tx.rows(
        `SELECT s.next_run, s.last_run, ${specColumns} FROM @spec s JOIN @namespace n ON n.id = s.namespace
         WHERE s.id = $1 AND NOT s.dead FOR UPDATE OF s`,
        [id],
      );
      if (row === undefined) return 0;
      const [nextRun, lastRun] = [row[0] as number | null, row[1] as number | null];
      const spec = readSpec(id, row.slice(2));
      const meta = { ...spec.meta, nextRun: nextRun ?? 0, lastRun: lastRun ?? 0 };
      const set = new PostgresSet(tx, now, allocate);
      return apply(set, makeRuns(set, { ...spec, meta }));
    },
    { repeatable: true },
  );
}

async function movePlain(
  db: Database,
  spec: number,
  now: number,
  limit: number,
): Promise<{ expired: number; due: number; runDue: boolean }> {
  const [row] = await db.write(moveSql, [spec, now, limit, epochOf(now)], { repeatable: true });
  await refileLeases(db, spec, now);
  const [expired, due, , runDue] = row as [number, number, number, boolean | null];
  if (expired > 0) db.historyCounts.note(spec, "expired", now, -1, expired);
  return { expired, due, runDue: runDue === true };
}

const lapsedSql = `
  SELECT u.id FROM @unit u WHERE ${isLapsed("$1", "$2::bigint")} AND NOT u.needs
  ORDER BY u.attempt_expiration, u.id LIMIT $3 FOR UPDATE SKIP LOCKED`;
const dueSql = `
  SELECT u.id FROM @waiting w JOIN @unit u ON ${isRow("u.id", "w.unit")}
  WHERE w.spec = $1 AND w.status = 1 AND w.at <= $2::bigint AND u.status = 1
  ORDER BY w.at, w.unit LIMIT $3 FOR UPDATE OF u SKIP LOCKED`;

function moveByRule(
  db: Database,
  spec: number,
  now: number,
  limit: number,
  allocate: Allocate,
): Promise<{ expired: number; due: number; runDue: boolean }> {
  return db.transaction(
    async (tx) => {
      const move = async (sql: string, rule: typeof expireUnits): Promise<number> => {
        const set = new PostgresSet(tx, now, allocate);
        const ids = ((await tx.rows(sql, [spec, now, limit])) as [number][]).map(([id]) => id);
        await set.loadUnits(ids);
        await apply(set, rule(set, set.units(ids)));
        return ids.length;
      };
      const expired = await move(lapsedSql, expireUnits);
      const due = await move(dueSql, releaseDue);
      await refileLeases(tx, spec, now);
      const [row] = await tx.rows(`SELECT ${hasRunDue("s", "$2::bigint")} FROM @spec s WHERE s.id = $1`, [
        spec,
        now,
      ]);
      return { expired, due, runDue: row?.[0] === true };
    },
    { repeatable: true },
  );
}
