/**
 * What the store works on: the tables, and in memory what is small and looked at all the time (namespaces, work
 * specs with their counts, leases). Everything in memory is changed together with its rows and put back when the
 * transaction is rolled back; see `undo`.
 *
 * A unit is loaded, changed and saved as one object where rules are to be applied to it; `place` and `unplace` are the
 * only ways in and out of the tables that say where it stands. Batches of ordinary cases go by set-based statements
 * instead, in `attempts.ts` and `work-units.ts`.
 */
import {
  attemptId,
  attemptStatuses,
  dataWithText,
  dependencyState,
  emptyTally,
  nameFromBytes,
  nameToBytes,
  readStoredMeta,
  storedData,
  Watches,
  workerLifetimeMs,
  type AttemptRow,
  type AttemptStatus,
  type Data,
  type DependencyKind,
  type DependencyState,
  type NamespaceSettings,
  type Tally,
  type WorkSpecMeta,
  type WorkSpecRow,
  type WorkUnitRow,
  type WorkUnitStatus,
} from "../core/index.ts";
import type { Connection, Row, Statement, Value } from "./driver.ts";
import { ended as noteEnded, extraOf, hasQueues } from "./extras.ts";
import { Leases, type Lease } from "./leases.ts";
import { attemptCode, unitState } from "./schema.ts";
import { prepare, type Statements } from "./statements.ts";

export interface Attempt {
  readonly number: number;
  readonly worker: number;
  status: AttemptStatus;
  readonly start: number;
  end: number;
  expiration: number;
  data: Data | null;
  late: boolean;
  chainingErrors: readonly string[];
}

export interface Unit {
  readonly id: number;
  readonly spec: Spec;
  readonly name: string;
  status: WorkUnitStatus;
  data: Data | null;
  priority: number;
  notBefore: number;
  readonly created: number;
  /** With the lease, if there is one; the row counts it when it ends. */
  attempts: number;
  tries: number;
  origin: Origin | null;
  /** The latest attempt, until the unit is taken from it; then it is history. */
  attempt: Attempt | null;
  /** When it became available, where nothing else says it; 0 elsewhere. */
  since: number;
}

export interface Origin {
  unit: number;
  number: number;
}

export interface Need {
  target: number;
  kind: DependencyKind;
  workSpec: string;
  workUnit: string;
  /** Null when it was deleted. */
  status: WorkUnitStatus | null;
  /** Once met it stays met, whatever becomes of that unit. */
  met: boolean;
}

export class Space {
  readonly id: number;
  readonly name: string;
  settings: NamespaceSettings;
  readonly specs = new Map<string, Spec>();
  /** Ids of the known workers that were met since the store was opened. */
  readonly workers = new Map<string, number>();

  constructor(id: number, name: string, settings: NamespaceSettings) {
    this.id = id;
    this.name = name;
    this.settings = settings;
  }
}

export class Spec {
  readonly id: number;
  readonly space: Space;
  readonly name: string;
  data: Data;
  meta: WorkSpecMeta;
  deleted = false;
  plain = true;
  /** As in the table: whether `ended` has every ended unit. */
  retained: 0 | 1 | 2 = 0;
  /** How far `ended` has been filled; starts anew with the process. */
  filled: Uint8Array | null = null;
  counts: Tally = emptyTally();
  removed = { finished: 0, failed: 0 };
  /** The highest priority that waits, and when the first delayed unit is due: undefined is not known, null is none. */
  top: number | null | undefined;
  due: number | null | undefined;

  constructor(id: number, space: Space, name: string, data: Data, meta: WorkSpecMeta) {
    this.id = id;
    this.space = space;
    this.name = name;
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
  /** How many dependencies there are: while there are none, nobody looks for them. */
  needs: number;
  message: number;
  /** How many units have queues or labels: as with dependencies. */
  extras: number;
}

export class State {
  readonly sql: Statements;
  readonly spaces = new Map<string, Space>();
  /** All specs, deleted ones too until their units are gone. */
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
  /** Namespaces where work may have become available. */
  readonly changed = new Set<string>();
  readonly watches = new Watches();
  /** What those who wait are to be told after the commit. */
  #ended: number[] = [];
  #allEnded = false;
  #messages: { ns: string; queue: string }[] = [];
  readonly #names = new Map<number, string>();
  readonly #dirty = new Set<Spec>();
  #countersDirty = false;
  readonly #undo: (() => void)[] = [];
  /** Statements that wrote, to know whether anything did. */
  writes = 0;

  readonly #version: Statement;
  #seen: Value | undefined;

  constructor(connection: Connection) {
    this.sql = prepare(connection);
    this.#version = connection.prepare("PRAGMA data_version");
    this.refresh();
  }

  /** Reads what is in memory anew when another process has written: for who does not own the file. */
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
    const spaces = new Map<number, Space>();
    for (const [id, name, settings, dead] of this.sql.namespaces.all()) {
      const space = new Space(
        Number(id),
        nameFromBytes(name as Uint8Array),
        JSON.parse(String(settings)) as NamespaceSettings,
      );
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
        .slice(8)
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
      });
    }
  }

  // ---- transactions: what is in memory follows what is in the tables

  /** Says how to put back what is about to be changed in memory. */
  undo(back: () => void): void {
    this.#undo.push(back);
  }

  /** To be called before a spec's counts change. */
  touch(spec: Spec): void {
    if (this.#dirty.has(spec)) return;
    const counts = { ...spec.counts };
    const removed = { ...spec.removed };
    this.#undo.push(() => {
      spec.counts = counts;
      spec.removed = removed;
      spec.top = spec.due = undefined;
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

  /** Writes the counts: the last thing before a commit. */
  flush(): void {
    const { sql, counters } = this;
    for (const { id, counts, removed, deleted } of this.#dirty) {
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
    this.#undo.length = 0;
    this.#dirty.clear();
    this.#countersDirty = false;
  }

  rolledBack(): void {
    for (let back = this.#undo.pop(); back !== undefined; back = this.#undo.pop()) back();
    this.committed();
    this.changed.clear();
    this.#ended = [];
    this.#allEnded = false;
    this.#messages = [];
  }

  // ---- those who wait for ends and messages

  /** While nobody waits, a look at a number. */
  noteEnd(unit: number): void {
    if (this.watches.hasUnits && this.watches.isWatched(unit)) this.#ended.push(unit);
  }

  noteEnds(units: readonly number[]): void {
    if (this.watches.hasUnits) for (const unit of units) this.noteEnd(unit);
  }

  /** Units are gone with their work spec, and nobody names them. */
  noteAllEnded(): void {
    this.#allEnded = true;
  }

  noteMessage(ns: string, queue: string): void {
    if (this.watches.hasQueues) this.#messages.push({ ns, queue });
  }

  /** What was noted is so for everybody now. */
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

  /** The id of a worker, which is created when it is not known. */
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

  /** An id for a name that an attempt is to show, whether or not there is such a worker. */
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
      // a name that is rolled back must not be found under an id that is then given to another
      this.#undo.push(() => this.#names.delete(id));
    }
    return name;
  }
}

// ---- values

/** Names that not every driver writes and reads as they are, because of a zero byte or an escaped one. */
const unusual = /[\0\ud800-\udfff]/;

export const isUsualName = (name: string): boolean => !unusual.test(name);

/** A unit's name for a statement, which must cast it to TEXT. */
export const nameValue = (name: string): Value => (unusual.test(name) ? nameToBytes(name) : name);

const loneSurrogate = /[\ud800-\udbff](?![\udc00-\udfff])|(?<![\ud800-\udbff])[\udc00-\udfff]/;
const anySurrogate = /[\ud800-\udfff]/;

/**
 * JSON is TEXT, CBOR a BLOB. JSON text with half a surrogate pair has no UTF-8: it is a BLOB of UTF-16 after a zero byte, with
 * which no CBOR map starts.
 */
export function dataValue(data: Data | null): Value {
  if (typeof data !== "string" || !anySurrogate.test(data) || !loneSurrogate.test(data)) return data;
  return Buffer.concat([Buffer.of(0), Buffer.from(data, "utf16le")]);
}

export function readData(value: Value | undefined): Data | null {
  if (typeof value === "string") return storedData(value);
  if (!(value instanceof Uint8Array)) return null;
  if (value[0] !== 0) return storedData(value);
  return storedData(Buffer.from(value.buffer, value.byteOffset + 1, value.length - 1).toString("utf16le"));
}

const readErrors = (value: Value | undefined): readonly string[] =>
  typeof value === "string" ? (JSON.parse(value) as string[]) : noErrors;
const noErrors: readonly string[] = [];

const errorsValue = (errors: readonly string[]): Value =>
  errors.length === 0 ? null : JSON.stringify(errors);

const stateOf = (status: WorkUnitStatus): number =>
  status === "blocked" || status === "finished" || status === "failed"
    ? unitState[status]
    : unitState.waiting;

// ---- loading and saving

export function findUnit(state: State, id: number): Unit | undefined {
  const row = state.sql.unit.get(id);
  return row === undefined ? undefined : readUnit(state, row);
}

export function findUnitByName(state: State, spec: Spec, name: string): Unit | undefined {
  const row = state.sql.unitByName.get(spec.id, nameValue(name));
  return row === undefined ? undefined : readUnit(state, row);
}

/** A unit's name as it is: a driver may have cut it at a zero byte or replaced bytes that are not UTF-8. */
export function exactName(state: State, spec: Spec, id: number, read: Value | undefined): string {
  if (spec.plain) return read as string;
  return nameFromBytes((state.sql.unitNameBytes.get(id)?.[0] ?? new Uint8Array()) as Uint8Array);
}

function readUnit(state: State, row: Row): Unit {
  const id = row[0] as number;
  const spec = state.specs.get(row[1] as number);
  if (spec === undefined) throw new Error(`unit ${id} has no work spec ${String(row[1])}`);
  const data = readData(row[19]);
  const leased = row[21] !== null;
  let attempt: Attempt | null = null;
  if (leased)
    attempt = {
      number: row[21] as number,
      worker: row[22] as number,
      status: "pending",
      start: row[23] as number,
      end: 0,
      expiration: row[24] as number,
      late: row[25] === 1,
      chainingErrors: noErrors,
      data: row[26] === 1 ? readData(row[27]) : data,
    };
  else if (row[11] !== null)
    attempt = {
      number: row[7] as number,
      worker: row[12] as number,
      status: attemptStatuses[row[11] as number] ?? "expired",
      start: row[13] as number,
      end: row[14] as number,
      expiration: row[15] as number,
      late: row[16] === 1,
      chainingErrors: readErrors(row[17]),
      data: row[18] === 1 ? readData(row[20]) : data,
    };
  return {
    id,
    spec,
    name: exactName(state, spec, id, row[2]),
    status: statusOf(row[3] as number, leased, row[28] === 1),
    data,
    priority: row[4] as number,
    notBefore: row[5] as number,
    created: row[6] as number,
    attempts: (row[7] as number) + (leased ? 1 : 0),
    tries: (row[8] as number) + (leased ? 1 : 0),
    origin: row[9] === null ? null : { unit: row[9] as number, number: row[10] as number },
    attempt,
    since: (row[29] as number | null) ?? 0,
  };
}

export function statusOf(stored: number, leased: boolean, delayed: boolean): WorkUnitStatus {
  switch (stored) {
    case unitState.blocked:
      return "blocked";
    case unitState.finished:
      return "finished";
    case unitState.failed:
      return "failed";
    default:
      return leased ? "pending" : delayed ? "delayed" : "available";
  }
}

/** Writes the row of a unit, and of its lease nothing: that is written by `place`. */
export function saveUnit(state: State, unit: Unit): void {
  const { attempt, origin } = unit;
  const ended = attempt === null || attempt.status === "pending" ? null : attempt;
  const counted = attempt?.status === "pending" ? 1 : 0;
  const own = ended !== null && ended.data !== unit.data;
  state.writes++;
  state.sql.setUnit.run(
    stateOf(unit.status),
    unit.priority,
    unit.notBefore,
    unit.attempts - counted,
    unit.tries - counted,
    origin?.unit ?? null,
    origin?.number ?? null,
    ended === null ? null : attemptCode[ended.status],
    ended?.worker ?? null,
    ended?.start ?? null,
    ended?.end ?? null,
    ended?.expiration ?? null,
    ended === null ? null : Number(ended.late),
    ended === null ? null : errorsValue(ended.chainingErrors),
    ended === null ? null : Number(own),
    dataValue(unit.data),
    own ? dataValue(ended.data) : null,
    unit.since > 0 ? unit.since : null,
    unit.id,
  );
}

// ---- where a unit stands

export function place(state: State, unit: Unit, status: WorkUnitStatus): void {
  const { spec, attempt } = unit;
  const { sql } = state;
  state.touch(spec);
  state.writes++;
  unit.status = status;
  spec.counts[status]++;
  switch (status) {
    case "available":
      sql.addReady.run(spec.id, 0 - unit.priority, nameValue(unit.name), unit.id, unit.tries);
      if (spec.top !== undefined) spec.top = Math.max(spec.top ?? unit.priority, unit.priority);
      break;
    case "delayed":
      sql.addDelayed.run(spec.id, unit.notBefore, unit.id, nameValue(unit.name));
      if (spec.due !== undefined) spec.due = Math.min(spec.due ?? unit.notBefore, unit.notBefore);
      break;
    case "pending": {
      if (attempt === null) throw new Error(`unit ${unit.id} is pending without an attempt`);
      const own = attempt.data !== unit.data;
      const { number, worker, start, expiration, late } = attempt;
      sql.addLease.run(
        unit.id,
        spec.id,
        number,
        worker,
        start,
        expiration,
        Number(late),
        Number(own),
        own ? dataValue(attempt.data) : null,
      );
      const queued = hasQueues(state, unit.id);
      const lease = { unit: unit.id, spec: spec.id, number, worker, start, expiration, late, own, queued };
      state.setLease(unit.id, lease);
      break;
    }
    case "finished":
    case "failed":
      if (spec.retained > 0) sql.addEnded.run(spec.id, unitState[status], attempt?.end ?? 0, unit.id);
      break;
    case "blocked":
  }
}

/** Takes a unit out of where it stands; must be done before what it stands there by changes. */
export function unplace(state: State, unit: Unit): void {
  const { spec, status } = unit;
  const { sql } = state;
  state.touch(spec);
  state.writes++;
  spec.counts[status]--;
  switch (status) {
    case "available":
      sql.dropReady.run(spec.id, 0 - unit.priority, nameValue(unit.name));
      spec.top = undefined;
      break;
    case "delayed":
      sql.dropDelayed.run(spec.id, unit.notBefore, unit.id);
      spec.due = undefined;
      break;
    case "pending":
      sql.dropLease.run(unit.id);
      state.setLease(unit.id, undefined);
      break;
    case "finished":
    case "failed":
      if (spec.retained > 0) sql.dropEnded.run(spec.id, unitState[status], unit.attempt?.end ?? 0, unit.id);
      break;
    case "blocked":
  }
}

/** Where a unit stands that nobody runs. */
export function waitingStatus(state: State, unit: Unit, now: number): WorkUnitStatus {
  if (state.counters.needs > 0 && needsState(needsOf(state, unit.id)) !== "met") return "blocked";
  return unit.notBefore > now ? "delayed" : "available";
}

export function needsOf(state: State, unit: number): Need[] {
  if (state.counters.needs === 0) return [];
  return state.sql.needs.all(unit).map(([hard, met, target, spec, name]): Need => ({
    target: target as number,
    kind: hard === 1 ? "hard" : "soft",
    workSpec: nameFromBytes(spec as Uint8Array),
    workUnit: nameFromBytes(name as Uint8Array),
    status: findUnit(state, target as number)?.status ?? null,
    met: met === 1,
  }));
}

export const needState = ({ met, kind, status }: Need): DependencyState =>
  met ? "met" : dependencyState(kind, status);

export function needsState(needs: readonly Need[]): DependencyState {
  let state: DependencyState = "met";
  for (const need of needs) {
    const one = needState(need);
    if (one === "broken") return "broken";
    if (one === "open") state = "open";
  }
  return state;
}

/** The unit is taken from its latest attempt, which becomes history. The unit must be out of where it stood. */
export function supersede(state: State, unit: Unit, now: number): void {
  const { attempt } = unit;
  if (attempt === null) return;
  if (attempt.status === "pending") {
    attempt.status = "expired";
    attempt.end = now;
  }
  const { number, status, worker, start, end, expiration, late, chainingErrors, data } = attempt;
  state.writes++;
  state.sql.addHistory.run(
    unit.id,
    number,
    attemptCode[status],
    worker,
    start,
    end,
    expiration,
    Number(late),
    errorsValue(chainingErrors),
    dataValue(data),
  );
  unit.attempt = null;
}

/** Makes the next attempt of a unit that is out of where it stood. The caller places and saves it. */
export function begin(state: State, unit: Unit, worker: number, expiration: number, now: number): Attempt {
  supersede(state, unit, now);
  unit.tries++;
  const attempt = newAttempt(++unit.attempts, worker, "pending", now, expiration, unit.data);
  unit.attempt = attempt;
  return attempt;
}

const newAttempt = (
  number: number,
  worker: number,
  status: AttemptStatus,
  start: number,
  expiration: number,
  data: Data | null,
): Attempt => ({
  number,
  worker,
  status,
  start,
  end: status === "pending" ? 0 : start,
  expiration,
  data,
  late: false,
  chainingErrors: noErrors,
});

/** Fails a unit that cannot go on, by an attempt that nobody ran: its history and its data say why. */
export function failUnit(state: State, unit: Unit, worker: string, traceback: string, now: number): void {
  unplace(state, unit);
  supersede(state, unit, now);
  const id = state.workerForName(unit.spec.space, worker, now);
  unit.attempt = newAttempt(
    ++unit.attempts,
    id,
    "failed",
    now,
    now,
    dataWithText(unit.data, "traceback", traceback),
  );
  place(state, unit, "failed");
  saveUnit(state, unit);
  noteEnded(state, unit, now);
}

export function topPriority(state: State, spec: Spec): number | null {
  if (spec.top === undefined) {
    const place = spec.counts.available === 0 ? undefined : state.sql.firstReady.get(spec.id)?.[0];
    spec.top = typeof place === "number" ? 0 - place : null;
  }
  return spec.top;
}

// ---- rows

const isActive = ({ status }: Attempt): boolean =>
  status === "pending" || status === "finished" || status === "failed";

export function attemptRow(
  state: State,
  unit: Pick<Unit, "id" | "spec" | "name">,
  attempt: Attempt,
  current: boolean,
): AttemptRow {
  return {
    id: attemptId(unit.id, attempt.number),
    workSpec: unit.spec.name,
    workUnit: unit.name,
    worker: state.workerName(attempt.worker),
    number: attempt.number,
    status: attempt.status,
    active: current && isActive(attempt),
    startTime: attempt.start,
    endTime: attempt.end,
    expirationTime: attempt.expiration,
    data: attempt.data,
    late: attempt.late,
    chainingErrors: attempt.chainingErrors,
  };
}

export function unitRow(state: State, unit: Unit): WorkUnitRow {
  const active = unit.attempt !== null && isActive(unit.attempt) ? unit.attempt : null;
  return {
    id: unit.id,
    workSpec: unit.spec.name,
    name: unit.name,
    status: unit.status,
    data: active?.data ?? unit.data,
    priority: unit.priority,
    notBefore: unit.notBefore,
    createdTime: unit.created,
    attempts: unit.attempts,
    activeAttempt: active === null ? null : attemptRow(state, unit, active, true),
    origin: unit.origin === null ? null : attemptId(unit.origin.unit, unit.origin.number),
    dependencies: needsOf(state, unit.id).map(({ workSpec, workUnit, kind, status }) => ({
      workSpec,
      workUnit,
      kind,
      status,
    })),
    ...extraOf(state, unit.id),
  };
}

// ---- history

/** The attempts of a unit that are history, in the order they were made. */
export function pastAttempts(state: State, unit: number): Attempt[] {
  return state.sql.history.all(unit).map(readPast);
}

export function pastAttempt(state: State, unit: number, number: number): Attempt | undefined {
  const row = state.sql.pastAttempt.get(unit, number);
  return row === undefined ? undefined : readPast(row);
}

function readPast(row: Row): Attempt {
  const [number, status, worker, start, end, expiration, late, errors, data] = row;
  return {
    number: number as number,
    status: attemptStatuses[status as number] ?? "expired",
    worker: worker as number,
    start: start as number,
    end: end as number,
    expiration: expiration as number,
    late: late === 1,
    chainingErrors: readErrors(errors),
    data: readData(data),
  };
}
