/** The sweep: housekeeping in bounded steps, of overdue work, of units that ended long ago, and of rows that deletions left behind. */
import {
  countRetired,
  exhaustUnits,
  hasBreaker,
  nothingSwept,
  removeUnits,
  specTryLimit,
  type RetentionLimit,
  type Slice,
  type Swept,
  type SweepLimits,
} from "../core/index.ts";
import { isRow, type Database, type Session } from "./connection.ts";
import { catchUp, hasOverdue, type CatchUpOptions } from "./expiry.ts";
import { sweepLanes } from "./lanes.ts";
import { dropRecords } from "./history.ts";
import { dropEmptyGroups, groupFailures } from "./failures.ts";
import { dropOldOutcomes } from "./outcomes.ts";
import { hasNoMessages, purgeQueues } from "./queues.ts";
import { dropEnded, isMember, sweepLists, type ListCursor } from "./standing.ts";
import { foldTallies, tallyOf } from "./tally.ts";
import { statusCode } from "./units.ts";
import { int8s } from "./values.ts";
import { readMeta } from "./work-specs.ts";
import { apply, PostgresSet, type Allocate } from "./working-set.ts";

/** Deleted specs stay this long: no statement that saw them alive runs longer. */
const graveHours = 1;

/** The work specs are read once, not by each namespace that was deleted in the last hour. */
export const dropNamespacesSql = `
  DELETE FROM @namespace n WHERE n.dead AND $1 AND n.id NOT IN (SELECT s.namespace FROM @spec s WHERE s.dead)
    AND NOT EXISTS (SELECT 1 FROM @spec s WHERE s.namespace = n.id AND NOT s.dead)
    AND ${hasNoMessages} AND NOT EXISTS (SELECT 1 FROM @action a WHERE a.namespace = n.id)`;

export async function purgeUnits(
  db: Database,
  limit: number,
  now: number,
  allocate: Allocate,
): Promise<Slice & { changed: string[] }> {
  return db.transaction(
    async (tx) => {
      // work specs that an older daemon added to a namespace while it was deleted
      await tx.rows(
        `UPDATE @spec s SET dead = true, died = now() FROM @namespace n WHERE n.dead AND s.namespace = n.id AND NOT s.dead AND $1`,
        [true],
      );
      // several daemons may purge at once: each skips the units that others have locked
      const rows = await tx.rows(
        `SELECT u.id FROM @spec s, LATERAL (
           SELECT id FROM @unit WHERE spec = s.id ORDER BY key LIMIT $1 FOR UPDATE SKIP LOCKED
         ) u WHERE s.dead LIMIT $1`,
        [limit],
      );
      const ids = (rows as [number][]).map(([id]) => id);
      const set = new PostgresSet(tx, now, allocate);
      if (ids.length > 0) {
        await set.loadUnits(ids);
        await apply(set, removeUnits(set, set.units(ids)));
      }
      const left = await purgeQueues(tx, limit);
      const done = ids.length < limit && left < limit;
      if (done) {
        const gone = await tx.rows(
          `DELETE FROM @spec s WHERE s.dead AND s.died < now() - make_interval(hours => $1::int)
             AND NOT EXISTS (SELECT 1 FROM @unit u WHERE u.spec = s.id) RETURNING s.id, s.namespace`,
          [graveHours],
        );
        if (gone.length > 0) {
          await dropRecords(tx, gone as [number, number][]);
          await tx.rows(
            "DELETE FROM @tally t WHERE NOT EXISTS (SELECT 1 FROM @spec s WHERE s.id = t.spec AND $1)",
            [true],
          );
          for (const table of ["lane", "note", "outcome", "waiting", "lease", "ended"])
            await tx.rows(`DELETE FROM @${table} WHERE spec = ANY ($1::bigint[])`, [
              int8s((gone as [number][]).map(([id]) => id)),
            ]);
          await tx.rows(
            "DELETE FROM @failure f WHERE NOT EXISTS (SELECT 1 FROM @spec s WHERE s.id = f.spec AND $1)",
            [true],
          );
        }
        await tx.rows(dropNamespacesSql, [true]);
      }
      return { deleted: ids.length, done, changed: [...set.freed] };
    },
    { repeatable: true },
  );
}

/** Whether a unit has reached its own try limit, worded like the index `waiting_spent`. */
const isOwnSpent = "w.status = 0 AND w.max_tries > 0 AND w.tries >= w.max_tries";

interface SweepSpec {
  id: number;
  namespace: Buffer;
  past: boolean;
  /** The try limit of the spec, and whether a unit has reached its own limit. */
  limit: number;
  spent: boolean;
  counted: boolean;
  retention: { status: "finished" | "failed"; limit: RetentionLimit; count: number }[];
}

export async function sweepStore(
  db: Database,
  limits: SweepLimits,
  cursors: SweepCursors,
  now: number,
  ways: CatchUpOptions,
): Promise<{ swept: Swept; changed: Buffer[]; failures: readonly unknown[] }> {
  const swept = nothingSwept();
  const changed: Buffer[] = [];
  const total = (): number => swept.expired + swept.due + swept.exhausted + swept.retired;
  const left = (): number => Math.max(0, limits.units - total());
  const specs = await readSpecs(db, null, now);
  for (const spec of specs) {
    if (!spec.past) continue;
    const { expired, due, generated } = await catchUp(db, spec.id, now, left(), ways);
    swept.expired += expired;
    swept.due += due;
    swept.generated += generated;
    if (expired + due + generated > 0) changed.push(spec.namespace);
  }
  // repeat over all work specs until none has exhausted units: units whose lease expired may have been tried too often, and so
  // may the dependents that a failed unit releases
  for (let before = -1; before !== swept.exhausted;) {
    const again = before >= 0;
    before = swept.exhausted;
    for (const spec of specs)
      while ((spec.limit > 0 || spec.spent || spec.past || again) && left() > 0) {
        const failed = await failExhausted(db, spec, left(), now, ways.allocate);
        if (failed === 0) break;
        swept.exhausted += failed;
        changed.push(spec.namespace);
      }
  }
  for (const spec of specs) {
    const before = total();
    if (!(await groupFailures(db, spec.id, Math.max(1, left())))) swept.more = true;
    // read the counts again if units failed just now, in this spec or in one that its units depend on
    const { retention } =
      swept.expired + swept.exhausted > 0 ? ((await readSpecs(db, spec.id, now))[0] ?? spec) : spec;
    for (const kept of retention)
      if (left() > 0) swept.retired += await retire(db, spec.id, kept, left(), now, ways.allocate);
    if (total() > before) changed.push(spec.namespace);
  }
  if (left() === 0) swept.more = true;
  const failures = await runAll([
    () => foldTallies(db, 1000, now),
    () => sweepLanes(db, 1000, now),
    () => dropEmptyGroups(db, null),
    () => deleteSome(db, "lock", "deadline < $1::float8", now),
    () => deleteSome(db, "request", "time < $1::bigint", limits.requestsBefore),
    () => deleteSome(db, "message", "request IS NOT NULL AND taken < $1::bigint", limits.requestsBefore),
    async () => {
      // parents are deleted after their last child
      for (let last = -1; last !== swept.workers;) {
        last = swept.workers;
        swept.workers += await forgetWorkers(db, limits.workersBefore);
      }
    },
    async () => {
      if (specs.some(({ counted }) => counted)) await dropOldOutcomes(db, now);
    },
    () => trimLog(db, cursors.log),
    () => sweepLists(db, cursors.lists),
  ]);
  return { swept, changed, failures };
}

/** Runs the steps one after the other, also after one has failed. Returns the errors. */
async function runAll(steps: readonly (() => Promise<unknown>)[]): Promise<unknown[]> {
  const failures: unknown[] = [];
  for (const step of steps)
    try {
      await step();
    } catch (error) {
      failures.push(error);
    }
  return failures;
}

/** Deletes at most ten thousand rows, so that one statement does not take long; the next sweep deletes more. */
async function deleteSome(db: Database, table: string, condition: string, value: number): Promise<void> {
  await db.write(
    `DELETE FROM @${table} WHERE ctid = ANY (ARRAY(SELECT ctid FROM @${table} WHERE ${condition} LIMIT 10000)) AND ${condition}`,
    [value],
    { repeatable: true },
  );
}

/** How far the parts of the sweep that work piece by piece have come. */
export interface SweepCursors {
  log: LogCursor;
  lists: ListCursor;
}

/** A place in the log of attempts. */
interface LogCursor {
  namespace: number;
  worker: Buffer;
  at: number;
}

/** Deletes log rows of which no unit is left, a few at a time, round and round. */
async function trimLog(db: Database, cursor: LogCursor): Promise<void> {
  const rows = await db.write(
    `WITH looked AS MATERIALIZED (
       SELECT namespace, worker, at, units FROM @log WHERE (namespace, worker, at) > ($1::bigint, $2::bytea, $3::bigint)
       ORDER BY namespace, worker, at LIMIT $4
     ), gone AS (
       DELETE FROM @log l USING looked s WHERE l.namespace = s.namespace AND l.worker = s.worker AND l.at = s.at
         AND NOT EXISTS (SELECT 1 FROM unnest(s.units) AS g (id) JOIN @unit u ON ${isRow("u.id", "g.id")})
     )
     SELECT namespace, worker, at FROM looked ORDER BY namespace DESC, worker DESC, at DESC LIMIT 1`,
    [cursor.namespace, cursor.worker, cursor.at, 200],
    { repeatable: true },
  );
  const [namespace = 0, worker = Buffer.alloc(0), at = 0] = (rows[0] ?? []) as [number?, Buffer?, number?];
  Object.assign(cursor, { namespace, worker, at });
}

/** All work specs or one of them, with what the sweep may have to do for them. */
async function readSpecs(db: Database, only: number | null, now: number): Promise<SweepSpec[]> {
  const rows = await db.rows(
    `SELECT s.id, n.name, ${hasOverdue("s", "$1::bigint")}, s.meta, c.finished, c.failed,
       EXISTS (SELECT 1 FROM @waiting w WHERE w.spec = s.id AND ${isOwnSpent})
     FROM @spec s JOIN @namespace n ON n.id = s.namespace, LATERAL ${tallyOf("s.id")} c
     WHERE NOT s.dead AND ($2::bigint IS NULL OR s.id = $2::bigint) ORDER BY s.id`,
    [now, only],
  );
  return (rows as [number, Buffer, boolean, string, number, number, boolean][]).map(
    ([id, namespace, past, text, finished, failed, spent]) => {
      const meta = readMeta(text, 0, null);
      const { retention } = meta;
      const counts = { finished, failed };
      return {
        id,
        namespace,
        past,
        limit: specTryLimit(meta),
        spent,
        counted: hasBreaker(meta),
        retention: (["finished", "failed"] as const).flatMap((status) => {
          const limit = retention[status];
          return limit === undefined ? [] : [{ status, limit, count: counts[status] }];
        }),
      };
    },
  );
}

async function failExhausted(
  db: Database,
  spec: SweepSpec,
  limit: number,
  now: number,
  allocate: Allocate,
): Promise<number> {
  const found = `SELECT w.unit FROM @waiting w JOIN @unit u ON ${isRow("u.id", "w.unit")} AND u.status = 0 WHERE w.spec = $1`;
  const byLimit = `${found} AND w.status = 0 AND w.tries > 0 AND w.max_tries IS NULL AND w.tries >= $2::bigint
    ORDER BY w.tries, w.unit LIMIT $3`;
  const byOwn = `${found} AND ${isOwnSpent} ORDER BY w.tries, w.unit LIMIT $2`;
  const find = async (session: Session, max: number, lock: string): Promise<number[]> => {
    const own = await session.rows(`${byOwn}${lock}`, [spec.id, max]);
    const others =
      spec.limit === 0 ? [] : await session.rows(`${byLimit}${lock}`, [spec.id, spec.limit, max]);
    return ([...own, ...others] as [number][]).slice(0, max).map(([id]) => id);
  };
  if ((await find(db, 1, "")).length === 0) return 0;
  return db.transaction(
    async (tx) => {
      const ids = await find(tx, limit, " FOR UPDATE OF u SKIP LOCKED");
      const set = new PostgresSet(tx, now, allocate);
      await set.loadUnits(ids);
      return apply(set, exhaustUnits(set, set.units(ids)));
    },
    { repeatable: true },
  );
}

/** Removes ended units, oldest first: those that are too old, and those that are too many. */
async function retire(
  db: Database,
  spec: number,
  { status, limit, count }: SweepSpec["retention"][number],
  max: number,
  now: number,
  allocate: Allocate,
): Promise<number> {
  const code = statusCode[status];
  // the lists are in order; some have only stale units, and a unit that ended twice in a millisecond is in two of them
  const oldest = `
    SELECT u.id, e.at FROM @ended e CROSS JOIN LATERAL unnest(e.units) AS g (id) JOIN @unit u ON ${isRow("u.id", "g.id")}
    WHERE e.spec = $1 AND e.status = ${code} AND ${isMember} ORDER BY e.at, u.id LIMIT $2`;
  const retired = (rows: readonly (readonly unknown[])[], ended: number): number =>
    countRetired(
      limit,
      rows.map((row) => row[1] as number),
      ended,
      now,
    );
  if (retired(await db.rows(oldest, [spec, 1]), count) === 0) return 0;
  return db.transaction(
    async (tx) => {
      const locked = await tx.rows(`${oldest} FOR UPDATE OF u SKIP LOCKED`, [spec, max]);
      const mine = new Set(locked.map(([id]) => id));
      // the list and the count are from one snapshot: units that another daemon is removing are in both until it commits. They
      // are left to it, and no others are removed in their place
      const listed = (await tx.rows(
        `SELECT DISTINCT o.id, o.at, (SELECT c.${status} FROM ${tallyOf("$1")} c) FROM (${oldest}) AS o ORDER BY o.at, o.id`,
        [spec, max],
      )) as [number, number, number][];
      const gone = listed.slice(0, retired(listed, listed[0]?.[2] ?? 0)).filter(([id]) => mine.has(id));
      const ids = gone.map(([id]) => id);
      const set = new PostgresSet(tx, now, allocate);
      await set.loadUnits(ids);
      const units = set.units(ids);
      const [first] = units;
      if (first === undefined) return 0;
      set.retire(first.spec, status, units.length);
      await apply(set, removeUnits(set, units, true));
      await dropEnded(tx, spec, code, gone.at(-1)?.[1] ?? 0);
      return units.length;
    },
    { repeatable: true },
  );
}

/** Deletes workers that were not seen for long, have no children and hold nothing; returns how many. At most a hundred, with their logs. */
function forgetWorkers(db: Database, before: number): Promise<number> {
  return db.transaction(
    async (tx) => {
      const rows = await tx.rows(
        `DELETE FROM @worker WHERE expiration < $1::bigint AND ctid = ANY (ARRAY(
           SELECT w.ctid FROM @worker w WHERE w.expiration < $1::bigint
             AND NOT EXISTS (SELECT 1 FROM @worker c WHERE c.namespace = w.namespace AND c.parent = w.name)
             AND NOT EXISTS (
               SELECT 1 FROM @spec s JOIN @lease l ON l.spec = s.id CROSS JOIN LATERAL unnest(l.units) AS g (id)
                 JOIN @unit u ON ${isRow("u.id", "g.id")} AND u.status = 3
               WHERE s.namespace = w.namespace AND NOT s.dead AND u.attempt_worker = w.name)
           LIMIT 100))
         RETURNING namespace, name`,
        [before],
      );
      for (const [namespace, name] of rows) {
        await tx.rows("DELETE FROM @log WHERE namespace = $1 AND worker = $2", [namespace, name]);
        // a later worker of this name has lost nothing
        await tx.rows(
          `UPDATE @history h SET held = false FROM @unit u JOIN @spec s ON s.id = u.spec
           WHERE h.held AND h.worker = $2 AND ${isRow("u.id", "h.unit")} AND s.namespace = $1`,
          [namespace, name],
        );
      }
      return rows.length;
    },
    { repeatable: true },
  );
}
