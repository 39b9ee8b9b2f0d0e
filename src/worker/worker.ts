/**
 * A worker claims units of a namespace and runs them in slots of this process until it is stopped. It has one claimer and one
 * settler, which all slots share; slots, which run units; and a heartbeat.
 *
 * The path of a unit: claimer -> claim -> slot -> run -> task -> settler.
 */
import { EventEmitter } from "node:events";
import {
  CoordinateError,
  describeValue,
  endsWithin,
  type AttemptRow,
  type DesiredState,
} from "../core/index.ts";
import type { Namespace } from "../objects/index.ts";
import { Alarms } from "./alarms.ts";
import { CancelWatch } from "./cancel-watch.ts";
import { Claim, settlingVerbs, type ClaimContext } from "./claim.ts";
import { Claimer, type Opened } from "./claimer.ts";
import { noCounts, type WorkerCounts } from "./counts.ts";
import { checkEvent, type WorkerEvents } from "./events.ts";
import { asksOf } from "./asks.ts";
import { guardRejections } from "./guard.ts";
import { Heartbeat } from "./heartbeat.ts";
import { ServerTime } from "./lease.ts";
import { readOptions, type WorkerOptions, type WorkerSettings } from "./options.ts";
import { Reports } from "./reports.ts";
import type { Run } from "./run.ts";
import { taskName, type Runtime } from "./runtime.ts";
import { Settler } from "./settler.ts";
import { Slot, type SlotMode } from "./slot.ts";
import { Specs, type KnownSpec } from "./specs.ts";
import { Stop } from "./stops.ts";
import { bulk, isBulk, type Task } from "./task.ts";
import { PlainError } from "./traceback.ts";
import { LogSender } from "./log-sender.ts";
import { Outage } from "./outage.ts";

/** An immediate stop waits at most this long for pending settlements and the last check-in to be sent. */
const finalSendTimeoutMs = 2000;

const slotModes: Readonly<Record<DesiredState, SlotMode>> = { run: "run", idle: "idle", terminate: "stop" };

/**
 * Call `run()` once. It resolves when the worker has stopped: after `stop()`, when its signal aborts, or when a controller sets
 * the desired state `terminate`. Connection failures and errors in tasks do not end it. It rejects only when the coordinator
 * refuses the first check-in, or with `closed` when the program closes the coordinator before the worker has stopped.
 */
export class Worker extends EventEmitter<WorkerEvents> {
  readonly name: string;
  readonly #ns: string;
  readonly #settings: WorkerSettings;
  readonly #counts = noCounts();
  readonly #settler: Settler;
  readonly #claimer: Claimer<Run>;
  readonly #claims: ClaimContext;
  readonly #slots: readonly Slot[];
  /** Names of the slots that may claim work. */
  #working: readonly string[];
  readonly #heartbeat: Heartbeat;
  readonly #watch: CancelWatch;
  readonly #alarms: Alarms;
  readonly #stopping = new AbortController();
  readonly #stopped: Promise<void>;
  #hasStopped: () => void = () => undefined;
  /** Resolves when the worker stops at once. */
  readonly #abandoned: Promise<void>;
  #hasAbandoned: () => void = () => undefined;
  #state: "new" | "running" | "stopping" | "abandoned" | "stopped" = "new";
  #hasRun = false;
  #stopWasCalled = false;
  #stopTime = 0;
  #graceMs: number;
  #desired: DesiredState = "run";
  readonly #desiredOf = new Map<string, DesiredState>();

  /** Throws `bad_argument` with the name of the option when an option is invalid. */
  constructor(namespace: Namespace, options: WorkerOptions) {
    super();
    (this as EventEmitter).on("newListener", checkEvent);
    // a common mistake is to pass the namespace's name, or the coordinator itself
    const { name: given, verbs: found } = (namespace as Namespace | undefined) ?? {};
    if (typeof given !== "string" || typeof found !== "object")
      throw new CoordinateError(
        "bad_argument",
        `namespace: expected what coordinate.namespace(name) returns, got ${describeValue(namespace)}`,
      );
    const settings = readOptions(options);
    const { clock, random, log, runtimes, lifetimeMs, renewForMs } = settings;
    const { verbs, name: ns } = namespace;
    this.name = settings.name;
    this.#ns = ns;
    this.#settings = settings;
    this.#graceMs = settings.graceMs;
    this.#stopped = new Promise((resolve) => (this.#hasStopped = resolve));
    this.#abandoned = new Promise((resolve) => (this.#hasAbandoned = resolve));

    const outage = new Outage(clock, random, log.child({ worker: this.name }), lifetimeMs, () =>
      this.#endClosed(),
    );
    const serverTime = new ServerTime();
    const settler: Settler = new Settler(
      verbs,
      ns,
      outage,
      settings.gatherMs > 0 ? { clock, ms: settings.gatherMs, isOn: () => this.#hasMore() } : null,
    );
    this.#settler = settler;
    const alarms = new Alarms(clock);
    this.#alarms = alarms;
    const reports = new Reports({
      counts: this.#counts,
      clock,
      alarms,
      log,
      hasListener: (event) => this.listenerCount(event) > 0,
      emit: (event, ...args) => this.#tell(event, ...args),
    });
    this.#claims = {
      settlingVerbs: settlingVerbs(verbs),
      ns,
      settler,
      serverTime,
      clock,
      alarms,
      log,
      logs: new LogSender({ verbs, ns, clock, alarms, log }),
      reports,
      lookUp: async (workSpec, unit) => {
        try {
          return (await verbs.getWorkUnits(ns, workSpec, [unit]))[0];
        } catch {
          // not retried: the unit is known to be lost, and only the reason is missing
          return undefined;
        }
      },
      lifetimeMs,
      renewForMs,
    };
    const claimer: Claimer<Run> = new Claimer<Run>({
      verbs,
      ns,
      clock,
      random,
      alarms,
      outage,
      runtimes,
      specs: new Specs(verbs, ns, clock),
      maxAttempts: settings.maxAttempts,
      waitMs: settings.waitMs,
      pollMs: settings.pollMs,
      ahead: settings.ahead,
      holdMs: settings.holdMs,
      request: {
        lifetimeMs,
        ...(settings.workSpecs.length > 0 && { workSpecs: settings.workSpecs }),
        ...(settings.availableGb > 0 && { availableGb: settings.availableGb }),
        ...(settings.labels.length > 0 && { labels: settings.labels }),
      },
      working: () => this.#working,
      isBehind: () => settler.isBehind,
      onClaimed: (rows, sent) => {
        this.#counts.claimed += rows.length;
        this.#counts.claims++;
        const [first] = rows;
        if (first !== undefined) serverTime.sample(first.startTime, clock.now(), sent);
      },
      open: (rows, spec, settled) => this.#open(rows, spec, settled),
      release: (rows) => this.#release(rows),
    });
    this.#claimer = claimer;
    this.#slots = Array.from(
      { length: settings.concurrency },
      (_, i) => new Slot(`${this.name}/${i + 1}`, claimer),
    );
    this.#working = this.children;
    this.#watch = new CancelWatch({ verbs, ns, clock, log, running: () => this.#running() });
    this.#heartbeat = new Heartbeat({
      verbs,
      ns,
      clock,
      outage,
      serverTime,
      name: this.name,
      parent: settings.parent,
      slots: this.#slots.map((slot) => slot.name),
      everyMs: settings.heartbeatMs,
      environment: () => ({ asks: asksOf(settings), ...settings.environment }),
      modeOf: (worker) => this.#modeOf(worker),
      onDesired: (worker, desired) => this.#applyDesiredState(worker, desired),
    });
  }

  /** Counts since the worker was created. */
  get counts(): Readonly<WorkerCounts> {
    return { ...this.#counts };
  }

  /** The names of the child workers, one for each slot. */
  get children(): readonly string[] {
    return this.#slots.map(({ name }) => name);
  }

  async run(signal?: AbortSignal): Promise<void> {
    // stopped before it ran: there is nothing to do
    if (this.#state === "stopped" && !this.#hasRun) return;
    if (this.#state === "stopped")
      throw new CoordinateError(
        "bad_argument",
        "run: a worker that was stopped cannot run again; create a new one",
      );
    if (this.#state !== "new")
      throw new CoordinateError("bad_argument", "run: the worker is already running");
    this.#hasRun = true;
    this.#state = "running";
    const { log, unhandledRejections } = this.#settings;
    const unguard = unhandledRejections === "log" ? guardRejections(log) : () => undefined;
    const onAbort = (): void => void this.stop();
    signal?.addEventListener("abort", onAbort, { once: true });
    if (signal?.aborted === true) onAbort();
    try {
      await Promise.race([this.#heartbeat.begin(this.#stopping.signal), this.#abandoned]);
      await this.#work();
      if (this.#coordinatorClosed)
        throw new CoordinateError("closed", "before the worker had stopped; stop the worker first");
    } finally {
      signal?.removeEventListener("abort", onAbort);
      unguard();
      this.#alarms.close();
      this.#ended.abort();
      // those of a worker that could not start are still open
      await this.#closeRuntimes(0);
      this.#state = "stopped";
      this.#hasStopped();
    }
  }

  /**
   * Claims no more work and releases units that were claimed ahead. Tasks may run for `graceMs`, then their `signal` is aborted;
   * the worker waits until they return or their lease is about to end. A second call stops at once: it aborts `expired`, gives
   * the pending units back and does not wait for the tasks. The first call after the worker began to stop because of its desired state
   * only waits. Resolves when the worker has stopped.
   */
  async stop({ graceMs = this.#settings.graceMs }: { graceMs?: number } = {}): Promise<void> {
    if (this.#state === "new") {
      this.#state = "stopped";
      await this.#closeRuntimes(0);
    }
    if (this.#state === "stopped") return;
    const isSecond = this.#stopWasCalled;
    this.#stopWasCalled = true;
    if (this.#state === "running") this.#begin(graceMs);
    else if (this.#state === "stopping" && isSecond) await this.#abandon();
    await this.#stopped;
  }

  #begin(graceMs: number): void {
    const { clock } = this.#settings;
    this.#state = "stopping";
    this.#stopTime = clock.now();
    this.#graceMs = graceMs;
    this.#tell("stopping", { worker: this.name });
    this.#claimer.stop();
    for (const slot of this.#slots) slot.set("stop");
    this.#stopping.abort();
    void this.#signalAfterGrace(this.#stopTime + graceMs);
  }

  readonly #ended = new AbortController();

  async #signalAfterGrace(time: number): Promise<void> {
    await this.#settings.clock.waitUntil(time, this.#ended.signal);
    for (const slot of this.#slots) slot.signal(new Stop("worker stops"));
  }

  async #abandon(): Promise<void> {
    this.#state = "abandoned";
    this.#hasAbandoned();
    const reason = new Stop("worker stopped");
    const given = Promise.all(this.#slots.map((slot) => slot.abandon(reason)));
    this.#settler.abandon();
    await this.#sent(given);
    await this.#closeRuntimes(0);
  }

  #coordinatorClosed = false;

  /** Stops at once when the program has closed the coordinator: no outcome can be stored any more. */
  #endClosed(): void {
    if (this.#coordinatorClosed) return;
    this.#coordinatorClosed = true;
    this.#settings.log.error({ worker: this.name }, "the coordinator was closed; the worker stops");
    if (this.#state === "running") this.#begin(0);
    if (this.#state === "stopping") void this.#abandon();
  }

  /** Runs from the first claim to the last settlement. */
  async #work(): Promise<void> {
    const { log } = this.#settings;
    const { name } = this;
    this.#tell("started", { worker: name });
    log.info({ worker: name, namespace: this.#ns, slots: this.#slots.length }, "the worker has started");
    const beating = Promise.all([
      this.#heartbeat.run(this.#ended.signal),
      this.#watch.run(this.#ended.signal),
    ]);
    await Promise.all(this.#slots.map((slot) => slot.run()));
    // also when the slots were terminated one by one and nothing called `stop()`
    this.#claimer.stop();
    const stored = this.#claimer.drained().then(() => this.#settler.idle());
    await Promise.race([stored, this.#abandoned]);
    if (this.#isAbandoned()) await this.#sent(this.#settler.idle());
    else {
      const left = this.#stopTime + this.#graceMs - this.#settings.clock.now();
      await this.#closeRuntimes(Math.max(0, Math.min(left, this.#graceMs)));
    }
    this.#ended.abort();
    await Promise.race([beating, this.#abandoned]);
    // without an answer, a check-in takes minutes
    if (this.#isAbandoned()) await this.#sent(beating);
    if (!this.#coordinatorClosed)
      await this.#sent(
        this.#heartbeat.end().catch((error: unknown) => {
          log.warn({ worker: name, err: error }, "could not report that the worker has stopped");
        }),
      );
    this.#claims.reports.close();
    this.#tell("stopped", { worker: name });
    log.info({ worker: name, ...this.#counts }, "the worker has stopped");
  }

  #isAbandoned(): boolean {
    return this.#state === "abandoned";
  }

  /** Waits until the last requests are answered, but not for long. */
  async #sent(requests: Promise<unknown>): Promise<void> {
    await endsWithin(this.#settings.clock, finalSendTimeoutMs, requests);
  }

  #closed = false;

  async #closeRuntimes(graceMs: number): Promise<void> {
    if (this.#closed) return;
    this.#closed = true;
    const { log, runtimes } = this.#settings;
    const closes = await Promise.allSettled(runtimes.map((runtime) => runtime.close(graceMs)));
    for (const closed of closes)
      if (closed.status === "rejected")
        log.error({ err: closed.reason as unknown }, "a runtime did not close");
  }

  /** Finds the task of the claimed attempts and prepares their runs. */
  async #open(rows: readonly AttemptRow[], spec: KnownSpec, settled: () => void): Promise<Opened<Run>> {
    const { runtime, task } = await findTask(this.#settings.runtimes, spec);
    const claim = new Claim(this.#claims, rows, spec, task, runtime.timedOut ?? "timed out", settled);
    return { runs: claim.runs, runtime, atLeast: isBulk(task) ? task.atLeast : null };
  }

  /** Releases claimed attempts that cannot be run. */
  async #release(rows: readonly AttemptRow[]): Promise<void> {
    const [first] = rows;
    if (first === undefined) return;
    const { worker, workSpec } = first;
    const changes = rows.map(({ id }) => ({ attempt: id, action: "expire" as const, untried: true }));
    try {
      await this.#settler.settle(changes);
      this.#claims.reports.released(
        worker,
        workSpec,
        rows.map(({ workUnit }) => workUnit),
      );
    } catch (error) {
      this.#settings.log.warn({ worker, workSpec, err: error }, "could not release claimed units");
    }
  }

  *#running(): Generator<Run> {
    for (const slot of this.#slots) for (const run of slot.running()) if (!run.isGone) yield run;
  }

  /** Whether more runs will end soon, so that the settler can wait for them. */
  #hasMore(): boolean {
    return this.#claimer.hasReady || this.#slots.some((slot) => slot.hasMore);
  }

  #applyDesiredState(worker: string, desired: DesiredState): void {
    if (worker === this.name) {
      this.#desired = desired;
      if (desired === "terminate" && this.#state === "running") {
        this.#settings.log.info({ worker }, "asked to terminate");
        this.#begin(this.#settings.graceMs);
      }
    } else this.#desiredOf.set(worker, desired);
    for (const slot of this.#slots) {
      const own = this.#desiredOf.get(slot.name) ?? "run";
      slot.set(slotModes[own === "run" ? this.#desired : own]);
    }
    this.#working = this.#slots.filter(({ mode }) => mode === "run").map(({ name }) => name);
    this.#claimer.slotsChanged();
  }

  #modeOf(worker: string): string {
    if (worker === this.name) return this.#state === "running" ? this.#desired : "stopping";
    const slot = this.#slots.find(({ name }) => name === worker);
    if (slot === undefined) return "";
    const { current, mode } = slot;
    if (current !== null) return current.isGone ? "overdue" : "busy";
    return mode === "stop" ? "stopped" : mode === "idle" ? "idle" : "ready";
  }

  #tell<Name extends keyof WorkerEvents>(event: Name, ...args: WorkerEvents[Name]): void {
    try {
      // the base class accepts arguments of any type; they are checked by the signature of this method
      (this as EventEmitter).emit(event, ...args);
    } catch (error) {
      this.#settings.log.error({ err: error, event }, "a listener of the worker threw an error");
    }
  }
}

/** Returns the first runtime that has the task, in the order of the worker's options. */
async function findTask(
  runtimes: readonly Runtime[],
  spec: KnownSpec,
): Promise<{ runtime: Runtime; task: Task }> {
  const serving = runtimes.filter(({ names }) => names.includes(spec.runtime));
  for (const runtime of serving) {
    try {
      const task = await runtime.task(spec);
      if (task !== null) return { runtime, task };
    } catch (error) {
      return { runtime, task: failing(error) };
    }
  }
  const [runtime] = serving;
  if (runtime === undefined) throw new CoordinateError("internal");
  const names = serving.flatMap(({ taskNames }) => taskNames ?? []);
  const have = names.length === 0 ? "this worker has no tasks" : `this worker has ${names.sort().join(", ")}`;
  const missing = `no task ${JSON.stringify(taskName(spec))} for runtime ${JSON.stringify(spec.runtime)}; ${have}`;
  return { runtime, task: failing(new PlainError(missing)) };
}

const failing = (error: unknown): Task =>
  bulk(() => {
    throw error;
  });
