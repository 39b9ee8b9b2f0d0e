/** The store for any number of daemons on one PostgreSQL. Every method is one transaction. */
import { randomInt } from "node:crypto";
import {
  attemptRow,
  catchUpUnit,
  changeUnits,
  resolveConsequences,
  CoordinateError,
  deleteBatches,
  follow,
  isCoordinateError,
  makeAttempts,
  missingWorkSpec,
  nameFromBytes,
  nameToBytes,
  putBatches,
  removeUnits,
  waitingSample,
  type ActionInput,
  type ActionRow,
  type AddedWorkUnit,
  type AttemptChanged,
  type AttemptKey,
  type AttemptRow,
  type BatchInput,
  type BatchRow,
  type Candidates,
  type CandidatesRequest,
  type Claim,
  type CountSlice,
  type FailureRow,
  type HistoryCounts,
  type HistoryKeeper,
  type HistoryRow,
  type ListedAttempt,
  type LockDecision,
  type LockPath,
  type LaneRow,
  type LockView,
  type LogWrite,
  type Make,
  type NamespaceRow,
  type NamespaceSettings,
  type QueueMessage,
  type QueueRow,
  type Rule,
  type Settle,
  type Slice,
  type SharedLimit,
  type SpecTally,
  type Store,
  type StoredLog,
  type StoredRecord,
  type Swept,
  type SweepLimits,
  type UnitSlice,
  type WaitingSinceRow,
  type Watchable,
  type WorkerAttemptPage,
  type WorkerChange,
  type WorkerQuery,
  type WorkerRow,
  type WorkSpecPut,
  type WorkSpecRef,
  type WorkSpecRow,
  type WorkUnitUpdate,
  type WorkUnitPut,
  type WorkUnitRow,
  type WorkUnitWhere,
} from "../core/index.ts";
import { Adds } from "./adds.ts";
import { findAttempts } from "./attempts.ts";
import { ClaimRequests } from "./claim-requests.ts";
import { Context, type PostgresParts } from "./context.ts";
import { Settles } from "./settles.ts";
import { findInner, pageBatches, readBatches } from "./batches.ts";
import { listLanes } from "./lanes.ts";
import { dropLimits, readLimits, writeLimits } from "./limits.ts";
import type { Claimed } from "./claims.ts";
import { moveAcross } from "./expiry.ts";
import { databaseClock, type DatabaseClock } from "./clock.ts";
import { BorrowedDatabase, type Client, type Counters, type Database } from "./connection.ts";
import { decideLocks } from "./locks.ts";
import { findKeys } from "./long-names.ts";
import {
  clearQueue,
  countMessages,
  deleteActions,
  getActions,
  listActions,
  listQueues,
  putActions,
  takeMessages,
} from "./queues.ts";
import { readLogs, writeLogs } from "./logs.ts";
import { dropOldRecords, putRecords, readRecords } from "./history.ts";
import { purgeUnits, sweepStore, type SweepCursors } from "./sweep.ts";
import { readTallies } from "./tally.ts";
import { pastColumns, readPast, readUnit, unitColumns, type Spec, type Unit } from "./units.ts";
import type { Watching } from "./watching.ts";
import { heldAttempts, loggedAttempts, pageWorkers, readWorkers, writeWorkers } from "./workers.ts";
import {
  killNamespace,
  killWorkSpecs,
  openNamespace,
  pageWorkSpecs,
  readNamespaces,
  readWorkSpecs,
  writeNamespace,
  writeWorkSpecs,
} from "./work-specs.ts";
import { groupFailures, readFailures } from "./failures.ts";
import { countUnits, findSlice, readUnits, waitingSinceSql } from "./work-units.ts";
import type { PostgresSet } from "./working-set.ts";

/** How many failed units are put into their groups in one transaction. */
const groupedAtOnce = 1000;

export class PostgresStore implements Store, Watchable, HistoryKeeper {
  readonly #context: Context;
  readonly #db: Database;
  readonly #slow: Database;
  readonly #watching: Watching;
  readonly #adds: Adds;
  readonly #claims: ClaimRequests;
  readonly #settles: Settles;

  constructor(parts: PostgresParts, owner?: Context) {
    this.#context = new Context(parts, owner);
    this.#db = parts.db;
    this.#slow = parts.slow;
    this.#watching = this.#context.watching;
    this.#adds = new Adds(this.#context);
    this.#claims = new ClaimRequests(this.#context);
    this.#settles = new Settles(this.#context);
  }

  /** Round trips and retries so far. */
  get counters(): Readonly<Counters> {
    return this.#db.counters;
  }

  /** The clock that all daemons of this database share. */
  clock(): Promise<DatabaseClock> {
    return databaseClock(this.#db);
  }

  /**
   * The same store on the caller's own connection. Its writes are part of the caller's transaction: when the caller commits, they
   * become visible, and callers that wait for work are woken up. Nothing is retried.
   */
  within(client: Client): PostgresStore {
    const { parts } = this.#context;
    const db = new BorrowedDatabase(parts.options, client, this.#db.historyCounts);
    return new PostgresStore(
      { ...parts, db, slow: db, timely: db, end: () => Promise.resolve() },
      this.#context,
    );
  }

  readonly #cursors: SweepCursors = {
    log: { namespace: 0, worker: Buffer.alloc(0), at: 0 },
    lists: { lease: 0, spec: 0, status: 0, at: 0 },
  };

  watchWork(ns: string, wake: () => void): () => void {
    return this.#watching.watchWork(ns, wake);
  }

  watchEnds(ns: string, units: readonly number[], wake: (unit: number) => void): () => void {
    return this.#watching.watchEnds(ns, units, wake);
  }

  watchQueue(ns: string, queue: string, wake: () => void): () => void {
    return this.#watching.watchQueue(ns, queue, wake);
  }

  async close(): Promise<void> {
    if (this.#context.borrowed) return;
    this.#watching.close();
    await this.#context.parts.notifier.close();
    this.#db.close();
    this.#slow.close();
    this.#context.parts.timely.close();
    await this.#context.parts.end();
  }

  // ---- namespaces

  listNamespaces(): Promise<NamespaceRow[]> {
    return readNamespaces(this.#db, null);
  }

  async getNamespace(ns: string): Promise<NamespaceRow | null> {
    return (await readNamespaces(this.#db, ns))[0] ?? null;
  }

  async putNamespace(
    ns: string,
    change: (old: NamespaceSettings) => NamespaceSettings,
  ): Promise<NamespaceRow> {
    const row = await this.#db.transaction((tx) => writeNamespace(tx, ns, change));
    await this.#context.changed(ns);
    return row;
  }

  async deleteNamespace(ns: string): Promise<boolean> {
    const found = await this.#db.transaction((tx) => killNamespace(tx, ns));
    if (found) await this.#context.changed(ns);
    return found;
  }

  // ---- work specs

  async putWorkSpecs(ns: string, puts: readonly WorkSpecPut[]): Promise<WorkSpecRow[]> {
    const rows = await this.#db.transaction((tx) => writeWorkSpecs(tx, ns, puts));
    await this.#context.changed(ns);
    return rows;
  }

  getWorkSpecs(ns: string, refs: readonly WorkSpecRef[]): Promise<(WorkSpecRow | null)[]> {
    return readWorkSpecs(this.#db, ns, refs);
  }

  listWorkSpecs(ns: string, previous: string | null, limit: number): Promise<WorkSpecRow[]> {
    return pageWorkSpecs(this.#slow, ns, previous, limit);
  }

  async deleteWorkSpecs(ns: string, refs: readonly WorkSpecRef[], now: number): Promise<boolean[]> {
    // of all overdue work, only this has consequences that outlive the unit
    await moveAcross(this.#db, now, Infinity, this.#context.allocate);
    const answer = await this.#db.transaction((tx) => killWorkSpecs(tx, ns, refs));
    await this.#context.changed(ns);
    return answer;
  }

  async purge(limit: number, now: number): Promise<Slice> {
    const { deleted, done, changed } = await purgeUnits(this.#slow, limit, now, this.#context.allocate);
    for (const ns of changed) await this.#context.changed(ns);
    return { deleted, done };
  }

  candidates(ns: string, ask: CandidatesRequest, now: number): Promise<Candidates> {
    return this.#claims.candidates(ns, ask, now);
  }

  async tally(ns: string | null, now: number): Promise<SpecTally[]> {
    await this.#context.catchUpAll(ns, now);
    return readTallies(this.#slow, ns === null ? null : nameToBytes(ns));
  }

  async listLanes(
    ns: string,
    ref: WorkSpecRef,
    previous: string | null,
    limit: number,
    now: number,
  ): Promise<LaneRow[]> {
    return listLanes(this.#slow, await this.#context.lookUp(this.#slow, ns, ref, now), previous, limit, now);
  }

  async waitingSince(ns: string | null, now: number): Promise<WaitingSinceRow[]> {
    await this.#context.catchUpAll(ns, now);
    const rows = await this.#slow.rows(waitingSinceSql, [ns === null ? null : nameToBytes(ns)]);
    return (rows as [Buffer, Buffer, number, number][]).map(([space, spec, available, since]) => ({
      namespace: nameFromBytes(space),
      workSpec: nameFromBytes(spec),
      since,
      exact: available <= 2 * waitingSample,
    }));
  }

  // ---- work units

  async putWorkUnits(
    ns: string,
    ref: WorkSpecRef,
    puts: readonly WorkUnitPut[],
    requestId: string | null,
    now: number,
  ): Promise<AddedWorkUnit[]> {
    const added = await this.#adds.add(ns, ref, puts, requestId, now);
    this.#claims.unitsAdded(ns);
    await this.#context.changed(ns);
    return added;
  }

  async getWorkUnits(
    ns: string,
    ref: WorkSpecRef,
    names: readonly string[],
    now: number,
  ): Promise<(WorkUnitRow | null)[]> {
    const spec = await this.#context.lookUp(this.#db, ns, ref, now);
    const rows = await readUnits(this.#db, spec, { names }, names.length, now);
    const found = new Map(rows.map((row) => [row.name, row]));
    return names.map((name) => found.get(name) ?? null);
  }

  async listFailures(ns: string, workSpec: string | null, now: number): Promise<FailureRow[]> {
    const names = workSpec === null ? (await this.tally(ns, now)).map((row) => row.workSpec) : [workSpec];
    const rows: FailureRow[] = [];
    for (const name of names) {
      const spec = await this.#findSpec(ns, name, { error: "" }, now);
      rows.push(...(await readFailures(this.#slow, spec)));
    }
    return rows;
  }

  /** Finds the work spec, and groups its failed units first if the query is about failure groups. */
  async #findSpec(ns: string, ref: WorkSpecRef, { error }: WorkUnitWhere, now: number): Promise<Spec> {
    const spec = await this.#context.lookUp(this.#slow, ns, ref, now);
    if (error !== undefined) while (!(await groupFailures(this.#slow, spec.id, groupedAtOnce)));
    return spec;
  }

  async listWorkUnits(
    ns: string,
    ref: WorkSpecRef,
    where: WorkUnitWhere,
    limit: number,
    now: number,
  ): Promise<WorkUnitRow[]> {
    return readUnits(this.#slow, await this.#findSpec(ns, ref, where, now), where, limit, now);
  }

  async countWorkUnits(
    ns: string,
    ref: WorkSpecRef,
    where: WorkUnitWhere,
    limit: number,
    now: number,
  ): Promise<CountSlice> {
    return countUnits(this.#slow, await this.#findSpec(ns, ref, where, now), where, limit);
  }

  async updateWorkUnits(
    ns: string,
    ref: WorkSpecRef,
    { where, change, limit }: WorkUnitUpdate,
    now: number,
  ): Promise<UnitSlice> {
    const spec = await this.#findSpec(ns, ref, where, now);
    const slice = await this.#changeSlice(spec, where, limit, now, (set, units) =>
      changeUnits(set, units, change),
    );
    await this.#context.changed(ns);
    return slice;
  }

  async deleteWorkUnits(
    ns: string,
    ref: WorkSpecRef,
    where: WorkUnitWhere,
    limit: number,
    now: number,
  ): Promise<UnitSlice> {
    const spec = await this.#findSpec(ns, ref, where, now);
    const slice = await this.#changeSlice(spec, where, limit, now, function* (set, units) {
      yield* removeUnits(set, units);
      return units.length;
    });
    await this.#context.changed(ns);
    return slice;
  }

  /** Changes the first matching units. Skips units that have another status by the time they are locked. */
  #changeSlice(
    spec: Spec,
    where: WorkUnitWhere,
    limit: number,
    now: number,
    change: (set: PostgresSet, units: readonly Unit[]) => Rule<number>,
  ): Promise<UnitSlice> {
    return this.#context.apply(this.#slow, now, function* (set, tx): Rule<UnitSlice> {
      let slice: Awaited<ReturnType<typeof findSlice>> = { ids: [], next: null };
      yield findSlice(tx, spec, where, limit).then((found) => (slice = found));
      yield set.loadUnits(slice.ids);
      const { statuses } = where;
      const units = set
        .units(slice.ids)
        .filter(({ status }) => statuses === undefined || statuses.includes(status));
      return { count: yield* change(set, units), next: slice.next };
    });
  }

  // ---- attempts

  claim(ns: string, claim: Claim, now: number): Promise<Claimed> {
    return this.#claims.claim(ns, claim, now);
  }

  async makeAttempts(ns: string, makes: readonly Make[], now: number): Promise<AttemptRow[]> {
    const specs = new Map<string, Spec>();
    const found = async (name: string): Promise<Spec> => {
      const spec = specs.get(name) ?? (await this.#context.lookUp(this.#db, ns, name, now));
      specs.set(name, spec);
      return spec;
    };
    // a missing spec is reported below, so that the error names the first one in the order of `makes`
    const names = [...new Set(makes.map(({ workSpec }) => workSpec))];
    for (const name of names)
      await found(name).catch((error: unknown) => {
        if (!isCoordinateError(error)) throw error;
      });
    return this.#context.apply(this.#context.parts.timely, now, function* (set): Rule<AttemptRow[]> {
      for (const [name, spec] of specs)
        yield set.loadNames(
          spec,
          makes.filter(({ workSpec }) => workSpec === name).map(({ workUnit }) => workUnit),
        );
      const units = makes.map(({ workSpec, workUnit }) => {
        const spec = specs.get(workSpec);
        if (spec === undefined) throw missingWorkSpec(workSpec);
        const unit = set.find(spec, workUnit);
        if (unit === undefined) throw new CoordinateError("no_such_work_unit", workUnit);
        catchUpUnit(set, unit);
        return unit;
      });
      yield* follow(set);
      const rows = makeAttempts(set, units, makes);
      yield* resolveConsequences(set);
      return rows;
    });
  }

  settle(ns: string, changes: readonly Settle[], now: number): Promise<AttemptChanged[]> {
    return this.#settles.settle(ns, changes, now);
  }

  async getAttempts(ns: string, ids: readonly AttemptKey[], now: number): Promise<(AttemptRow | null)[]> {
    // a unit that has just failed for being late has an attempt only once the failure is written
    const units = ids.map(({ unitId }) => unitId);
    await moveAcross(this.#db, now, Infinity, this.#context.allocate, { ns, units });
    return findAttempts(this.#db, ns, ids, now);
  }

  async listUnitAttempts(ns: string, ref: WorkSpecRef, name: string, now: number): Promise<AttemptRow[]> {
    const spec = await this.#context.lookUp(this.#slow, ns, ref, now);
    const [key = null] = await findKeys(this.#slow, spec.id, [name]);
    const [row] = await this.#slow.rows(
      `SELECT ${unitColumns} FROM @unit u WHERE u.spec = $1 AND u.key = $2`,
      [spec.id, key],
    );
    if (row === undefined) throw new CoordinateError("no_such_work_unit", name);
    const unit = readUnit(row, spec);
    const past = await this.#slow.rows(
      `SELECT ${pastColumns} FROM @history h WHERE h.unit = $1 AND h.number <= $2 ORDER BY h.number`,
      [unit.id, unit.attempt === null ? unit.attempts : unit.attempts - 1],
    );
    const attempts = past.map(readPast);
    if (unit.attempt !== null) attempts.push(unit.attempt);
    return attempts.map((attempt) => attemptRow(unit, attempt));
  }

  async listWorkerAttempts(
    ns: string,
    worker: string,
    { which, previous, limit }: WorkerAttemptPage,
    now: number,
  ): Promise<ListedAttempt[]> {
    if (which === "all") return loggedAttempts(this.#slow, ns, worker, previous, limit, now);
    const held = await heldAttempts(this.#slow, ns, worker, which, previous, limit, now);
    return held.map((row) => ({ row, position: null }));
  }

  // ---- workers

  putWorkers(ns: string, changes: readonly WorkerChange[], now: number): Promise<WorkerRow[]> {
    return this.#db.transaction((tx) => writeWorkers(tx, ns, changes, now), { repeatable: true });
  }

  getWorkers(ns: string, names: readonly string[], now: number): Promise<(WorkerRow | null)[]> {
    return readWorkers(this.#db, ns, names, now);
  }

  listWorkers(ns: string, query: WorkerQuery, limit: number, now: number): Promise<WorkerRow[]> {
    return pageWorkers(this.#slow, ns, query, limit, now);
  }

  // ---- queues and actions

  takeMessages(
    ns: string,
    queue: string,
    max: number,
    requestId: string | null,
    now: number,
  ): Promise<QueueMessage[]> {
    return takeMessages(this.#db, ns, queue, max, requestId, now, () => this.#writeMessages(now));
  }

  /** Writes the messages of units that have ended by themselves until now. */
  async #writeMessages(now: number): Promise<void> {
    await moveAcross(this.#db, now, Infinity, this.#context.allocate);
  }

  async countMessages(ns: string, queues: readonly string[], now: number): Promise<number[]> {
    await this.#writeMessages(now);
    return countMessages(this.#db, ns, queues);
  }

  async listQueues(ns: string, previous: string | null, limit: number, now: number): Promise<QueueRow[]> {
    await this.#writeMessages(now);
    return listQueues(this.#slow, ns, previous, limit);
  }

  async clearQueue(ns: string, queue: string, limit: number, now: number): Promise<Slice> {
    await this.#writeMessages(now);
    return clearQueue(this.#slow, ns, queue, limit);
  }

  putActions(ns: string, actions: readonly ActionInput[], now: number): Promise<boolean[]> {
    return this.#db.transaction((tx) => putActions(tx, ns, actions, now), { repeatable: true });
  }

  getActions(ns: string, keys: readonly string[]): Promise<(ActionRow | null)[]> {
    return getActions(this.#db, ns, keys);
  }

  listActions(ns: string, previous: string | null, limit: number): Promise<ActionRow[]> {
    return listActions(this.#slow, ns, previous, limit);
  }

  deleteActions(ns: string, keys: readonly string[]): Promise<boolean[]> {
    return deleteActions(this.#db, ns, keys);
  }

  // ---- batches

  async putBatches(ns: string, inputs: readonly BatchInput[], now: number): Promise<BatchRow[]> {
    await this.#db.transaction((tx) => openNamespace(tx, ns));
    const rows = await this.#context.apply(this.#db, now, (set) => putBatches(set, ns, inputs), {
      repeatable: true,
    });
    await this.#context.changed(ns);
    return rows;
  }

  getBatches(ns: string, names: readonly string[]): Promise<(BatchRow | null)[]> {
    return readBatches(this.#db, ns, names);
  }

  listBatches(ns: string, previous: string | null, limit: number): Promise<BatchRow[]> {
    return pageBatches(this.#slow, ns, previous, limit);
  }

  async deleteBatches(ns: string, names: readonly string[], now: number): Promise<boolean[]> {
    const existed = await this.#context.apply(this.#db, now, (set) => deleteBatches(set, ns, names));
    await this.#context.changed(ns);
    return existed;
  }

  innerBatches(ns: string, parents: readonly string[]): Promise<string[]> {
    return findInner(this.#slow, ns, parents);
  }

  // ---- shared limits

  async putLimits(ns: string, limits: readonly SharedLimit[]): Promise<void> {
    await this.#db.transaction((tx) => writeLimits(tx, ns, limits), { repeatable: true });
    await this.#context.changed(ns);
  }

  listLimits(ns: string): Promise<SharedLimit[]> {
    return readLimits(this.#db, ns);
  }

  async deleteLimits(ns: string, names: readonly string[]): Promise<boolean[]> {
    const answer = await this.#db.transaction((tx) => dropLimits(tx, ns, names));
    await this.#context.changed(ns);
    return answer;
  }

  // ---- locks

  locks<Answer>(
    ns: string,
    paths: readonly LockPath[],
    decide: (view: LockView) => LockDecision<Answer>,
    now: number,
  ): Promise<Answer> {
    return this.#db.transaction((tx) => decideLocks(tx, ns, paths, decide, now));
  }

  // ---- logs

  writeLogs(ns: string, writes: readonly LogWrite[]): Promise<boolean[]> {
    return writeLogs(this.#db, ns, writes);
  }

  readLogs(ns: string, keys: readonly AttemptKey[]): Promise<(StoredLog | null | undefined)[]> {
    return readLogs(this.#slow, ns, keys);
  }

  // ---- history

  get historyCounts(): HistoryCounts {
    return this.#db.historyCounts;
  }

  newWriter(): number {
    return randomInt(2 ** 47);
  }

  putHistory(writer: number, rows: readonly HistoryRow[]): Promise<void> {
    return putRecords(this.#slow, writer, rows);
  }

  readHistory(
    ns: string,
    specs: readonly number[],
    stepMs: number,
    from: number,
    to: number,
  ): Promise<StoredRecord[]> {
    return readRecords(this.#slow, ns, specs, stepMs, from, to);
  }

  dropHistory(stepMs: number, before: number, limit: number): Promise<number> {
    return dropOldRecords(this.#slow, stepMs, before, limit);
  }

  // ---- housekeeping

  async sweep(limits: SweepLimits, now: number): Promise<Swept> {
    const { slow, ways } = this.#context;
    const { swept, changed, failures } = await sweepStore(slow, limits, this.#cursors, now, ways);
    if (swept.workers > 0) this.#claims.workersRemoved();
    for (const ns of new Set(changed.map(nameFromBytes))) await this.#context.changed(ns);
    if (failures.length > 0) throw failures[0];
    return swept;
  }
}
