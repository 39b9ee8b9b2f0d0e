/**
 * The embedded durable store: SQLite in one file, owned by one process. Every verb runs inside a transaction of the
 * committer, and is answered when the transaction is on disk.
 */
import { randomInt } from "node:crypto";
import {
  addUnits,
  checkParents,
  changeUnits,
  claimUnits,
  compareNames,
  resolveConsequences,
  CoordinateError,
  defaultNamespaceSettings,
  deleteBatches,
  makeAttempts,
  missingWorkSpec,
  putBatches,
  settleAttempts,
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
  type SharedLimit,
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
import { innerBatches, listBatches, readBatch } from "./batches.ts";
import { listLanes } from "./lanes.ts";
import { deleteLimit, putLimits, readLimits } from "./limits.ts";
import { again, Committer } from "./commit.ts";
import type { Connection, Driver } from "./driver.ts";
import { attemptsOf, claimedBefore, findAttempt, heldAttempts, logged } from "./attempts.ts";
import { noCandidates, listCandidates } from "./candidates.ts";
import { decideLocks } from "./locks.ts";
import { readLogs, writeLogs } from "./logs.ts";
import { openSpace, findSpec, needSpec, allSpecs, sortedSpecs, putSpec, markDeleted } from "./work-specs.ts";
import { dropOldRecords, putRecords, readRecords } from "./history.ts";
import { catchUp, isBehind } from "./expiry.ts";
import { claimPlain, settlePlain } from "./fast-paths.ts";
import { failureRows, groupFailures } from "./failures.ts";
import { closeFile, type Ownership } from "./file.ts";
import {
  backup,
  check,
  compact,
  statistics,
  type CheckReport,
  type Progress,
  type Statistics,
} from "./maintenance.ts";
import {
  clearQueue,
  countMessages,
  deleteAction,
  getAction,
  listActions,
  listQueues,
  putActions,
  takeMessages,
} from "./queues.ts";
import { State, type Space, type Spec } from "./state.ts";
import { deleteUnits, logStart, purge, sweep, type SweepCursor } from "./sweep.ts";
import { findUnitByName } from "./units.ts";
import {
  countUnits,
  listUnits,
  readUnitRow,
  rowsAtOnce,
  sliceUnits,
  waitingSince,
  type Steps,
} from "./work-units.ts";
import { childrenOf, findWorkers, getWorker, parentOf, putWorker } from "./workers.ts";
import { applied } from "./working-set.ts";

export interface OpenedFile {
  readonly file: string;
  readonly driver: Driver;
  readonly connection: Connection;
  /** Null for a store that only reads. */
  readonly ownership: Ownership | null;
  readonly readOnly: boolean;
  /** False: every verb goes by the rules of core, one unit at a time. For tests; true when absent. */
  readonly fastPaths?: boolean;
  /** How long verbs may join a transaction that has begun. For tests, which must not depend on how fast the machine is. */
  readonly joinMs?: number;
}

/** How many failed units are grouped between two yields to the event loop. */
const groupedAtOnce = 500;

export class SqliteStore implements Store, Watchable, HistoryKeeper {
  readonly #opened: OpenedFile;
  readonly #state: State;
  readonly #committer: Committer;
  readonly #cursor: SweepCursor = { worker: 0, log: logStart };
  #closing: Promise<void> | null = null;

  /** Use `openSqlite` or `openSqliteReader`. */
  constructor(opened: OpenedFile) {
    this.#opened = opened;
    this.#state = new State(opened.connection, opened.fastPaths ?? true);
    const { file, connection, joinMs } = opened;
    this.#committer = new Committer(
      file,
      connection,
      this.#state,
      () => this.#tellOfWork(),
      () => {
        this.#state.tellWatches();
        this.#tellOfWork();
      },
      joinMs,
    );
  }

  // ---- every verb goes through `#read` or `#write`. The verbs of the hot path are generator methods: a generator expression would
  // make a function with a new hidden class on each call, which V8 makes slowly and does not optimize.

  #read<Answer>(
    work: (state: State) => Answer | typeof again | Steps<Answer | typeof again>,
  ): Promise<Answer> {
    const state = this.#state;
    const { readOnly } = this.#opened;
    return this.#committer.submit(() => {
      if (readOnly) state.refresh();
      return work(state);
    });
  }

  #write<Answer>(
    work: (state: State) => Answer | typeof again | Steps<Answer | typeof again>,
    timely = false,
  ): Promise<Answer> {
    if (this.#opened.readOnly) return Promise.reject(this.#readOnly());
    const state = this.#state;
    return this.#committer.submit(() => work(state), timely);
  }

  /** Reads a work spec that is up to date. */
  #readSpec<Answer>(
    ns: string,
    ref: WorkSpecRef,
    now: number,
    read: (state: State, spec: Spec) => Answer | Steps<Answer>,
  ): Promise<Answer> {
    return this.#read<Answer>((state) => {
      const spec = needSpec(state, ns, ref);
      return this.#caughtUp([spec], now) ? read(state, spec) : again;
    });
  }

  /** Changes units of a work spec that is up to date. */
  #writeSpec<Answer>(
    ns: string,
    ref: WorkSpecRef,
    now: number,
    write: (state: State, spec: Spec) => Steps<Answer>,
  ): Promise<Answer> {
    return this.#write<Answer>((state) => {
      const spec = needSpec(state, ns, ref);
      if (!this.#caughtUp([spec], now)) return again;
      state.changed.add(ns);
      return write(state, spec);
    });
  }

  #readOnly(): CoordinateError {
    return new CoordinateError("not_supported", `${this.#opened.file} was opened read-only`);
  }

  /** Moves overdue units of some specs. False: there were too many for one call, and the verb should run again. */
  #caughtUp(specs: Iterable<Spec>, now: number): boolean {
    // a reader sees what the owner of the file has moved, which it does every second or so
    if (this.#opened.readOnly) return true;
    const state = this.#state;
    const { writes } = state;
    let behind: Spec[] | undefined;
    for (const spec of this.#concerned(specs)) if (isBehind(state, spec, now)) (behind ??= []).push(spec);
    if (behind === undefined) return true;
    const { done } = catchUp(state, behind, now);
    for (const { namespace } of behind) state.changed.add(namespace);
    // not writes of the verb: the moves take effect even if it fails
    state.writes = writes;
    return done;
  }

  /** With dependencies or timers, all specs of the namespace: a lease that ends in one may fail a unit of another. */
  #concerned(specs: Iterable<Spec>): Iterable<Spec> {
    if (this.#state.counters.needs === 0 && !this.#state.timed) return specs;
    const spaces = new Set([...specs].map(({ space }) => space));
    return [...spaces].flatMap((space) => [...space.specs.values()]);
  }

  watchWork(ns: string, wake: () => void): () => void {
    return this.#state.watches.watchWork(ns, wake);
  }

  watchEnds(_ns: string, units: readonly number[], wake: (unit: number) => void): () => void {
    return this.#state.watches.watchEnds(units, wake);
  }

  watchQueue(ns: string, queue: string, wake: () => void): () => void {
    return this.#state.watches.watchQueue(ns, queue, wake);
  }

  /** Wakes callers that wait for work in changed namespaces. Returns whether there were any. */
  #tellOfWork(): boolean {
    const { changed, watches } = this.#state;
    if (changed.size === 0) return false;
    const names = [...changed];
    changed.clear();
    return names.map((name) => watches.changed(name)).includes(true);
  }

  // ---- namespaces

  async listNamespaces(): Promise<NamespaceRow[]> {
    return this.#read(({ spaces }) =>
      [...spaces.values()]
        .sort((a, b) => compareNames(a.name, b.name))
        .map(({ name, settings }) => ({ name, settings: { ...settings } })),
    );
  }

  async getNamespace(ns: string): Promise<NamespaceRow | null> {
    return this.#read(({ spaces }) => {
      const space = spaces.get(ns);
      return space === undefined ? null : { name: ns, settings: { ...space.settings } };
    });
  }

  async putNamespace(
    ns: string,
    change: (old: NamespaceSettings) => NamespaceSettings,
  ): Promise<NamespaceRow> {
    return this.#write((state) => {
      const settings = change(state.spaces.get(ns)?.settings ?? defaultNamespaceSettings);
      const space = openSpace(state, ns);
      const old = space.settings;
      state.undo(() => {
        space.settings = old;
      });
      space.settings = settings;
      state.writes++;
      state.sql.setNamespace.run(JSON.stringify(settings), space.id);
      state.changed.add(ns);
      return { name: ns, settings: { ...settings } };
    });
  }

  async deleteNamespace(ns: string): Promise<boolean> {
    return this.#write((state) => {
      const space = state.spaces.get(ns);
      if (space === undefined) return false;
      state.spaces.delete(ns);
      state.deadSpaces.add(space.id);
      state.undo(() => {
        state.spaces.set(ns, space);
        state.deadSpaces.delete(space.id);
      });
      state.writes++;
      state.sql.buryNamespace.run(space.id);
      for (const spec of space.specs.values()) markDeleted(state, spec);
      return true;
    });
  }

  // ---- work specs

  async putWorkSpecs(ns: string, puts: readonly WorkSpecPut[]): Promise<WorkSpecRow[]> {
    return this.#write((state) => {
      const found = puts.map(({ ref, data }) => {
        const spec = findSpec(state, ns, ref);
        if (spec === undefined && (data === null || typeof ref !== "string")) throw missingWorkSpec(ref);
        return spec;
      });
      const metas = puts.map(({ meta }, i) => meta(found[i]?.meta ?? null));
      const space = openSpace(state, ns);
      const rows = puts.map((put, i) => putSpec(state, space, put, metas[i]!).row());
      state.changed.add(ns);
      return rows;
    });
  }

  async getWorkSpecs(ns: string, refs: readonly WorkSpecRef[]): Promise<(WorkSpecRow | null)[]> {
    return this.#read((state) => refs.map((ref) => findSpec(state, ns, ref)?.row() ?? null));
  }

  async listWorkSpecs(ns: string, previous: string | null, limit: number): Promise<WorkSpecRow[]> {
    return this.#read((state) =>
      sortedSpecs(state, ns)
        .filter(({ name }) => previous === null || compareNames(name, previous) > 0)
        .slice(0, limit)
        .map((spec) => spec.row()),
    );
  }

  async deleteWorkSpecs(ns: string, refs: readonly WorkSpecRef[], now: number): Promise<boolean[]> {
    return this.#write((state) => {
      const found = refs.map((ref) => findSpec(state, ns, ref)).filter((spec) => spec !== undefined);
      if (!this.#caughtUp(found, now)) return again;
      const answer = refs.map((ref) => {
        const spec = findSpec(state, ns, ref);
        if (spec === undefined) return false;
        spec.space.specs.delete(spec.name);
        state.undo(() => spec.space.specs.set(spec.name, spec));
        markDeleted(state, spec);
        return true;
      });
      state.changed.add(ns);
      return answer;
    });
  }

  async purge(limit: number, now: number): Promise<Slice> {
    return this.#write((state) => purge(state, limit, now));
  }

  async candidates(ns: string, { requestId }: CandidatesRequest, now: number): Promise<Candidates> {
    const state = this.#state;
    // nothing to write and no verb halfway: the answer is in memory and needs no transaction
    if (
      this.#committer.isBetweenVerbs &&
      this.#committer.failure === null &&
      !this.#opened.readOnly &&
      this.#closing === null
    ) {
      const space = state.spaces.get(ns);
      if (space === undefined) return noCandidates();
      // a repeated claim takes the path below: it is answered only when the first claim is on disk
      if (
        claimedBefore(state, space, requestId) === null &&
        ![...space.specs.values()].some((spec) => isBehind(state, spec, now))
      )
        return listCandidates(state, space, null, now);
    }
    return this.#read(() => {
      const space = state.spaces.get(ns);
      if (space === undefined) return noCandidates();
      if (!this.#caughtUp(space.specs.values(), now)) return again;
      return listCandidates(state, space, claimedBefore(state, space, requestId), now);
    });
  }

  async listFailures(ns: string, workSpec: string | null, now: number): Promise<FailureRow[]> {
    return this.#grouped(ns, workSpec, now, (state, specs) =>
      specs.flatMap((spec) => failureRows(state, spec)),
    );
  }

  /** Runs `read` when all failed units are grouped. A read-only store sees only units that the owner of the file has grouped. */
  async #grouped<Answer>(
    ns: string,
    ref: WorkSpecRef | null,
    now: number,
    read: (state: State, specs: readonly Spec[]) => Answer,
  ): Promise<Answer> {
    const caughtUp = this.#caughtUp.bind(this);
    const { readOnly } = this.#opened;
    return this.#read(function* (state): Steps<Answer | typeof again> {
      const specs = ref === null ? allSpecs(state, ns) : [needSpec(state, ns, ref)];
      if (!caughtUp(specs, now)) return again;
      if (!readOnly) for (const spec of specs) while (!groupFailures(state, spec, groupedAtOnce)) yield;
      return read(state, specs);
    });
  }

  async listLanes(
    ns: string,
    ref: WorkSpecRef,
    previous: string | null,
    limit: number,
    now: number,
  ): Promise<LaneRow[]> {
    return this.#readSpec(ns, ref, now, (state, spec) => listLanes(state, spec, previous, limit));
  }

  async tally(ns: string | null, now: number): Promise<SpecTally[]> {
    return this.#read((state) => {
      const specs = allSpecs(state, ns);
      if (!this.#caughtUp(specs, now)) return again;
      return specs.map(({ id, namespace, name, counts, removed }) => ({
        id,
        namespace,
        workSpec: name,
        counts: { ...counts },
        removed: { ...removed },
      }));
    });
  }

  async waitingSince(ns: string | null, now: number): Promise<WaitingSinceRow[]> {
    return this.#read((state) => {
      const specs = allSpecs(state, ns);
      if (!this.#caughtUp(specs, now)) return again;
      return specs
        .filter(({ counts }) => counts.available > 0)
        .map((spec) => ({ namespace: spec.namespace, workSpec: spec.name, ...waitingSince(state, spec) }));
    });
  }

  // ---- work units

  async putWorkUnits(
    ns: string,
    ref: WorkSpecRef,
    puts: readonly WorkUnitPut[],
    requestId: string | null,
    now: number,
  ): Promise<AddedWorkUnit[]> {
    return this.#write(() => this.#put(ns, ref, puts, requestId, now));
  }

  *#put(
    ns: string,
    ref: WorkSpecRef,
    puts: readonly WorkUnitPut[],
    requestId: string | null,
    now: number,
  ): Steps<AddedWorkUnit[]> {
    const state = this.#state;
    const spec = needSpec(state, ns, ref);
    this.#caughtUp([spec], now);
    const id = requestId === null ? null : JSON.stringify(`add ${spec.id} ${requestId}`);
    const before = id === null ? undefined : state.sql.request.get(spec.space.id, id)?.[0];
    if (typeof before === "string") return JSON.parse(before) as AddedWorkUnit[];
    const answer = yield* applied(state, now, (set) => addUnits(set, spec, puts));
    if (id !== null) state.sql.addRequest.run(spec.space.id, id, now, JSON.stringify(answer));
    state.changed.add(ns);
    return answer;
  }

  async getWorkUnits(
    ns: string,
    ref: WorkSpecRef,
    names: readonly string[],
    now: number,
    seen?: (rows: readonly (WorkUnitRow | null)[]) => void,
  ): Promise<(WorkUnitRow | null)[]> {
    return this.#readSpec(ns, ref, now, function* (state, spec) {
      const rows: (WorkUnitRow | null)[] = [];
      for (const name of names) {
        const unit = findUnitByName(state, spec, name);
        if (rows.push(unit === undefined ? null : readUnitRow(state, unit)) % rowsAtOnce === 0) yield;
      }
      seen?.(rows);
      return rows;
    });
  }

  async listWorkUnits(
    ns: string,
    ref: WorkSpecRef,
    where: WorkUnitWhere,
    limit: number,
    now: number,
  ): Promise<WorkUnitRow[]> {
    await this.#group(ns, ref, where, now);
    return this.#readSpec(ns, ref, now, (state, spec) => listUnits(state, spec, where, limit));
  }

  /** Groups failed units before a search by failure group. */
  async #group(ns: string, ref: WorkSpecRef, { error }: WorkUnitWhere, now: number): Promise<void> {
    if (error !== undefined) await this.#grouped(ns, ref, now, () => null);
  }

  async countWorkUnits(
    ns: string,
    ref: WorkSpecRef,
    where: WorkUnitWhere,
    limit: number,
    now: number,
  ): Promise<CountSlice> {
    await this.#group(ns, ref, where, now);
    return this.#readSpec(ns, ref, now, (state, spec) => countUnits(state, spec, where, limit));
  }

  async updateWorkUnits(
    ns: string,
    ref: WorkSpecRef,
    { where, change, limit }: WorkUnitUpdate,
    now: number,
  ): Promise<UnitSlice> {
    await this.#group(ns, ref, where, now);
    return this.#writeSpec(ns, ref, now, function* (state, spec) {
      const { ids, next } = sliceUnits(state, spec, where, limit);
      const count = yield* applied(state, now, (set) => changeUnits(set, set.units(ids), change));
      return { count, next };
    });
  }

  async deleteWorkUnits(
    ns: string,
    ref: WorkSpecRef,
    where: WorkUnitWhere,
    limit: number,
    now: number,
  ): Promise<UnitSlice> {
    await this.#group(ns, ref, where, now);
    return this.#writeSpec(ns, ref, now, function* (state, spec) {
      const { ids, next } = sliceUnits(state, spec, where, limit);
      yield* deleteUnits(state, spec, ids, now);
      return { count: ids.length, next };
    });
  }

  // ---- attempts

  async claim(ns: string, claim: Claim, now: number): Promise<{ attempts: AttemptRow[]; more: boolean }> {
    return this.#write(() => this.#claim(ns, claim, now), true);
  }

  *#claim(ns: string, claim: Claim, now: number): Steps<{ attempts: AttemptRow[]; more: boolean }> {
    const state = this.#state;
    const spec = findSpec(state, ns, claim.workSpec);
    if (spec === undefined) return { attempts: [], more: false };
    // when very many leases end at once, a claim takes the available units and does not wait for all of them
    this.#caughtUp([spec], now);
    const repeated = claimedBefore(state, spec.space, claim.requestId);
    if (repeated !== null) return { attempts: repeated, more: false };
    state.worker(spec.space, claim.worker, now);
    const answer = yield* claimSome(state, spec, claim, now);
    if (claim.requestId !== null && answer.attempts.length > 0) {
      const ids = JSON.stringify(answer.attempts.map(({ id }) => id));
      state.sql.addRequest.run(spec.space.id, JSON.stringify(`claim ${claim.requestId}`), now, ids);
    }
    return answer;
  }

  async makeAttempts(ns: string, makes: readonly Make[], now: number): Promise<AttemptRow[]> {
    return this.#write((state) => {
      const specs = makes
        .map(({ workSpec }) => findSpec(state, ns, workSpec))
        .filter((spec) => spec !== undefined);
      if (!this.#caughtUp(specs, now)) return again;
      const set = state.set.at(now);
      const units = makes.map(({ workSpec, workUnit }) => {
        const unit = set.find(needSpec(state, ns, workSpec), workUnit);
        if (unit === undefined) throw new CoordinateError("no_such_work_unit", workUnit);
        return unit;
      });
      const rows = makeAttempts(set, units, makes);
      runAll(resolveConsequences(set));
      set.flush();
      return rows;
    }, true);
  }

  async settle(ns: string, changes: readonly Settle[], now: number): Promise<AttemptChanged[]> {
    return this.#write(() => this.#settle(ns, changes, now));
  }

  *#settle(ns: string, changes: readonly Settle[], now: number): Steps<AttemptChanged[]> {
    const state = this.#state;
    const specs: Spec[] = [];
    for (const { unitId } of changes) {
      const id = state.leases.get(unitId)?.spec ?? state.sql.unitSpec.get(unitId)?.[0];
      if (id === specs.at(-1)?.id) continue;
      const spec = typeof id === "number" ? state.specs.get(id) : undefined;
      if (spec !== undefined && !spec.deleted && spec.space.name === ns) specs.push(spec);
    }
    this.#caughtUp(specs.length > 1 ? new Set(specs) : specs, now);
    state.changed.add(ns);
    return (
      (yield* settlePlain(state, ns, changes, now)) ??
      (yield* applied(state, now, (set) => settleAttempts(set, ns, changes)))
    );
  }

  async getAttempts(ns: string, ids: readonly AttemptKey[], now: number): Promise<(AttemptRow | null)[]> {
    const caughtUp = this.#caughtUp.bind(this);
    return this.#read(function* (state): Steps<(AttemptRow | null)[] | typeof again> {
      if (!caughtUp(state.spaces.get(ns)?.specs.values() ?? [], now)) return again;
      const rows: (AttemptRow | null)[] = [];
      for (const key of ids) if (rows.push(findAttempt(state, ns, key)) % rowsAtOnce === 0) yield;
      return rows;
    });
  }

  async listUnitAttempts(ns: string, ref: WorkSpecRef, name: string, now: number): Promise<AttemptRow[]> {
    return this.#readSpec(ns, ref, now, (state, spec) => {
      const unit = findUnitByName(state, spec, name);
      if (unit === undefined) throw new CoordinateError("no_such_work_unit", name);
      return attemptsOf(state, unit);
    });
  }

  async listWorkerAttempts(
    ns: string,
    name: string,
    { which, previous, limit }: WorkerAttemptPage,
    now: number,
  ): Promise<ListedAttempt[]> {
    return this.#read((state) => {
      const space = state.spaces.get(ns);
      const worker = space === undefined ? undefined : state.knownWorker(space, name);
      if (space === undefined || worker === undefined) return [];
      if (!this.#caughtUp(space.specs.values(), now)) return again;
      if (which === "all") return logged(state, ns, worker, previous, limit);
      const workers = which === "active" ? [worker] : childrenOf(state, space, name);
      return heldAttempts(state, ns, workers, previous, limit, now);
    });
  }

  // ---- workers

  async putWorkers(ns: string, changes: readonly WorkerChange[], now: number): Promise<WorkerRow[]> {
    return this.#write((state) => {
      checkParents(changes, (name) => parentOf(state, state.spaces.get(ns), name));
      const space = openSpace(state, ns);
      return changes.map((change) => putWorker(state, space, change, now));
    });
  }

  async getWorkers(ns: string, names: readonly string[], now: number): Promise<(WorkerRow | null)[]> {
    return this.#read(eachIn(ns, names, null, (state, space, name) => getWorker(state, space, name, now)));
  }

  async listWorkers(ns: string, query: WorkerQuery, limit: number, now: number): Promise<WorkerRow[]> {
    return this.#read(inSpace(ns, [], (state, space) => findWorkers(state, space, query, limit, now)));
  }

  // ---- queues and actions

  async takeMessages(
    ns: string,
    queue: string,
    max: number,
    requestId: string | null,
    now: number,
  ): Promise<QueueMessage[]> {
    return this.#write(
      this.#withMessages<QueueMessage[]>(ns, [], now, (state, space) =>
        takeMessages(state, space, queue, max, requestId, now),
      ),
    );
  }

  /** Work on all messages until now: units with dependencies or deadlines end by themselves, and have messages then. */
  #withMessages<Answer>(
    ns: string,
    missing: Answer,
    now: number,
    work: (state: State, space: Space) => Answer,
  ): (state: State) => Answer | typeof again {
    return inSpace<Answer | typeof again>(ns, missing, (state, space) => {
      const mayEnd = state.counters.needs > 0 || state.timed;
      return mayEnd && !this.#caughtUp(space.specs.values(), now) ? again : work(state, space);
    });
  }

  async countMessages(ns: string, queues: readonly string[], now: number): Promise<number[]> {
    const none = queues.map(() => 0);
    return this.#read(
      this.#withMessages(ns, none, now, (state, space) =>
        queues.map((queue) => countMessages(state, space, queue)),
      ),
    );
  }

  async listQueues(ns: string, previous: string | null, limit: number, now: number): Promise<QueueRow[]> {
    return this.#read(
      this.#withMessages<QueueRow[]>(ns, [], now, (state, space) =>
        listQueues(state, space, previous, limit),
      ),
    );
  }

  async clearQueue(ns: string, queue: string, limit: number, now: number): Promise<Slice> {
    return this.#write(
      this.#withMessages(ns, { deleted: 0, done: true }, now, (state, space) =>
        clearQueue(state, space, queue, limit),
      ),
    );
  }

  async putActions(ns: string, actions: readonly ActionInput[], now: number): Promise<boolean[]> {
    return this.#write((state) =>
      putActions(state, () => openSpace(state, ns), state.spaces.get(ns), actions, now),
    );
  }

  async getActions(ns: string, keys: readonly string[]): Promise<(ActionRow | null)[]> {
    return this.#read(eachIn(ns, keys, null, getAction));
  }

  async listActions(ns: string, previous: string | null, limit: number): Promise<ActionRow[]> {
    return this.#read(inSpace(ns, [], (state, space) => listActions(state, space, previous, limit)));
  }

  async deleteActions(ns: string, keys: readonly string[]): Promise<boolean[]> {
    return this.#write(eachIn(ns, keys, false, deleteAction));
  }

  // ---- batches

  async putBatches(ns: string, inputs: readonly BatchInput[], now: number): Promise<BatchRow[]> {
    return this.#write(function* (state): Steps<BatchRow[]> {
      openSpace(state, ns);
      const rows = yield* applied(state, now, (set) => putBatches(set, ns, inputs));
      state.changed.add(ns);
      return rows;
    });
  }

  async getBatches(ns: string, names: readonly string[]): Promise<(BatchRow | null)[]> {
    return this.#read(eachIn(ns, names, null, (state, space, name) => readBatch(state, space, name) ?? null));
  }

  async listBatches(ns: string, previous: string | null, limit: number): Promise<BatchRow[]> {
    return this.#read(inSpace(ns, [], (state, space) => listBatches(state, space, previous, limit)));
  }

  async deleteBatches(ns: string, names: readonly string[], now: number): Promise<boolean[]> {
    return this.#write(function* (state): Steps<boolean[]> {
      const existed = yield* applied(state, now, (set) => deleteBatches(set, ns, names));
      state.changed.add(ns);
      return existed;
    });
  }

  async innerBatches(ns: string, parents: readonly string[]): Promise<string[]> {
    return this.#read(inSpace(ns, [], (state, space) => innerBatches(state, space, parents)));
  }

  // ---- shared limits

  async putLimits(ns: string, limits: readonly SharedLimit[]): Promise<void> {
    await this.#write((state) => {
      putLimits(state, openSpace(state, ns), limits);
      state.changed.add(ns);
    });
  }

  async listLimits(ns: string): Promise<SharedLimit[]> {
    return this.#read(inSpace(ns, [], readLimits));
  }

  async deleteLimits(ns: string, names: readonly string[]): Promise<boolean[]> {
    return this.#write((state) => {
      state.changed.add(ns);
      return eachIn(ns, names, false, deleteLimit)(state);
    });
  }

  // ---- logs

  async writeLogs(ns: string, writes: readonly LogWrite[]): Promise<boolean[]> {
    return this.#write((state) => writeLogs(state, ns, writes));
  }

  async readLogs(ns: string, keys: readonly AttemptKey[]): Promise<(StoredLog | null | undefined)[]> {
    return this.#read((state) => readLogs(state, ns, keys));
  }

  // ---- locks

  async locks<Answer>(
    ns: string,
    paths: readonly LockPath[],
    decide: (view: LockView) => LockDecision<Answer>,
    now: number,
  ): Promise<Answer> {
    return this.#read((state) => {
      const open = (): Space => {
        if (this.#opened.readOnly) throw this.#readOnly();
        return openSpace(state, ns);
      };
      return decideLocks(state, state.spaces.get(ns), open, paths, decide, now);
    });
  }

  // ---- history

  get historyCounts(): HistoryCounts {
    return this.#state.historyCounts;
  }

  newWriter(): number {
    return randomInt(2 ** 47);
  }

  async putHistory(writer: number, rows: readonly HistoryRow[]): Promise<void> {
    return this.#write((state) => putRecords(state, writer, rows));
  }

  async readHistory(
    ns: string,
    specs: readonly number[],
    stepMs: number,
    from: number,
    to: number,
  ): Promise<StoredRecord[]> {
    return this.#read((state) => readRecords(state, ns, specs, stepMs, from, to));
  }

  async dropHistory(stepMs: number, before: number, limit: number): Promise<number> {
    return this.#write((state) => dropOldRecords(state, stepMs, before, limit));
  }

  // ---- housekeeping

  async sweep(limits: SweepLimits, now: number): Promise<Swept> {
    return this.#write((state) => sweep(state, this.#cursor, limits, now));
  }

  /** The file's sizes and what is in it; cheap enough for a health page. */
  async statistics(): Promise<Statistics> {
    return this.#read((state) => statistics(this.#opened, state, this.#committer.failure));
  }

  /** Set after a fault of the disk or the file: every call is rejected with it, and only a restart helps. */
  get failure(): CoordinateError | null {
    return this.#committer.failure;
  }

  /** Writes a consistent snapshot of the store to a new file. Other calls run meanwhile. */
  async backup(toFile: string, onProgress?: (progress: Progress) => void): Promise<void> {
    return backup(this.#opened, toFile, onProgress);
  }

  /** Checks the file for damage and wrong counts. Other calls run meanwhile. */
  async check(): Promise<CheckReport> {
    return check(this.#opened);
  }

  /** Gives free space in the file back to the file system, in slices. Returns the number of bytes. */
  async compact(onProgress?: (progress: Progress) => void): Promise<number> {
    return compact(this.#opened, (work) => this.#write(() => work()), onProgress);
  }

  close(): Promise<void> {
    this.#closing ??= this.#close();
    return this.#closing;
  }

  async #close(): Promise<void> {
    await this.#committer.close();
    // closing writes a checkpoint, and after a disk fault nothing may be written
    if (this.failure === null) closeFile(this.#opened);
    this.#opened.ownership?.release();
  }
}

/** Work in one namespace. Its answer is `missing` if there is no such namespace. */
const inSpace =
  <Answer>(ns: string, missing: Answer, work: (state: State, space: Space) => Answer) =>
  (state: State): Answer => {
    const space = state.spaces.get(ns);
    return space === undefined ? missing : work(state, space);
  };

/** The same for each of some keys. */
const eachIn = <Answer>(
  ns: string,
  keys: readonly string[],
  missing: Answer,
  work: (state: State, space: Space, key: string) => Answer,
): ((state: State) => Answer[]) =>
  inSpace(
    ns,
    keys.map(() => missing),
    (state, space) => keys.map((key) => work(state, space, key)),
  );

/** Claims plain units by the fast path first, and more by the rules if places are left. */
function* claimSome(
  state: State,
  spec: Spec,
  claim: Claim,
  now: number,
): Steps<{ attempts: AttemptRow[]; more: boolean }> {
  const plain = yield* claimPlain(state, spec, claim, now);
  const limit = claim.limit - plain.length;
  if (limit <= 0 || (plain.length > 0 && spec.counts.available === 0))
    return { attempts: plain, more: false };
  const { attempts, more, freed } = yield* applied(state, now, (set) =>
    claimUnits(set, spec, { ...claim, limit }),
  );
  if (freed) state.changed.add(spec.namespace);
  return { attempts: [...plain, ...attempts], more: more && plain.length === 0 };
}

/** Runs a rule without yields. */
function runAll(steps: Rule<void>): void {
  while (steps.next().done !== true);
}
