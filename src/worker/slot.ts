/** One place to work: takes a run from the claimer, waits until it has ended, takes the next. A slot is a child worker. */
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
  #current: Taken<Run> | null = null;
  /** Ends `run` without waiting for the task. */
  #leave: () => void = nothing;
  /** One for all runs: a task whose attempts were given up is waited for, since it may still use what it uses, unless the slot stops. */
  readonly #gone = (): void => {
    if (this.#mode === "stop") this.#abandoned();
  };

  constructor(name: string, claimer: Claimer<Run>) {
    this.name = name;
    this.#claimer = claimer;
  }

  get mode(): SlotMode {
    return this.#mode;
  }

  /** What it runs now. */
  get current(): Run | null {
    return this.#current?.run ?? null;
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
      const taken = this.#claimer.take() ?? (await this.#claimer.next(this.name));
      if (taken === null) continue;
      if (this.#isRunning()) {
        const { run } = taken;
        this.#current = taken;
        run.onGone = this.#gone;
        // no promise of its own: this is once for every unit of a busy worker
        const running = run.start();
        if (running !== undefined) await running;
        this.#end();
      } else {
        void taken.run.release();
        taken.ended();
      }
    }
  }

  /** Takes no more work, now or for ever; what it runs goes on. */
  set(mode: SlotMode): void {
    if (this.#mode === "stop" || this.#mode === mode) return;
    this.#mode = mode;
    this.#modeChanged();
    this.#claimer.withdraw(this.name);
    if (this.#current?.run.isGone === true) this.#gone();
  }

  /** Tells the task to come to an end. */
  signal(reason: Stop): void {
    this.#current?.run.signal(reason);
  }

  /** Tells the task that it is over, gives back its open attempts, and does not wait for it any longer. */
  async abandon(reason: Stop): Promise<void> {
    this.set("stop");
    await this.#current?.run.abandon(reason);
    this.#abandoned();
  }

  /** Read anew: the mode changes while one waits. */
  #isRunning(): boolean {
    return this.#mode === "run";
  }

  #abandoned(): void {
    this.#end();
    this.#leave();
  }

  #end(): void {
    const current = this.#current;
    this.#current = null;
    current?.ended();
  }
}

const nothing = (): void => undefined;
