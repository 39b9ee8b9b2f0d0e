/** The working set of the memory store. The units themselves are the rows: nothing has to be loaded, and writes take effect at once. */
import {
  areExtras,
  hasTimer,
  countedFrom,
  limitNames,
  nextTurnOf,
  noExtras,
  refersTo,
  sharesLimit,
  SortedList,
  type Watches,
  workerLifetimeMs,
  WorkingSet,
  type AttemptState,
  type BatchRow,
  type BreakerState,
  type Extras,
  type Hold,
  type Lane,
  type LaneState,
  type HistoryCounts,
  type Need,
  type OutcomeCounts,
  type QueueMessage,
  type Rule,
  type SharedLimitState,
  type WorkUnitPut,
  type WorkUnitStatus,
} from "../core/index.ts";
import { innerBatches } from "./batches.ts";
import { Queue } from "./queues.ts";
import { byName, timerOf, Unit, Worker, type Space, type Spec, type UnitTable } from "./state.ts";

export class MemorySet extends WorkingSet<Unit> {
  readonly #spaces: ReadonlyMap<string, Space>;
  readonly #units: UnitTable;
  readonly #watches: Watches;
  #lastSeq = 0;
  #lastLease = 0;

  constructor(
    spaces: ReadonlyMap<string, Space>,
    units: UnitTable,
    watches: Watches,
    historyCounts: HistoryCounts,
  ) {
    super(0, historyCounts);
    this.#spaces = spaces;
    this.#units = units;
    this.#watches = watches;
  }

  /**
   * Prepares the set for the next verb. Verbs run one after the other, and one set serves them all: V8 discards the compiled rules
   * when it collects garbage while no set exists.
   */
  at(now: number): this {
    this.now = now;
    this.takeUnresolved();
    this.takeBatchChanges();
    this.takeOutcomes();
    return this;
  }

  // ---- looking

  unit(id: number): Unit | undefined {
    return this.#units.get(id);
  }

  find(spec: Spec, name: string): Unit | undefined {
    return spec.units.get(name);
  }

  spec(namespace: string, name: string): Spec | undefined {
    return this.#spaces.get(namespace)?.specs.get(name);
  }

  protected isOrphan(spec: Spec): boolean {
    return this.#spaces.get(spec.namespace) !== spec.space;
  }

  everMade(id: number): boolean {
    return id <= this.#units.lastId;
  }

  past(unit: Unit, number: number): AttemptState | undefined {
    return unit.history?.find((attempt) => attempt.number === number);
  }

  needs(unit: number): readonly Need[] {
    return this.#units.get(unit)?.needs ?? [];
  }

  targetStatus(need: Need): WorkUnitStatus | null {
    return targetStatus(this.#units, need);
  }

  hasDependents(unit: Unit): boolean {
    return unit.dependents !== null;
  }

  *dependents(unit: Unit): Iterable<Unit> {
    // skips a dependent that was removed after this unit: it could not be taken out of the list any more
    for (const dependent of unit.dependents ?? [])
      if (this.#units.get(dependent.id) === dependent) yield dependent;
  }

  count(spec: Spec, status: WorkUnitStatus): number {
    return spec.units.counts[status];
  }

  ready(spec: Spec): Unit | undefined {
    return spec.ready.first();
  }

  extras(unit: Unit): Extras {
    return unit.extras;
  }

  nextLane(spec: Spec): Lane | undefined {
    return spec.lanes?.lanes.next(spec, this.now);
  }

  nextInLane(spec: Spec, lane: LaneState, begun: boolean): Unit | undefined {
    return spec.lanes?.next(lane, begun);
  }

  running(spec: Spec, partition: string): number {
    return spec.lanes?.lanes.get(partition)?.running ?? 0;
  }

  lapsed(spec: Spec): Unit[] {
    const units: Unit[] = [];
    for (const one of spec.meta.limits.length > 0 ? spec.space.specs.values() : [spec]) {
      if (one !== spec && !sharesLimit(spec.meta, one.meta)) continue;
      for (const unit of one.leases) {
        if ((unit.attempt?.expiration ?? 0) > this.now) break;
        units.push(unit);
      }
    }
    return units;
  }

  limits(spec: Spec): SharedLimitState[] {
    const { space } = spec;
    const states: SharedLimitState[] = [];
    for (const name of limitNames(spec.meta)) {
      const limit = space.limits.get(name);
      if (limit === undefined) continue;
      let running = 0;
      for (const one of space.specs.values()) if (refersTo(one.meta, name)) running += this.#runningOf(one);
      states.push({ ...limit, running });
    }
    return states;
  }

  /** Pending units whose leases have not ended. */
  #runningOf(spec: Spec): number {
    let running = spec.leases.size;
    for (const unit of spec.leases) {
      if ((unit.attempt?.expiration ?? 0) > this.now) break;
      running--;
    }
    return running;
  }

  // ---- writing

  setLimitFull({ space }: Spec, name: string, full: number): void {
    const limit = space.limits.get(name);
    if (limit !== undefined) limit.full = full;
  }

  served(spec: Spec, { partition }: LaneState): void {
    const { cursor, turn } = nextTurnOf(spec.meta, spec, partition);
    spec.cursor = cursor;
    spec.turn = turn;
  }

  hold(spec: Spec, lane: LaneState, hold: Hold): void {
    spec.lanes?.hold(lane, hold);
  }

  setFull(spec: Spec, full: number): void {
    spec.full = full;
  }

  addNew(): null {
    return null;
  }

  make(spec: Spec, { name, data, priority, notBefore, partition = "" }: WorkUnitPut): Unit {
    const unit = new Unit(++this.#units.lastId, spec, name, data, priority, notBefore, this.now);
    // set at once, so that it lies beside the unit in memory
    unit.partition = partition;
    return unit;
  }

  add(unit: Unit): void {
    const { spec } = unit;
    spec.noteName(unit.name);
    spec.units.add(unit);
    this.#units.add(unit);
  }

  leave(unit: Unit): void {
    const { spec, status } = unit;
    spec.lanes?.leave(unit, status);
    if (spec.timers.size > 0) spec.timers.remove(unit);
    if (status === "available") {
      if (spec.lanes === null) spec.ready.remove(unit);
      if (spec.exhausted.size > 0) spec.exhausted.delete(unit);
    } else if (status === "pending") spec.leases.remove(unit);
    else if (status === "delayed") spec.due.remove(unit);
    else if (status !== "blocked") {
      spec.ended?.[status].remove(unit);
      if (status === "failed") spec.failures.remove(unit);
    }
  }

  enter(unit: Unit, status: WorkUnitStatus): void {
    const { spec } = unit;
    spec.units.change(unit, status);
    spec.lanes?.enter(unit, status);
    if (unit.extras !== noExtras && waits(status) && timerOf(unit) > 0) spec.timers.add(unit);
    if (status === "available") {
      if (spec.lanes === null) spec.ready.add(unit);
      spec.noteExhausted(unit);
    } else if (status === "pending") {
      unit.leased = ++this.#lastLease;
      spec.leases.add(unit);
    } else if (status === "delayed") spec.due.add(unit);
    else if (status !== "blocked") {
      spec.ended?.[status].add(unit);
      if (status === "failed") spec.failures.add(unit);
    }
  }

  save(): void {
    // nothing to do: the object is the row
  }

  savePast(): void {
    // nothing to do: the object is the row
  }

  archive(unit: Unit, attempt: AttemptState, lost: boolean): void {
    (unit.history ??= []).push(attempt);
    const worker = lost ? unit.spec.space.workers.get(attempt.worker) : undefined;
    worker?.holds.delete(unit);
    worker?.lost.set(attempt, unit);
  }

  setNeeds(unit: Unit, needs: readonly Need[]): void {
    this.#dropNeeds(unit);
    unit.needs = needs;
    if (needs.length > 0) unit.spec.space.needy++;
    for (const { target } of needs) this.#units.get(target)?.addDependent(unit);
  }

  #dropNeeds(unit: Unit): void {
    if (unit.needs.length > 0) unit.spec.space.needy--;
    for (const { target } of unit.needs) this.#units.get(target)?.dropDependent(unit);
  }

  meet(_unit: Unit, need: Need): void {
    need.met = true;
  }

  setExtras(unit: Unit, extras: Extras): void {
    const { spec } = unit;
    for (const label of unit.extras.labels) {
      const list = spec.labels.get(label);
      list?.remove(unit);
      if (list?.size === 0) spec.labels.delete(label);
    }
    unit.extras = areExtras(extras) ? extras : noExtras;
    if (hasTimer(extras.timing)) spec.space.timed = true;
    for (const label of extras.labels) {
      let list = spec.labels.get(label);
      if (list === undefined) spec.labels.set(label, (list = new SortedList<Unit>(byName)));
      list.add(unit);
    }
  }

  remove(unit: Unit): void {
    if (unit.extras !== noExtras) this.setExtras(unit, noExtras);
    this.#dropNeeds(unit);
    unit.spec.units.remove(unit);
    this.#units.delete(unit);
  }

  setNextContinuous(spec: Spec, nextContinuous: number): void {
    spec.meta = { ...spec.meta, nextContinuous };
  }

  batch(namespace: string, name: string): BatchRow | undefined {
    return this.#spaces.get(namespace)?.batches.get(name);
  }

  innerBatches(namespace: string, parents: readonly string[]): string[] {
    return innerBatches(this.#spaces.get(namespace), parents);
  }

  saveBatch(namespace: string, batch: BatchRow): void {
    this.#spaces.get(namespace)?.batches.set(batch.name, batch);
  }

  removeBatch(namespace: string, name: string): void {
    this.#spaces.get(namespace)?.batches.delete(name);
  }

  setRuns(spec: Spec, nextRun: number, lastRun: number): void {
    spec.meta = { ...spec.meta, nextRun, lastRun };
  }

  counts({ meta, outcomes }: Spec): OutcomeCounts {
    const from = countedFrom(meta, this.now);
    const sums = new Map<string, number>();
    for (const [at, counts] of outcomes)
      if (at < from) outcomes.delete(at);
      else for (const [key, count] of counts) sums.set(key, (sums.get(key) ?? 0) + count);
    return sums;
  }

  addCounts(spec: Spec, at: number, counts: OutcomeCounts): void {
    const { outcomes } = spec;
    let there = outcomes.get(at);
    if (there === undefined) {
      // remove the outdated counts whenever a new time begins
      this.counts(spec);
      outcomes.set(at, (there = new Map<string, number>()));
    }
    for (const [key, count] of counts) there.set(key, (there.get(key) ?? 0) + count);
  }

  protected setBreaker(spec: Spec, breakerState: BreakerState): void {
    spec.meta = { ...spec.meta, breakerState };
  }

  // ---- events

  began(unit: Unit, attempt: AttemptState, claimed: boolean): void {
    const worker = registerWorker(unit.spec.space, attempt.worker, this.now);
    worker.holds.add(unit);
    if (claimed) worker.log.push(++worker.claims, unit.id, attempt.number);
  }

  released(unit: Unit, attempt: AttemptState): void {
    const worker = unit.spec.space.workers.get(attempt.worker);
    if (attempt === unit.attempt) worker?.holds.delete(unit);
    else worker?.lost.delete(attempt);
  }

  protected appendMessage(message: Omit<QueueMessage, "seq">, { spec: { space } }: Unit): void {
    let queue = space.queues.get(message.queue);
    if (queue === undefined) space.queues.set(message.queue, (queue = new Queue()));
    queue.append({ seq: ++this.#lastSeq, ...message });
    this.#watches.appended(space.name, message.queue);
  }

  protected wake(unit: Unit): void {
    if (this.#watches.hasUnits) this.#watches.ended(unit.id);
  }
}

const waits = (status: WorkUnitStatus): boolean =>
  status === "available" || status === "delayed" || status === "blocked";

/** The status of the target of a dependency; null when it was deleted, or its work spec was. */
export function targetStatus(units: UnitTable, { target }: Need): WorkUnitStatus | null {
  const unit = units.get(target);
  return unit === undefined || unit.spec.deleted ? null : unit.status;
}

/** Returns the worker, and creates it when it is unknown. */
export function registerWorker(space: Space, name: string, now: number): Worker {
  let worker = space.workers.get(name);
  if (worker === undefined) space.workers.set(name, (worker = new Worker(name, now, now + workerLifetimeMs)));
  return worker;
}

/** Runs a rule to its end without waiting. */
export function run<Answer>(rule: Rule<Answer>): Answer {
  for (;;) {
    const step = rule.next();
    if (step.done === true) return step.value;
  }
}
