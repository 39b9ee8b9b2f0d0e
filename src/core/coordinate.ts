/**
 * Coordinate: everything that a person or a program may ask, as verbs. Batch in, rows out.
 *
 * The engine implements it over a store; a wire client implements it over a connection. A program does not know
 * which it talks to, and one conformance suite runs over all of them.
 *
 * Glossary
 *   namespace   keeps applications apart; the empty name is the default one
 *   work spec   describes a family of jobs; dozens of them
 *   work unit   one job; millions of them
 *   attempt     one try of a unit by a worker, with its own lease, times and data
 *   worker      a process that asks for attempts
 *   claim       to take an available unit by making an attempt for it
 *   settle      to end an attempt: finish, fail, retry or expire it; to renew is to extend its lease
 *   queue       a durable list of messages, one for each end of a unit that named it
 *   action      a record that many jobs share, by key
 *
 * Errors: a verb that cannot be carried out rejects with a `CoordinateError` and has changed nothing, unless its
 * comment says otherwise. Times are epoch milliseconds, 0 is "none"; durations are milliseconds.
 */
import type { ActionInput, ActionRow } from "./action.ts";
import type { AttemptChange, AttemptChanged, AttemptRow } from "./attempt.ts";
import type { AttemptLinesOf, AttemptLog, LogQuery } from "./attempt-log.ts";
import type { BatchAction, BatchInput, BatchRow } from "./batch.ts";
import type { SharedLimitInput, SharedLimitRow } from "./limits.ts";
import type { Data } from "./data.ts";
import type { FailureRow } from "./failure.ts";
import type { History, HistoryQuery } from "./history.ts";
import type { Lock, LockPath, LockRefusal } from "./lock.ts";
import type { NamespaceRow, NamespaceSettings } from "./namespace.ts";
import type { Page } from "./page.ts";
import type { PartitionRow } from "./partition-row.ts";
import type { QueueMessage, QueueRow } from "./queue.ts";
import type { Explained, ScheduleRequest } from "./scheduler.ts";
import type { WorkSpecMeta, WorkSpecMetaChange, WorkSpecRef, WorkSpecRow } from "./work-spec.ts";
import type {
  AddedWorkUnit,
  ConflictPolicy,
  Tally,
  TallyRow,
  WaitingSinceRow,
  WorkUnitInput,
  WorkUnitQuery,
  WorkUnitRow,
  WorkUnitSelection,
} from "./work-unit.ts";
import type { WorkerChange, WorkerQuery, WorkerRow } from "./worker.ts";

export interface Coordinate {
  // ---- namespaces

  /** In name order. A namespace exists once something was put into it. */
  listNamespaces(): Promise<NamespaceRow[]>;
  /** The settings of a namespace that does not exist are the defaults. */
  getNamespace(ns: string): Promise<NamespaceRow>;
  setNamespace(ns: string, settings: Partial<NamespaceSettings>): Promise<NamespaceRow>;
  /** Deletes all that is in it. Deleting a namespace that does not exist is no error. */
  deleteNamespace(ns: string): Promise<void>;

  // ---- work specs

  /**
   * Creates work specs or replaces their data, all or none. Replacing resets the metadata to what the data
   * derives, unless `keepMeta`. With `name`, refuses data that says another name.
   */
  setWorkSpecs(
    ns: string,
    specs: readonly WorkSpecInput[],
    options?: SetWorkSpecOptions,
  ): Promise<WorkSpecRow[]>;
  /** By name, in the order asked for, null where there is none. */
  getWorkSpecs(ns: string, refs: readonly WorkSpecRef[]): Promise<(WorkSpecRow | null)[]>;
  listWorkSpecs(ns: string, query?: { previous?: string; limit?: number }): Promise<Page<WorkSpecRow>>;
  /** Answers the resulting metadata: `continuous` stays off for a spec that cannot be. */
  setWorkSpecMeta(ns: string, ref: WorkSpecRef, change: WorkSpecMetaChange): Promise<WorkSpecMeta>;
  /** With their units and attempts. Answers per name whether it was there. */
  deleteWorkSpecs(ns: string, refs: readonly WorkSpecRef[]): Promise<boolean[]>;

  // ---- work units

  /**
   * Adds units, all or none. A unit that exists gets the new data and metadata; available, delayed, blocked and
   * pending units go on where they stand, finished and failed ones become available again. `onConflict` says otherwise.
   * A repeated `requestId` for the same work spec within ten minutes answers what the first call answered, and changes nothing.
   */
  addWorkUnits(
    ns: string,
    ref: WorkSpecRef,
    units: readonly WorkUnitInput[],
    options?: AddWorkUnitsOptions,
  ): Promise<AddedWorkUnit[]>;
  /** By name, in the order asked for, null where there is none. */
  getWorkUnits(ns: string, ref: WorkSpecRef, names: readonly string[]): Promise<(WorkUnitRow | null)[]>;
  /** In name order; 1,000 rows a page unless `limit` says otherwise. */
  listWorkUnits(ns: string, ref: WorkSpecRef, query?: WorkUnitQuery): Promise<Page<WorkUnitRow>>;
  /**
   * How many of the selected units there are, by status. A selection of everything, or by statuses alone, is read from the
   * counts; another is counted by looking at what it names, in slices when that is much.
   */
  countWorkUnits(ns: string, ref: WorkSpecRef, selection: WorkUnitSelection): Promise<Tally>;
  /**
   * Waits until all of the named units have ended: finished, failed, or gone. Answers their rows in the order asked for, null
   * where there is none: once that is so, or at the end of `waitMs`, or when the signal aborts, as they stand then. Without
   * `waitMs` it does not wait. A unit that ended and was added again before anybody looked is waited for again. With `any`, one
   * unit that has ended is enough.
   */
  awaitWorkUnits(
    ns: string,
    ref: WorkSpecRef,
    names: readonly string[],
    options?: AwaitOptions,
  ): Promise<(WorkUnitRow | null)[]>;
  /** Sets or adjusts the priority of the selected units; answers how many. Goes in slices when they are many. */
  setWorkUnitPriorities(
    ns: string,
    ref: WorkSpecRef,
    selection: WorkUnitSelection,
    change: PriorityChange,
  ): Promise<number>;
  /** Sets when the selected units may run, of those that wait: `notBefore` 0 is at once. Answers how many. */
  setWorkUnitDelays(
    ns: string,
    ref: WorkSpecRef,
    selection: WorkUnitSelection,
    notBefore: number,
  ): Promise<number>;
  /**
   * Clears the active attempt of the selected units: they become available, their data reverts, the history stays,
   * and their retries are counted anew. Units without an active attempt are not touched. Answers how many were.
   */
  resetWorkUnits(ns: string, ref: WorkSpecRef, selection: WorkUnitSelection): Promise<number>;
  /**
   * Fails the selected units that have not ended, running ones included, with a traceback that says who did it and why. The worker of a
   * running unit has lost it: its task is told, and cannot settle the unit any more. Answers how many were cancelled.
   */
  cancelWorkUnits(
    ns: string,
    ref: WorkSpecRef,
    selection: WorkUnitSelection,
    options?: CancelOptions,
  ): Promise<number>;
  /** Deletes the selected units with their attempts; answers how many. Goes in slices when they are many. */
  deleteWorkUnits(ns: string, ref: WorkSpecRef, selection: WorkUnitSelection): Promise<number>;

  // ---- attempts

  /**
   * Asks for work: attempts of one work spec, or none. With `waitMs`, waits that long for work to come.
   * A repeated `requestId` within ten minutes answers those attempts of the first call that are still active.
   */
  requestAttempts(ns: string, request: AttemptRequest): Promise<AttemptRow[]>;
  /** Makes attempts for given units, wherever they stand; what was their active attempt loses its lease. All or none. */
  makeAttempts(ns: string, requests: readonly AttemptMake[]): Promise<AttemptRow[]>;
  /**
   * Finishes, fails, retries, expires and renews. `error` ends an attempt by the retry policy of its unit or work spec: the unit
   * is tried again after the back-off, or fails. Each change by itself: answers per item, in order.
   */
  settleAttempts(ns: string, changes: readonly AttemptChange[]): Promise<AttemptChanged[]>;
  getAttempts(ns: string, ids: readonly string[]): Promise<(AttemptRow | null)[]>;
  /** All attempts of a unit, in the order they were made. */
  listUnitAttempts(ns: string, ref: WorkSpecRef, unit: string): Promise<AttemptRow[]>;
  /**
   * Keeps lines that tasks wrote: of each attempt the newest, 1,000 lines and 64 KiB at most. The lease stays as it is. Answers per
   * item whether there is such an attempt. A settle or renew can carry lines, too.
   */
  writeAttemptLogs(ns: string, logs: readonly AttemptLinesOf[]): Promise<boolean[]>;
  /** What the tasks of these attempts wrote, in the order asked for; null where there is no such attempt. */
  getAttemptLogs(ns: string, ids: readonly string[], query?: LogQuery): Promise<(AttemptLog | null)[]>;
  /** `active`: those it holds now. `all`: every one it ever made, newest first. `children`: active ones of its children. */
  listWorkerAttempts(ns: string, worker: string, query: WorkerAttemptQuery): Promise<Page<AttemptRow>>;

  // ---- workers

  /** Check-ins and other changes, all or none; workers that are not known are created. Answers the resulting rows. */
  updateWorkers(ns: string, changes: readonly WorkerChange[]): Promise<WorkerRow[]>;
  getWorkers(ns: string, names: readonly string[]): Promise<(WorkerRow | null)[]>;
  listWorkers(ns: string, query?: WorkerQuery): Promise<Page<WorkerRow>>;

  // ---- queues of outcomes

  /**
   * Takes messages out of a queue, in order; at most `max`, or none. With `waitMs`, waits that long for the first one. No
   * message is given to two. A repeated `requestId` for the same queue within ten minutes answers what the first call
   * was given, so that a lost answer loses nothing; a call that was given nothing is not remembered.
   */
  takeMessages(ns: string, queue: string, options?: TakeOptions): Promise<QueueMessage[]>;
  /** How many messages each queue has, in the order asked for; 0 for one that does not exist. */
  countMessages(ns: string, queues: readonly string[]): Promise<number[]>;
  /** The queues that have messages, in name order. */
  listQueues(ns: string, query?: { previous?: string; limit?: number }): Promise<Page<QueueRow>>;
  /** Removes all messages of a queue; answers how many. Goes in slices when they are many. */
  clearQueue(ns: string, queue: string): Promise<number>;

  // ---- actions

  /**
   * Stores records, all or none; answers which were new. The same key with the same data again is no change; with other
   * data it is refused with `name_exists`. Data is the same when its bytes are.
   */
  putActions(ns: string, actions: readonly ActionInput[]): Promise<boolean[]>;
  /** By key, in the order asked for, null where there is none. */
  getActions(ns: string, keys: readonly string[]): Promise<(ActionRow | null)[]>;
  /** In the order of keys. */
  listActions(ns: string, query?: { previous?: string; limit?: number }): Promise<Page<ActionRow>>;
  /** Answers per key whether it was there. */
  deleteActions(ns: string, keys: readonly string[]): Promise<boolean[]>;

  // ---- batches

  /** Makes batches, or changes what is given of them: what follows when they end, and that nothing more comes. */
  setBatches(ns: string, batches: readonly BatchInput[]): Promise<BatchRow[]>;
  /** By name, in the order asked for, null where there is none. */
  getBatches(ns: string, names: readonly string[]): Promise<(BatchRow | null)[]>;
  /** In name order. */
  listBatches(ns: string, query?: { previous?: string; limit?: number }): Promise<Page<BatchRow>>;
  /** Forgets batches; their units stay. Answers per name whether it was there. */
  deleteBatches(ns: string, names: readonly string[]): Promise<boolean[]>;
  /**
   * Cancels the units of a batch that have not ended, or has those that failed done again; answers how many. The units of batches
   * that belong to it are its own. Goes in slices.
   */
  changeBatch(ns: string, batch: string, action: BatchAction): Promise<number>;

  // ---- shared limits

  /** Defines limits that work specs may refer to, or redefines them as a whole; others stay. */
  setLimits(ns: string, limits: readonly SharedLimitInput[]): Promise<SharedLimitRow[]>;
  /** All of a namespace, in name order, with what runs under them. */
  listLimits(ns: string): Promise<SharedLimitRow[]>;
  /** Answers per name whether it was there. */
  deleteLimits(ns: string, names: readonly string[]): Promise<boolean[]>;

  // ---- looking in

  /**
   * The failed units of one work spec, or of all, in groups by what went wrong: work specs in name order, the largest group
   * first. A work spec has at most 200 groups; what does not fit is in one of its own.
   */
  listFailures(ns: string, query?: FailureQuery): Promise<FailureRow[]>;

  /**
   * The partitions of a work spec with units that wait, run or are to be tried again, and what holds each back. In name order; on
   * PostgreSQL, names of more than 48 bytes go by their first 16. A work spec without a rule for partitions has none.
   */
  listPartitions(
    ns: string,
    ref: WorkSpecRef,
    query?: { previous?: string; limit?: number },
  ): Promise<Page<PartitionRow>>;

  /** Exact counts per work spec and status, of one namespace or of all. */
  tally(ns?: string): Promise<TallyRow[]>;
  /** Per work spec with available units, how long they have waited: see `WaitingSinceRow` for what is promised. */
  waitingSince(ns?: string): Promise<WaitingSinceRow[]>;
  /**
   * What happened over time: of a namespace, of the work specs named, or of each. Kept in steps of 10 seconds for two hours, of a
   * minute for a day, and of a quarter of an hour for a month. Counts are those of the daemons that keep records: a time when
   * none ran has no points.
   */
  history(ns: string, query?: HistoryQuery): Promise<History>;
  /** For every work spec, why this request would or would not be given work from it. */
  explain(ns: string, request?: ScheduleRequest): Promise<Explained[]>;

  // ---- locks

  /** All paths or none; answers what was refused, or null. */
  lock(ns: string, request: LockRequest): Promise<LockRefusal | null>;
  /** Each path by itself, in order; answers which were granted. */
  lockSome(ns: string, request: LockRequest): Promise<boolean[]>;
  renewLocks(ns: string, request: LockRequest): Promise<LockRefusal | null>;
  unlock(ns: string, request: Pick<LockRequest, "owner" | "paths">): Promise<LockRefusal | null>;
  /** The owner of exactly each path, or null. */
  readLocks(ns: string, paths: readonly LockPath[]): Promise<(string | null)[]>;
  /** The locks that are held at and below a path, in the order of their labels. */
  listLocks(ns: string, query?: LockQuery): Promise<Page<Lock>>;
  /** Releases everything at and below a path, whoever holds it. */
  clearLocks(ns: string, path: LockPath): Promise<void>;

  /** Gives back what it holds. Who waits for work is answered with none; later calls are refused with `closed`. Idempotent. */
  close(): Promise<void>;
}

export interface WorkSpecInput {
  data: Data;
  /** The name that the data must have; any when absent. */
  name?: string;
}

export interface SetWorkSpecOptions {
  keepMeta?: boolean;
  /** A known key that is newer than the Go and Python clients, and is not of its kind, is taken for the user's own data. */
  lenient?: boolean;
}

export interface RequestOptions {
  /** Names this request, so that repeating it after a lost answer does not carry it out twice. */
  requestId?: string;
}

export interface AddWorkUnitsOptions extends RequestOptions, WaitOptions {
  /** For units that do not say it themselves. */
  onConflict?: ConflictPolicy;
  /** How long to wait for room in a work spec with `max_waiting`; 0 when absent. Then `queue_full`. */
  waitMs?: number;
}

export interface WaitOptions {
  waitMs?: number;
  /** Ends the wait, which is then answered as at its end. */
  signal?: AbortSignal;
}

export interface AwaitOptions extends WaitOptions {
  /** Do not wait for all of them: one that has ended is enough. */
  any?: boolean;
}

export interface CancelOptions {
  /** Who cancels, and why: for people. A daemon with tokens adds the name of the token. At most 1,000 characters each. */
  by?: string;
  why?: string;
}

export interface TakeOptions extends RequestOptions, WaitOptions {
  /** How many at most; 100 when absent, never more than 10,000. */
  max?: number;
}

export interface FailureQuery {
  /** All work specs when absent. */
  workSpec?: string;
}

export type PriorityChange = { set: number } | { adjust: number };

export interface AttemptRequest extends ScheduleRequest, RequestOptions {
  worker: string;
  /** How many at most; 1 when absent. */
  number?: number;
  /** How long the lease is; 15 minutes when absent or 0. */
  lifetimeMs?: number;
  waitMs?: number;
  /** Ends the wait. A wait that was ended answers with no attempts. */
  signal?: AbortSignal;
}

export interface AttemptMake {
  workSpec: string;
  workUnit: string;
  worker: string;
  lifetimeMs?: number;
}

export interface WorkerAttemptQuery {
  which: "active" | "all" | "children";
  previous?: string;
  limit?: number;
}

export interface LockRequest {
  owner: string;
  /** A minute when absent or 0; at most 1,000,000 seconds; below 0 the lock is taken and has already passed. */
  timeoutMs?: number;
  paths: readonly LockPath[];
}

export interface LockQuery {
  /** The root when absent: all locks of the namespace. */
  path?: LockPath;
  /** The `next` of the page before. */
  previous?: string;
  limit?: number;
}
