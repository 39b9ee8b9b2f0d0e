/**
 * Queues: durable lists of outcomes, first in, first out. A unit names its queues; the write that ends the unit appends one message
 * to each of them. Taking messages removes them.
 *
 * A queue exists while it has messages. Messages outlive the unit and its work spec, not the namespace.
 */
import type { Data } from "./data.ts";

export interface QueueMessage {
  /** Rises within the store: a message appended after another append was acknowledged has a higher number. */
  seq: number;
  queue: string;
  workSpec: string;
  workUnit: string;
  /** The attempt that ended the unit. For a unit that failed without running, the attempt that records the failure. */
  attempt: string | null;
  status: "finished" | "failed";
  /** The unit's data at that moment. */
  data: Data | null;
  /** When it ended. */
  at: number;
}

export interface QueueRow {
  name: string;
  messages: number;
  /** When the oldest remaining message was appended. */
  oldest: number;
}

/** How many messages one call takes: by default, and at most. */
export const defaultTake = 100;
export const maxTaken = 10_000;
