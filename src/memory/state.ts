/**
 * What the memory store holds. A spec keeps its units in several orders at once: by name with counts by status, and,
 * in the order they are asked for, what waits (`ready`), what is delayed (`due`) and what runs (`leases`).
 * `place` and `unplace` are the only ways in and out of these orders, so that counts are always exact.
 */
import {
  attemptId,
  compareNames,
  dataWithText,
  dependencyState,
  isPlainName,
  type ActionRow,
  type AttemptRow,
  type AttemptStatus,
  type Data,
  type DependencyKind,
  type DependencyState,
  type DesiredState,
  type Lock,
  type NamespaceSettings,
  type QueueMessage,
  type Watches,
  type WorkSpecMeta,
  type WorkSpecRow,
  type WorkUnitRow,
  type WorkUnitStatus,
  type WorkerRow,
} from "../core/index.ts";
import { Queue } from "./queues.ts";
import { SortedList } from "./sorted-list.ts";
import { UnitNames, type NameChunk } from "./unit-names.ts";

export class Attempt {
  readonly number: number;
  readonly worker: string;
  status: AttemptStatus;
  readonly start: number;
  end = 0;
  expiration: number;
  data: Data | null;
  late = false;
  chainingErrors: readonly string[] = none;

  constructor(number: number, worker: string, start: number, expiration: number, data: Data | null) {
    this.number = number;
    this.worker = worker;
    this.status = "pending";
    this.start = start;
    this.expiration = expiration;
    this.data = data;
  }
}

const none: readonly never[] = [];

export interface Need {
  unit: Unit;
  kind: DependencyKind;
  /** Once met it stays met, whatever becomes of that unit. */
  met: boolean;
}

/** What few units have: kept apart so that millions of others do not pay for it. */
export interface Links {
  /** The id of the attempt that made it. */
  origin: string | null;
  needs: Need[];
  dependents: Set<Unit>;
  queues: readonly string[];
  labels: readonly string[];
  /** When it became available, where nothing else says so; see `availableSince`. */
  since: number;
}

export function linksOf(unit: Unit): Links {
  unit.links ??= { origin: null, needs: [], dependents: new Set(), queues: none, labels: none, since: 0 };
  return unit.links;
}

export class Unit {
  readonly id: number;
  readonly spec: Spec;
  readonly name: string;
  data: Data | null;
  priority: number;
  notBefore: number;
  readonly created: number;
  status: WorkUnitStatus = "available";
  deleted = false;
  /** Where it stands among the names of its spec; null until it is there. */
  chunk: NameChunk | null = null;
  /** The latest attempt, until the unit is taken from it; then it is history. */
  attempt: Attempt | null = null;
  history: Attempt[] | null = null;
  /** Attempts ever made, and those that count against `max_retries`. */
  attempts = 0;
  tries = 0;
  links: Links | null = null;

  constructor(
    id: number,
    spec: Spec,
    name: string,
    data: Data | null,
    priority: number,
    notBefore: number,
    now: number,
  ) {
    this.id = id;
    this.spec = spec;
    this.name = name;
    this.data = data;
    this.priority = priority;
    this.notBefore = notBefore;
    this.created = now;
  }
}

/** JavaScript's own order is the order of names as long as no name has surrogates or beyond: then it is faster. */
const byName = (a: Unit, b: Unit): number =>
  a === b
    ? 0
    : a.spec.plain
      ? a.name < b.name
        ? -1
        : a.name > b.name
          ? 1
          : 0
      : compareNames(a.name, b.name);
const byClaim = (a: Unit, b: Unit): number => b.priority - a.priority || byName(a, b);
const byExpiration = (a: Unit, b: Unit): number => expirationOf(a) - expirationOf(b) || a.id - b.id;
const byDue = (a: Unit, b: Unit): number => a.notBefore - b.notBefore || a.id - b.id;
const byEnd = (a: Unit, b: Unit): number => endOf(a) - endOf(b) || a.id - b.id;
const expirationOf = (unit: Unit): number => unit.attempt?.expiration ?? 0;
const endOf = (unit: Unit): number => unit.attempt?.end ?? 0;

export class Spec {
  readonly id: number;
  readonly space: Space;
  readonly name: string;
  data: Data;
  meta: WorkSpecMeta;
  deleted = false;
  /** Whether all names so far compare by JavaScript's own order. */
  plain = true;
  units = new Map<string, Unit>();
  readonly names = new UnitNames(byName);
  readonly ready = new SortedList<Unit>(byClaim);
  readonly due = new SortedList<Unit>(byDue);
  readonly leases = new SortedList<Unit>(byExpiration);
  /** Units by label, in name order. */
  readonly labels = new Map<string, SortedList<Unit>>();
  /** Available units that were tried too often when they came back. */
  readonly exhausted = new Set<Unit>();
  /** Ended units by the time they ended: only where retention asks for it. */
  ended: Record<"finished" | "failed", SortedList<Unit>> | null = null;
  readonly removed = { finished: 0, failed: 0 };

  constructor(id: number, space: Space, name: string, data: Data, meta: WorkSpecMeta) {
    this.id = id;
    this.space = space;
    this.name = name;
    this.data = data;
    this.meta = meta;
  }

  /** Names that are not plain are ordered by their bytes, which agrees with the order of the plain ones so far. */
  noteName(name: string): void {
    if (this.plain && !isPlainName(name)) this.plain = false;
  }

  /** Finds units that were tried too often by a limit that was not there before. */
  setMeta(meta: WorkSpecMeta): void {
    const { maxRetries } = this.meta;
    this.meta = meta;
    if (meta.maxRetries === maxRetries) return;
    this.exhausted.clear();
    if (meta.maxRetries === 0) return;
    for (const unit of this.ready) if (unit.tries >= meta.maxRetries) this.exhausted.add(unit);
  }

  /** Keeps the order that retention needs exactly while it needs it. */
  syncRetention(): void {
    const { finished, failed } = this.meta.retention;
    if (finished === undefined && failed === undefined) this.ended = null;
    else if (this.ended === null) {
      this.ended = { finished: new SortedList(byEnd), failed: new SortedList(byEnd) };
      for (const unit of this.names.find(["finished"], () => true)) this.ended.finished.add(unit);
      for (const unit of this.names.find(["failed"], () => true)) this.ended.failed.add(unit);
    }
  }

  row(): WorkSpecRow {
    return { id: this.id, name: this.name, data: this.data, meta: { ...this.meta } };
  }
}

export class Worker {
  readonly name: string;
  parent: string | null = null;
  readonly children = new Set<string>();
  mode = "";
  data: Data | null = null;
  lastUpdate: number;
  expiration: number;
  deactivated = false;
  desired: DesiredState | null = null;
  /** The units it holds. */
  readonly holds = new Set<Unit>();
  /** Every attempt it made, as pairs of unit id and number. */
  log: number[] = [];
  /** How long the log was when it was last looked through. */
  trimmed = 0;

  constructor(name: string, now: number, expiration: number) {
    this.name = name;
    this.lastUpdate = now;
    this.expiration = expiration;
  }

  isActive(now: number): boolean {
    return !this.deactivated && this.expiration > now;
  }

  row(settings: NamespaceSettings, now: number): WorkerRow {
    return {
      name: this.name,
      parent: this.parent,
      active: this.isActive(now),
      mode: this.mode,
      data: this.data,
      lastUpdate: this.lastUpdate,
      expiration: this.expiration,
      desired: this.desired ?? settings.desired,
    };
  }
}

export class Space {
  readonly name: string;
  settings: NamespaceSettings;
  readonly specs = new Map<string, Spec>();
  readonly workers = new Map<string, Worker>();
  readonly locks = new Map<string, Lock>();
  readonly queues = new Map<string, Queue>();
  /** By queue and request id, what was taken, oldest first. */
  readonly taken = new Map<string, { time: number; messages: readonly QueueMessage[] }>();
  readonly actions = new Map<string, ActionRow>();
  readonly watches: Watches;
  /** What requests with an id were answered, oldest first. */
  readonly requests = new Map<string, { time: number; answer: unknown }>();

  constructor(name: string, settings: NamespaceSettings, watches: Watches) {
    this.name = name;
    this.settings = settings;
    this.watches = watches;
  }
}

/** Units by id, in chunks: 8 bytes a unit, where a Map takes 40. */
export class UnitTable {
  readonly #chunks = new Map<number, { units: (Unit | undefined)[]; count: number }>();
  lastId = 0;

  get(id: number): Unit | undefined {
    return this.#chunks.get(Math.floor(id / 4096))?.units[id % 4096];
  }

  add(unit: Unit): void {
    const key = Math.floor(unit.id / 4096);
    let chunk = this.#chunks.get(key);
    if (chunk === undefined) {
      chunk = { units: new Array<Unit | undefined>(4096).fill(undefined), count: 0 };
      this.#chunks.set(key, chunk);
    }
    chunk.units[unit.id % 4096] = unit;
    chunk.count++;
  }

  delete(unit: Unit): void {
    const key = Math.floor(unit.id / 4096);
    const chunk = this.#chunks.get(key);
    if (chunk?.units[unit.id % 4096] === undefined) return;
    chunk.units[unit.id % 4096] = undefined;
    if (--chunk.count === 0) this.#chunks.delete(key);
  }
}

// ---- ends

/** A unit has ended, and stands where it stands: who named a queue for that is told there, who waits is woken. */
export function ended(unit: Unit, now: number): void {
  const { links, attempt, status } = unit;
  const { space } = unit.spec;
  // of a work spec that was deleted nobody hears any more, though its rows are still there
  if (links !== null && !unit.spec.deleted && (status === "finished" || status === "failed"))
    for (const name of links.queues) {
      let queue = space.queues.get(name);
      if (queue === undefined) space.queues.set(name, (queue = new Queue()));
      queue.append({
        seq: ++lastSeq.value,
        queue: name,
        workSpec: unit.spec.name,
        workUnit: unit.name,
        attempt: attempt === null ? null : attemptId(unit.id, attempt.number),
        status,
        data: attempt?.data ?? unit.data,
        at: now,
      });
      space.watches.appended(space.name, name);
    }
  if (space.watches.hasUnits) space.watches.ended(unit.id);
}

/** Of all stores in the process: a number that rises is all that is promised. */
const lastSeq = { value: 0 };

// ---- labels

export function setLabels(unit: Unit, labels: readonly string[]): void {
  const { spec } = unit;
  for (const label of unit.links?.labels ?? none) {
    const list = spec.labels.get(label);
    list?.remove(unit);
    if (list?.size === 0) spec.labels.delete(label);
  }
  if (labels.length === 0 && unit.links === null) return;
  linksOf(unit).labels = labels;
  for (const label of labels) {
    let list = spec.labels.get(label);
    if (list === undefined) spec.labels.set(label, (list = new SortedList<Unit>(byName)));
    list.add(unit);
  }
}

// ---- moving units between the orders

export function place(unit: Unit, status: WorkUnitStatus): void {
  const { spec } = unit;
  spec.names.change(unit, status);
  if (status === "available") {
    spec.ready.add(unit);
    if (spec.meta.maxRetries > 0 && unit.tries >= spec.meta.maxRetries) spec.exhausted.add(unit);
  } else if (status === "pending") spec.leases.add(unit);
  else if (status === "delayed") spec.due.add(unit);
  else if (status !== "blocked") spec.ended?.[status].add(unit);
}

/** Takes a unit out of every order but that of names; must be done before what it is ordered by changes. */
export function unplace(unit: Unit): void {
  const { spec, status } = unit;
  if (status === "available") {
    spec.ready.remove(unit);
    if (spec.exhausted.size > 0) spec.exhausted.delete(unit);
  } else if (status === "pending") spec.leases.remove(unit);
  else if (status === "delayed") spec.due.remove(unit);
  else if (status !== "blocked") spec.ended?.[status].remove(unit);
}

/** Where a unit stands that nobody runs. */
export function waitingStatus(unit: Unit, now: number): WorkUnitStatus {
  if (unit.links !== null && needsState(unit.links.needs) !== "met") return "blocked";
  return unit.notBefore > now ? "delayed" : "available";
}

export const needStatus = ({ unit }: Need): WorkUnitStatus | null => (unit.deleted ? null : unit.status);

export const needState = (need: Need): DependencyState =>
  need.met ? "met" : dependencyState(need.kind, needStatus(need));

export function needsState(needs: readonly Need[]): DependencyState {
  let state: DependencyState = "met";
  for (const need of needs) {
    const one = needState(need);
    if (one === "broken") return "broken";
    if (one === "open") state = "open";
  }
  return state;
}

/** The worker no longer holds the unit. */
export function letGo(unit: Unit, attempt: Attempt): void {
  unit.spec.space.workers.get(attempt.worker)?.holds.delete(unit);
}

/** The unit is taken from its latest attempt, which becomes history. The unit must be out of the orders. */
export function supersede(unit: Unit, now: number): void {
  const { attempt } = unit;
  if (attempt === null) return;
  if (attempt.status === "pending") {
    attempt.status = "expired";
    attempt.end = now;
    letGo(unit, attempt);
  }
  unit.history ??= [];
  unit.history.push(attempt);
  unit.attempt = null;
}

/** Makes the next attempt of a unit that is out of the orders. The caller places it. */
export function begin(unit: Unit, worker: Worker, expiration: number, now: number): Attempt {
  supersede(unit, now);
  unit.tries++;
  const attempt = new Attempt(++unit.attempts, worker.name, now, expiration, unit.data);
  unit.attempt = attempt;
  worker.holds.add(unit);
  worker.log.push(unit.id, attempt.number);
  return attempt;
}

/** Fails a unit that cannot go on, by an attempt that nobody ran: its history and its data say why. */
export function failUnit(unit: Unit, worker: string, traceback: string, now: number): void {
  unplace(unit);
  supersede(unit, now);
  const attempt = new Attempt(
    ++unit.attempts,
    worker,
    now,
    now,
    dataWithText(unit.data, "traceback", traceback),
  );
  attempt.status = "failed";
  attempt.end = now;
  unit.attempt = attempt;
  place(unit, "failed");
  ended(unit, now);
}

// ---- rows

export function attemptRow(unit: Unit, attempt: Attempt): AttemptRow {
  return {
    id: attemptId(unit.id, attempt.number),
    workSpec: unit.spec.name,
    workUnit: unit.name,
    worker: attempt.worker,
    number: attempt.number,
    status: attempt.status,
    active: attempt === unit.attempt && isActive(attempt),
    startTime: attempt.start,
    endTime: attempt.end,
    expirationTime: attempt.expiration,
    data: attempt.data,
    late: attempt.late,
    chainingErrors: attempt.chainingErrors,
  };
}

const isActive = ({ status }: Attempt): boolean =>
  status === "pending" || status === "finished" || status === "failed";

export function unitRow(unit: Unit): WorkUnitRow {
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
    activeAttempt: active === null ? null : attemptRow(unit, active),
    origin: unit.links?.origin ?? null,
    dependencies:
      unit.links?.needs.map((need) => ({
        workSpec: need.unit.spec.name,
        workUnit: need.unit.name,
        kind: need.kind,
        status: needStatus(need),
      })) ?? none,
    queues: unit.links?.queues ?? none,
    labels: unit.links?.labels ?? none,
  };
}
