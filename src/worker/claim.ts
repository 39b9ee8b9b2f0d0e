/**
 * The attempts of one claim, from the claim to the last settlement. A claim knows which of its attempts are open, watches their
 * leases, and reports the outcome of each. There is one run for each unit, or one run for all units of a bulk task.
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
import { whyUnstorable } from "./unstorable.ts";

/** Services and settings that all claims of a worker share. */
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
  /** Reads the current row of a unit; null when it was deleted, undefined when the read failed. */
  readonly lookUp: (workSpec: string, name: string) => Promise<WorkUnitRow | null | undefined>;
  /** The lease time that the worker's requests ask for. */
  readonly lifetimeMs: number;
  /** The worker renews leases automatically until the task has run this long. */
  readonly renewForMs: number;
}

/** Tasks may block the event loop for longer than such a lease. */
const shortLeaseMs = 60_000;

/** The shortest interval between two progress reports of one attempt. */
const reportEveryMs = 1000;

interface Held {
  readonly attempt: Attempt;
  readonly run: Run;
  lease: Lease;
  /** Whether a renewal by the worker itself is not answered yet. */
  renewing: boolean;
  /** The latest progress that is not sent yet, and the time of the last report. */
  report: AttemptProgress | null;
  reportedAt: number;
  /** Number of pending settlements that end it. While there are any, the lease is not watched: the outcome is decided. */
  ending: number;
}

export class Claim {
  readonly workSpec: KnownSpec;
  readonly worker: string;
  readonly runs: readonly Run[];
  readonly context: ClaimContext;
  readonly #timedOut: string;
  readonly #onSettled: () => void;
  /** Attempts that are still pending, by attempt id. */
  readonly #open = new Map<string, Held>();
  #underWay = 0;
  #isSettled = false;
  #alarm: Alarm | null = null;
  #keepLifetime = false;
  /** A lease that is known to be covered: the alarm rings no later than its next point. */
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
      // all attempts of a claim share one lease; a repeated request may return attempts that were renewed since
      const own = row.expirationTime === first.expirationTime ? lease : this.#leaseOf(row);
      this.#open.set(row.id, {
        attempt,
        run,
        lease: own,
        renewing: false,
        report: null,
        reportedAt: -Infinity,
        ending: 0,
      });
    });
  }

  /** The logger of its tasks. */
  get log(): Logger {
    const { worker, workSpec } = this;
    return (this.#log ??= this.context.log.child({ worker, workSpec: workSpec.name }));
  }

  #leaseOf({ expirationTime, startTime }: AttemptRow): Lease {
    const expiration = this.context.serverTime.toLocal(expirationTime);
    return { expiration, lifetimeMs: expirationTime - startTime };
  }

  /** Called when a run has begun. From now on the claim watches its leases. */
  began(run: Run): void {
    for (const { id } of run.attempts) {
      const held = this.#open.get(id);
      if (held === undefined) continue;
      this.context.reports.began(this.workSpec, held.attempt, run.beganAt);
      // attempts of a claim share one lease: the alarm covers it already
      if (held.lease === this.#watched) continue;
      this.#watch(held);
      this.#watched = held.lease;
    }
  }

  isUndecided({ id }: Attempt): boolean {
    return this.#open.get(id)?.ending === 0;
  }

  /** The open attempts of a run for which no settlement is pending. */
  undecided(run: Run): Attempt[] {
    const found: Attempt[] = [];
    for (const { id } of run.attempts) {
      const held = this.#open.get(id);
      if (held?.ending === 0) found.push(held.attempt);
    }
    return found;
  }

  /** Called when a run has ended and its settlements are answered. Stops watching the attempts that it left open. */
  forget(run: Run): void {
    for (const { id } of run.attempts) this.#open.delete(id);
    this.#closed();
  }

  /** Releases the open attempts of a run; this does not count as a try. Never rejects. */
  async release(run: Run): Promise<void> {
    const { log, reports } = this.context;
    const { worker } = this;
    const attempts = this.undecided(run);
    const answers = await Promise.allSettled(attempts.map((attempt) => attempt.release()));
    const units: string[] = [];
    answers.forEach((answer, i) => {
      if (answer.status === "fulfilled") units.push(attempts[i]!.workUnitName);
      else
        log.warn(
          { worker, workSpec: this.workSpec.name, err: answer.reason as unknown },
          "could not release a unit",
        );
    });
    if (units.length > 0) reports.released(worker, this.workSpec.name, units);
  }

  // ---- settling

  /** Makes handles whose settlements go through this claim; all other verbs go to the coordinator. */
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

  /** Creates no promise besides the settler's, which calls back when the settlement is answered. */
  #settle(changes: readonly AttemptChange[]): Promise<AttemptChanged[]> {
    const settled = this.context.settler.settle(changes, this.#requested(changes));
    this.#hurryIfLate();
    return settled;
  }

  /**
   * Sends settlements at once when the alarm is overdue: the task has blocked the event loop, its lease may have ended, and the next
   * timer could give the unit to another worker. Only for short leases, because reading the clock for every unit costs 2 %.
   */
  #hurryIfLate(): void {
    const { clock, settler, lifetimeMs } = this.context;
    if (lifetimeMs < shortLeaseMs && this.#alarm !== null && this.#alarm.time <= clock.now()) settler.flush();
  }

  /** Finishes an attempt whose task returned nothing. Creates no promise, because this is the most frequent case. */
  finish(attempt: Attempt): void {
    const change: AttemptChange = { attempt: attempt.id, action: "finish" };
    attempt.carryLog(change);
    const changes = [change];
    const done = this.#requested(changes);
    this.context.settler.post(changes, (answers, error) => {
      done(answers, error);
      const [answer] = answers ?? [];
      if (answer !== undefined) attempt.heard(change, answer);
    });
    this.#hurryIfLate();
  }

  /** Marks the changes as pending. The caller must call the returned function with the answers, or with null when there are none. */
  #requested(changes: readonly AttemptChange[]): (answers: AttemptChanged[] | null, error?: unknown) => void {
    const keepLifetime = this.#keepLifetime;
    const runs = changes.map(({ attempt }) => this.#open.get(attempt)?.run);
    for (const run of runs) run?.settling(1);
    this.#mark(changes, 1);
    this.#underWay++;
    return (answers, error) => {
      if (answers === null && whyUnstorable(error) === null) this.#unstored(changes, error);
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

  /** Reports outcomes that the settler gave up, or that were refused as a whole. The units run again when their leases have ended. */
  #unstored(changes: readonly AttemptChange[], error: unknown): void {
    const ends = changes.flatMap(({ attempt, action }) =>
      action === "renew" ? [] : (this.#open.get(attempt) ?? []),
    );
    for (const { attempt } of ends) this.#open.delete(attempt.id);
    const begun = ends.filter(({ run }) => run.beganAt > 0).map(({ attempt }) => attempt);
    if (begun.length > 0) this.context.reports.unsettled(this, begun, error);
  }

  #mark(changes: readonly AttemptChange[], by: 1 | -1): void {
    for (const { attempt, action } of changes) {
      const held = action === "renew" ? undefined : this.#open.get(attempt);
      if (held === undefined) continue;
      held.ending += by;
      // when it could not be stored, as with data that is too large, the attempt stays open: watch its lease again
      if (by === -1) this.#arm();
    }
  }

  #note(change: AttemptChange, answer: AttemptChanged, keepLifetime: boolean): void {
    const held = this.#open.get(answer.attempt);
    const run = held?.run ?? this.#runOf(answer.attempt);
    if (run !== undefined) this.context.reports.settled(this, change, answer, run);
    if (held === undefined) return;
    if (answer.error !== null || answer.status !== "pending") {
      this.#open.delete(answer.attempt);
      // the task still runs: tell it that the unit is lost (not awaited)
      if (answer.error !== null && change.action === "renew") void this.#tellLost(held.run);
      return;
    }
    const expiration = this.context.serverTime.toLocal(answer.expirationTime);
    const lifetimeMs = keepLifetime
      ? held.lease.lifetimeMs
      : (change.lifetimeMs ?? expiration - this.context.clock.now());
    held.lease = { expiration, lifetimeMs };
    this.#watch(held);
  }

  /** Finds the run of an attempt that is no longer open. A task may also settle attempts that are not of this claim: they have none. */
  #runOf(id: string): Run | undefined {
    return this.runs.find(({ attempts }) => attempts.some((attempt) => attempt.id === id));
  }

  #closed(): void {
    if (this.#open.size > 0 || this.#underWay > 0 || this.#isSettled) return;
    this.#isSettled = true;
    this.#alarm?.cancel();
    this.#onSettled();
  }

  // ---- time

  /** An alarm that rings too early is harmless and set again; one that rings too late is not. */
  #watch(held: Held): void {
    if (this.#alarm === null || this.#pointOf(held) < this.#alarm.time) this.#arm();
  }

  /** Sets the alarm for the earliest point of any open attempt. */
  #arm(): void {
    this.#alarm?.cancel();
    this.#alarm = this.#watched = null;
    let next = Infinity;
    for (const held of this.#open.values()) next = Math.min(next, this.#pointOf(held));
    if (next < Infinity) this.#alarm = this.context.alarms.at(next, () => this.#ring());
  }

  /** Waits for no answer: a coordinator that does not answer must not delay the next point. */
  #ring(): void {
    this.#alarm = this.#watched = null;
    const now = this.context.clock.now();
    const due = new Set<Run>();
    for (const held of this.#open.values()) if (this.#pointOf(held) <= now) due.add(held.run);
    for (const run of due) this.#reached(run, now);
    this.#arm();
  }

  /** When to next renew, signal or give up an attempt. Never for runs that have not begun: the claimer releases those. */
  #pointOf(held: Held): number {
    const { lease, ending, run } = held;
    if (ending > 0 || run.beganAt === 0) return Infinity;
    const point = run.isSignalled ? Infinity : this.#signalTime(held);
    return Math.min(point, giveUpTime(lease), this.#renews(held) ? renewTime(lease) : Infinity);
  }

  /** Not while the worker renews leases itself: a renewal that an outage delays can still come in time. */
  #signalTime({ lease, run }: Held): number {
    return Math.max(signalTime(lease), run.beganAt + this.context.renewForMs);
  }

  #renews({ run, renewing }: Held): boolean {
    const { renewForMs, clock } = this.context;
    return renewForMs > 0 && !renewing && !run.isSignalled && clock.now() - run.beganAt < renewForMs;
  }

  #reached(run: Run, now: number): void {
    const held = run.attempts
      .flatMap(({ id }) => this.#open.get(id) ?? [])
      .filter(({ ending }) => ending === 0);
    if (held.some(({ lease }) => giveUpTime(lease) <= now)) void this.#timeOut(run);
    else if (held.some((one) => this.#signalTime(one) <= now)) run.signal(new Stop("lease ends"));
    else
      for (const one of held)
        if (this.#renews(one) && renewTime(one.lease) <= now) void this.#renewAlone(one);
  }

  async #renewAlone(held: Held): Promise<void> {
    held.renewing = true;
    // a refusal is reported when it is answered
    await held.attempt.renew(held.lease.lifetimeMs).catch(nothing);
    held.renewing = false;
    this.#watch(held);
  }

  async #timeOut(run: Run): Promise<void> {
    const text = this.#timedOut;
    const open = this.undecided(run);
    run.end(new Stop("timed out", text));
    await settleEach(open, (attempt) => attempt.error(text, { reason: "expired" }));
    this.context.reports.timedOut(this, open);
  }

  // ---- lost units

  /** Ends a run whose attempts are all lost, with the reason if the unit's record has one. */
  async #tellLost(run: Run): Promise<void> {
    // a bulk task goes on while it has other open attempts
    if (run.attempts.some(({ id }) => this.#open.has(id))) return;
    const { lookUp } = this.context;
    const [attempt] = run.attempts;
    const row = run.attempts.length > 1 ? undefined : await lookUp(this.workSpec.name, attempt!.workUnitName);
    run.end(whyLost(row));
  }

  /** Called when another client has ended, reset, replaced or deleted the unit of this run. */
  lost(run: Run, row: WorkUnitRow | null): void {
    const attempts = this.undecided(run);
    if (attempts.length === 0) return;
    for (const { id } of attempts) this.#open.delete(id);
    const why = whyLost(row);
    run.end(why);
    for (const attempt of attempts) this.context.reports.lost(this, attempt, run, why);
    // expire the attempt so that the coordinator stops listing it for this worker
    const changes = attempts.map(({ id }) => ({ attempt: id, action: "expire" as const }));
    this.#underWay++;
    const done = (): void => {
      this.#underWay--;
      this.#closed();
    };
    this.context.settler.settle(changes, done).catch(nothing);
  }

  // ---- requests of tasks

  progress(attempt: Attempt, progress: number | object, note?: string): Promise<void> {
    return caught(
      typeof progress === "number"
        ? this.#report(attempt, { done: progress, note: note ?? "" })
        : this.#write(attempt, progress),
    );
  }

  /** Sends at most one report per interval: of reports in quick succession, the last. */
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
    // data is written by a renew: renew for the time that is left, so that the expiration stays the same
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

/** Reads from the row of a unit why it was lost: deleted, cancelled, or unknown. */
function whyLost(row: WorkUnitRow | null | undefined): Stop {
  if (row === null) return new Stop("lost", "the unit was deleted");
  const data = row?.status === "failed" ? (row.activeAttempt?.data ?? null) : null;
  const text = data === null ? null : dataGetText(data, "traceback");
  return text?.startsWith(cancelled) === true ? new Stop("cancelled", text) : new Stop("lost");
}

/** An attempt whose rejections need no handler: a task that does not await a settlement must not end the process. */
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

/** Prevents an unhandled rejection. Callers that await the promise still get the error; refusals are reported elsewhere. */
function caught<Answer>(promise: Promise<Answer>): Promise<Answer> {
  promise.catch(nothing);
  return promise;
}

/**
 * Returns a factory of verbs with another `settleAttempts`. The factory is called for every claim, so it creates instances of a
 * class, which is cheap: all other verbs come from the prototype, a proxy of the given verbs.
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
