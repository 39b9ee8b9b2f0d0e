/**
 * The status of units, in tables beside `unit`, so that claiming and settling a unit writes no index entry for it.
 *
 * `waiting` is exact: one row for each unit that is available, delayed or blocked, in the order in which queries read them. A
 * transaction that changes such a row holds the lock of the unit, and replaces the row: a claim that saw the old row skips it,
 * and does not find the new one, which is newer than its snapshot. Only the end of a delay updates the row in place, since no
 * claim reads delayed units.
 *
 * `lease` and `ended` have lists of units that were claimed or have ended together. A list may have stale units, and never misses
 * one: every running unit is in the list that its row names, and the time of the list is not after the end of the unit's lease;
 * every ended unit is in a list with its status and end time. Readers skip stale units. They are dropped when the time of the
 * list has come, or by the sweep.
 */
import { hasLanes, type WorkUnitStatus } from "../core/index.ts";
import { isRow, type Database, type Session } from "./connection.ts";
import { storedTryLimit } from "./extras.ts";
import { placeOf } from "./floor.ts";
import { laneOf, statusCode, type Unit } from "./units.ts";
import { bools, byteas, float8s, int2s, int4s, int8s } from "./values.ts";

// ---- in statements; `u` is a unit, `w` its row in `waiting`

/** The position of a unit among those of its status: the column `at` of `waiting`. */
export const atOf = "CASE u.status WHEN 0 THEN u.place WHEN 1 THEN u.not_before ELSE 0 END";

/** The ids of units that may be running. `condition` selects the lists `l`. */
export const runningIds = (condition: string): string =>
  `ARRAY(SELECT unnest(l.units) FROM @lease l WHERE ${condition})`;

/** The units of a list of `lease` that still run. */
export const runsIn = (list: string, columns = "1"): string => `(
      SELECT ${columns} FROM unnest(${list}.units) AS g (id) JOIN @unit u ON ${isRow("u.id", "g.id")}
      WHERE u.status = 3 AND u.lease = ${list}.id)`;

/** Whether a unit `u` of a spec is running although its lease has ended. */
export const isLapsed = (spec: string, by: string): string =>
  `u.id = ANY (${runningIds(`l.spec = ${spec} AND l.expiration <= ${by}`)}) AND u.status = 3 AND u.attempt_expiration <= ${by}`;

export const hasTimerPast = (now: string): string =>
  `EXISTS (SELECT 1 FROM @unit p WHERE p.timer IS NOT NULL AND p.timer <= ${now})`;

export const hasNeedyPast = (now: string): string =>
  `EXISTS (SELECT 1 FROM @lease l WHERE l.needy AND l.expiration <= ${now})`;

/**
 * Whether any spec has an elapsed timer, or an expired lease of a unit with dependencies. Units of other specs may fail as a
 * consequence, dated back to its cause: so this comes before any other change.
 */
export const hasOverdueAcross = (now: string): string => `(${hasTimerPast(now)} OR ${hasNeedyPast(now)})`;

/** Whether a lease of a spec may have ended. */
export const mayLapse = (spec: string, by: string): string =>
  `EXISTS (SELECT 1 FROM @lease l WHERE l.spec = ${spec} AND l.expiration <= ${by})`;

/** Whether the delay of a unit of a spec has ended. */
export const isDue = (spec: string, by: string): string =>
  `EXISTS (SELECT 1 FROM @waiting w WHERE w.spec = ${spec} AND w.status = 1 AND w.at <= ${by})`;

/** The ids of units of a status; for running and ended units, stale ids may be among them. */
export const idsOf = (spec: string, status: number): string =>
  status < 3
    ? `ARRAY(SELECT w.unit FROM @waiting w WHERE w.spec = ${spec} AND w.status = ${status})`
    : status === 3
      ? runningIds(`l.spec = ${spec}`)
      : `ARRAY(SELECT unnest(e.units) FROM @ended e WHERE e.spec = ${spec} AND e.status = ${status})`;

/** Whether a unit `u` in a list `e` of ended units is not stale. */
export const isMember = "u.spec = e.spec AND u.status = e.status AND coalesce(u.attempt_end, 0) = e.at";

/** Inserts a row into `waiting` for each changed unit `u` of a row source. */
export const waitingInsert = (source: string): string => `
    INSERT INTO @waiting (unit, spec, at, status, tries, max_tries, begun, lane, key)
    SELECT u.id, u.spec, ${atOf}, u.status, u.tries, u.max_tries, true, u.lane, u.key FROM ${source}`;

/** Inserts lists of those changed units `c` that ended. `c` has an `id`, a `spec`, a `status` and the end time as `ended`. */
export const endedInsert = `
    INSERT INTO @ended (spec, at, status, units)
    SELECT c.spec, c.ended, c.status, array_agg(c.id) FROM changed c WHERE c.status > 3 GROUP BY c.spec, c.ended, c.status`;

/** Deletes lists of which all units stopped running by the changes `c`. */
export const leaseDelete = `
    DELETE FROM @lease l USING (
      SELECT c.lease, count(*) AS units FROM changed c WHERE c.status <> 3 GROUP BY c.lease
    ) c WHERE ${isRow("l.id", "c.lease")} AND cardinality(l.units) <= c.units`;

// ---- by the rules

/** The properties of a unit that these tables depend on. */
export interface Standing {
  readonly status: WorkUnitStatus;
  readonly at: number;
  readonly tries: number;
  readonly maxTries: number | null;
  readonly begun: boolean;
  readonly lane: Buffer | null;
  /** The unit's list in `lease`, when its own lease ends, and whether it has dependencies or a timer. */
  readonly lease: number | null;
  readonly expiration: number;
  readonly needs: boolean;
  readonly end: number;
}

export function standingOf(unit: Omit<Unit, "stored">, lease: number | null): Standing {
  const { status, priority, notBefore, tries, extras, attempt, partition, spec, needs } = unit;
  return {
    status,
    at: status === "available" ? placeOf(priority) : status === "delayed" ? notBefore : 0,
    tries,
    maxTries: storedTryLimit(extras.retry),
    begun: attempt !== null,
    lane: laneOf(partition, spec.meta).lane,
    lease,
    expiration: attempt?.expiration ?? 0,
    needs,
    end: attempt?.end ?? 0,
  };
}

const waits = ({ status }: Standing): boolean =>
  status === "available" || status === "delayed" || status === "blocked";
const hasEnded = ({ status }: Standing): boolean => status === "finished" || status === "failed";

const isSameLane = (a: Buffer | null, b: Buffer | null): boolean =>
  a === b || (a !== null && b !== null && a.equals(b));

const waitsAlike = (a: Standing, b: Standing): boolean =>
  a.status === b.status &&
  a.at === b.at &&
  a.tries === b.tries &&
  a.maxTries === b.maxTries &&
  a.begun === b.begun &&
  isSameLane(a.lane, b.lane);

/** Whether a running unit can stay in its list. */
const runsAlike = (a: Standing, b: Standing): boolean =>
  a.status === "pending" &&
  a.lease !== null &&
  a.expiration <= b.expiration &&
  a.needs === b.needs &&
  isSameLane(a.lane, b.lane);

interface Moved {
  unit: Unit;
  before: Standing | null;
  after: Standing | null;
}

interface NewLease {
  id: number;
  spec: number;
  expiration: number;
  needy: boolean;
  lane: Buffer | null;
  units: number[];
}

/** Updates these tables for changed and removed units. */
export class Standings {
  readonly #moved: Moved[];
  readonly #leases: NewLease[] = [];
  readonly #leaseOf = new Map<Unit, number | null>();

  constructor(changed: Iterable<Unit>, removed: Iterable<Unit>) {
    this.#moved = [
      ...[...changed].map((unit) => ({
        unit,
        before: unit.stored?.standing ?? null,
        after: standingOf(unit, unit.stored?.standing.lease ?? null),
      })),
      ...[...removed]
        .filter(({ stored }) => stored !== null)
        .map((unit) => ({ unit, before: unit.stored?.standing ?? null, after: null })),
    ];
  }

  /** Makes lists for units that begin to run or cannot stay in their list. */
  async makeLeases(allocate: (count: number) => Promise<number[]>): Promise<void> {
    const lists = new Map<string, NewLease>();
    const begun: { unit: Unit; list: NewLease }[] = [];
    for (const { unit, before, after } of this.#moved) {
      if (after?.status !== "pending" || (before !== null && runsAlike(before, after))) continue;
      const lane = hasLanes(unit.spec.meta) ? after.lane : null;
      const key = `${unit.spec.id} ${after.expiration} ${after.needs} ${lane?.toString("latin1")}`;
      let list = lists.get(key);
      if (list === undefined) {
        list = {
          id: 0,
          spec: unit.spec.id,
          expiration: after.expiration,
          needy: after.needs,
          lane,
          units: [],
        };
        lists.set(key, list);
        this.#leases.push(list);
      }
      list.units.push(unit.id);
      begun.push({ unit, list });
    }
    if (this.#leases.length === 0) return;
    const ids = await allocate(this.#leases.length);
    for (const [i, list] of this.#leases.entries()) list.id = ids[i]!;
    for (const { unit, list } of begun) this.#leaseOf.set(unit, list.id);
  }

  /** The id of the list of a running unit. */
  leaseOf(unit: Unit): number | null {
    if (unit.status !== "pending") return null;
    return this.#leaseOf.get(unit) ?? unit.stored?.standing.lease ?? null;
  }

  async save(session: Session, keyOf: (unit: Unit) => Buffer): Promise<void> {
    const differs = this.#moved.filter(
      ({ before, after }) =>
        before === null || after === null || !waits(before) || !waits(after) || !waitsAlike(before, after),
    );
    const left = differs.filter(({ before }) => before !== null && waits(before));
    if (left.length > 0)
      await session.rows(dropWaiting, [
        int8s(left.map(({ unit }) => unit.spec.id)),
        int2s(left.map(({ before }) => statusCode[before!.status])),
        float8s(left.map(({ before }) => before!.at)),
        byteas(left.map(({ unit }) => keyOf(unit))),
      ]);
    const came = differs.filter(({ after }) => after !== null && waits(after));
    if (came.length > 0)
      await session.rows(addWaiting, [
        int8s(came.map(({ unit }) => unit.id)),
        int8s(came.map(({ unit }) => unit.spec.id)),
        float8s(came.map(({ after }) => after!.at)),
        int2s(came.map(({ after }) => statusCode[after!.status])),
        int4s(came.map(({ after }) => after!.tries)),
        int4s(came.map(({ after }) => after!.maxTries)),
        bools(came.map(({ after }) => after!.begun)),
        byteas(came.map(({ after }) => after!.lane)),
        byteas(came.map(({ unit }) => keyOf(unit))),
      ]);
    const stopped = new Map<number, number>();
    for (const { unit, before } of this.#moved)
      if (before?.status === "pending" && before.lease !== null && this.leaseOf(unit) !== before.lease)
        stopped.set(before.lease, (stopped.get(before.lease) ?? 0) + 1);
    if (stopped.size > 0)
      await session.rows(dropLeases, [int8s([...stopped.keys()]), int8s([...stopped.values()])]);
    if (this.#leases.length > 0)
      await session.rows(addLease, [
        ...slices(this.#leases),
        int8s(this.#leases.map(({ id }) => id)),
        int8s(this.#leases.map(({ spec }) => spec)),
        int8s(this.#leases.map(({ expiration }) => expiration)),
        bools(this.#leases.map(({ needy }) => needy)),
        byteas(this.#leases.map(({ lane }) => lane)),
      ]);
    const ended = new Map<string, { spec: number; at: number; status: number; units: number[] }>();
    for (const { unit, before, after } of this.#moved) {
      if (after === null || !hasEnded(after)) continue;
      if (before?.status === after.status && before.end === after.end) continue;
      const key = `${unit.spec.id} ${after.status} ${after.end}`;
      const list = ended.get(key) ?? {
        spec: unit.spec.id,
        at: after.end,
        status: statusCode[after.status],
        units: [],
      };
      ended.set(key, list);
      list.units.push(unit.id);
    }
    const lists = [...ended.values()];
    if (lists.length > 0)
      await session.rows(addEnded, [
        ...slices(lists),
        int8s(lists.map(({ spec }) => spec)),
        int8s(lists.map(({ at }) => at)),
        int2s(lists.map(({ status }) => status)),
      ]);
  }
}

/** The units of all lists in one array, and where those of each begin and end. */
function slices(lists: readonly { units: readonly number[] }[]): Buffer[] {
  const firsts: number[] = [];
  const lasts: number[] = [];
  let count = 0;
  for (const { units } of lists) {
    firsts.push(count + 1);
    lasts.push((count += units.length));
  }
  return [int8s(lists.flatMap(({ units }) => units)), int4s(firsts), int4s(lasts)];
}

const dropWaiting = `
  DELETE FROM @waiting WHERE ctid = ANY (ARRAY(
    SELECT w.ctid FROM unnest($1::bigint[], $2::smallint[], $3::float8[], $4::bytea[]) AS g (spec, status, at, key)
    CROSS JOIN LATERAL (
      SELECT w.ctid FROM @waiting w WHERE w.spec = g.spec AND w.status = g.status AND w.at = g.at AND w.key = g.key LIMIT 1
    ) w))`;

const addWaiting = `
  INSERT INTO @waiting (unit, spec, at, status, tries, max_tries, begun, lane, key)
  SELECT * FROM unnest($1::bigint[], $2::bigint[], $3::float8[], $4::smallint[], $5::int[], $6::int[], $7::boolean[], $8::bytea[],
    $9::bytea[])`;

const dropLeases = `
  DELETE FROM @lease l USING unnest($1::bigint[], $2::bigint[]) AS g (id, units)
  WHERE ${isRow("l.id", "g.id")} AND cardinality(l.units) <= g.units`;

const addLease = `
  INSERT INTO @lease (id, spec, expiration, needy, lane, units)
  SELECT g.id, g.spec, g.expiration, g.needy, g.lane, ($1::bigint[])[g.first:g.last]
  FROM unnest($2::int[], $3::int[], $4::bigint[], $5::bigint[], $6::bigint[], $7::boolean[], $8::bytea[])
    AS g (first, last, id, spec, expiration, needy, lane)`;

const addEnded = `
  INSERT INTO @ended (spec, at, status, units)
  SELECT g.spec, g.at, g.status, ($1::bigint[])[g.first:g.last]
  FROM unnest($2::int[], $3::int[], $4::bigint[], $5::bigint[], $6::smallint[]) AS g (first, last, spec, at, status)`;

// ---- dropping stale units

/** Lists per statement: of those whose time has come, and of those that the sweep checks every second. */
const listsAtOnce = 500;
const sweptAtOnce = 200;

const refileSql = (condition: string): string => `
  WITH looked AS MATERIALIZED (
    SELECT id, units FROM @lease WHERE ${condition} AND expiration <= $1::bigint ORDER BY expiration LIMIT ${listsAtOnce}
    FOR UPDATE SKIP LOCKED
  ), running AS MATERIALIZED (
    SELECT k.id, r.* FROM looked k CROSS JOIN LATERAL ${runsIn(
      "k",
      "min(u.attempt_expiration) AS expiration, bool_or(u.needs) AS needy, array_agg(u.id) AS units",
    )} r
  ), kept AS (
    UPDATE @lease l SET expiration = r.expiration, needy = r.needy, units = r.units
    FROM running r WHERE ${isRow("l.id", "r.id")} AND r.expiration IS NOT NULL
  ), gone AS (
    DELETE FROM @lease l USING running r WHERE ${isRow("l.id", "r.id")} AND r.expiration IS NULL
  )
  SELECT count(*), count(*) FILTER (WHERE expiration <= $1::bigint) FROM running`;

const refile = { ofSpec: refileSql("spec = $2"), needy: refileSql("needy") };

/**
 * Call it after the units with expired leases were updated. Lists whose time has come keep the units that still run, and get the
 * end of the first of their leases as their time; empty lists are deleted. Skips lists that other transactions have locked.
 */
export async function refileLeases(session: Session, spec: number | null, now: number): Promise<void> {
  for (;;) {
    const [row] =
      spec === null
        ? await session.rows(refile.needy, [now])
        : await session.rows(refile.ofSpec, [now, spec]);
    const [looked, left] = row as [number, number];
    // the lists that are left have expired leases that could not be handled
    if (looked < listsAtOnce || left > 0) return;
  }
}

/**
 * Deletes lists that have only stale units, some at a time, round and round: if it finds fewer lists than it looks for, the next
 * call begins at the start.
 */
export async function sweepLists(db: Database, cursor: ListCursor): Promise<void> {
  const [lease] = await db.write(sweepLeases, [cursor.lease], { repeatable: true });
  cursor.lease = (lease?.[0] as number | undefined) ?? 0;
  const [ended] = await db.write(sweepEnded, [cursor.spec, cursor.status, cursor.at], { repeatable: true });
  const [spec, status, at] = (ended ?? []) as (number | undefined)[];
  Object.assign(cursor, { spec: spec ?? 0, status: status ?? 0, at: at ?? 0 });
}

/** How far the sweep has checked the lists. */
export interface ListCursor {
  lease: number;
  spec: number;
  status: number;
  at: number;
}

const sweepLeases = `
  WITH looked AS MATERIALIZED (
    SELECT id, units FROM @lease WHERE id > $1::bigint ORDER BY id LIMIT ${sweptAtOnce}
  ), gone AS (
    DELETE FROM @lease l USING looked k WHERE ${isRow("l.id", "k.id")} AND NOT EXISTS ${runsIn("k")}
  )
  SELECT id FROM looked ORDER BY id OFFSET ${sweptAtOnce - 1}`;

/** Whether a list `e` of ended units has any unit that is not stale. */
const hasMembers = `EXISTS (SELECT 1 FROM unnest(e.units) AS g (id) JOIN @unit u ON ${isRow("u.id", "g.id")} WHERE ${isMember})`;

const sweepEnded = `
  WITH looked AS MATERIALIZED (
    SELECT e.ctid AS row, e.spec, e.status, e.at, ${hasMembers} AS serves FROM @ended e
    WHERE (e.spec, e.status, e.at) > ($1::bigint, $2::smallint, $3::bigint) ORDER BY e.spec, e.status, e.at LIMIT ${sweptAtOnce}
  ), gone AS (
    DELETE FROM @ended WHERE ctid = ANY (ARRAY(SELECT k.row FROM looked k WHERE NOT k.serves))
  )
  SELECT spec, status, at FROM looked ORDER BY spec, status, at OFFSET ${sweptAtOnce - 1}`;

/** Deletes the lists of a spec and a status, up to a time, that have only stale units. */
export async function dropEnded(
  session: Session,
  spec: number,
  status: number,
  until: number,
): Promise<void> {
  await session.rows(
    `DELETE FROM @ended e WHERE e.spec = $1 AND e.status = $2 AND e.at <= $3::bigint AND NOT ${hasMembers}`,
    [spec, status, until],
  );
}
