/** The message queues and action records of a namespace. */
import {
  nameFromBytes,
  nameToBytes,
  otherAction,
  sameData,
  storedData,
  type ActionInput,
  type ActionRow,
  type QueueMessage,
  type QueueRow,
  type Slice,
} from "../core/index.ts";
import type { Row, Value } from "./driver.ts";
import { unitState } from "./schema.ts";
import type { Space, State } from "./state.ts";
import { dataValue, readData } from "./values.ts";

// ---- queues

export function addMessage(state: State, space: Space, message: Omit<QueueMessage, "seq">): void {
  const { queue, workSpec, workUnit, attempt, status, data, at } = message;
  state.writes++;
  state.sql.addMessage.run(
    state.nextId("message"),
    space.id,
    nameToBytes(queue),
    nameToBytes(workSpec),
    nameToBytes(workUnit),
    attempt,
    unitState[status],
    at,
    dataValue(data),
  );
  state.noteMessage(space.name, queue);
}

const readMessage = (queue: string, row: Row): QueueMessage => {
  const [seq, workSpec, workUnit, attempt, status, at, data] = row;
  return {
    seq: seq as number,
    queue,
    workSpec: nameFromBytes(workSpec as Uint8Array),
    workUnit: nameFromBytes(workUnit as Uint8Array),
    attempt: attempt as string | null,
    status: status === unitState.finished ? "finished" : "failed",
    data: readData(data),
    at: at as number,
  };
};

/** With a request id, messages are marked with it, for a repeated request. The sweep deletes them when it forgets the request. */
export function takeMessages(
  state: State,
  space: Space,
  queue: string,
  max: number,
  requestId: string | null,
  now: number,
): QueueMessage[] {
  const { sql } = state;
  const name = nameToBytes(queue);
  const id = requestId === null ? null : JSON.stringify(requestId);
  if (id !== null) {
    const before = sql.takenMessages.all(space.id, name, id);
    if (before.length > 0) return before.map((row) => readMessage(queue, row));
  }
  const rows = sql.firstMessages.all(space.id, name, max);
  if (rows.length === 0) return [];
  const seqs = JSON.stringify(rows.map(([seq]) => seq));
  state.writes++;
  if (id === null) sql.dropMessages.run(seqs);
  else sql.takeMessages.run(id, now, seqs);
  return rows.map((row) => readMessage(queue, row));
}

export const countMessages = (state: State, space: Space, queue: string): number =>
  state.sql.countMessages.get(space.id, nameToBytes(queue))?.[0] as number;

/** Steps from one queue name to the next in the index, so that it does not have to read all messages to find the queues. */
export function listQueues(state: State, space: Space, previous: string | null, limit: number): QueueRow[] {
  const rows: QueueRow[] = [];
  // no name is empty, so all sort after the empty one
  let after: Value = previous === null ? Buffer.alloc(0) : nameToBytes(previous);
  while (rows.length < limit) {
    const next: Value | undefined = state.sql.nextQueue.get(space.id, after)?.[0];
    if (!(next instanceof Uint8Array)) break;
    const [oldest] = state.sql.oldestMessage.get(space.id, next) ?? [];
    const name = nameFromBytes(next);
    rows.push({ name, messages: countMessages(state, space, name), oldest: oldest as number });
    after = next;
  }
  return rows;
}

export function clearQueue(state: State, space: Space, queue: string, limit: number): Slice {
  const rows = state.sql.firstSeqs.all(space.id, nameToBytes(queue), limit);
  if (rows.length > 0) {
    state.writes++;
    state.sql.dropMessages.run(JSON.stringify(rows.map(([seq]) => seq)));
  }
  return { deleted: rows.length, done: rows.length < limit };
}

/** Deletes messages that were kept for repeated requests. Returns false if there may be more. */
export function forgetTaken(state: State, before: number, limit: number): boolean {
  const rows = state.sql.oldMessages.all(before, limit);
  if (rows.length > 0) {
    state.writes++;
    state.sql.dropMessages.run(JSON.stringify(rows.map(([seq]) => seq)));
  }
  return rows.length < limit;
}

// ---- actions

const readAction = (row: Row): ActionRow => ({
  key: nameFromBytes(row[0] as Uint8Array),
  createdTime: row[1] as number,
  data: readData(row[2]) ?? storedData("{}"),
});

export function getAction(state: State, space: Space, key: string): ActionRow | null {
  const row = state.sql.action.get(space.id, nameToBytes(key));
  return row === undefined ? null : readAction(row);
}

/** Adds all actions or none: a conflict throws before anything is written. */
export function putActions(
  state: State,
  space: () => Space,
  known: Space | undefined,
  actions: readonly ActionInput[],
  now: number,
): boolean[] {
  const fresh = new Map<string, ActionInput>();
  const answer = actions.map((action) => {
    const { key, data } = action;
    const there = fresh.get(key) ?? (known === undefined ? null : getAction(state, known, key));
    if (there === null) fresh.set(key, action);
    else if (!sameData(there.data, data)) throw otherAction(key);
    return there === null;
  });
  const { id } = space();
  for (const { key, data } of fresh.values()) {
    state.writes++;
    state.sql.addAction.run(id, nameToBytes(key), now, dataValue(data));
  }
  return answer;
}

export function listActions(state: State, space: Space, previous: string | null, limit: number): ActionRow[] {
  const after = previous === null ? Buffer.alloc(0) : nameToBytes(previous);
  return state.sql.actions.all(space.id, after, limit).map(readAction);
}

export function deleteAction(state: State, space: Space, key: string): boolean {
  const found = state.sql.dropAction.run(space.id, nameToBytes(key)) > 0;
  if (found) state.writes++;
  return found;
}

// ---- what a deleted namespace leaves behind

/** Deletes at most `limit` messages, actions and batches, and all shared limits. Returns how many, without the limits. */
export function purgeQueues(state: State, space: number, limit: number): number {
  const { sql } = state;
  const seqs = sql.messagesOf.all(space, space, limit).map(([seq]) => seq);
  if (seqs.length > 0) sql.dropMessages.run(JSON.stringify(seqs));
  const keys = sql.actionsOf.all(space, limit - seqs.length);
  for (const [key] of keys) sql.dropAction.run(space, key!);
  const batches = sql.batchesOf.all(space, limit - seqs.length - keys.length);
  for (const [name] of batches) sql.dropBatch.run(space, name!);
  sql.dropLimits.run(space);
  return seqs.length + keys.length + batches.length;
}
