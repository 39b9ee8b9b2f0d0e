/** The working set of a verb in SQLite. Rows are loaded when a rule reads them and written immediately, in the open transaction. */
import {
  ages,
  hasLanes,
  hasRate,
  hasTimer,
  isSpent,
  nameFromBytes,
  nameToBytes,
  nextTimer,
  nextTurnOf,
  noExtras,
  ownTryLimit,
  sharesLimit,
  WorkingSet,
  type AddedWorkUnit,
  type AttemptState,
  type BatchRow,
  type BreakerState,
  type Extras,
  type Hold,
  type Lane,
  type LaneState,
  type Need,
  type OutcomeCounts,
  type QueueMessage,
  type Rule,
  type UnitTiming,
  type SharedLimitState,
  type WorkSpecMeta,
  type WorkUnitPut,
  type WorkUnitStatus,
} from "../core/index.ts";
import { extrasOf, hasEndEffects, setExtras } from "./extras.ts";
import { dropLogs } from "./logs.ts";
import { dropFailed, noteFailed } from "./failures.ts";
import { addNew } from "./fast-paths.ts";
import { enterLane, lanesOf, laneValue, leaveLane } from "./lanes.ts";
import { deleteBatch, innerBatches, readBatch } from "./batches.ts";
import { addOutcomes, readOutcomes } from "./outcomes.ts";
import { limitsOf } from "./limits.ts";
import { addMessage } from "./queues.ts";
import { attemptCode, unitState } from "./schema.ts";
import { spentTries } from "./statements.ts";
import type { Spec, State } from "./state.ts";
import { findUnit, findUnitByName, pastAttempt, saveUnit, standing, type Unit } from "./units.ts";
import { dataValue, errorsValue, isUsualName, nameValue, partitionValue, progressValue } from "./values.ts";
import { logAttempts } from "./workers.ts";

export class SqliteSet extends WorkingSet<Unit> {
  readonly #state: State;
  readonly #units = new Map<number, Unit>();
  readonly #names = new Map<Spec, Map<string, Unit>>();
  readonly #needs = new Map<number, readonly Need[]>();
  readonly #past = new Map<string, AttemptState>();
  /** Added units without a row: it is written when they enter their first status. */
  readonly #unwritten = new Set<Unit>();
  /** Started attempts by worker: each worker gets one row of the log. */
  readonly #log = new Map<number, [unit: number, number: number][]>();

  constructor(state: State) {
    super(0, state.history);
    this.#state = state;
  }

  /** Resets the set for the next verb. Verbs run one after the other and share one set. */
  at(now: number): this {
    this.now = now;
    this.#forget();
    return this;
  }

  #forget(): void {
    this.takeUnresolved();
    this.takeBatchChanges();
    this.takeOutcomes();
    // clearing a Map, even an empty one, costs as much as making one
    if (this.#units.size > 0) this.#units.clear();
    if (this.#names.size > 0) this.#names.clear();
    if (this.#needs.size > 0) this.#needs.clear();
    if (this.#past.size > 0) this.#past.clear();
    if (this.#unwritten.size > 0) this.#unwritten.clear();
    if (this.#log.size > 0) this.#log.clear();
  }

  // ---- looking

  unit(id: number): Unit | undefined {
    return this.#units.get(id) ?? this.#keep(findUnit(this.#state, id));
  }

  /** The units of these ids that exist. */
  units(ids: readonly number[]): Unit[] {
    return ids.map((id) => this.unit(id)).filter((unit) => unit !== undefined);
  }

  find(spec: Spec, name: string): Unit | undefined {
    const known = this.#names.get(spec)?.get(name);
    if (known !== undefined) return known;
    const found = findUnitByName(this.#state, spec, name);
    return found === undefined ? undefined : (this.#units.get(found.id) ?? this.#keep(found));
  }

  #keep(unit: Unit | undefined): Unit | undefined {
    if (unit !== undefined) this.#units.set(unit.id, unit);
    return unit;
  }

  spec(namespace: string, name: string): Spec | undefined {
    return this.#state.spaces.get(namespace)?.specs.get(name);
  }

  protected isOrphan(spec: Spec): boolean {
    return this.#state.deadSpaces.has(spec.space.id);
  }

  everMade(id: number): boolean {
    return id <= this.#state.counters.unit;
  }

  past(unit: Unit, number: number): AttemptState | undefined {
    // the same attempt is always the same object, so that later reads see changes to it
    const key = `${unit.id}.${number}`;
    const known = this.#past.get(key);
    if (known !== undefined) return known;
    const found = pastAttempt(this.#state, unit.id, number);
    if (found !== undefined) this.#past.set(key, found);
    return found;
  }

  needs(unit: number): readonly Need[] {
    let needs = this.#needs.get(unit);
    if (needs === undefined) this.#needs.set(unit, (needs = readNeeds(this.#state, unit)));
    return needs;
  }

  targetStatus({ target }: Need): WorkUnitStatus | null {
    const unit = this.#units.get(target);
    if (unit === undefined) return standing(this.#state, target);
    return unit.spec.deleted ? null : unit.status;
  }

  hasDependents(unit: Unit): boolean {
    return this.#state.counters.needs > 0 && this.#state.sql.anyDependent.get(unit.id) !== undefined;
  }

  *dependents(unit: Unit): Iterable<Unit> {
    if (this.#state.counters.needs === 0) return;
    for (const [id] of this.#state.sql.dependents.all(unit.id)) {
      const dependent = this.unit(id as number);
      if (dependent !== undefined) yield dependent;
    }
  }

  count(spec: Spec, status: WorkUnitStatus): number {
    return spec.counts[status];
  }

  ready(spec: Spec): Unit | undefined {
    const id = this.#state.sql.firstReadyUnit.get(spec.id)?.[0];
    return typeof id === "number" ? this.unit(id) : undefined;
  }

  extras(unit: Unit): Extras {
    return extrasOf(this.#state, unit.id);
  }

  nextLane(spec: Spec): Lane | undefined {
    return lanesOf(this.#state, spec).next(spec, this.now);
  }

  nextInLane(spec: Spec, { partition }: LaneState, begun: boolean): Unit | undefined {
    const { sql } = this.#state;
    const row = begun
      ? sql.firstBegun.get(spec.id, partitionValue(partition))
      : sql.firstInLane.get(spec.id, laneValue(partition));
    return row === undefined ? undefined : this.unit(row[0] as number);
  }

  running(spec: Spec, partition: string): number {
    return lanesOf(this.#state, spec).get(partition)?.running ?? 0;
  }

  lapsed(spec: Spec): Unit[] {
    const specs = spec.meta.limits.length > 0 ? [...spec.space.specs.values()] : [spec];
    return specs
      .filter((one) => one === spec || sharesLimit(spec.meta, one.meta))
      .flatMap((one) => this.#state.leases.ended(one.id, this.now, Infinity))
      .map((lease) => this.unit(lease.unit))
      .filter((unit) => unit !== undefined);
  }

  // ---- writing

  served(spec: Spec, { partition, full }: LaneState): void {
    this.#state.touch(spec);
    Object.assign(spec, nextTurnOf(spec.meta, spec, partition));
    if (!hasRate(spec.meta.ratePerPartition)) return;
    lanesOf(this.#state, spec).of(partition).full = full;
    this.#state.sql.setLane.run(spec.id, laneValue(partition), full);
  }

  hold(spec: Spec, { partition }: LaneState, hold: Hold): void {
    const lanes = lanesOf(this.#state, spec);
    lanes.hold(lanes.of(partition), hold);
  }

  limits(spec: Spec): readonly SharedLimitState[] {
    return limitsOf(this.#state, spec, this.now);
  }

  setLimitFull({ space }: Spec, name: string, full: number): void {
    this.#state.writes++;
    this.#state.sql.setLimitFull.run(full, space.id, nameToBytes(name));
  }

  setFull(spec: Spec, full: number): void {
    this.#state.touch(spec);
    this.#state.writes++;
    spec.full = full;
  }

  addNew(spec: Spec, puts: readonly WorkUnitPut[]): Rule<AddedWorkUnit[] | null> | null {
    // a unit of this verb may have no row yet
    return this.#unwritten.size > 0 ? null : addNew(this.#state, spec, puts, this.now);
  }

  make(spec: Spec, { name, data, priority, notBefore }: WorkUnitPut): Unit {
    return {
      id: this.#state.nextId("unit"),
      spec,
      name,
      status: "available",
      data,
      priority,
      partition: "",
      notBefore,
      created: this.now,
      attempts: 0,
      tries: 0,
      attempt: null,
      origin: null,
      since: 0,
    };
  }

  add(unit: Unit): void {
    const { spec, name } = unit;
    const state = this.#state;
    this.#keep(unit);
    const names = this.#names.get(spec);
    if (names === undefined) this.#names.set(spec, new Map([[name, unit]]));
    else names.set(name, unit);
    this.#needs.set(unit.id, []);
    this.#unwritten.add(unit);
    if (!spec.plain || isUsualName(name)) return;
    spec.plain = false;
    state.undo(() => {
      spec.plain = true;
    });
    state.sql.setSpecPlain.run(spec.id);
  }

  leave(unit: Unit): void {
    const state = this.#state;
    const { sql } = state;
    const { spec, status } = unit;
    state.touch(spec);
    state.writes++;
    spec.counts[status]--;
    leaveLane(state, unit, status);
    if (spec.timed) this.#leaveTimer(unit);
    switch (status) {
      case "available":
        if (hasLanes(spec.meta))
          sql.dropReadyLane.run(spec.id, laneValue(unit.partition), 0 - unit.priority, nameValue(unit.name));
        else sql.dropReady.run(spec.id, 0 - unit.priority, nameValue(unit.name));
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
        if (status === "failed") dropFailed(state, spec, [unit.id]);
        if (spec.retained > 0) sql.dropEnded.run(spec.id, unitState[status], unit.attempt?.end ?? 0, unit.id);
        break;
      case "blocked":
    }
  }

  enter(unit: Unit, status: WorkUnitStatus): void {
    const state = this.#state;
    const { spec } = unit;
    state.touch(spec);
    state.writes++;
    enterLane(state, unit, status);
    unit.status = status;
    spec.counts[status]++;
    this.#write(unit);
    this.#enterOrder(unit);
    if (spec.timed) this.#enterTimer(unit);
  }

  override timing(unit: Unit): UnitTiming | null {
    return unit.spec.timed || ages(unit.spec.meta) ? this.extras(unit).timing : null;
  }

  /** When the unit's next timer rings; null if it has none. */
  #timer(unit: Unit): number | null {
    if (unit.status !== "available" && unit.status !== "delayed" && unit.status !== "blocked") return null;
    const { timing } = this.extras(unit);
    return hasTimer(timing) ? nextTimer(timing, unit.priority) || null : null;
  }

  #leaveTimer(unit: Unit): void {
    const timer = this.#timer(unit);
    if (timer === null) return;
    this.#state.sql.dropTimer.run(unit.spec.id, timer, unit.id);
    unit.spec.ring = undefined;
  }

  #enterTimer(unit: Unit): void {
    const timer = this.#timer(unit);
    if (timer === null) return;
    const { spec } = unit;
    this.#state.sql.addTimer.run(spec.id, timer, unit.id);
    if (spec.ring !== undefined) spec.ring = Math.min(spec.ring ?? timer, timer);
  }

  #write(unit: Unit): void {
    const state = this.#state;
    const { id, spec, name, priority, partition, notBefore, data, attempt, origin, since, status } = unit;
    if (this.#unwritten.delete(unit)) {
      state.sql.addUnit.run(id, spec.id, nameValue(name), priority, notBefore, this.now, dataValue(data));
      const plain = status === "available" || status === "delayed";
      if (plain && attempt === null && origin === null && since === 0 && partition === "") return;
    }
    saveUnit(state, unit, this.now);
  }

  #enterOrder(unit: Unit): void {
    const state = this.#state;
    const { sql } = state;
    const { id, spec, attempt, priority, notBefore } = unit;
    switch (unit.status) {
      case "available":
        if (hasLanes(spec.meta))
          sql.addReadyLane.run(
            spec.id,
            laneValue(unit.partition),
            0 - priority,
            nameValue(unit.name),
            id,
            readyTries(state, unit),
          );
        else sql.addReady.run(spec.id, 0 - priority, nameValue(unit.name), id, readyTries(state, unit));
        if (spec.top !== undefined) spec.top = Math.max(spec.top ?? priority, priority);
        break;
      case "delayed":
        sql.addDelayed.run(spec.id, notBefore, id, nameValue(unit.name));
        if (spec.due !== undefined) spec.due = Math.min(spec.due ?? notBefore, notBefore);
        break;
      case "pending":
        if (attempt === null) throw new Error(`unit ${id} is pending without an attempt`);
        this.#addLease(unit, attempt);
        break;
      case "finished":
      case "failed":
        if (unit.status === "failed") noteFailed(state, id);
        if (spec.retained > 0) sql.addEnded.run(spec.id, unitState[unit.status], attempt?.end ?? 0, id);
        break;
      case "blocked":
    }
  }

  #addLease({ id, spec, data, partition }: Unit, attempt: AttemptState): void {
    const state = this.#state;
    const { number, start, expiration, late } = attempt;
    const worker = state.workerForName(spec.space, attempt.worker, this.now);
    const own = attempt.data !== data;
    state.sql.addLease.run(
      id,
      spec.id,
      number,
      worker,
      start,
      expiration,
      Number(late),
      Number(own),
      own ? dataValue(attempt.data) : null,
      progressValue(attempt.progress),
    );
    const queued = hasEndEffects(state, id);
    state.setLease(id, {
      unit: id,
      spec: spec.id,
      number,
      worker,
      start,
      expiration,
      late,
      own,
      queued,
      partition,
    });
  }

  save(unit: Unit): void {
    this.#state.writes++;
    saveUnit(this.#state, unit, this.now);
  }

  savePast(unit: Unit, attempt: AttemptState): void {
    this.#state.writes++;
    this.#state.sql.setHistory.run(
      attemptCode[attempt.status],
      dataValue(attempt.data),
      unit.id,
      attempt.number,
    );
  }

  archive(unit: Unit, attempt: AttemptState, lost: boolean): void {
    const state = this.#state;
    const { number, status, start, end, expiration, late, chainingErrors, data } = attempt;
    this.#past.set(`${unit.id}.${number}`, attempt);
    state.writes++;
    state.sql.addHistory.run(
      unit.id,
      number,
      attemptCode[status],
      state.workerForName(unit.spec.space, attempt.worker, this.now),
      start,
      end,
      expiration,
      Number(late),
      errorsValue(chainingErrors),
      dataValue(data),
      lost ? 1 : null,
    );
  }

  setNeeds(unit: Unit, needs: readonly Need[]): void {
    const state = this.#state;
    dropNeeds(state, unit.id);
    this.#needs.set(unit.id, needs);
    needs.forEach(({ target, kind, met, workSpec, workUnit }, position) => {
      state.sql.addNeed.run(
        unit.id,
        position,
        Number(kind === "hard"),
        Number(met),
        target,
        nameToBytes(workSpec),
        nameToBytes(workUnit),
      );
    });
    if (needs.length === 0) return;
    state.writes++;
    state.nextId("needs", needs.length);
  }

  meet(unit: Unit, need: Need): void {
    need.met = true;
    this.#state.writes++;
    this.#state.sql.setMet.run(unit.id, this.needs(unit.id).indexOf(need));
  }

  setExtras(unit: Unit, extras: Extras): void {
    setExtras(this.#state, unit, extras);
  }

  remove(unit: Unit): void {
    const state = this.#state;
    this.#units.delete(unit.id);
    this.#names.get(unit.spec)?.delete(unit.name);
    dropNeeds(state, unit.id);
    setExtras(state, unit, noExtras);
    state.writes++;
    state.sql.dropUnit.run(unit.id);
    if (unit.attempts > (unit.attempt === null ? 0 : 1)) state.sql.dropHistory.run(unit.id);
    if (unit.attempts > 0) dropLogs(state, [unit.id]);
  }

  setNextContinuous(spec: Spec, nextContinuous: number): void {
    this.#setMeta(spec, { ...spec.meta, nextContinuous });
  }

  batch(namespace: string, name: string): BatchRow | undefined {
    const space = this.#state.spaces.get(namespace);
    return space === undefined ? undefined : readBatch(this.#state, space, name);
  }

  saveBatch(namespace: string, batch: BatchRow): void {
    const space = this.#state.spaces.get(namespace);
    if (space === undefined) return;
    this.#state.writes++;
    const parent = batch.parent === null ? null : JSON.stringify(batch.parent);
    this.#state.sql.setBatch.run(space.id, nameToBytes(batch.name), JSON.stringify(batch), parent);
  }

  innerBatches(namespace: string, parents: readonly string[]): string[] {
    const space = this.#state.spaces.get(namespace);
    return space === undefined ? [] : innerBatches(this.#state, space, parents);
  }

  removeBatch(namespace: string, name: string): void {
    const space = this.#state.spaces.get(namespace);
    if (space !== undefined) deleteBatch(this.#state, space, name);
  }

  setRuns(spec: Spec, nextRun: number, lastRun: number): void {
    this.#setMeta(spec, { ...spec.meta, nextRun, lastRun });
  }

  counts(spec: Spec): OutcomeCounts {
    return readOutcomes(this.#state, spec, this.now);
  }

  addCounts(spec: Spec, at: number, counts: OutcomeCounts): void {
    addOutcomes(this.#state, spec, at, counts, this.now);
  }

  protected setBreaker(spec: Spec, breakerState: BreakerState): void {
    this.#setMeta(spec, { ...spec.meta, breakerState });
  }

  #setMeta(spec: Spec, meta: WorkSpecMeta): void {
    const old = spec.meta;
    this.#state.undo(() => {
      spec.meta = old;
    });
    spec.meta = meta;
    this.#state.writes++;
    this.#state.sql.setSpecMeta.run(JSON.stringify(meta), spec.id);
  }

  // ---- events

  began(unit: Unit, attempt: AttemptState, claimed: boolean): void {
    const worker = this.#state.worker(unit.spec.space, attempt.worker, this.now);
    if (!claimed) return;
    const log = this.#log.get(worker);
    if (log === undefined) this.#log.set(worker, [[unit.id, attempt.number]]);
    else log.push([unit.id, attempt.number]);
  }

  released(unit: Unit, attempt: AttemptState): void {
    // the attempts that a worker holds follow from the leases; those that it lost are marked in the history
    if (attempt !== unit.attempt && this.#state.sql.dropHeld.run(unit.id, attempt.number) > 0)
      this.#state.writes++;
  }

  protected appendMessage(message: Omit<QueueMessage, "seq">, unit: Unit): void {
    addMessage(this.#state, unit.spec.space, message);
  }

  protected wake(unit: Unit): void {
    this.#state.noteEnd(unit.id);
  }

  /** Writes the collected log rows: the last step before the verb answers. */
  flush(): void {
    for (const [worker, attempts] of this.#log) logAttempts(this.#state, worker, attempts, this.now);
    this.#forget();
  }
}

/** See the column `tries` of table `ready`. */
function readyTries(state: State, { id, tries }: Unit): number {
  if (tries === 0 || state.counters.extras === 0) return tries;
  const { retry } = extrasOf(state, id);
  if (ownTryLimit(retry) === null) return tries;
  return isSpent(tries, retry, 0) ? spentTries : 0;
}

/** Runs a rule as a verb of the committer, which may give the event loop a turn at each yield. */
export function* applied<Answer>(
  state: State,
  now: number,
  rule: (set: SqliteSet) => Rule<Answer>,
): Generator<undefined, Answer> {
  const set = state.set.at(now);
  const steps = rule(set);
  for (;;) {
    const step = steps.next();
    if (step.done === true) {
      set.flush();
      return step.value;
    }
    yield undefined;
  }
}

/** Like `applied`, without yields. */
export function apply<Answer>(state: State, now: number, rule: (set: SqliteSet) => Rule<Answer>): Answer {
  const steps = applied(state, now, rule);
  for (;;) {
    const step = steps.next();
    if (step.done === true) return step.value;
  }
}

export function readNeeds(state: State, unit: number): Need[] {
  if (state.counters.needs === 0) return [];
  return state.sql.needs.all(unit).map(([hard, met, target, spec, name]): Need => ({
    target: target as number,
    kind: hard === 1 ? "hard" : "soft",
    workSpec: nameFromBytes(spec as Uint8Array),
    workUnit: nameFromBytes(name as Uint8Array),
    met: met === 1,
  }));
}

function dropNeeds(state: State, unit: number): void {
  if (state.counters.needs === 0) return;
  const dropped = state.sql.dropNeeds.run(unit);
  if (dropped === 0) return;
  state.writes++;
  state.nextId("needs", -dropped);
}
