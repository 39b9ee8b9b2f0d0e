/**
 * One place to work: takes a run from the claimer, waits until it has ended, takes the next. Where a runtime does several in a row, those that were
 * claimed are begun before the earlier ones have ended. A slot is a child worker.
 */
import type { Claimer, Taken } from "./claimer.ts";
import type { Run } from "./run.ts";
import type { Stop } from "./stops.ts";

export type SlotMode = "run" | "idle" | "stop";

export class Slot {
  readonly name: string;
  readonly #claimer: Claimer<Run>;
  #mode: SlotMode = "run";
  /** Wakes a slot that is idle when its mode changes. */
  #modeChanged: () => void = nothing;
  /** What it runs now, in order. */
  readonly #current = new Set<Taken<Run>>();
  /** Wakes a slot that has as much as it may. */
  #hasRoom: () => void = nothing;
  /** Ends `run` without waiting for the task. */
  #leave: () => void = nothing;
  /** One for all runs: a task whose attempts were given up is waited for, since it may still use what it uses, unless the slot stops. */
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

  /** What it runs now, the first of several. */
  get current(): Run | null {
    const [first] = this.#current;
    return first?.run ?? null;
  }

  *running(): Generator<Run> {
    for (const { run } of this.#current) yield run;
  }

  /** Whether it has more than one under way. */
  get hasMore(): boolean {
    return this.#current.size > 1;
  }

  /** Works until it is stopped and what it runs has ended. Never rejects. */
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
      const taken = this.#claimer.take() ?? (await this.#claimer.next(this.name, this.#current.size > 0));
      if (taken === null) continue;
      if (this.#isRunning()) {
        const { run, inARow } = taken;
        this.#current.add(taken);
        run.onGone = this.#gone;
        // no promise of its own: this is once for every unit of a busy worker
        const running = run.start();
        if (running === undefined) this.#end(taken);
        else if (inARow === 1) {
          await running;
          this.#end(taken);
        } else {
          void running.then(() => this.#end(taken));
          if (this.#current.size >= inARow) await this.#room();
        }
      } else {
        void taken.run.release();
        taken.ended();
      }
    }
    while (this.#current.size > 0) await this.#room();
  }

  /** Resolves when one of those it runs has ended. */
  #room(): Promise<void> {
    return new Promise((resolve) => (this.#hasRoom = resolve));
  }

  /** Takes no more work, now or for ever; what it runs goes on. */
  set(mode: SlotMode): void {
    if (this.#mode === "stop" || this.#mode === mode) return;
    this.#mode = mode;
    this.#modeChanged();
    this.#claimer.withdraw(this.name);
    if (this.#current.size > 0) this.#gone();
  }

  /** Tells the task to come to an end. */
  signal(reason: Stop): void {
    for (const run of this.running()) run.signal(reason);
  }

  /** Tells the task that it is over, gives back its open attempts, and does not wait for it any longer. */
  async abandon(reason: Stop): Promise<void> {
    this.set("stop");
    await Promise.all([...this.running()].map((run) => run.abandon(reason)));
    this.#abandoned();
  }

  /** Read anew: the mode changes while one waits. */
  #isRunning(): boolean {
    return this.#mode === "run";
  }

  #abandoned(): void {
    for (const taken of [...this.#current]) this.#end(taken);
    this.#leave();
  }

  #end(taken: Taken<Run>): void {
    if (!this.#current.delete(taken)) return;
    // with nothing left, it is as free as any
    if (this.#current.size === 0) this.#claimer.isFree(this.name);
    taken.ended();
    this.#hasRoom();
  }
}

const nothing = (): void => undefined;
