/**
 * The Store: the operations that the engine needs from a database, each in one transaction.
 *
 * A store has no policy, defaults, clock or randomness: `now` is an argument, and the pure functions of core (`judge`,
 * `dependencyState`, `readOutputs`, `mayGenerate`) decide each case inside a transaction. Every method is atomic: all of it
 * happens, or it throws and none of it has. What was answered is as durable as the store promises to be.
 *
 * Time takes effect by rule. Wherever `now` is given, a pending attempt whose expiration is at or before it is expired and its unit
 * waits again, a delayed unit whose time has come is available, and a schedule has made its due units. A store may update such rows
 * lazily, in any method, as long as callers cannot see the difference.
 */
import type { ActionInput, ActionRow } from "./action.ts";
import type { AttemptAction, AttemptChanged, AttemptProgress, AttemptRow, GivenReason } from "./attempt.ts";
import type { LogWrite, StoredLog } from "./attempt-log.ts";
import type { WorkerAttemptQuery } from "./coordinate.ts";
import type { BatchInput, BatchRow } from "./batch.ts";
import type { SharedLimit } from "./limits.ts";
import type { Data } from "./data.ts";
import type { DependencyKind } from "./dependency.ts";
import type { FailureRow } from "./failure.ts";
import type { LockDecision, LockPath, LockView } from "./lock.ts";
import type { NamespaceRow, NamespaceSettings } from "./namespace.ts";
import type { LaneRow } from "./partition-row.ts";
import type { QueueMessage, QueueRow } from "./queue.ts";
import type { UnitRetry } from "./retry.ts";
import type { Candidate } from "./scheduler.ts";
import type { UnitTiming } from "./timing.ts";
import type { WorkSpecMeta, WorkSpecRef, WorkSpecRow } from "./work-spec.ts";
import type {
  AddedWorkUnit,
  ConflictPolicy,
  Tally,
  TallyRow,
  WaitingSinceRow,
  WorkUnitQuery,
  WorkUnitRow,
} from "./work-unit.ts";
import type { WorkerChange, WorkerQuery, WorkerRow } from "./worker.ts";

/**
 * Durable lists of outcomes: see `queue.ts`. All methods see the messages of units that end by themselves until `now`, because of
 * a deadline or a failed dependency.
 */
export interface QueueStore {
  /** Takes the first messages away; a repeated request id gets the same messages again. */
  takeMessages(
    ns: string,
    queue: string,
    max: number,
    requestId: string | null,
    now: number,
  ): Promise<QueueMessage[]>;
  countMessages(ns: string, queues: readonly string[], now: number): Promise<number[]>;
  /** Queues with messages, in name order, after `previous`. */
  listQueues(ns: string, previous: string | null, limit: number, now: number): Promise<QueueRow[]>;
  /** Removes at most `limit` messages, the first ones. */
  clearQueue(ns: string, queue: string, limit: number, now: number): Promise<Slice>;
}

/** Records that jobs share: see `action.ts`. */
export interface ActionStore {
  /** All or none; throws `otherAction` for a key that has other data. Answers which were new. */
  putActions(ns: string, actions: readonly ActionInput[], now: number): Promise<boolean[]>;
  getActions(ns: string, keys: readonly string[]): Promise<(ActionRow | null)[]>;
  /** In the order of keys, after `previous`. */
  listActions(ns: string, previous: string | null, limit: number): Promise<ActionRow[]>;
  deleteActions(ns: string, keys: readonly string[]): Promise<boolean[]>;
}

/** The lines that tasks wrote: see `attempt-log.ts`. They are deleted with the unit. */
export interface LogStore {
  /** Appends lines (`appendLog`); answers which of the attempts exist. Lines of other attempts are dropped. */
  writeLogs(ns: string, writes: readonly LogWrite[]): Promise<boolean[]>;
  /** Undefined where there is no such attempt, null where it has written nothing. */
  readLogs(ns: string, keys: readonly AttemptKey[]): Promise<(StoredLog | null | undefined)[]>;
}

/** Locks on paths: see `lock.ts`. */
export interface LockStore {
  /** Shows `decide` the live locks at, above and below the paths, and writes what it decides. */
  locks<Answer>(
    ns: string,
    paths: readonly LockPath[],
    decide: (view: LockView) => LockDecision<Answer>,
    now: number,
  ): Promise<Answer>;
}

/** Periodic work of a daemon, a bounded piece per call. */
export interface HousekeepingStore {
  /** Removes the rows of at most about `limit` units of deleted specs and namespaces. */
  purge(limit: number, now: number): Promise<Slice>;
  /**
   * Applies elapsed time, fails units that were tried too often, removes ended units by their spec's retention, workers inactive
   * since before `workersBefore` that hold no attempt, expired locks, old request ids, and the messages that were kept for them.
   */
  sweep(limits: SweepLimits, now: number): Promise<Swept>;
}

export interface Store extends QueueStore, ActionStore, LogStore, LockStore, HousekeepingStore {
  listNamespaces(): Promise<NamespaceRow[]>;
  /** Null when it does not exist. */
  getNamespace(ns: string): Promise<NamespaceRow | null>;
  /** Creates it when it does not exist. */
  putNamespace(ns: string, change: (old: NamespaceSettings) => NamespaceSettings): Promise<NamespaceRow>;
  /** Deletes it and everything in it for all callers at once; `purge` removes the rows later. False when it did not exist. */
  deleteNamespace(ns: string): Promise<boolean>;

  /** Writes specs and their metadata. `data` null keeps the data, and throws if the spec does not exist. */
  putWorkSpecs(ns: string, puts: readonly WorkSpecPut[]): Promise<WorkSpecRow[]>;
  getWorkSpecs(ns: string, refs: readonly WorkSpecRef[]): Promise<(WorkSpecRow | null)[]>;
  /** In name order, after `previous`. */
  listWorkSpecs(ns: string, previous: string | null, limit: number): Promise<WorkSpecRow[]>;
  /** Deletes specs for all callers at once; `purge` removes their rows later. Answers per name whether it existed. */
  deleteWorkSpecs(ns: string, refs: readonly WorkSpecRef[], now: number): Promise<boolean[]>;
  /**
   * What the scheduler needs, in one snapshot; `repeated` are the attempts that this request id got before. Unless `fresh`, a store
   * may answer from an earlier snapshot: it then sets `look`, which the engine passes to `claim`. A store may also leave it to the
   * claim to find that all partitions of a work spec are held.
   */
  candidates(ns: string, ask: CandidatesRequest, now: number): Promise<Candidates>;
  /** Without counting rows. In order of namespace and work spec. */
  tally(ns: string | null, now: number): Promise<SpecTally[]>;
  /**
   * For specs with available units, in order of namespace and work spec. Reads `waitingSample` units from each end of the claim
   * order, or some units where these are handed out by partition.
   */
  waitingSince(ns: string | null, now: number): Promise<WaitingSinceRow[]>;

  /**
   * The partitions that have available or begun units; none for a work spec whose units are not handed out by partition. In name
   * order, after `previous`; a store may order long names with a common prefix differently. The cost depends on `limit`, not on the
   * number of units.
   */
  listLanes(
    ns: string,
    ref: WorkSpecRef,
    previous: string | null,
    limit: number,
    now: number,
  ): Promise<LaneRow[]>;

  /** Failure groups of one work spec or of all, in no order. First groups the failed units that are not grouped yet. */
  listFailures(ns: string, workSpec: string | null, now: number): Promise<FailureRow[]>;

  putWorkUnits(
    ns: string,
    ref: WorkSpecRef,
    puts: readonly WorkUnitPut[],
    requestId: string | null,
    now: number,
  ): Promise<AddedWorkUnit[]>;
  /**
   * Units by name, in the order asked for, null where there is none. A store that can calls `seen` with the rows inside the
   * transaction that reads them, so that watches started there miss nothing. If the transaction is retried, `seen` is called again;
   * the last call counts.
   */
  getWorkUnits(
    ns: string,
    ref: WorkSpecRef,
    names: readonly string[],
    now: number,
    seen?: (rows: readonly (WorkUnitRow | null)[]) => void,
  ): Promise<(WorkUnitRow | null)[]>;
  /** In name order. */
  listWorkUnits(
    ns: string,
    ref: WorkSpecRef,
    where: WorkUnitWhere,
    limit: number,
    now: number,
  ): Promise<WorkUnitRow[]>;
  /** Counts the first matching units by status, looking at no more than about `limit` units. */
  countWorkUnits(
    ns: string,
    ref: WorkSpecRef,
    where: WorkUnitWhere,
    limit: number,
    now: number,
  ): Promise<CountSlice>;
  /** Changes the first matching units, looking at no more than about `limit` units. */
  updateWorkUnits(ns: string, ref: WorkSpecRef, update: WorkUnitUpdate, now: number): Promise<UnitSlice>;
  deleteWorkUnits(
    ns: string,
    ref: WorkSpecRef,
    where: WorkUnitWhere,
    limit: number,
    now: number,
  ): Promise<UnitSlice>;

  /**
   * Makes attempts for the best available units of one work spec: highest priority first, then name order. Creates the worker when
   * it is unknown. Checks again, in the same transaction, what may have changed since the engine looked: paused, `max_running`, and
   * for a generated unit `mayGenerate`; then advances `nextContinuous`. A unit that was tried `maxRetries` times (since it was
   * added or reset), or up to its own limit, is failed instead and takes up one of the `limit` places. `more` is set when only such
   * units were found and others are left.
   */
  claim(ns: string, claim: Claim, now: number): Promise<{ attempts: AttemptRow[]; more: boolean }>;
  /** All or none: throws `no_such_work_spec` or `no_such_work_unit`. */
  makeAttempts(ns: string, makes: readonly Make[], now: number): Promise<AttemptRow[]>;
  /**
   * Applies each change by itself, guarded by `judge`. A finish, its outputs and the units it unblocks are one transaction; so are
   * the end of any unit, here or in another method, and its messages.
   */
  settle(ns: string, changes: readonly Settle[], now: number): Promise<AttemptChanged[]>;
  getAttempts(ns: string, ids: readonly AttemptKey[], now: number): Promise<(AttemptRow | null)[]>;
  /** In the order they were made. Throws when there is no such spec or unit. */
  listUnitAttempts(ns: string, ref: WorkSpecRef, unit: string, now: number): Promise<AttemptRow[]>;
  /** `active` and `children` by unit id, `all` newest first; after `previous`. */
  listWorkerAttempts(
    ns: string,
    worker: string,
    page: WorkerAttemptPage,
    now: number,
  ): Promise<ListedAttempt[]>;

  /** Creates unknown workers. Throws `worker_cycle`. */
  putWorkers(ns: string, changes: readonly WorkerChange[], now: number): Promise<WorkerRow[]>;
  getWorkers(ns: string, names: readonly string[], now: number): Promise<(WorkerRow | null)[]>;
  /** In name order, after `previous`. */
  listWorkers(ns: string, query: WorkerQuery, limit: number, now: number): Promise<WorkerRow[]>;

  /** Creates missing batches. A batch that ends now makes its unit in the same transaction. */
  putBatches(ns: string, inputs: readonly BatchInput[], now: number): Promise<BatchRow[]>;
  getBatches(ns: string, names: readonly string[]): Promise<(BatchRow | null)[]>;
  /** In name order, after `previous`. */
  listBatches(ns: string, previous: string | null, limit: number): Promise<BatchRow[]>;
  /** A parent that ends now makes its unit in the same transaction. */
  deleteBatches(ns: string, names: readonly string[], now: number): Promise<boolean[]>;
  /** The names of the batches directly inside these. */
  innerBatches(ns: string, parents: readonly string[]): Promise<string[]>;

  /** Creates or replaces limits; an existing limit keeps its bucket. */
  putLimits(ns: string, limits: readonly SharedLimit[]): Promise<void>;
  listLimits(ns: string): Promise<SharedLimit[]>;
  deleteLimits(ns: string, names: readonly string[]): Promise<boolean[]>;

  close(): Promise<void>;
}

/**
 * An optional ability: the store tells waiting callers when to look again, so that of thousands only those look that may find
 * something. It affects latency only: over a store without it, every waiting caller polls each second.
 */
export interface Watchable {
  /** Calls back after a change that may make work available in a namespace. Returns a function that stops it. */
  watchWork(ns: string, wake: () => void): () => void;
  /** Calls back, once or more, for each of these units that has ended or was deleted. Returns a function that stops it. */
  watchEnds(ns: string, units: readonly number[], wake: (unit: number) => void): () => void;
  /** Calls back when messages came into a queue. Returns a function that stops it. */
  watchQueue(ns: string, queue: string, wake: () => void): () => void;
}

export const isWatchable = (store: object): store is Watchable =>
  "watchWork" in store && typeof store.watchWork === "function";

const never = (): (() => void) => () => undefined;

/** The store's watches; over a store without them, watches that never call back. */
export const watchesOf = (store: object): Watchable =>
  isWatchable(store) ? store : { watchWork: never, watchEnds: never, watchQueue: never };

export interface Slice {
  deleted: number;
  done: boolean;
}

export interface CandidatesRequest {
  requestId: string | null;
  fresh: boolean;
  /** Whether top priorities are needed under every policy; otherwise a store may leave out those that its policy does not use. */
  topPriorities?: boolean;
}

/** The counts of a work spec, with its id. */
export interface SpecTally extends TallyRow {
  id: number;
}

export interface Candidates {
  settings: NamespaceSettings;
  candidates: Candidate[];
  repeated: AttemptRow[] | null;
  /** The shared limits; absent where no work spec refers to any. */
  limits?: readonly SharedLimit[];
  /** The earlier snapshot that this comes from. It is good for a claim, but not for the answer that there is no work. */
  look?: number;
}

/** `next`: continue after this name; null when all were looked at. */
export interface UnitSlice {
  count: number;
  next: string | null;
}

export interface CountSlice {
  counts: Tally;
  next: string | null;
}

export interface WorkSpecPut {
  ref: WorkSpecRef;
  data: Data | null;
  /** Returns the metadata to write, given the current metadata. */
  meta: (old: WorkSpecMeta | null) => WorkSpecMeta;
}

export interface WorkUnitPut {
  name: string;
  data: Data | null;
  priority: number;
  notBefore: number;
  /** Null keeps the dependencies of an existing unit. */
  dependencies: readonly { workSpec: string; workUnit: string; kind: DependencyKind }[] | null;
  /** Never empty: absent is none, also for an existing unit that has some. */
  queues?: readonly string[];
  labels?: readonly string[];
  /** Never empty: absent is none. */
  partition?: string;
  /** The unit's own retry settings; absent is none, also for an existing unit that has some. */
  retry?: UnitRetry;
  /** The unit's timing; absent is none, also for an existing unit that has some. */
  timing?: UnitTiming;
  /** The attempt whose output the unit is. */
  origin?: string;
  /** Absent is `update`. */
  onConflict?: ConflictPolicy;
  throttleMs?: number;
}

/** As a query, checked. Absent is no condition; an empty list matches nothing. With `error`, `statuses` is `["failed"]`, or empty. */
export type WorkUnitWhere = Omit<WorkUnitQuery, "limit">;

export type WorkUnitChange =
  | { kind: "set-priority"; priority: number }
  | { kind: "adjust-priority"; by: number }
  | { kind: "set-delay"; notBefore: number }
  | { kind: "reset" }
  | { kind: "cancel"; traceback: string };

export interface WorkUnitUpdate {
  where: WorkUnitWhere;
  change: WorkUnitChange;
  limit: number;
}

export interface Claim {
  /** The candidate that was chosen. */
  workSpec: { name: string; id: number };
  worker: string;
  limit: number;
  /** The lease counts from the claim, however long the request waited for it. */
  lifetimeMs: number;
  /** The try limit of units without their own; 0 is unlimited. */
  maxRetries: number;
  requestId: string | null;
  /** The earlier snapshot that the choice was made from; when it no longer leads to the same choice, nothing is claimed. */
  look?: number;
}

export interface Make {
  workSpec: string;
  workUnit: string;
  worker: string;
  lifetimeMs: number;
}

export interface AttemptKey {
  unitId: number;
  number: number;
}

export const compareKeys = (a: AttemptKey, b: AttemptKey): number =>
  a.unitId - b.unitId || a.number - b.number;

/**
 * A place in a list of attempts. `position` is the place in the store's log of what a worker claimed: the row itself may be deleted
 * by then.
 */
export interface AttemptCursor extends AttemptKey {
  position: readonly number[] | null;
}

export interface WorkerAttemptPage {
  which: WorkerAttemptQuery["which"];
  previous: AttemptCursor | null;
  limit: number;
}

export interface ListedAttempt {
  row: AttemptRow;
  position: AttemptCursor["position"];
}

export interface Settle extends AttemptKey {
  action: AttemptAction;
  data: Data | null;
  /** `retry`: when the unit may run again. `renew`: when the lease ends. */
  time: number;
  /** `expire` of a pending attempt that the worker never began, and `retry`: it is not counted as a try. */
  untried: boolean;
  /** `error`: what went wrong. */
  error?: string;
  /** `fail` and `error`: absent is `error`. */
  reason?: GivenReason;
  /** `error`: a draw between 0 and 1, for the wait until the next try. */
  random?: number;
  /** `renew`: how far the attempt has come; null keeps the previous progress. */
  progress: AttemptProgress | null;
  recordTaken: boolean;
}

export interface SweepLimits {
  /** At most about this many units in one call. */
  units: number;
  workersBefore: number;
  requestsBefore: number;
}

export interface Swept {
  expired: number;
  /** Units whose delay, deadline or expiry had passed. */
  due: number;
  exhausted: number;
  retired: number;
  /** Units that schedules made. */
  generated: number;
  workers: number;
  /** Units that the store counts as tried too often and the rules do not: a defect. They are skipped. */
  stuck: number;
  /** There is more to do now. */
  more: boolean;
}

/** How many units a sweep has changed, without those that schedules made. */
export const unitsSwept = ({ expired, due, exhausted, retired }: Swept): number =>
  expired + due + exhausted + retired;

export const nothingSwept = (): Swept => ({
  expired: 0,
  due: 0,
  exhausted: 0,
  retired: 0,
  generated: 0,
  workers: 0,
  stuck: 0,
  more: false,
});
