/** Runs the sweep at an interval of about a second, and again at once while there is more to do. */
import type { Engine, Swept } from "../core/index.ts";

export interface HousekeepingEvents {
  onSwept(swept: Swept): void;
  onError(error: unknown): void;
}

export class Housekeeping {
  readonly #engine: Engine | null;
  readonly #everyMs: number;
  readonly #events: HousekeepingEvents;
  #timer: NodeJS.Timeout | undefined;
  #running: Promise<void> = Promise.resolve();
  #stopped = false;

  constructor(engine: Engine | null, everyMs: number, events: HousekeepingEvents) {
    this.#engine = engine;
    this.#everyMs = Math.max(10, everyMs);
    this.#events = events;
  }

  start(): void {
    if (this.#engine === null || this.#stopped) return;
    this.#timer = setTimeout(() => {
      this.#running = this.once().finally(() => this.start());
    }, this.#everyMs);
    this.#timer.unref();
  }

  /** Sweeps until nothing is left to do. Never rejects: a failed sweep is repeated at the next interval. */
  async once(): Promise<void> {
    if (this.#engine === null) return;
    try {
      for (;;) {
        const swept = await this.#engine.sweep();
        this.#events.onSwept(swept);
        if (!swept.more || this.#stopped) return;
        await new Promise((resolve) => setImmediate(resolve));
      }
    } catch (error) {
      if (!this.#stopped) this.#events.onError(error);
    }
  }

  async stop(): Promise<void> {
    this.#stopped = true;
    clearTimeout(this.#timer);
    await this.#running;
  }
}
