/** The handle of a queue of outcomes, by name. */
import { decodeData, type DataObject, type QueueMessage, type TakeOptions } from "../core/index.ts";
import { only, type Scope } from "./scope.ts";

/** A message with its data decoded; `{}` when there was none. */
export type Message = Omit<QueueMessage, "data"> & { data: DataObject };

export interface MessagesOptions {
  /** Messages taken with one request; 100 by default. */
  batch?: number;
  /** How long one request waits; 30 seconds by default. */
  waitMs?: number;
  /** Ends the loop. */
  signal?: AbortSignal;
}

export class Queue {
  readonly name: string;
  readonly #scope: Scope;

  constructor(scope: Scope, name: string) {
    this.#scope = scope;
    this.name = name;
  }

  /** Takes messages out of the queue, in order. Returns none if the queue is empty, or stays empty for `waitMs`. */
  async take(options: TakeOptions = {}): Promise<Message[]> {
    const { verbs, ns } = this.#scope;
    return (await verbs.takeMessages(ns, this.name, options)).map(decoded);
  }

  /**
   * Yields every message as it arrives, until the signal aborts. If the caller leaves the loop, messages that were taken with the
   * same request and not yet yielded are lost; with `batch: 1` there are none.
   */
  async *messages(options: MessagesOptions = {}): AsyncGenerator<Message, void, undefined> {
    const { batch = 100, waitMs = 30_000, signal } = options;
    while (signal?.aborted !== true)
      yield* await this.take({ max: batch, waitMs, ...(signal !== undefined && { signal }) });
  }

  async count(): Promise<number> {
    const { verbs, ns } = this.#scope;
    return only(await verbs.countMessages(ns, [this.name]));
  }

  /** Removes all messages and returns how many there were. */
  async clear(): Promise<number> {
    const { verbs, ns } = this.#scope;
    return verbs.clearQueue(ns, this.name);
  }
}

const decoded = (message: QueueMessage): Message => ({
  ...message,
  data: message.data === null ? {} : decodeData(message.data),
});
