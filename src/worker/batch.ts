/**
 * The attempts of one claim, from the claim to the last settle. A batch knows which of its attempts are still open, watches
 * their leases, runs the task, and settles what the task leaves behind.
 */
import {
  CoordinateError,
  type AttemptChange,
  type AttemptChanged,
  type AttemptRow,
  type Clock,
  type Coordinate,
  type WorkSpecRef,
} from "../core/index.ts";
import { Attempt, Worker as WorkerHandle, WorkUnit, type Scope } from "../objects/index.ts";
import type { WorkerCounts, WorkerEvent } from "./counts.ts";
import { giveUp } from "./each.ts";
import { giveUpTime, renewTime, signalTime, type Lease, type ServerTime } from "./lease.ts";
import type { Logger } from "./log.ts";
import type { Settler } from "./settler.ts";
import type { Task, TaskContext, TaskSpec } from "./task.ts";

/** What all batches of a worker share. */
export interface BatchSetting {
  readonly verbs: Coordinate;
  readonly ns: string;
  readonly settler: Settler;
  readonly serverTime: ServerTime;
  readonly clock: Clock;
  readonly log: Logger;
  readonly counts: WorkerCounts;
  readonly tell: (event: WorkerEvent) => void;
  /** The lease that requests ask for. */
  readonly lifetimeMs: number;
  /** Leases are renewed by themselves until the task has run this long. */
  readonly renewForMs: number;
}

interface Held {
  readonly attempt: Attempt;
  lease: Lease;
  /** How many ends of it are under way: its task has decided, and time no longer counts. */
  ending: number;
}

export class Batch {
  readonly attempts: readonly Attempt[];
  readonly workSpec: string;
  readonly worker: string;
  readonly #setting: BatchSetting;
  /** Those still pending, by id. */
  readonly #open = new Map<string, Held>();
  readonly #settles = new Set<Promise<unknown>>();
  #signal: AbortController | null = null;
  #expired: AbortController | null = null;
  #signalled: Error | null = null;
  #over: Error | null = null;
  /** Wakes the watch; null while nobody watches. */
  #watch: { until: number; wake: AbortController } | null = null;
  #keepLifetime = false;
  #began = 0;
  /** Called when its attempts are given up, whatever the task goes on to do. */
  onGone: () => void = () => undefined;

  constructor(setting: BatchSetting, rows: readonly AttemptRow[]) {
    const [first] = rows;
    if (first === undefined) throw new CoordinateError("internal");
    this.#setting = setting;
    this.workSpec = first.workSpec;
    this.worker = first.worker;
    const scope = this.#scope();
    const expiration = setting.serverTime.toLocal(first.expirationTime);
    const lease = { expiration, lifetimeMs: first.expirationTime - first.startTime };
    this.attempts = rows.map((row) => {
      const attempt = new HeldAttempt(scope, row);
      // one claim gives all its attempts one lease; a repeated one may answer with those that were renewed
      const own =
        row.expirationTime === first.expirationTime
          ? lease
          : {
              expiration: setting.serverTime.toLocal(row.expirationTime),
              lifetimeMs: row.expirationTime - row.startTime,
            };
      this.#open.set(row.id, { attempt, lease: own, ending: 0 });
      return attempt;
    });
  }

  /** Runs the task and settles what it leaves. Never rejects. */
  async run(spec: TaskSpec, findTask: () => Promise<Task>, timedOut: string): Promise<void> {
    this.#began = this.#setting.clock.now();
    const watching = this.#watchLeases(timedOut);
    try {
      const task = await findTask();
      await task(this.attempts, this.#context(spec));
      await this.#allSettled();
      this.#reportUnsettled();
    } catch (error) {
      await this.#allSettled();
      await this.#giveUpOpen(error);
    }
    this.#open.clear();
    this.#watch?.wake.abort();
    await watching;
  }

  /** Its attempts were given up, and the task has not returned. */
  get isGone(): boolean {
    return this.#over !== null;
  }

  /** The task is told to come to an end. */
  signal(reason: Error): void {
    if (this.#signalled !== null) return;
    this.#signalled = reason;
    this.#signal?.abort(reason);
  }

  /** The task is told that it is over, and what is open is given back at once for others to try. */
  async abandon(reason: Error): Promise<void> {
    const open = this.#undecided();
    this.#end(reason);
    await Promise.allSettled(open.map((attempt) => attempt.expire()));
    await this.#allSettled();
  }

  #end(reason: Error): void {
    this.signal(reason);
    this.#over ??= reason;
    this.#expired?.abort(reason);
    this.onGone();
  }

  // ---- settling

  /** Handles whose settles go through here, and all else to the coordinator. */
  #scope(): Scope {
    const { ns } = this.#setting;
    const settle = { value: (_ns: string, changes: readonly AttemptChange[]) => this.#settle(changes) };
    const verbs = Object.create(passOn(this.#setting.verbs), { settleAttempts: settle }) as Coordinate;
    const scope: Scope = {
      verbs,
      ns,
      workUnit: (ref: WorkSpecRef, row) => new WorkUnit(scope, ref, row),
      attempt: (row) => new HeldAttempt(scope, row),
      worker: (name, row) => new WorkerHandle(scope, name, row),
    };
    return scope;
  }

  async #settle(changes: readonly AttemptChange[]): Promise<AttemptChanged[]> {
    const keepLifetime = this.#keepLifetime;
    this.#mark(changes, 1);
    const settle = this.#setting.settler.settle(changes);
    this.#settles.add(settle);
    try {
      const answers = await settle;
      answers.forEach((answer, i) => this.#note(changes[i], answer, keepLifetime));
      return answers;
    } finally {
      this.#settles.delete(settle);
      this.#mark(changes, -1);
    }
  }

  #mark(changes: readonly AttemptChange[], by: 1 | -1): void {
    for (const { attempt, action } of changes) {
      const held = action === "renew" ? undefined : this.#open.get(attempt);
      if (held === undefined) continue;
      held.ending += by;
      // an end that could not be stored, data that is too large: its time counts again
      if (by === -1) this.#watch?.wake.abort();
    }
  }

  /** Open, and nobody has asked for their end. */
  #undecided(): Attempt[] {
    const found: Attempt[] = [];
    for (const { attempt, ending } of this.#open.values()) if (ending === 0) found.push(attempt);
    return found;
  }

  #note(change: AttemptChange | undefined, answer: AttemptChanged, keepLifetime: boolean): void {
    const held = this.#open.get(answer.attempt);
    if (change === undefined) return;
    if (answer.error !== null) this.#refused(change, answer.error, held?.attempt);
    else if (answer.changed) this.#count(change);
    if (held === undefined) return;
    if (answer.error !== null || answer.status !== "pending") {
      this.#open.delete(answer.attempt);
      if (this.#open.size === 0) this.#watch?.wake.abort();
      return;
    }
    const expiration = this.#setting.serverTime.toLocal(answer.expirationTime);
    const lifetimeMs = keepLifetime
      ? held.lease.lifetimeMs
      : (change.lifetimeMs ?? expiration - this.#setting.clock.now());
    held.lease = { expiration, lifetimeMs };
    if (this.#watch !== null && this.#nextPoint() < this.#watch.until) this.#watch.wake.abort();
  }

  #count({ action }: AttemptChange): void {
    const { counts } = this.#setting;
    if (action === "finish") counts.finished++;
    else if (action === "fail") counts.failed++;
    else if (action === "retry") counts.retried++;
  }

  #refused({ action }: AttemptChange, error: string, attempt: Attempt | undefined): void {
    const { counts, log, tell } = this.#setting;
    const { worker, workSpec } = this;
    const unit = attempt?.workUnitName ?? "";
    counts.refused++;
    tell({ type: "refused", worker, workSpec, unit, action, error });
    log.warn({ worker, workSpec, unit, action, error }, "a settle was refused");
  }

  /** What was asked for and not waited for. */
  async #allSettled(): Promise<void> {
    while (this.#settles.size > 0) await Promise.allSettled([...this.#settles]);
  }

  /** The task failed: so do the attempts that it left open, unless it said to try them again. */
  async #giveUpOpen(error: unknown): Promise<void> {
    if (this.#open.size === 0) {
      const { log } = this.#setting;
      const { worker, workSpec } = this;
      log.warn({ worker, workSpec, err: error }, "a task failed when all its attempts had been settled");
    }
    await this.#fail(this.#undecided(), (attempt) => giveUp(attempt, error));
  }

  /** Data that cannot take a traceback as well must not keep an attempt from failing. */
  async #fail(attempts: readonly Attempt[], how: (attempt: Attempt) => Promise<unknown>): Promise<void> {
    await Promise.all(
      attempts.map((attempt) =>
        how(attempt)
          .catch(() => (attempt.status === "pending" ? attempt.fail() : undefined))
          .catch(() => undefined),
      ),
    );
  }

  #reportUnsettled(): void {
    if (this.#open.size === 0 || this.#over !== null) return;
    const units = this.#undecided();
    const { counts, log } = this.#setting;
    const { worker, workSpec } = this;
    counts.unsettled += units.length;
    this.#tellUnits("unsettled", units);
    const names = units.slice(0, 10).map(({ workUnitName }) => workUnitName);
    log.warn(
      { worker, workSpec, count: units.length, units: names },
      "a task returned and left attempts unsettled; they will expire",
    );
  }

  #tellUnits(type: "unsettled" | "timed out" | "released", attempts: readonly Attempt[]): void {
    const units = attempts.map(({ workUnitName }) => workUnitName);
    this.#setting.tell({ type, worker: this.worker, workSpec: this.workSpec, units });
  }

  // ---- time

  /** Runs until nothing is open. */
  async #watchLeases(timedOut: string): Promise<void> {
    const { clock } = this.#setting;
    while (this.#open.size > 0) {
      const until = this.#nextPoint();
      if (until > clock.now()) {
        const wake = new AbortController();
        this.#watch = { until, wake };
        await clock.waitUntil(until, wake.signal);
        this.#watch = null;
        continue;
      }
      await this.#reached(timedOut);
    }
  }

  /** What is due at this time has come. */
  async #reached(timedOut: string): Promise<void> {
    const now = this.#setting.clock.now();
    const leases = [...this.#open.values()].filter(({ ending }) => ending === 0);
    if (leases.some(({ lease }) => giveUpTime(lease) <= now)) {
      await this.#timeOut(timedOut);
    } else if (leases.some(({ lease }) => signalTime(lease) <= now)) {
      this.signal(new Error("the lease ends soon"));
    } else if (this.#renews(now)) {
      await this.#renewAlone(leases.filter(({ lease }) => renewTime(lease) <= now));
    }
  }

  /** The earliest point at which something is to be done. */
  #nextPoint(): number {
    let next = Infinity;
    const told = this.#signalled !== null;
    const renews = this.#renews(this.#setting.clock.now());
    for (const { lease, ending } of this.#open.values()) {
      if (ending > 0) continue;
      const point = told ? giveUpTime(lease) : signalTime(lease);
      next = Math.min(next, point);
      if (renews) next = Math.min(next, renewTime(lease));
    }
    return next;
  }

  #renews(now: number): boolean {
    const { renewForMs } = this.#setting;
    return renewForMs > 0 && this.#signalled === null && now - this.#began < renewForMs;
  }

  async #renewAlone(due: readonly Held[]): Promise<void> {
    // a store that does not answer must not keep the watch from the points that follow
    const renews = Promise.allSettled(due.map(({ attempt, lease }) => attempt.renew(lease.lifetimeMs)));
    const last = Math.min(...due.map(({ lease }) => signalTime(lease)));
    const done = new AbortController();
    void renews.then(() => done.abort());
    await this.#setting.clock.waitUntil(last, done.signal);
  }

  async #timeOut(text: string): Promise<void> {
    const open = this.#undecided();
    const { counts, log } = this.#setting;
    const { worker, workSpec } = this;
    counts.timedOut += open.length;
    log.warn({ worker, workSpec, count: open.length }, "time is up: the pending attempts are failed");
    this.#end(new Error(text));
    const failing = this.#fail(open, (attempt) => attempt.failWith(text));
    for (const { id } of open) this.#open.delete(id);
    await failing;
    this.#tellUnits("timed out", open);
  }

  // ---- what the task gets

  #context(workSpec: TaskSpec): TaskContext {
    const { log, clock } = this.#setting;
    const { worker } = this;
    let own: Logger | null = null;
    return {
      signal: this.#abortSignal("signal"),
      expired: this.#abortSignal("expired"),
      get log() {
        return (own ??= log.child({ worker, workSpec: workSpec.name }));
      },
      workSpec,
      worker,
      clock,
      progress: (attempt, data) => this.#progress(attempt, data),
      renew: (lifetimeMs) => this.#renewOpen(lifetimeMs),
    };
  }

  #abortSignal(which: "signal" | "expired"): AbortSignal {
    const controller = new AbortController();
    if (which === "signal") {
      this.#signal = controller;
      if (this.#signalled !== null) controller.abort(this.#signalled);
    } else {
      this.#expired = controller;
      if (this.#over !== null) controller.abort(this.#over);
    }
    return controller.signal;
  }

  async #progress(attempt: Attempt, data: object): Promise<void> {
    const held = this.#open.get(attempt.id);
    if (held === undefined) throw new CoordinateError("not_pending", attempt.id);
    // the lease is written with the data; it stays what it is
    const left = Math.max(1, held.lease.expiration - this.#setting.clock.now());
    this.#keepLifetime = true;
    const renewed = attempt.renew(left, data);
    this.#keepLifetime = false;
    await renewed;
  }

  async #renewOpen(lifetimeMs = this.#setting.lifetimeMs): Promise<void> {
    if (!(lifetimeMs > 0)) throw new CoordinateError("bad_argument", `lifetimeMs: ${lifetimeMs}`);
    const attempts = this.#undecided();
    const renews = await Promise.allSettled(attempts.map((attempt) => attempt.renew(lifetimeMs)));
    for (const renewed of renews) if (renewed.status === "rejected") throw renewed.reason;
  }
}

/** An attempt whose changes nobody has to catch: a task that does not wait for a settle must not end the process. */
class HeldAttempt extends Attempt {
  override finish(data?: object): Promise<AttemptChanged> {
    return caught(super.finish(data));
  }
  override fail(data?: object): Promise<AttemptChanged> {
    return caught(super.fail(data));
  }
  override failWith(traceback: string): Promise<AttemptChanged> {
    return caught(super.failWith(traceback));
  }
  override retry(options?: { delayMs?: number; data?: object }): Promise<AttemptChanged> {
    return caught(super.retry(options));
  }
  override expire(data?: object): Promise<AttemptChanged> {
    return caught(super.expire(data));
  }
  override release(): Promise<AttemptChanged> {
    return caught(super.release());
  }
  override renew(lifetimeMs?: number, data?: object): Promise<AttemptChanged> {
    return caught(super.renew(lifetimeMs, data));
  }
}

const nothing = (): void => undefined;

/** It rejects all the same for those who wait; the refusal itself was logged when it came. */
function caught<Answer>(promise: Promise<Answer>): Promise<Answer> {
  promise.catch(nothing);
  return promise;
}

/** Passes every verb on to where it belongs. */
function passOn(verbs: Coordinate): Coordinate {
  return new Proxy(verbs, {
    get: (target, key): unknown => {
      const value: unknown = Reflect.get(target, key, target);
      return typeof value === "function" ? (value.bind(target) as unknown) : value;
    },
  });
}
