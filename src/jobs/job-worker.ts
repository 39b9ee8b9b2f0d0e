/**
 * A job worker: claims jobs from the queue, runs one function at a time, and stores the outcomes.
 *
 * The steps of a job: claim -> read its data -> give it back if it was cancelled -> read its action -> run its function while the
 * lease is renewed -> store OK or ERROR, in one write with the messages of its return queues.
 *
 * The worker framework does the claims, leases, heartbeats and stops. Functions run in this process only with the
 * `InProcessRunner`.
 */
import type { KeyLike } from "node:crypto";
import {
  CoordinateError,
  encodeData,
  endsWithin,
  isCoordinateError,
  type Clock,
  type ErrorCode,
} from "../core/index.ts";
import type { Attempt, Namespace } from "../objects/index.ts";
import { environment, whyUnstorable, Worker, type Logger, type UnitContext } from "../worker/index.ts";
import { isSigned, type Action } from "./action.ts";
import type { Actions } from "./actions.ts";
import type { RunRequest } from "./child/invoke.ts";
import type { FinishedDependency } from "./current.ts";
import type { DataLoop } from "./data-loop.ts";
import { jobOf, outcomeData, progressData, readJobData, type JobData, type JobOutcome } from "./job.ts";
import type { Queue } from "./queue.ts";
import type { Runner } from "./runner.ts";
import type { CheckInData, WorkerType } from "./worker-record.ts";

export interface JobWorkerSetting {
  readonly namespace: Namespace;
  readonly queue: Queue;
  readonly actions: Actions;
  readonly runner: Runner;
  readonly name: string;
  readonly pool: string | null;
  readonly nr: number;
  readonly type: WorkerType;
  /** The time limit of jobs without their own timeout; Infinity is unlimited. */
  readonly timeoutMs: number;
  /** Also takes inline functions. */
  readonly inline: boolean;
  /** Inline functions must be signed by one of these keys; an empty list also allows unsigned ones. */
  readonly trustedKeys: readonly KeyLike[];
  readonly leaseMs: number;
  readonly heartbeatMs: number;
  /** The delay between asking a function to stop and ending its process. */
  readonly killGraceMs: number;
  /** Takes one job, runs it once, and stops. */
  readonly onetime: boolean;
  readonly log: Logger;
  /** Prints what happens, for people. */
  readonly show: (text: string) => void;
  readonly dataLoop: DataLoop;
  readonly clock: Clock;
  /** Called when the worker took a job, or gave jobs back: the pool may need another worker. */
  readonly onBusy: () => void;
}

/**
 * Short jobs are claimed together and their outcomes are stored together: writing a single outcome takes longer than running the
 * function. Claims grow while all jobs of a claim are settled within a few milliseconds. Larger claims are not faster, and more
 * jobs would be lost with the process of the pool.
 */
const maxAttempts = 16;
/** A job that has not begun this long after its claim, because the job before it runs long, is given back for other workers. */
const holdMs = 80;
/** An outcome waits at most this long to be stored together with others, and not at all when no other job is ready to run. */
const gatherMs = 10;
/** How long a halted worker waits for the outcomes of its jobs to be stored, after their processes have ended. */
const storeTimeoutMs = 5000;
/** How long a worker or a pool that has ended waits for its last requests: the coordinator may not answer. */
export const lastRequestsMs = 2000;
/** How many ids of halted jobs are kept that do not run here: one of these jobs may be claimed and come next. */
const maxHalted = 100;

interface Running {
  readonly stop: AbortController;
}

export class JobWorker {
  readonly name: string;
  readonly nr: number;
  readonly timeStart: number;
  readonly #setting: JobWorkerSetting;
  readonly #worker: Worker;
  readonly #told: CheckInData;
  readonly #stopping = new AbortController();
  readonly #ended = new AbortController();
  #stop: Promise<void> | null = null;
  /** Resolves when the worker has started; rejects when it cannot start. */
  readonly started: Promise<void>;
  #begun: () => void = () => undefined;
  #refused: (error: unknown) => void = () => undefined;
  #isRegistered = false;
  /** Jobs by the name of their unit, in the order in which they were given to the runner. */
  readonly #running = new Map<string, Running>();
  readonly #halted = new Set<string>();
  #idleSince: number;
  #tasks = 0;
  #hasRun = false;

  constructor(setting: JobWorkerSetting) {
    const { name, nr, type, timeoutMs, heartbeatMs, runner, queue, clock } = setting;
    this.#setting = setting;
    this.name = name;
    this.nr = nr;
    this.timeStart = this.#idleSince = clock.now();
    this.started = new Promise((resolve, reject) => {
      this.#begun = resolve;
      this.#refused = reject;
    });
    // callers need not await `started`: its rejection must not count as unhandled
    this.started.catch(() => undefined);
    this.#told = {
      kind: "jobs worker",
      nr,
      type,
      timeout: Number.isFinite(timeoutMs) ? timeoutMs / 1000 : 0,
      time_start: this.timeStart,
      get pid() {
        return runner.pid;
      },
      error: "",
      heartbeat: heartbeatMs,
    };
    this.#worker = new Worker(setting.namespace, {
      name,
      ...(setting.pool !== null && { parent: setting.pool }),
      runtimes: [
        {
          names: setting.inline ? [queue.runtime, queue.inlineRuntime] : [queue.runtime],
          maxAttempts: setting.onetime ? 1 : maxAttempts,
          firstAttempts: 1,
          runsPerSlot: setting.onetime ? 1 : runner.maxQueued,
          timedOut: "the lease expired: the coordinator could not be reached for too long",
          task: () => (unit, context) => this.#task(unit.attempt, context),
          close: () => runner.close(),
        },
      ],
      workSpecs: setting.inline ? [queue.workSpec, queue.inlineWorkSpec] : [queue.workSpec],
      concurrency: 1,
      ahead: !setting.onetime,
      holdMs,
      gatherMs,
      lifetimeMs: setting.leaseMs,
      renewForMs: Infinity,
      heartbeatMs,
      graceMs: Number.MAX_SAFE_INTEGER,
      log: setting.log,
      clock,
      environment: this.#told,
      unhandledRejections: type === "inprocess" ? "log" : "leave",
    });
    this.#worker.on("started", () => {
      this.#isRegistered = true;
      this.#idleSince = clock.now();
      setting.dataLoop.tell("W", name, { state: "WAITING", pid: this.pid, current_job: "" });
      this.#begun();
    });
    this.#worker.on("released", () => setting.onBusy());
    // a renewal was refused: another worker has the job now, or it was deleted
    this.#worker.on("refused", ({ action, unit }) => {
      if (action === "renew")
        this.#running.get(unit)?.stop.abort(new JobTaken("the job was cancelled or taken away"));
    });
  }

  /** Whether the worker runs a job, or has one that has not ended yet. */
  get isBusy(): boolean {
    return this.#tasks > 0;
  }

  /** Whether the worker has ever taken a job. */
  get hasRun(): boolean {
    return this.#hasRun;
  }

  get currentJob(): string {
    const [first] = this.#running.keys();
    return first ?? "";
  }

  get pid(): number {
    return this.#setting.runner.pid;
  }

  /** How long the worker has been idle; 0 while it is busy or still starting. */
  idleMs(now: number): number {
    return this.isBusy || !this.#isRegistered ? 0 : now - this.#idleSince;
  }

  get isStopping(): boolean {
    return this.#stopping.signal.aborted;
  }

  /** Resolves when the worker has stopped, on request or after its only job (`onetime`). Rejects when the coordinator refuses it. */
  async run(): Promise<void> {
    const { runner, dataLoop, clock } = this.#setting;
    try {
      await runner.ready(this.#stopping.signal);
      if (!this.isStopping) await this.#worker.run();
    } catch (error) {
      this.#refused(error);
      throw error;
    } finally {
      this.#stopping.abort();
      await runner.close();
      if (this.#isRegistered) await endsWithin(clock, lastRequestsMs, this.#sayHalted());
      dataLoop.tell("W", this.name, { state: "HALTED", pid: 0, current_job: "" });
      // a worker that was stopped before it began never starts: end the wait for it
      this.#begun();
      this.#ended.abort();
    }
  }

  /** Claims no more jobs; resolves when the running job has ended and the worker has stopped. */
  stop(): Promise<void> {
    this.#stopping.abort();
    // once: the second stop of a worker abandons its tasks
    return (this.#stop ??= this.#worker.stop());
  }

  /**
   * Stops, and ends the running job: it becomes HALTED, or is retried if it may be. An outcome that cannot be stored in time, as in
   * an outage, is given up: the job then ends like that of a lost worker.
   */
  async halt(reason: string): Promise<void> {
    for (const { stop } of this.#running.values()) stop.abort(new Error(reason));
    const stopped = this.stop();
    const { clock, killGraceMs } = this.#setting;
    await clock.waitUntil(clock.now() + killGraceMs + storeTimeoutMs, this.#ended.signal);
    // the second stop of a worker waits for nothing
    if (!this.#ended.signal.aborted) void this.#worker.stop();
    await stopped;
  }

  /** Ends one job as `halt` does; returns false when it does not run here. If it was claimed and has not begun, it will not begin. */
  haltJob(id: string, reason: string): boolean {
    const running = this.#running.get(id);
    if (running !== undefined) {
      running.stop.abort(new Error(reason));
      return true;
    }
    this.#halted.add(id);
    const [oldest] = this.#halted;
    if (this.#halted.size > maxHalted && oldest !== undefined) this.#halted.delete(oldest);
    return false;
  }

  /** Reports a crash of the child process. Before the first child is ready, a crash means that the worker cannot start. */
  crashed(text: string): void {
    this.#told.error = text;
    this.#setting.dataLoop.tell("E", this.name, { message: text });
    this.#setting.show(`${this.name}: ${text}`);
    this.#refused(new CoordinateError("unavailable", text));
  }

  /** Records that the worker stopped in order: without this, an inactive worker could also have been lost. */
  async #sayHalted(): Promise<void> {
    const { namespace, log } = this.#setting;
    const data = encodeData({ ...this.#told, pid: 0 });
    try {
      await namespace.verbs.updateWorkers(namespace.name, [
        { name: this.name, active: true, mode: "stopped", data },
      ]);
      await namespace.verbs.updateWorkers(namespace.name, [{ name: this.name, active: false }]);
    } catch (error) {
      // stop even if the coordinator cannot be reached
      log.warn({ worker: this.name, err: error }, "could not report that the worker has stopped");
    }
  }

  /** Sends the new process id to the coordinator at once instead of with the next heartbeat: a new process runs the functions now. */
  checkIn(): void {
    if (!this.#isRegistered || this.isStopping) return;
    const { namespace, log } = this.#setting;
    const data = encodeData({ ...environment(), slots: 1, ...this.#told });
    namespace.verbs
      .updateWorkers(namespace.name, [{ name: this.name, active: true, mode: "run", data }])
      .catch((error: unknown) => log.debug({ worker: this.name, err: error }, "could not check in"));
  }

  // ---- one job

  async #task(attempt: Attempt, context: UnitContext): Promise<void> {
    const { dataLoop, onBusy, runner, clock } = this.#setting;
    this.#hasRun = true;
    if (this.#tasks++ === 0) onBusy();
    try {
      await this.#runJob(attempt, context);
      // a claimed job must be able to run at once: claim nothing while there is no process to run it
      if (!runner.isReady) await runner.ready(this.#stopping.signal);
      if (this.#setting.onetime) void this.stop();
    } finally {
      if (--this.#tasks === 0) {
        this.#idleSince = clock.now();
        dataLoop.tell("W", this.name, { state: "WAITING", pid: runner.pid, current_job: "" });
      }
    }
  }

  async #runJob(attempt: Attempt, context: UnitContext): Promise<void> {
    const { show, dataLoop, log, onetime, onBusy } = this.#setting;
    const id = attempt.workUnitName;
    let job: JobData;
    try {
      job = readJobData(attempt.data);
    } catch (error) {
      const why = error instanceof Error ? error.message : String(error);
      show(`${this.name}: ${id} is not a job: ${why}`);
      await attempt.failWith(why);
      return;
    }
    if (this.#halted.delete(id)) {
      show(`${this.name}: ${id} was cancelled before it started`);
      // the cancel took the job from this worker, so the release is refused, unless the cancel was undone
      await attempt.release().catch(onlyRefusals);
      return;
    }
    const stop = new AbortController();
    this.#running.set(id, { stop });
    const onSignal = (): void => stop.abort(context.signal.reason);
    context.signal.addEventListener("abort", onSignal, { once: true });
    if (context.signal.aborted) onSignal();
    try {
      const outcome = await this.#outcome(attempt, job, context, stop.signal);
      // check `stop` first: a context creates each of its signals when it is first read
      if (stop.signal.aborted && context.expired.aborted) return;
      if (outcome === null) {
        await attempt.release();
        onBusy();
      } else {
        // requested now, and stored in one write with the claim of the next job
        const stored = this.#settle(attempt, job, outcome);
        const told = dataLoop.push("J", id, stored);
        if (onetime) await told;
        else
          told.catch((error: unknown) =>
            log.error({ job: id, err: error }, "the outcome of a job could not be stored"),
          );
      }
    } finally {
      this.#running.delete(id);
      context.signal.removeEventListener("abort", onSignal);
    }
  }

  /** Null when the job was not begun and must be given back for other workers. */
  async #outcome(
    attempt: Attempt,
    job: JobData,
    context: UnitContext,
    signal: AbortSignal,
  ): Promise<JobOutcome | null> {
    const { runner, timeoutMs, show, log, dataLoop } = this.#setting;
    let request: RunRequest;
    try {
      request = await this.#request(attempt, job);
    } catch (error) {
      if (!isCoordinateError(error)) throw error;
      // the store cannot be reached: this is not an error of the job
      if (cannotAnswer.has(error.code)) {
        log.warn({ job: attempt.workUnitName, err: error }, "a job could not be read and was released");
        return null;
      }
      return failed(error.message);
    }
    return runner.run(request, {
      timeoutMs: job.timeout > 0 ? job.timeout * 1000 : timeoutMs,
      signal,
      onBegun: () => {
        const id = attempt.workUnitName;
        show(`${this.name}: execute ${describe(attempt, job, request.action)}`);
        dataLoop.tell("W", this.name, { state: "BUSY", pid: runner.pid, current_job: id });
        dataLoop.tell("J", id, { state: "RUNNING", name: job.job, worker: this.name });
      },
      onProgress: (value) => {
        context.progress(progressData(job, value)).catch((error: unknown) => {
          log.debug({ job: attempt.workUnitName, err: error }, "the progress of a job was not stored");
        });
      },
    });
  }

  async #request(attempt: Attempt, job: JobData): Promise<RunRequest> {
    const { actions, inline, trustedKeys, queue } = this.#setting;
    const action = await actions.get(job.action);
    const isInline = action.kind === "inline";
    // a caller that may only add units to the other work spec must not get inline code to run
    if (isInline && (!inline || attempt.workSpecName !== queue.inlineWorkSpec))
      throw new CoordinateError(
        "bad_argument",
        `action ${action.key}: this worker does not run inline functions of this queue`,
      );
    if (isInline && trustedKeys.length > 0 && !isSigned(action.key, job.signature, trustedKeys))
      throw new CoordinateError(
        "bad_argument",
        `action ${action.key}: not signed by a key that this worker trusts`,
      );
    return {
      id: attempt.workUnitName,
      name: job.job === "" ? attempt.workUnitName : job.job,
      category: job.category,
      attempt: await this.#tryOf(attempt),
      action,
      args: job.args,
      kwargs: job.kwargs,
      dependencies: await this.#dependencies(job),
    };
  }

  /**
   * The number of this try. Attempts that were given back before they began do not count: they are recognized by
   * their shortened leases.
   */
  async #tryOf({ number, workSpecName, workUnitName }: Attempt): Promise<number> {
    if (number === 1) return 1;
    const { namespace, leaseMs } = this.#setting;
    const attempts = await namespace.verbs.listUnitAttempts(namespace.name, workSpecName, workUnitName);
    const before = attempts.filter((one) => one.number < number);
    const given = before.filter(
      ({ status, startTime, expirationTime }) =>
        status === "expired" && expirationTime - startTime < leaseMs / 2,
    );
    return before.length - given.length + 1;
  }

  async #dependencies({ dependencies }: JobData): Promise<FinishedDependency[]> {
    if (dependencies.length === 0) return [];
    const rows = await this.#setting.queue.find(dependencies);
    return rows.flatMap((found) => {
      if (found === null) return [];
      const { id, name, state, result } = jobOf(found.row);
      return state === "OK" || state === "ERROR" ? [{ id, name, state, result }] : [];
    });
  }

  /** Stores the outcome and returns the data of its event; null when the coordinator refused the outcome. */
  async #settle(
    attempt: Attempt,
    job: JobData,
    outcome: JobOutcome,
  ): Promise<Record<string, unknown> | null> {
    const { show, log, onetime } = this.#setting;
    const id = attempt.workUnitName;
    let again = false;
    try {
      if (outcome.state === "OK") await this.#finish(attempt, job, outcome);
      else {
        const data = outcomeData(job, outcome);
        // the retry policy of the unit decides whether it is tried again
        const changed =
          onetime || job.retries === 0 ? await attempt.fail(data) : await attempt.error(undefined, { data });
        again = changed.retry !== undefined;
      }
    } catch (error) {
      // the job was cancelled, replaced or deleted while it ran: its outcome is dropped
      if (!isCoordinateError(error)) throw error;
      log.info({ job: id, err: error }, "the outcome of a job was refused");
      show(`${this.name}: ${id} was taken away: ${error.message}`);
      return null;
    }
    const name = job.job === "" ? id : job.job;
    const why = outcome.state === "OK" ? "" : ` (${outcome.category}) ${outcome.error.traceback}`;
    show(`${this.name}: ${outcome.state} ${name}${again ? ", to be tried again" : ""}${why}`);
    const told =
      outcome.state === "OK" ? {} : { error_cat: outcome.category, message: outcome.error.message };
    return { state: again ? "NEW" : outcome.state, name, worker: this.name, ...told };
  }

  /** A result that cannot be stored, because it is too large, fails the job with this reason as its error. */
  async #finish(attempt: Attempt, job: JobData, outcome: JobOutcome): Promise<void> {
    try {
      await attempt.finish(outcomeData(job, outcome));
    } catch (error) {
      const why = whyUnstorable(error);
      if (why === null) throw error;
      await attempt.fail(outcomeData(job, failed(why)));
    }
  }
}

/** Errors of the system, not of the request. */
const cannotAnswer: ReadonlySet<string> = new Set<ErrorCode>([
  "unavailable",
  "unknown_outcome",
  "closed",
  "internal",
]);

class JobTaken extends Error {
  override readonly name = "JobTaken";
}

function onlyRefusals(error: unknown): void {
  if (!isCoordinateError(error)) throw error;
}

const failed = (message: string): JobOutcome & { state: "ERROR" } => ({
  state: "ERROR",
  category: "ERROR",
  error: { message, traceback: message, phase: "load" },
});

function describe(attempt: Attempt, { job }: JobData, { kind, module, methodname }: Action): string {
  const what = kind === "inline" ? methodname : `${module}#${methodname}`;
  return `${job === "" ? attempt.workUnitName : job} ${what}, attempt ${attempt.number}`;
}
