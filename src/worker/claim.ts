/**
 * The attempts of one claim, from the claim to the last settle. A claim knows which of its attempts are still open, watches their
 * leases, and tells the worker what became of each. They run in one run for each unit, or in one for all of a bulk task.
 */
import {
  cancelled,
  CoordinateError,
  dataGetText,
  type AttemptChange,
  type AttemptChanged,
  type AttemptProgress,
  type AttemptRow,
  type Clock,
  type Coordinate,
  type Data,
  type WorkSpecRef,
  type WorkUnitRow,
} from "../core/index.ts";
import { Attempt, WorkerHandle, WorkUnit, type ErrorOptions, type Scope } from "../objects/index.ts";
import type { Alarm, Alarms } from "./alarms.ts";
import { giveUpTime, renewTime, signalTime, type Lease, type ServerTime } from "./lease.ts";
import type { Logger } from "./log.ts";
import type { LogSender } from "./log-sender.ts";
import type { Reports } from "./reports.ts";
import { settleEach } from "./outcome.ts";
import { Run } from "./run.ts";
import type { Settler } from "./settler.ts";
import type { KnownSpec } from "./specs.ts";
import { Stop } from "./stops.ts";
import { isBulk, type Task } from "./task.ts";

/** What all claims of a worker share. */
export interface ClaimContext {
  readonly settlingVerbs: (settle: Coordinate["settleAttempts"]) => Coordinate;
  readonly ns: string;
  readonly settler: Settler;
  readonly serverTime: ServerTime;
  readonly clock: Clock;
  readonly alarms: Alarms;
  readonly log: Logger;
  readonly logs: LogSender;
  readonly reports: Reports;
  /** A unit as it stands now; null when it is gone, undefined when that cannot be told. */
  readonly lookUp: (workSpec: string, name: string) => Promise<WorkUnitRow | null | undefined>;
  /** The lease that requests ask for. */
  readonly lifetimeMs: number;
  /** Leases are renewed by themselves until the task has run this long. */
  readonly renewForMs: number;
}

/** Between two reports of one attempt's progress. */
const reportEveryMs = 1000;

interface Held {
  readonly attempt: Attempt;
  readonly run: Run;
  lease: Lease;
  /** How far it has come, as long as that was not sent; and when the last report was. */
  report: AttemptProgress | null;
  reportedAt: number;
  /** How many ends of it are under way: its task has decided, and time no longer counts. */
  ending: number;
}

export class Claim {
  readonly workSpec: KnownSpec;
  readonly worker: string;
  readonly runs: readonly Run[];
  readonly context: ClaimContext;
  readonly #timedOut: string;
  readonly #onSettled: () => void;
  /** Those still pending, by attempt id. */
  readonly #open = new Map<string, Held>();
  #underWay = 0;
  #isSettled = false;
  #alarm: Alarm | null = null;
  #keepLifetime = false;
  /** A lease that the alarm is not later than. */
  #watched: Lease | null = null;
  #log: Logger | null = null;

  constructor(
    context: ClaimContext,
    rows: readonly AttemptRow[],
    workSpec: KnownSpec,
    task: Task,
    timedOut: string,
    onSettled: () => void,
  ) {
    const [first] = rows;
    if (first === undefined) throw new CoordinateError("internal");
    this.context = context;
    this.workSpec = workSpec;
    this.worker = first.worker;
    this.#timedOut = timedOut;
    this.#onSettled = onSettled;
    const scope = this.#scope();
    const attempts = rows.map((row): Attempt => new HeldAttempt(scope, row));
    this.runs = isBulk(task)
      ? [new Run(this, attempts, task)]
      : attempts.map((attempt) => new Run(this, [attempt], task));
    const lease = this.#leaseOf(first);
    rows.forEach((row, i) => {
      const attempt = attempts[i]!;
      const run = this.runs.length === 1 ? this.runs[0]! : this.runs[i]!;
      // one claim gives all its attempts one lease; a repeated one may answer with those that were renewed
      const own = row.expirationTime === first.expirationTime ? lease : this.#leaseOf(row);
      this.#open.set(row.id, { attempt, run, lease: own, report: null, reportedAt: -Infinity, ending: 0 });
    });
  }

  /** For the tasks of its runs. */
  get log(): Logger {
    const { worker, workSpec } = this;
    return (this.#log ??= this.context.log.child({ worker, workSpec: workSpec.name }));
  }

  #leaseOf({ expirationTime, startTime }: AttemptRow): Lease {
    const expiration = this.context.serverTime.toLocal(expirationTime);
    return { expiration, lifetimeMs: expirationTime - startTime };
  }

  /** A run has begun: from now on its leases are watched. */
  began(run: Run): void {
    for (const { id } of run.attempts) {
      const held = this.#open.get(id);
      if (held === undefined) continue;
      this.context.reports.began(this.workSpec, held.attempt, run.beganAt);
      // units of one claim have one lease
      if (held.lease === this.#watched) continue;
      if (this.#alarm === null || this.#pointOf(held) < this.#alarm.time) this.#arm();
      this.#watched = held.lease;
    }
  }

  isUndecided({ id }: Attempt): boolean {
    return this.#open.get(id)?.ending === 0;
  }

  /** Those of a run that are open, and for which nobody has requested an end. */
  undecided(run: Run): Attempt[] {
    const found: Attempt[] = [];
    for (const { id } of run.attempts) {
      const held = this.#open.get(id);
      if (held?.ending === 0) found.push(held.attempt);
    }
    return found;
  }

  /** A run has ended, and its settles have been answered: what it left open is not watched any longer. */
  forget(run: Run): void {
    for (const { id } of run.attempts) this.#open.delete(id);
    this.#closed();
  }

  /** Gives back a run that was not begun. Never rejects. */
  async release(run: Run): Promise<void> {
    const { log, reports } = this.context;
    const { worker } = this;
    const attempts = this.undecided(run);
    const answers = await Promise.allSettled(attempts.map((attempt) => attempt.release()));
    for (const answer of answers)
      if (answer.status === "rejected")
        log.warn(
          { worker, workSpec: this.workSpec.name, err: answer.reason as unknown },
          "could not give back a unit that was not begun",
        );
    reports.released(
      worker,
      this.workSpec.name,
      attempts.map(({ workUnitName }) => workUnitName),
    );
  }

  // ---- settling

  /** Handles whose settles go through here, and all else to the coordinator. */
  #scope(): Scope {
    const { ns, settlingVerbs, logs } = this.context;
    const verbs = settlingVerbs((_ns, changes) => this.#settle(changes));
    const scope: Scope = {
      verbs,
      ns,
      workUnit: (ref: WorkSpecRef, row) => new WorkUnit(scope, ref, row),
      attempt: <Given extends object, Result extends object>(row: AttemptRow) =>
        new HeldAttempt<Given, Result>(scope, row),
      worker: (name, row) => new WorkerHandle(scope, name, row),
      wrote: (attempt) => logs.wrote(attempt),
    };
    return scope;
  }

  /** No promise of its own: the settler says when it is done. */
  #settle(changes: readonly AttemptChange[]): Promise<AttemptChanged[]> {
    return this.context.settler.settle(changes, this.#requested(changes));
  }

  /** Finishes an attempt whose task returned nothing: once for every unit of a busy worker, and without a promise. */
  finish(attempt: Attempt): void {
    const change: AttemptChange = { attempt: attempt.id, action: "finish" };
    attempt.carryLog(change);
    const changes = [change];
    const done = this.#requested(changes);
    this.context.settler.post(changes, (answers) => {
      done(answers);
      const [answer] = answers ?? [];
      if (answer !== undefined) attempt.heard(change, answer);
    });
  }

  /** Changes are under way; what is returned is to be called with the answers, or null when there are none. */
  #requested(changes: readonly AttemptChange[]): (answers: AttemptChanged[] | null) => void {
    const keepLifetime = this.#keepLifetime;
    const runs = changes.map(({ attempt }) => this.#open.get(attempt)?.run);
    for (const run of runs) run?.settling(1);
    this.#mark(changes, 1);
    this.#underWay++;
    return (answers) => {
      for (let i = 0; i < changes.length; i++) {
        const [change, answer] = [changes[i], answers?.[i]];
        if (change !== undefined && answer !== undefined) this.#note(change, answer, keepLifetime);
      }
      this.#underWay--;
      this.#mark(changes, -1);
      for (const run of runs) run?.settling(-1);
      this.#closed();
    };
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

  #note(change: AttemptChange, answer: AttemptChanged, keepLifetime: boolean): void {
    const held = this.#open.get(answer.attempt);
    this.context.reports.settled(this, change, answer, held?.run ?? this.#runOf(answer.attempt));
    if (held === undefined) return;
    if (answer.error !== null || answer.status !== "pending") {
      this.#open.delete(answer.attempt);
      // the task goes on, and nobody waits for what it does
      if (answer.error !== null && change.action === "renew") void this.#tellLost(held.run);
      return;
    }
    const expiration = this.context.serverTime.toLocal(answer.expirationTime);
    const lifetimeMs = keepLifetime
      ? held.lease.lifetimeMs
      : (change.lifetimeMs ?? expiration - this.context.clock.now());
    held.lease = { expiration, lifetimeMs };
    // one that rings too early is set anew; one that rings too late must not be
    if (this.#alarm === null || this.#pointOf(held) < this.#alarm.time) this.#arm();
  }

  /** Of an attempt that is not open any more. */
  #runOf(id: string): Run {
    const own = this.runs.find(({ attempts }) => attempts.some((attempt) => attempt.id === id));
    if (own === undefined) throw new CoordinateError("internal");
    return own;
  }

  #closed(): void {
    if (this.#open.size > 0 || this.#underWay > 0 || this.#isSettled) return;
    this.#isSettled = true;
    this.#alarm?.cancel();
    this.#onSettled();
  }

  // ---- time

  /** Sets the alarm for the next point of a lease. */
  #arm(): void {
    this.#alarm?.cancel();
    this.#alarm = this.#watched = null;
    let next = Infinity;
    for (const held of this.#open.values()) next = Math.min(next, this.#pointOf(held));
    if (next < Infinity) this.#alarm = this.context.alarms.at(next, () => void this.#ring());
  }

  async #ring(): Promise<void> {
    this.#alarm = this.#watched = null;
    const now = this.context.clock.now();
    const due = new Set<Run>();
    for (const held of this.#open.values()) if (this.#pointOf(held) <= now) due.add(held.run);
    await Promise.all([...due].map((run) => this.#reached(run, now)));
    this.#arm();
  }

  /** When something is next to be done about an attempt. What has not begun is the claimer's. */
  #pointOf({ lease, ending, run }: Held): number {
    if (ending > 0 || run.beganAt === 0) return Infinity;
    const point = run.isSignalled ? giveUpTime(lease) : signalTime(lease);
    return this.#renews(run) ? Math.min(point, renewTime(lease)) : point;
  }

  #renews(run: Run): boolean {
    const { renewForMs, clock } = this.context;
    return renewForMs > 0 && !run.isSignalled && clock.now() - run.beganAt < renewForMs;
  }

  async #reached(run: Run, now: number): Promise<void> {
    const held = run.attempts
      .flatMap(({ id }) => this.#open.get(id) ?? [])
      .filter(({ ending }) => ending === 0);
    if (held.some(({ lease }) => giveUpTime(lease) <= now)) await this.#timeOut(run);
    else if (held.some(({ lease }) => signalTime(lease) <= now)) run.signal(new Stop("lease ends"));
    else if (this.#renews(run)) await this.#renewAlone(held.filter(({ lease }) => renewTime(lease) <= now));
  }

  async #renewAlone(due: readonly Held[]): Promise<void> {
    // a store that does not answer must not keep the watch from the points that follow
    const renews = Promise.allSettled(due.map(({ attempt, lease }) => attempt.renew(lease.lifetimeMs)));
    const last = Math.min(...due.map(({ lease }) => signalTime(lease)));
    const done = new AbortController();
    void renews.then(() => done.abort("renewed"));
    await this.context.clock.waitUntil(last, done.signal);
  }

  async #timeOut(run: Run): Promise<void> {
    const text = this.#timedOut;
    const open = this.undecided(run);
    run.end(new Stop("timed out", text));
    await settleEach(open, (attempt) => attempt.error(text, { reason: "expired" }));
    this.context.reports.timedOut(this, open);
  }

  // ---- units that are taken away

  /** The unit of a run was taken from it: the task is told who did it, if anybody says so. */
  async #tellLost(run: Run): Promise<void> {
    // a bulk task goes on with the others
    if (run.attempts.some(({ id }) => this.#open.has(id))) return;
    const { lookUp } = this.context;
    const [attempt] = run.attempts;
    const row = run.attempts.length > 1 ? undefined : await lookUp(this.workSpec.name, attempt!.workUnitName);
    run.end(whyLost(row));
  }

  /** A unit that this run has was ended by somebody else, and is not the run's any more. */
  lost(run: Run, row: WorkUnitRow | null): void {
    const attempts = this.undecided(run);
    if (attempts.length === 0) return;
    for (const { id } of attempts) this.#open.delete(id);
    const why = whyLost(row);
    run.end(why);
    for (const attempt of attempts) this.context.reports.lost(this, attempt, run, why);
    // so that the coordinator does not go on to list it among what this worker has
    const changes = attempts.map(({ id }) => ({ attempt: id, action: "expire" as const }));
    this.#underWay++;
    const done = (): void => {
      this.#underWay--;
      this.#closed();
    };
    this.context.settler.settle(changes, done).catch(nothing);
  }

  // ---- what a task may request

  progress(attempt: Attempt, progress: number | object, note?: string): Promise<void> {
    return caught(
      typeof progress === "number"
        ? this.#report(attempt, { done: progress, note: note ?? "" })
        : this.#write(attempt, progress),
    );
  }

  /** Reports that follow each other quickly are one: the last. */
  async #report(attempt: Attempt, progress: AttemptProgress): Promise<void> {
    const held = this.#held(attempt);
    const { clock, alarms } = this.context;
    const waits = held.report !== null;
    held.report = progress;
    if (waits) return;
    const next = held.reportedAt + reportEveryMs;
    if (next > clock.now()) {
      alarms.at(next, () => void this.#sendReport(held).catch(nothing));
      return;
    }
    await this.#sendReport(held);
  }

  async #sendReport(held: Held): Promise<void> {
    const { report, attempt } = held;
    if (report === null) return;
    held.report = null;
    if (held.ending > 0 || !this.#open.has(attempt.id)) return;
    held.reportedAt = this.context.clock.now();
    await attempt.progress(report.done, report.note);
  }

  #held(attempt: Attempt): Held {
    const held = this.#open.get(attempt.id);
    if (held === undefined) throw new CoordinateError("not_pending", attempt.id);
    return held;
  }

  async #write(attempt: Attempt, data: object): Promise<void> {
    const held = this.#held(attempt);
    // the lease is written with the data; it stays what it is
    const left = Math.max(1, held.lease.expiration - this.context.clock.now());
    this.#keepLifetime = true;
    const renewed = attempt.renew(left, data);
    this.#keepLifetime = false;
    await renewed;
  }

  async renew(run: Run, lifetimeMs = this.context.lifetimeMs): Promise<void> {
    if (!(lifetimeMs > 0)) throw new CoordinateError("bad_argument", `lifetimeMs: ${lifetimeMs}`);
    const attempts = this.undecided(run);
    const renews = await Promise.allSettled(attempts.map((attempt) => attempt.renew(lifetimeMs)));
    for (const renewed of renews) if (renewed.status === "rejected") throw renewed.reason;
  }
}

/** What the record of a unit says of who took it. */
function whyLost(row: WorkUnitRow | null | undefined): Stop {
  if (row === null) return new Stop("lost", "the unit was deleted");
  const data = row?.status === "failed" ? (row.activeAttempt?.data ?? null) : null;
  const text = data === null ? null : dataGetText(data, "traceback");
  return text?.startsWith(cancelled) === true ? new Stop("cancelled", text) : new Stop("lost");
}

/** An attempt whose changes nobody has to catch: a task that does not wait for a settle must not end the process. */
class HeldAttempt<Given extends object, Result extends object> extends Attempt<Given, Result> {
  override finish(data?: Result | Data): Promise<AttemptChanged> {
    return caught(super.finish(data));
  }
  override fail(data?: object): Promise<AttemptChanged> {
    return caught(super.fail(data));
  }
  override failWith(traceback: string): Promise<AttemptChanged> {
    return caught(super.failWith(traceback));
  }
  override error(traceback?: string, options?: ErrorOptions): Promise<AttemptChanged> {
    return caught(super.error(traceback, options));
  }
  override snooze(delayMs: number): Promise<AttemptChanged> {
    return caught(super.snooze(delayMs));
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
  override progress(done: number, note?: string): Promise<AttemptChanged> {
    return caught(super.progress(done, note));
  }
}

const nothing = (): void => undefined;

/** It rejects all the same for those who wait; the refusal itself was reported when it came. */
function caught<Answer>(promise: Promise<Answer>): Promise<Answer> {
  promise.catch(nothing);
  return promise;
}

/**
 * Makes verbs like the given ones with another way to settle. Made for every claim, hence a class: what is not its own comes
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
