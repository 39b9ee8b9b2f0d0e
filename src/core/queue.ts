/**
 * Queues: durable lists of outcomes, first in, first out. A unit names the queues that are to hear of its end; the
 * write that ends it appends one message to each. Whoever takes messages removes them.
 *
 * A queue exists while it has messages. Messages outlive the unit and its work spec, not the namespace.
 */
import type { Data } from "./data.ts";

export interface QueueMessage {
  /** Rises within the store: what was appended after another message was acknowledged has a higher one. */
  seq: number;
  queue: string;
  workSpec: string;
  workUnit: string;
  /** The attempt that ended it; also one that nobody ran, of a unit that could not go on. */
  attempt: string | null;
  status: "finished" | "failed";
  /** The unit's data as a reader saw it at that moment. */
  data: Data | null;
  /** When it ended. */
  at: number;
}

export interface QueueRow {
  name: string;
  messages: number;
  /** When the first message that is left was appended. */
  oldest: number;
}

/** How many messages one call takes when it does not say, and at most. */
export const defaultTake = 100;
export const maxTaken = 10_000;
