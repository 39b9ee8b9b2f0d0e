/**
 * Troubles that pass: a daemon that restarts, a database that fails over. What failed is asked again, later and later, with
 * chance so that a thousand workers do not come back at the same instant; and it is logged once, not once a try.
 */
import { backOffMs, type Clock, type Random } from "../core/index.ts";
import type { Logger } from "./log.ts";

const firstPauseMs = 100;
const longestPauseMs = 5000;

export class Trouble {
  readonly #clock: Clock;
  readonly #random: Random;
  readonly #log: Logger;
  #since: number | null = null;
  #asked = 0;
  /** Requests up to this one were begun before the last failure. */
  #askedBefore = 0;

  constructor(clock: Clock, random: Random, log: Logger) {
    this.#clock = clock;
    this.#random = random;
    this.#log = log;
  }

  /** A request begins. Answers its number, for `over`. */
  asked(): number {
    return ++this.#asked;
  }

  /** A request went through. One that began before the last failure says nothing about how things are now. */
  over(asked: number): void {
    if (this.#since === null || asked <= this.#askedBefore) return;
    this.#log.info({ forMs: this.#clock.now() - this.#since }, "the coordinator answers again");
    this.#since = null;
  }

  /** Something did not. */
  met(what: string, error: unknown): void {
    this.#askedBefore = this.#asked;
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
