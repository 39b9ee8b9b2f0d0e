/**
 * Counts of units without counting rows, and without a row that all transactions wait for: every server process has its own row
 * per work spec, so that two transactions never write the same one, and a count is the sum of a few rows. The transaction that
 * changes the units writes them. `foldTallies` merges the rows of processes that have ended.
 */
import { longestSkewMs, workUnitStatuses, type Tally, type SpecTally, nameFromBytes } from "../core/index.ts";
import type { Session } from "./connection.ts";
import type { Place } from "./floor.ts";
import { byteas, float8s, int8s } from "./values.ts";

export type Delta = Tally & {
  removedFinished: number;
  removedFailed: number;
  /** Units that became available or changed their place, and the first place among them. */
  arrivals: number;
  first: Place | null;
  /** The latest end of an attempt. */
  freed: number;
};

export const emptyDelta = (): Delta => ({
  available: 0,
  delayed: 0,
  blocked: 0,
  pending: 0,
  finished: 0,
  failed: 0,
  removedFinished: 0,
  removedFailed: 0,
  arrivals: 0,
  first: null,
  freed: 0,
});

const countColumns =
  "available, delayed, blocked, pending, finished, failed, removed_finished, removed_failed";

/**
 * Adds rows of changes, one per spec, to the counts. They also have how many units became available, when (in seconds), and the
 * first place among them: see floor.ts. `freed` is when the last attempt ended: an attempt that takes its place under a limit
 * begins no earlier, even if another daemon ended it and this daemon's request is older than that.
 */
export const tallyInsert = `INSERT INTO @tally AS t (spec, shard, ${countColumns}, arrivals, epoch, place, key, freed)`;

/**
 * When the last attempt ended, as far as the rows `t` know. An end by a clock that was too far ahead is left out: attempts that begin
 * then would have leases that end as late. `now` is a bigint parameter.
 */
export const lastFreed = (now: string): string =>
  `coalesce(max(t.freed) FILTER (WHERE t.freed <= ${now} + ${longestSkewMs}), 0)`;
export const freedSql = (spec: string, now: string): string =>
  `(SELECT ${lastFreed(now)} FROM @tally t WHERE t.spec = ${spec})`;

/** The second that arrivals are recorded under. A request that waited may have an earlier one: its arrivals count for the latest. */
export const epochOf = (now: number): number => Math.floor(now / 1000);

const newer = "excluded.arrivals > 0 AND excluded.epoch > t.epoch";
const first = `excluded.arrivals > 0 AND (excluded.epoch > t.epoch OR t.place IS NULL
    OR (excluded.place, excluded.key) < (t.place, t.key))`;
export const tallyConflict = `ON CONFLICT (spec, shard) DO UPDATE SET
  ${countColumns
    .split(", ")
    .map((column) => `${column} = t.${column} + excluded.${column}`)
    .join(", ")},
  arrivals = t.arrivals + excluded.arrivals,
  before_epoch = CASE WHEN ${newer} THEN t.epoch ELSE t.before_epoch END,
  before_place = CASE WHEN ${newer} THEN t.place ELSE t.before_place END,
  before_key = CASE WHEN ${newer} THEN t.key ELSE t.before_key END,
  epoch = CASE WHEN ${newer} THEN excluded.epoch ELSE t.epoch END,
  place = CASE WHEN ${first} THEN excluded.place ELSE t.place END,
  key = CASE WHEN ${first} THEN excluded.key ELSE t.key END,
  freed = CASE WHEN excluded.freed > 0 AND t.freed > excluded.freed + ${longestSkewMs} THEN excluded.freed
    ELSE greatest(t.freed, excluded.freed) END`;

/** The values of a change without arrivals and without ended attempts. */
export const noArrivals = "0, 0, NULL::float8, NULL::bytea, 0";

export async function writeTallies(
  tx: Session,
  deltas: ReadonlyMap<number, Delta>,
  now: number,
): Promise<void> {
  const rows = [...deltas].filter(([, delta]) =>
    Object.values(delta).some((count) => count !== 0 && count !== null),
  );
  if (rows.length === 0) return;
  const column = (read: (delta: Delta) => number): Buffer => int8s(rows.map(([, delta]) => read(delta)));
  await tx.rows(
    `${tallyInsert}
     SELECT d.spec, pg_backend_pid(), d.a, d.b, d.c, d.d, d.e, d.f, d.g, d.h, d.arrivals,
       CASE WHEN d.arrivals > 0 THEN $13::bigint ELSE 0 END, d.place, d.key, d.freed
     FROM unnest($1::bigint[], $2::bigint[], $3::bigint[], $4::bigint[], $5::bigint[], $6::bigint[], $7::bigint[],
       $8::bigint[], $9::bigint[], $10::bigint[], $11::float8[], $12::bytea[], $14::bigint[])
       AS d (spec, a, b, c, d, e, f, g, h, arrivals, place, key, freed)
     ${tallyConflict}`,
    [
      int8s(rows.map(([spec]) => spec)),
      ...workUnitStatuses.map((status) => column((delta) => delta[status])),
      column((delta) => delta.removedFinished),
      column((delta) => delta.removedFailed),
      column((delta) => delta.arrivals),
      float8s(rows.map(([, { first }]) => first?.place ?? null)),
      byteas(rows.map(([, { first }]) => first?.key ?? null)),
      epochOf(now),
      column((delta) => delta.freed),
    ],
  );
}

const sums = countColumns
  .split(", ")
  .map((column) => `coalesce(sum(t.${column}), 0)::bigint AS ${column}`)
  .join(", ");

/** The counts of one spec, as a lateral subquery. */
export const tallyOf = (spec: string): string =>
  `(SELECT ${sums}, coalesce(sum(t.arrivals), 0)::bigint AS arrivals FROM @tally t WHERE t.spec = ${spec})`;

export async function readTallies(session: Session, namespace: Buffer | null): Promise<SpecTally[]> {
  const rows = await session.rows(
    `SELECT n.name, s.name, s.id, c.available, c.delayed, c.blocked, c.pending, c.finished, c.failed,
       c.removed_finished, c.removed_failed
     FROM @namespace n JOIN @spec s ON s.namespace = n.id AND NOT s.dead, LATERAL ${tallyOf("s.id")} c
     WHERE NOT n.dead AND ($1::bytea IS NULL OR n.name = $1::bytea)
     ORDER BY n.name, s.name`,
    [namespace],
  );
  return rows.map((row): SpecTally => {
    const [ns, spec, id, available, delayed, blocked, pending, finished, failed, goneFinished, goneFailed] =
      row as [Buffer, Buffer, ...number[]];
    return {
      id: id ?? 0,
      namespace: nameFromBytes(ns),
      workSpec: nameFromBytes(spec),
      counts: {
        available: available ?? 0,
        delayed: delayed ?? 0,
        blocked: blocked ?? 0,
        pending: pending ?? 0,
        finished: finished ?? 0,
        failed: failed ?? 0,
      },
      removed: { finished: goneFinished ?? 0, failed: goneFailed ?? 0 },
    };
  });
}

/**
 * Merges the counts of server processes that have ended; all claims then begin at the start. Rows that are locked are left for
 * the next time.
 */
export async function foldTallies(session: Session, limit: number, now: number): Promise<void> {
  await session.rows(
    `WITH old AS MATERIALIZED (
       SELECT spec, shard FROM @tally WHERE shard > 0 AND shard <> pg_backend_pid()
         AND NOT EXISTS (SELECT 1 FROM pg_stat_activity a WHERE a.pid = shard)
       ORDER BY spec, shard LIMIT $1 FOR UPDATE SKIP LOCKED
     ), gone AS (
       DELETE FROM @tally t USING old WHERE t.spec = old.spec AND t.shard = old.shard RETURNING t.*
     )
     ${tallyInsert}
     SELECT spec, pg_backend_pid(), ${countColumns
       .split(", ")
       .map((column) => `sum(${column})::bigint`)
       .join(", ")}, sum(arrivals)::bigint,
       $2::bigint, '-Infinity'::float8, ''::bytea, max(freed)
     FROM gone GROUP BY spec
     ${tallyConflict}`,
    [limit, epochOf(now)],
  );
}
