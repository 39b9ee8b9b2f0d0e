/** A queue of outcomes, by its name. */
import { decodeData, type DataObject, type QueueMessage, type TakeOptions } from "../core/index.ts";
import { only, type Scope } from "./scope.ts";

/** A message with its data decoded; `{}` when there was none. */
export type Message = Omit<QueueMessage, "data"> & { data: DataObject };

export interface MessagesOptions {
  /** Messages taken with one request; 100. */
  batch?: number;
  /** How long one request waits; 30 seconds. */
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

  /** Takes messages out of the queue, in order; none when there are none, or none came within `waitMs`. */
  async take(options: TakeOptions = {}): Promise<Message[]> {
    const { verbs, ns } = this.#scope;
    return (await verbs.takeMessages(ns, this.name, options)).map(decoded);
  }

  /**
   * Every message as it comes, until the signal aborts. What was taken with one request and not yet looped over when the
   * loop is left is lost: with `batch: 1` that is nothing.
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

  /** Removes all messages; answers how many. */
  async clear(): Promise<number> {
    const { verbs, ns } = this.#scope;
    return verbs.clearQueue(ns, this.name);
  }
}

const decoded = (message: QueueMessage): Message => ({
  ...message,
  data: message.data === null ? {} : decodeData(message.data),
});
