/** The lanes of one work spec that a claim by the rules of core has loaded, with their units; see `lanes.ts`. */
import {
  compareNames,
  nameFromBytes,
  nameToBytes,
  rankOf,
  turnGoesOn,
  type Hold,
  type LaneState,
  type WorkUnitStatus,
} from "../core/index.ts";
import { isRow, type Row, type Session } from "./connection.ts";
import { comparePlaces, placeOf, start, type Place } from "./floor.ts";
import { begunIds, foldNotes, waits } from "./lanes.ts";
import { freedSql } from "./tally.ts";
import { unitColumnCount, unitColumns, type Spec, type Unit } from "./units.ts";
import { byteas, float8s, int2s, int8s, keyPrefix, laneKey } from "./values.ts";

/** A unit that waits in a lane, as it was read without a lock. */
interface Entry {
  id: number;
  at: Place;
}

export class PgLane implements LaneState {
  readonly key: Buffer;
  readonly name: Buffer;
  readonly partition: string;
  running = 0;
  begun = 0;
  begunAvailable = 0;
  full: number;
  rank: number;
  hold: Hold | null = null;
  inRing = false;
  touched = false;
  /** Locked units in claim order; they come before all others that waited. */
  ready: Unit[] = [];
  /** Units that this claim made available. */
  arrivals: Unit[] = [];
  /** Available units that have begun before, in claim order. */
  begunReady: Unit[] = [];
  /** The units behind `ready`, as far as they were read. */
  entries: Entry[] = [];
  /** No unit waits behind the entries. */
  seenAll = false;
  /** The first unit that another transaction has locked. */
  passed: Place | null = null;
  /** Where the next read begins. */
  from: Place;

  constructor(key: Buffer, name: Buffer, rank: number, full: number, from: Place) {
    this.key = key;
    this.name = name;
    this.partition = nameFromBytes(name);
    this.rank = rank;
    this.full = full;
    this.from = from;
  }

  /** Whether units must be loaded before the lane can be ranked or served. */
  get isHungry(): boolean {
    dropUnavailable(this.ready);
    return this.ready.length === 0 && (this.entries.length > 0 || !this.seenAll);
  }

  /** The next unit, if the lane is not hungry. */
  get first(): Unit | undefined {
    dropUnavailable(this.ready);
    dropUnavailable(this.arrivals);
    const [waited] = this.ready;
    const [arrived] = this.arrivals;
    if (waited === undefined || arrived === undefined) return waited ?? arrived;
    return byClaim(waited, arrived) <= 0 ? waited : arrived;
  }

  /** Where its available units begin; null when there are none. */
  head(): Place | null {
    const places = [this.passed, this.first === undefined ? null : placeOfUnit(this.first)];
    if (this.isHungry) places.push(this.entries[0]?.at ?? this.from);
    return places.reduce((a, b) => (a === null || (b !== null && comparePlaces(b, a) < 0) ? b : a), null);
  }
}

function dropUnavailable(units: Unit[]): void {
  while (units[0] !== undefined && units[0].status !== "available") units.shift();
}

/** A place at or before that of the unit: see `keyPrefix`. */
export const placeOfUnit = ({ priority, name }: Unit): Place => ({
  place: placeOf(priority),
  key: keyPrefix(nameToBytes(name)),
});

const byClaim = (a: Unit, b: Unit): number => b.priority - a.priority || compareNames(a.name, b.name);
const byRing = (a: PgLane, b: PgLane): number => a.rank - b.rank || Buffer.compare(a.name, b.name);

/** What the lanes need of their working set. */
export interface LaneHost {
  readonly now: number;
  /** Units whose leases ended by then do not count as running. */
  readonly lapsedBy: number;
  readonly tx: Session;
  units(): Iterable<Unit>;
  unit(id: number): Unit | undefined;
  /** Locks and reads units that are still available, and skips those that other transactions have locked. */
  lockReady(ids: readonly number[]): Promise<void>;
  /** Adds units that are already locked and read. */
  keep(rows: readonly Row[]): Promise<void>;
}

const laneRow = "l.lane, l.partition, l.rank, l.full_at, l.place, l.key";

/**
 * The lanes of the lowest rank that is left: those after the cursor, then those before it. $1 spec, $2 known lanes, $3 cursor, $4
 * how many, $5 whether the turn of the lane at the cursor goes on; then that lane comes first.
 */
const ringSql = `
  (SELECT ${laneRow} FROM @lane l WHERE l.spec = $1 AND l.state = 1 AND l.rank = (SELECT rank FROM first)
     AND l.partition >= $3 AND (l.partition > $3 OR $5::boolean) AND NOT l.lane = ANY ($2::bytea[]) ORDER BY l.partition LIMIT $4)
  UNION ALL
  (SELECT ${laneRow} FROM @lane l WHERE l.spec = $1 AND l.state = 1 AND l.rank = (SELECT rank FROM first)
     AND l.partition <= $3 AND (l.partition < $3 OR NOT $5::boolean) AND NOT l.lane = ANY ($2::bytea[]) ORDER BY l.partition LIMIT $4)
  LIMIT $4`;

const firstRankSql = `first AS MATERIALIZED (
    SELECT l.rank FROM @lane l WHERE l.spec = $1 AND l.state = 1 AND NOT l.lane = ANY ($2::bytea[])
    ORDER BY l.spec, l.rank, l.partition LIMIT 1
  )`;

/** Lanes by name, including those without a row: their units may run. $2 lanes, $3 their partitions. */
const lanesSql = `
  SELECT g.lane, g.partition, coalesce(l.rank, 0) AS rank, coalesce(l.full_at, 0) AS full_at, l.place, l.key
  FROM unnest($2::bytea[], $3::bytea[]) AS g (lane, partition) LEFT JOIN @lane l ON l.spec = $1 AND l.lane = g.lane`;

/**
 * Lanes with the number of their units that have begun, the number of those that run, and the ids of those that wait again, all
 * without the known units; and when the last attempt of the spec ended, from the same snapshot. The values after those of the
 * lanes: the time by which leases must have ended, the known units, and now.
 */
const withBegun = (steps: string, lanes: string, value: number): string => `
  WITH ${steps === "" ? "" : `${steps}, `}lanes AS MATERIALIZED (${lanes})
  SELECT lanes.*, b.*, ${freedSql("$1", `$${value + 2}::bigint`)}
  FROM lanes CROSS JOIN LATERAL (
    SELECT count(*)::int, count(*) FILTER (WHERE u.status = 3 AND u.attempt_expiration > $${value}::bigint)::int,
      string_agg(u.id::text, ',') FILTER (WHERE u.status = 0)
    FROM @unit u WHERE u.id = ANY (${begunIds("lanes.lane")})
      AND u.lane = lanes.lane AND u.status < 4 AND u.attempt_status IS NOT NULL AND NOT u.id = ANY ($${value + 1}::bigint[])
  ) b`;

const laneStatements = {
  ring: { plain: `WITH ${firstRankSql} ${ringSql}`, begun: withBegun(firstRankSql, ringSql, 6) },
  named: { plain: lanesSql, begun: withBegun("", lanesSql, 4) },
};

/**
 * The first units of each lane from a place on, each with the next one as it was read. They are locked and read; of a unit that
 * another transaction has locked, only id, key and place are returned. $1 spec, $2 lanes, $3 places, $4 keys, $5 how many of
 * each.
 */
const entriesSql = `
  WITH seen AS MATERIALIZED (
    SELECT g.at::int AS at, u.id, u.place, u.key, row_number() OVER lane AS turn,
      lead(u.id) OVER lane AS next_id, lead(u.place) OVER lane AS next_place, lead(u.key) OVER lane AS next_key
    FROM unnest($2::bytea[], $3::float8[], $4::bytea[]) WITH ORDINALITY AS g (lane, place, key, at) CROSS JOIN LATERAL (
      SELECT w.unit AS id, w.at AS place, w.key FROM @waiting w
      WHERE w.spec = $1 AND w.lane = g.lane AND ${waits} AND (w.at, w.key) >= (g.place, g.key)
      ORDER BY w.at, w.key LIMIT $5 + 1
    ) u WINDOW lane AS (PARTITION BY g.at ORDER BY u.place, u.key)
  ), locked AS MATERIALIZED (
    SELECT s.at, s.next_id, s.next_place, s.next_key, ${unitColumns} FROM seen s JOIN @unit u ON ${isRow("u.id", "s.id")}
    WHERE s.turn <= $5 AND u.status = 0 FOR UPDATE OF u SKIP LOCKED
  )
  SELECT * FROM locked
  UNION ALL
  SELECT s.at, s.next_id, s.next_place, s.next_key, s.id, NULL, s.key, NULL, NULL, s.place${", NULL".repeat(unitColumnCount - 6)}
  FROM seen s WHERE s.turn <= $5 AND NOT s.id = ANY (ARRAY(SELECT l.id FROM locked l))`;

/** $1 spec, then arrays of lane, partition, state, rank, until, bucket, place and key. */
const saveSql = `
  INSERT INTO @lane AS l (spec, lane, partition, long_partition, state, rank, until, full_at, place, key)
  SELECT $1, g.lane, g.partition, CASE WHEN g.partition = g.lane THEN NULL ELSE g.partition END, g.state, g.rank, g.until,
    g.full_at, g.place, g.key
  FROM unnest($2::bytea[], $3::bytea[], $4::smallint[], $5::float8[], $6::float8[], $7::float8[], $8::float8[], $9::bytea[])
    AS g (lane, partition, state, rank, until, full_at, place, key)
  ON CONFLICT (spec, lane) DO UPDATE SET state = excluded.state, rank = excluded.rank, until = excluded.until,
    full_at = excluded.full_at, place = excluded.place, key = excluded.key`;

/** The lanes of one work spec that a claim has looked at. The work spec's row is locked. */
export class SpecLanes {
  readonly #host: LaneHost;
  readonly spec: Spec;
  readonly #lanes = new Map<string, PgLane>();
  readonly #ring: PgLane[] = [];
  #sorted = true;
  #folded: boolean;
  /** How many lanes may be visited before more have to be loaded; infinite once all are loaded. */
  #budget = 0;
  /** No lane that is not loaded has a lower rank: a stored rank may be lower than the current one, never higher. */
  #frontier = -Infinity;
  /** A lane of a lower rank was served and moved the cursor: the loaded lanes of the frontier were next after the old cursor. */
  #turned = false;
  /** Units that this claim made available in lanes that are not loaded. */
  #arrived: Unit[] = [];
  readonly #hungry = new Set<PgLane>();
  /** When the last attempt ended that is no longer counted as running. */
  freed = 0;

  /** `folded`: notes have been folded in this transaction. */
  constructor(host: LaneHost, spec: Spec, folded: boolean) {
    this.#host = host;
    this.spec = spec;
    this.#folded = folded;
  }

  /** Undefined when there is nothing to load. */
  load(count: number): Promise<void> | undefined {
    const isReady = this.#arrived.length === 0 && this.#isEnough() && this.#next()?.isHungry !== true;
    return isReady ? undefined : this.#load(count);
  }

  async #load(count: number): Promise<void> {
    if (!this.#folded) {
      this.#folded = true;
      await foldNotes(this.#host.tx, this.spec, this.#host.now);
    }
    do {
      if (!this.#isEnough()) await this.#loadRing(count);
      if (this.#arrived.length > 0) await this.#loadArrived();
      // when the next lane is hungry, units are loaded for all hungry lanes: each is served once in a round
      while (this.#next()?.isHungry === true) await this.#feed(count);
    } while (!this.#isEnough());
  }

  /** Whether the next lane is loaded. */
  #isEnough(): boolean {
    if (this.#budget === Infinity) return true;
    this.#sort();
    const rank = this.#ring[0]?.rank ?? -Infinity;
    return this.#budget > 0 && (this.#turned ? rank < this.#frontier : rank <= this.#frontier);
  }

  #sort(): void {
    if (!this.#sorted) this.#ring.sort(byRing);
    this.#sorted = true;
  }

  async #loadRing(count: number): Promise<void> {
    for (let found = 0; found < count;) {
      const known = byteas([...this.#lanes.values()].map(({ key }) => key));
      const rows = await this.#read(laneStatements.ring, [
        this.spec.id,
        known,
        this.#cursor(),
        count,
        turnGoesOn(this.spec.meta, this.spec),
      ]);
      if (rows.length === 0) {
        this.#budget = Infinity;
        return;
      }
      found += rows.length;
      this.#frontier = rows[0]?.[2] as number;
      await this.#keep(rows);
    }
    this.#budget = count;
    this.#turned = false;
  }

  #cursor(): Buffer {
    return nameToBytes(this.spec.cursor);
  }

  /** Reads lanes, with their units that have begun if a limit or the order needs them. */
  #read(statements: { plain: string; begun: string }, values: readonly unknown[]): Promise<Row[]> {
    const { maxRunningPerPartition, order } = this.spec.meta;
    if (maxRunningPerPartition === 0 && order === "") return this.#host.tx.rows(statements.plain, values);
    const known = [...this.#host.units()].map(({ id }) => id);
    return this.#host.tx.rows(statements.begun, [
      ...values,
      this.#host.lapsedBy,
      int8s(known),
      this.#host.now,
    ]);
  }

  async #loadArrived(): Promise<void> {
    const units = this.#arrived;
    this.#arrived = [];
    const missing = [...new Set(units.map(({ partition }) => partition))].filter(
      (one) => !this.#lanes.has(one),
    );
    const rows = await this.#read(laneStatements.named, [
      this.spec.id,
      byteas(missing.map((partition) => laneKey(partition).lane)),
      byteas(missing.map(nameToBytes)),
    ]);
    await this.#keep(rows);
    for (const unit of units) this.arrive(unit);
  }

  /** Adds lanes, with the number of their units that run. */
  async #keep(rows: readonly (readonly unknown[])[]): Promise<void> {
    const { maxRunningPerPartition, order } = this.spec.meta;
    const counted = maxRunningPerPartition > 0 || order !== "";
    const fresh = new Set<string>();
    const available: { lane: PgLane; id: number }[] = [];
    for (const [key, name, rank, full, place, placeKey, begun, running, waiting, freed] of rows) {
      const from = place === null ? start : { place: place as number, key: placeKey as Buffer };
      const lane = new PgLane(key as Buffer, name as Buffer, rank as number, full as number, from);
      lane.seenAll = place === null;
      this.#lanes.set(lane.partition, lane);
      this.#enterRing(lane);
      if (!counted) continue;
      fresh.add(lane.partition);
      this.freed = Math.max(this.freed, freed as number);
      lane.begun = begun as number;
      lane.running = running as number;
      const ids = waiting === null ? [] : (waiting as string).split(",").map(Number);
      lane.begunAvailable = ids.length;
      if (order !== "") for (const id of ids) available.push({ lane, id });
    }
    if (!counted) return;
    for (const unit of this.#host.units()) if (fresh.has(unit.partition)) this.#count(unit, unit.status, 1);
    if (available.length === 0) return;
    await this.#host.lockReady(available.map(({ id }) => id));
    for (const { lane, id } of available) {
      const unit = this.#host.unit(id);
      if (unit !== undefined) lane.begunReady.push(unit);
    }
    for (const { lane } of available) lane.begunReady.sort(byClaim);
  }

  /** Loads the next units of lanes that have none loaded. */
  async #feed(count: number): Promise<void> {
    const share = Math.max(1, Math.ceil(count / Math.max(1, this.#ring.length)));
    const hungry = [...this.#hungry].filter((lane) => lane.isHungry);
    this.#hungry.clear();
    const empty = hungry.filter(({ entries, seenAll }) => entries.length === 0 && !seenAll);
    if (empty.length > 0) {
      const rows = await this.#host.tx.rows(entriesSql, [
        this.spec.id,
        byteas(empty.map(({ key }) => key)),
        float8s(empty.map(({ from }) => from.place)),
        byteas(empty.map(({ from }) => from.key)),
        share,
      ]);
      const locked: Row[] = [];
      const behind = new Map<number, Entry>();
      for (const [at, nextId, nextPlace, nextKey, ...unit] of rows) {
        const [id, spec, key, , , place] = unit as [number, number | null, Buffer, unknown, unknown, number];
        empty[(at as number) - 1]!.entries.push({ id, at: { place, key } });
        if (nextId !== null)
          behind.set(id, {
            id: nextId as number,
            at: { place: nextPlace as number, key: nextKey as Buffer },
          });
        if (spec !== null) locked.push(unit);
      }
      await this.#host.keep(locked);
      for (const lane of empty) {
        lane.entries.sort((a, b) => comparePlaces(a.at, b.at));
        const more = behind.get(lane.entries.at(-1)?.id ?? 0);
        if (more !== undefined) lane.entries.push(more);
        lane.seenAll = lane.entries.length <= share;
        const last = lane.entries.at(-1);
        if (last !== undefined) lane.from = after(last.at);
      }
    }
    const wanted = hungry.flatMap((lane) => lane.entries.splice(0, share).map((entry) => ({ lane, entry })));
    if (wanted.length > 0) await this.#host.lockReady(wanted.map(({ entry }) => entry.id));
    for (const { lane, entry } of wanted) {
      const unit = this.#host.unit(entry.id);
      if (unit === undefined) lane.passed ??= entry.at;
      else if (unit.status === "available" && !lane.arrivals.includes(unit)) lane.ready.push(unit);
    }
    for (const lane of hungry) {
      lane.ready.sort(byClaim);
      this.#rank(lane);
      if (lane.isHungry) this.#hungry.add(lane);
    }
  }

  /** Updates the rank of a lane; of a hungry lane, to the lowest rank that it may have. */
  #rank(lane: PgLane): void {
    const { first } = lane;
    const ranks = first === undefined ? [] : [rankOf(this.spec.meta, first.priority)];
    if (lane.isHungry) ranks.push(rankOf(this.spec.meta, -(lane.entries[0]?.at ?? lane.from).place));
    if (ranks.length === 0) return;
    const rank = Math.min(...ranks);
    if (rank === lane.rank) return;
    lane.rank = rank;
    lane.touched = true;
    this.#sorted = false;
  }

  #enterRing(lane: PgLane): void {
    if (lane.isHungry) this.#hungry.add(lane);
    else if (lane.first === undefined) return;
    this.#rank(lane);
    if (lane.inRing) return;
    lane.inRing = true;
    this.#ring.push(lane);
    this.#sorted = false;
  }

  #leaveRing(lane: PgLane): void {
    this.#hungry.delete(lane);
    if (!lane.inRing) return;
    lane.inRing = false;
    this.#ring.splice(this.#ring.indexOf(lane), 1);
  }

  next(): PgLane | undefined {
    this.#budget--;
    const next = this.#next();
    if (next !== undefined && next.rank < this.#frontier) this.#turned = true;
    return next;
  }

  /** The first lane after the cursor among those of the lowest rank, or the lane at the cursor while its turn goes on. */
  #next(): PgLane | undefined {
    this.#sort();
    const [first] = this.#ring;
    if (first === undefined) return undefined;
    const cursor = this.#cursor();
    const from = turnGoesOn(this.spec.meta, this.spec) ? 0 : 1;
    let low = 0;
    let high = this.#ring.length;
    while (low < high) {
      const middle = (low + high) >>> 1;
      const lane = this.#ring[middle]!;
      if (lane.rank > first.rank || Buffer.compare(lane.name, cursor) >= from) high = middle;
      else low = middle + 1;
    }
    const next = this.#ring[low];
    return next?.rank === first.rank ? next : first;
  }

  nextUnit(lane: PgLane, begun: boolean): Unit | undefined {
    if (!begun) return lane.isHungry ? undefined : lane.first;
    dropUnavailable(lane.begunReady);
    return lane.begunReady[0];
  }

  served(lane: PgLane): void {
    lane.touched = true;
    this.#look(lane);
  }

  /** Updates a lane whose first unit may have changed. */
  #look(lane: PgLane): void {
    if (lane.isHungry) this.#hungry.add(lane);
    else if (lane.first === undefined) {
      this.#leaveRing(lane);
      return;
    }
    this.#rank(lane);
  }

  hold(lane: PgLane, hold: Hold): void {
    lane.touched = true;
    lane.hold = hold;
    this.#leaveRing(lane);
  }

  lane(partition: string): PgLane | undefined {
    return this.#lanes.get(partition);
  }

  // ---- what happens to units meanwhile

  enter(unit: Unit, status: WorkUnitStatus): void {
    const lane = this.#lanes.get(unit.partition);
    if (lane?.inRing === true) this.#look(lane);
    if (status === "finished" || status === "failed") return;
    if (lane === undefined) {
      if (status === "available") this.#arrived.push(unit);
      return;
    }
    this.#count(unit, status, 1);
    if (status === "available") this.arrive(unit);
  }

  leave(unit: Unit, status: WorkUnitStatus): void {
    if (status === "finished" || status === "failed") return;
    const lane = this.#lanes.get(unit.partition);
    if (lane === undefined) {
      this.#arrived = this.#arrived.filter((one) => one !== unit);
      return;
    }
    this.#count(unit, status, -1);
    lane.touched = true;
    if (lane.hold === null) return;
    lane.hold = null;
    this.#enterRing(lane);
  }

  #count(unit: Unit, status: WorkUnitStatus, by: number): void {
    const lane = this.#lanes.get(unit.partition);
    if (lane === undefined) return;
    const lapsed = (unit.attempt?.expiration ?? 0) <= this.#host.now;
    if (status === "pending" && !lapsed) lane.running += by;
    if (unit.attempt === null || status === "finished" || status === "failed") return;
    lane.begun += by;
    if (status === "available") lane.begunAvailable += by;
  }

  arrive(unit: Unit): void {
    const lane = this.#lanes.get(unit.partition);
    if (lane === undefined || unit.status !== "available") return;
    lane.touched = true;
    lane.hold = null;
    if (!lane.ready.includes(unit) && !lane.arrivals.includes(unit)) lane.arrivals.push(unit);
    lane.arrivals.sort(byClaim);
    if (unit.attempt !== null && !lane.begunReady.includes(unit)) lane.begunReady.push(unit);
    lane.begunReady.sort(byClaim);
    this.#enterRing(lane);
    this.#rank(lane);
  }

  async save(session: Session): Promise<void> {
    const lanes = [...this.#lanes.values()].filter(({ touched }) => touched);
    if (lanes.length === 0) return;
    const heads = lanes.map((lane) => lane.head());
    const untils = lanes.map(({ hold }) => hold?.until ?? 0);
    const isFree = lanes.map(({ hold }) => hold === null || hold.reason === "nothing");
    await session.rows(saveSql, [
      this.spec.id,
      byteas(lanes.map(({ key }) => key)),
      byteas(lanes.map(({ name }) => name)),
      int2s(heads.map((head, i) => (head === null ? 0 : isFree[i] === true ? 1 : untils[i]! > 0 ? 2 : 0))),
      float8s(heads.map((head) => (this.spec.meta.fair === "" ? (head?.place ?? 0) : 0))),
      float8s(untils),
      float8s(lanes.map(({ full }) => full)),
      float8s(heads.map((head) => head?.place ?? null)),
      byteas(heads.map((head) => head?.key ?? null)),
    ]);
  }
}

/** The place right behind another: no key is between a key and the same with a zero byte more. */
const after = ({ place, key }: Place): Place => ({ place, key: Buffer.concat([key, Buffer.of(0)]) });
