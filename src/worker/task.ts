/**
 * A task: the code that a worker runs for a work unit.
 *
 * A plain function gets one unit, and what it returns becomes the unit's data. `bulk(fn)` gets all units of a claim in one call and
 * settles each of them itself.
 */
import type { Clock, DataObject } from "../core/index.ts";
import type { Attempt } from "../objects/index.ts";
import type { Logger, TaskLog } from "./log.ts";

export type Task = UnitTask | BulkTask;

// `void` is what a function returns that returns nothing
/* eslint-disable @typescript-eslint/no-invalid-void-type */
export type UnitResult = object | null | undefined | void;
/* eslint-enable @typescript-eslint/no-invalid-void-type */

/**
 * Runs one unit. The object that it returns finishes the unit and becomes its data; nothing leaves the data as it is. When it throws, the
 * unit is tried again as the retry policy says, or fails; `throw retry(ms)`, `fail(reason)` and `snooze(ms)` decide otherwise. A unit that the function
 * settled itself, through `unit.attempt`, is left as it is.
 *
 * Not promised: that a unit runs only once.
 */
export type UnitTask = (unit: Unit, context: UnitContext) => Promise<UnitResult> | UnitResult;

/**
 * Runs all units of a claim: at least one attempt, all of one work spec and one worker, for distinct units, and pending when the
 * function is called. It calls `finish`, `fail`, `retry`, `expire` or `release` on each. What it leaves open is settled by rule: when it throws,
 * pending attempts are settled as for a unit that threw; when it returns, they are reported and left to expire.
 *
 * A settle resolves when it is stored. Settles that are requested together travel together. A settle that is refused rejects with
 * `lost_lease`, `not_pending` or `gone`; the rejection need not be caught.
 */
export type BulkFunction = (attempts: readonly Attempt[], context: BulkContext) => Promise<void> | void;

export interface BulkTask {
  readonly bulk: BulkFunction;
  /** Claims do not shrink below this many units, however long a call takes. */
  readonly atLeast: number;
}

/** A task that gets all units of a claim in one call. A call counts as one against the worker's `concurrency`. */
export function bulk(work: BulkFunction, { atLeast = 100 }: { atLeast?: number } = {}): BulkTask {
  return { bulk: work, atLeast };
}

export const isBulk = (task: Task): task is BulkTask => typeof task !== "function";

/** Whether a value is a task. By its shape: a file of tasks may use another copy of this package. */
export const isTask = (value: unknown): value is Task =>
  typeof value === "function" ||
  (typeof value === "object" && value !== null && "bulk" in value && typeof value.bulk === "function");

/** One unit as its task sees it. */
export class Unit<Data extends object = DataObject, Result extends object = object> {
  readonly attempt: Attempt<Data, Result>;
  /**
   * When the task began, by the worker's clock. `attempt.startTime` is when the unit was claimed, by the coordinator's: a unit may have
   * waited in the worker for a free slot.
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

/** A work spec as a task sees it: its name, and its data with the user's own keys. */
export interface TaskSpec {
  readonly name: string;
  readonly data: DataObject;
}

/** What a task gets besides its units. Read-only: to hand on more, copy it, `{ ...context, database }`. */
export interface TaskContext {
  /**
   * Time to come to an end; `reason` is a `Stop` that says why. Aborted 30 seconds before the first of the pending attempts expires, for leases
   * below a minute when half of the lease has passed; and when the worker stops and its grace time is over. A renew moves the
   * point as long as it has not been reached: a signal that was aborted stays aborted.
   */
  readonly signal: AbortSignal;
  /**
   * The attempts are no longer this task's. Aborted 15 seconds before the first of the pending attempts expires, for leases below a minute when
   * three quarters of the lease have passed: the pending attempts then end in an error with `traceback: "timed out"`. Also aborted, and the
   * pending attempts released, when a worker is told to stop a second time.
   */
  readonly expired: AbortSignal;
  readonly log: Logger;
  readonly workSpec: TaskSpec;
  /** The name of the worker that the attempts belong to: a child of the process's worker. */
  readonly worker: string;
  readonly clock: Clock;
  /**
   * All attempts that are still pending get a lease of this long from now, that of the worker's requests when absent. Rejects with
   * `lost_lease` or another refusal when one of them could not be renewed; the others are.
   */
  readonly renew: (lifetimeMs?: number) => Promise<void>;
}

export interface UnitContext extends TaskContext {
  /** What is written here goes to the worker's log, and is kept with the attempt: `log("page 4")`, `log.warn({ url }, "slow")`. */
  readonly log: TaskLog;
  /**
   * `progress(0.4, "page 4 of 10")` says how far the unit has come, from 0 to 1, and renews its lease. Of reports that follow each other within a
   * second, the last is stored. Rejects with `lost_lease` when the unit was taken away; the rejection need not be caught.
   *
   * `progress({ … })`, with an object, writes data on the unit's attempt for others to see, and leaves its lease as it is.
   */
  readonly progress: (progress: number | object, note?: string) => Promise<void>;
}

export interface BulkContext extends TaskContext {
  /** The same for one of the attempts. */
  readonly progress: (attempt: Attempt, progress: number | object, note?: string) => Promise<void>;
}
