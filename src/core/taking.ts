/**
 * Taking messages, with waiting. Those who wait for one queue stand in one line, and a message wakes the first of that
 * line and nobody else: a thousand callers, each with a queue of its own, cost nothing while nothing comes.
 */
import type { Clock } from "./clock.ts";
import type { QueueMessage } from "./queue.ts";
import { watchesOf, type Store } from "./store.ts";
import { Waiting } from "./waiting.ts";

export interface Take {
  ns: string;
  queue: string;
  max: number;
  requestId: string | null;
  deadline: number;
  signal: AbortSignal | undefined;
}

export class MessageWaiters {
  readonly #store: Store;
  readonly #clock: Clock;
  readonly #pollMs: number;
  readonly #waiting: Waiting;
  /** Requests with an id that are under way. */
  readonly #named = new Map<string, Promise<unknown>>();

  constructor(store: Store, clock: Clock, pollMs: number) {
    this.#store = store;
    this.#clock = clock;
    this.#pollMs = pollMs;
    this.#waiting = new Waiting(clock);
  }

  get size(): number {
    return this.#waiting.size;
  }

  stop(): void {
    this.#waiting.stop();
  }

  /**
   * A request that is repeated while the first is still under way waits for that one: else the second might be told that there
   * is nothing, and the first be given a message that nobody reads.
   */
  async take(take: Take): Promise<QueueMessage[]> {
    if (take.requestId === null) return this.#take(take);
    const key = JSON.stringify([take.ns, take.queue, take.requestId]);
    for (let first = this.#named.get(key); first !== undefined; first = this.#named.get(key))
      await first.catch(() => undefined);
    const taken = this.#take(take).finally(() => this.#named.delete(key));
    this.#named.set(key, taken);
    return taken;
  }

  async #take({ ns, queue, max, requestId, deadline, signal }: Take): Promise<QueueMessage[]> {
    const look = async (): Promise<{ found: QueueMessage[] | null; again: number }> => {
      const now = this.#clock.now();
      const messages = await this.#store.takeMessages(ns, queue, max, requestId, now);
      return { found: messages.length > 0 ? messages : null, again: now + this.#pollMs };
    };
    const { found } = await look();
    if (found !== null) return found;
    if (this.#clock.now() >= deadline || signal?.aborted === true) return [];
    const taken = await this.#waiting.wait({
      group: JSON.stringify([ns, queue]),
      line: "",
      deadline,
      signal,
      watch: (wake) => watchesOf(this.#store).watchQueue(ns, queue, wake),
      look,
    });
    return taken ?? [];
  }
}
