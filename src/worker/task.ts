/**
 * A task: the code that a worker runs for a work unit.
 *
 * A plain function gets one unit, and its return value becomes the unit's data. `bulk(fn)` gets all units of a claim in one call and
 * settles each of them itself.
 */
import type { Clock, DataObject } from "../core/index.ts";
import type { Attempt } from "../objects/index.ts";
import type { Logger, TaskLog } from "./log.ts";

export type Task = UnitTask | BulkTask;

// `void` is the return type of functions that return nothing
/* eslint-disable @typescript-eslint/no-invalid-void-type */
/** An object, encoded data or nothing. Arrays have an iterator and promises a tag: neither is a result. */
export type UnitResult =
  | (object & { readonly [Symbol.iterator]?: never; readonly [Symbol.toStringTag]?: never })
  | Uint8Array
  | null
  | undefined
  | void;
/* eslint-enable @typescript-eslint/no-invalid-void-type */

/**
 * Runs one unit. When the function returns, the unit is finished: a returned object becomes its data, no return value keeps the data.
 * When it throws, the retry policy decides whether the unit is retried or fails; `throw retry(ms)`, `fail(reason)` and `snooze(ms)`
 * override it. When it throws because the worker stops, the unit is given back and this does not count as a try. A unit that the
 * function settled itself, through `unit.attempt`, is not settled again.
 *
 * A unit may run more than once.
 */
export type UnitTask = (unit: Unit, context: UnitContext) => Promise<UnitResult> | UnitResult;

/**
 * Runs all units of a claim: at least one attempt, all of one work spec and one worker, for distinct units, and pending when the
 * function is called. It calls `finish`, `fail`, `retry`, `expire` or `release` on each. Attempts that it leaves pending: when it
 * throws, they are settled as for a unit task that threw; when it returns, they are reported and left to expire.
 *
 * These methods resolve when the settlement is stored. Settlements that are requested together are sent in one call. A refused
 * settlement rejects with `lost_lease`, `not_pending` or `gone`; the rejection need not be caught.
 */
export type BulkFunction = (attempts: readonly Attempt[], context: BulkContext) => Promise<void> | void;

export interface BulkTask {
  readonly bulk: BulkFunction;
  /** Claims do not shrink below this many units, however long a call takes. */
  readonly atLeast: number;
}

/** Makes a task that gets all units of a claim in one call. One call takes one slot of the worker's `concurrency`. */
export function bulk(work: BulkFunction, { atLeast = 100 }: { atLeast?: number } = {}): BulkTask {
  return { bulk: work, atLeast };
}

export const isBulk = (task: Task): task is BulkTask => typeof task !== "function";

/** Whether a value is a task. Checks its shape, because a file of tasks may use another copy of this package. */
export const isTask = (value: unknown): value is Task =>
  typeof value === "function" ||
  (typeof value === "object" && value !== null && "bulk" in value && typeof value.bulk === "function");

/** The unit argument of a task. */
export class Unit<Data extends object = DataObject, Result extends object = object> {
  readonly attempt: Attempt<Data, Result>;
  /**
   * When the task began, by the worker's clock. `attempt.startTime` is when the unit was claimed, by the coordinator's clock; after
   * the claim the unit may have waited for a free slot.
   */
  readonly beganAt: number;

  constructor(attempt: Attempt<Data, Result>, beganAt: number) {
    this.attempt = attempt;
    this.beganAt = beganAt;
  }

  get name(): string {
    return this.attempt.workUnitName;
  }

  /** Decoded when first read. */
  get data(): Data {
    return this.attempt.data;
  }
}

/** The work spec in a task's context: its name and its data, including the user's own keys. */
export interface TaskSpec {
  readonly name: string;
  readonly data: DataObject;
}

/** The context argument of a task. Read-only: to pass on more, copy it, `{ ...context, database }`. */
export interface TaskContext {
  /**
   * Asks the task to end; `reason` is a `Stop` that says why. Aborted 30 seconds before the first of the pending attempts expires, for
   * leases below a minute when half of the lease has passed; when the worker stops and its grace time is over; and whenever `expired`
   * is aborted. A renew moves this time only while it has not been reached: an aborted signal stays aborted.
   */
  readonly signal: AbortSignal;
  /**
   * The task no longer holds its attempts. Aborted 15 seconds before the first of the pending attempts expires, for leases below a
   * minute when three quarters of the lease have passed: the pending attempts then end in an error with `traceback: "timed out"`. Also
   * aborted when the unit is lost or cancelled, and by a second `stop()` of the worker, which expires the pending attempts.
   */
  readonly expired: AbortSignal;
  readonly log: Logger;
  readonly workSpec: TaskSpec;
  /** The name of the worker that holds the attempts: a child of the process's worker. */
  readonly worker: string;
  readonly clock: Clock;
  /**
   * Renews the leases of all pending attempts for this long from now, by default for the worker's `lifetimeMs`. Rejects with
   * `lost_lease` or another refusal when one of them could not be renewed; the others are renewed.
   */
  readonly renew: (lifetimeMs?: number) => Promise<void>;
}

export interface UnitContext extends TaskContext {
  /** Writes to the worker's log and stores the line with the attempt: `log("page 4")`, `log.warn({ url }, "slow")`. */
  readonly log: TaskLog;
  /**
   * `progress(0.4, "page 4 of 10")` reports the progress of the unit, from 0 to 1, and renews its lease. Of several reports within a
   * second, the last is stored. Rejects with `lost_lease` when the unit was lost; the rejection need not be caught.
   *
   * `progress({ … })`, with an object, stores data on the unit's attempt, where other clients can read it. The lease does not change.
   */
  readonly progress: (progress: number | object, note?: string) => Promise<void>;
}

export interface BulkContext extends TaskContext {
  /** Like `progress` of a unit's context, for one of the attempts. */
  readonly progress: (attempt: Attempt, progress: number | object, note?: string) => Promise<void>;
}
