/**
 * Outages that pass: a daemon restarts, a database fails over. A call that failed is repeated after a growing pause, with chance
 * in it so that a thousand workers do not come back at the same instant. An outage is logged when it begins and when it is over.
 */
import { backOffMs, type Clock, type Random } from "../core/index.ts";
import type { Logger } from "./log.ts";

const firstPauseMs = 100;
const longestPauseMs = 5000;

export class Outage {
  readonly #clock: Clock;
  readonly #random: Random;
  readonly #log: Logger;
  #since: number | null = null;
  #begun = 0;
  /** Calls up to this one began before the last failure. */
  #begunBefore = 0;

  constructor(clock: Clock, random: Random, log: Logger) {
    this.#clock = clock;
    this.#random = random;
    this.#log = log;
  }

  /** A call begins. Answers its number, for `answered`. */
  began(): number {
    return ++this.#begun;
  }

  /** A call was answered. One that began before the last failure says nothing about how things are now. */
  answered(call: number): void {
    if (this.#since === null || call <= this.#begunBefore) return;
    this.#log.info({ forMs: this.#clock.now() - this.#since }, "the coordinator answers again");
    this.#since = null;
  }

  /** A call was not answered. */
  failed(what: string, error: unknown): void {
    this.#begunBefore = this.#begun;
    if (this.#since !== null) return;
    this.#since = this.#clock.now();
    this.#log.warn({ what, err: error }, "the coordinator does not answer; it is asked again until it does");
  }

  /** Waits before the next try; `tries` were made before the one that failed. Ends at once when the signal aborts. */
  async pause(tries: number, signal?: AbortSignal): Promise<void> {
    const max = backOffMs(tries, firstPauseMs, longestPauseMs);
    await this.#clock.waitUntil(this.#clock.now() + max * (0.5 + this.#random() / 2), signal);
  }
}
