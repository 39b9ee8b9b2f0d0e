/**
 * The engine: all policy, written once, over any store. It checks input, chooses what to hand out, turns durations
 * into times, and splits long work into slices. It keeps no state but waiting callers and caches: any number of
 * engines may share one store.
 */
import type { ActionInput, ActionRow } from "./action.ts";
import {
  cancelled,
  parseAttemptId,
  type AttemptChange,
  type AttemptChanged,
  type AttemptRow,
} from "./attempt.ts";
import {
  readStoredLog,
  type AttemptLinesOf,
  type AttemptLog,
  type LogQuery,
  type LogWrite,
} from "./attempt-log.ts";
import {
  checkBoolean,
  checkCount,
  checkObject,
  checkOneOf,
  checkPriority,
  checkSpan,
  checkText,
  checkTime,
} from "./check.ts";
import { batchActions, batchLabel, type BatchAction, type BatchInput, type BatchRow } from "./batch.ts";
import { breakerWord, type BreakerEvent } from "./breaker.ts";
import { checkLimit, limitRows, type SharedLimitInput, type SharedLimitRow } from "./limits.ts";
import { nextTurn, systemClock, systemRandom, type Clock, type Random } from "./clock.ts";
import type {
  AddWorkUnitsOptions,
  AttemptMake,
  AttemptRequest,
  AwaitOptions,
  CancelOptions,
  Coordinate,
  FailureQuery,
  LockQuery,
  LockRequest,
  PriorityChange,
  SetWorkSpecOptions,
  TakeOptions,
  WorkerAttemptQuery,
  WorkSpecInput,
} from "./coordinate.ts";
import { EndWaits } from "./ending.ts";
import { WorkFinder } from "./finding.ts";
import { readHistory } from "./history-reading.ts";
import {
  checkBatch,
  checkConflict,
  checkNote,
  checkRef,
  checkRequestId,
  checkSchedule,
  readCursor,
  Requests,
  writeCursor,
} from "./requests.ts";
import { timely } from "./timely.ts";
import { CoordinateError, isCoordinateError } from "./errors.ts";
import type { FailureRow } from "./failure.ts";
import { describeChange, type History, type HistoryQuery } from "./history.ts";
import {
  decideLock,
  decideLockSome,
  decideRenew,
  decideUnlock,
  lockKey,
  type Lock,
  type LockPath,
  type LockRefusal,
  decideClear,
  readOwners,
  readLocksBelow,
  type LockRule,
} from "./lock.ts";
import { checkName, compareNames, pairKey } from "./names.ts";
import {
  defaultNamespaceSettings,
  schedulingPolicies,
  shareKinds,
  type NamespaceRow,
  type NamespaceSettings,
} from "./namespace.ts";
import { eachPage, eachRow, type Page, type PageQuery } from "./page.ts";
import { partitionRow, type PartitionRow } from "./partition-row.ts";
import { defaultTake, maxTaken, type QueueMessage, type QueueRow } from "./queue.ts";
import { keepsHistory, Recorder } from "./recording.ts";
import { withRuns } from "./schedule.ts";
import { withAging } from "./timing.ts";
import type { Explained, ScheduleRequest } from "./scheduler.ts";
import {
  isWatchable,
  watchesOf,
  type ListedAttempt,
  type Settle,
  type Store,
  type Swept,
  type WorkUnitChange,
  type WorkUnitPut,
  type WorkUnitWhere,
} from "./store.ts";
import { MessageWaiters } from "./taking.ts";
import { checkVerbOptions } from "./verbs.ts";
import { Waiting } from "./waiting.ts";
import {
  changeMeta,
  checkMetaChange,
  missingWorkSpec,
  readWorkSpec,
  resetMeta,
  workSpecName,
  type WorkSpecMeta,
  type WorkSpecMetaChange,
  type WorkSpecRef,
  type WorkSpecRow,
} from "./work-spec.ts";
import {
  emptyTally,
  workUnitStatuses,
  type AddedWorkUnit,
  type Tally,
  type TallyRow,
  type WaitingSinceRow,
  type WorkUnitInput,
  type WorkUnitQuery,
  type WorkUnitRow,
  type WorkUnitSelection,
  type WorkUnitStatus,
} from "./work-unit.ts";
import { desiredStates, type WorkerChange, type WorkerQuery, type WorkerRow } from "./worker.ts";

export interface EngineOptions {
  clock?: Clock;
  random?: Random;
  /** Most bytes of one data object; default 16 MiB. */
  maxDataBytes?: number;
  /** Most items of one call; default 100,000. */
  maxItems?: number;
  /** How often waiting callers poll; default a second, or a minute, as a safety net, over a store with watches. */
  pollMs?: number;
  /** Inactive workers are deleted after this long; default 7 days. */
  workerRetentionMs?: number;
  /** Whether the engine records statistics of its operations; default true. See `history`. */
  history?: boolean;
  /** Setting work specs of these runtimes is refused; existing ones stay. */
  refusedRuntimes?: readonly string[];
}

/** Units processed in one slice of a long operation: small enough that other calls do not wait long. */
const slice = 2000;
/** How often a waiting producer checks whether there is room. */
const roomMs = 100;
/** Names that are searched in one call: a store sorts them. */
const namesAtOnce = 5000;
const defaultPage = 1000;
/** Larger limits are cut to this: the rest is on the next page, and no caller can exhaust the memory. */
const largestPage = 100_000;
/** How long a registered worker is not registered again. */
const knownWorkerMs = 60_000;
const requestMemoryMs = 10 * 60 * 1000;

export class Engine implements Coordinate {
  readonly #store: Store;
  readonly #clock: Clock;
  readonly #random: Random;
  readonly #requests: Requests;
  readonly #pollMs: number;
  readonly #workerRetentionMs: number;
  readonly #refusedRuntimes: ReadonlySet<string>;
  readonly #finder: WorkFinder;
  readonly #waiting: Waiting;
  readonly #messageWaiters: MessageWaiters;
  readonly #ends: EndWaits;
  readonly #recorder: Recorder | null;
  readonly #breakerWatchers = new Set<(event: BreakerEvent) => void>();
  readonly #stopListening: () => void;
  #closed = false;
  /** When workers were last registered: saves a write for each request that finds no work. */
  readonly #known = new Map<string, number>();

  constructor(store: Store, options: EngineOptions = {}) {
    this.#store = store;
    this.#clock = options.clock ?? systemClock();
    this.#random = options.random ?? systemRandom;
    this.#requests = new Requests(options.maxDataBytes ?? 16 * 1024 * 1024, options.maxItems ?? 100_000);
    this.#pollMs = options.pollMs ?? (isWatchable(store) ? 60_000 : 1000);
    this.#workerRetentionMs = options.workerRetentionMs ?? 7 * 24 * 3600 * 1000;
    this.#refusedRuntimes = new Set(options.refusedRuntimes);
    const { maxItems } = this.#requests;
    this.#finder = new WorkFinder(store, this.#clock, this.#random, { pollMs: this.#pollMs, maxItems });
    this.#waiting = new Waiting(this.#clock);
    this.#messageWaiters = new MessageWaiters(store, this.#clock, this.#pollMs);
    this.#ends = new EndWaits(store, this.#clock, this.#pollMs);
    const keeps = (options.history ?? true) && keepsHistory(store);
    this.#recorder = keeps ? new Recorder(store, this.#clock.now()) : null;
    this.#stopListening = listensToBreakers(store, (event) => {
      const { namespace, workSpec, time, state } = event;
      this.#recorder?.changed(namespace, { time, workSpec, what: breakerWord(state) });
      for (const tell of this.#breakerWatchers) tell(event);
    });
  }

  // ---- namespaces

  async listNamespaces(): Promise<NamespaceRow[]> {
    this.#open();
    return this.#store.listNamespaces();
  }

  async getNamespace(ns: string): Promise<NamespaceRow> {
    const name = this.#ns(ns);
    return (await this.#store.getNamespace(name)) ?? { name, settings: { ...defaultNamespaceSettings } };
  }

  async setNamespace(ns: string, settings: Partial<NamespaceSettings>): Promise<NamespaceRow> {
    const name = this.#ns(ns);
    const change: Partial<NamespaceSettings> = {};
    for (const [field, value] of Object.entries(settings)) {
      if (field === "policy") change.policy = checkOneOf(field, value, schedulingPolicies);
      else if (field === "share") change.share = checkOneOf(field, value, shareKinds);
      else if (field === "desired") change.desired = checkOneOf(field, value, desiredStates);
      else
        throw new CoordinateError(
          "bad_argument",
          `${field}: unknown setting; expected policy, share or desired`,
        );
    }
    return this.#store.putNamespace(name, (old) => ({ ...old, ...change }));
  }

  async deleteNamespace(ns: string): Promise<void> {
    const namespace = this.#ns(ns);
    const found = await this.#store.deleteNamespace(namespace);
    const prefix = pairKey(namespace, "");
    for (const key of this.#known.keys()) if (key.startsWith(prefix)) this.#known.delete(key);
    if (found) await this.#purge();
  }

  /** Removes the rows of deleted namespaces and work specs. */
  async #purge(): Promise<void> {
    while (!(await this.#store.purge(slice, this.#clock.now())).done) await nextTurn();
  }

  // ---- work specs

  async setWorkSpecs(
    ns: string,
    specs: readonly WorkSpecInput[],
    options: SetWorkSpecOptions = {},
  ): Promise<WorkSpecRow[]> {
    const namespace = this.#ns(ns);
    const now = this.#clock.now();
    const changed = new Set<string>();
    const puts = this.#requests.items("specs", specs, (input) => {
      const data = this.#requests.data("work spec", checkObject("work spec", input).data);
      if (data === null) throw new CoordinateError("bad_data", "work spec: data is missing");
      const { name, meta } = readWorkSpec(data, options.lenient ?? false);
      if (this.#refusedRuntimes.has(meta.runtime))
        throw new CoordinateError("not_supported", `work specs with runtime ${meta.runtime} are not allowed`);
      if (input.name !== undefined && input.name !== name) throw new CoordinateError("changed_name");
      const keep = options.keepMeta ?? false;
      // many programs set their work specs at every start: mark only real changes in the history
      const reset = (old: WorkSpecMeta | null): WorkSpecMeta => {
        const made = withAging(old, withRuns(old, resetMeta(old, meta, keep), now), now);
        if (JSON.stringify(made) === JSON.stringify(old)) changed.delete(name);
        else changed.add(name);
        return made;
      };
      return { ref: name, data, meta: reset };
    });
    const rows = await this.#store.putWorkSpecs(namespace, puts);
    for (const name of changed) this.#mark(namespace, name, "set");
    return rows;
  }

  async getWorkSpecs(ns: string, refs: readonly WorkSpecRef[]): Promise<(WorkSpecRow | null)[]> {
    return this.#store.getWorkSpecs(this.#ns(ns), this.#requests.items("work specs", refs, checkRef));
  }

  async listWorkSpecs(ns: string, query: PageQuery = {}): Promise<Page<WorkSpecRow>> {
    return this.#listed(ns, query, (...where) => this.#store.listWorkSpecs(...where), nameOf);
  }

  async setWorkSpecMeta(ns: string, ref: WorkSpecRef, change: WorkSpecMetaChange): Promise<WorkSpecMeta> {
    const namespace = this.#ns(ns);
    const now = this.#clock.now();
    const checked = checkMetaChange(change);
    const meta = (old: WorkSpecMeta | null): WorkSpecMeta => {
      if (old === null) throw missingWorkSpec(ref);
      return withAging(old, changeMeta(old, checked), now);
    };
    const [row] = await this.#store.putWorkSpecs(namespace, [{ ref: checkRef(ref), data: null, meta }]);
    if (row === undefined) throw missingWorkSpec(ref);
    this.#mark(namespace, row.name, describeChange(checked));
    return row.meta;
  }

  #mark(namespace: string, workSpec: string, what: string): void {
    this.#recorder?.changed(namespace, { time: this.#clock.now(), workSpec, what });
  }

  async deleteWorkSpecs(ns: string, refs: readonly WorkSpecRef[]): Promise<boolean[]> {
    const found = await this.#store.deleteWorkSpecs(
      this.#ns(ns),
      this.#requests.items("work specs", refs, checkRef),
      this.#clock.now(),
    );
    await this.#purge();
    return found;
  }

  // ---- work units

  async addWorkUnits(
    ns: string,
    ref: WorkSpecRef,
    units: readonly WorkUnitInput[],
    options: AddWorkUnitsOptions = {},
  ): Promise<AddedWorkUnit[]> {
    checkVerbOptions("addWorkUnits", options);
    const namespace = this.#ns(ns);
    const now = this.#clock.now();
    const spec = checkRef(ref);
    const name = workSpecName(spec);
    const onConflict = checkConflict(options.onConflict);
    const puts = this.#requests.items("work units", units, (unit) =>
      this.#requests.unit(unit, name, now, onConflict),
    );
    const requestId = checkRequestId(options.requestId);
    const waitMs = checkSpan("waitMs", options.waitMs, now);
    const add = (): Promise<AddedWorkUnit[]> =>
      this.#store.putWorkUnits(namespace, spec, puts, requestId, this.#clock.now());
    if (waitMs === 0) return add();
    if (await this.#mayNeverFit(namespace, spec, puts))
      try {
        // refused at once if it never fits, not after those that wait before it
        return await add();
      } catch (error) {
        if (!isCoordinateError(error, "queue_full")) throw error;
      }
    return this.#addWithRoom(namespace, name, add, now + waitMs, options.signal);
  }

  /** Whether more units are given than `max_waiting`: if enough of them are new, there is never room. */
  async #mayNeverFit(ns: string, spec: WorkSpecRef, puts: readonly WorkUnitPut[]): Promise<boolean> {
    const { size } = new Set(puts.map(({ name }) => name));
    if (size < 2) return false;
    const [row] = await this.#store.getWorkSpecs(ns, [spec]);
    const maxWaiting = row?.meta.maxWaiting ?? 0;
    return maxWaiting > 0 && size > maxWaiting;
  }

  /** Adds when there is room, one caller of a work spec after the other; throws `queue_full` if there is none before the deadline. */
  async #addWithRoom(
    ns: string,
    spec: string,
    add: () => Promise<AddedWorkUnit[]>,
    deadline: number,
    signal: AbortSignal | undefined,
  ): Promise<AddedWorkUnit[]> {
    let full = null as CoordinateError | null;
    const look = async (): Promise<{ found: AddedWorkUnit[] | null; again: number }> => {
      try {
        return { found: await add(), again: 0 };
      } catch (error) {
        if (!isCoordinateError(error, "queue_full")) throw error;
        full = error;
        // claims make room without a notification, so poll
        return { found: null, again: this.#clock.now() + roomMs };
      }
    };
    const watch = (wake: () => void): (() => void) => watchesOf(this.#store).watchWork(ns, wake);
    const added = await this.#waiting.wait({ group: `add ${ns}`, line: spec, deadline, signal, watch, look });
    if (added !== null) return added;
    throw full ?? new CoordinateError("queue_full", spec);
  }

  async getWorkUnits(
    ns: string,
    ref: WorkSpecRef,
    names: readonly string[],
  ): Promise<(WorkUnitRow | null)[]> {
    const checked = this.#requests.names("names", "work unit", names);
    return this.#store.getWorkUnits(this.#ns(ns), checkRef(ref), checked, this.#clock.now());
  }

  async listWorkUnits(ns: string, ref: WorkSpecRef, query: WorkUnitQuery = {}): Promise<Page<WorkUnitRow>> {
    checkVerbOptions("listWorkUnits", query);
    const namespace = this.#ns(ns);
    const where = this.#requests.where(query);
    if (query.asAdded === true) where.asAdded = true;
    if (query.previous !== undefined) where.previous = checkName("work unit", query.previous);
    const read = (limit: number): Promise<WorkUnitRow[]> =>
      this.#store.listWorkUnits(namespace, checkRef(ref), where, limit, this.#clock.now());
    return page(query.limit, read, nameOf);
  }

  async countWorkUnits(ns: string, ref: WorkSpecRef, selection: WorkUnitSelection): Promise<Tally> {
    const namespace = this.#ns(ns);
    const spec = checkRef(ref);
    const where = this.#requests.selection(selection);
    const { names, prefix, label, error, endedSince, statuses } = where;
    if ([names, prefix, label, error, endedSince].every((one) => one === undefined)) {
      const [row] = await this.#store.getWorkSpecs(namespace, [spec]);
      if (row === null || row === undefined) throw missingWorkSpec(spec);
      const rows = await this.#store.tally(namespace, this.#clock.now());
      const counts = rows.find(({ workSpec }) => workSpec === row.name)?.counts ?? emptyTally();
      if (statuses !== undefined)
        for (const status of workUnitStatuses) if (!statuses.includes(status)) counts[status] = 0;
      return counts;
    }
    const counts = emptyTally();
    for await (const counted of eachSlice(where, (some) =>
      this.#store.countWorkUnits(namespace, spec, some, slice, this.#clock.now()),
    ))
      for (const status of workUnitStatuses) counts[status] += counted.counts[status];
    return counts;
  }

  async awaitWorkUnits(
    ns: string,
    ref: WorkSpecRef,
    names: readonly string[],
    options: AwaitOptions = {},
  ): Promise<(WorkUnitRow | null)[]> {
    checkVerbOptions("awaitWorkUnits", options);
    const namespace = this.#ns(ns);
    const spec = checkRef(ref);
    const checked = this.#requests.names("names", "work unit", names);
    const now = this.#clock.now();
    return this.#ends.wait({
      ns: namespace,
      workSpec: spec,
      names: checked,
      any: options.any !== undefined && checkBoolean("any", options.any),
      deadline: now + checkSpan("waitMs", options.waitMs, now),
      signal: options.signal,
    });
  }

  async setWorkUnitPriorities(
    ns: string,
    ref: WorkSpecRef,
    selection: WorkUnitSelection,
    change: PriorityChange,
  ): Promise<number> {
    const { count } = await this.#updateUnits(
      ns,
      ref,
      selection,
      "set" in change
        ? { kind: "set-priority", priority: checkPriority(change.set) }
        : { kind: "adjust-priority", by: checkPriority(change.adjust) },
    );
    return count;
  }

  async setWorkUnitDelays(
    ns: string,
    ref: WorkSpecRef,
    selection: WorkUnitSelection,
    notBefore: number,
  ): Promise<number> {
    const change = { kind: "set-delay", notBefore: checkTime("notBefore", notBefore) } as const;
    return (await this.#updateUnits(ns, ref, selection, change)).count;
  }

  async resetWorkUnits(ns: string, ref: WorkSpecRef, selection: WorkUnitSelection): Promise<number> {
    return this.#reset(ns, [{ ref, selection }]);
  }

  /**
   * Units that are reset together do not fail because of one another. But they are reset in slices: a unit fails again at once if it
   * depends on one of a later slice, and is reset once more when that one is.
   */
  async #reset(
    ns: string,
    targets: readonly { ref: WorkSpecRef; selection: WorkUnitSelection }[],
  ): Promise<number> {
    const began = this.#clock.now();
    let total = 0;
    let slices = 0;
    for (const { ref, selection } of targets) {
      const { count, parts } = await this.#updateUnits(ns, ref, selection, { kind: "reset" });
      total += count;
      slices += parts;
    }
    for (let again = slices > 1; again;) {
      again = false;
      for (const { ref, selection } of targets)
        for await (const rows of eachPage((from) =>
          this.listWorkUnits(ns, ref, { ...failedSince(selection, began), ...from }),
        )) {
          const names = rows.filter(mayRunNow).map(nameOf);
          if (names.length === 0) continue;
          await this.#updateUnits(ns, ref, { names }, { kind: "reset" });
          again = true;
        }
    }
    return total;
  }

  async cancelWorkUnits(
    ns: string,
    ref: WorkSpecRef,
    selection: WorkUnitSelection,
    options: CancelOptions = {},
  ): Promise<number> {
    const by = checkNote("by", options.by);
    const why = checkNote("why", options.why);
    const traceback = cancelled + (by === "" ? "" : ` by ${by}`) + (why === "" ? "" : `: ${why}`);
    return (await this.#updateUnits(ns, ref, selection, { kind: "cancel", traceback })).count;
  }

  async #updateUnits(
    ns: string,
    ref: WorkSpecRef,
    selection: WorkUnitSelection,
    change: WorkUnitChange,
  ): Promise<{ count: number; parts: number }> {
    return this.#inSlices(ns, ref, selection, (namespace, spec, where) =>
      this.#store.updateWorkUnits(namespace, spec, { where, change, limit: slice }, this.#clock.now()),
    );
  }

  async deleteWorkUnits(ns: string, ref: WorkSpecRef, selection: WorkUnitSelection): Promise<number> {
    const { count } = await this.#inSlices(ns, ref, selection, (namespace, spec, where) =>
      this.#store.deleteWorkUnits(namespace, spec, where, slice, this.#clock.now()),
    );
    return count;
  }

  async #inSlices(
    ns: string,
    ref: WorkSpecRef,
    selection: WorkUnitSelection,
    step: (
      ns: string,
      ref: WorkSpecRef,
      where: WorkUnitWhere,
    ) => Promise<{ count: number; next: string | null }>,
  ): Promise<{ count: number; parts: number }> {
    const namespace = this.#ns(ns);
    const spec = checkRef(ref);
    const where = this.#requests.selection(selection);
    const total = { count: 0, parts: 0 };
    for await (const { count } of eachSlice(where, (some) => step(namespace, spec, some))) {
      total.count += count;
      total.parts++;
    }
    return total;
  }

  // ---- attempts

  async requestAttempts(ns: string, request: AttemptRequest): Promise<AttemptRow[]> {
    checkVerbOptions("requestAttempts", request);
    const namespace = this.#ns(ns);
    const now = this.#clock.now();
    const ask = this.#requests.ask(request, now);
    const waitMs = checkSpan("waitMs", request.waitMs, now);
    const first = await this.#finder.find(namespace, ask);
    if (first.found !== null) return first.found;
    await this.#registerWorker(namespace, ask.worker, now);
    if (waitMs === 0) return [];
    const found = await this.#waiting.wait({
      group: `work ${namespace}`,
      line: JSON.stringify(ask.schedule),
      deadline: now + waitMs,
      signal: request.signal,
      watch: (wake) => watchesOf(this.#store).watchWork(namespace, wake),
      look: () => this.#finder.find(namespace, ask),
    });
    return found ?? [];
  }

  /** Registers a worker at its first request, even if that finds no work. A recently registered worker is not written again. */
  async #registerWorker(ns: string, worker: string, now: number): Promise<void> {
    const key = pairKey(ns, worker);
    // entries are trusted for `knownWorkerMs` only: another daemon may have deleted the worker since
    if ((this.#known.get(key) ?? -Infinity) > now - knownWorkerMs) return;
    await this.#store.putWorkers(ns, [{ name: worker }], now);
    if (this.#known.size >= 10_000) this.#known.clear();
    this.#known.set(key, now);
  }

  async makeAttempts(ns: string, requests: readonly AttemptMake[]): Promise<AttemptRow[]> {
    return timely(this.#clock, (now) => this.#makeAttempts(ns, requests, now));
  }

  async #makeAttempts(ns: string, requests: readonly AttemptMake[], now: number): Promise<AttemptRow[]> {
    const makes = this.#requests.items("requests", requests, (request) => this.#requests.make(request, now));
    return this.#store.makeAttempts(this.#ns(ns), makes, now);
  }

  settleAttempts(ns: string, changes: readonly AttemptChange[]): Promise<AttemptChanged[]> {
    const done = { logs: false };
    return timely(this.#clock, (now) => this.#settleAttempts(ns, changes, done, now));
  }

  async #settleAttempts(
    ns: string,
    changes: readonly AttemptChange[],
    done: { logs: boolean },
    now: number,
  ): Promise<AttemptChanged[]> {
    const namespace = this.#ns(ns);
    const settles: Settle[] = [];
    const logs: LogWrite[] = [];
    // malformed ids cannot be looked up: their answers are inserted at their positions
    const unknown: { at: number; answer: AttemptChanged }[] = [];
    this.#requests.items("changes", changes, (change, i) => {
      const settle = this.#requests.change(change, this.#random, now);
      if (settle === null) unknown.push({ at: i, answer: noSuchAttempt(change.attempt) });
      else settles.push(settle);
      if (change.log === undefined) return;
      const log = this.#requests.log(change.attempt, change.log, now);
      if (log !== null) logs.push(log);
    });
    // logs first: a reader who sees that an attempt has ended sees all its lines
    if (logs.length > 0 && !done.logs) await this.#store.writeLogs(namespace, logs);
    done.logs = true;
    const answers = settles.length === 0 ? [] : await this.#store.settle(namespace, settles, now);
    for (const { at, answer } of unknown) answers.splice(at, 0, answer);
    return answers;
  }

  async getAttempts(ns: string, ids: readonly string[]): Promise<(AttemptRow | null)[]> {
    const keys = this.#requests.items("ids", ids, parseAttemptId);
    const known = keys.filter((key) => key !== null);
    const rows = await this.#store.getAttempts(this.#ns(ns), known, this.#clock.now());
    let at = 0;
    return keys.map((key) => (key === null ? null : (rows[at++] ?? null)));
  }

  async writeAttemptLogs(ns: string, logs: readonly AttemptLinesOf[]): Promise<boolean[]> {
    const now = this.#clock.now();
    const writes = this.#requests.items("logs", logs, (log) =>
      this.#requests.log(checkObject("log", log).attempt, log, now),
    );
    const known = writes.filter((write) => write !== null);
    const answers = await this.#store.writeLogs(this.#ns(ns), known);
    let at = 0;
    return writes.map((write) => write !== null && answers[at++] === true);
  }

  async getAttemptLogs(
    ns: string,
    ids: readonly string[],
    query: LogQuery = {},
  ): Promise<(AttemptLog | null)[]> {
    const keys = this.#requests.items("ids", ids, parseAttemptId);
    const after = checkCount("after", checkObject("query", query).after, 0);
    const known = keys.filter((key) => key !== null);
    const logs = await this.#store.readLogs(this.#ns(ns), known);
    let at = 0;
    return keys.map((key, i) => {
      const stored = key === null ? undefined : logs[at++];
      return stored === undefined ? null : readStoredLog(ids[i]!, stored, after);
    });
  }

  async listUnitAttempts(ns: string, ref: WorkSpecRef, unit: string): Promise<AttemptRow[]> {
    return this.#store.listUnitAttempts(
      this.#ns(ns),
      checkRef(ref),
      checkName("work unit", unit),
      this.#clock.now(),
    );
  }

  async listWorkerAttempts(ns: string, worker: string, query: WorkerAttemptQuery): Promise<Page<AttemptRow>> {
    const namespace = this.#ns(ns);
    const name = checkName("worker", worker);
    const which = checkOneOf("which", query.which, ["active", "all", "children"]);
    const previous = query.previous === undefined ? null : readCursor(query.previous);
    const read = (limit: number): Promise<ListedAttempt[]> =>
      this.#store.listWorkerAttempts(namespace, name, { which, previous, limit }, this.#clock.now());
    const { rows, next } = await page(query.limit, read, writeCursor);
    return { rows: rows.map(({ row }) => row), next };
  }

  // ---- workers

  async updateWorkers(ns: string, changes: readonly WorkerChange[]): Promise<WorkerRow[]> {
    const checked = this.#requests.items("workers", changes, (change) => this.#requests.worker(change));
    return this.#store.putWorkers(this.#ns(ns), checked, this.#clock.now());
  }

  async getWorkers(ns: string, names: readonly string[]): Promise<(WorkerRow | null)[]> {
    const checked = this.#requests.names("names", "worker", names);
    return this.#store.getWorkers(this.#ns(ns), checked, this.#clock.now());
  }

  async listWorkers(ns: string, query: WorkerQuery = {}): Promise<Page<WorkerRow>> {
    checkVerbOptions("listWorkers", query);
    const namespace = this.#ns(ns);
    const where = this.#requests.workerQuery(query);
    const read = (limit: number): Promise<WorkerRow[]> =>
      this.#store.listWorkers(namespace, where, limit, this.#clock.now());
    return page(query.limit, read, nameOf);
  }

  // ---- queues of outcomes

  async takeMessages(ns: string, queue: string, options: TakeOptions = {}): Promise<QueueMessage[]> {
    checkVerbOptions("takeMessages", options);
    const namespace = this.#ns(ns);
    const now = this.#clock.now();
    return this.#messageWaiters.take({
      ns: namespace,
      queue: checkName("queue", queue),
      max: Math.min(checkCount("max", options.max, defaultTake, 1), maxTaken),
      requestId: checkRequestId(options.requestId),
      deadline: now + checkSpan("waitMs", options.waitMs, now),
      signal: options.signal,
    });
  }

  async countMessages(ns: string, queues: readonly string[]): Promise<number[]> {
    const checked = this.#requests.names("queues", "queue", queues);
    return this.#store.countMessages(this.#ns(ns), checked, this.#clock.now());
  }

  async listQueues(ns: string, query: PageQuery = {}): Promise<Page<QueueRow>> {
    const now = this.#clock.now();
    return this.#listed(ns, query, (...where) => this.#store.listQueues(...where, now), nameOf);
  }

  async clearQueue(ns: string, queue: string): Promise<number> {
    const namespace = this.#ns(ns);
    const name = checkName("queue", queue);
    const now = this.#clock.now();
    let total = 0;
    for (;;) {
      const { deleted, done } = await this.#store.clearQueue(namespace, name, slice, now);
      total += deleted;
      if (done) return total;
      await nextTurn();
    }
  }

  // ---- actions

  async putActions(ns: string, actions: readonly ActionInput[]): Promise<boolean[]> {
    const namespace = this.#ns(ns);
    const checked = this.#requests.items("actions", actions, (action) => this.#requests.action(action));
    return this.#store.putActions(namespace, checked, this.#clock.now());
  }

  async getActions(ns: string, keys: readonly string[]): Promise<(ActionRow | null)[]> {
    return this.#store.getActions(this.#ns(ns), this.#requests.names("keys", "action", keys));
  }

  async listActions(ns: string, query: PageQuery = {}): Promise<Page<ActionRow>> {
    return this.#listed(
      ns,
      query,
      (...where) => this.#store.listActions(...where),
      (row) => row.key,
    );
  }

  async deleteActions(ns: string, keys: readonly string[]): Promise<boolean[]> {
    return this.#store.deleteActions(this.#ns(ns), this.#requests.names("keys", "action", keys));
  }

  // ---- batches

  async setBatches(ns: string, batches: readonly BatchInput[]): Promise<BatchRow[]> {
    const namespace = this.#ns(ns);
    const checked = this.#requests.items("batches", batches, (batch) => this.#requests.batch(batch));
    return this.#store.putBatches(namespace, checked, this.#clock.now());
  }

  async getBatches(ns: string, names: readonly string[]): Promise<(BatchRow | null)[]> {
    return this.#store.getBatches(this.#ns(ns), this.#requests.items("names", names, checkBatch));
  }

  async listBatches(ns: string, query: PageQuery = {}): Promise<Page<BatchRow>> {
    return this.#listed(ns, query, (...where) => this.#store.listBatches(...where), nameOf);
  }

  async setLimits(ns: string, limits: readonly SharedLimitInput[]): Promise<SharedLimitRow[]> {
    const namespace = this.#ns(ns);
    const now = this.#clock.now();
    const checked = this.#requests.items("limits", limits, (one) => checkLimit(one, now));
    await this.#store.putLimits(namespace, checked);
    const given = new Set(checked.map(({ name }) => name));
    return (await this.listLimits(ns)).filter(({ name }) => given.has(name));
  }

  async listLimits(ns: string): Promise<SharedLimitRow[]> {
    const namespace = this.#ns(ns);
    const now = this.#clock.now();
    const limits = await this.#store.listLimits(namespace);
    if (limits.length === 0) return [];
    const { candidates } = await this.#store.candidates(namespace, { requestId: null, fresh: true }, now);
    return limitRows(limits, candidates, now);
  }

  async deleteLimits(ns: string, names: readonly string[]): Promise<boolean[]> {
    const checked = this.#requests.names("names", "limit", names);
    return this.#store.deleteLimits(this.#ns(ns), checked);
  }

  async deleteBatches(ns: string, names: readonly string[]): Promise<boolean[]> {
    const checked = this.#requests.items("names", names, checkBatch);
    return this.#store.deleteBatches(this.#ns(ns), checked, this.#clock.now());
  }

  async changeBatch(ns: string, batch: string, action: BatchAction): Promise<number> {
    checkOneOf("action", action, batchActions);
    const labels = (await this.#batchesIn(ns, checkBatch(batch))).map(batchLabel);
    const statuses: readonly WorkUnitStatus[] =
      action === "retry" ? ["failed"] : ["available", "delayed", "blocked", "pending"];
    const refs: string[] = [];
    for await (const { name } of eachRow((from) => this.listWorkSpecs(ns, from))) refs.push(name);
    // batch by batch: the end of an inner batch may make a unit in the batch around it, in any work spec
    const targets = labels.flatMap((label) => refs.map((ref) => ({ ref, selection: { label, statuses } })));
    if (action === "retry") return this.#reset(ns, targets);
    let count = 0;
    for (const { ref, selection } of targets)
      count += await this.cancelWorkUnits(ns, ref, selection, { why: `the batch ${batch} was cancelled` });
    return count;
  }

  /** The batch and all batches inside it, innermost first: an outer batch ends after its inner ones. */
  async #batchesIn(ns: string, batch: string): Promise<string[]> {
    const found = new Set([batch]);
    // level by level; a batch in a cycle of parents is included once
    for (let level = [batch]; level.length > 0;) {
      const inner = await this.#store.innerBatches(this.#ns(ns), level);
      level = inner.filter((name) => !found.has(name));
      for (const name of level) found.add(name);
    }
    return [...found].reverse();
  }

  // ---- inspecting

  async listFailures(ns: string, query: FailureQuery = {}): Promise<FailureRow[]> {
    const namespace = this.#ns(ns);
    const workSpec = query.workSpec === undefined ? null : checkName("work spec", query.workSpec);
    const rows = await this.#store.listFailures(namespace, workSpec, this.#clock.now());
    return rows.sort(
      (a, b) =>
        compareNames(a.workSpec, b.workSpec) ||
        b.count - a.count ||
        compareNames(a.fingerprint, b.fingerprint),
    );
  }

  async listPartitions(ns: string, ref: WorkSpecRef, query: PageQuery = {}): Promise<Page<PartitionRow>> {
    const namespace = this.#ns(ns);
    const previous = query.previous === undefined ? null : checkText("previous", query.previous);
    const [spec] = await this.#store.getWorkSpecs(namespace, [checkRef(ref)]);
    if (spec === null || spec === undefined) throw missingWorkSpec(ref);
    const now = this.#clock.now();
    const read = async (limit: number): Promise<PartitionRow[]> => {
      const lanes = await this.#store.listLanes(namespace, spec, previous, limit, now);
      return lanes.map((lane) => partitionRow(spec.meta, lane, now));
    };
    return page(query.limit, read, (row) => row.partition);
  }

  async tally(ns?: string): Promise<TallyRow[]> {
    this.#open();
    const rows = await this.#store.tally(ns === undefined ? null : this.#ns(ns), this.#clock.now());
    return rows.map(({ id: _id, ...row }) => row);
  }

  async waitingSince(ns?: string): Promise<WaitingSinceRow[]> {
    this.#open();
    return this.#store.waitingSince(ns === undefined ? null : this.#ns(ns), this.#clock.now());
  }

  async history(ns: string, query: HistoryQuery = {}): Promise<History> {
    return readHistory(this.#store, this.#ns(ns), query, this.#clock.now());
  }

  async explain(ns: string, request: ScheduleRequest = {}): Promise<Explained[]> {
    return this.#finder.explain(this.#ns(ns), checkSchedule(request));
  }

  // ---- locks

  async lock(ns: string, request: LockRequest): Promise<LockRefusal | null> {
    return this.#lock(ns, request, decideLock);
  }

  async lockSome(ns: string, request: LockRequest): Promise<boolean[]> {
    return this.#lock(ns, request, decideLockSome);
  }

  async renewLocks(ns: string, request: LockRequest): Promise<LockRefusal | null> {
    return this.#lock(ns, request, decideRenew);
  }

  async unlock(ns: string, request: Pick<LockRequest, "owner" | "paths">): Promise<LockRefusal | null> {
    return this.#lock(ns, request, decideUnlock);
  }

  async readLocks(ns: string, paths: readonly LockPath[]): Promise<(string | null)[]> {
    return this.#lock(ns, { owner: "", paths }, readOwners);
  }

  async listLocks(ns: string, query: LockQuery = {}): Promise<Page<Lock>> {
    const after = query.previous === undefined ? null : checkText("previous", query.previous);
    const held = await this.#lock(ns, { owner: "", paths: [query.path ?? []] }, readLocksBelow);
    const rest = after === null ? held : held.filter(({ path }) => lockKey(path) > after);
    return page(
      query.limit,
      (limit) => Promise.resolve(rest.slice(0, limit)),
      ({ path }) => lockKey(path),
    );
  }

  async clearLocks(ns: string, path: LockPath): Promise<void> {
    await this.#lock(ns, { owner: "", paths: [path] }, decideClear);
  }

  async #lock<Answer>(ns: string, request: LockRequest, decide: LockRule<Answer>): Promise<Answer> {
    const now = this.#clock.now();
    const asked = this.#requests.lock(request, now);
    return this.#store.locks(this.#ns(ns), asked.paths, (view) => decide(view, asked), now);
  }

  // ---- housekeeping

  /** Does a bounded piece of housekeeping. The host of an engine calls it every second or so, and again while `more` is set. */
  async sweep(units = slice): Promise<Swept> {
    this.#open();
    const now = this.#clock.now();
    const limits = {
      units,
      workersBefore: now - this.#workerRetentionMs,
      requestsBefore: now - requestMemoryMs,
    };
    const swept = await this.#store.sweep(limits, now);
    if (swept.workers > 0) this.#known.clear();
    const { done } = await this.#store.purge(units, now);
    await this.#recorder?.record(now);
    return { ...swept, more: swept.more || !done };
  }

  /** Calls back when the breaker of a work spec trips or closes through this engine. Returns a function that stops this. */
  watchBreakers(tell: (event: BreakerEvent) => void): () => void {
    this.#breakerWatchers.add(tell);
    return () => this.#breakerWatchers.delete(tell);
  }

  /** How many units this engine found late: past their deadline, and moved to the front, or past `expires`, and failed. */
  get late(): number {
    return keepsHistory(this.#store) ? this.#store.historyCounts.late : 0;
  }

  /** How many requests wait: for work, for messages, or for units to end. */
  get waiting(): number {
    return this.#waiting.size + this.#messageWaiters.size + this.#ends.size;
  }

  async close(): Promise<void> {
    if (this.#closed) return;
    this.#closed = true;
    this.#stopListening();
    this.#waiting.stop();
    this.#messageWaiters.stop();
    this.#ends.stop();
    try {
      // write the history step that is not over yet
      await this.#recorder?.record(this.#clock.now(), true);
    } catch {
      // a store that can no longer be written must still be closed, and ten seconds of statistics are no loss
    }
    await this.#store.close();
  }

  #open(): void {
    if (this.#closed) throw new CoordinateError("closed");
  }

  #ns(ns: string): string {
    this.#open();
    return checkName("namespace", ns);
  }

  /** A page of what the store lists by name. */
  #listed<Row>(
    ns: string,
    query: PageQuery,
    list: (ns: string, previous: string | null, limit: number) => Promise<Row[]>,
    named: (row: Row) => string,
  ): Promise<Page<Row>> {
    const namespace = this.#ns(ns);
    const previous = query.previous === undefined ? null : checkText("previous", query.previous);
    return page(query.limit, (limit) => list(namespace, previous, limit), named);
  }
}

function listensToBreakers(store: Store, listener: (event: BreakerEvent) => void): () => void {
  if (!keepsHistory(store)) return () => undefined;
  const { breakers } = store.historyCounts;
  breakers.add(listener);
  return () => breakers.delete(listener);
}

/** Does a long operation in slices, each after the `next` of the slice before. Many names are also divided, in their order. */
async function* eachSlice<Slice extends { next: string | null }>(
  where: WorkUnitWhere,
  step: (where: WorkUnitWhere) => Promise<Slice>,
): AsyncGenerator<Slice> {
  const { names = [] } = where;
  const parts: WorkUnitWhere[] = [];
  if (names.length > namesAtOnce) {
    const sorted = [...new Set(names)].sort(compareNames);
    for (let at = 0; at < sorted.length; at += namesAtOnce)
      parts.push({ ...where, names: sorted.slice(at, at + namesAtOnce) });
  } else parts.push(where);
  for (const part of parts) {
    for (let from = part; ;) {
      const done = await step(from);
      yield done;
      if (done.next === null) break;
      from = { ...part, previous: done.next };
      await nextTurn();
    }
    if (parts.length > 1) await nextTurn();
  }
}

const nameOf = ({ name }: { name: string }): string => name;

/** The units of a selection that have failed since, whatever else it says about their status. */
const failedSince = ({ names, prefix, label }: WorkUnitSelection, endedSince: number): WorkUnitQuery => ({
  ...(names !== undefined && { names }),
  ...(prefix !== undefined && { prefix }),
  ...(label !== undefined && { label }),
  statuses: ["failed"],
  endedSince,
});

/** Whether a unit failed because of its dependencies, and none of them is failed any more. */
const mayRunNow = ({ reason, dependencies }: WorkUnitRow): boolean =>
  reason === "dependency" &&
  dependencies.every(({ kind, status }) => kind === "soft" || (status !== null && status !== "failed"));

/** Reads one row more than asked for, to know whether there is another page. */
async function page<Row>(
  asked: number | undefined,
  read: (limit: number) => Promise<Row[]>,
  named: (row: Row) => string,
): Promise<Page<Row>> {
  const limit = Math.min(checkCount("limit", asked, defaultPage, 1), largestPage);
  const rows = await read(limit + 1);
  if (rows.length <= limit) return { rows, next: null };
  rows.length = limit;
  const last = rows.at(-1);
  return { rows, next: last === undefined ? null : named(last) };
}

const noSuchAttempt = (attempt: string): AttemptChanged => ({
  attempt,
  error: "no_such_attempt",
  changed: false,
  status: null,
  expirationTime: 0,
  outputs: 0,
  chainingErrors: [],
});
