/**
 * The data of the memory store. A spec keeps its units in several sorted lists: by name with counts by status, and waiting
 * (`ready`), delayed (`due`) and running (`leases`) units in the order in which they are needed. Only `enter` and `leave` of the
 * working set put units into these lists and take them out, so that counts are always exact.
 */
import {
  compareNames,
  hasTimer,
  isPlainName,
  breakerRules,
  hasLanes,
  laneRules,
  isSpent,
  nextTimer,
  noExtras,
  SortedList,
  specTryLimit,
  type ActionRow,
  type BatchRow,
  type AttemptState,
  type Data,
  type DesiredState,
  type SharedLimit,
  type Extras,
  type Lock,
  type NamespaceSettings,
  type Need,
  type QueueMessage,
  type SpecState,
  type StoredLog,
  type UnitState,
  type Watches,
  type WorkSpecMeta,
  type WorkSpecRow,
  type WorkUnitStatus,
  type WorkerRow,
} from "../core/index.ts";
import { Failures } from "./failures.ts";
import { SpaceHistory } from "./history.ts";
import type { Queue } from "./queues.ts";
import { SpecLanes, type UnitLane } from "./spec-lanes.ts";
import { SpecUnits, type UnitChunk } from "./spec-units.ts";

/** Fields that few units have: kept apart so that millions of others do not pay for them. */
interface Links {
  origin: string | null;
  history: AttemptState[] | null;
  since: number;
  extras: Extras;
  needs: readonly Need[];
  dependents: Set<Unit> | null;
  /** What its tasks wrote, by the number of the attempt. */
  logs: Map<number, StoredLog> | null;
}

const noNeeds: readonly Need[] = [];

export class Unit implements UnitState {
  readonly id: number;
  readonly spec: Spec;
  readonly name: string;
  data: Data | null;
  priority: number;
  notBefore: number;
  readonly created: number;
  status: WorkUnitStatus = "available";
  /** Its chunk among the names of its spec; null until it is added. */
  chunk: UnitChunk | null = null;
  /** The latest attempt, until it is superseded and becomes history. */
  attempt: AttemptState | null = null;
  /** Attempts ever made, and those that count as tries. */
  attempts = 0;
  tries = 0;
  /** Orders leases of its spec that end at the same time. */
  leased = 0;
  /** The next unit in its lane. */
  next: Unit | null = null;
  /** The lane that counts it, or else the name of its partition. */
  #place: UnitLane | string = "";
  #links: Links | null = null;

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

  #link(): Links {
    this.#links ??= {
      origin: null,
      history: null,
      since: 0,
      extras: noExtras,
      needs: noNeeds,
      dependents: null,
      logs: null,
    };
    return this.#links;
  }

  get history(): AttemptState[] | null {
    return this.#links?.history ?? null;
  }

  set history(history: AttemptState[] | null) {
    this.#link().history = history;
  }

  get logs(): Map<number, StoredLog> | null {
    return this.#links?.logs ?? null;
  }

  set logs(logs: Map<number, StoredLog> | null) {
    this.#link().logs = logs;
  }

  get origin(): string | null {
    return this.#links?.origin ?? null;
  }

  set origin(origin: string | null) {
    this.#link().origin = origin;
  }

  get partition(): string {
    const place = this.#place;
    return typeof place === "string" ? place : place.partition;
  }

  set partition(partition: string) {
    if (partition === this.partition) return;
    // it may still have a successor, from a lane that was dropped when the rules of its spec changed
    this.lane = null;
    this.#place = partition;
  }

  get lane(): UnitLane | null {
    const place = this.#place;
    return typeof place === "string" ? null : place;
  }

  set lane(lane: UnitLane | null) {
    if (lane !== null) this.#place = lane;
    else if (typeof this.#place !== "string") {
      this.#place = this.#place.partition;
      this.next = null;
    }
  }

  get since(): number {
    return this.#links?.since ?? 0;
  }

  set since(since: number) {
    this.#link().since = since;
  }

  get extras(): Extras {
    return this.#links?.extras ?? noExtras;
  }

  set extras(extras: Extras) {
    this.#link().extras = extras;
  }

  get needs(): readonly Need[] {
    return this.#links?.needs ?? noNeeds;
  }

  set needs(needs: readonly Need[]) {
    this.#link().needs = needs;
  }

  get dependents(): ReadonlySet<Unit> | null {
    return this.#links?.dependents ?? null;
  }

  addDependent(unit: Unit): void {
    (this.#link().dependents ??= new Set()).add(unit);
  }

  dropDependent(unit: Unit): void {
    const links = this.#links;
    links?.dependents?.delete(unit);
    if (links?.dependents?.size === 0) links.dependents = null;
  }
}

/** JavaScript's `<` is faster, and orders names by bytes as long as none has characters from U+D800 on. */
const orderByName = (unit: Unit, name: string): number =>
  unit.spec.plain ? (unit.name < name ? -1 : unit.name > name ? 1 : 0) : compareNames(unit.name, name);
export const byName = (a: Unit, b: Unit): number => (a === b ? 0 : orderByName(a, b.name));
export const byClaim = (a: Unit, b: Unit): number => b.priority - a.priority || byName(a, b);
const byDue = (a: Unit, b: Unit): number => a.notBefore - b.notBefore || a.id - b.id;
const byTimer = (a: Unit, b: Unit): number => timerOf(a) - timerOf(b) || a.id - b.id;
const byEnd = (a: Unit, b: Unit): number => endOf(a) - endOf(b) || a.id - b.id;
export const timerOf = ({ extras, priority }: Unit): number =>
  hasTimer(extras.timing) ? nextTimer(extras.timing, priority) : 0;
/** Leases that end at the same time are in the order they were given: claims and settles work at one end, wherever the units are. */
const byLease = (a: Unit, b: Unit): number => expirationOf(a) - expirationOf(b) || a.leased - b.leased;
export const expirationOf = (unit: Unit): number => unit.attempt?.expiration ?? Infinity;
const endOf = (unit: Unit): number => unit.attempt?.end ?? 0;

export class Spec implements SpecState {
  readonly id: number;
  readonly space: Space;
  readonly name: string;
  readonly namespace: string;
  data: Data;
  meta: WorkSpecMeta;
  deleted = false;
  /** Whether JavaScript's `<` orders all names so far. */
  plain = true;
  readonly units = new SpecUnits(orderByName);
  /** In claim order; empty where units are handed out by partition. */
  readonly ready = new SortedList<Unit>(byClaim);
  readonly due = new SortedList<Unit>(byDue);
  /** Waiting units that have a deadline or an expiry. */
  readonly timers = new SortedList<Unit>(byTimer);
  readonly leases = new SortedList<Unit>(byLease);
  /** Units by label, in name order. */
  readonly labels = new Map<string, SortedList<Unit>>();
  /** Available units that were tried too often. */
  readonly exhausted = new Set<Unit>();
  /** Ended units by the time they ended: only where retention needs it. */
  ended: Record<"finished" | "failed", SortedList<Unit>> | null = null;
  readonly removed = { finished: 0, failed: 0 };
  /** Only where its units are handed out by partition. */
  lanes: SpecLanes | null = null;
  /** The partition that was served last, and how many units it has had of its turn. */
  cursor = "";
  turn = 0;
  full = 0;
  /** What its breaker counts: by time, and then by outcome. */
  readonly outcomes = new Map<number, Map<string, number>>();
  readonly failures = new Failures(byName);

  constructor(id: number, space: Space, name: string, data: Data, meta: WorkSpecMeta) {
    this.id = id;
    this.space = space;
    this.name = name;
    this.namespace = space.name;
    this.data = data;
    this.meta = meta;
  }

  /** Notes whether names are still plain. Others are ordered by their bytes, which agrees with the order of the plain ones so far. */
  noteName(name: string): void {
    if (this.plain && !isPlainName(name)) this.plain = false;
  }

  /** Also finds the units that were tried too often under a new limit. */
  setMeta(meta: WorkSpecMeta): void {
    const limit = specTryLimit(this.meta);
    if (laneRules(meta) !== laneRules(this.meta) || hasLanes(meta) !== (this.lanes !== null))
      this.#setLanes(hasLanes(meta) ? new SpecLanes(meta, this.units, this.lanes) : null);
    if (breakerRules(meta) !== breakerRules(this.meta)) this.outcomes.clear();
    this.meta = meta;
    if (specTryLimit(meta) === limit) return;
    this.exhausted.clear();
    for (const unit of this.available()) this.noteExhausted(unit);
  }

  /** Available units are in lanes or in `ready`. */
  #setLanes(lanes: SpecLanes | null): void {
    this.lanes = lanes;
    this.ready.clear();
    if (lanes === null) for (const unit of this.available()) this.ready.add(unit);
  }

  /** The units that are available, in the order of names. */
  available(): Iterable<Unit> {
    return this.units.find(["available"], () => true);
  }

  /** The highest priority of the available units; 0 when there are none. */
  get topPriority(): number {
    return this.lanes === null ? (this.ready.first()?.priority ?? 0) : (this.lanes.lanes.top ?? 0);
  }

  /** The unit must be available. */
  noteExhausted(unit: Unit): void {
    if (unit.tries > 0 && isSpent(unit.tries, unit.extras.retry, specTryLimit(this.meta)))
      this.exhausted.add(unit);
  }

  /** Keeps `ended` exactly while the retention needs it. */
  syncRetention(): void {
    const { finished, failed } = this.meta.retention;
    if (finished === undefined && failed === undefined) this.ended = null;
    else if (this.ended === null) {
      this.ended = { finished: new SortedList(byEnd), failed: new SortedList(byEnd) };
      for (const unit of this.units.find(["finished"], () => true)) this.ended.finished.add(unit);
      for (const unit of this.units.find(["failed"], () => true)) this.ended.failed.add(unit);
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
  /** Attempts that were taken from it before their lease ended, and that it has not settled yet. */
  readonly lost = new Map<AttemptState, Unit>();
  /** Every attempt it claimed: its position in this log, unit id and number. Positions stay when others are removed. */
  log: number[] = [];
  claims = 0;
  /** The length of the log when it was last trimmed. */
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
  /** The messages taken by requests with an id, by queue and request id, oldest first. */
  readonly taken = new Map<string, { time: number; messages: readonly QueueMessage[] }>();
  readonly actions = new Map<string, ActionRow>();
  readonly batches = new Map<string, BatchRow>();
  readonly limits = new Map<string, SharedLimit>();
  readonly watches: Watches;
  readonly history = new SpaceHistory();
  /** The answers to requests with an id, oldest first. */
  readonly requests = new Map<string, { time: number; answer: unknown }>();
  /** How many units have dependencies: while there are none, a spec is brought up to date by itself. */
  needy = 0;
  /** Whether units ever had deadlines or expiries: used like `needy`. */
  timed = false;

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
