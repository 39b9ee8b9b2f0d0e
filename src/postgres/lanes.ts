/**
 * The lanes of work specs whose units are claimed by partition.
 *
 * Only claims write rows of `lane`, and they lock the work spec's row, so that they take turns. Other operations that may free a
 * lane (add a unit, settle or expire one, …) insert a row into `note`, with the lane and the first place that became available;
 * the next claim folds the notes into the lanes. So no operation waits for a lane, and no note is lost. The number of running
 * units of a lane is not stored but counted, with an index: it may be too high for a moment, while a settle is being committed,
 * and never too low.
 *
 * A lane stores its head: the place where its available units begin. It is in the ring (state 1) while it may be served. It is
 * skipped while it has no available units or is held (state 0), or is held until a time (state 2).
 */
import { hasLanes, maxCountedInPartition, type LaneRow } from "../core/index.ts";
import { isRow, type Database, type Row, type Session } from "./connection.ts";
import { comparePlaces, type Place } from "./floor.ts";
import { runsIn } from "./standing.ts";
import { readSpec, specColumns, type Spec } from "./units.ts";
import { byteas, float8s, int8s, laneKey, nameOf } from "./values.ts";

/** The most notes that one claim folds. */
const notesAtOnce = 5000;

/** The most waiting units that get their lane in one claim. */
export const unitsAtOnce = 20_000;

/** After this time every add that began before the work spec had lanes has ended. */
const buildAgainMs = 60_000;

/**
 * Whether a unit is available in a lane (`w` is its row in `waiting`), worded like the index of lanes, so that no other index
 * matches: while the planner believes the table empty, other indexes look as cheap, and it would read all waiting units for each
 * lane.
 */
export const waits = "w.status < 1 AND w.lane IS NOT NULL";

/** The ids of units that may run in a lane: from the lease rows of the lane, and from those written before the work spec had lanes. */
export const idsInLane = (spec: string, lane: string): string => `
        SELECT unnest(l.units) FROM @lease l WHERE l.spec = ${spec} AND l.lane = ${lane}
        UNION ALL SELECT unnest(l.units) FROM @lease l WHERE l.spec = ${spec} AND l.lane IS NULL`;

/** Ids of the units that have begun in a lane and have not ended. May include some that have ended. */
export const begunIds = (lane: string): string => `ARRAY(
        SELECT w.unit FROM @waiting w WHERE w.spec = $1 AND w.lane = ${lane} AND w.lane IS NOT NULL AND w.begun
        UNION ALL ${idsInLane("$1", lane)})`;

// ---- notes

export interface Note {
  spec: number;
  partition: string;
  /** The first unit that became available; null when none did. */
  first: Place | null;
}

/** Collects one note for each lane. */
export class LaneNotes {
  readonly #notes = new Map<string, Note>();

  add(spec: number, partition: string, at: Place | null): void {
    const key = `${spec} ${partition}`;
    const note = this.#notes.get(key);
    if (note === undefined) this.#notes.set(key, { spec, partition, first: at });
    else if (at !== null && (note.first === null || comparePlaces(at, note.first) < 0)) note.first = at;
  }

  get size(): number {
    return this.#notes.size;
  }

  /** Arrays of spec, lane, long partition, place and key. */
  values(): Buffer[] {
    const notes = [...this.#notes.values()];
    const keys = notes.map(({ partition }) => laneKey(partition));
    return [
      int8s(notes.map(({ spec }) => spec)),
      byteas(keys.map(({ lane }) => lane)),
      byteas(keys.map(({ long }) => long)),
      float8s(notes.map(({ first }) => first?.place ?? null)),
      byteas(notes.map(({ first }) => first?.key ?? null)),
    ];
  }
}

/** Lanes per row of `note`. */
const notesPerRow = 50;

/** Inserts notes from a row source `n` with a spec, a lane, its long partition, a place and its key (or nulls), and a row number. */
export const noteInsert = (source: string): string => `
    INSERT INTO @note (spec, lanes, partitions, places, keys)
    SELECT n.spec, array_agg(n.lane), array_agg(n.partition), array_agg(n.place), array_agg(n.key)
    FROM ${source} GROUP BY n.spec, n.number / ${notesPerRow}`;

/** The arrays of `LaneNotes.values` as a row source, from this parameter on. */
export const notesFrom = (parameter: number): string =>
  `unnest($${parameter}::bigint[], $${parameter + 1}::bytea[], $${parameter + 2}::bytea[], $${parameter + 3}::float8[], $${parameter + 4}::bytea[])
    WITH ORDINALITY AS n (spec, lane, partition, place, key, number)`;

export async function writeNotes(tx: Session, notes: LaneNotes): Promise<void> {
  if (notes.size > 0) await tx.rows(noteInsert(notesFrom(1)), notes.values());
}

/** The columns of a note of a changed unit `c`. */
export const noteColumns = `c.lane, c.partition, CASE WHEN c.status = 0 THEN c.place END AS place,
      CASE WHEN c.status = 0 THEN c.key END AS key`;

/** $1 spec, $2 now, $3 whether the spec is `fair`, so that all lanes have the same rank, $4 how many. */
const foldSteps = `gone AS (
    DELETE FROM @note WHERE ctid = ANY (ARRAY(SELECT ctid FROM @note WHERE spec = $1 LIMIT $4 / ${notesPerRow})) AND spec = $1
    RETURNING lanes, partitions, places, keys
  ), woken AS MATERIALIZED (
    SELECT lane, long_partition, NULL::float8, NULL::bytea FROM @lane
    WHERE spec = $1 AND state = 2 AND until <= $2::float8 ORDER BY until LIMIT $4
  ), noted AS (
    SELECT DISTINCT ON (n.lane) n.lane, n.partition, n.place, n.key
    FROM (SELECT n.* FROM gone CROSS JOIN LATERAL unnest(lanes, partitions, places, keys) AS n (lane, partition, place, key)
      UNION ALL SELECT * FROM woken) AS n (lane, partition, place, key)
    ORDER BY n.lane, n.place, n.key
  ), folded AS (
    INSERT INTO @lane AS l (spec, lane, partition, long_partition, state, rank, until, full_at, place, key)
  SELECT $1, n.lane, coalesce(n.partition, n.lane), n.partition, CASE WHEN n.place IS NULL THEN 0 ELSE 1 END,
    CASE WHEN $3::boolean THEN 0 ELSE coalesce(n.place, 0) END, 0, 0, n.place, n.key
  FROM noted n LEFT JOIN LATERAL (SELECT * FROM @lane o WHERE o.spec = $1 AND o.lane = n.lane LIMIT 1) o ON true
  -- most notes say what the lane knows: it has no available units, or it stands in the ring, and its head comes before the unit
  WHERE coalesce(n.place, o.place) IS NOT NULL
    AND (o.state IS DISTINCT FROM 1 OR o.place IS NULL OR (n.place, n.key) < (o.place, o.key))
  ON CONFLICT (spec, lane) DO UPDATE SET
    state = CASE WHEN coalesce(l.place, excluded.place) IS NULL THEN 0 ELSE 1 END,
    rank = CASE WHEN $3::boolean THEN 0 ELSE coalesce(least(l.place, excluded.place), 0) END,
    until = 0,
    place = least(l.place, excluded.place),
    key = CASE WHEN l.place IS NULL OR (excluded.place, excluded.key) < (l.place, l.key) THEN excluded.key ELSE l.key END
  )`;

/**
 * Creates missing lanes, folds notes into lanes, and reopens lanes that were held until now. The caller has locked the work
 * spec's row. `also` is a query of other tables that runs in the same round trip; its values are $5 and the following.
 */
export async function foldNotes(
  tx: Session,
  spec: Spec,
  now: number,
  also = "SELECT 1",
  values: readonly unknown[] = [],
): Promise<Row[]> {
  await buildLanes(tx, spec, now);
  return tx.rows(`WITH ${foldSteps} ${also}`, [spec.id, now, spec.meta.fair !== "", notesAtOnce, ...values]);
}

/**
 * Folds the notes of an add of many units, one for each of its partitions, as the next claim would otherwise do: after a load of a
 * million units every claim folded 5,000 notes for the 100 units that it wanted. If a claim has locked the work spec's row, or the
 * fold fails, claims fold them. The add has been committed.
 */
export async function foldAfterAdd(db: Database, spec: Spec, units: number, now: number): Promise<void> {
  for (let left = units; left > 0; left -= notesAtOnce) {
    const folded = await db
      .transaction(async (tx) => {
        const [row] = await tx.rows(
          `SELECT ${specColumns} FROM @spec s JOIN @namespace n ON n.id = s.namespace
           WHERE s.id = $1 AND NOT s.dead FOR UPDATE OF s SKIP LOCKED`,
          [spec.id],
        );
        if (row === undefined) return false;
        const current = readSpec(spec.id, row);
        if (hasLanes(current.meta)) await foldNotes(tx, current, now);
        return true;
      })
      .catch(() => false);
    if (!folded) return;
  }
}

// ---- building

/**
 * Creates the lanes of existing units: at the first claim after the rules were set, and once more a minute later, for units whose
 * add had begun before. The caller has locked the work spec's row.
 *
 * Units without a partition have no lane until then. Those that run get it at once, since limits count them. Of those that wait,
 * a claim changes only some, in claim order, so that it does not take long; the next claim goes on. Until then the others are not
 * handed out.
 */
async function buildLanes(tx: Session, spec: Spec, now: number): Promise<void> {
  const at = spec.buildLanes;
  if (at === 0 || at > now) return;
  // an order depends on the units that have begun and wait again, wherever they are in claim order
  const limit = spec.meta.order === "" ? unitsAtOnce : null;
  const [row] = await tx.rows(
    `WITH held AS MATERIALIZED (
       SELECT w.ctid AS row FROM @waiting w JOIN @unit u ON ${isRow("u.id", "w.unit")}
       WHERE w.spec = $1 AND w.lane IS NULL ORDER BY w.status, w.at, w.key LIMIT $2 FOR UPDATE
     ), gone AS (
       DELETE FROM @waiting w USING held h WHERE w.ctid = h.row RETURNING w.*
     ), moved AS (
       INSERT INTO @waiting (unit, spec, at, status, tries, max_tries, begun, lane, key)
       SELECT unit, spec, at, status, tries, max_tries, begun, '', key FROM gone
     ), named AS (
       UPDATE @unit u SET lane = '' WHERE u.id = ANY (ARRAY(
         SELECT unit FROM gone
         UNION ALL SELECT unnest(l.units) FROM @lease l WHERE l.spec = $1)) AND u.lane IS NULL AND u.status < 4
     )
     SELECT count(*) FROM gone`,
    [spec.id, limit],
  );
  const isDone = (row?.[0] as number) < unitsAtOnce || limit === null;
  const open =
    "CASE WHEN place IS NULL THEN 0 ELSE 1 END, CASE WHEN $2::boolean THEN 0 ELSE coalesce(place, 0) END, 0";
  await tx.rows(
    `UPDATE @lane SET (state, rank, until) = ROW (${open}) WHERE spec = $1 AND (state, rank, until) IS DISTINCT FROM (${open})`,
    [spec.id, spec.meta.fair !== ""],
  );
  const first = (where: string): string => `
    SELECT w.lane, u.partition, w.at AS place, w.key FROM @waiting w JOIN @unit u ON ${isRow("u.id", "w.unit")}
    WHERE w.spec = $1 AND ${waits} ${where} ORDER BY w.lane, w.at, w.key LIMIT 1`;
  await tx.rows(
    `WITH RECURSIVE walk AS (
       (${first("")}) UNION ALL SELECT n.* FROM walk CROSS JOIN LATERAL (${first("AND w.lane > walk.lane")}) n
     ) ${noteInsert("(SELECT $1::bigint AS spec, walk.*, row_number() OVER () AS number FROM walk) AS n")}`,
    [spec.id],
  );
  const next = !isDone ? at : at === 1 ? now + buildAgainMs : 0;
  if (next !== at) await tx.rows("UPDATE @spec SET build_lanes = $2 WHERE id = $1", [spec.id, next]);
  // one step in a transaction
  spec.buildLanes = 0;
}

// ---- listing

/** The first lane that is `after`, among lanes with available units, with units that have begun and wait again, or with running units. */
const nextLaneSql = (after: string): string => `
  SELECT least(
    (SELECT w.lane FROM @waiting w WHERE w.spec = $1 AND ${waits} AND w.lane ${after} ORDER BY w.lane, w.at, w.key LIMIT 1),
    (SELECT w.lane FROM @waiting w WHERE w.spec = $1 AND w.begun AND w.lane IS NOT NULL AND w.lane ${after} ORDER BY w.lane LIMIT 1),
    (SELECT l.lane FROM @lease l WHERE l.spec = $1 AND l.lane IS NOT NULL AND l.lane ${after} AND EXISTS ${runsIn("l")}
       ORDER BY l.lane LIMIT 1),
    (SELECT u.lane FROM @lease l CROSS JOIN LATERAL ${runsIn("l", "u.lane")} u
       WHERE l.spec = $1 AND l.lane IS NULL AND u.lane ${after} ORDER BY u.lane LIMIT 1)) AS lane`;

/** Skips from index entry to index entry, so that only units that are counted are read. $1 spec, $2 the previous lane, $3 how many. */
const listSql = (after: string): string => `
  WITH RECURSIVE walk AS (
    SELECT n.lane, 1 AS number FROM (${nextLaneSql(`${after} $2::bytea`)}) n WHERE n.lane IS NOT NULL
    UNION ALL
    SELECT n.lane, walk.number + 1 FROM walk CROSS JOIN LATERAL (${nextLaneSql("> walk.lane")}) n
    WHERE n.lane IS NOT NULL AND walk.number < $3
  )
  SELECT walk.lane, coalesce(f.partition, b.partition), f.key, f.long_name,
    (SELECT count(*)::int FROM (
      SELECT 1 FROM @waiting w WHERE w.spec = $1 AND w.lane = walk.lane AND ${waits} LIMIT ${maxCountedInPartition}) AS c),
    b.begun, b.running, b.available, coalesce(l.full_at, 0)
  FROM walk
  LEFT JOIN LATERAL (SELECT u.key, u.long_name, u.partition FROM @waiting w JOIN @unit u ON ${isRow("u.id", "w.unit")}
    WHERE w.spec = $1 AND w.lane = walk.lane AND ${waits} ORDER BY w.at, w.key LIMIT 1) f ON true
  CROSS JOIN LATERAL (SELECT count(*)::int AS begun, (count(*) FILTER (WHERE c.status = 3))::int AS running,
      (count(*) FILTER (WHERE c.status = 0))::int AS available, (array_agg(c.partition))[1] AS partition
    FROM (SELECT u.status, u.partition FROM @unit u WHERE u.id = ANY (${begunIds("walk.lane")}) AND u.lane = walk.lane
      AND u.status < 4 AND u.attempt_status IS NOT NULL LIMIT ${maxCountedInPartition}) AS c) b
  LEFT JOIN @lane l ON l.spec = $1 AND l.lane = walk.lane
  ORDER BY walk.lane`;

const listStatements = { first: listSql(">="), next: listSql(">") };

/** The partitions with units that wait or have begun, in lane order: by name, except for long partitions. */
export async function listLanes(
  db: Database,
  spec: Spec,
  previous: string | null,
  limit: number,
  now: number,
): Promise<LaneRow[]> {
  if (!hasLanes(spec.meta)) return [];
  if (spec.buildLanes > 0 && spec.buildLanes <= now)
    await db.transaction(async (tx) => {
      const [row] = await tx.rows("SELECT build_lanes FROM @spec WHERE id = $1 FOR UPDATE", [spec.id]);
      if (row !== undefined) await buildLanes(tx, { ...spec, buildLanes: row[0] as number }, now);
    });
  const rows = await db.rows(previous === null ? listStatements.first : listStatements.next, [
    spec.id,
    laneKey(previous ?? "").lane,
    limit,
  ]);
  return rows.map(([lane, partition, key, longName, waiting, begun, running, begunAvailable, full]) => ({
    partition: nameOf(lane as Buffer, partition as Buffer | null),
    waiting: waiting as number,
    running: running as number,
    begun: begun as number,
    begunAvailable: begunAvailable as number,
    full: full as number,
    first: key === null ? null : nameOf(key as Buffer, longName as Buffer | null),
  }));
}

// ---- sweeping

/** Deletes lanes without available units whose token bucket is full, and the notes of work specs that have no lanes any more. */
export async function sweepLanes(session: Session, limit: number, now: number): Promise<void> {
  await session.rows(
    `DELETE FROM @lane WHERE ctid = ANY (ARRAY(SELECT ctid FROM @lane WHERE place IS NULL AND full_at <= $1::float8 LIMIT $2))
       AND place IS NULL AND full_at <= $1::float8`,
    [now, limit],
  );
  await session.rows(
    `DELETE FROM @note WHERE ctid = ANY (ARRAY(
       SELECT n.ctid FROM @spec s JOIN @note n ON n.spec = s.id WHERE NOT s.laned LIMIT $1))`,
    [limit],
  );
}
