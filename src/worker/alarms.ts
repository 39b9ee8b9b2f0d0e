/**
 * Things to be done at a time, for all claims of a worker with one timer. Most are cancelled before their time comes, so that setting
 * and cancelling must cost nothing: a timer and a signal for each was a fifth of the time of a claim.
 */
import type { Clock } from "../core/index.ts";

export interface Alarm {
  readonly time: number;
  readonly cancel: () => void;
}

export class Alarms {
  readonly #clock: Clock;
  /** Two for each slot at most. */
  readonly #set = new Set<{ time: number; ring: () => void }>();
  /** Until when the one timer waits; null while there is none. */
  #sleep: { until: number; wake: AbortController } | null = null;
  #closed = false;

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** Calls `ring` when the time has come, and not in this turn. */
  at(time: number, ring: () => void): Alarm {
    const entry = { time, ring };
    this.#set.add(entry);
    if (this.#sleep === null) void this.#run();
    else if (time < this.#sleep.until) this.#sleep.wake.abort("sooner");
    return { time, cancel: () => this.#set.delete(entry) };
  }

  /** Nothing rings any more. */
  close(): void {
    this.#closed = true;
    this.#set.clear();
    this.#sleep?.wake.abort("closed");
  }

  async #run(): Promise<void> {
    while (this.#set.size > 0 && !this.#closed) {
      let until = Infinity;
      for (const { time } of this.#set) until = Math.min(until, time);
      const wake = new AbortController();
      this.#sleep = { until, wake };
      // also when it is due already: a turn later, as promised
      await this.#clock.waitUntil(until, wake.signal);
      const now = this.#clock.now();
      for (const entry of [...this.#set]) {
        if (entry.time > now || !this.#set.delete(entry)) continue;
        entry.ring();
      }
    }
    this.#sleep = null;
  }
}
