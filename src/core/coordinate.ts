/**
 * Coordinate: every operation that a person or a program may request, as verbs. They take batches and return rows.
 *
 * The engine implements it over a store; a wire client implements it over a connection. Programs work with either, and
 * one conformance suite tests all of them.
 *
 * Glossary
 *   namespace   keeps applications apart; the empty name is the default one
 *   work spec   describes a family of jobs; dozens of them
 *   work unit   one job; millions of them
 *   attempt     one try of a unit by a worker, with its own lease, times and data
 *   worker      a process that asks for attempts
 *   claim       to take an available unit by making an attempt for it
 *   settle      to end an attempt: finish, fail, retry or expire it; to renew is to extend its lease
 *   queue       a durable list of messages: each unit that names the queue appends one when it ends
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
import type { Page, PageQuery } from "./page.ts";
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
  /** Deletes everything in the namespace. Deleting a namespace that does not exist is no error. */
  deleteNamespace(ns: string): Promise<void>;

  // ---- work specs

  /**
   * Creates work specs or replaces their data, all or none. Replacing resets the metadata to the values derived from
   * the data, unless `keepMeta` is set. With `name`, refuses data with another name.
   */
  setWorkSpecs(
    ns: string,
    specs: readonly WorkSpecInput[],
    options?: SetWorkSpecOptions,
  ): Promise<WorkSpecRow[]>;
  /** By name, in the order asked for, null where there is none. */
  getWorkSpecs(ns: string, refs: readonly WorkSpecRef[]): Promise<(WorkSpecRow | null)[]>;
  listWorkSpecs(ns: string, query?: PageQuery): Promise<Page<WorkSpecRow>>;
  /** Returns the resulting metadata: `continuous` stays off for a work spec that cannot be continuous. */
  setWorkSpecMeta(ns: string, ref: WorkSpecRef, change: WorkSpecMetaChange): Promise<WorkSpecMeta>;
  /** Deletes work specs with their units and attempts. Returns for each whether it existed. */
  deleteWorkSpecs(ns: string, refs: readonly WorkSpecRef[]): Promise<boolean[]>;

  // ---- work units

  /**
   * Adds units, all or none. An existing unit gets the new data and metadata; if it waits or is pending it goes on, if it
   * has finished or failed it becomes available again. `onConflict` changes this. A repeated `requestId` for the same work
   * spec within ten minutes returns the answer of the first call and changes nothing.
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
   * Counts the selected units by status. A selection of everything, or by statuses alone, reads stored counts; any other
   * selection reads the units that it names, in slices if they are many.
   */
  countWorkUnits(ns: string, ref: WorkSpecRef, selection: WorkUnitSelection): Promise<Tally>;
  /**
   * Waits until all of the named units have ended (finished, failed or deleted), `waitMs` has passed, or the signal aborts. Then
   * returns their current rows in the order of `names`, null where there is none. Without `waitMs` it does not wait. A unit that
   * ended and was added again before the wait noticed is waited for again. With `any`, one ended unit is enough.
   */
  awaitWorkUnits(
    ns: string,
    ref: WorkSpecRef,
    names: readonly string[],
    options?: AwaitOptions,
  ): Promise<(WorkUnitRow | null)[]>;
  /** Sets or adjusts the priority of the selected units, in slices if they are many; returns how many. */
  setWorkUnitPriorities(
    ns: string,
    ref: WorkSpecRef,
    selection: WorkUnitSelection,
    change: PriorityChange,
  ): Promise<number>;
  /** Sets when those of the selected units that wait may run: `notBefore` 0 is at once. Returns how many. */
  setWorkUnitDelays(
    ns: string,
    ref: WorkSpecRef,
    selection: WorkUnitSelection,
    notBefore: number,
  ): Promise<number>;
  /**
   * Clears the active attempt of the selected units: they become available with the data they were added with, without the delay
   * that a retry or a caller gave them, keep their history, and their tries are counted anew. Units without an active attempt do
   * not change. Returns how many were reset.
   */
  resetWorkUnits(ns: string, ref: WorkSpecRef, selection: WorkUnitSelection): Promise<number>;
  /**
   * Fails the selected units that have not ended, running ones included, with a traceback that says who cancelled them and why. The
   * worker of a running unit loses it: its task is notified, and can no longer settle the unit. Returns how many were cancelled.
   */
  cancelWorkUnits(
    ns: string,
    ref: WorkSpecRef,
    selection: WorkUnitSelection,
    options?: CancelOptions,
  ): Promise<number>;
  /** Deletes the selected units with their attempts, in slices if they are many; returns how many. */
  deleteWorkUnits(ns: string, ref: WorkSpecRef, selection: WorkUnitSelection): Promise<number>;

  // ---- attempts

  /**
   * Claims work: returns attempts of one work spec, or none. With `waitMs`, waits up to that long for work.
   * A repeated `requestId` within ten minutes returns those attempts of the first call that are still active.
   */
  requestAttempts(ns: string, request: AttemptRequest): Promise<AttemptRow[]>;
  /** Makes attempts for the given units, whatever their status; their active attempts lose their leases. All or none. */
  makeAttempts(ns: string, requests: readonly AttemptMake[]): Promise<AttemptRow[]>;
  /**
   * Finishes, fails, retries, expires and renews attempts. `error` ends an attempt by the retry policy of its unit or work spec:
   * the unit is tried again after the backoff, or fails. Changes are independent; returns one result per change, in order.
   */
  settleAttempts(ns: string, changes: readonly AttemptChange[]): Promise<AttemptChanged[]>;
  getAttempts(ns: string, ids: readonly string[]): Promise<(AttemptRow | null)[]>;
  /** All attempts of a unit, in the order they were made. */
  listUnitAttempts(ns: string, ref: WorkSpecRef, unit: string): Promise<AttemptRow[]>;
  /**
   * Stores log lines of tasks: the newest of each attempt, at most 1,000 lines and 64 KiB. Does not renew the lease. Returns for each
   * item whether the attempt exists. A settle or renew can carry lines, too.
   */
  writeAttemptLogs(ns: string, logs: readonly AttemptLinesOf[]): Promise<boolean[]>;
  /** The log lines of these attempts, in the order of `ids`; null where there is no such attempt. */
  getAttemptLogs(ns: string, ids: readonly string[], query?: LogQuery): Promise<(AttemptLog | null)[]>;
  /** `active`: the attempts it holds now. `all`: all it ever made, newest first. `children`: those that its children hold now. */
  listWorkerAttempts(ns: string, worker: string, query: WorkerAttemptQuery): Promise<Page<AttemptRow>>;

  // ---- workers

  /** Applies check-ins and other changes, all or none; creates unknown workers. Returns the resulting rows. */
  updateWorkers(ns: string, changes: readonly WorkerChange[]): Promise<WorkerRow[]>;
  getWorkers(ns: string, names: readonly string[]): Promise<(WorkerRow | null)[]>;
  listWorkers(ns: string, query?: WorkerQuery): Promise<Page<WorkerRow>>;

  // ---- queues of outcomes

  /**
   * Removes up to `max` messages from a queue and returns them in order. With `waitMs`, waits up to that long for the first
   * one. Only one caller gets each message. A repeated `requestId` for the same queue within ten minutes returns the messages
   * of the first call, so that a lost answer loses nothing; a call that got no messages is not remembered.
   */
  takeMessages(ns: string, queue: string, options?: TakeOptions): Promise<QueueMessage[]>;
  /** How many messages each queue has, in the order asked for; 0 for one that does not exist. */
  countMessages(ns: string, queues: readonly string[]): Promise<number[]>;
  /** The queues that have messages, in name order. */
  listQueues(ns: string, query?: PageQuery): Promise<Page<QueueRow>>;
  /** Removes all messages of a queue, in slices if they are many; returns how many. */
  clearQueue(ns: string, queue: string): Promise<number>;

  // ---- actions

  /**
   * Stores records, all or none; returns which were new. Storing a key again with the same data changes nothing; with other
   * data it is refused with `name_exists`. Data is compared byte by byte.
   */
  putActions(ns: string, actions: readonly ActionInput[]): Promise<boolean[]>;
  /** By key, in the order asked for, null where there is none. */
  getActions(ns: string, keys: readonly string[]): Promise<(ActionRow | null)[]>;
  /** In the order of keys. */
  listActions(ns: string, query?: PageQuery): Promise<Page<ActionRow>>;
  /** Returns for each key whether it existed. */
  deleteActions(ns: string, keys: readonly string[]): Promise<boolean[]>;

  // ---- batches

  /** Creates batches, or updates the given fields of existing ones; see `BatchInput`. A cycle of parents is refused. */
  setBatches(ns: string, batches: readonly BatchInput[]): Promise<BatchRow[]>;
  /** By name, in the order asked for, null where there is none. */
  getBatches(ns: string, names: readonly string[]): Promise<(BatchRow | null)[]>;
  /** In name order. */
  listBatches(ns: string, query?: PageQuery): Promise<Page<BatchRow>>;
  /**
   * Deletes batches; their units and child batches stay, and a parent counts them like deleted units. Returns for each name
   * whether it existed.
   */
  deleteBatches(ns: string, names: readonly string[]): Promise<boolean[]>;
  /**
   * `cancel` cancels the units of a batch that have not ended; `retry` resets those that failed. Includes the units of child
   * batches. Works in slices; returns how many units changed.
   */
  changeBatch(ns: string, batch: string, action: BatchAction): Promise<number>;

  // ---- shared limits

  /** Creates limits that work specs may refer to, or replaces them as a whole; other limits stay. */
  setLimits(ns: string, limits: readonly SharedLimitInput[]): Promise<SharedLimitRow[]>;
  /** All limits of a namespace, in name order, with how many units run under them. */
  listLimits(ns: string): Promise<SharedLimitRow[]>;
  /** Returns for each name whether it existed. */
  deleteLimits(ns: string, names: readonly string[]): Promise<boolean[]>;

  // ---- inspecting

  /**
   * The failed units of one work spec, or of all, grouped by error: work specs in name order, the largest group first. A work
   * spec has at most 200 groups; further errors share one more group.
   */
  listFailures(ns: string, query?: FailureQuery): Promise<FailureRow[]>;

  /**
   * The partitions of a work spec with units that wait, run or will be tried again, and what holds each back. In name order; PostgreSQL
   * orders names of more than 48 bytes by their first 16 bytes. A work spec without a rule for partitions has none.
   */
  listPartitions(ns: string, ref: WorkSpecRef, query?: PageQuery): Promise<Page<PartitionRow>>;

  /** Exact counts per work spec and status, of one namespace or of all. */
  tally(ns?: string): Promise<TallyRow[]>;
  /** Per work spec with available units, how long they have waited: see `WaitingSinceRow` for what is promised. */
  waitingSince(ns?: string): Promise<WaitingSinceRow[]>;
  /**
   * Statistics over time, of a namespace, of the named work specs, or of every work spec. Kept in steps of 10 seconds for two hours,
   * of a minute for a day, and of a quarter of an hour for a month. Only daemons that keep records are counted: a time when none
   * ran has no points.
   */
  history(ns: string, query?: HistoryQuery): Promise<History>;
  /** Says for every work spec why this request would or would not get work from it. */
  explain(ns: string, request?: ScheduleRequest): Promise<Explained[]>;

  // ---- locks

  /** Locks all paths or none; returns the refusal, or null when all were locked. */
  lock(ns: string, request: LockRequest): Promise<LockRefusal | null>;
  /** Locks each path on its own, in order; returns which were granted. */
  lockSome(ns: string, request: LockRequest): Promise<boolean[]>;
  renewLocks(ns: string, request: LockRequest): Promise<LockRefusal | null>;
  unlock(ns: string, request: Pick<LockRequest, "owner" | "paths">): Promise<LockRefusal | null>;
  /** The owner of each path, not counting locks above or below it; null when there is none. */
  readLocks(ns: string, paths: readonly LockPath[]): Promise<(string | null)[]>;
  /** The locks that are held at and below a path, in the order of their labels. */
  listLocks(ns: string, query?: LockQuery): Promise<Page<Lock>>;
  /** Releases everything at and below a path, whoever holds it. */
  clearLocks(ns: string, path: LockPath): Promise<void>;

  /** Releases its resources. Callers that wait for work get none; later calls are refused with `closed`. Idempotent. */
  close(): Promise<void>;
}

export interface WorkSpecInput {
  data: Data;
  /** The name that the data must have; any when absent. */
  name?: string;
}

export interface SetWorkSpecOptions {
  keepMeta?: boolean;
  /** Takes a known key of the wrong type for the user's own data, if the key is newer than the Go and Python clients. */
  lenient?: boolean;
}

export interface RequestOptions {
  /** Names this request, so that repeating it after a lost answer does not carry it out twice. */
  requestId?: string;
}

export interface AddWorkUnitsOptions extends RequestOptions, WaitOptions {
  /** For units that do not set their own. */
  onConflict?: ConflictPolicy;
  /**
   * How long to wait for room in a work spec with `max_waiting`; 0 when absent. Then `queue_full`. More new units than may ever
   * wait are refused at once, with `too_large`.
   */
  waitMs?: number;
}

export interface WaitOptions {
  waitMs?: number;
  /** Ends the wait early: the call returns as if `waitMs` had passed. */
  signal?: AbortSignal;
}

export interface AwaitOptions extends WaitOptions {
  /** Do not wait for all units: one that has ended is enough. */
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
  /** Ends the wait early: the call returns no attempts. */
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
  /** A minute when absent or 0; at most 1,000,000 seconds; below 0 the lock is granted but has already expired. */
  timeoutMs?: number;
  paths: readonly LockPath[];
}

export interface LockQuery {
  /** The root when absent: all locks of the namespace. */
  path?: LockPath;
  /** The `next` of the previous page. */
  previous?: string;
  limit?: number;
}
