/** One call of a task: a plain function with one unit, or a bulk task with all units of its claim. */
import type { Attempt } from "../objects/index.ts";
import type { Claim } from "./claim.ts";
import { bulkContext, unitContext } from "./context.ts";
import { attemptLog, type TaskLog } from "./log.ts";
import { settleEach, settleReturned, settleThrown } from "./outcome.ts";
import { endedByStop, type Stop } from "./stops.ts";
import { readable } from "./traceback.ts";
import { isBulk, Unit, type BulkFunction, type Task, type UnitTask } from "./task.ts";

export class Run {
  readonly claim: Claim;
  readonly attempts: readonly Attempt[];
  readonly #task: Task;
  /** Start time by the worker's clock; 0 until the run starts. */
  beganAt = 0;
  /** The error that the task threw, for the events of its units. */
  thrown: unknown = undefined;
  /** Number of settlements of its attempts that are not answered yet. */
  #underWay = 0;
  #allDone: () => void = nothing;
  #log: TaskLog | null = null;
  #signal: AbortController | null = null;
  #expired: AbortController | null = null;
  #signalled: Stop | null = null;
  #over: Stop | null = null;
  /** Called when its attempts are given up. The task may still be running then. */
  onGone: () => void = nothing;

  constructor(claim: Claim, attempts: readonly Attempt[], task: Task) {
    this.claim = claim;
    this.attempts = attempts;
    this.#task = task;
  }

  /**
   * Calls the task and settles the attempts that it left open. Resolves when the slot is free again; returns undefined when it is
   * free already. Never rejects.
   */
  start(): Promise<void> | undefined {
    this.beganAt = this.claim.context.clock.now();
    this.claim.began(this);
    const task = this.#task;
    return isBulk(task) ? this.#runBulk(task.bulk) : this.#runUnit(task);
  }

  /** Gives its attempts back, for runs that have not begun or that end because the worker stops. Never rejects. */
  async release(): Promise<void> {
    await this.claim.release(this);
  }

  get isSignalled(): boolean {
    return this.#signalled !== null;
  }

  /** Whether its attempts were given up. The task may still be running. */
  get isGone(): boolean {
    return this.#over !== null;
  }

  /** Asks the task to end: aborts `signal`. */
  signal(reason: Stop): void {
    if (this.#signalled !== null) return;
    this.#signalled = reason;
    this.#signal?.abort(reason);
  }

  /** Tells the task that it no longer holds its attempts: aborts `signal` and `expired`. */
  end(reason: Stop): void {
    this.signal(reason);
    this.#over ??= reason;
    this.#expired?.abort(reason);
    this.onGone();
  }

  /** Like `end`, and gives the open attempts back at once, so that other workers can claim the units. */
  async abandon(reason: Stop): Promise<void> {
    this.end(reason);
    await this.release();
    await this.#settled();
  }

  /** Counts settlements of its attempts: 1 when one is requested, -1 when it is answered. */
  settling(by: 1 | -1): void {
    this.#underWay += by;
    if (this.#underWay === 0) this.#allDone();
  }

  async #settled(): Promise<void> {
    while (this.#underWay > 0) await new Promise<void>((resolve) => (this.#allDone = resolve));
  }

  // ---- a plain function

  /** Does not wait until the result is stored: the slot runs the next unit meanwhile. */
  #runUnit(work: UnitTask): Promise<void> | undefined {
    const attempt = this.attempts[0]!;
    let pending: Promise<unknown>;
    try {
      const result = work(new Unit(attempt, this.beganAt), unitContext(this));
      if (!isThenable(result)) {
        this.#returned(attempt, result);
        return undefined;
      }
      pending = Promise.resolve(result);
    } catch (error) {
      this.#threw(error);
      return undefined;
    }
    return pending.then(
      (value) => this.#returned(attempt, value),
      (error: unknown) => this.#threw(error),
    );
  }

  #returned(attempt: Attempt, value: unknown): void {
    if (!this.claim.isUndecided(attempt)) return;
    try {
      if (value === undefined || value === null) this.claim.finish(attempt);
      else if (value instanceof Error) this.#threw(value);
      else void settleReturned(attempt, value);
    } catch (error) {
      // a proxy may throw from `instanceof`
      this.#threw(error);
    }
  }

  #threw(thrown: unknown): void {
    const error = (this.thrown = readable(thrown));
    const open = this.claim.undecided(this);
    // a task whose attempts were given up may end by throwing: nothing to report
    if (open.length === 0 && this.#over === null) this.claim.context.reports.threwLate(this.claim, error);
    else if (endedByStop(error, this.#signalled)) void this.release();
    else void settleEach(open, (attempt) => settleThrown(attempt, error));
  }

  // ---- a bulk task

  async #runBulk(work: BulkFunction): Promise<void> {
    const { claim } = this;
    try {
      await work(this.attempts, bulkContext(this));
      await this.#settled();
      const left = claim.undecided(this);
      if (left.length > 0 && this.#over === null) claim.context.reports.unsettled(claim, left);
    } catch (thrown) {
      const error = (this.thrown = readable(thrown));
      await this.#settled();
      const open = claim.undecided(this);
      if (open.length === 0) claim.context.reports.threwLate(claim, error);
      if (endedByStop(error, this.#signalled)) await this.release();
      else await settleEach(open, (attempt) => settleThrown(attempt, error));
    }
    claim.forget(this);
  }

  // ---- properties of the task's context

  /** For a plain function. Its lines are stored with the attempt. */
  get log(): TaskLog {
    return (this.#log ??= attemptLog(this.claim.log, this.attempts[0]!, this.claim.context.clock));
  }

  /** Aborted when the task is asked to end. */
  get ending(): AbortSignal {
    return (this.#signal ??= aborted(this.#signalled)).signal;
  }

  /** Aborted when the task no longer holds its attempts. */
  get gone(): AbortSignal {
    return (this.#expired ??= aborted(this.#over)).signal;
  }
}

const nothing = (): void => undefined;

/** Returns a controller, aborted already when there is a reason. */
function aborted(reason: Stop | null): AbortController {
  const controller = new AbortController();
  if (reason !== null) controller.abort(reason);
  return controller;
}

/** Accepts any object with a `then` method: query builders and other libraries return such objects instead of promises. */
const isThenable = (value: unknown): value is PromiseLike<unknown> =>
  value instanceof Promise ||
  (typeof value === "object" && value !== null && "then" in value && typeof value.then === "function");
