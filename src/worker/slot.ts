/**
 * A slot takes a run from the claimer, waits until it has ended, and takes the next. For a runtime with `runsPerSlot` above 1, it starts
 * further claimed runs before the earlier ones have ended. Each slot is a child worker.
 */
import type { Claimer, Taken } from "./claimer.ts";
import type { Run } from "./run.ts";
import type { Stop } from "./stops.ts";

export type SlotMode = "run" | "idle" | "stop";

export class Slot {
  readonly name: string;
  readonly #claimer: Claimer<Run>;
  #mode: SlotMode = "run";
  /** Wakes up an idle slot when its mode changes. */
  #modeChanged: () => void = nothing;
  /** The current runs, in the order in which they began. */
  readonly #current = new Set<Taken<Run>>();
  /** Wakes up a slot that is full, or that stops, when a run has ended. */
  #hasRoom: () => void = nothing;
  /** Resolves `run()` without waiting for the tasks. */
  #leave: () => void = nothing;
  /**
   * The `onGone` callback of all runs. A slot waits even for tasks whose attempts were given up, since they still use resources; only a
   * slot that stops does not wait for them.
   */
  readonly #gone = (): void => {
    for (const { run } of this.#current) if (!run.isGone) return;
    if (this.#mode === "stop") this.#abandoned();
  };

  constructor(name: string, claimer: Claimer<Run>) {
    this.name = name;
    this.#claimer = claimer;
  }

  get mode(): SlotMode {
    return this.#mode;
  }

  /** The current run, or the first of several. */
  get current(): Run | null {
    const [first] = this.#current;
    return first?.run ?? null;
  }

  *running(): Generator<Run> {
    for (const { run } of this.#current) yield run;
  }

  /** Whether it has more than one run in progress. */
  get hasMore(): boolean {
    return this.#current.size > 1;
  }

  /** Takes and starts runs. Resolves when the slot is stopped and its runs have ended. Never rejects. */
  run(): Promise<void> {
    return new Promise((resolve) => {
      this.#leave = resolve;
      void this.#work().then(resolve);
    });
  }

  async #work(): Promise<void> {
    while (this.#mode !== "stop") {
      if (this.#mode === "idle") {
        await new Promise<void>((resolve) => (this.#modeChanged = resolve));
        continue;
      }
      let taken = this.#claimer.take();
      if (taken === null) {
        taken = await this.#claimer.next(this.name, this.#current.size > 0);
        if (taken === null) continue;
        // other slots were given runs at the same time, and theirs may have blocked the event loop
        for (let wait = this.#claimer.later(); wait !== null; wait = this.#claimer.later()) await wait;
      }
      if (this.#isRunning()) {
        const { run, runsPerSlot } = taken;
        this.#current.add(taken);
        run.onGone = this.#gone;
        // creates no promise of its own: this code runs for every unit
        const running = run.start();
        if (running === undefined) this.#end(taken);
        else if (runsPerSlot === 1) {
          await running;
          this.#end(taken);
        } else {
          void running.then(() => this.#end(taken));
          if (this.#current.size >= runsPerSlot) await this.#room();
        }
      } else {
        void taken.run.release();
        taken.ended();
      }
    }
    while (this.#current.size > 0) await this.#room();
  }

  /** Resolves when one of the current runs has ended. */
  #room(): Promise<void> {
    return new Promise((resolve) => (this.#hasRoom = resolve));
  }

  /** `idle` takes no work for now, `stop` never again; current runs go on. `run` takes work again after `idle`. */
  set(mode: SlotMode): void {
    if (this.#mode === "stop" || this.#mode === mode) return;
    this.#mode = mode;
    this.#modeChanged();
    this.#claimer.withdraw(this.name);
    if (this.#current.size > 0) this.#gone();
  }

  /** Asks its tasks to end. */
  signal(reason: Stop): void {
    for (const run of this.running()) run.signal(reason);
  }

  /** Stops the slot, tells its tasks that their attempts are given up, gives their units back, and does not wait for the tasks. */
  async abandon(reason: Stop): Promise<void> {
    this.set("stop");
    await Promise.all([...this.running()].map((run) => run.abandon(reason)));
    this.#abandoned();
  }

  /** Reads the mode again after an `await`, where the compiler would assume its earlier value. */
  #isRunning(): boolean {
    return this.#mode === "run";
  }

  #abandoned(): void {
    for (const taken of [...this.#current]) this.#end(taken);
    this.#leave();
  }

  #end(taken: Taken<Run>): void {
    if (!this.#current.delete(taken)) return;
    // no runs left: the slot is no longer busy
    if (this.#current.size === 0) this.#claimer.isFree(this.name);
    taken.ended();
    this.#hasRoom();
  }
}

const nothing = (): void => undefined;
