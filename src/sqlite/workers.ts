/** Workers, and which attempts each of them made. */
import {
  changeWorker,
  nameFromBytes,
  nameToBytes,
  prefixEnd,
  type AttemptCursor,
  type AttemptKey,
  type Data,
  type DesiredState,
  type WorkerChange,
  type WorkerQuery,
  type WorkerRow,
} from "../core/index.ts";
import type { Row, Value } from "./driver.ts";
import type { Space, State } from "./state.ts";
import { dataValue, readData } from "./values.ts";

interface Worker {
  id: number;
  name: string;
  parent: string | null;
  mode: string;
  data: Data | null;
  lastUpdate: number;
  expiration: number;
  deactivated: boolean;
  desired: DesiredState | null;
}

function readWorker(row: Row): Worker {
  const [id, name, parent, mode, data, updated, expiration, deactivated, desired] = row;
  return {
    id: id as number,
    name: nameFromBytes(name as Uint8Array),
    parent: parent === null ? null : nameFromBytes(parent as Uint8Array),
    mode: JSON.parse(mode as string) as string,
    data: readData(data),
    lastUpdate: updated as number,
    expiration: expiration as number,
    deactivated: deactivated === 1,
    desired: desired as DesiredState | null,
  };
}

function findWorker(state: State, space: Space, name: string): Worker | undefined {
  const row = state.sql.workerByName.get(space.id, nameToBytes(name));
  return row === undefined ? undefined : readWorker([row[0]!, nameToBytes(name), ...row.slice(2)]);
}

const isActive = ({ deactivated, expiration }: Worker, now: number): boolean =>
  !deactivated && expiration > now;

const workerRow = (space: Space, worker: Worker, now: number): WorkerRow => ({
  name: worker.name,
  parent: worker.parent,
  active: isActive(worker, now),
  mode: worker.mode,
  data: worker.data,
  lastUpdate: worker.lastUpdate,
  expiration: worker.expiration,
  desired: worker.desired ?? space.settings.desired,
});

/** The stored parent; undefined for an unknown worker. */
export const parentOf = (state: State, space: Space | undefined, name: string): string | null | undefined =>
  space === undefined ? undefined : findWorker(state, space, name)?.parent;

export function putWorker(state: State, space: Space, change: WorkerChange, now: number): WorkerRow {
  state.worker(space, change.name, now);
  const worker = findWorker(state, space, change.name);
  if (worker === undefined) throw new Error("a worker that was just added is not there");
  if (change.parent !== undefined) {
    worker.parent = change.parent;
    if (change.parent !== null) state.worker(space, change.parent, now);
  }
  changeWorker(worker, change, now);
  state.writes++;
  state.sql.setWorker.run(
    worker.parent === null ? null : nameToBytes(worker.parent),
    JSON.stringify(worker.mode),
    dataValue(worker.data),
    worker.lastUpdate,
    worker.expiration,
    Number(worker.deactivated),
    worker.desired,
    worker.id,
  );
  return workerRow(space, worker, now);
}

export function getWorker(state: State, space: Space, name: string, now: number): WorkerRow | null {
  const worker = findWorker(state, space, name);
  return worker === undefined ? null : workerRow(space, worker, now);
}

const page = 500;

/** Matching workers in name order. Reads a page of rows at a time until `limit` of them match. */
export function findWorkers(
  state: State,
  space: Space,
  query: WorkerQuery,
  limit: number,
  now: number,
): WorkerRow[] {
  const { names, prefix = "", active, root, parent, previous } = query;
  const found: WorkerRow[] = [];
  const start = nameToBytes(prefix);
  const end = prefixEnd(prefix);
  const after = previous === undefined ? null : nameToBytes(previous);
  let min: Uint8Array =
    after !== null && after.compare(start) >= 0 ? Buffer.concat([after, Buffer.of(0)]) : start;
  const wanted = names === undefined ? null : new Set(names);
  while (found.length < limit) {
    const rows =
      parent === undefined
        ? state.sql.workers.all(space.id, min, page)
        : state.sql.childrenFrom.all(space.id, nameToBytes(parent), min, page);
    for (const row of rows) {
      const bytes = Buffer.from(row[1] as Uint8Array);
      if (end !== null && bytes.compare(end) >= 0) return found;
      min = Buffer.concat([bytes, Buffer.of(0)]);
      const worker = readWorker(row);
      if (wanted !== null && !wanted.has(worker.name)) continue;
      if (active !== undefined && isActive(worker, now) !== active) continue;
      if (root === true && worker.parent !== null) continue;
      found.push(workerRow(space, worker, now));
      if (found.length === limit) return found;
    }
    if (rows.length < page) break;
  }
  return found;
}

export const childrenOf = (state: State, space: Space, name: string): number[] =>
  state.sql.children.all(space.id, nameToBytes(name)).map(([id]) => id as number);

/**
 * Forgets workers that expired before `before`, have no leases and no children. Their rows keep the names, for the attempts they
 * made. Returns how many were forgotten, and the expiration at which the next call continues.
 */
export function forgetWorkers(
  state: State,
  before: number,
  from: number,
  limit: number,
): { forgotten: number; next: number } {
  const rows = state.sql.oldWorkers.all(before, from, limit);
  const next = rows.length < limit ? 0 : (rows.at(-1)?.[3] as number);
  let forgotten = 0;
  for (const [id, namespace, name] of rows) {
    // the purge deletes the workers of deleted namespaces; a worker may already be forgotten, together with its child
    if (state.deadSpaces.has(namespace as number) || state.sql.workerKnown.get(id!)?.[0] !== 1) continue;
    forgotten += forgetIdle(state, id as number, namespace as number, name as Uint8Array, before);
  }
  // a full page of workers with the same expiration that cannot be forgotten must not block the rest
  return { forgotten, next: next === from && forgotten === 0 ? next + 1 : next };
}

/** Forgets a worker that has no leases and no children, and then its parent if that expired before `before` too. */
function forgetIdle(
  state: State,
  worker: number,
  namespace: number,
  name: Uint8Array,
  before: number,
): number {
  if (state.leases.heldBy(worker).size > 0) return 0;
  if (state.sql.anyChild.get(namespace, name) !== undefined) return 0;
  const parent = state.sql.oldParent.get(worker, before);
  forget(state, worker, nameFromBytes(name));
  if (parent === undefined) return 1;
  return 1 + forgetIdle(state, parent[0] as number, namespace, parent[1] as Uint8Array, before);
}

function forget(state: State, worker: number, name: string): void {
  state.writes++;
  state.sql.forgetWorker.run(worker);
  for (const space of state.spaces.values()) {
    if (space.workers.get(name) !== worker) continue;
    space.workers.delete(name);
    state.undo(() => space.workers.set(name, worker));
  }
}

// ---- the log: one row per claim, in LEB128; each unit id is stored as the zigzag-encoded difference from the one before

export function logAttempts(
  state: State,
  worker: number,
  attempts: readonly (readonly [unit: number, number: number])[],
  now: number,
): void {
  state.writes++;
  state.sql.addLog.run(worker, now, state.nextId("log"), packAttempts(attempts));
}

function packAttempts(attempts: readonly (readonly [unit: number, number: number])[]): Uint8Array {
  const bytes: number[] = [];
  const put = (value: number): void => {
    for (; value >= 128; value = Math.floor(value / 128)) bytes.push((value % 128) + 128);
    bytes.push(value);
  };
  let last = 0;
  for (const [unit, number] of attempts) {
    const step = unit - last;
    put(step >= 0 ? step * 2 : -step * 2 - 1);
    put(number);
    last = unit;
  }
  return Uint8Array.from(bytes);
}

export function unpackAttempts(bytes: Uint8Array): AttemptKey[] {
  const keys: AttemptKey[] = [];
  let at = 0;
  const get = (): number => {
    let value = 0;
    for (let factor = 1; ; factor *= 128) {
      const byte = bytes[at++] ?? 0;
      value += (byte % 128) * factor;
      if (byte < 128) return value;
    }
  };
  let unitId = 0;
  while (at < bytes.length) {
    const step = get();
    unitId += step % 2 === 0 ? step / 2 : -(step + 1) / 2;
    keys.push({ unitId, number: get() });
  }
  return keys;
}

/** The attempts of a worker, newest first, starting at the log row (`time`, `number`). Each comes with the position of its row. */
export function* loggedAttempts(
  state: State,
  worker: number,
  time: number,
  number = Number.MAX_SAFE_INTEGER,
): Generator<AttemptCursor & { position: readonly [time: number, number: number] }> {
  let before: [Value, Value] = [time, number === Number.MAX_SAFE_INTEGER ? number : number + 1];
  for (;;) {
    const rows = state.sql.logBefore.all(worker, ...before, 100) as [number, number, Uint8Array][];
    for (const [time, number, attempts] of rows) {
      before = [time, number];
      for (const key of unpackAttempts(attempts).reverse()) yield { ...key, position: [time, number] };
    }
    if (rows.length < 100) return;
  }
}
