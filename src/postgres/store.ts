/** The store for any number of daemons on one PostgreSQL. Every method is one transaction. */
import { randomInt } from "node:crypto";
import {
  addUnits,
  attemptRow,
  ages,
  batchOf,
  catchUpUnit,
  changeUnits,
  resolveConsequences,
  CoordinateError,
  defaultNamespaceSettings,
  follow,
  hasBreaker,
  hasFlowRules,
  hasLanes,
  isCoordinateError,
  makeAttempts,
  missingWorkSpec,
  nameFromBytes,
  nameToBytes,
  putBatches,
  removeUnits,
  settleAttempts,
  waitingSample,
  workerLifetimeMs,
  workSpecName,
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
import { findAttempts, readAttempts } from "./attempts.ts";
import { dropBatches, findInner, pageBatches, readBatches } from "./batches.ts";
import { listLanes } from "./lanes.ts";
import { dropLimits, readLimits, writeLimits } from "./limits.ts";
import { Caution } from "./caution.ts";
import { readCandidates, readTopPriorities } from "./candidates.ts";
import { claimUnits, heldLanes, type Claimed, type ClaimHints } from "./claims.ts";
import { catchUp, hasOverdue, lookUp, moveAcross, type LookedUp, type CatchUpOptions } from "./expiry.ts";
import {
  copyFromUnits,
  copyUnits,
  hasExtras,
  inKeyOrder,
  insertNamedSql,
  insertSql,
  insertValues,
  isNamed,
  namedValues,
  settlePlain,
} from "./fast-paths.ts";
import { databaseClock, type DatabaseClock } from "./clock.ts";
import {
  BorrowedDatabase,
  isUniqueViolation,
  isNotPlain,
  type Client,
  type Counters,
  type Database,
  type DatabaseOptions,
  type Row,
  type Session,
} from "./connection.ts";
import { Floors } from "./floor.ts";
import { decideLocks } from "./locks.ts";
import { findKeys } from "./long-names.ts";
import { LookCache } from "./looks.ts";
import { Merge } from "./merge.ts";
import type { Notifier } from "./notify.ts";
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
import {
  pastColumns,
  readPast,
  readSpec,
  readUnit,
  specColumnCount,
  specColumns,
  unitColumns,
  type Spec,
  type Unit,
} from "./units.ts";
import { longestKey, textKey } from "./values.ts";
import type { LivePool } from "./live.ts";
import { Watching } from "./watching.ts";
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
import { apply, PostgresSet, unitBlock } from "./working-set.ts";

export interface PostgresParts {
  db: Database;
  /** The same with fewer connections, for operations that may take long. */
  slow: Database;
  /** The same for operations whose times (leases, delays, ends) count from the moment they are written: see `timely`. */
  timely: Database;
  live: LivePool;
  options: DatabaseOptions;
  notifier: Notifier;
  /** False: every operation uses the rules of core, one unit at a time. For tests; see `fast-paths.ts`. */
  fastPaths: boolean;
  /** Closes the pool, if the store opened it. */
  end: () => Promise<void>;
}

/** How many failed units are put into their groups in one transaction. */
const groupedAtOnce = 1000;

type SettleMerge = Merge<{ changes: readonly Settle[]; now: number }, AttemptChanged[]>;
type ClaimMerge = Merge<{ claim: Claim; now: number }, Claimed>;
type ClaimCall = (asked: readonly { claim: Claim; now: number }[]) => Promise<Claimed[]>;
interface LookCall {
  requestId: string | null;
  now: number;
}

/** Claims and settles of more than this are not merged with others, so that several sessions share the work. */
const few = 20;

export class PostgresStore implements Store, Watchable, HistoryKeeper {
  readonly #parts: PostgresParts;
  readonly #db: Database;
  readonly #slow: Database;
  readonly #ids: UnitIds;
  readonly #watching: Watching;
  readonly #merges = {
    settles: new Map<string, SettleMerge>(),
    claims: new Map<string, ClaimMerge>(),
    looks: new Map<string, Merge<LookCall, Candidates>>(),
  };
  readonly #looks = new LookCache();
  /** Claims in progress, by request id: a repeated request gets the same answer. */
  readonly #claiming = new Map<string, Promise<Claimed>>();
  readonly #hints: ClaimHints = {
    floors: new Floors(),
    limited: new Set(),
    flow: new Set(),
    tried: new Caution(),
    // a claim that is not plain costs a statement and no error
    lanes: new Caution(4),
    workers: new Map(),
  };
  /** The most queues of a unit that ended recently, by namespace: the next settle prepares that many messages per unit. */
  readonly #queues = new Map<string, number>();
  /** Namespaces with work specs whose units are claimed by partition. */
  readonly #laned = new Set<string>();
  /** Namespaces with work specs that have breakers, as of the last look. */
  readonly #counted = new Set<string>();
  /** Namespaces in which an optimistic settle failed. */
  readonly #caution = new Caution<string>();
  /** Work specs as they were last read, by namespace and name. */
  readonly #seen = new Map<string, LookedUp>();
  /** Work specs whose adds met existing units. */
  readonly #upserts = new Caution<number>(16);

  constructor(parts: PostgresParts, ids?: UnitIds, watching?: Watching) {
    this.#parts = parts;
    this.#db = parts.db;
    this.#slow = parts.slow;
    this.#ids = ids ?? new UnitIds(parts.db);
    this.#watching = watching ?? new Watching(parts.db, parts.live, parts.notifier);
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
    const db = new BorrowedDatabase(this.#parts.options, client, this.#db.historyCounts);
    const parts = {
      ...this.#parts,
      db,
      slow: db,
      timely: db,
      end: () => Promise.resolve(),
    };
    const store = new PostgresStore(parts, this.#ids, this.#watching);
    store.#borrowed = true;
    return store;
  }

  #borrowed = false;
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

  /** Wakes up waiting callers in all daemons; in the caller's own transaction, when it commits. */
  async #changed(ns: string): Promise<void> {
    if (this.#borrowed) await this.#parts.notifier.changedWithin(this.#db, ns);
    else this.#parts.notifier.changed(ns);
  }

  async close(): Promise<void> {
    if (this.#borrowed) return;
    this.#watching.close();
    await this.#parts.notifier.close();
    this.#db.close();
    this.#slow.close();
    this.#parts.timely.close();
    await this.#parts.end();
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
    await this.#changed(ns);
    return row;
  }

  async deleteNamespace(ns: string): Promise<boolean> {
    const found = await this.#db.transaction((tx) => killNamespace(tx, ns));
    if (found) await this.#changed(ns);
    return found;
  }

  // ---- work specs

  async putWorkSpecs(ns: string, puts: readonly WorkSpecPut[]): Promise<WorkSpecRow[]> {
    const rows = await this.#db.transaction((tx) => writeWorkSpecs(tx, ns, puts));
    await this.#changed(ns);
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
    await moveAcross(this.#db, now, Infinity, this.#ways.allocate);
    const answer = await this.#db.transaction((tx) => killWorkSpecs(tx, ns, refs));
    await this.#changed(ns);
    return answer;
  }

  async purge(limit: number, now: number): Promise<Slice> {
    const { deleted, done, changed } = await purgeUnits(this.#slow, limit, now, this.#ways.allocate);
    for (const ns of changed) await this.#changed(ns);
    return { deleted, done };
  }

  async candidates(
    ns: string,
    { requestId, fresh, topPriorities = false }: CandidatesRequest,
    now: number,
  ): Promise<Candidates> {
    const earlier = fresh || !this.#parts.fastPaths ? null : this.#looks.usable(ns);
    // a copy for each caller, which may sort it
    if (earlier !== null)
      return { ...earlier.answer, candidates: [...earlier.answer.candidates], look: earlier.number };
    const look = (asked: readonly LookCall[]): Promise<Candidates[]> =>
      this.#candidates(
        ns,
        asked.map((one) => one.requestId),
        Math.max(...asked.map((one) => one.now)),
      );
    const merge = mergeOf(this.#merges.looks, ns, () => new Merge(look, 1, 1000));
    const answer = await merge.ask({ requestId, now });
    if (fresh)
      for (const candidate of answer.candidates)
        if (hasLanes(candidate.meta) && candidate.available > 0 && candidate.held === null)
          candidate.held = await this.#db.transaction((tx) => heldLanes(tx, candidate.id, now), {
            repeatable: true,
          });
    if (topPriorities) await readTopPriorities(this.#db, answer.candidates);
    return answer;
  }

  /** One look for all requests, with the attempts that each repeated request was given before. */
  async #candidates(ns: string, requestIds: readonly (string | null)[], now: number): Promise<Candidates[]> {
    // catch up on overdue work first, except on what other transactions have locked
    for (let tries = 0; ; tries++) {
      const read = await readCandidates(this.#db, ns, requestIds, now);
      if (read === null)
        return requestIds.map(() => ({ settings: defaultNamespaceSettings, candidates: [], repeated: null }));
      const past = read.candidates.filter(({ nextDue }) => nextDue > 0 && nextDue <= now);
      if (past.length === 0 || tries === 3) {
        for (const { id, meta } of read.candidates) {
          const { limited, flow } = this.#hints;
          if (meta.maxRunning > 0 || meta.continuous) limited.add(id);
          else limited.delete(id);
          if (hasFlowRules(meta)) flow.add(id);
          else flow.delete(id);
        }
        if (read.candidates.some(({ meta }) => hasLanes(meta))) this.#laned.add(ns);
        else this.#laned.delete(ns);
        if (read.candidates.some(({ meta }) => hasBreaker(meta))) this.#counted.add(ns);
        else this.#counted.delete(ns);
        const { settings, candidates, repeated, arrivals } = read;
        for (const { id, available } of candidates)
          if (available > 0) await this.#hints.floors.look(this.#db, id, arrivals.get(id) ?? -1);
        if (!this.#borrowed) this.#looks.remember(ns, read.only, { settings, candidates, repeated: null });
        const limited = candidates.some(({ meta }) => meta.limits.length > 0);
        const limits = limited ? await readLimits(this.#db, ns) : undefined;
        const answers: Candidates[] = [];
        for (const [i] of requestIds.entries()) {
          const keys = repeated.get(i);
          answers.push({
            settings,
            candidates: [...candidates],
            ...(limits !== undefined && { limits }),
            repeated: keys === undefined ? null : await readAttempts(this.#db, ns, keys, now, true),
          });
        }
        return answers;
      }
      for (const { id } of past) await this.#catchUp(this.#db, id, now);
    }
  }

  async tally(ns: string | null, now: number): Promise<SpecTally[]> {
    const namespace = ns === null ? null : nameToBytes(ns);
    await this.#catchUpAll(namespace, now);
    return readTallies(this.#slow, namespace);
  }

  /** Catches up on overdue work, in one namespace or in all. */
  async #catchUpAll(namespace: Buffer | null, now: number): Promise<void> {
    const past = await this.#slow.rows(
      `SELECT s.id FROM @namespace n JOIN @spec s ON s.namespace = n.id AND NOT s.dead
       WHERE NOT n.dead AND ($1::bytea IS NULL OR n.name = $1::bytea) AND ${hasOverdue("s", "$2::bigint")}`,
      [namespace, now],
    );
    for (const [id] of past as [number][]) await this.#catchUp(this.#slow, id, now);
  }

  async #catchUp(db: Database, spec: number, now: number): Promise<void> {
    await catchUp(db, spec, now, Infinity, this.#ways);
  }

  get #ways(): CatchUpOptions {
    return {
      fast: this.#parts.fastPaths,
      allocate: (count, session) => this.#ids.take(count, session),
    };
  }

  async #lookUp(db: Database, ns: string, ref: WorkSpecRef, now: number): Promise<Spec> {
    const found = await lookUp(db, ns, ref, now, this.#ways);
    if (this.#seen.size > 1000) this.#seen.clear();
    this.#seen.set(specKey(ns, ref), found);
    return found.spec;
  }

  /** One transaction in which the rules of core decide. */
  async #apply<Answer>(
    db: Database,
    now: number,
    rule: (set: PostgresSet, tx: Session) => Rule<Answer>,
    repeatable = false,
  ): Promise<Answer> {
    const { answer, woken, told } = await db.transaction(
      async (tx) => {
        const set = new PostgresSet(tx, now, (count, session) => this.#ids.take(count, session));
        return { answer: await apply(set, rule(set, tx)), woken: set.woken, told: set.told };
      },
      { repeatable },
    );
    for (const [namespace, queues] of told)
      this.#queues.set(namespace, Math.max(queues, this.#queues.get(namespace) ?? 0));
    for (const { namespace, unit } of woken)
      if (this.#watching.isWatched(namespace)) this.#watching.ended(namespace, [unit]);
    return answer;
  }

  async listLanes(
    ns: string,
    ref: WorkSpecRef,
    previous: string | null,
    limit: number,
    now: number,
  ): Promise<LaneRow[]> {
    return listLanes(this.#slow, await this.#lookUp(this.#slow, ns, ref, now), previous, limit, now);
  }

  async waitingSince(ns: string | null, now: number): Promise<WaitingSinceRow[]> {
    const namespace = ns === null ? null : nameToBytes(ns);
    await this.#catchUpAll(namespace, now);
    const rows = await this.#slow.rows(waitingSinceSql, [namespace]);
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
    const request = requestId === null ? null : textKey(requestId);
    const last = this.#lastSeen(ns, ref, puts.length, request);
    let answer =
      last === undefined ? null : await this.#insertUnits(last.spec, puts, request, last.seen, now);
    if (answer === null && last !== undefined) this.#seen.delete(specKey(ns, ref));
    answer ??= await this.#addUnits(ns, ref, puts, request, now);
    this.#looks.delete(ns);
    await this.#changed(ns);
    return answer;
  }

  async #addUnits(
    ns: string,
    ref: WorkSpecRef,
    puts: readonly WorkUnitPut[],
    request: Buffer | null,
    now: number,
  ): Promise<AddedWorkUnit[]> {
    const spec = await this.#lookUp(this.#db, ns, ref, now);
    const inserted = await this.#insertUnits(spec, puts, request, null, now);
    if (inserted !== null) return inserted;
    const added = await this.#apply(
      this.#db,
      now,
      (set, tx) => this.#putUnits(set, tx, spec, ref, puts, request),
      request !== null,
    );
    this.#upserts.used(
      spec.id,
      added.some(({ created }) => !created),
    );
    return added;
  }

  /**
   * The work spec as last read, if an add may go without reading it again: its statement checks that the spec is unchanged. An
   * add of many units reads it again. So does an add without a request id, which cannot be retried if the connection turns out to
   * be broken: the read finds that out.
   */
  #lastSeen(ns: string, ref: WorkSpecRef, count: number, request: Buffer | null): LookedUp | undefined {
    const found = this.#seen.get(specKey(ns, ref));
    if (found === undefined || (typeof ref !== "string" && ref.id !== found.spec.id)) return undefined;
    return request === null || count >= copyFromUnits || found.seen === null ? undefined : found;
  }

  /**
   * The fast path, for new units without dependencies. Returns null if it does not apply, or if the work spec has changed since
   * it was `seen`.
   */
  async #insertUnits(
    spec: Spec,
    puts: readonly WorkUnitPut[],
    request: Buffer | null,
    seen: string | null,
    now: number,
  ): Promise<AddedWorkUnit[] | null> {
    // the rules enforce the limit of waiting units, and compute the place of a unit whose priority grows
    if (!this.#parts.fastPaths || spec.meta.maxWaiting > 0 || ages(spec.meta)) return null;
    if (this.#upserts.isNeeded(spec.id) || this.#borrowed) return null;
    if (
      puts.length === 0 ||
      puts.some(
        ({ dependencies, labels, timing }) =>
          (dependencies !== null && dependencies.length > 0) ||
          batchOf(labels) !== null ||
          timing !== undefined,
      )
    )
      return null;
    if (puts.length > 1 && new Set(puts.map(({ name }) => name)).size < puts.length) return null;
    const ids = await this.#ids.take(puts.length);
    const rows = inKeyOrder(puts, ids);
    if (rows.some(({ key }) => key.length > longestKey)) return null;
    const answer = puts.map(({ name, notBefore }, i): AddedWorkUnit => {
      return { name, id: ids[i] ?? 0, created: true, status: notBefore > now ? "delayed" : "available" };
    });
    const note = request === null ? null : { id: request, answer: JSON.stringify(answer) };
    try {
      if (puts.length >= copyFromUnits && !puts.some(hasExtras)) {
        const done = await this.#db.transaction((tx) => copyUnits(tx, spec, rows, note, now), {
          repeatable: request !== null,
          conflicts: false,
        });
        if (!done) return null;
        this.#db.historyCounts.note(spec.id, "added", now, -1, puts.length);
        return answer;
      }
      const named = hasLanes(spec.meta) || puts.some(isNamed);
      const values = insertValues(spec.id, rows, note, seen, now);
      const written = await this.#db.write(
        named ? insertNamedSql : insertSql,
        named ? [...values, ...namedValues(spec, rows, now)] : values,
        { repeatable: request !== null, conflicts: false },
      );
      if (written.length === 0) return null;
      this.#db.historyCounts.note(spec.id, "added", now, -1, puts.length);
      return answer;
    } catch (error) {
      if (!isUniqueViolation(error)) throw error;
      this.#upserts.failed(spec.id);
      return null;
    }
  }

  *#putUnits(
    set: PostgresSet,
    tx: Session,
    { id }: Spec,
    ref: WorkSpecRef,
    puts: readonly WorkUnitPut[],
    request: Buffer | null,
  ): Rule<AddedWorkUnit[]> {
    let row: Row | undefined;
    yield tx
      .rows(
        `SELECT ${specColumns},
           (SELECT r.answer FROM @request r WHERE r.namespace = s.namespace AND r.spec = s.id AND r.id = $2::bytea)
         FROM @spec s JOIN @namespace n ON n.id = s.namespace WHERE s.id = $1 AND NOT s.dead`,
        [id, request],
      )
      .then((rows) => (row = rows[0]));
    if (row === undefined) throw missingWorkSpec(ref);
    const before = row[specColumnCount] as string | null;
    if (before !== null) return JSON.parse(before) as AddedWorkUnit[];
    const spec = readSpec(id, row);
    const answer = yield* addUnits(set, spec, puts);
    if (request !== null)
      yield tx.rows("INSERT INTO @request (namespace, spec, id, time, answer) VALUES ($1, $5, $2, $3, $4)", [
        spec.namespaceId,
        request,
        set.now,
        JSON.stringify(answer),
        id,
      ]);
    return answer;
  }

  async getWorkUnits(
    ns: string,
    ref: WorkSpecRef,
    names: readonly string[],
    now: number,
  ): Promise<(WorkUnitRow | null)[]> {
    const spec = await this.#lookUp(this.#db, ns, ref, now);
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
    const spec = await this.#lookUp(this.#slow, ns, ref, now);
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
    await this.#changed(ns);
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
    await this.#changed(ns);
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
    return this.#apply(this.#slow, now, function* (set, tx): Rule<UnitSlice> {
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

  async claim(ns: string, claim: Claim, now: number): Promise<Claimed> {
    const { requestId } = claim;
    if (requestId === null) return this.#claim(ns, claim, now);
    const key = `${ns}\0${requestId}`;
    const earlier = this.#claiming.get(key);
    if (earlier !== undefined) return earlier;
    const answer = this.#claim(ns, claim, now);
    this.#claiming.set(key, answer);
    try {
      return await answer;
    } finally {
      this.#claiming.delete(key);
    }
  }

  /** Merges concurrent claims of a few units each into one statement and one commit. */
  async #claim(ns: string, claim: Claim, now: number): Promise<Claimed> {
    const { workSpec, maxRetries, requestId, look } = claim;
    const call: ClaimCall = (asked) => this.#claims(ns, asked);
    let answer: Claimed;
    if (claim.limit > few || this.#borrowed) answer = (await call([{ claim, now }]))[0] ?? noClaim;
    else {
      const key = `${workSpec.id} ${maxRetries} ${requestId === null} ${look === undefined} ${ns}`;
      answer = await mergeOf(this.#merges.claims, key, () => new Merge(call, 1, 100)).ask({ claim, now });
    }
    if (answer.stale === true && look !== undefined) this.#looks.refute(ns, look);
    return answer;
  }

  /**
   * Claims of one work spec, all after a fresh look or all after an earlier one. A claim whose earlier look is no longer cached
   * cannot be checked, and claims nothing.
   */
  async #claims(ns: string, asked: readonly { claim: Claim; now: number }[]): Promise<Claimed[]> {
    // before the statement: its attempts are returned, even if the look is dropped meanwhile
    const looks = asked.map(({ claim }) =>
      claim.look === undefined ? null : this.#looks.find(ns, claim.look),
    );
    const holds = asked.map(({ claim }, i) => claim.look === undefined || looks[i] !== null);
    const claiming = {
      db: this.#parts.timely,
      ns,
      hints: this.#hints,
      allocate: (count: number, session?: Session) => this.#ids.take(count, session),
      workerLifetimeMs,
      fastPaths: this.#parts.fastPaths,
      borrowed: this.#borrowed,
      seen: looks.find((look) => look !== null)?.only ?? null,
      now: Math.max(...asked.map(({ now }) => now)),
    };
    const held = asked.filter((_, i) => holds[i]).map(({ claim }) => claim);
    const answers = await claimUnits(claiming, held);
    let at = 0;
    return holds.map((held) =>
      held ? (answers[at++] ?? noClaim) : { attempts: [], more: false, stale: true },
    );
  }

  async makeAttempts(ns: string, makes: readonly Make[], now: number): Promise<AttemptRow[]> {
    const specs = new Map<string, Spec>();
    const found = async (name: string): Promise<Spec> => {
      const spec = specs.get(name) ?? (await this.#lookUp(this.#db, ns, name, now));
      specs.set(name, spec);
      return spec;
    };
    // a missing spec is reported below, so that the error names the first one in the order of `makes`
    const names = [...new Set(makes.map(({ workSpec }) => workSpec))];
    for (const name of names)
      await found(name).catch((error: unknown) => {
        if (!isCoordinateError(error)) throw error;
      });
    return this.#apply(this.#parts.timely, now, function* (set): Rule<AttemptRow[]> {
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

  async settle(ns: string, changes: readonly Settle[], now: number): Promise<AttemptChanged[]> {
    const answers =
      changes.length > few || this.#borrowed
        ? await this.#settle(ns, changes, now)
        : await this.#settles(ns).ask({ changes, now });
    if (!this.#borrowed && this.#watching.isWatched(ns))
      this.#watching.ended(
        ns,
        changes
          .filter((_, i) => answers[i]?.status === "finished" || answers[i]?.status === "failed")
          .map(({ unitId }) => unitId),
      );
    await this.#changed(ns);
    return answers;
  }

  async #settle(ns: string, changes: readonly Settle[], now: number): Promise<AttemptChanged[]> {
    const queues = this.#queues.get(ns) ?? 0;
    const { answers: plain, pastAcross } = this.#parts.fastPaths
      ? await this.#settlePlain(ns, changes, queues, now)
      : { answers: [], pastAcross: true };
    // changes that are not plain, and those of units that another transaction changed at the same moment
    const left = changes.filter((_, i) => plain[i] === undefined);
    if (left.length === 0) return plain as AttemptChanged[];
    const units = left.map(({ unitId }) => unitId);
    if (pastAcross) await moveAcross(this.#db, now, Infinity, this.#ways.allocate, { ns, units });
    // not `timely` after a part was settled: the engine would send that part again
    const db = left.length === changes.length ? this.#parts.timely : this.#db;
    const decided = await this.#apply(db, now, (set) => settleAttempts(set, ns, left), true);
    return changes.map((_, i) => plain[i] ?? decided.shift()!);
  }

  /** Settles plain changes without checking them first, unless that failed recently in the namespace. */
  async #settlePlain(
    ns: string,
    changes: readonly Settle[],
    queues: number,
    now: number,
  ): Promise<{ answers: (AttemptChanged | undefined)[]; pastAcross: boolean }> {
    const { timely } = this.#parts;
    const kind = { laned: this.#laned.has(ns), counted: this.#counted.has(ns) };
    // a failed statement would abort the caller's own transaction
    if (!this.#caution.isNeeded(ns) && !this.#borrowed)
      try {
        return await settlePlain(timely, ns, changes, queues, { ...kind, sure: true }, now);
      } catch (error) {
        if (!isNotPlain(error)) throw error;
        this.#caution.failed(ns);
      }
    const settled = await settlePlain(timely, ns, changes, queues, { ...kind, sure: false }, now);
    if (!settled.pastAcross) this.#caution.used(ns, settled.answers.includes(undefined));
    return settled;
  }

  /** Merges concurrent settles of a few attempts each into one statement and one commit. */
  #settles(ns: string): SettleMerge {
    const call = async (
      asked: readonly { changes: readonly Settle[]; now: number }[],
    ): Promise<AttemptChanged[][]> => {
      const changes = asked.flatMap((one) => one.changes);
      const answers = await this.#settle(ns, changes, Math.max(...asked.map((one) => one.now)));
      let at = 0;
      return asked.map((one) => answers.slice(at, (at += one.changes.length)));
    };
    return mergeOf(this.#merges.settles, ns, () => new Merge(call, 1, 100));
  }

  async getAttempts(ns: string, ids: readonly AttemptKey[], now: number): Promise<(AttemptRow | null)[]> {
    // a unit that has just failed for being late has an attempt only once the failure is written
    const units = ids.map(({ unitId }) => unitId);
    await moveAcross(this.#db, now, Infinity, this.#ways.allocate, { ns, units });
    return findAttempts(this.#db, ns, ids, now);
  }

  async listUnitAttempts(ns: string, ref: WorkSpecRef, name: string, now: number): Promise<AttemptRow[]> {
    const spec = await this.#lookUp(this.#slow, ns, ref, now);
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
    return takeMessages(this.#db, ns, queue, max, requestId, now);
  }

  countMessages(ns: string, queues: readonly string[]): Promise<number[]> {
    return countMessages(this.#db, ns, queues);
  }

  listQueues(ns: string, previous: string | null, limit: number): Promise<QueueRow[]> {
    return listQueues(this.#slow, ns, previous, limit);
  }

  clearQueue(ns: string, queue: string, limit: number): Promise<Slice> {
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
    const rows = await this.#apply(this.#db, now, (set) => putBatches(set, ns, inputs), true);
    await this.#changed(ns);
    return rows;
  }

  getBatches(ns: string, names: readonly string[]): Promise<(BatchRow | null)[]> {
    return readBatches(this.#db, ns, names);
  }

  listBatches(ns: string, previous: string | null, limit: number): Promise<BatchRow[]> {
    return pageBatches(this.#slow, ns, previous, limit);
  }

  deleteBatches(ns: string, names: readonly string[]): Promise<boolean[]> {
    return this.#db.transaction((tx) => dropBatches(tx, ns, names));
  }

  innerBatches(ns: string, parents: readonly string[]): Promise<string[]> {
    return findInner(this.#slow, ns, parents);
  }

  // ---- shared limits

  async putLimits(ns: string, limits: readonly SharedLimit[]): Promise<void> {
    await this.#db.transaction((tx) => writeLimits(tx, ns, limits), { repeatable: true });
    await this.#changed(ns);
  }

  listLimits(ns: string): Promise<SharedLimit[]> {
    return readLimits(this.#db, ns);
  }

  async deleteLimits(ns: string, names: readonly string[]): Promise<boolean[]> {
    const answer = await this.#db.transaction((tx) => dropLimits(tx, ns, names));
    await this.#changed(ns);
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
    const { swept, changed } = await sweepStore(this.#slow, limits, this.#cursors, now, this.#ways);
    if (swept.workers > 0) this.#hints.workers.clear();
    for (const ns of new Set(changed.map(nameFromBytes))) await this.#changed(ns);
    return swept;
  }
}

const noClaim: Claimed = { attempts: [], more: false };

/** Names may have any characters: the length marks the end of the namespace. */
const specKey = (ns: string, ref: WorkSpecRef): string => `${ns.length} ${ns}${workSpecName(ref)}`;

/** The merge of this key, created on first use. All are dropped when there are too many; then only some requests are not merged. */
function mergeOf<Item, Answer>(
  merges: Map<string, Merge<Item, Answer>>,
  key: string,
  make: () => Merge<Item, Answer>,
): Merge<Item, Answer> {
  const known = merges.get(key);
  if (known !== undefined) return known;
  if (merges.size > 1000) merges.clear();
  const made = make();
  merges.set(key, made);
  return made;
}

/** Takes unit ids from the database by the block. The ids that are left of a block when a daemon ends are never used. */
class UnitIds {
  readonly #session: Session;
  #next = 1;
  #end = 0;

  constructor(session: Session) {
    this.#session = session;
  }

  /** Uses the given session: a transaction must not wait for another connection. */
  async take(count: number, session: Session = this.#session): Promise<number[]> {
    const ids: number[] = [];
    const fill = (): void => {
      while (ids.length < count && this.#next <= this.#end) ids.push(this.#next++);
    };
    fill();
    while (ids.length < count) {
      const blocks = Math.ceil((count - ids.length) / unitBlock);
      const rows = await session.rows(
        "SELECT nextval('@unit_block') FROM generate_series(1, $1::int) ORDER BY 1",
        [blocks],
      );
      for (const [block] of rows as [number][]) {
        const start = (block - 1) * unitBlock + 1;
        // a concurrent call may have taken a block meanwhile: the rest of that block is used first
        if (this.#next > this.#end) [this.#next, this.#end] = [start, start + unitBlock - 1];
        else for (let id = start; id < start + unitBlock; id++) this.#spare.push(id);
        fill();
      }
      while (ids.length < count && this.#spare.length > 0) ids.push(this.#spare.shift() ?? 0);
    }
    return ids;
  }

  readonly #spare: number[] = [];
}
