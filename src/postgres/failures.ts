/**
 * Failure groups. A unit that fails gets a row in `failed`. Rows without a fingerprint are grouped when a query asks for groups,
 * and by the sweep. The count of a group is spread over a few rows, so that transactions seldom wait for each other.
 */
import {
  failureOf,
  maxTrendPoints,
  mergeTrend,
  nameToBytes,
  noFailures,
  summarize,
  type FailureRow,
  type FailReason,
  type FailureSummary,
} from "../core/index.ts";
import { isRow, type Database, type Session } from "./connection.ts";
import type { Unit } from "./units.ts";
import { byteas, bytesData, float8s, int4s, int8s, nameOf, texts } from "./values.ts";

const shards = 4;

interface Delta extends FailureSummary {
  spec: number;
  fingerprint: string;
  error: string;
  count: number;
}

async function writeDeltas(tx: Session, deltas: readonly Delta[]): Promise<void> {
  if (deltas.length === 0) return;
  // in one order, so that two transactions that change the same groups do not deadlock
  const rows = [...deltas].sort((a, b) => a.spec - b.spec || (a.fingerprint < b.fingerprint ? -1 : 1));
  await tx.rows(
    `INSERT INTO @failure AS f (spec, fingerprint, shard, error, count, first, last, tries, example, trend)
     SELECT g.spec, g.fingerprint, pg_backend_pid() % ${shards}, g.error, g.count, g.first, g.last, g.tries, g.example,
       g.trend::jsonb
     FROM unnest($1::bigint[], $2::text[], $3::text[], $4::bigint[], $5::float8[], $6::float8[], $7::int[], $8::bytea[],
       $9::text[]) AS g (spec, fingerprint, error, count, first, last, tries, example, trend)
     ON CONFLICT (spec, fingerprint, shard) DO UPDATE SET count = f.count + excluded.count,
       error = CASE WHEN excluded.count > 0 THEN excluded.error ELSE f.error END,
       first = least(f.first, excluded.first), last = greatest(f.last, excluded.last),
       tries = greatest(f.tries, excluded.tries),
       example = CASE WHEN (excluded.last, excluded.example) > (f.last, f.example) THEN excluded.example ELSE f.example END,
       trend = CASE WHEN excluded.count <= 0 THEN f.trend ELSE (
         SELECT jsonb_object_agg(time, count) FROM (
           SELECT time, sum(count::bigint) AS count FROM (
             SELECT * FROM jsonb_each_text(f.trend) UNION ALL SELECT * FROM jsonb_each_text(excluded.trend)
           ) AS each (time, count) GROUP BY time ORDER BY time::bigint DESC LIMIT ${maxTrendPoints}
         ) AS kept
       ) END`,
    [
      int8s(rows.map(({ spec }) => spec)),
      texts(rows.map(({ fingerprint }) => fingerprint)),
      texts(rows.map(({ error }) => error)),
      int8s(rows.map(({ count }) => count)),
      float8s(rows.map(({ firstTime }) => firstTime)),
      float8s(rows.map(({ lastTime }) => lastTime)),
      int4s(rows.map(({ tries }) => tries)),
      byteas(rows.map(({ example }) => nameToBytes(example))),
      texts(
        rows.map(({ trend }) =>
          JSON.stringify(Object.fromEntries(trend.map(({ time, count }) => [time, count]))),
        ),
      ),
    ],
  );
}

/** Records units that failed in this transaction. */
export async function noteFailed(tx: Session, units: readonly Unit[]): Promise<void> {
  await tx.rows(
    `INSERT INTO @failed (unit, spec, key) SELECT u.id, u.spec, u.key FROM @unit u WHERE u.id = ANY ($1::bigint[])
     ON CONFLICT (unit) DO NOTHING`,
    [int8s(units.map(({ id }) => id))],
  );
}

/** Removes units that no longer count as failed or were deleted. */
export async function dropFailed(tx: Session, units: readonly Unit[]): Promise<void> {
  const rows = await tx.rows(
    `WITH gone AS (DELETE FROM @failed WHERE unit = ANY ($1::bigint[]) RETURNING spec, fingerprint)
     SELECT spec, fingerprint, count(*) FROM gone WHERE fingerprint IS NOT NULL GROUP BY spec, fingerprint`,
    [int8s(units.map(({ id }) => id))],
  );
  await writeDeltas(
    tx,
    (rows as [number, string, number][]).map(([spec, fingerprint, count]) => ({
      spec,
      fingerprint,
      error: "",
      count: -count,
      ...noFailures(),
    })),
  );
}

/**
 * Deletes groups without units, of one work spec or of all. Only `groupFailures` adds units to a group, and it calls this first,
 * so that an empty group starts anew. The counts are added up again after the rows are locked, because another transaction may be
 * adding units to the group.
 */
export async function dropEmptyGroups(session: Session, spec: number | null): Promise<void> {
  await session.rows(
    `WITH empty AS (
       SELECT spec, fingerprint FROM @failure WHERE $1::bigint IS NULL OR spec = $1
       GROUP BY spec, fingerprint HAVING sum(count) <= 0
     ), locked AS (
       SELECT f.spec, f.fingerprint, f.shard, f.count FROM @failure f
       JOIN empty e ON ${isRow("f.spec", "e.spec")} AND f.fingerprint = e.fingerprint
       ORDER BY f.spec, f.fingerprint, f.shard FOR UPDATE OF f
     ), still AS (
       SELECT spec, fingerprint FROM locked GROUP BY spec, fingerprint HAVING sum(count) <= 0
     )
     DELETE FROM @failure f USING locked l JOIN still s ON l.spec = s.spec AND l.fingerprint = s.fingerprint
     WHERE ${isRow("f.spec", "l.spec")} AND f.fingerprint = l.fingerprint AND f.shard = l.shard`,
    [spec],
  );
}

const ungroupedSql = `
  SELECT f.unit FROM @failed f WHERE f.spec = $1 AND f.fingerprint IS NULL ORDER BY f.unit LIMIT $2`;

/** Puts about `limit` failed units of a spec into their groups. Returns whether all are grouped. */
export async function groupFailures(db: Database, spec: number, limit: number): Promise<boolean> {
  if ((await db.rows(ungroupedSql, [spec, 1])).length === 0) return true;
  return db.transaction(
    async (tx) => {
      await dropEmptyGroups(tx, spec);
      const ids = (
        (await tx.rows(`${ungroupedSql} FOR UPDATE SKIP LOCKED`, [spec, limit])) as [number][]
      ).map(([id]) => id);
      const groups = new Set(
        (
          (await tx.rows("SELECT DISTINCT fingerprint FROM @failure WHERE spec = $1 AND $2", [
            spec,
            true,
          ])) as [string][]
        ).map(([fingerprint]) => fingerprint),
      );
      const units = await tx.rows(
        `SELECT u.id, u.key, u.long_name, u.tries, u.attempt_end, u.reason,
           CASE WHEN u.attempt_own THEN u.attempt_data ELSE u.data END
         FROM @unit u WHERE u.id = ANY ($1::bigint[]) ORDER BY u.id`,
        [int8s(ids)],
      );
      const deltas = new Map<string, Delta>();
      const fingerprints = units.map(([, key, long, tries, end, reason, data]) => {
        const failure = failureOf(bytesData(data as Buffer | null), reason as FailReason | null, groups);
        const { fingerprint, error } = failure;
        groups.add(fingerprint);
        const delta = deltas.get(fingerprint) ?? { spec, fingerprint, error, count: 0, ...noFailures() };
        deltas.set(fingerprint, delta);
        delta.count++;
        summarize(delta, {
          name: nameOf(key as Buffer, long as Buffer | null),
          end: (end as number | null) ?? 0,
          tries: tries as number,
        });
        return fingerprint;
      });
      await tx.rows(
        `UPDATE @failed f SET fingerprint = g.fingerprint FROM unnest($1::bigint[], $2::text[]) AS g (unit, fingerprint)
         WHERE ${isRow("f.unit", "g.unit")}`,
        [int8s(units.map(([id]) => id as number)), texts(fingerprints)],
      );
      await writeDeltas(tx, [...deltas.values()]);
      return ids.length < limit;
    },
    { repeatable: true },
  );
}

export async function readFailures(
  session: Session,
  spec: { id: number; name: string },
): Promise<FailureRow[]> {
  const rows = await session.rows(
    `SELECT f.fingerprint, max(f.error), sum(f.count)::bigint, min(f.first)::float8, max(f.last)::float8, max(f.tries),
       (array_agg(f.example ORDER BY f.last DESC, f.example DESC) FILTER (WHERE length(f.error) > 0))[1],
       jsonb_agg(f.trend)::text
     FROM @failure f WHERE f.spec = $1 GROUP BY f.fingerprint HAVING sum(f.count) > 0`,
    [spec.id],
  );
  return (rows as [string, string, number, number, number, number, Buffer, string][]).map(
    ([fingerprint, error, count, firstTime, lastTime, tries, example, trends]) => ({
      workSpec: spec.name,
      fingerprint,
      error,
      count,
      firstTime,
      lastTime,
      example: nameOf(example, null),
      tries,
      trend: mergeTrend(
        (JSON.parse(trends) as Record<string, number>[]).flatMap((trend) =>
          Object.entries(trend).map(([time, failed]) => ({ time: Number(time), count: failed })),
        ),
      ),
    }),
  );
}
