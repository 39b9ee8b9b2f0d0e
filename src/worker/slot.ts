/** One place to work: takes a run from the claimer, waits until it has ended, takes the next. A slot is a child worker. */
import type { Claimer } from "./claimer.ts";
import type { Run } from "./run.ts";
import type { Stop } from "./stops.ts";

export type SlotMode = "run" | "idle" | "stop";

export class Slot {
  readonly name: string;
  readonly #claimer: Claimer<Run>;
  #mode: SlotMode = "run";
  /** Ends whatever the slot waits for, so that it sees a change of mode. */
  #waiting: AbortController | null = null;
  #current: Run | null = null;
  #leave: () => void = () => undefined;

  constructor(name: string, claimer: Claimer<Run>) {
    this.name = name;
    this.#claimer = claimer;
  }

  get mode(): SlotMode {
    return this.#mode;
  }

  /** What it runs now. */
  get current(): Run | null {
    return this.#current;
  }

  /** Works until it is stopped and what it runs has ended. Never rejects. */
  async run(): Promise<void> {
    while (this.#mode !== "stop") {
      if (this.#mode === "idle") {
        await this.#modeChange();
        continue;
      }
      const taken = this.#claimer.take() ?? (await this.#next());
      if (taken === null) continue;
      const { run, ended } = taken;
      if (this.#isRunning()) {
        this.#current = run;
        const running = run.start();
        if (running !== undefined) await this.#untilEnded(run, running);
        this.#current = null;
      } else void run.release();
      ended();
    }
  }

  /** Takes no more work, now or for ever; what it runs goes on. */
  set(mode: SlotMode): void {
    if (this.#mode === "stop" || this.#mode === mode) return;
    this.#mode = mode;
    this.#waiting?.abort("mode");
    if (mode === "stop" && this.#current?.isGone === true) this.#leave();
  }

  /** Tells the task to come to an end. */
  signal(reason: Stop): void {
    this.#current?.signal(reason);
  }

  /** Tells the task that it is over, gives back its open attempts, and does not wait for it any longer. */
  async abandon(reason: Stop): Promise<void> {
    this.set("stop");
    await this.#current?.abandon(reason);
    this.#leave();
  }

  /** Read anew: the mode changes while one waits. */
  #isRunning(): boolean {
    return this.#mode === "run";
  }

  #next(): ReturnType<Claimer<Run>["next"]> {
    this.#waiting = new AbortController();
    return this.#claimer.next(this.name, this.#waiting.signal);
  }

  async #modeChange(): Promise<void> {
    const waiting = new AbortController();
    this.#waiting = waiting;
    await new Promise<void>((resolve) =>
      waiting.signal.addEventListener("abort", () => resolve(), { once: true }),
    );
  }

  /** A task whose attempts were given up is waited for, since it may still use what it uses; but not when the worker stops. */
  async #untilEnded(run: Run, running: Promise<void>): Promise<void> {
    await new Promise<void>((resolve) => {
      this.#leave = resolve;
      run.onGone = () => {
        if (this.#mode === "stop") resolve();
      };
      void running.then(resolve);
    });
  }
}
