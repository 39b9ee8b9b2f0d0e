/**
 * The engine: all policy, written once, over any store. It checks what comes in, chooses what to hand out, turns
 * spans into times, and cuts long work into slices. It keeps no state but who waits: any number of engines may
 * share one store.
 */
import type { ActionInput, ActionRow } from "./action.ts";
import {
  attemptActions,
  cancelled,
  defaultLifetimeMs,
  givenReasons,
  longestNote,
  parseAttemptId,
  type AttemptChange,
  type AttemptChanged,
  type AttemptProgress,
  type AttemptRow,
} from "./attempt.ts";
import {
  checkLines,
  readStoredLog,
  type AttemptLinesOf,
  type AttemptLog,
  type LogQuery,
  type LogWrite,
} from "./attempt-log.ts";
import {
  checkBoolean,
  checkCount,
  checkData,
  checkList,
  checkNumber,
  checkObject,
  checkOneOf,
  checkPriority,
  checkSpan,
  checkText,
  checkTime,
  latestTime,
} from "./check.ts";
import { describeValue } from "./describe-value.ts";
import {
  batchActions,
  batchConditions,
  batchLabel,
  batchOf,
  type BatchAction,
  type BatchInput,
  type BatchRow,
} from "./batch.ts";
import { breakerWord, isTripped, type BreakerEvent } from "./breaker.ts";
import { checkLimit, holdByLimits, limitRows, type SharedLimitInput, type SharedLimitRow } from "./limits.ts";
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
import { CoordinateError, isCoordinateError, WaitedError } from "./errors.ts";
import type { FailureRow } from "./failure.ts";
import {
  describeChange,
  finestStepMs,
  gatherPoints,
  planHistory,
  type History,
  type HistoryQuery,
} from "./history.ts";
import {
  decideLock,
  decideLockSome,
  decideRenew,
  decideUnlock,
  defaultLockMs,
  lockKey,
  longestLockMs,
  type Lock,
  type LockPath,
  type LockRefusal,
} from "./lock.ts";
import { checkName, compareNames, type NameKind } from "./names.ts";
import {
  defaultNamespaceSettings,
  schedulingPolicies,
  shareKinds,
  type NamespaceRow,
  type NamespaceSettings,
} from "./namespace.ts";
import { eachRow, type Page } from "./page.ts";
import { defaultTake, maxTaken, type QueueMessage, type QueueRow } from "./queue.ts";
import { checkRetry, specTryLimit, type UnitRetry } from "./retry.ts";
import { keepsHistory, Recorder, stepOf, type StoredRecord } from "./recording.ts";
import { RecentWorkReader } from "./recent-work.ts";
import { runsDue, withRuns } from "./schedule.ts";
import { withAging, type UnitTiming } from "./timing.ts";
import { choose, explainChoice, type Candidate, type Explained, type ScheduleRequest } from "./scheduler.ts";
import {
  isWatchable,
  watchesOf,
  type AttemptCursor,
  type ListedAttempt,
  type Settle,
  type Store,
  type Swept,
  type WorkUnitChange,
  type WorkUnitPut,
  type WorkUnitWhere,
} from "./store.ts";
import { MessageWaiters } from "./taking.ts";
import { Waiting } from "./waiting.ts";
import {
  changeMeta,
  checkMetaChange,
  knowsTask,
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
  conflictPolicies,
  emptyTally,
  maxLabels,
  maxQueues,
  workUnitStatuses,
  type AddedWorkUnit,
  type ConflictPolicy,
  type Tally,
  type TallyRow,
  type WaitingSinceRow,
  type WorkUnitInput,
  type WorkUnitQuery,
  type WorkUnitRow,
  type WorkUnitSelection,
} from "./work-unit.ts";
import { isWorkerLabel, maxWorkerLabels } from "./worker-labels.ts";
import { desiredStates, type WorkerChange, type WorkerQuery, type WorkerRow } from "./worker.ts";

export interface EngineOptions {
  clock?: Clock;
  random?: Random;
  /** One unit's data at most; 16 MiB. */
  maxDataBytes?: number;
  /** Items of one call at most; 100,000. */
  maxBatch?: number;
  /** How often those who wait look for themselves: a second where the store cannot tell, else a safety net. */
  pollMs?: number;
  /** Inactive workers are forgotten after this long; 7 days. */
  workerRetentionMs?: number;
  /** Whether it keeps records of what happens through it; yes. See `history`. */
  history?: boolean;
  /** Work specs of these runtimes may not be set; those that are there already are left as they are. */
  refusedRuntimes?: readonly string[];
}

/** Units looked at in one step of a long change: small enough that nobody else waits long. */
const slice = 2000;
/** When to look again for units that another transaction holds locked. */
const lockedMs = 500;
/** How often a producer looks whether there is room. */
const roomMs = 100;
const defaultPage = 1000;
/** A larger limit is taken for this one: there is another page, and nobody's memory is at the caller's mercy. */
const largestPage = 100_000;
/** So long a worker is taken to be known. */
const knownWorkerMs = 60_000;
const requestMemoryMs = 10 * 60 * 1000;
/** So long after a step has ended it is taken to be recorded. */
const recordingMs = 2000;
const defaultHistoryMs = 3_600_000;
const defaultPoints = 360;
const maxPoints = 3000;
const maxSeries = 1000;

export class Engine implements Coordinate {
  readonly #store: Store;
  readonly #clock: Clock;
  readonly #random: Random;
  readonly #maxDataBytes: number;
  readonly #maxBatch: number;
  readonly #pollMs: number;
  readonly #workerRetentionMs: number;
  readonly #refusedRuntimes: ReadonlySet<string>;
  readonly #waiting: Waiting;
  readonly #messageWaiters: MessageWaiters;
  readonly #ends: EndWaits;
  readonly #recorder: Recorder | null;
  readonly #recent: RecentWorkReader;
  readonly #breakerWatchers = new Set<(event: BreakerEvent) => void>();
  readonly #stopListening: () => void;
  #closed = false;
  /** When workers were last registered: saves a write for each request that finds nothing. */
  readonly #known = new Map<string, number>();

  constructor(store: Store, options: EngineOptions = {}) {
    this.#store = store;
    this.#clock = options.clock ?? systemClock();
    this.#random = options.random ?? systemRandom;
    this.#maxDataBytes = options.maxDataBytes ?? 16 * 1024 * 1024;
    this.#maxBatch = options.maxBatch ?? 100_000;
    this.#pollMs = options.pollMs ?? (isWatchable(store) ? 60_000 : 1000);
    this.#workerRetentionMs = options.workerRetentionMs ?? 7 * 24 * 3600 * 1000;
    this.#refusedRuntimes = new Set(options.refusedRuntimes);
    this.#waiting = new Waiting(this.#clock);
    this.#messageWaiters = new MessageWaiters(store, this.#clock, this.#pollMs);
    this.#ends = new EndWaits(store, this.#clock, this.#pollMs);
    const keeps = (options.history ?? true) && keepsHistory(store);
    this.#recorder = keeps ? new Recorder(store, this.#clock.now()) : null;
    this.#recent = new RecentWorkReader(store);
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
      else throw new CoordinateError("bad_argument", `${field}: not a setting of a namespace`);
    }
    return this.#store.putNamespace(name, (old) => ({ ...old, ...change }));
  }

  async deleteNamespace(ns: string): Promise<void> {
    const namespace = this.#ns(ns);
    const found = await this.#store.deleteNamespace(namespace);
    for (const key of this.#known.keys()) if (key.startsWith(`${namespace}\u0000`)) this.#known.delete(key);
    if (found) await this.#purge();
  }

  /** Takes away the rows of what was deleted. */
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
    const puts = this.#batch("specs", specs).map((input) => {
      const data = checkData("work spec", checkObject("work spec", input).data, this.#maxDataBytes);
      if (data === null) throw new CoordinateError("bad_data", "work spec: no data");
      const { name, meta } = readWorkSpec(data, options.lenient ?? false);
      if (this.#refusedRuntimes.has(meta.runtime))
        throw new CoordinateError(
          "not_supported",
          `work specs of runtime ${meta.runtime} are not allowed here`,
        );
      if (input.name !== undefined && input.name !== name) throw new CoordinateError("changed_name");
      const keep = options.keepMeta ?? false;
      // many a program sets its work specs whenever it starts: only what made a difference is a mark in the history
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
    return this.#store.getWorkSpecs(this.#ns(ns), this.#batch("work specs", refs).map(checkRef));
  }

  async listWorkSpecs(
    ns: string,
    query: { previous?: string; limit?: number } = {},
  ): Promise<Page<WorkSpecRow>> {
    const namespace = this.#ns(ns);
    const previous = query.previous === undefined ? null : checkText("previous", query.previous);
    return page(
      query.limit,
      (limit) => this.#store.listWorkSpecs(namespace, previous, limit),
      (row) => row.name,
    );
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
      this.#batch("work specs", refs).map(checkRef),
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
    const namespace = this.#ns(ns);
    const now = this.#clock.now();
    const spec = checkRef(ref);
    const name = workSpecName(spec);
    const onConflict = checkConflict(options.onConflict);
    const puts = this.#batch("work units", units).map((unit, i) => {
      try {
        return this.#readUnit(unit, name, now, onConflict);
      } catch (error) {
        throw inItem(error, i, units.length);
      }
    });
    const requestId = checkRequestId(options.requestId);
    const waitMs = checkSpan("waitMs", options.waitMs, now);
    const add = (): Promise<AddedWorkUnit[]> =>
      this.#store.putWorkUnits(namespace, spec, puts, requestId, this.#clock.now());
    return waitMs === 0 ? add() : this.#addWithRoom(namespace, name, add, now + waitMs, options.signal);
  }

  /** Adds when there is room, one caller of a work spec after the other; throws `queue_full` when there was none in time. */
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
        // claims make room and tell nobody
        return { found: null, again: this.#clock.now() + roomMs };
      }
    };
    const watch = (wake: () => void): (() => void) => watchesOf(this.#store).watchWork(ns, wake);
    const added = await this.#waiting.wait({ group: `add ${ns}`, line: spec, deadline, signal, watch, look });
    if (added !== null) return added;
    throw full ?? new CoordinateError("queue_full", spec);
  }

  #readUnit(unit: WorkUnitInput, spec: string, now: number, onConflict: ConflictPolicy): WorkUnitPut {
    checkObject("work unit", unit);
    const notBefore = checkTime("notBefore", unit.notBefore);
    const delayMs = checkSpan("delayMs", unit.delayMs, now);
    if (notBefore > 0 && delayMs > 0)
      throw new CoordinateError("bad_argument", "delayMs: a unit has either notBefore or delayMs");
    const debounceMs = checkSpan("debounceMs", unit.debounceMs, now);
    if (debounceMs > 0 && (notBefore > 0 || delayMs > 0))
      throw new CoordinateError("bad_argument", "debounceMs: not together with notBefore or delayMs");
    const later = Math.max(delayMs, debounceMs);
    const put: WorkUnitPut = {
      name: checkName("work unit", unit.name),
      data: checkData("data", unit.data, this.#maxDataBytes),
      priority: unit.priority === undefined ? 0 : checkPriority(unit.priority),
      notBefore: later > 0 ? now + later : notBefore,
      dependencies:
        unit.dependencies === undefined
          ? null
          : checkList("dependencies", unit.dependencies, this.#maxBatch).map(
              ({ workSpec, workUnit, kind }) => ({
                workSpec: workSpec === undefined ? spec : checkName("work spec", workSpec),
                workUnit: checkName("work unit", workUnit),
                kind: kind === undefined ? "hard" : checkOneOf("dependency kind", kind, ["hard", "soft"]),
              }),
            ),
    };
    if (unit.queues !== undefined) {
      const queues = checkNames("queues", "queue", unit.queues, maxQueues);
      if (queues.length > 0) put.queues = queues;
    }
    if (unit.labels !== undefined || unit.batch !== undefined) {
      const own = unit.batch === undefined ? [] : [batchLabel(checkBatch(unit.batch))];
      const labels = checkNames("labels", "label", [...own, ...(unit.labels ?? [])], maxLabels);
      if (labels.length > 0) put.labels = labels;
    }
    if (unit.partition !== undefined && unit.partition !== "")
      put.partition = checkName("partition", unit.partition);
    if (unit.maxRetries !== undefined || unit.retry !== undefined) {
      const retry: UnitRetry = {};
      if (unit.maxRetries !== undefined) retry.maxRetries = checkCount("maxRetries", unit.maxRetries, 0);
      if (unit.retry !== undefined) retry.retry = checkRetry(unit.retry, now);
      put.retry = retry;
    }
    const timing = checkTiming(unit, now);
    if (timing !== null) put.timing = timing;
    const policy = unit.onConflict === undefined ? onConflict : checkConflict(unit.onConflict);
    if (policy !== "update") put.onConflict = policy;
    const throttleMs = checkSpan("throttleMs", unit.throttleMs, now);
    if (throttleMs > 0) put.throttleMs = throttleMs;
    return put;
  }

  async getWorkUnits(
    ns: string,
    ref: WorkSpecRef,
    names: readonly string[],
  ): Promise<(WorkUnitRow | null)[]> {
    const checked = this.#batch("names", names).map((name) => checkName("work unit", name));
    return this.#store.getWorkUnits(this.#ns(ns), checkRef(ref), checked, this.#clock.now());
  }

  async listWorkUnits(ns: string, ref: WorkSpecRef, query: WorkUnitQuery = {}): Promise<Page<WorkUnitRow>> {
    const namespace = this.#ns(ns);
    const where = this.#where(query);
    if (query.asAdded === true) where.asAdded = true;
    if (query.previous !== undefined) where.previous = checkName("work unit", query.previous);
    const read = (limit: number): Promise<WorkUnitRow[]> =>
      this.#store.listWorkUnits(namespace, checkRef(ref), where, limit, this.#clock.now());
    return page(query.limit, read, (row) => row.name);
  }

  async countWorkUnits(ns: string, ref: WorkSpecRef, selection: WorkUnitSelection): Promise<Tally> {
    const namespace = this.#ns(ns);
    const spec = checkRef(ref);
    const where = this.#selected(selection);
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
    for (;;) {
      const counted = await this.#store.countWorkUnits(namespace, spec, where, slice, this.#clock.now());
      for (const status of workUnitStatuses) counts[status] += counted.counts[status];
      if (counted.next === null) return counts;
      where.previous = counted.next;
      await nextTurn();
    }
  }

  async awaitWorkUnits(
    ns: string,
    ref: WorkSpecRef,
    names: readonly string[],
    options: AwaitOptions = {},
  ): Promise<(WorkUnitRow | null)[]> {
    const namespace = this.#ns(ns);
    const spec = checkRef(ref);
    const checked = this.#batch("names", names).map((name) => checkName("work unit", name));
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
    return this.#updateUnits(
      ns,
      ref,
      selection,
      "set" in change
        ? { kind: "set-priority", priority: checkPriority(change.set) }
        : { kind: "adjust-priority", by: checkPriority(change.adjust) },
    );
  }

  async setWorkUnitDelays(
    ns: string,
    ref: WorkSpecRef,
    selection: WorkUnitSelection,
    notBefore: number,
  ): Promise<number> {
    return this.#updateUnits(ns, ref, selection, {
      kind: "set-delay",
      notBefore: checkTime("notBefore", notBefore),
    });
  }

  async resetWorkUnits(ns: string, ref: WorkSpecRef, selection: WorkUnitSelection): Promise<number> {
    return this.#updateUnits(ns, ref, selection, { kind: "reset" });
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
    return this.#updateUnits(ns, ref, selection, { kind: "cancel", traceback });
  }

  async #updateUnits(
    ns: string,
    ref: WorkSpecRef,
    selection: WorkUnitSelection,
    change: WorkUnitChange,
  ): Promise<number> {
    return this.#inSlices(ns, ref, selection, (namespace, spec, where) =>
      this.#store.updateWorkUnits(namespace, spec, { where, change, limit: slice }, this.#clock.now()),
    );
  }

  async deleteWorkUnits(ns: string, ref: WorkSpecRef, selection: WorkUnitSelection): Promise<number> {
    return this.#inSlices(ns, ref, selection, (namespace, spec, where) =>
      this.#store.deleteWorkUnits(namespace, spec, where, slice, this.#clock.now()),
    );
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
  ): Promise<number> {
    const namespace = this.#ns(ns);
    const spec = checkRef(ref);
    const where = this.#selected(selection);
    let total = 0;
    for (;;) {
      const { count, next } = await step(namespace, spec, where);
      total += count;
      if (next === null) return total;
      where.previous = next;
      await nextTurn();
    }
  }

  #selected(selection: WorkUnitSelection): WorkUnitWhere {
    const where = this.#where(selection);
    if (Object.keys(where).length === 0 && selection.all !== true) throw new CoordinateError("empty_query");
    return where;
  }

  #where(query: WorkUnitSelection | WorkUnitQuery): WorkUnitWhere {
    const where: WorkUnitWhere = {};
    if (query.names !== undefined)
      where.names = this.#batch("names", query.names).map((name) => checkName("work unit", name));
    if (query.statuses !== undefined)
      where.statuses = this.#batch("statuses", query.statuses).map((status) =>
        checkOneOf("statuses", status, workUnitStatuses),
      );
    // a prefix is a piece of a name: it may end in the middle of a character's bytes
    if (query.prefix !== undefined && query.prefix !== "") where.prefix = checkText("prefix", query.prefix);
    if (query.label !== undefined) where.label = checkName("label", query.label);
    if (query.endedSince !== undefined) where.endedSince = checkTime("endedSince", query.endedSince);
    if (query.error !== undefined) {
      where.error = checkText("error", query.error);
      const failed = where.statuses === undefined || where.statuses.includes("failed");
      where.statuses = failed ? ["failed"] : [];
    }
    return where;
  }

  // ---- attempts

  async requestAttempts(ns: string, request: AttemptRequest): Promise<AttemptRow[]> {
    const namespace = this.#ns(ns);
    const now = this.#clock.now();
    const ask: Ask = {
      worker: checkName("worker", checkObject("request", request).worker),
      number: checkCount("number", request.number, 1, 0) || 1,
      lifetimeMs: checkSpan("lifetimeMs", request.lifetimeMs, now) || defaultLifetimeMs,
      requestId: checkRequestId(request.requestId),
      schedule: { labels: [], ...checkSchedule(request) },
    };
    const waitMs = checkSpan("waitMs", request.waitMs, now);
    const first = await this.#look(namespace, ask);
    if (first.found !== null) return first.found;
    await this.#know(namespace, ask.worker, now);
    if (waitMs === 0) return [];
    const found = await this.#waiting.wait({
      group: namespace,
      line: JSON.stringify(ask.schedule),
      deadline: now + waitMs,
      signal: request.signal,
      watch: (wake) => watchesOf(this.#store).watchWork(namespace, wake),
      look: () => this.#look(namespace, ask),
    });
    return found ?? [];
  }

  /** A worker is created by its first request, also when that finds nothing; who is known is not looked up again. */
  async #know(ns: string, worker: string, now: number): Promise<void> {
    const key = `${ns}\u0000${worker}`;
    // another daemon may have forgotten it since
    if ((this.#known.get(key) ?? -Infinity) > now - knownWorkerMs) return;
    await this.#store.putWorkers(ns, [{ name: worker }], now);
    if (this.#known.size >= 10_000) this.#known.clear();
    this.#known.set(key, now);
  }

  /** One look for work; `again` is when it is worth while to look again, if nothing changes until then. */
  async #look(ns: string, ask: Ask): Promise<{ found: AttemptRow[] | null; again: number }> {
    let failed: Candidate | null = null;
    // a spec that turned out to have nothing is looked at again, with fresh counts, but not for ever
    for (let tries = 0; ; tries++) {
      const now = this.#clock.now();
      const found = await this.#store.candidates(ns, { requestId: ask.requestId, fresh: tries > 0 }, now);
      const { settings, repeated, look, limits } = found;
      const candidates =
        limits === undefined ? found.candidates : holdByLimits(found.candidates, limits, now);
      if (repeated !== null && repeated.length > 0) return { found: repeated, again: 0 };
      if (asksForTasks(ask.schedule) && (await this.#deriveTasks(ns, candidates))) continue;
      // in one order whatever the store, so that the same draw is the same choice
      candidates.sort(byName);
      const open = tries < 3 ? candidates : candidates.filter(({ id }) => id !== failed?.id);
      const { policy, share } = settings;
      const recent = share === "time" ? await this.#recent.read(ns, candidates, now) : null;
      const chosen = choose(open, ask.schedule, now, this.#random, policy, recent, ask.number);
      // an earlier look is good for a claim, not for saying that there is nothing
      if (chosen === null && look !== undefined) continue;
      if (chosen === null || tries > 8)
        // units that were counted but not claimed are locked by another transaction; giving them up changes nothing
        return {
          found: null,
          again: Math.min(now + (failed === null ? this.#pollMs : lockedMs), whenDue(candidates, now)),
        };
      const attempts = await this.#claim(ns, chosen, ask, look);
      if (attempts.length > 0) return { found: attempts, again: 0 };
      failed = chosen;
    }
  }

  /** Adds to the metadata of work specs what an earlier version did not store. Answers whether there was any such. */
  async #deriveTasks(ns: string, candidates: readonly Candidate[]): Promise<boolean> {
    const refs = candidates.filter(({ meta }) => !knowsTask(meta)).map(({ name, id }) => ({ name, id }));
    if (refs.length === 0) return false;
    const rows = (await this.#store.getWorkSpecs(ns, refs)).filter((row) => row !== null);
    await this.#store.putWorkSpecs(
      ns,
      rows.map(({ id, name, data }) => {
        const { taskName, runsModule } = readWorkSpec(data).meta;
        const meta = (old: WorkSpecMeta | null): WorkSpecMeta => {
          if (old === null) throw missingWorkSpec(name);
          return { ...old, taskName, runsModule };
        };
        return { ref: { name, id }, data: null, meta };
      }),
    );
    return true;
  }

  async #claim(
    ns: string,
    { id, name, meta, pending }: Candidate,
    ask: Ask,
    look: number | undefined,
  ): Promise<AttemptRow[]> {
    let limit = Math.min(ask.number, this.#maxBatch);
    if (meta.maxGetwork > 0) limit = Math.min(limit, meta.maxGetwork);
    if (meta.maxRunning > 0) limit = Math.min(limit, meta.maxRunning - pending);
    const claim = {
      workSpec: { name, id },
      worker: ask.worker,
      limit,
      lifetimeMs: ask.lifetimeMs,
      maxRetries: specTryLimit(meta),
      requestId: ask.requestId,
      ...(look !== undefined && { look }),
    };
    for (;;) {
      const { attempts, more } = await this.#timely((now) => this.#store.claim(ns, claim, now));
      if (!more) return attempts;
      await nextTurn();
    }
  }

  /** Leases, delays and ends count from when they are written: what had to wait for others is tried again with a later time. */
  async #timely<Answer>(work: (now: number) => Promise<Answer>): Promise<Answer> {
    for (let waited = 0; ;) {
      try {
        return await work(this.#clock.now());
      } catch (error) {
        if (!(error instanceof WaitedError) || (waited += error.waitedMs) >= error.limitMs) throw error;
      }
    }
  }

  async makeAttempts(ns: string, requests: readonly AttemptMake[]): Promise<AttemptRow[]> {
    return this.#timely((now) => this.#makeAttempts(ns, requests, now));
  }

  async #makeAttempts(ns: string, requests: readonly AttemptMake[], now: number): Promise<AttemptRow[]> {
    const makes = this.#batch("requests", requests).map((request) => {
      const { workSpec, workUnit, worker, lifetimeMs } = checkObject("request", request);
      return {
        workSpec: checkName("work spec", workSpec),
        workUnit: checkName("work unit", workUnit),
        worker: checkName("worker", worker),
        lifetimeMs: checkSpan("lifetimeMs", lifetimeMs, now) || defaultLifetimeMs,
      };
    });
    return this.#store.makeAttempts(this.#ns(ns), makes, now);
  }

  async settleAttempts(ns: string, changes: readonly AttemptChange[]): Promise<AttemptChanged[]> {
    const done = { logs: false };
    return this.#timely((now) => this.#settleAttempts(ns, changes, done, now));
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
    // a name that was never handed out cannot be looked up: it is answered in its place
    const unknown: { at: number; answer: AttemptChanged }[] = [];
    this.#batch("changes", changes).forEach((change, i) => {
      try {
        const settle = this.#readChange(change, now);
        if (settle === null) unknown.push({ at: i, answer: noSuchAttempt(change.attempt) });
        else settles.push(settle);
        if (change.log === undefined) return;
        const log = checkLines("log", change.attempt, change.log, now, this.#maxBatch);
        if (log !== null) logs.push(log);
      } catch (error) {
        throw inItem(error, i, changes.length);
      }
    });
    // before the end that they belong to: who sees that an attempt has ended sees all that it wrote
    if (logs.length > 0 && !done.logs) await this.#store.writeLogs(namespace, logs);
    done.logs = true;
    const answers = settles.length === 0 ? [] : await this.#store.settle(namespace, settles, now);
    for (const { at, answer } of unknown) answers.splice(at, 0, answer);
    return answers;
  }

  #readChange(change: AttemptChange, now: number): Settle | null {
    const { action } = checkObject("change", change);
    checkOneOf("action", action, attemptActions);
    const data = checkData("data", change.data, this.#maxDataBytes);
    const delay = checkSpan("delayMs", change.delayMs, now);
    const lifetime = checkSpan("lifetimeMs", change.lifetimeMs, now, defaultLifetimeMs, -Infinity);
    const untried = change.untried !== undefined && checkBoolean("untried", change.untried);
    if (untried && action !== "expire" && action !== "retry")
      throw new CoordinateError("bad_argument", `untried: only with expire and retry, not with ${action}`);
    if (change.error !== undefined && action !== "error")
      throw new CoordinateError("bad_argument", `error: only with error, not with ${action}`);
    if (change.reason !== undefined && action !== "error" && action !== "fail")
      throw new CoordinateError("bad_argument", `reason: only with fail and error, not with ${action}`);
    const progress = change.progress === undefined ? null : checkProgress(change.progress);
    if (progress !== null && action !== "renew")
      throw new CoordinateError("bad_argument", `progress: only with renew, not with ${action}`);
    const recordTaken = change.recordTaken !== undefined && checkBoolean("recordTaken", change.recordTaken);
    const key = parseAttemptId(change.attempt);
    if (key === null) return null;
    const time =
      action === "renew" ? now + Math.max(0, lifetime) : action === "retry" && delay > 0 ? now + delay : 0;
    const settle: Settle = {
      unitId: key.unitId,
      number: key.number,
      action,
      data,
      time,
      untried,
      progress,
      recordTaken,
    };
    if (action === "error") settle.random = this.#random();
    if (change.error !== undefined) settle.error = this.#errorText(change.error);
    if (change.reason !== undefined) settle.reason = checkOneOf("reason", change.reason, givenReasons);
    return settle;
  }

  #errorText(given: string): string {
    const text = checkText("error", given);
    if (text.length > this.#maxDataBytes)
      throw new CoordinateError(
        "too_large",
        `error: ${text.length} characters, at most ${this.#maxDataBytes}`,
      );
    return text;
  }

  async getAttempts(ns: string, ids: readonly string[]): Promise<(AttemptRow | null)[]> {
    const keys = this.#batch("ids", ids).map(parseAttemptId);
    const known = keys.filter((key) => key !== null);
    const rows = await this.#store.getAttempts(this.#ns(ns), known, this.#clock.now());
    let at = 0;
    return keys.map((key) => (key === null ? null : (rows[at++] ?? null)));
  }

  async writeAttemptLogs(ns: string, logs: readonly AttemptLinesOf[]): Promise<boolean[]> {
    const now = this.#clock.now();
    const writes = this.#batch("logs", logs).map((log, i) => {
      try {
        return checkLines("log", checkObject("log", log).attempt, log, now, this.#maxBatch);
      } catch (error) {
        throw inItem(error, i, logs.length);
      }
    });
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
    const keys = this.#batch("ids", ids).map(parseAttemptId);
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
    const checked = this.#batch("workers", changes).map((change): WorkerChange => {
      const read: WorkerChange = { name: checkName("worker", checkObject("worker", change).name) };
      if (change.parent !== undefined)
        read.parent = change.parent === null ? null : checkName("worker", change.parent);
      if (change.active !== undefined) read.active = checkBoolean("active", change.active);
      if (change.mode !== undefined) read.mode = checkText("mode", change.mode);
      if (change.data !== undefined) read.data = checkData("data", change.data, this.#maxDataBytes);
      if (change.lastUpdate !== undefined) read.lastUpdate = checkTime("lastUpdate", change.lastUpdate);
      if (change.expiration !== undefined) read.expiration = checkTime("expiration", change.expiration);
      if (change.desired !== undefined)
        read.desired = change.desired === null ? null : checkOneOf("desired", change.desired, desiredStates);
      return read;
    });
    return this.#store.putWorkers(this.#ns(ns), checked, this.#clock.now());
  }

  async getWorkers(ns: string, names: readonly string[]): Promise<(WorkerRow | null)[]> {
    const checked = this.#batch("names", names).map((name) => checkName("worker", name));
    return this.#store.getWorkers(this.#ns(ns), checked, this.#clock.now());
  }

  async listWorkers(ns: string, query: WorkerQuery = {}): Promise<Page<WorkerRow>> {
    const namespace = this.#ns(ns);
    const where: WorkerQuery = {};
    if (query.names !== undefined)
      where.names = this.#batch("names", query.names).map((name) => checkName("worker", name));
    if (query.prefix !== undefined) where.prefix = checkText("prefix", query.prefix);
    if (query.active !== undefined) where.active = checkBoolean("active", query.active);
    if (query.root !== undefined) where.root = checkBoolean("root", query.root);
    if (query.parent !== undefined) where.parent = checkName("worker", query.parent);
    if (query.previous !== undefined) where.previous = checkName("worker", query.previous);
    const read = (limit: number): Promise<WorkerRow[]> =>
      this.#store.listWorkers(namespace, where, limit, this.#clock.now());
    return page(query.limit, read, (row) => row.name);
  }

  // ---- queues of outcomes

  async takeMessages(ns: string, queue: string, options: TakeOptions = {}): Promise<QueueMessage[]> {
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
    const checked = this.#batch("queues", queues).map((queue) => checkName("queue", queue));
    return this.#store.countMessages(this.#ns(ns), checked);
  }

  async listQueues(ns: string, query: { previous?: string; limit?: number } = {}): Promise<Page<QueueRow>> {
    const namespace = this.#ns(ns);
    const previous = query.previous === undefined ? null : checkText("previous", query.previous);
    const read = (limit: number): Promise<QueueRow[]> => this.#store.listQueues(namespace, previous, limit);
    return page(query.limit, read, (row) => row.name);
  }

  async clearQueue(ns: string, queue: string): Promise<number> {
    const namespace = this.#ns(ns);
    const name = checkName("queue", queue);
    let total = 0;
    for (;;) {
      const { deleted, done } = await this.#store.clearQueue(namespace, name, slice);
      total += deleted;
      if (done) return total;
      await nextTurn();
    }
  }

  // ---- actions

  async putActions(ns: string, actions: readonly ActionInput[]): Promise<boolean[]> {
    const namespace = this.#ns(ns);
    const checked = this.#batch("actions", actions).map((action, i): ActionInput => {
      try {
        const data = checkData("data", checkObject("action", action).data, this.#maxDataBytes);
        if (data === null) throw new CoordinateError("bad_data", "action: no data");
        return { key: checkName("action", action.key), data };
      } catch (error) {
        throw inItem(error, i, actions.length);
      }
    });
    return this.#store.putActions(namespace, checked, this.#clock.now());
  }

  async getActions(ns: string, keys: readonly string[]): Promise<(ActionRow | null)[]> {
    return this.#store.getActions(this.#ns(ns), this.#keys(keys));
  }

  async listActions(ns: string, query: { previous?: string; limit?: number } = {}): Promise<Page<ActionRow>> {
    const namespace = this.#ns(ns);
    const previous = query.previous === undefined ? null : checkText("previous", query.previous);
    const read = (limit: number): Promise<ActionRow[]> => this.#store.listActions(namespace, previous, limit);
    return page(query.limit, read, (row) => row.key);
  }

  async deleteActions(ns: string, keys: readonly string[]): Promise<boolean[]> {
    return this.#store.deleteActions(this.#ns(ns), this.#keys(keys));
  }

  #keys(keys: readonly string[]): string[] {
    return this.#batch("keys", keys).map((key) => checkName("action", key));
  }

  // ---- batches

  async setBatches(ns: string, batches: readonly BatchInput[]): Promise<BatchRow[]> {
    const namespace = this.#ns(ns);
    const checked = this.#batch("batches", batches).map((input): BatchInput => {
      const { name, then, sealed, parent } = checkObject("batch", input);
      const read: BatchInput = { name: checkBatch(name) };
      if (sealed !== undefined) read.sealed = checkBoolean("sealed", sealed);
      if (parent !== undefined) read.parent = checkBatch(parent);
      if (parent === name)
        throw new CoordinateError("bad_argument", "parent: a batch does not belong to itself");
      if (then === null) read.then = null;
      else if (then !== undefined)
        read.then = {
          workSpec: checkName("work spec", then.workSpec),
          workUnit: checkName("work unit", then.workUnit ?? name),
          on: then.on === undefined ? "ended" : checkOneOf("on", then.on, batchConditions),
        };
      return read;
    });
    return this.#store.putBatches(namespace, checked, this.#clock.now());
  }

  async getBatches(ns: string, names: readonly string[]): Promise<(BatchRow | null)[]> {
    return this.#store.getBatches(this.#ns(ns), this.#batch("names", names).map(checkBatch));
  }

  async listBatches(ns: string, query: { previous?: string; limit?: number } = {}): Promise<Page<BatchRow>> {
    const namespace = this.#ns(ns);
    const previous = query.previous === undefined ? null : checkText("previous", query.previous);
    const read = (limit: number): Promise<BatchRow[]> => this.#store.listBatches(namespace, previous, limit);
    return page(query.limit, read, (row) => row.name);
  }

  async setLimits(ns: string, limits: readonly SharedLimitInput[]): Promise<SharedLimitRow[]> {
    const namespace = this.#ns(ns);
    const now = this.#clock.now();
    const checked = this.#batch("limits", limits).map((one) => checkLimit(one, now));
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
    const checked = this.#batch("names", names).map((name) => checkName("limit", name));
    return this.#store.deleteLimits(this.#ns(ns), checked);
  }

  async deleteBatches(ns: string, names: readonly string[]): Promise<boolean[]> {
    return this.#store.deleteBatches(this.#ns(ns), this.#batch("names", names).map(checkBatch));
  }

  async changeBatch(ns: string, batch: string, action: BatchAction): Promise<number> {
    checkOneOf("action", action, batchActions);
    const labels = (await this.#batchesIn(ns, checkBatch(batch))).map(batchLabel);
    let count = 0;
    for await (const { name } of eachRow((from) => this.listWorkSpecs(ns, from)))
      for (const label of labels)
        count +=
          action === "retry"
            ? await this.resetWorkUnits(ns, name, { label, statuses: ["failed"] })
            : await this.cancelWorkUnits(
                ns,
                name,
                { label, statuses: ["available", "delayed", "blocked", "pending"] },
                { why: `the batch ${batch} was cancelled` },
              );
    return count;
  }

  /** The batch and all that belong to it, the innermost first: when they have ended, the outer one does. */
  async #batchesIn(ns: string, batch: string): Promise<string[]> {
    const found = new Set([batch]);
    // level by level; one that belongs to itself by others is there once
    for (let level = [batch]; level.length > 0;) {
      const inner = await this.#store.innerBatches(this.#ns(ns), level);
      level = inner.filter((name) => !found.has(name));
      for (const name of level) found.add(name);
    }
    return [...found].reverse();
  }

  // ---- looking in

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
    const namespace = this.#ns(ns);
    const store = this.#store;
    if (!keepsHistory(store)) throw new CoordinateError("not_supported", "this store keeps no history");
    const now = this.#clock.now();
    const to = query.to === undefined ? now : Math.min(checkTime("to", query.to), now);
    if (query.from !== undefined && query.lastMs !== undefined)
      throw new CoordinateError("bad_argument", "lastMs: a query has either from or lastMs");
    const lastMs = checkSpan("lastMs", query.lastMs, now, defaultHistoryMs);
    const from = query.from === undefined ? to - lastMs : checkTime("from", query.from);
    if (from >= to)
      throw new CoordinateError("bad_argument", `from: expected a time before ${to}, got ${from}`);
    const points = Math.min(checkCount("points", query.points, defaultPoints, 1), maxPoints);
    const each = query.each !== undefined && checkBoolean("each", query.each);
    const specs: { id: number; name: string | null }[] = [];
    if (query.workSpecs === undefined) specs.push({ id: 0, name: null });
    else {
      const names = checkList("workSpecs", query.workSpecs, maxSeries).map((one) =>
        checkName("work spec", one),
      );
      const rows = await store.getWorkSpecs(namespace, names);
      for (const [i, row] of rows.entries()) {
        if (row === null) throw missingWorkSpec(names[i] ?? "");
        specs.push({ id: row.id, name: row.name });
      }
    }
    if (each) {
      const rows = await store.tally(namespace, now);
      if (rows.length > maxSeries)
        throw new CoordinateError("too_large", `each: ${rows.length} work specs, at most ${maxSeries}`);
      for (const { id, workSpec } of rows) specs.push({ id, name: workSpec });
    }
    const plan = planHistory(from, to, points, now);
    const stepMs = plan.recordMs * plan.times;
    const end = Math.min(plan.to, stepOf(now - recordingMs, finestStepMs));
    const ids = [...new Set(specs.map(({ id }) => id))];
    const rows = await store.readHistory(namespace, ids, plan.recordMs, plan.from, end);
    const bySpec = new Map<number, StoredRecord[]>(ids.map((id) => [id, []]));
    for (const row of rows) bySpec.get(row.spec)?.push(row);
    const series = specs.map(({ id, name }) => ({
      workSpec: name,
      points: gatherPoints(bySpec.get(id) ?? [], stepMs),
    }));
    return { from: plan.from, to: Math.max(plan.from, end), stepMs, series };
  }

  async explain(ns: string, request: ScheduleRequest = {}): Promise<Explained[]> {
    const now = this.#clock.now();
    const found = await this.#store.candidates(this.#ns(ns), { requestId: null, fresh: true }, now);
    const { settings, limits = [] } = found;
    const candidates = holdByLimits(found.candidates, limits, now);
    if (asksForTasks(request) && (await this.#deriveTasks(ns, candidates))) return this.explain(ns, request);
    const { policy, share } = settings;
    const recent = await this.#recent.read(ns, candidates, now, true);
    return explainChoice(candidates.sort(byName), checkSchedule(request), now, policy, share, recent);
  }

  // ---- locks

  async lock(ns: string, request: LockRequest): Promise<LockRefusal | null> {
    const { owner, paths, deadline, now } = this.#readLock(request);
    return this.#store.locks(this.#ns(ns), paths, (view) => decideLock(view, owner, paths, deadline), now);
  }

  async lockSome(ns: string, request: LockRequest): Promise<boolean[]> {
    const { owner, paths, deadline, now } = this.#readLock(request);
    return this.#store.locks(
      this.#ns(ns),
      paths,
      (view) => decideLockSome(view, owner, paths, deadline),
      now,
    );
  }

  async renewLocks(ns: string, request: LockRequest): Promise<LockRefusal | null> {
    const { owner, paths, deadline, now } = this.#readLock(request);
    return this.#store.locks(this.#ns(ns), paths, (view) => decideRenew(view, owner, paths, deadline), now);
  }

  async unlock(ns: string, request: Pick<LockRequest, "owner" | "paths">): Promise<LockRefusal | null> {
    const { owner, paths, now } = this.#readLock(request);
    return this.#store.locks(this.#ns(ns), paths, (view) => decideUnlock(view, owner, paths), now);
  }

  async readLocks(ns: string, paths: readonly LockPath[]): Promise<(string | null)[]> {
    const read = this.#readLock({ owner: "", paths });
    return this.#store.locks(
      this.#ns(ns),
      read.paths,
      (view) => ({
        set: [],
        release: [],
        answer: read.paths.map((path) => view.get(lockKey(path))?.owner ?? null),
      }),
      read.now,
    );
  }

  async listLocks(ns: string, query: LockQuery = {}): Promise<Page<Lock>> {
    const { paths, now } = this.#readLock({ owner: "", paths: [query.path ?? []] });
    const [below = ""] = paths.map(lockKey);
    const previous = query.previous === undefined ? "" : checkText("previous", query.previous);
    const read = async (limit: number): Promise<Lock[]> => {
      const held = await this.#store.locks(
        this.#ns(ns),
        paths,
        (view) => ({ set: [], release: [], answer: [...view] }),
        now,
      );
      return held
        .filter(([key]) => key.startsWith(below) && (query.previous === undefined || key > previous))
        .sort(([a], [b]) => (a < b ? -1 : 1))
        .slice(0, limit)
        .map(([, lock]) => lock);
    };
    return page(query.limit, read, ({ path }) => lockKey(path));
  }

  async clearLocks(ns: string, path: LockPath): Promise<void> {
    const { paths, now } = this.#readLock({ owner: "", paths: [path] });
    const key = lockKey(path);
    await this.#store.locks(
      this.#ns(ns),
      paths,
      (view) => {
        const release = [...view].filter(([at]) => at.startsWith(key)).map(([, lock]) => lock.path);
        return { set: [], release, answer: null };
      },
      now,
    );
  }

  #readLock(request: LockRequest): {
    owner: string;
    paths: readonly LockPath[];
    deadline: number;
    now: number;
  } {
    const now = this.#clock.now();
    const timeout = checkNumber("timeoutMs", request.timeoutMs) || defaultLockMs;
    const paths = this.#batch("paths", request.paths).map((path) =>
      checkList("path", path, 1000).map((label) => checkText("path label", label)),
    );
    return {
      owner: checkText("owner", request.owner),
      paths,
      deadline: now + Math.min(timeout, longestLockMs),
      now,
    };
  }

  // ---- housekeeping

  /** One bounded piece of housekeeping; whoever runs an engine calls it every second or so, and again while there is more. */
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

  /** Calls back when the breaker of a work spec trips or closes through this engine. Returns how to stop. */
  watchBreakers(tell: (event: BreakerEvent) => void): () => void {
    this.#breakerWatchers.add(tell);
    return () => this.#breakerWatchers.delete(tell);
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
      // what happened in the step under way
      await this.#recorder?.record(this.#clock.now(), true);
    } catch {
      // a store that cannot be written any more must still be closed, and ten seconds of statistics are no loss
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

  #batch<Item>(field: string, items: readonly Item[]): readonly Item[] {
    return checkList(field, items, this.#maxBatch);
  }
}

interface Ask {
  worker: string;
  number: number;
  lifetimeMs: number;
  requestId: string | null;
  schedule: ScheduleRequest;
}

function checkRef(ref: WorkSpecRef): WorkSpecRef {
  const name = checkName("work spec", workSpecName(ref));
  return typeof ref === "string" ? name : { name, id: ref.id };
}

/** Names without repetitions, in the order they were given. */
function checkNames(field: string, kind: NameKind, names: readonly string[], max: number): string[] {
  const checked = checkList(field, names, 1000).map((name) => checkName(kind, name));
  const distinct = [...new Set(checked)];
  if (distinct.length > max)
    throw new CoordinateError("too_large", `${field}: ${distinct.length} items, at most ${max}`);
  return distinct;
}

/** A batch is named in a label. */
const checkBatch = (name: unknown): string =>
  batchOf([checkName("label", batchLabel(checkText("batch", name)))]) ?? "";

const checkConflict = (policy: ConflictPolicy | undefined): ConflictPolicy =>
  policy === undefined ? "update" : checkOneOf("onConflict", policy, conflictPolicies);

function checkRequestId(id: string | undefined): string | null {
  if (id === undefined) return null;
  if (checkText("requestId", id).length > 200)
    throw new CoordinateError("too_large", "requestId: at most 200 characters");
  return id;
}

/** When a unit is late, and when it is of no use any more; null when it says nothing of that. */
function checkTiming(unit: WorkUnitInput, now: number): UnitTiming | null {
  const timing: UnitTiming = {};
  for (const [key, span] of [
    ["deadline", "deadlineMs"],
    ["expires", "expiresMs"],
  ] as const) {
    if (unit[key] === undefined && unit[span] === undefined) continue;
    if (unit[key] !== undefined && unit[span] !== undefined)
      throw new CoordinateError("bad_argument", `${span}: a unit has either ${key} or ${span}`);
    const time = checkTime(key, unit[key]);
    const at = unit[span] === undefined ? time : now + checkSpan(span, unit[span], now);
    if (at > 0) timing[key] = at;
  }
  return timing.deadline === undefined && timing.expires === undefined ? null : timing;
}

function checkProgress(progress: AttemptProgress): AttemptProgress {
  const { done, note } = checkObject("progress", progress);
  if (typeof done !== "number" || !(done >= 0 && done <= 1))
    throw new CoordinateError(
      "bad_argument",
      `progress.done: expected a number from 0 to 1, got ${describeValue(done)}`,
    );
  return { done, note: checkNote("progress.note", note) };
}

/** A few words for people; none when absent. */
function checkNote(field: string, text: string | undefined): string {
  if (text === undefined) return "";
  if (checkText(field, text).length > longestNote)
    throw new CoordinateError("too_large", `${field}: at most ${longestNote} characters`);
  return text;
}

/** Whether the choice depends on what a work spec runs. */
const asksForTasks = ({ tasks, modules }: ScheduleRequest): boolean =>
  tasks !== undefined || modules === true;

function checkSchedule({
  workSpecs,
  runtimes,
  tasks,
  modules,
  availableGb,
  labels,
}: ScheduleRequest): ScheduleRequest {
  const schedule: ScheduleRequest = {};
  if (workSpecs !== undefined)
    schedule.workSpecs = checkList("workSpecs", workSpecs, 10_000).map((one) => checkText("workSpecs", one));
  if (runtimes !== undefined)
    schedule.runtimes = checkList("runtimes", runtimes, 1000).map((one) => checkText("runtimes", one));
  if (tasks !== undefined)
    schedule.tasks = checkList("tasks", tasks, 10_000).map((one) => checkText("tasks", one));
  if (modules !== undefined) schedule.modules = checkBoolean("modules", modules);
  if (availableGb !== undefined) schedule.availableGb = checkNumber("availableGb", availableGb);
  if (labels !== undefined) {
    schedule.labels = checkList("labels", labels, maxWorkerLabels).map((one) => checkText("labels", one));
    const wrong = schedule.labels.find((one) => !isWorkerLabel(one));
    if (wrong !== undefined)
      throw new CoordinateError(
        "bad_argument",
        `labels: expected name or name=value, got ${describeValue(wrong)}`,
      );
  }
  return schedule;
}

function listensToBreakers(store: Store, listener: (event: BreakerEvent) => void): () => void {
  if (!keepsHistory(store)) return () => undefined;
  const { breakers } = store.happened;
  breakers.add(listener);
  return () => breakers.delete(listener);
}

const byName = (a: Candidate, b: Candidate): number => compareNames(a.name, b.name);

/** When the next unit is due, a lease ends, a spec may generate or its schedule does, or a spec starts: the earliest. */
function whenDue(candidates: readonly Candidate[], now: number): number {
  let due = latestTime;
  for (const { meta, nextDue, held } of candidates) {
    if (nextDue > 0) due = Math.min(due, nextDue);
    if (held !== undefined && held !== null && held.until > now) due = Math.min(due, held.until);
    if (meta.continuous && meta.nextContinuous > now) due = Math.min(due, meta.nextContinuous);
    if (meta.notBefore > now) due = Math.min(due, meta.notBefore);
    const { until = 0 } = meta.breakerState;
    if (isTripped(meta) && until > now) due = Math.min(due, until);
    if (runsDue(meta) > 0) due = Math.min(due, runsDue(meta));
  }
  return due;
}

/** Reads one row more than asked for, to know whether there is another page. */
async function page<Row>(
  asked: number | undefined,
  read: (limit: number) => Promise<Row[]>,
  nameOf: (row: Row) => string,
): Promise<Page<Row>> {
  const limit = Math.min(checkCount("limit", asked, defaultPage, 1), largestPage);
  const rows = await read(limit + 1);
  if (rows.length <= limit) return { rows, next: null };
  rows.length = limit;
  const last = rows.at(-1);
  return { rows, next: last === undefined ? null : nameOf(last) };
}

/** The cursor of a list of attempts is the id of the last one, and its position in the worker's log if it has one. */
const writeCursor = ({ row, position }: ListedAttempt): string =>
  position === null ? row.id : `${row.id}@${position.join(",")}`;

function readCursor(cursor: string): AttemptCursor {
  const at = typeof cursor === "string" ? cursor.indexOf("@") : -1;
  const key = parseAttemptId(at === -1 ? cursor : cursor.slice(0, at));
  const position =
    at === -1
      ? null
      : cursor
          .slice(at + 1)
          .split(",")
          .map(Number);
  if (key === null || position?.every(Number.isSafeInteger) === false)
    throw new CoordinateError("no_such_attempt", cursor);
  return { ...key, position };
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

/** Says which item of a batch was bad. */
function inItem(error: unknown, index: number, length: number): unknown {
  if (!(error instanceof CoordinateError) || length === 1) return error;
  return new CoordinateError(error.code, `item ${index}: ${error.value}`, { cause: error });
}
