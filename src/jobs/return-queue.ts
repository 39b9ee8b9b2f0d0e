/**
 * A return queue holds the outcomes of the jobs that name it, in the order in which they ended. The store adds an outcome in the
 * same write that ends the job, so that no outcome is lost or duplicated.
 */
import { randomUUID } from "node:crypto";
import {
  isCoordinateError,
  maxTaken,
  type Clock,
  type Coordinate,
  type QueueMessage,
} from "../core/index.ts";
import { WaitTimeoutError } from "./errors.ts";
import type { WaitOptions } from "./handle.ts";
import { outcomeOf, type Outcome } from "./job.ts";

/** How long one request waits. */
const waitMs = 30_000;
const tries = 5;
/** The delay before a retry when the coordinator does not answer. */
const pauseMs = 250;

export class ReturnQueue {
  readonly name: string;
  readonly #verbs: Coordinate;
  readonly #ns: string;
  readonly #clock: Clock;
  /** Outcomes that were removed from the store and not returned to a caller. The next call returns them first. */
  #kept: Outcome[] = [];
  /** Ids of requests that were not answered. They may have removed outcomes from the store: the next requests repeat them. */
  readonly #unanswered: string[] = [];

  constructor(verbs: Coordinate, ns: string, name: string, clock: Clock) {
    this.#verbs = verbs;
    this.#ns = ns;
    this.name = name;
    this.#clock = clock;
  }

  /**
   * Takes `count` outcomes and waits until there are enough. Throws a `WaitTimeoutError` after the timeout. Outcomes that arrived
   * before an error are not lost: the next `take` of this object returns them.
   */
  async take(count = 1, { timeoutMs = Infinity, signal }: WaitOptions = {}): Promise<Outcome[]> {
    const deadline = this.#clock.now() + timeoutMs;
    const taken = this.#kept.splice(0, count);
    try {
      while (taken.length < count) {
        const left = deadline - this.#clock.now();
        const wait = Math.min(Math.max(0, left), waitMs);
        const messages = await this.#messages(count - taken.length, wait, signal);
        taken.push(...messages.map(outcomeOf));
        if (taken.length >= count) break;
        signal?.throwIfAborted();
        if (left <= 0)
          throw new WaitTimeoutError(
            [this.name],
            timeoutMs,
            `${count} outcomes in queue ${this.name}; got ${taken.length}`,
          );
      }
    } catch (error) {
      this.keep(taken);
      throw error;
    }
    // a repeated request may return more than this call asked for
    if (taken.length > count) this.keep(taken.splice(count));
    return taken;
  }

  /** Yields each outcome as it arrives, until the caller leaves the loop. */
  async *[Symbol.asyncIterator](): AsyncGenerator<Outcome, void, undefined> {
    for (;;) yield* await this.take(1);
  }

  /** Takes all outcomes that are in the queue now, without waiting. */
  async drain(): Promise<Outcome[]> {
    const taken = this.#kept.splice(0);
    try {
      for (;;) {
        const messages = await this.#messages(maxTaken, 0, undefined);
        taken.push(...messages.map(outcomeOf));
        if (messages.length === 0 && this.#unanswered.length === 0) return taken;
      }
    } catch (error) {
      this.keep(taken);
      throw error;
    }
  }

  /** Keeps outcomes that were taken but not used: the next `take` or `drain` of this object returns them first. */
  keep(outcomes: readonly Outcome[]): void {
    this.#kept = [...outcomes, ...this.#kept];
  }

  async size(): Promise<number> {
    const [count = 0] = await this.#verbs.countMessages(this.#ns, [this.name]);
    return count + this.#kept.length;
  }

  /** Empties the queue and returns how many outcomes it held. */
  async reset(): Promise<number> {
    // outcomes that these requests removed from the store are dropped, too
    this.#unanswered.length = 0;
    const kept = this.#kept.splice(0).length;
    return kept + (await this.#verbs.clearQueue(this.#ns, this.name));
  }

  /** Retries a request whose answer was lost. The same request id gets the same messages. */
  async #messages(max: number, wait: number, signal: AbortSignal | undefined): Promise<QueueMessage[]> {
    const requestId = this.#unanswered.shift() ?? randomUUID();
    for (let tried = 1; ; tried++) {
      try {
        return await this.#verbs.takeMessages(this.#ns, this.name, {
          max: Math.min(max, maxTaken),
          waitMs: wait,
          requestId,
          ...(signal !== undefined && { signal }),
        });
      } catch (error) {
        if (!isCoordinateError(error, "unavailable", "unknown_outcome")) throw error;
        if (tried === tries || signal?.aborted === true) {
          this.#unanswered.push(requestId);
          throw error;
        }
        await this.#clock.waitUntil(this.#clock.now() + pauseMs, signal);
      }
    }
  }
}
