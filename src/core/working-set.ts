/**
 * The working set: the rows that one verb works on, and the interface between a store and the rules of a unit's life.
 *
 * A rule decides on loaded rows and never waits for a database by itself: it yields what has to be waited for. Rules for one unit
 * are plain functions; only rules over many units are generators, because a `yield*` for each unit costs about 40 ns, as much as
 * the rule itself.
 *
 * A store implements loading, looking and writing, and decides nothing: `life.ts` and the files beside it decide which status a
 * unit enters, what counts as a try, and which queues get a message. A working set belongs to one verb and one transaction at a
 * time, and in it the same unit is always the same object.
 */
import {
  attemptId,
  type AttemptProgress,
  type AttemptRow,
  type AttemptStatus,
  type FailReason,
} from "./attempt.ts";
import { batchOf, type BatchCounts, type BatchRow } from "./batch.ts";
import { hasBreaker, isTripped, type BreakerState, type OutcomeCounts, type Outcomes } from "./breaker.ts";
import type { Data } from "./data.ts";
import type { DependencyKind } from "./dependency.ts";
import type { SharedLimitState } from "./limits.ts";
import type { Hold, LaneState } from "./partitions.ts";
import type { HistoryEvent } from "./history.ts";
import type { QueueMessage } from "./queue.ts";
import type { UnitRetry } from "./retry.ts";
import type { HistorySink } from "./recording.ts";
import type { AttemptKey, WorkUnitPut } from "./store.ts";
import type { UnitTiming } from "./timing.ts";
import type { WorkSpecMeta } from "./work-spec.ts";
import type { AddedWorkUnit, DependencyRow, WorkUnitRow, WorkUnitStatus } from "./work-unit.ts";

/** A promise to wait for; undefined when everything is loaded. */
export type Loading = Promise<unknown> | undefined;

/** A rule over many units. When it yields undefined, the store may run other work before it continues. */
export type Rule<Answer> = Generator<Loading, Answer>;

export interface SpecState {
  readonly id: number;
  readonly name: string;
  readonly namespace: string;
  readonly meta: WorkSpecMeta;
  /** When the bucket of its `rate` is full again. */
  readonly full: number;
  /** Deleted for all callers, though its rows may still exist. */
  readonly deleted: boolean;
}

export interface AttemptState {
  readonly number: number;
  readonly worker: string;
  status: AttemptStatus;
  readonly start: number;
  /** 0 while it runs. */
  end: number;
  expiration: number;
  /** What the attempt wrote, else what it was given. */
  data: Data | null;
  late: boolean;
  chainingErrors: readonly string[];
  /** Why the unit failed, where that is not `error`. A store need not keep it for past attempts. */
  reason: FailReason | null;
  /** Meaningful only while the attempt runs. */
  progress: AttemptProgress | null;
}

export interface UnitState {
  readonly id: number;
  readonly spec: SpecState;
  readonly name: string;
  /** Changed only by `enter`. */
  readonly status: WorkUnitStatus;
  data: Data | null;
  priority: number;
  /** Empty is none. Changed only between `leave` and `enter`. */
  partition: string;
  notBefore: number;
  readonly created: number;
  /** Attempts ever made, and those that count as tries. */
  attempts: number;
  tries: number;
  /** The latest attempt, until it is superseded and becomes history. */
  attempt: AttemptState | null;
  /** The id of the attempt whose output made it. */
  origin: string | null;
  /** When the unit was added again, reset or unblocked. Never before the end of a dependency, so that the unit does not begin before that. */
  since: number;
}

export interface Need {
  readonly target: number;
  readonly kind: DependencyKind;
  readonly workSpec: string;
  readonly workUnit: string;
  /** Once met it stays met, whatever becomes of the target. */
  met: boolean;
}

/** What few units have: queues that get a message when they end, labels, their own retry settings, and timing. */
export interface Extras {
  readonly queues: readonly string[];
  readonly labels: readonly string[];
  readonly retry: UnitRetry | null;
  readonly timing: UnitTiming | null;
}

export const noExtras: Extras = { queues: [], labels: [], retry: null, timing: null };

export const areExtras = ({ queues, labels, retry, timing }: Extras): boolean =>
  queues.length > 0 || labels.length > 0 || retry !== null || timing !== null;

/** The extras that a put gives. */
export const extrasOfPut = ({ queues, labels, retry, timing }: WorkUnitPut): Extras =>
  queues === undefined && labels === undefined && retry === undefined && timing === undefined
    ? noExtras
    : {
        queues: queues ?? noExtras.queues,
        labels: labels ?? noExtras.labels,
        retry: retry ?? null,
        timing: timing ?? null,
      };

/** Whether the unit has a deadline or an expiry. */
export const hasTimer = (timing: UnitTiming | null): timing is UnitTiming =>
  timing !== null && (timing.deadline !== undefined || timing.expires !== undefined);

export interface BatchChange extends BatchCounts {
  readonly namespace: string;
  readonly name: string;
  /** Failed units and child batches that were deleted: a batch that has not ended no longer counts them. */
  readonly dropped: number;
}

type CountChange = Partial<BatchCounts & Pick<BatchChange, "dropped">>;

export abstract class WorkingSet<Unit extends UnitState> {
  /** The time of the verb. */
  now: number;
  readonly #notes: HistorySink;
  /** Units that ended or were removed, with the time of that, whose dependents are not resolved yet. */
  #unresolved: Map<Unit, number> | null = null;
  #batchChanges: Map<string, BatchChange> | null = null;
  #outcomes: Map<Unit["spec"], Outcomes> | null = null;

  constructor(now: number, notes: HistorySink) {
    this.now = now;
    this.#notes = notes;
  }

  /** Whether a rule should also load what later changes of the same call need: for stores where each load is a round trip. */
  readonly readsAhead: boolean = false;

  // ---- loading: a rule must load what it looks at; units come with their needs. A store that has everything in memory does not
  // override these.

  loadUnits(_ids: Iterable<number>): Loading {
    return undefined;
  }

  loadNames(_spec: Unit["spec"], _names: Iterable<string>): Loading {
    return undefined;
  }

  loadSpecs(_namespace: string, _names: Iterable<string>): Loading {
    return undefined;
  }

  /** Past attempts. */
  loadPast(_keys: readonly AttemptKey[]): Loading {
    return undefined;
  }

  /** The units that depend on these. */
  loadDependents(_units: readonly Unit[]): Loading {
    return undefined;
  }

  /** The needs of all units that can be reached from these. Locks out other adds that could close a cycle. */
  loadReachable(_units: readonly number[]): Loading {
    return undefined;
  }

  /** Exact counts of a spec, which no other transaction changes until the verb has ended. */
  loadCounts(_spec: Unit["spec"]): Loading {
    return undefined;
  }

  /** At least `count` of the next units to claim. */
  loadReady(_spec: Unit["spec"], _count: number): Loading {
    return undefined;
  }

  /** Enough lanes to hand out `count` units, with their first units; for a spec that has lanes. */
  loadLanes(_spec: Unit["spec"], _count: number): Loading {
    return undefined;
  }

  /** The exact number of running units of a partition: no other transaction starts one until the verb has ended. */
  loadRunning(_spec: Unit["spec"], _partition: string): Loading {
    return undefined;
  }

  /** The units that `lapsed` returns. */
  loadLapsed(_spec: Unit["spec"]): Loading {
    return undefined;
  }

  /** The shared limits of the spec: no other transaction starts a unit under them until the verb has ended. Call after `loadCounts`. */
  loadLimits(_spec: Unit["spec"]): Loading {
    return undefined;
  }

  /** A batch, which no other transaction changes until the verb has ended. `create`: it is created if it does not exist. */
  loadBatch(_namespace: string, _name: string, _create: boolean): Loading {
    return undefined;
  }

  /** The batches directly inside these. */
  loadInnerBatches(_namespace: string, _parents: readonly string[]): Loading {
    return undefined;
  }

  /** The state of the breaker and the counts of its window. No other transaction trips or closes it until the verb has ended. */
  loadBreaker(_spec: Unit["spec"]): Loading {
    return undefined;
  }

  /** Reserves what is needed to make `count` units, such as their ids. */
  reserve(_count: number): Loading {
    return undefined;
  }

  // ---- looking

  /** Undefined for a unit that was deleted or never existed. */
  abstract unit(id: number): Unit | undefined;
  abstract find(spec: Unit["spec"], name: string): Unit | undefined;
  abstract spec(namespace: string, name: string): Unit["spec"] | undefined;
  /** Whether the namespace of the spec was deleted, with its batches. Another namespace may have its name, and batches of the same names. */
  protected abstract isOrphan(spec: Unit["spec"]): boolean;
  /** Whether a unit of this id ever existed. */
  abstract everMade(id: number): boolean;
  abstract past(unit: Unit, number: number): AttemptState | undefined;
  abstract needs(unit: number): readonly Need[];
  /** The status of the target of a need; null when it was deleted. */
  abstract targetStatus(need: Need): WorkUnitStatus | null;
  abstract hasDependents(unit: Unit): boolean;
  abstract dependents(unit: Unit): Iterable<Unit>;
  abstract count(spec: Unit["spec"], status: WorkUnitStatus): number;
  /** The next unit to claim: highest priority first, then name order. */
  abstract ready(spec: Unit["spec"]): Unit | undefined;
  abstract extras(unit: Unit): Extras;
  /** The timing of the unit. A store may answer without reading it where no unit of the spec has any. */
  timing(unit: Unit): UnitTiming | null {
    return this.extras(unit).timing;
  }
  /** The lane that is next to be served among those with available units that are not held. */
  abstract nextLane(spec: Unit["spec"]): LaneState | undefined;
  /** The lane's next unit: highest priority first, then name order; with `begun`, the first of those that have begun. */
  abstract nextInLane(spec: Unit["spec"], lane: LaneState, begun: boolean): Unit | undefined;
  /**
   * When the last attempt that freed a place under a limit ended, as far as loaded: the attempt that takes the place begins no
   * earlier. Only where the requests of daemons may overtake each other.
   */
  lastFreedAt(_spec: Unit["spec"]): number {
    return 0;
  }

  /** How many units of a partition run. */
  abstract running(spec: Unit["spec"], partition: string): number;
  /** Units that are pending although their leases have ended, of the spec and of all that share a limit with it. */
  abstract lapsed(spec: Unit["spec"]): readonly Unit[];
  /** The shared limits that the spec refers to and that are defined. */
  abstract limits(spec: Unit["spec"]): readonly SharedLimitState[];

  abstract batch(namespace: string, name: string): BatchRow | undefined;
  /** The names of the batches directly inside these. */
  abstract innerBatches(namespace: string, parents: readonly string[]): readonly string[];
  /** Outcomes of attempts within the window of the breaker, those that this verb has added included. */
  abstract counts(spec: Unit["spec"]): OutcomeCounts;

  // ---- writing

  /** A unit of the lane was handed out: advances the turn and saves the lane. */
  abstract served(spec: Unit["spec"], lane: LaneState): void;
  /** Skips the lane until `hold.until`, or until one of its units changes. */
  abstract hold(spec: Unit["spec"], lane: LaneState, hold: Hold): void;
  /** Saves the bucket of a spec's rate. */
  abstract setFull(spec: Unit["spec"], full: number): void;
  /** Saves the bucket of a shared limit. */
  abstract setLimitFull(spec: Unit["spec"], limit: string, full: number): void;

  /** A fast path for units that are all new and depend on nothing; otherwise returns null and writes nothing. */
  abstract addNew(spec: Unit["spec"], puts: readonly WorkUnitPut[]): Rule<AddedWorkUnit[] | null> | null;
  /** Makes a new unit, which is not visible before `add`. */
  abstract make(spec: Unit["spec"], put: WorkUnitPut): Unit;
  /** Adds the unit. It is in no list and not counted before it enters a status. */
  abstract add(unit: Unit): void;
  /** Takes a unit out of the list of its status: call it before changing anything that the list is ordered by. */
  abstract leave(unit: Unit): void;
  /**
   * Sets the status of a unit that has left its list, puts it into the list of that status, counts it there, and saves it. A
   * waiting unit with a timer (`nextTimer`) enters the list of timers as well.
   */
  abstract enter(unit: Unit, status: WorkUnitStatus): void;
  /** Saves a change of the unit's attempt that does not affect its place in a list. */
  abstract save(unit: Unit): void;
  /** Saves the status and the data of a past attempt. */
  abstract savePast(unit: Unit, attempt: AttemptState): void;
  /**
   * Moves the attempt to the history; the `enter` that follows saves the unit. `lost`: it ran until now, and stays on its worker's
   * list until the worker settles it or its lease would have ended.
   */
  abstract archive(unit: Unit, attempt: AttemptState, lost: boolean): void;
  abstract setNeeds(unit: Unit, needs: readonly Need[]): void;
  abstract meet(unit: Unit, need: Need): void;
  abstract setExtras(unit: Unit, extras: Extras): void;
  abstract saveBatch(namespace: string, batch: BatchRow): void;
  abstract removeBatch(namespace: string, name: string): void;
  /** Deletes a unit that has left its list, with its attempts and needs. */
  abstract remove(unit: Unit): void;
  /** No unit is generated before this time. */
  abstract setNextContinuous(spec: Unit["spec"], time: number): void;
  /** Adds to the counts of a time. */
  abstract addCounts(spec: Unit["spec"], at: number, counts: OutcomeCounts): void;
  protected abstract setBreaker(spec: Unit["spec"], state: BreakerState): void;
  /** When the schedule makes its next unit, and the time of the last one that it made. */
  abstract setRuns(spec: Unit["spec"], nextRun: number, lastRun: number): void;

  // ---- events, which lead to messages, wake-ups and the lists of workers

  /**
   * The unit's attempt runs: its worker is created if unknown, and holds the unit. `claimed` is false for one that was renewed
   * after it had expired.
   */
  abstract began(unit: Unit, attempt: AttemptState, claimed: boolean): void;
  /** The worker of an attempt no longer holds its unit, or has learned that it lost it. */
  abstract released(unit: Unit, attempt: AttemptState): void;
  /** Appends a message. */
  protected abstract appendMessage(message: Omit<QueueMessage, "seq">, unit: Unit): void;
  /** Wakes callers that wait for the unit to end, once the verb has taken effect. */
  protected abstract wake(unit: Unit): void;

  /** Notes an event for the history. `ms` is how long the attempt took, or the unit had waited for it; below 0 for neither. */
  noteEvent(unit: Unit, happening: HistoryEvent, ms: number): void {
    this.#notes.note(unit.spec.id, happening, this.now, ms, 1);
  }

  /** Notes for the breaker of the work spec, if it has one, that the attempt finished or failed. */
  attemptEnded({ spec }: Unit, { start, data, reason }: AttemptState, finished: boolean): void {
    if (!hasBreaker(spec.meta)) return;
    this.#outcomes ??= new Map<Unit["spec"], Outcomes>();
    let outcomes = this.#outcomes.get(spec);
    if (outcomes === undefined) this.#outcomes.set(spec, (outcomes = { finished: [], failed: [] }));
    if (finished) outcomes.finished.push(start);
    else outcomes.failed.push({ start, data, reason });
  }

  get hasOutcomes(): boolean {
    return this.#outcomes !== null;
  }

  takeOutcomes(): Map<Unit["spec"], Outcomes> | null {
    const outcomes = this.#outcomes;
    this.#outcomes = null;
    return outcomes;
  }

  /** Sets the state of a breaker. That it tripped or closed is reported once the verb has taken effect. */
  changeBreaker(spec: Unit["spec"], state: BreakerState): void {
    const was = isTripped(spec.meta);
    this.setBreaker(spec, state);
    const is = state.since !== undefined;
    if (was !== is)
      this.#notes.breaker({ namespace: spec.namespace, workSpec: spec.name, time: this.now, state });
  }

  /** The unit has ended: its queues get a message, and its dependents are resolved before the verb answers. */
  ended(unit: Unit, status: "finished" | "failed", at: number): void {
    this.wake(unit);
    const { queues, labels } = this.extras(unit);
    this.#countUnit(unit, labels, status === "finished" ? { finished: 1 } : { failed: 1 });
    // a unit of a deleted work spec sends no messages, though its row may still exist
    if (queues.length > 0 && !unit.spec.deleted)
      for (const queue of queues)
        this.appendMessage(
          {
            queue,
            workSpec: unit.spec.name,
            workUnit: unit.name,
            attempt: unit.attempt === null ? null : attemptId(unit.id, unit.attempt.number),
            status,
            data: unit.attempt?.data ?? unit.data,
            at,
          },
          unit,
        );
    this.#concerns(unit, at);
  }

  /** The unit was deleted: its dependents are resolved before the verb answers. */
  removed(unit: Unit, at: number, retired: boolean): void {
    this.wake(unit);
    // an ended unit stays counted, unless its batch would wait for it for ever
    if (unit.status !== "finished" && unit.status !== "failed")
      this.#countUnit(unit, this.extras(unit).labels, { total: -1 });
    else if (unit.status === "failed" && !retired)
      this.#countUnit(unit, this.extras(unit).labels, { dropped: 1 });
    this.#concerns(unit, at);
  }

  /** A unit that had ended waits or runs again. */
  reopened(unit: Unit): void {
    if (unit.status !== "finished" && unit.status !== "failed") return;
    this.#countUnit(
      unit,
      this.extras(unit).labels,
      unit.status === "finished" ? { finished: -1 } : { failed: -1 },
    );
  }

  #countUnit({ spec }: Unit, labels: readonly string[], change: CountChange): void {
    const batch = batchOf(labels);
    if (batch !== null && !this.isOrphan(spec)) this.countInBatch(spec.namespace, batch, change);
  }

  /** Changes the counts of a batch; the batch is checked before the verb answers. */
  countInBatch(
    namespace: string,
    name: string,
    { total = 0, finished = 0, failed = 0, dropped = 0 }: CountChange,
  ): void {
    const key = JSON.stringify([namespace, name]);
    const known = this.#batchChanges?.get(key);
    (this.#batchChanges ??= new Map<string, BatchChange>()).set(key, {
      namespace,
      name,
      total: (known?.total ?? 0) + total,
      finished: (known?.finished ?? 0) + finished,
      failed: (known?.failed ?? 0) + failed,
      dropped: (known?.dropped ?? 0) + dropped,
    });
  }

  takeBatchChanges(): Iterable<BatchChange> | null {
    const changes = this.#batchChanges;
    this.#batchChanges = null;
    return changes?.values() ?? null;
  }

  #concerns(unit: Unit, at: number): void {
    if (this.hasDependents(unit)) (this.#unresolved ??= new Map<Unit, number>()).set(unit, at);
  }

  /** Whether any dependents or batches are not resolved yet; with a unit, whether its dependents are not. */
  isUnresolved(unit?: Unit): boolean {
    return unit === undefined
      ? this.#unresolved !== null || this.#batchChanges !== null
      : this.#unresolved?.has(unit) === true;
  }

  isUnresolvedId(id: number): boolean {
    for (const unit of this.#unresolved?.keys() ?? []) if (unit.id === id) return true;
    return false;
  }

  takeUnresolved(): Map<Unit, number> | null {
    const units = this.#unresolved;
    this.#unresolved = null;
    return units;
  }
}

// ---- rows for the engine

const isActive = ({ status }: AttemptState): boolean =>
  status === "pending" || status === "finished" || status === "failed";

export function attemptRow(unit: UnitState, attempt: AttemptState): AttemptRow {
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
    progress: attempt.status === "pending" ? attempt.progress : null,
  };
}

export function unitRow(
  unit: UnitState,
  dependencies: readonly DependencyRow[],
  { queues, labels, retry, timing }: Extras,
  asAdded = false,
): WorkUnitRow {
  const active = unit.attempt !== null && isActive(unit.attempt) ? unit.attempt : null;
  return {
    id: unit.id,
    workSpec: unit.spec.name,
    name: unit.name,
    status: unit.status,
    reason: unit.status === "failed" ? (active?.reason ?? "error") : null,
    data: asAdded ? unit.data : (active?.data ?? unit.data),
    priority: timing?.priority ?? unit.priority,
    notBefore: unit.notBefore,
    ...(timing?.deadline !== undefined && { deadline: timing.deadline }),
    ...(timing?.expires !== undefined && { expires: timing.expires }),
    createdTime: unit.created,
    attempts: unit.attempts,
    activeAttempt: active === null ? null : attemptRow(unit, active),
    origin: unit.origin,
    dependencies,
    queues,
    labels,
    partition: unit.partition,
    ...retry,
  };
}
