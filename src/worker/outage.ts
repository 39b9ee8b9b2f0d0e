/**
 * Temporary outages: a daemon restarts, a database fails over. Failed calls are retried with exponential backoff and jitter, so that
 * a thousand workers do not reconnect at the same instant. An outage is logged when it begins and when it is over.
 */
import { backOffMs, isCoordinateError, type Clock, type Random } from "../core/index.ts";
import type { Logger } from "./log.ts";

const firstPauseMs = 100;
const longestPauseMs = 5000;
/** For short leases pauses are shorter, so that a renewal is tried again soon enough before its task is given up. */
const pausesPerLease = 15;

export class Outage {
  readonly #clock: Clock;
  readonly #random: Random;
  readonly #log: Logger;
  #since: number | null = null;
  #begun = 0;
  /** The number of the last call that began before the latest failure. */
  #begunBefore = 0;
  readonly #onClosed: () => void;
  readonly #longestPauseMs: number;

  /** `onClosed` is called when the program has closed the coordinator: no outage, because it will not answer again. */
  constructor(
    clock: Clock,
    random: Random,
    log: Logger,
    leaseMs = Infinity,
    onClosed: () => void = () => undefined,
  ) {
    this.#onClosed = onClosed;
    this.#longestPauseMs = Math.max(firstPauseMs, Math.min(longestPauseMs, leaseMs / pausesPerLease));
    this.#clock = clock;
    this.#random = random;
    this.#log = log;
  }

  /** Call it before a call. Returns the call's number, for `answered`. */
  began(): number {
    return ++this.#begun;
  }

  /** Call it when a call was answered. Ends the outage, unless the call began before the latest failure. */
  answered(call: number): void {
    if (this.#since === null || call <= this.#begunBefore) return;
    this.#log.info({ forMs: this.#clock.now() - this.#since }, "the coordinator answers again");
    this.#since = null;
  }

  /** Call it when a call failed. */
  failed(what: string, error: unknown): void {
    if (isCoordinateError(error, "closed")) return this.#onClosed();
    this.#begunBefore = this.#begun;
    if (this.#since !== null) return;
    this.#since = this.#clock.now();
    this.#log.warn({ what, err: error }, "the coordinator does not answer; retrying until it does");
  }

  /** Waits before the next try; `tries` is the number of tries before the failed one. Resolves at once when the signal aborts. */
  async pause(tries: number, signal?: AbortSignal): Promise<void> {
    const max = backOffMs(tries, firstPauseMs, this.#longestPauseMs);
    await this.#clock.waitUntil(this.#clock.now() + max * (0.5 + this.#random() / 2), signal);
  }
}
