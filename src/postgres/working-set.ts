/**
 * The working set of an operation in PostgreSQL. Rows are read and locked when a rule asks for them, many per statement, and
 * written together when the rule is done, one statement for each kind of change.
 *
 * Rows are locked in the order of their ids, so that two transactions that need the same rows wait for each other and do not
 * deadlock. Dependents are locked later, as they are found: for them a deadlock is possible, and the transaction is retried.
 */
import {
  areExtras,
  batchOf,
  compareNames,
  hasLanes,
  hasRate,
  hasTimer,
  nameToBytes,
  nextTurnOf,
  noExtras,
  pairKey,
  refersTo,
  workUnitStatuses,
  WorkingSet,
  type AttemptKey,
  type AttemptState,
  type BatchRow,
  type BreakerState,
  type Extras,
  type Hold,
  type LaneState,
  type Loading,
  type Need,
  type OutcomeCounts,
  type QueueMessage,
  type Rule,
  type SharedLimitState,
  type Tally,
  type WorkUnitPut,
  type WorkUnitStatus,
} from "../core/index.ts";
import { dropHeld, insertHistory, updateHistory, type Archived } from "./attempts.ts";
import { dropBatch, findInner, holdBatch, writeBatch } from "./batches.ts";
import { isRow, type Row, type Session, type Transaction } from "./connection.ts";
import { comparePlaces, placeOf, type Place } from "./floor.ts";
import { dropFailed, noteFailed } from "./failures.ts";
import { holdLimits, saveFull } from "./limits.ts";
import { foldNotes, idsInLane, LaneNotes, writeNotes } from "./lanes.ts";
import { registerWorkers, writeLog } from "./log.ts";
import { findKeys, makeKeys } from "./long-names.ts";
import { meetNeeds, readNeeds, writeNeeds, type ReadNeed } from "./needs.ts";
import { loadBreaker, writeBreaker, writeOutcomes } from "./outcomes.ts";
import { writeMessages, type NewMessage } from "./queues.ts";
import { placeOfUnit, SpecLanes, type LaneHost, type PgLane } from "./spec-lanes.ts";
import { isLapsed, Standings } from "./standing.ts";
import { emptyDelta, freedSql, tallyOf, writeTallies, type Delta } from "./tally.ts";
import { StatementBatch } from "./statement-batch.ts";
import { deleteUnits, insertUnits, updateUnits, writeExtras, writeTimers } from "./unit-rows.ts";
import { fullColumns, pastColumns, readPast, readSpecOf, readUnit, type Spec, type Unit } from "./units.ts";
import { byteas, int4s, int8s, keyPrefix, laneKey, longestKey } from "./values.ts";
import { findSpecs } from "./work-specs.ts";

/** Takes ids for units and lease rows. */
export type Allocate = (count: number, session: Session) => Promise<number[]>;

/** Unit ids are taken from a sequence by the block, and are known before anything is written. */
export const unitBlock = 1000;

const loadSql = (condition: string): string => `
  SELECT ${fullColumns}
  FROM @unit u JOIN @spec s ON s.id = u.spec JOIN @namespace n ON n.id = s.namespace
  WHERE ${condition} ORDER BY u.id FOR UPDATE OF u`;

const loadById = loadSql("u.id = ANY ($1::bigint[])");
const loadByName = loadSql("u.spec = $2 AND u.key = ANY ($1::bytea[])");
const loadByTarget = loadSql(
  "u.id = ANY (ARRAY(SELECT DISTINCT d.unit FROM @need d WHERE d.target = ANY ($1::bigint[])))",
);
/** Picks available units: locks them in claim order, as claims do, and skips those that are locked. A second statement reads them. */
const pickReady = `
  SELECT u.id FROM @waiting w JOIN @unit u ON ${isRow("u.id", "w.unit")}
  WHERE w.spec = $1 AND w.status = 0 AND u.status = 0 AND NOT w.unit = ANY ($3::bigint[])
  ORDER BY w.at, w.key LIMIT $2 FOR UPDATE OF u SKIP LOCKED`;

/** Locks and reads units to claim, and skips those that other transactions have locked. */
const lockReady = `
  SELECT ${fullColumns}
  FROM @unit u JOIN @spec s ON s.id = u.spec JOIN @namespace n ON n.id = s.namespace
  WHERE u.id = ANY ($1::bigint[]) AND u.status = 0 ORDER BY u.id FOR UPDATE OF u SKIP LOCKED`;

/** Pending units with expired leases are left out; units of the set are counted by `count`. */
const countsSql = (now: string, lapsedBy: string, known: string): string => `
  SELECT c.available, c.delayed, c.blocked, c.pending - (SELECT count(*) FROM @unit u WHERE ${isLapsed("$1", `${lapsedBy}::bigint`)}
    AND NOT u.id = ANY (${known}::bigint[])), c.finished, c.failed,
    ${freedSql("$1", `${now}::bigint`)}
  FROM ${tallyOf("$1")} c`;

const pastKey = (unit: number, number: number): string => `${unit}.${number}`;

export class PostgresSet extends WorkingSet<Unit> {
  override readonly readsAhead = true;
  readonly #tx: Session;
  readonly #allocate: Allocate;
  readonly #lapsedBy: number;
  readonly #units = new Map<number, Unit>();
  /** The keys of units whose names are too long to be keys. */
  readonly #longKeys = new Map<number, Buffer>();
  readonly #removed = new Set<Unit>();
  readonly #changed = new Set<Unit>();
  readonly #leftFailed = new Set<Unit>();
  readonly #names = new Map<number, Map<string, Unit | null>>();
  readonly #specs = new Map<number, Spec>();
  readonly #specNames = new Map<string, Spec | null>();
  readonly #needs = new Map<number, readonly Need[]>();
  readonly #rewired = new Set<Unit>();
  readonly #met: { unit: Unit; position: number }[] = [];
  /** The status of targets that are not in this set. */
  readonly #targets = new Map<number, WorkUnitStatus | null>();
  readonly #dependents = new Map<number, Set<number>>();
  readonly #past = new Map<string, AttemptState>();
  readonly #archived: Archived[] = [];
  readonly #rewritten = new Map<string, { unit: Unit; attempt: AttemptState }>();
  readonly #heard: AttemptKey[] = [];
  readonly #counts = new Map<number, Tally>();
  readonly #renamed = new Set<Unit>();
  readonly #begun = new Map<string, { namespaceId: number; worker: string; keys: AttemptKey[] }>();
  readonly #nextContinuous = new Map<number, number>();
  /** Null for a batch that was removed, so that it is not loaded again. */
  readonly #batches = new Map<string, BatchRow | null>();
  readonly #changedBatches = new Map<string, { namespace: string; name: string }>();
  readonly #runs = new Map<number, { nextRun: number; lastRun: number }>();
  /** The counts in the windows of breakers, and what this operation adds, by time. */
  readonly #counted = new Map<number, OutcomeCounts>();
  readonly #outcomes = new Map<number, Map<number, Map<string, number>>>();
  readonly #breakers = new Set<Spec>();
  readonly #messages: NewMessage[] = [];
  readonly #told = new Map<string, number>();
  /** Only while a claim by partition uses them. */
  readonly #lanes = new Map<number, SpecLanes>();
  readonly #running = new Map<string, number>();
  readonly #freed = new Map<number, number>();
  /** By spec, with the number of units that run in other specs. */
  readonly #limits = new Map<number, SharedLimitState[]>();
  readonly #paid = new Map<string, { namespace: number; name: string; full: number }>();
  readonly #flow = new Set<Spec>();
  /** Specs whose rows this transaction has locked, and those whose notes it has folded. */
  readonly #held = new Set<number>();
  readonly #folded = new Set<number>();
  readonly #woken: { namespace: string; unit: number }[] = [];
  readonly #retired = new Map<number, { finished: number; failed: number }>();
  #ready: { spec: number; units: Unit[] } | null = null;
  #ids: number[] = [];
  #lastId = 0;

  /**
   * Units whose leases ended by `lapsedBy` do not count as running. A claim passes 0: a lease whose end is not written yet may
   * still be renewed by a call that is older than the claim. The look before the claim has written the leases that had ended; any
   * other lease frees its place when its end is written.
   */
  constructor(tx: Transaction, now: number, allocate: Allocate, lapsedBy = now) {
    super(now, tx.history);
    this.#lapsedBy = lapsedBy;
    this.#tx = tx;
    this.#allocate = allocate;
  }

  /** The loaded units with these ids. */
  units(ids: Iterable<number>): Unit[] {
    return [...ids].map((id) => this.unit(id)).filter((unit) => unit !== undefined);
  }

  /** The most queues of a unit that ended, by namespace. */
  get told(): ReadonlyMap<string, number> {
    return this.#told;
  }

  /** The namespaces in which units may have become available. */
  get freed(): ReadonlySet<string> {
    return new Set(
      [...this.#changed].filter(({ status }) => status === "available").map(({ spec }) => spec.namespace),
    );
  }

  /** Units that ended or were deleted, for callers that wait for them. */
  get woken(): readonly { namespace: string; unit: number }[] {
    return this.#woken;
  }

  // ---- loading

  override loadUnits(ids: Iterable<number>): Loading {
    const missing = [...new Set(ids)].filter((id) => !this.#units.has(id));
    return missing.length === 0 ? undefined : this.#loadUnits(missing);
  }

  async #loadUnits(ids: readonly number[]): Promise<void> {
    await this.#keep(await this.#tx.rows(loadById, [int8s(ids)]));
    if (ids.every((id) => this.#units.has(id))) return;
    const [row] = await this.#tx.rows("SELECT last_value, is_called FROM @unit_block WHERE $1", [true]);
    const [last, called] = row as [number, boolean];
    this.#lastId = called ? last * unitBlock : 0;
  }

  override loadNames(spec: Spec, names: Iterable<string>): Loading {
    const known = this.#namesOf(spec);
    const missing = [...new Set(names)].filter((name) => !known.has(name));
    if (missing.length === 0) return undefined;
    for (const name of missing) known.set(name, null);
    this.#learn(spec);
    return this.#loadNames(spec, missing);
  }

  async #loadNames(spec: Spec, names: readonly string[]): Promise<void> {
    const keys = byteas(await findKeys(this.#tx, spec.id, names));
    await this.#keep(await this.#tx.rows(loadByName, [keys, spec.id]));
  }

  /** Adds rows to the set, with the dependencies of their units. */
  async #keep(rows: readonly Row[]): Promise<void> {
    const units: Unit[] = [];
    for (const row of rows) {
      if (this.#units.has(row[0] as number)) continue;
      // many units of one spec: its metadata is read once
      const spec = this.#specs.get(row[1] as number) ?? this.#learn(readSpecOf(row));
      const unit = readUnit(row, spec);
      this.#units.set(unit.id, unit);
      if (row[3] !== null) this.#longKeys.set(unit.id, row[2] as Buffer);
      this.#namesOf(unit.spec).set(unit.name, unit);
      units.push(unit);
    }
    const needy = units.filter(({ needs }) => needs).map(({ id }) => id);
    if (needy.length > 0) this.#keepNeeds(await readNeeds(this.#tx, needy, this.now));
    for (const { id, needs } of units) if (!needs) this.#needs.set(id, []);
  }

  #keepNeeds(needs: ReadonlyMap<number, readonly ReadNeed[]>): void {
    for (const [unit, list] of needs) {
      this.#needs.set(unit, list);
      for (const { target, status } of list) {
        this.#targets.set(target, status);
        this.#dependentsOf(target).add(unit);
      }
    }
  }

  #learn(spec: Spec): Spec {
    const known = this.#specs.get(spec.id);
    if (known !== undefined) return known;
    this.#specs.set(spec.id, spec);
    if (!spec.deleted) this.#specNames.set(pairKey(spec.namespace, spec.name), spec);
    return spec;
  }

  #namesOf(spec: Spec): Map<string, Unit | null> {
    let names = this.#names.get(spec.id);
    if (names === undefined) this.#names.set(spec.id, (names = new Map<string, Unit | null>()));
    return names;
  }

  override loadSpecs(namespace: string, names: Iterable<string>): Loading {
    const missing = [...new Set(names)].filter((name) => !this.#specNames.has(pairKey(namespace, name)));
    if (missing.length === 0) return undefined;
    for (const name of missing) this.#specNames.set(pairKey(namespace, name), null);
    return findSpecs(this.#tx, namespace, missing).then((specs) =>
      specs.forEach((spec) => this.#learn(spec)),
    );
  }

  override loadPast(keys: readonly AttemptKey[]): Loading {
    const missing = keys.filter(({ unitId, number }) => {
      const unit = this.#units.get(unitId);
      return unit !== undefined && number <= unit.attempts && !this.#past.has(pastKey(unitId, number));
    });
    return missing.length === 0 ? undefined : this.#loadPast(missing);
  }

  async #loadPast(keys: readonly AttemptKey[]): Promise<void> {
    const rows = await this.#tx.rows(
      `SELECT h.unit, ${pastColumns} FROM unnest($1::bigint[], $2::int[]) AS g (unit, number)
         JOIN @history h ON ${isRow("h.unit", "g.unit")} AND ${isRow("h.number", "g.number")}`,
      [int8s(keys.map(({ unitId }) => unitId)), int4s(keys.map(({ number }) => number))],
    );
    for (const [unit, ...row] of rows) {
      const attempt = readPast(row);
      const key = pastKey(unit as number, attempt.number);
      if (!this.#past.has(key)) this.#past.set(key, attempt);
    }
  }

  override loadDependents(units: readonly Unit[]): Loading {
    const stored = units.filter(({ dependents, stored: row }) => dependents && row !== null);
    return stored.length === 0 ? undefined : this.#loadDependents(stored.map(({ id }) => id));
  }

  /**
   * Locks the dependents, whatever their status, before reading what they depend on: of two transactions that each end one of the
   * last two dependencies, the later one sees what the earlier one did.
   */
  async #loadDependents(ids: readonly number[]): Promise<void> {
    const rows = await this.#tx.rows(loadByTarget, [int8s(ids)]);
    await this.#keep(rows);
  }

  override loadReachable(units: readonly number[]): Loading {
    return this.#loadReachable(units);
  }

  async #loadReachable(units: readonly number[]): Promise<void> {
    const [spec] = this.#specs.values();
    // one transaction at a time: two concurrent adds could close a cycle that neither of them sees
    await this.#tx.rows("SELECT 1 FROM @namespace WHERE id = $1 FOR UPDATE", [spec?.namespaceId]);
    const rows = await this.#tx.rows(
      `WITH RECURSIVE reached (id) AS (
         SELECT * FROM unnest($1::bigint[])
         UNION SELECT d.target FROM reached r JOIN @need d ON ${isRow("d.unit", "r.id")}
       )
       SELECT r.id FROM reached r WHERE EXISTS (SELECT 1 FROM @need d WHERE ${isRow("d.unit", "r.id")})`,
      [int8s(units)],
    );
    const unread = (rows as [number][]).map(([id]) => id).filter((id) => !this.#needs.has(id));
    if (unread.length > 0) this.#keepNeeds(await readNeeds(this.#tx, unread, this.now));
  }

  override loadCounts(spec: Spec): Loading {
    return this.#loadCounts(spec);
  }

  /** Tells the set that the transaction has locked the spec's row, for a claim. */
  holds(spec: Spec): void {
    this.#learn(spec);
    this.#held.add(spec.id);
  }

  /** Reads the counts under the lock of the spec's row, which every claim of a spec with `max_running` takes. */
  async #loadCounts(spec: Spec): Promise<void> {
    const isHeld = this.#held.has(spec.id);
    if (!isHeld) await this.#tx.rows("SELECT 1 FROM @spec WHERE id = $1 FOR UPDATE", [spec.id]);
    const known = int8s([...this.#units.keys()]);
    let row: Row | undefined;
    if (isHeld && hasLanes(spec.meta) && !this.#lanes.has(spec.id)) {
      this.#folded.add(spec.id);
      const values = [this.#lapsedBy, known];
      [row] = await foldNotes(this.#tx, spec, this.now, countsSql("$2", "$5", "$6"), values);
    } else
      [row] = await this.#tx.rows(countsSql("$2", "$3", "$4"), [spec.id, this.now, this.#lapsedBy, known]);
    const counts = {} as Tally;
    for (const [i, status] of workUnitStatuses.entries()) counts[status] = row?.[i] as number;
    this.#counts.set(spec.id, counts);
    // read with the counts: each claim of a transaction reads them again, and needs the time of a place that was freed in between
    if (spec.meta.maxRunning > 0 || hasRate(spec.meta.rate) || spec.meta.limits.length > 0)
      this.#raiseFreed(spec, row?.[workUnitStatuses.length] as number | null);
  }

  override loadReady(spec: Spec, count: number): Loading {
    return count <= 0 ? undefined : this.#loadReady(spec, count);
  }

  async #loadReady(spec: Spec, count: number): Promise<void> {
    const here = [...this.#units.values()].filter((unit) => unit.spec.id === spec.id);
    const rows = await this.#tx.rows(pickReady, [spec.id, count, int8s(here.map(({ id }) => id))]);
    await this.loadUnits((rows as [number][]).map(([id]) => id));
    this.#ready = null;
  }

  override loadLanes(spec: Spec, count: number): Loading {
    let lanes = this.#lanes.get(spec.id);
    if (lanes === undefined) {
      this.#learn(spec);
      lanes = new SpecLanes(this.#laneHost(), spec, this.#folded.has(spec.id));
      this.#lanes.set(spec.id, lanes);
      // units that this claim made available before it loaded the lanes
      for (const unit of this.#units.values())
        if (unit.spec.id === spec.id && unit.stored?.status !== "available") lanes.enter(unit, unit.status);
    }
    return lanes.load(count);
  }

  #laneHost(): LaneHost {
    return {
      now: this.now,
      lapsedBy: this.#lapsedBy,
      tx: this.#tx,
      units: () => this.#units.values(),
      unit: (id) => this.unit(id),
      lockReady: async (ids) => {
        const missing = ids.filter((id) => !this.#units.has(id));
        if (missing.length > 0) await this.#keep(await this.#tx.rows(lockReady, [int8s(missing)]));
      },
      keep: (rows) => this.#keep(rows),
    };
  }

  override loadLimits(spec: Spec): Loading {
    if (this.#limits.has(spec.id)) return undefined;
    return holdLimits(this.#tx, spec, [...this.#units.keys()], this.#lapsedBy, this.now).then(
      ({ limits, freed }) => {
        this.#limits.set(spec.id, limits);
        this.#raiseFreed(spec, freed);
      },
    );
  }

  #raiseFreed({ id }: Spec, freed: number | null): void {
    this.#freed.set(id, Math.max(freed ?? 0, this.#freed.get(id) ?? 0));
  }

  override async loadLapsed({ id, namespaceId, meta }: Spec): Promise<void> {
    const limits = byteas(meta.limits.map(nameToBytes));
    const rows = await this.#tx.rows(
      `SELECT u.id FROM @spec s CROSS JOIN LATERAL (
         SELECT u.id FROM @unit u WHERE ${isLapsed("s.id", "$3::bigint")}
       ) u WHERE s.id = $1 OR s.namespace = $2 AND NOT s.dead AND s.limits && $4::bytea[] AND cardinality($4::bytea[]) > 0`,
      [id, namespaceId, this.now, limits],
    );
    await this.loadUnits(rows.map(([unit]) => unit as number));
  }

  override loadRunning(spec: Spec, partition: string): Loading {
    const sql = `
      SELECT count(*) FROM @unit u WHERE u.id = ANY (ARRAY(${idsInLane("$1", "$2")})) AND u.status = 3
        AND coalesce(u.lane, '') = $2 AND u.attempt_expiration > $3::bigint AND NOT u.id = ANY ($4::bigint[])`;
    const known = int8s([...this.#units.keys()]);
    return this.#tx.rows(sql, [spec.id, laneKey(partition).lane, this.now, known]).then(([row]) => {
      this.#running.set(`${spec.id} ${partition}`, row?.[0] as number);
    });
  }

  override reserve(count: number): Loading {
    const missing = count - this.#ids.length;
    if (missing <= 0) return undefined;
    return this.#allocate(missing, this.#tx).then((ids) => {
      this.#ids = [...this.#ids, ...ids];
    });
  }

  // ---- looking

  unit(id: number): Unit | undefined {
    const unit = this.#units.get(id);
    return unit === undefined || this.#removed.has(unit) ? undefined : unit;
  }

  find(spec: Spec, name: string): Unit | undefined {
    const unit = this.#names.get(spec.id)?.get(name);
    return unit === null || unit === undefined || this.#removed.has(unit) ? undefined : unit;
  }

  spec(namespace: string, name: string): Spec | undefined {
    return this.#specNames.get(pairKey(namespace, name)) ?? undefined;
  }

  protected isOrphan({ orphan }: Spec): boolean {
    return orphan;
  }

  everMade(id: number): boolean {
    return id <= this.#lastId;
  }

  past(unit: Unit, number: number): AttemptState | undefined {
    return this.#past.get(pastKey(unit.id, number));
  }

  needs(unit: number): readonly Need[] {
    return this.#needs.get(unit) ?? [];
  }

  targetStatus({ target }: Need): WorkUnitStatus | null {
    const unit = this.#units.get(target);
    if (unit === undefined) return this.#targets.get(target) ?? null;
    return this.#removed.has(unit) || unit.spec.deleted ? null : unit.status;
  }

  hasDependents(unit: Unit): boolean {
    return unit.dependents;
  }

  *dependents(unit: Unit): Iterable<Unit> {
    for (const id of this.#dependents.get(unit.id) ?? []) {
      const dependent = this.unit(id);
      if (dependent !== undefined) yield dependent;
    }
  }

  #dependentsOf(target: number): Set<number> {
    let units = this.#dependents.get(target);
    if (units === undefined) this.#dependents.set(target, (units = new Set()));
    return units;
  }

  count(spec: Spec, status: WorkUnitStatus): number {
    let count = this.#counts.get(spec.id)?.[status] ?? 0;
    for (const unit of this.#units.values()) {
      if (unit.spec.id !== spec.id) continue;
      if (unit.stored?.status === status) count--;
      if (unit.status === status && !this.#removed.has(unit)) count++;
    }
    return count;
  }

  ready(spec: Spec): Unit | undefined {
    if (this.#ready?.spec !== spec.id) {
      const units = [...this.#units.values()].filter(
        (unit) => unit.spec.id === spec.id && unit.status === "available" && !this.#removed.has(unit),
      );
      // in reverse order: the next unit is taken from the end
      units.sort((a, b) => a.priority - b.priority || compareNames(b.name, a.name));
      this.#ready = { spec: spec.id, units };
    }
    const { units } = this.#ready;
    while (units.length > 0 && units.at(-1)?.status !== "available") units.pop();
    return units.at(-1);
  }

  extras(unit: Unit): Extras {
    return unit.extras;
  }

  nextLane(spec: Spec): PgLane | undefined {
    return this.#lanes.get(spec.id)?.next();
  }

  nextInLane(spec: Spec, { partition }: LaneState, begun: boolean): Unit | undefined {
    const lanes = this.#lanes.get(spec.id);
    const lane = lanes?.lane(partition);
    return lane === undefined ? undefined : lanes?.nextUnit(lane, begun);
  }

  limits(spec: Spec): readonly SharedLimitState[] {
    const own = this.count(spec, "pending");
    return (this.#limits.get(spec.id) ?? []).map((limit) => {
      let running = limit.running + own;
      for (const unit of this.#units.values()) {
        if (unit.spec.id === spec.id || !refersTo(unit.spec.meta, limit.name)) continue;
        if (unit.stored?.status === "pending") running--;
        if (unit.status === "pending" && !this.#removed.has(unit)) running++;
      }
      return { ...limit, running };
    });
  }

  override lastFreedAt(spec: Spec): number {
    return Math.max(this.#freed.get(spec.id) ?? 0, this.#lanes.get(spec.id)?.freed ?? 0);
  }

  /** Only those that were loaded. */
  lapsed(): Unit[] {
    return [...this.#units.values()].filter(
      ({ status, attempt }) => status === "pending" && attempt !== null && attempt.expiration <= this.now,
    );
  }

  running(spec: Spec, partition: string): number {
    let count = this.#running.get(`${spec.id} ${partition}`) ?? 0;
    for (const unit of this.#units.values())
      if (unit.spec.id === spec.id && unit.partition === partition && unit.status === "pending") count++;
    return count;
  }

  // ---- writing: remembered until `flush`

  addNew(): null {
    return null;
  }

  make(spec: Spec, { name, data, priority, notBefore }: WorkUnitPut): Unit {
    const id = this.#ids.shift();
    if (id === undefined) throw new Error("no unit id was reserved");
    return {
      id,
      spec,
      name,
      status: "available",
      data,
      priority,
      partition: "",
      notBefore,
      created: this.now,
      attempts: 0,
      tries: 0,
      attempt: null,
      origin: null,
      since: 0,
      extras: noExtras,
      needs: false,
      dependents: false,
      stored: null,
    };
  }

  add(unit: Unit): void {
    this.#units.set(unit.id, unit);
    this.#namesOf(unit.spec).set(unit.name, unit);
    this.#needs.set(unit.id, []);
    this.#changed.add(unit);
  }

  served(spec: Spec, { partition }: LaneState): void {
    const lanes = this.#lanes.get(spec.id);
    const lane = lanes?.lane(partition);
    if (lane !== undefined) lanes?.served(lane);
    Object.assign(spec, nextTurnOf(spec.meta, spec, partition));
    this.#flow.add(spec);
  }

  hold(spec: Spec, { partition }: LaneState, hold: Hold): void {
    const lanes = this.#lanes.get(spec.id);
    const lane = lanes?.lane(partition);
    if (lane !== undefined) lanes?.hold(lane, hold);
  }

  setLimitFull(spec: Spec, name: string, full: number): void {
    const limit = this.#limits.get(spec.id)?.find((one) => one.name === name);
    if (limit !== undefined) limit.full = full;
    this.#paid.set(`${spec.namespaceId} ${name}`, { namespace: spec.namespaceId, name, full });
  }

  setFull(spec: Spec, full: number): void {
    spec.full = full;
    this.#flow.add(spec);
  }

  leave(unit: Unit): void {
    this.#lanes.get(unit.spec.id)?.leave(unit, unit.status);
    if (unit.status === "failed" && unit.stored?.status === "failed") this.#leftFailed.add(unit);
    this.#changed.add(unit);
  }

  enter(unit: Unit, status: WorkUnitStatus): void {
    unit.status = status;
    if (status === "available") this.#ready = null;
    this.#lanes.get(unit.spec.id)?.enter(unit, status);
    this.#changed.add(unit);
  }

  save(unit: Unit): void {
    this.#changed.add(unit);
  }

  savePast(unit: Unit, attempt: AttemptState): void {
    this.#rewritten.set(pastKey(unit.id, attempt.number), { unit, attempt });
  }

  archive(unit: Unit, attempt: AttemptState, lost: boolean): void {
    this.#archived.push({ unit, attempt, lost });
    this.#past.set(pastKey(unit.id, attempt.number), attempt);
  }

  setNeeds(unit: Unit, needs: readonly Need[]): void {
    for (const { target } of this.needs(unit.id)) this.#dependents.get(target)?.delete(unit.id);
    this.#needs.set(unit.id, needs);
    unit.needs = needs.length > 0 || hasTimer(unit.extras.timing);
    this.#rewired.add(unit);
    this.#changed.add(unit);
    for (const { target } of needs) {
      this.#dependentsOf(target).add(unit.id);
      const other = this.#units.get(target);
      if (other === undefined || other.dependents) continue;
      other.dependents = true;
      this.#changed.add(other);
    }
  }

  meet(unit: Unit, need: Need): void {
    need.met = true;
    this.#met.push({ unit, position: this.needs(unit.id).indexOf(need) });
  }

  setExtras(unit: Unit, extras: Extras): void {
    unit.extras = areExtras(extras) ? extras : noExtras;
    // the end of a unit in a batch has consequences, like that of a unit with dependents: keep it off the fast paths
    if (batchOf(extras.labels) !== null) unit.dependents = true;
    // the rules must handle the end of its lease, as for a unit with dependencies
    if (hasTimer(extras.timing)) unit.needs = true;
    this.#renamed.add(unit);
    this.#changed.add(unit);
  }

  remove(unit: Unit): void {
    this.#removed.add(unit);
    for (const { target } of this.needs(unit.id)) this.#dependents.get(target)?.delete(unit.id);
  }

  setNextContinuous(spec: Spec, time: number): void {
    this.#nextContinuous.set(spec.id, time);
  }

  override loadBatch(namespace: string, name: string, create: boolean): Loading {
    const key = pairKey(namespace, name);
    if (this.#batches.has(key)) return undefined;
    return holdBatch(this.#tx, namespace, name, create, this.now).then((batch) => {
      if (batch !== undefined) this.#batches.set(key, batch);
    });
  }

  batch(namespace: string, name: string): BatchRow | undefined {
    return this.#batches.get(pairKey(namespace, name)) ?? undefined;
  }

  override async loadInnerBatches(namespace: string, parents: readonly string[]): Promise<void> {
    for (const name of await findInner(this.#tx, namespace, parents))
      await this.loadBatch(namespace, name, false);
  }

  innerBatches(_namespace: string, parents: readonly string[]): string[] {
    const wanted = new Set<string | null>(parents);
    return [...this.#batches.values()].flatMap((batch) =>
      batch !== null && wanted.has(batch.parent) ? [batch.name] : [],
    );
  }

  saveBatch(namespace: string, batch: BatchRow): void {
    this.#changeBatch(namespace, batch.name, batch);
  }

  removeBatch(namespace: string, name: string): void {
    this.#changeBatch(namespace, name, null);
  }

  #changeBatch(namespace: string, name: string, batch: BatchRow | null): void {
    const key = pairKey(namespace, name);
    this.#batches.set(key, batch);
    this.#changedBatches.set(key, { namespace, name });
  }

  setRuns(spec: Spec, nextRun: number, lastRun: number): void {
    this.#runs.set(spec.id, { nextRun, lastRun });
  }

  override loadBreaker(spec: Spec): Loading {
    return loadBreaker(this.#tx, spec, this.now).then((counts) => this.#counted.set(spec.id, counts));
  }

  counts({ id }: Spec): OutcomeCounts {
    const counts = new Map(this.#counted.get(id));
    for (const added of this.#outcomes.get(id)?.values() ?? [])
      for (const [kind, count] of added) counts.set(kind, (counts.get(kind) ?? 0) + count);
    return counts;
  }

  addCounts({ id }: Spec, at: number, counts: OutcomeCounts): void {
    const times = this.#outcomes.get(id) ?? new Map<number, Map<string, number>>();
    this.#outcomes.set(id, times);
    const there = times.get(at) ?? new Map<string, number>();
    times.set(at, there);
    for (const [kind, count] of counts) there.set(kind, (there.get(kind) ?? 0) + count);
  }

  protected setBreaker(spec: Spec, breakerState: BreakerState): void {
    spec.meta = { ...spec.meta, breakerState };
    this.#breakers.add(spec);
  }

  /** Counts ended units that retention removes. */
  retire(spec: Spec, status: "finished" | "failed", count: number): void {
    const counts = this.#retired.get(spec.id) ?? { finished: 0, failed: 0 };
    counts[status] += count;
    this.#retired.set(spec.id, counts);
  }

  // ---- events

  began(unit: Unit, attempt: AttemptState, claimed: boolean): void {
    const { namespaceId } = unit.spec;
    const key = `${namespaceId} ${attempt.worker}`;
    const begun = this.#begun.get(key) ?? { namespaceId, worker: attempt.worker, keys: [] };
    this.#begun.set(key, begun);
    if (claimed) begun.keys.push({ unitId: unit.id, number: attempt.number });
  }

  released(unit: Unit, attempt: AttemptState): void {
    // the units' rows tell which attempts a worker holds; lost attempts are marked in the history
    if (attempt === unit.attempt) return;
    const archived = this.#archived.find((one) => one.attempt === attempt);
    if (archived === undefined) this.#heard.push({ unitId: unit.id, number: attempt.number });
    else archived.lost = false;
  }

  protected appendMessage(message: Omit<QueueMessage, "seq">, unit: Unit): void {
    const { namespace } = unit.spec;
    this.#told.set(namespace, Math.max(this.#told.get(namespace) ?? 0, unit.extras.queues.length));
    this.#messages.push({
      ...message,
      namespaceId: unit.spec.namespaceId,
      unit: unit.id,
      number: unit.attempt?.number ?? 0,
    });
  }

  protected wake(unit: Unit): void {
    this.#woken.push({ namespace: unit.spec.namespace, unit: unit.id });
  }

  // ---- the database

  /** Writes everything that changed. */
  async flush(): Promise<void> {
    const changed = [...this.#changed].filter((unit) => !this.#removed.has(unit));
    const deltas = this.#deltas(changed);
    const keyOf = (unit: Unit): Buffer => this.#key(unit);
    const standings = new Standings(changed, this.#removed);
    await standings.makeLeases((count) => this.#allocate(count, this.#tx));
    const removed = [...this.#removed].filter(({ stored }) => stored !== null);
    // before the new ones: a batch that ends by the deletion of a unit may make one of its name
    if (removed.length > 0) await deleteUnits(this.#tx, removed, keyOf);
    // in the order of names, as every add writes them: see inWriteOrder
    const fresh = changed
      .filter(({ stored }) => stored === null)
      .sort((a, b) => a.spec.id - b.spec.id || compareNames(a.name, b.name));
    if (fresh.length > 0) {
      await this.#makeKeys(fresh);
      await insertUnits(this.#tx, fresh, keyOf);
    }
    const renamed = changed.filter((unit) => this.#renamed.has(unit)).sort((a, b) => a.id - b.id);
    if (renamed.length > 0) await writeExtras(this.#tx, renamed, keyOf);
    const updates = changed
      .filter(({ stored, attempt, since }) => stored !== null || attempt !== null || since > 0)
      .sort((a, b) => a.id - b.id);
    const timed = changed.filter(({ extras, stored }) => extras.timing !== null || stored?.timing === true);
    const left = [...changed, ...this.#removed].filter((unit) => this.#leftFailed.has(unit));
    const failed = changed.filter(
      (unit) => unit.status === "failed" && (unit.stored?.status !== "failed" || this.#leftFailed.has(unit)),
    );
    const rewired = changed.filter((unit) => this.#rewired.has(unit));
    // if no other statement writes or reads these rows, the update is sent with the last ones
    const alone =
      fresh.length + renamed.length + timed.length + left.length + failed.length + removed.length === 0;
    const last = new StatementBatch();
    if (updates.length > 0)
      await updateUnits(alone ? last : this.#tx, updates, (unit) => standings.leaseOf(unit));
    if (timed.length > 0) await writeTimers(this.#tx, timed);
    if (left.length > 0) await dropFailed(this.#tx, left);
    if (failed.length > 0) await noteFailed(this.#tx, failed);
    const archived = this.#archived.filter(({ unit }) => !this.#removed.has(unit));
    if (archived.length > 0) await insertHistory(this.#tx, archived);
    if (this.#rewritten.size > 0) await updateHistory(this.#tx, [...this.#rewritten.values()]);
    if (this.#heard.length > 0) await dropHeld(this.#tx, this.#heard);
    if (rewired.length > 0) await writeNeeds(this.#tx, rewired, (unit) => this.needs(unit));
    // rewired units are written above, with all dependencies; the position may be that of another dependency by now
    const met = this.#met.filter(({ unit }) => !this.#rewired.has(unit));
    if (met.length > 0) await meetNeeds(this.#tx, met);
    if (this.#messages.length > 0) await writeMessages(this.#tx, this.#messages);
    for (const [spec, time] of this.#nextContinuous)
      await this.#tx.rows("UPDATE @spec SET next_continuous = $2 WHERE id = $1", [spec, time]);
    for (const { namespace, name, full } of this.#paid.values())
      await saveFull(this.#tx, namespace, name, full);
    for (const { namespace, name } of this.#changedBatches.values()) {
      const batch = this.batch(namespace, name);
      if (batch === undefined) await dropBatch(this.#tx, namespace, name);
      else await writeBatch(this.#tx, namespace, batch);
    }
    for (const [spec, { nextRun, lastRun }] of this.#runs)
      await this.#tx.rows("UPDATE @spec SET next_run = $2, last_run = $3 WHERE id = $1", [
        spec,
        nextRun > 0 ? nextRun : null,
        lastRun > 0 ? lastRun : null,
      ]);
    if (this.#outcomes.size > 0) await writeOutcomes(this.#tx, this.#outcomes);
    for (const spec of this.#breakers) await writeBreaker(this.#tx, spec);
    // together only for one worker: each number of workers would make another statement to prepare
    await this.#writeBegun(this.#begun.size === 1 ? last : this.#tx);
    for (const lanes of this.#lanes.values()) await lanes.save(last);
    for (const { id, cursor, full, turn } of this.#flow)
      await last.rows("UPDATE @spec SET cursor = $2, full_at = $3, turn = $4 WHERE id = $1", [
        id,
        nameToBytes(cursor),
        full,
        turn,
      ]);
    await standings.save(last, keyOf);
    await writeNotes(last, this.#notes(changed));
    await writeTallies(last, deltas, this.now);
    await last.send(this.#tx);
  }

  /**
   * Notes for lanes that are not loaded and may have been freed: units of them are available, stopped running, have ended or have
   * begun anew.
   */
  #notes(changed: readonly Unit[]): LaneNotes {
    const notes = new LaneNotes();
    const note = (spec: Spec, partition: string, at: Place | null): void => {
      if (!spec.deleted && this.#lanes.get(spec.id)?.lane(partition) === undefined)
        notes.add(spec.id, partition, at);
    };
    for (const unit of [...changed, ...this.#removed]) {
      const { spec, stored, status } = unit;
      if (!hasLanes(spec.meta)) continue;
      if (stored !== null && (stored.status === "pending" || stored.begun))
        note(spec, stored.partition, null);
      if (status === "available" && !this.#removed.has(unit)) note(spec, unit.partition, placeOfUnit(unit));
    }
    return notes;
  }

  #deltas(changed: readonly Unit[]): Map<number, Delta> {
    const deltas = new Map<number, Delta>();
    const deltaOf = (spec: number): Delta => {
      let delta = deltas.get(spec);
      if (delta === undefined) deltas.set(spec, (delta = emptyDelta()));
      return delta;
    };
    for (const unit of changed) {
      const delta = deltaOf(unit.spec.id);
      if (unit.stored !== null) delta[unit.stored.status]--;
      delta[unit.status]++;
      delta.freed = Math.max(delta.freed, unit.attempt?.end ?? 0);
      if (unit.status !== "available") continue;
      const at = { place: placeOf(unit.priority), key: keyPrefix(nameToBytes(unit.name)) };
      delta.arrivals++;
      if (delta.first === null || comparePlaces(at, delta.first) < 0) delta.first = at;
    }
    for (const { spec, stored } of this.#removed) if (stored !== null) deltaOf(spec.id)[stored.status]--;
    for (const { unit, attempt } of this.#archived) {
      const delta = deltaOf(unit.spec.id);
      delta.freed = Math.max(delta.freed, attempt.end);
    }
    for (const [spec, { finished, failed }] of this.#retired) {
      deltaOf(spec).removedFinished += finished;
      deltaOf(spec).removedFailed += failed;
    }
    return deltas;
  }

  #key({ id, name }: Unit): Buffer {
    return this.#longKeys.get(id) ?? nameToBytes(name);
  }

  async #makeKeys(units: readonly Unit[]): Promise<void> {
    const long = units.filter(({ name }) => nameToBytes(name).length > longestKey);
    for (const spec of new Set(long.map((unit) => unit.spec))) {
      const names = long.filter((unit) => unit.spec === spec).map(({ name }) => name);
      for (const [name, key] of await makeKeys(this.#tx, spec.id, names, this.now)) {
        const unit = this.#namesOf(spec).get(name);
        if (unit !== null && unit !== undefined) this.#longKeys.set(unit.id, key);
      }
    }
  }

  async #writeBegun(session: Session): Promise<void> {
    for (const { namespaceId, worker, keys } of this.#begun.values()) {
      await registerWorkers(session, namespaceId, [worker], this.now);
      await writeLog(session, namespaceId, worker, keys);
    }
  }
}

/** Runs a rule in an open transaction, and writes what it changed. */
export async function apply<Answer>(set: PostgresSet, rule: Rule<Answer>): Promise<Answer> {
  for (;;) {
    const step = rule.next();
    if (step.done === true) {
      await set.flush();
      return step.value;
    }
    if (step.value !== undefined) await step.value;
  }
}
