/** The message queues and action records of a namespace. */
import {
  compareNames,
  otherAction,
  sameData,
  type ActionInput,
  type ActionRow,
  type QueueMessage,
  type QueueRow,
} from "../core/index.ts";
import type { Space } from "./state.ts";

/** First in, first out. Memory of taken messages is freed in larger pieces. */
export class Queue {
  #messages: QueueMessage[] = [];
  #from = 0;

  get size(): number {
    return this.#messages.length - this.#from;
  }

  get first(): QueueMessage | undefined {
    return this.#messages[this.#from];
  }

  append(message: QueueMessage): void {
    this.#messages.push(message);
  }

  take(max: number): QueueMessage[] {
    const taken = this.#messages.slice(this.#from, this.#from + max);
    this.#from += taken.length;
    if (this.#from * 2 > this.#messages.length) {
      this.#messages = this.#messages.slice(this.#from);
      this.#from = 0;
    }
    return taken;
  }
}

const takenKey = (queue: string, requestId: string): string => JSON.stringify([queue, requestId]);

export function takeMessages(
  space: Space,
  queue: string,
  max: number,
  requestId: string | null,
  now: number,
): QueueMessage[] {
  const key = requestId === null ? null : takenKey(queue, requestId);
  const before = key === null ? undefined : space.taken.get(key);
  if (before !== undefined) return [...before.messages];
  const messages = takeFrom(space, queue, max);
  // copied: the list belongs to the caller
  if (key !== null && messages.length > 0) space.taken.set(key, { time: now, messages: [...messages] });
  return messages;
}

/** An empty queue is deleted. */
export function takeFrom(space: Space, name: string, max: number): QueueMessage[] {
  const queue = space.queues.get(name);
  if (queue === undefined) return [];
  const messages = queue.take(max);
  if (queue.size === 0) space.queues.delete(name);
  return messages;
}

export function forgetTaken(space: Space, before: number): void {
  for (const [key, { time }] of space.taken) {
    if (time >= before) break;
    space.taken.delete(key);
  }
}

export const listQueues = (space: Space, previous: string | null, limit: number): QueueRow[] =>
  [...space.queues]
    .filter(([name]) => previous === null || compareNames(name, previous) > 0)
    .sort(([a], [b]) => compareNames(a, b))
    .slice(0, limit)
    .map(([name, queue]) => ({ name, messages: queue.size, oldest: queue.first?.at ?? 0 }));

/** All or none: every action is checked before any is written. */
export function putActions(
  known: Space | undefined,
  open: () => Space,
  actions: readonly ActionInput[],
  now: number,
): boolean[] {
  const fresh = new Map<string, ActionRow>();
  const answer = actions.map(({ key, data }) => {
    const there = known?.actions.get(key) ?? fresh.get(key);
    if (there === undefined) fresh.set(key, { key, data, createdTime: now });
    else if (!sameData(there.data, data)) throw otherAction(key);
    return there === undefined;
  });
  // a refused call does not create the namespace
  const space = open();
  for (const [key, row] of fresh) space.actions.set(key, row);
  return answer;
}

export const listActions = (space: Space, previous: string | null, limit: number): ActionRow[] =>
  [...space.actions.values()]
    .filter(({ key }) => previous === null || compareNames(key, previous) > 0)
    .sort((a, b) => compareNames(a.key, b.key))
    .slice(0, limit)
    .map((row) => ({ ...row }));
