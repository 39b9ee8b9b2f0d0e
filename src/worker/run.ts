/** One call of a task: of a plain function for one unit, or of a bulk task for all units of its claim. */
import type { Attempt } from "../objects/index.ts";
import type { Claim } from "./claim.ts";
import { bulkContext, unitContext } from "./context.ts";
import { attemptLog, type TaskLog } from "./log.ts";
import { settleEach, settleReturned, settleThrown } from "./outcome.ts";
import type { Stop } from "./stops.ts";
import { isBulk, Unit, type BulkFunction, type Task, type UnitTask } from "./task.ts";

export class Run {
  readonly claim: Claim;
  readonly attempts: readonly Attempt[];
  readonly #task: Task;
  /** By the worker's clock; 0 until it begins. */
  beganAt = 0;
  /** What the task threw, for the events of its units. */
  thrown: unknown = undefined;
  /** Settles of its attempts that were not answered yet. */
  #underWay = 0;
  #allDone: () => void = nothing;
  #log: TaskLog | null = null;
  #signal: AbortController | null = null;
  #expired: AbortController | null = null;
  #signalled: Stop | null = null;
  #over: Stop | null = null;
  /** Called when its attempts are given up, whatever the task goes on to do. */
  onGone: () => void = nothing;

  constructor(claim: Claim, attempts: readonly Attempt[], task: Task) {
    this.claim = claim;
    this.attempts = attempts;
    this.#task = task;
  }

  /** Calls the task and settles what it leaves. Resolves when a slot is free again; undefined is at once. Never rejects. */
  start(): Promise<void> | undefined {
    this.beganAt = this.claim.context.clock.now();
    this.claim.began(this);
    const task = this.#task;
    return isBulk(task) ? this.#runBulk(task.bulk) : this.#runUnit(task);
  }

  async release(): Promise<void> {
    await this.claim.release(this);
  }

  get isSignalled(): boolean {
    return this.#signalled !== null;
  }

  /** Its attempts were given up, and the task has not returned. */
  get isGone(): boolean {
    return this.#over !== null;
  }

  /** Tells the task to come to an end. */
  signal(reason: Stop): void {
    if (this.#signalled !== null) return;
    this.#signalled = reason;
    this.#signal?.abort(reason);
  }

  /** Tells the task that its attempts are no longer its own. */
  end(reason: Stop): void {
    this.signal(reason);
    this.#over ??= reason;
    this.#expired?.abort(reason);
    this.onGone();
  }

  /** As `end`, and what is open is given back at once for others to try. */
  async abandon(reason: Stop): Promise<void> {
    const open = this.claim.undecided(this);
    this.end(reason);
    await Promise.allSettled(open.map((attempt) => attempt.expire()));
    await this.#settled();
  }

  /** Settles of its attempts were requested or answered. */
  settling(by: 1 | -1): void {
    this.#underWay += by;
    if (this.#underWay === 0) this.#allDone();
  }

  async #settled(): Promise<void> {
    while (this.#underWay > 0) await new Promise<void>((resolve) => (this.#allDone = resolve));
  }

  // ---- a plain function

  /** A result is stored while the slot runs the next unit. */
  #runUnit(work: UnitTask): Promise<void> | undefined {
    const attempt = this.attempts[0]!;
    let result: ReturnType<UnitTask>;
    try {
      result = work(new Unit(attempt, this.beganAt), unitContext(this));
    } catch (error) {
      this.#threw(error);
      return undefined;
    }
    if (!isThenable(result)) {
      this.#returned(attempt, result);
      return undefined;
    }
    return Promise.resolve(result).then(
      (value) => this.#returned(attempt, value),
      (error: unknown) => this.#threw(error),
    );
  }

  #returned(attempt: Attempt, value: unknown): void {
    if (!this.claim.isUndecided(attempt)) return;
    if (value === undefined || value === null) this.claim.finish(attempt);
    else if (value instanceof Error) this.#threw(value);
    else void settleReturned(attempt, value);
  }

  #threw(error: unknown): void {
    this.thrown = error;
    const open = this.claim.undecided(this);
    // a task that was told to end may well end by throwing
    if (open.length === 0 && this.#over === null) this.claim.context.reports.threwLate(this.claim, error);
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
    } catch (error) {
      this.thrown = error;
      await this.#settled();
      const open = claim.undecided(this);
      if (open.length === 0) claim.context.reports.threwLate(claim, error);
      await settleEach(open, (attempt) => settleThrown(attempt, error));
    }
    claim.forget(this);
  }

  // ---- what the task gets

  /** Of a plain function: its lines are kept with the attempt. */
  get log(): TaskLog {
    return (this.#log ??= attemptLog(this.claim.log, this.attempts[0]!, this.claim.context.clock));
  }

  /** Aborted when the task is told to come to an end. */
  get ending(): AbortSignal {
    return (this.#signal ??= aborted(this.#signalled)).signal;
  }

  /** Aborted when its attempts are no longer its own. */
  get gone(): AbortSignal {
    return (this.#expired ??= aborted(this.#over)).signal;
  }
}

const nothing = (): void => undefined;

/** A controller that is aborted already, when there is a reason. */
function aborted(reason: Stop | null): AbortController {
  const controller = new AbortController();
  if (reason !== null) controller.abort(reason);
  return controller;
}

/** Query builders and other libraries return objects that are promises by their shape alone. */
const isThenable = (value: unknown): value is PromiseLike<unknown> =>
  value instanceof Promise ||
  (typeof value === "object" && value !== null && "then" in value && typeof value.then === "function");
