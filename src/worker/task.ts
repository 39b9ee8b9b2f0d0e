/**
 * A task: the code that a worker runs for the attempts of one batch.
 *
 * The task decides what becomes of its attempts: it calls `finish`, `fail`, `retry`, `expire` or `release` on each. What it leaves
 * open is settled by rule: when it throws, the attempts that are still pending are failed with the error as their
 * `traceback` (`throw retry(ms)` gives them back instead); when it returns, they are reported and left to expire.
 */
import type { Clock, DataObject } from "../core/index.ts";
import type { Attempt } from "../objects/index.ts";
import type { Logger } from "./log.ts";

/**
 * Promised: at least one attempt; all of one work spec and of one worker, for distinct units, and pending when the task begins. A
 * settle resolves when it is stored; those that are asked for together travel together, so a task need not batch
 * them itself. A settle that was refused rejects with `lost_lease`, `not_pending` or `gone`; nobody has to catch it.
 *
 * Not promised: that the task is the only one of its kind that runs, or that a unit is run once only.
 */
export type Task = (attempts: readonly Attempt[], context: TaskContext) => Promise<void> | void;

/** A work spec as a task sees it: its name, and its data with the user's own keys. */
export interface TaskSpec {
  readonly name: string;
  readonly data: DataObject;
}

export interface TaskContext {
  /**
   * Time to come to an end. Aborted 30 seconds before the first of the pending attempts expires, for leases below a
   * minute when half of the lease has passed; and when the worker stops and its grace time is over. A renew moves the
   * point, as long as it has not been reached: a signal that was aborted stays so.
   */
  readonly signal: AbortSignal;
  /**
   * It is over. Aborted 15 seconds before the first of the pending attempts expires, for leases below a minute when
   * three quarters of the lease have passed: the pending attempts are then failed with `traceback: "timed out"`. Also aborted, and the
   * pending attempts given back, when a worker is told to stop a second time. Nobody waits for what the task does then.
   */
  readonly expired: AbortSignal;
  readonly log: Logger;
  readonly workSpec: TaskSpec;
  /** The name of the worker that the attempts belong to: a child of the process's worker. */
  readonly worker: string;
  readonly clock: Clock;
  /** Writes data on a pending attempt for others to see, and leaves its lease as it is. Rejects as a settle does. */
  readonly progress: (attempt: Attempt, data: object) => Promise<void>;
  /**
   * All attempts that are still pending get a lease of this long from now, that of the worker's requests when absent. Rejects with
   * `lost_lease` or another refusal when one of them could not be renewed; the others are.
   */
  readonly renew: (lifetimeMs?: number) => Promise<void>;
}
