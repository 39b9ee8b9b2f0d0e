/**
 * A return queue holds the outcomes of the jobs that name it, in the order in which they ended. The store adds an outcome in the
 * same write that ends the job, so that no outcome is lost or duplicated.
 */
import { randomUUID } from "node:crypto";
import { isCoordinateError, maxTaken, type Coordinate, type QueueMessage } from "../core/index.ts";
import { WaitTimeoutError } from "./errors.ts";
import type { WaitOptions } from "./handle.ts";
import { outcomeOf, type Outcome } from "./job.ts";

/** How long one request waits. */
const waitMs = 30_000;
const tries = 5;

export class ReturnQueue {
  readonly name: string;
  readonly #verbs: Coordinate;
  readonly #ns: string;
  readonly #now: () => number;
  /** Outcomes that an interrupted `take` had already removed from the store. The next `take` returns them first. */
  #kept: Outcome[] = [];

  constructor(verbs: Coordinate, ns: string, name: string, now: () => number) {
    this.#verbs = verbs;
    this.#ns = ns;
    this.name = name;
    this.#now = now;
  }

  /**
   * Takes `count` outcomes and waits until there are enough. Throws a `WaitTimeoutError` after the timeout. Outcomes that arrived
   * by then are not lost: the next `take` of this object returns them.
   */
  async take(count = 1, { timeoutMs = Infinity, signal }: WaitOptions = {}): Promise<Outcome[]> {
    const deadline = this.#now() + timeoutMs;
    const taken = this.#kept.splice(0, count);
    while (taken.length < count) {
      const left = deadline - this.#now();
      const messages = await this.#messages(
        count - taken.length,
        Math.min(Math.max(0, left), waitMs),
        signal,
      );
      taken.push(...messages.map(outcomeOf));
      if (taken.length >= count) break;
      if (signal?.aborted === true || left <= 0) {
        this.#kept = [...taken, ...this.#kept];
        signal?.throwIfAborted();
        throw new WaitTimeoutError(
          [this.name],
          timeoutMs,
          `${count} outcomes in queue ${this.name}; got ${taken.length}`,
        );
      }
    }
    return taken;
  }

  /** Yields each outcome as it arrives, until the caller leaves the loop. */
  async *[Symbol.asyncIterator](): AsyncGenerator<Outcome, void, undefined> {
    for (;;) yield* await this.take(1);
  }

  /** Takes all outcomes that are in the queue now, without waiting. */
  async drain(): Promise<Outcome[]> {
    const taken = this.#kept.splice(0);
    for (;;) {
      const messages = await this.#messages(maxTaken, 0, undefined);
      if (messages.length === 0) return taken;
      taken.push(...messages.map(outcomeOf));
    }
  }

  async size(): Promise<number> {
    const [count = 0] = await this.#verbs.countMessages(this.#ns, [this.name]);
    return count + this.#kept.length;
  }

  /** Empties the queue and returns how many outcomes it held. */
  async reset(): Promise<number> {
    const kept = this.#kept.splice(0).length;
    return kept + (await this.#verbs.clearQueue(this.#ns, this.name));
  }

  /** Retries a request whose answer was lost. The same request id gets the same messages. */
  async #messages(max: number, wait: number, signal: AbortSignal | undefined): Promise<QueueMessage[]> {
    const requestId = randomUUID();
    for (let tried = 1; ; tried++) {
      try {
        return await this.#verbs.takeMessages(this.#ns, this.name, {
          max: Math.min(max, maxTaken),
          waitMs: wait,
          requestId,
          ...(signal !== undefined && { signal }),
        });
      } catch (error) {
        const maybe = isCoordinateError(error, "unavailable", "unknown_outcome");
        if (!maybe || tried === tries || signal?.aborted === true) throw error;
      }
    }
  }
}
