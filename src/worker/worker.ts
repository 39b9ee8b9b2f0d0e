/**
 * A worker: asks a namespace for work and runs it in slots of this process, until it is told to stop. It is made of one
 * claimer and one settler, which all slots share; slots, which run batches; and a heartbeat.
 *
 * A batch goes claimer -> slot -> batch -> task -> settler.
 */
import { CoordinateError, type AttemptRow, type DesiredState } from "../core/index.ts";
import type { Namespace } from "../objects/index.ts";
import { Alarms } from "./alarms.ts";
import { settlingVerbs } from "./batch.ts";
import { asksOf } from "./asks.ts";
import { Claimer } from "./claimer.ts";
import { noCounts, type WorkerCounts, type WorkerEvent } from "./counts.ts";
import { guardRejections } from "./guard.ts";
import { Heartbeat } from "./heartbeat.ts";
import { ServerTime } from "./lease.ts";
import { readOptions, type WorkerOptions, type WorkerSettings } from "./options.ts";
import { Settler } from "./settler.ts";
import { Slot, type SlotMode } from "./slot.ts";
import { Specs } from "./specs.ts";
import { Trouble } from "./trouble.ts";

/** A stop at once waits no longer than this for the coordinator to be told. */
const lastWordsMs = 2000;

const slotModes: Readonly<Record<DesiredState, SlotMode>> = { run: "run", idle: "idle", terminate: "stop" };

/**
 * `run()` once; it resolves when the worker has stopped: after `stop()`, when its signal aborts, or when a controller asks
 * for `terminate`. Troubles of the connection and errors in tasks do not end it. It rejects only when the
 * coordinator refuses it from the start.
 */
export class Worker {
  readonly name: string;
  readonly #ns: string;
  readonly #settings: WorkerSettings;
  readonly #counts = noCounts();
  readonly #settler: Settler;
  readonly #slots: readonly Slot[];
  readonly #heartbeat: Heartbeat;
  readonly #alarms: Alarms;
  readonly #stopping = new AbortController();
  readonly #stopped: Promise<void>;
  #hasStopped: () => void = () => undefined;
  #state: "new" | "running" | "stopping" | "abandoned" | "stopped" = "new";
  #stopTime = 0;
  #graceMs: number;
  #desired: DesiredState = "run";
  readonly #desiredOf = new Map<string, DesiredState>();

  /** Throws `bad_argument`, naming the option, when one makes no sense. */
  constructor(namespace: Namespace, options: WorkerOptions) {
    const settings = readOptions(options);
    const { clock, random, log, runtimes, lifetimeMs } = settings;
    const { verbs, name: ns } = namespace;
    this.name = settings.name;
    this.#ns = ns;
    this.#settings = settings;
    this.#graceMs = settings.graceMs;
    this.#stopped = new Promise((resolve) => (this.#hasStopped = resolve));

    const trouble = new Trouble(clock, random, log.child({ worker: this.name }));
    const serverTime = new ServerTime();
    const settler = new Settler(verbs, ns, trouble);
    this.#settler = settler;
    const release = (rows: readonly AttemptRow[]): Promise<void> => this.#release(rows);
    const claimer = new Claimer({
      verbs,
      ns,
      clock,
      random,
      trouble,
      runtimes,
      specs: new Specs(verbs, ns, clock),
      maxAttempts: settings.maxAttempts,
      waitMs: settings.waitMs,
      pollMs: settings.pollMs,
      request: {
        lifetimeMs,
        ...(settings.workSpecs.length > 0 && { workSpecs: settings.workSpecs }),
        ...(settings.availableGb > 0 && { availableGb: settings.availableGb }),
      },
      onClaimed: (rows) => {
        this.#counts.claimed += rows.length;
        this.#counts.batches++;
        const [first] = rows;
        if (first !== undefined) serverTime.sample(first.startTime, clock.now());
      },
      release,
    });
    const tell = (event: WorkerEvent): void => this.#tell(event);
    const { renewForMs, ahead } = settings;
    const counts = this.#counts;
    const alarms = new Alarms(clock);
    this.#alarms = alarms;
    const batch = {
      settlingVerbs: settlingVerbs(verbs),
      alarms,
      ns,
      settler,
      serverTime,
      clock,
      log,
      counts,
      tell,
      lifetimeMs,
      renewForMs,
    };
    this.#slots = Array.from(
      { length: settings.concurrency },
      (_, i) => new Slot(`${this.name}/${i + 1}`, { claimer, batch, clock, alarms, ahead, release }),
    );
    this.#heartbeat = new Heartbeat({
      verbs,
      ns,
      clock,
      trouble,
      serverTime,
      name: this.name,
      parent: settings.parent,
      slots: this.#slots.map((slot) => slot.name),
      everyMs: settings.heartbeatMs,
      environment: { asks: asksOf(settings), ...settings.environment },
      modeOf: (worker) => this.#modeOf(worker),
      onDesired: (worker, desired) => this.#obey(worker, desired),
    });
  }

  /** What it has done since it was made. */
  get counts(): Readonly<WorkerCounts> {
    return { ...this.#counts };
  }

  /** The names of its children, one for each slot. */
  get children(): readonly string[] {
    return this.#slots.map(({ name }) => name);
  }

  async run(signal?: AbortSignal): Promise<void> {
    if (this.#state === "stopped") return;
    if (this.#state !== "new") throw new CoordinateError("bad_argument", "run: the worker runs already");
    this.#state = "running";
    const { log, unhandledRejections } = this.#settings;
    const unguard = unhandledRejections === "log" ? guardRejections(log) : () => undefined;
    const onAbort = (): void => void this.stop();
    signal?.addEventListener("abort", onAbort, { once: true });
    if (signal?.aborted === true) onAbort();
    try {
      await this.#heartbeat.begin(this.#stopping.signal);
      await this.#work();
    } finally {
      signal?.removeEventListener("abort", onAbort);
      unguard();
      this.#alarms.close();
      this.#state = "stopped";
      this.#hasStopped();
    }
  }

  /**
   * Takes no more work and gives back at once what was claimed ahead. Tasks may go on for `graceMs`, then their signal is
   * aborted; they are waited for until they return or their lease is about to end. Called a second time, it ends at
   * once: the tasks are told that it is over, what they hold is given back, and they are not waited for.
   * Resolves when the worker has stopped.
   */
  async stop({ graceMs = this.#settings.graceMs }: { graceMs?: number } = {}): Promise<void> {
    if (this.#state === "new") this.#state = "stopped";
    if (this.#state === "stopped") return;
    if (this.#state === "running") this.#begin(graceMs);
    else if (this.#state === "stopping") await this.#abandon();
    await this.#stopped;
  }

  #begin(graceMs: number): void {
    const { clock } = this.#settings;
    this.#state = "stopping";
    this.#stopTime = clock.now();
    this.#graceMs = graceMs;
    this.#tell({ type: "stopping", worker: this.name });
    for (const slot of this.#slots) slot.set("stop");
    this.#stopping.abort();
    void this.#signalAfterGrace(this.#stopTime + graceMs);
  }

  readonly #ended = new AbortController();

  async #signalAfterGrace(time: number): Promise<void> {
    await this.#settings.clock.waitUntil(time, this.#ended.signal);
    for (const slot of this.#slots) slot.signal(new Error("the worker stops"));
  }

  async #abandon(): Promise<void> {
    this.#state = "abandoned";
    const reason = new Error("the worker has stopped");
    const given = Promise.all(this.#slots.map((slot) => slot.abandon(reason)));
    this.#settler.abandon();
    await this.#within(lastWordsMs, given);
    await this.#closeRuntimes(0);
  }

  /** From the first claim to the last settle. */
  async #work(): Promise<void> {
    const { log } = this.#settings;
    const { name } = this;
    this.#tell({ type: "started", worker: name });
    log.info({ worker: name, namespace: this.#ns, slots: this.#slots.length }, "the worker runs");
    const beating = this.#heartbeat.run(this.#ended.signal);
    await Promise.all(this.#slots.map((slot) => slot.run()));
    const releases = Promise.all(this.#releases);
    if (this.#isAbandoned()) await this.#within(lastWordsMs, releases);
    else {
      await releases;
      const left = this.#stopTime + this.#graceMs - this.#settings.clock.now();
      await this.#closeRuntimes(Math.max(0, Math.min(left, this.#graceMs)));
    }
    this.#ended.abort();
    await beating;
    await this.#within(
      lastWordsMs,
      this.#heartbeat.end().catch((error: unknown) => {
        log.warn({ worker: name, err: error }, "could not say that the worker has stopped");
      }),
    );
    this.#tell({ type: "stopped", worker: name });
    log.info({ worker: name, ...this.#counts }, "the worker has stopped");
  }

  #isAbandoned(): boolean {
    return this.#state === "abandoned";
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

  /** Waits for it, but no longer than this. */
  async #within(ms: number, work: Promise<unknown>): Promise<void> {
    const { clock } = this.#settings;
    const done = new AbortController();
    void work.finally(() => done.abort());
    await clock.waitUntil(clock.now() + ms, done.signal);
  }

  readonly #releases = new Set<Promise<unknown>>();

  async #release(rows: readonly AttemptRow[]): Promise<void> {
    const [first] = rows;
    if (first === undefined) return;
    const { log } = this.#settings;
    const { worker, workSpec } = first;
    this.#counts.released += rows.length;
    log.debug({ worker, workSpec, count: rows.length }, "given back untried");
    const units = rows.map(({ workUnit }) => workUnit);
    const changes = rows.map(({ id }) => ({ attempt: id, action: "expire" as const, untried: true }));
    const released = this.#settler.settle(changes).then(
      () => this.#tell({ type: "released", worker, workSpec, units }),
      (error: unknown) =>
        log.warn({ worker, workSpec, err: error }, "could not give back what was claimed ahead"),
    );
    this.#releases.add(released);
    await released;
    this.#releases.delete(released);
  }

  #obey(worker: string, desired: DesiredState): void {
    if (worker === this.name) {
      this.#desired = desired;
      if (desired === "terminate" && this.#state === "running") {
        this.#settings.log.info({ worker }, "asked to terminate");
        void this.stop();
      }
    } else this.#desiredOf.set(worker, desired);
    for (const slot of this.#slots) {
      const own = this.#desiredOf.get(slot.name) ?? "run";
      slot.set(slotModes[own === "run" ? this.#desired : own]);
    }
  }

  #modeOf(worker: string): string {
    if (worker === this.name) return this.#state === "running" ? this.#desired : "stopping";
    const slot = this.#slots.find(({ name }) => name === worker);
    if (slot === undefined) return "";
    const { current, mode } = slot;
    if (current !== null) return current.isGone ? "overdue" : "busy";
    return mode === "stop" ? "stopped" : mode === "idle" ? "idle" : "ready";
  }

  #tell(event: WorkerEvent): void {
    try {
      this.#settings.onEvent(event);
    } catch (error) {
      this.#settings.log.error({ err: error }, "whoever listens to the worker threw an error");
    }
  }
}
