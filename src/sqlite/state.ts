/**
 * State that is in memory because it is small and used all the time: namespaces, work specs with their counts, leases. It is
 * changed together with its rows, and restored when the transaction is rolled back; see `undo`.
 */
import {
  defaultNamespaceSettings,
  emptyTally,
  HistoryCounts,
  hasLanes,
  nameFromBytes,
  nameToBytes,
  TransactionHistory,
  readStoredMeta,
  storedData,
  Watches,
  workerLifetimeMs,
  type Data,
  type Lanes,
  type NamespaceSettings,
  type SpecState,
  type Tally,
  type WorkSpecMeta,
  type WorkSpecRow,
} from "../core/index.ts";
import type { Connection, Statement, Value } from "./driver.ts";
import { lanesOf } from "./lanes.ts";
import { Leases, type Lease } from "./leases.ts";
import { prepare, type Statements } from "./statements.ts";
import { partitionValue, readData, readPartition } from "./values.ts";
import { SqliteSet } from "./working-set.ts";

export class Space {
  readonly id: number;
  readonly name: string;
  settings: NamespaceSettings;
  readonly specs = new Map<string, Spec>();
  /** Cached ids of known workers. */
  readonly workers = new Map<string, number>();

  constructor(id: number, name: string, settings: NamespaceSettings) {
    this.id = id;
    this.name = name;
    this.settings = settings;
  }
}

export class Spec implements SpecState {
  readonly id: number;
  readonly space: Space;
  readonly name: string;
  readonly namespace: string;
  data: Data;
  meta: WorkSpecMeta;
  deleted = false;
  plain = true;
  /** Whether table `ended` has every ended unit: 0 no, 1 being filled or emptied, 2 yes. */
  retained: 0 | 1 | 2 = 0;
  /** The unit name up to which `ended` is filled. Not stored: filling restarts with the process. */
  filled: Uint8Array | null = null;
  counts: Tally = emptyTally();
  removed = { finished: 0, failed: 0 };
  /** Cached: the highest available priority, and when the first delayed unit is due. Undefined is not known, null is none. */
  top: number | null | undefined;
  due: number | null | undefined;
  /** Whether any of its units may have a timer, and when the first one rings (cached like `due`). */
  timed = false;
  ring: number | null | undefined;
  /** Null until first use, and for specs that do not hand out units by partition: see `lanesOf`. */
  lanes: Lanes | null = null;
  /** The partition that was served last, and how many units it has got in its turn. */
  cursor = "";
  turn = 0;
  full = 0;
  /** The time slot in which its breaker counted last; see `outcomes.ts`. */
  countedAt = 0;

  constructor(id: number, space: Space, name: string, data: Data, meta: WorkSpecMeta) {
    this.id = id;
    this.space = space;
    this.name = name;
    this.namespace = space.name;
    this.data = data;
    this.meta = meta;
  }

  row(): WorkSpecRow {
    return { id: this.id, name: this.name, data: this.data, meta: { ...this.meta } };
  }
}

interface Counters {
  unit: number;
  spec: number;
  namespace: number;
  worker: number;
  log: number;
  /** The number of dependencies. While it is 0, lookups of dependencies are skipped. */
  needs: number;
  message: number;
  /** The number of units with extras, such as queues or labels. While it is 0, lookups are skipped. */
  extras: number;
}

export class State {
  readonly sql: Statements;
  readonly spaces = new Map<string, Space>();
  /** All specs, including deleted ones until their units are purged. */
  readonly specs = new Map<number, Spec>();
  readonly deadSpecs = new Set<Spec>();
  /** Deleted namespaces, by id. */
  readonly deadSpaces = new Set<number>();
  readonly leases = new Leases();
  readonly counters: Counters = {
    unit: 0,
    spec: 0,
    namespace: 0,
    worker: 0,
    log: 0,
    needs: 0,
    message: 0,
    extras: 0,
  };
  /** Whether any unit may have a deadline. */
  timed = false;
  /** Whether any attempt log is stored. While there is none, lookups are skipped. */
  hasLogs = false;
  /** Namespaces where work may have become available. */
  readonly changed = new Set<string>();
  readonly watches = new Watches();
  /** For the history: `historyCounts` has the committed events, `history` those of the open transaction. */
  readonly historyCounts = new HistoryCounts();
  readonly history = new TransactionHistory(this.historyCounts);
  /** The ends and messages that waiting callers are notified of after the commit. */
  #ended: number[] = [];
  #allEnded = false;
  #messages: { ns: string; queue: string }[] = [];
  readonly #names = new Map<number, string>();
  readonly #dirty = new Set<Spec>();
  #countersDirty = false;
  readonly #undo: (() => void)[] = [];
  /** Counts write statements, to tell whether a verb has written anything. */
  writes = 0;
  /** Whether add, claim, settle, expire and delete may use the set-based statements of `fast-paths.ts`. */
  readonly fastPaths: boolean;
  /** The working set of the running verb. */
  readonly set = new SqliteSet(this);

  readonly #version: Statement;
  #seen: Value | undefined;

  constructor(connection: Connection, fastPaths: boolean) {
    this.fastPaths = fastPaths;
    this.sql = prepare(connection);
    this.#version = connection.prepare("PRAGMA data_version");
    this.refresh();
  }

  /** Reloads the state if another process has written to the file. For readers, which do not own it. */
  refresh(): void {
    const version = this.#version.get()?.[0];
    if (version === this.#seen) return;
    this.#seen = version;
    this.spaces.clear();
    this.specs.clear();
    this.deadSpecs.clear();
    this.deadSpaces.clear();
    this.leases.clear();
    this.#names.clear();
    this.#load();
  }

  #load(): void {
    const [unit, spec, namespace, worker, log, needs, message, extras] = (this.sql.counters.get() ??
      []) as number[];
    Object.assign(this.counters, { unit, spec, namespace, worker, log, needs, message, extras });
    this.hasLogs = typeof this.sql.lastLogged.get()?.[0] === "number";
    const spaces = new Map<number, Space>();
    for (const [id, name, settings, dead] of this.sql.namespaces.all()) {
      const space = new Space(Number(id), nameFromBytes(name as Uint8Array), {
        ...defaultNamespaceSettings,
        ...(JSON.parse(String(settings)) as Partial<NamespaceSettings>),
      });
      spaces.set(space.id, space);
      if (dead === 1) this.deadSpaces.add(space.id);
      else this.spaces.set(space.name, space);
    }
    for (const row of this.sql.specs.all()) {
      const [id, namespace, name, data, meta, dead, plain, retained] = row;
      const space = spaces.get(Number(namespace));
      if (space === undefined) continue;
      const spec = new Spec(
        Number(id),
        space,
        nameFromBytes(name as Uint8Array),
        readData(data) ?? storedData("{}"),
        readStoredMeta(String(meta)),
      );
      const [available, delayed, blocked, pending, finished, failed, removedFinished, removedFailed] = row
        .slice(8, 16)
        .map(Number);
      spec.counts = {
        available: available!,
        delayed: delayed!,
        blocked: blocked!,
        pending: pending!,
        finished: finished!,
        failed: failed!,
      };
      spec.removed = { finished: removedFinished!, failed: removedFailed! };
      spec.full = Number(row[16]);
      spec.cursor = readPartition(row[17]);
      spec.turn = Number(row[18]);
      spec.timed = row[19] === 1;
      this.timed ||= spec.timed;
      spec.plain = plain === 1;
      spec.retained = Number(retained) as 0 | 1 | 2;
      spec.deleted = dead === 1 || this.deadSpaces.has(space.id);
      this.specs.set(spec.id, spec);
      if (spec.deleted) this.deadSpecs.add(spec);
      else space.specs.set(spec.name, spec);
    }
    for (const row of this.sql.leases.all()) {
      const [unit, spec, number, worker, start, expiration, late, own, queued] = row as number[];
      this.leases.set(unit!, {
        unit: unit!,
        spec: spec!,
        number: number!,
        worker: worker!,
        start: start!,
        expiration: expiration!,
        late: late === 1,
        own: own === 1,
        queued: queued === 1,
        partition: undefined,
      });
    }
  }

  // ---- transactions: the state in memory is committed and rolled back together with the tables

  /** Registers a callback that restores a change in memory when the transaction is rolled back. */
  undo(back: () => void): void {
    this.#undo.push(back);
  }

  /** Call before a spec's counts change: saves them for a rollback, and has `flush` write the new ones. */
  touch(spec: Spec): void {
    if (this.#dirty.has(spec)) return;
    const counts = { ...spec.counts };
    const removed = { ...spec.removed };
    const { full, cursor, turn } = spec;
    this.#undo.push(() => {
      Object.assign(spec, { full, cursor, turn, lanes: null });
      spec.counts = counts;
      spec.removed = removed;
      spec.top = spec.due = spec.ring = undefined;
    });
    this.#dirty.add(spec);
  }

  nextId(kind: keyof Counters, by = 1): number {
    if (!this.#countersDirty) {
      const old = { ...this.counters };
      this.#undo.push(() => {
        Object.assign(this.counters, old);
      });
      this.#countersDirty = true;
    }
    this.counters[kind] += by;
    return this.counters[kind];
  }

  setLease(unit: number, lease: Lease | undefined): Lease | undefined {
    const old = this.leases.set(unit, lease);
    this.#undo.push(() => this.leases.set(unit, old));
    return old;
  }

  /** Writes the changed counts: the last step before a commit. */
  flush(): void {
    const { sql, counters } = this;
    for (const { id, counts, removed, deleted, full, cursor, turn } of this.#dirty) {
      if (deleted && !this.specs.has(id)) continue;
      const { available, delayed, blocked, pending, finished, failed } = counts;
      sql.setTally.run(
        available,
        delayed,
        blocked,
        pending,
        finished,
        failed,
        removed.finished,
        removed.failed,
        full,
        partitionValue(cursor),
        turn,
        id,
      );
    }
    if (this.#countersDirty)
      sql.setCounters.run(
        counters.unit,
        counters.spec,
        counters.namespace,
        counters.worker,
        counters.log,
        counters.needs,
        counters.message,
        counters.extras,
      );
  }

  committed(): void {
    this.history.committed();
    this.#undo.length = 0;
    this.#dirty.clear();
    this.#countersDirty = false;
  }

  rolledBack(): void {
    this.history.clear();
    for (let back = this.#undo.pop(); back !== undefined; back = this.#undo.pop()) back();
    this.committed();
    this.changed.clear();
    this.#ended = [];
    this.#allEnded = false;
    this.#messages = [];
  }

  // ---- notifying callers that wait for ends and messages

  /** Costs one comparison while no caller waits. */
  noteEnd(unit: number): void {
    if (this.watches.hasUnits && this.watches.isWatched(unit)) this.#ended.push(unit);
  }

  noteEnds(units: readonly number[]): void {
    if (this.watches.hasUnits) for (const unit of units) this.noteEnd(unit);
  }

  /** A work spec was deleted with its units, which are not listed: `tellWatches` wakes all callers that wait for ends. */
  noteAllEnded(): void {
    this.#allEnded = true;
  }

  noteMessage(ns: string, queue: string): void {
    if (this.watches.hasQueues) this.#messages.push({ ns, queue });
  }

  /** Wakes waiting callers. Call after the commit. */
  tellWatches(): void {
    if (this.#allEnded) this.watches.allEnded();
    this.#allEnded = false;
    if (this.#ended.length > 0) {
      const ended = this.#ended;
      this.#ended = [];
      for (const unit of ended) this.watches.ended(unit);
    }
    if (this.#messages.length > 0) {
      const messages = this.#messages;
      this.#messages = [];
      for (const { ns, queue } of messages) this.watches.appended(ns, queue);
    }
  }

  // ---- workers

  /** The id of a worker. Creates the worker if it is unknown. */
  worker(space: Space, name: string, now: number): number {
    return this.knownWorker(space, name) ?? this.#addWorker(space, name, 1, now);
  }

  knownWorker(space: Space, name: string): number | undefined {
    const cached = space.workers.get(name);
    if (cached !== undefined) return cached;
    const found = this.sql.workerByName.get(space.id, nameToBytes(name))?.[0];
    if (typeof found !== "number") return undefined;
    space.workers.set(name, found);
    return found;
  }

  /** The id of the worker name of an attempt, whether or not such a worker is known. */
  workerForName(space: Space, name: string, now: number): number {
    const found = space.workers.get(name) ?? this.sql.anyWorker.get(space.id, nameToBytes(name))?.[0];
    return typeof found === "number" ? found : this.#addWorker(space, name, 0, now);
  }

  #addWorker(space: Space, name: string, known: 0 | 1, now: number): number {
    const id = this.nextId("worker");
    this.writes++;
    this.sql.addWorker.run(id, space.id, nameToBytes(name), known, now, now + workerLifetimeMs);
    if (known === 1) {
      space.workers.set(name, id);
      this.#undo.push(() => space.workers.delete(name));
    }
    return id;
  }

  workerName(id: number): string {
    let name = this.#names.get(id);
    if (name === undefined) {
      name = nameFromBytes((this.sql.workerById.get(id)?.[0] ?? new Uint8Array()) as Uint8Array);
      if (this.#names.size > 10_000) this.#names.clear();
      this.#names.set(id, name);
      // after a rollback another worker may get this id: it must not find the old name
      this.#undo.push(() => this.#names.delete(id));
    }
    return name;
  }
}

export function topPriority(state: State, spec: Spec): number | null {
  if (hasLanes(spec.meta)) return lanesOf(state, spec).top;
  if (spec.top === undefined) {
    const place = spec.counts.available === 0 ? undefined : state.sql.firstReady.get(spec.id)?.[0];
    spec.top = typeof place === "number" ? 0 - place : null;
  }
  return spec.top;
}
