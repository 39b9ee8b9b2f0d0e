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
import type { Alarm, Alarms } from "./alarms.ts";
import type { WorkerCounts, WorkerEvent } from "./counts.ts";
import { giveUp } from "./each.ts";
import { giveUpTime, renewTime, signalTime, type Lease, type ServerTime } from "./lease.ts";
import type { Logger } from "./log.ts";
import type { Settler } from "./settler.ts";
import type { Task, TaskContext, TaskSpec } from "./task.ts";

/** What all batches of a worker share. */
export interface BatchSetting {
  readonly settlingVerbs: (settle: Coordinate["settleAttempts"]) => Coordinate;
  readonly ns: string;
  readonly settler: Settler;
  readonly serverTime: ServerTime;
  readonly clock: Clock;
  readonly alarms: Alarms;
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
  /** Calls of settle that were not answered yet, and who waits for the last of them. */
  #underWay = 0;
  #allDone: () => void = () => undefined;
  #signal: AbortController | null = null;
  #expired: AbortController | null = null;
  #signalled: Error | null = null;
  #over: Error | null = null;
  #alarm: Alarm | null = null;
  #timedOut = "";
  #ended = false;
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
    this.#timedOut = timedOut;
    this.#arm();
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
    this.#ended = true;
    this.#alarm?.cancel();
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
    const { ns, settlingVerbs } = this.#setting;
    const verbs = settlingVerbs((_ns, changes) => this.#settle(changes));
    const scope: Scope = {
      verbs,
      ns,
      workUnit: (ref: WorkSpecRef, row) => new WorkUnit(scope, ref, row),
      attempt: (row) => new HeldAttempt(scope, row),
      worker: (name, row) => new WorkerHandle(scope, name, row),
    };
    return scope;
  }

  /** Once for every unit that is settled: no promise of its own, the settler tells when it is done. */
  #settle(changes: readonly AttemptChange[]): Promise<AttemptChanged[]> {
    const keepLifetime = this.#keepLifetime;
    this.#mark(changes, 1);
    this.#underWay++;
    return this.#setting.settler.settle(changes, (answers) => {
      for (let i = 0; i < changes.length; i++) {
        const [change, answer] = [changes[i], answers?.[i]];
        if (change !== undefined && answer !== undefined) this.#note(change, answer, keepLifetime);
      }
      this.#mark(changes, -1);
      if (--this.#underWay === 0) this.#allDone();
    });
  }

  #mark(changes: readonly AttemptChange[], by: 1 | -1): void {
    for (const { attempt, action } of changes) {
      const held = action === "renew" ? undefined : this.#open.get(attempt);
      if (held === undefined) continue;
      held.ending += by;
      // an end that could not be stored, data that is too large: its time counts again
      if (by === -1) this.#arm();
    }
  }

  /** Open, and nobody has asked for their end. */
  #undecided(): Attempt[] {
    const found: Attempt[] = [];
    for (const { attempt, ending } of this.#open.values()) if (ending === 0) found.push(attempt);
    return found;
  }

  #note(change: AttemptChange, answer: AttemptChanged, keepLifetime: boolean): void {
    const held = this.#open.get(answer.attempt);
    if (answer.error !== null) this.#refused(change, answer.error);
    else if (answer.changed) this.#count(change);
    if (held === undefined) return;
    if (answer.error !== null || answer.status !== "pending") {
      this.#open.delete(answer.attempt);
      if (this.#open.size === 0) this.#alarm?.cancel();
      return;
    }
    const expiration = this.#setting.serverTime.toLocal(answer.expirationTime);
    const lifetimeMs = keepLifetime
      ? held.lease.lifetimeMs
      : (change.lifetimeMs ?? expiration - this.#setting.clock.now());
    held.lease = { expiration, lifetimeMs };
    // one that rings too early is set anew; one that rings too late must not be
    if (this.#alarm === null || this.#nextPoint() < this.#alarm.time) this.#arm();
  }

  #count({ action }: AttemptChange): void {
    const { counts } = this.#setting;
    if (action === "finish") counts.finished++;
    else if (action === "fail") counts.failed++;
    else if (action === "retry") counts.retried++;
  }

  #refused({ action, attempt }: AttemptChange, error: string): void {
    const { counts, log, tell } = this.#setting;
    const { worker, workSpec } = this;
    const unit = this.attempts.find(({ id }) => id === attempt)?.workUnitName ?? "";
    counts.refused++;
    tell({ type: "refused", worker, workSpec, unit, action, error });
    log.warn({ worker, workSpec, unit, action, error }, "a settle was refused");
  }

  /** What was asked for and not waited for. */
  async #allSettled(): Promise<void> {
    while (this.#underWay > 0) await new Promise<void>((resolve) => (this.#allDone = resolve));
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

  /** Sets the alarm for what is next to be done. */
  #arm(): void {
    this.#alarm?.cancel();
    this.#alarm = null;
    if (this.#ended || this.#open.size === 0) return;
    const next = this.#nextPoint();
    if (next < Infinity) this.#alarm = this.#setting.alarms.at(next, () => void this.#ring());
  }

  async #ring(): Promise<void> {
    this.#alarm = null;
    await this.#reached();
    this.#arm();
  }

  /** What is due at this time has come. */
  async #reached(): Promise<void> {
    const now = this.#setting.clock.now();
    const leases = [...this.#open.values()].filter(({ ending }) => ending === 0);
    if (leases.some(({ lease }) => giveUpTime(lease) <= now)) {
      await this.#timeOut();
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
    void renews.then(() => done.abort("renewed"));
    await this.#setting.clock.waitUntil(last, done.signal);
  }

  async #timeOut(): Promise<void> {
    const text = this.#timedOut;
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
    const signal = (): AbortSignal => (this.#signal ??= aborted(this.#signalled)).signal;
    const expired = (): AbortSignal => (this.#expired ??= aborted(this.#over)).signal;
    // made when first asked for: most tasks look at some of it only
    return {
      get signal() {
        return signal();
      },
      get expired() {
        return expired();
      },
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

/** A controller that is aborted already, when there is a reason. */
function aborted(reason: Error | null): AbortController {
  const controller = new AbortController();
  if (reason !== null) controller.abort(reason);
  return controller;
}

const nothing = (): void => undefined;

/** It rejects all the same for those who wait; the refusal itself was logged when it came. */
function caught<Answer>(promise: Promise<Answer>): Promise<Answer> {
  promise.catch(nothing);
  return promise;
}

/**
 * Makes verbs like the given ones with another way to settle. Made for every batch, hence a class: what is not its own comes
 * from the prototype, which passes it on.
 */
export function settlingVerbs(inner: Coordinate): (settle: Coordinate["settleAttempts"]) => Coordinate {
  class Settling {
    readonly settleAttempts: Coordinate["settleAttempts"];

    constructor(settle: Coordinate["settleAttempts"]) {
      this.settleAttempts = settle;
    }
  }
  const rest = new Proxy(inner, {
    get: (target, key): unknown => {
      const value: unknown = Reflect.get(target, key, target);
      return typeof value === "function" ? (value.bind(target) as unknown) : value;
    },
  });
  Object.setPrototypeOf(Settling.prototype, rest);
  return (settle) => new Settling(settle) as unknown as Coordinate;
}
