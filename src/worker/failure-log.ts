/**
 * Logs one line for each failed attempt, at most `maxLines` a second so that the log stays readable. The number of lines left out is
 * logged at the end of the second.
 */
import type { Clock } from "../core/index.ts";
import type { Alarms } from "./alarms.ts";
import type { Logger } from "./log.ts";

const maxLines = 10;
const perMs = 1000;

export interface Failure {
  readonly worker: string;
  readonly workSpec: string;
  readonly unit: string;
  /** The number of the attempt. */
  readonly attempt: number;
  /** The first line of the error. */
  readonly error: string;
  /** The delay of the retry; null when there is none. */
  readonly retryInMs: number | null;
  /** The most attempts that may follow; null is unlimited. */
  readonly attemptsLeft: number | null;
}

export class FailureLog {
  readonly #log: Logger;
  readonly #clock: Clock;
  readonly #alarms: Alarms;
  #since = -Infinity;
  #lines = 0;
  #leftOut = 0;

  constructor(log: Logger, clock: Clock, alarms: Alarms) {
    this.#log = log;
    this.#clock = clock;
    this.#alarms = alarms;
  }

  add({ retryInMs, attemptsLeft, ...failure }: Failure): void {
    const now = this.#clock.now();
    if (now - this.#since >= perMs) {
      this.flush();
      this.#since = now;
      this.#lines = 0;
    }
    if (this.#lines++ < maxLines) {
      this.#log.warn(failure, `a work unit failed; ${whatNext(retryInMs, attemptsLeft)}`);
      return;
    }
    if (this.#leftOut++ === 0) this.#alarms.at(this.#since + perMs, () => this.flush());
  }

  /** Logs how many lines were left out. */
  flush(): void {
    if (this.#leftOut === 0) return;
    this.#log.warn({ count: this.#leftOut }, `${this.#leftOut} more work units failed and were not logged`);
    this.#leftOut = 0;
  }
}

function whatNext(retryInMs: number | null, attemptsLeft: number | null): string {
  if (retryInMs === null || attemptsLeft === 0) return "it will not be tried again";
  const when = retryInMs === 0 ? "now" : `in ${retryInMs / 1000} s`;
  const times =
    attemptsLeft === null ? "" : `, ${attemptsLeft} more ${attemptsLeft === 1 ? "time" : "times"} at most`;
  return `it will be tried again ${when}${times}`;
}
