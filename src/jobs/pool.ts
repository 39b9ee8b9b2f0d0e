/**
 * A pool of worker processes. The main loop keeps as many workers as there is work for, within the bounds; the data loop
 * publishes what they report. The pool ignores workers that it did not start.
 */
import { hostname, availableParallelism } from "node:os";
import { CoordinateError, endsWithin, type Clock } from "../core/index.ts";
import type { Namespace } from "../objects/index.ts";
import { Actions } from "./actions.ts";
import { DataLoop } from "./data-loop.ts";
import { EventLog, type JobEvent } from "./events.ts";
import { JobWorker, lastRequestsMs } from "./job-worker.ts";
import {
  checkKnown,
  readWorkerOptions,
  span,
  workerOptionNames,
  type JobWorkerOptions,
  type JobWorkerSettings,
} from "./options.ts";
import { ProcessRunner } from "./process-runner.ts";
import type { Queue } from "./queue.ts";
import { poolData } from "./worker-record.ts";
import { wantedWorkers } from "./scale.ts";

export interface PoolOptions extends JobWorkerOptions {
  /** Unique among running pools; made of the host, the process id and a count when absent. */
  name?: string;
  /** The minimum number of processes, kept even when idle; 1 by default. */
  workers_nr_min?: number;
  /** The maximum number of processes; the number of processors by default. */
  workers_nr_max?: number;
  /** A surplus process is stopped after it has been idle for this long; 10 s by default. */
  idleTimeoutMs?: number;
  /** The main loop checks the load this often, and whenever a worker becomes busy; 1 s by default. */
  tickMs?: number;
}

export interface StopOptions {
  /** Lets running jobs finish; otherwise they are ended. True by default. */
  graceful?: boolean;
  /** How long running jobs may take to finish before they are ended; 60 s by default. */
  timeoutMs?: number;
}

interface Member {
  readonly worker: JobWorker;
  readonly ended: Promise<void>;
}

let pools = 0;
/** The minimum time between two checks of the main loop. */
const minTickMs = 20;

export class JobPool {
  readonly name: string;
  readonly workersMin: number;
  readonly workersMax: number;
  /** Resolves when the pool has stopped. */
  readonly stopped: Promise<void>;
  readonly #namespace: Namespace;
  readonly #queue: Queue;
  readonly #clock: Clock;
  readonly #settings: JobWorkerSettings;
  readonly #actions: Actions;
  readonly #events: EventLog;
  readonly #dataLoop: DataLoop;
  readonly #members = new Map<number, Member>();
  readonly #stopping = new AbortController();
  readonly #idleTimeoutMs: number;
  readonly #tickMs: number;
  #wake = new AbortController();
  #ended: () => void = () => undefined;
  #loops: Promise<unknown> = Promise.resolve();
  #stop: Promise<void> | null = null;

  /** Throws `bad_argument`, naming the option. Nothing is started. */
  constructor(namespace: Namespace, queue: Queue, clock: Clock, options: PoolOptions) {
    const own = ["name", "workers_nr_min", "workers_nr_max", "idleTimeoutMs", "tickMs"];
    checkKnown(options, [...own, ...workerOptionNames]);
    this.#settings = readWorkerOptions(options);
    this.workersMin = count("workers_nr_min", options.workers_nr_min, 1, 0);
    const processors = Math.max(availableParallelism(), this.workersMin);
    this.workersMax = count(
      "workers_nr_max",
      options.workers_nr_max,
      processors,
      Math.max(1, this.workersMin),
    );
    this.#idleTimeoutMs = span("idleTimeoutMs", options.idleTimeoutMs, 10_000, 0);
    this.#tickMs = span("tickMs", options.tickMs, 1000, minTickMs);
    this.name = options.name ?? `jobs-${hostname()}-${process.pid}-${++pools}`;
    this.#namespace = namespace;
    this.#queue = queue;
    this.#clock = clock;
    this.#actions = new Actions(namespace.verbs, namespace.name);
    this.#events = new EventLog(() => clock.now());
    this.#dataLoop = new DataLoop(this.#events);
    this.stopped = new Promise((resolve) => (this.#ended = resolve));
  }

  /** The workers by number: those that the pool started and that have not ended. */
  get workers(): ReadonlyMap<number, JobWorker> {
    return new Map([...this.#members].map(([nr, { worker }]) => [nr, worker]));
  }

  readonly loops = ["mainloop", "dataloop"] as const;

  /** Yields the events after number `since`, then each new event, until the pool has stopped. */
  events({ since = 0 }: { since?: number } = {}): AsyncGenerator<JobEvent, void, undefined> {
    return this.#events.read(since);
  }

  /** Resolves when the first worker has started. If it cannot start, the pool is stopped again and the error is thrown. */
  async start(): Promise<void> {
    await this.#checkIn(true);
    this.#loops = Promise.all([this.#mainLoop(), this.#heartbeat()]);
    const [first] = this.#members.values();
    if (first === undefined) return;
    try {
      await first.worker.started;
    } catch (error) {
      await this.stop({ graceful: false });
      throw error;
    }
  }

  /** Ends a job that runs in this pool; returns false when it does not run here. */
  haltJob(id: string, reason: string): boolean {
    return [...this.#members.values()].some(({ worker }) => worker.haltJob(id, reason));
  }

  /** Claims no more jobs and resolves when all processes have ended. A second call with `graceful: false` ends the jobs that still run. */
  async stop({ graceful = true, timeoutMs = 60_000 }: StopOptions = {}): Promise<void> {
    if (!graceful) this.#haltAll("the pool was stopped");
    this.#stop ??= this.#stopAll(graceful ? timeoutMs : 0);
    await this.#stop;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.stop();
  }

  async #stopAll(timeoutMs: number): Promise<void> {
    this.#stopping.abort();
    this.#look();
    const ends = [...this.#members.values()].map(async ({ worker, ended }) => {
      await worker.stop();
      await ended;
    });
    const all = Promise.all(ends);
    if (!(await endsWithin(this.#clock, timeoutMs, all))) this.#haltAll("the pool was stopped");
    await all;
    // stop even if the coordinator does not answer
    await endsWithin(this.#clock, lastRequestsMs, Promise.all([this.#loops, this.#dataLoop.drained()]));
    await endsWithin(this.#clock, lastRequestsMs, this.#sayStopped());
    this.#events.end();
    this.#ended();
  }

  async #sayStopped(): Promise<void> {
    try {
      await this.#checkIn(false);
    } catch (error) {
      this.#settings.log.warn({ pool: this.name, err: error }, "could not report that the pool has stopped");
    }
  }

  #haltAll(reason: string): void {
    for (const { worker } of this.#members.values()) void worker.halt(reason);
  }

  // ---- the main loop

  async #mainLoop(): Promise<void> {
    const { signal } = this.#stopping;
    // start the minimum at once, without asking how many jobs wait
    while (this.#count() < this.workersMin) this.#add();
    while (!signal.aborted) {
      try {
        await this.#scale();
      } catch (error) {
        this.#settings.log.warn({ pool: this.name, err: error }, "could not count the waiting jobs");
      }
      const now = this.#clock.now();
      await this.#clock.waitUntil(now + minTickMs, signal);
      await this.#clock.waitUntil(now + this.#tickMs, AbortSignal.any([signal, this.#wake.signal]));
      if (this.#wake.signal.aborted) this.#wake = new AbortController();
    }
  }

  async #scale(): Promise<void> {
    const count = this.#count();
    const busy = [...this.#members.values()].filter(({ worker }) => worker.isBusy).length;
    // at the maximum, or with idle workers, the number of waiting jobs is not needed
    const idle = count - busy;
    const waiting = count < this.workersMax && idle === 0 ? await this.#waiting() : 0;
    if (this.#stopping.signal.aborted) return;
    const wanted = wantedWorkers({ busy, waiting, min: this.workersMin, max: this.workersMax });
    // stopping workers count toward the maximum until their processes have ended
    while (this.#count() < wanted && this.#members.size < this.workersMax) this.#add();
    if (this.#count() > wanted) await this.#removeOne();
  }

  async #waiting(): Promise<number> {
    const rows = await this.#namespace.verbs.tally(this.#namespace.name);
    const workSpecs = this.#settings.inline ? this.#queue.workSpecs : [this.#queue.workSpec];
    return rows
      .filter(({ workSpec }) => workSpecs.includes(workSpec))
      .reduce((sum, { counts }) => sum + counts.available, 0);
  }

  #count(): number {
    let count = 0;
    for (const { worker } of this.#members.values()) if (!worker.isStopping) count++;
    return count;
  }

  #look(): void {
    if (!this.#wake.signal.aborted) this.#wake.abort("workers changed");
  }

  /** Stops one idle worker, the newest first: the older ones have already loaded their modules. */
  async #removeOne(): Promise<void> {
    const now = this.#clock.now();
    const idle = [...this.#members.values()].filter(({ worker }) => {
      const idleMs = worker.idleMs(now);
      return !worker.isStopping && idleMs > 0 && idleMs >= this.#idleTimeoutMs;
    });
    const newest = idle.at(-1)?.worker;
    if (newest === undefined || (!newest.hasRun && (await this.#mayGetJob(newest)))) return;
    // meanwhile it may have got a job
    if (!newest.isBusy) void newest.stop();
  }

  /**
   * Whether there is a job for a worker that has not run any: its first claim may take longer than the idle timeout. Stopped then,
   * it would return the job, and so would each worker that is started in its place.
   */
  async #mayGetJob({ name }: JobWorker): Promise<boolean> {
    // in this order: a job that is claimed between the two calls is seen by the second one
    if ((await this.#waiting()) > 0) return true;
    const { verbs, name: ns } = this.#namespace;
    const { rows } = await verbs.listWorkerAttempts(ns, name, { which: "children", limit: 1 });
    return rows.length > 0;
  }

  #add(): void {
    let nr = 1;
    while (this.#members.has(nr)) nr++;
    const { show, log, ...settings } = this.#settings;
    const name = `${this.name}/w${nr}`;
    const runner = new ProcessRunner({
      ...settings,
      graceMs: settings.killGraceMs,
      onLine: (stream, line) => show(`${name}: ${stream}: ${line}`),
      onCrash: (text) => worker.crashed(text),
      onStarted: () => worker.checkIn(),
    });
    const worker: JobWorker = new JobWorker({
      ...settings,
      namespace: this.#namespace,
      queue: this.#queue,
      actions: this.#actions,
      runner,
      name,
      pool: this.name,
      nr,
      type: "process",
      onetime: false,
      log,
      show,
      dataLoop: this.#dataLoop,
      clock: this.#clock,
      onBusy: () => this.#look(),
    });
    const ended = worker
      .run()
      .catch((error: unknown) => {
        log.error({ worker: name, err: error }, "a worker failed");
      })
      .then(() => {
        this.#members.delete(nr);
        this.#look();
      });
    this.#members.set(nr, { worker, ended });
  }

  // ---- check-ins

  async #heartbeat(): Promise<void> {
    const { signal } = this.#stopping;
    while (!signal.aborted) {
      await this.#clock.waitUntil(this.#clock.now() + this.#settings.heartbeatMs, signal);
      try {
        if (!this.#stopping.signal.aborted && (await this.#checkIn(true)) === "terminate") void this.stop();
      } catch (error) {
        this.#settings.log.warn({ pool: this.name, err: error }, "could not check in");
      }
    }
  }

  async #checkIn(active: boolean): Promise<string> {
    const { workersMin: min, workersMax: max } = this;
    const data = poolData({ min, max, workers: this.#count() });
    const [row] = await this.#namespace.verbs.updateWorkers(this.#namespace.name, [
      active ? { name: this.name, active, mode: "run", data } : { name: this.name, active, mode: "stopped" },
    ]);
    return row?.desired ?? "run";
  }
}

function count(option: string, value: number | undefined, otherwise: number, min: number): number {
  const given = value ?? otherwise;
  if (!Number.isSafeInteger(given) || given < min)
    throw new CoordinateError(
      "bad_argument",
      `${option}: expected an integer of ${min} or more, got ${String(given)}`,
    );
  return given;
}
