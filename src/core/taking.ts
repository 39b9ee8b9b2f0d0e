/**
 * Takes messages, and waits for them. Callers that wait for one queue stand in one line, and a message wakes only the first of
 * them: a thousand callers, each with its own queue, cost nothing while no message comes.
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
  /** Requests in progress that have an id. */
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
   * A repeated request waits while the first one is in progress: otherwise the second might find no messages, and the first might
   * take messages that no one reads.
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
