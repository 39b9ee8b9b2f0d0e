/**
 * The rows that one verb works on, and what a store offers to the rules of a unit's life.
 *
 * A rule decides on loaded rows and never waits for a database by itself: it yields what has to be waited for. What
 * happens to one unit is a plain function; only rules over many units are generators, because a `yield*` for each unit
 * costs about 40 ns, as much as the rule itself.
 *
 * A store implements loading, looking and writing. It decides nothing: which status a unit enters, what is counted as a
 * try, who hears of an end are decided in `life.ts` and the files beside it. A working set belongs to one verb and one
 * transaction at a time, and in it the same unit is always the same object.
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
import type { Happening } from "./history.ts";
import type { QueueMessage } from "./queue.ts";
import type { UnitRetry } from "./retry.ts";
import type { Notes } from "./recording.ts";
import type { AttemptKey, WorkUnitPut } from "./store.ts";
import type { UnitTiming } from "./timing.ts";
import type { WorkSpecMeta } from "./work-spec.ts";
import type { AddedWorkUnit, DependencyRow, WorkUnitRow, WorkUnitStatus } from "./work-unit.ts";

/** Something to wait for; undefined when everything is at hand. */
export type Loading = Promise<unknown> | undefined;

/** A rule over many units. Where it yields undefined, a store may let others have a turn. */
export type Rule<Answer> = Generator<Loading, Answer>;

export interface SpecState {
  readonly id: number;
  readonly name: string;
  readonly namespace: string;
  readonly meta: WorkSpecMeta;
  /** When the bucket of its `rate` is full again. */
  readonly full: number;
  /** Deleted for everybody, though its rows may still be there. */
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
  /** Why it failed its unit, where that is not `error`. It need not be kept once it is history. */
  reason: FailReason | null;
  /** Of a running attempt; what stands here of another means nothing. */
  progress: AttemptProgress | null;
}

export interface UnitState {
  readonly id: number;
  readonly spec: SpecState;
  readonly name: string;
  /** Changed by `enter` alone. */
  readonly status: WorkUnitStatus;
  data: Data | null;
  priority: number;
  /** Empty is none. Changed only while the unit is in no order. */
  partition: string;
  notBefore: number;
  readonly created: number;
  /** Attempts ever made, and those that count as tries. */
  attempts: number;
  tries: number;
  /** The latest attempt, until the unit is taken from it; then it is history. */
  attempt: AttemptState | null;
  /** The id of the attempt whose output made it. */
  origin: string | null;
  /**
   * When the unit became available, where nothing else says so: it was added again, reset, or its dependencies were met.
   * Never before the end of a dependency, so that a unit does not begin before it.
   */
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

/** What few units have: queues that hear of their end, labels, and a word on how often they are tried and on time. */
export interface Extras {
  readonly queues: readonly string[];
  readonly labels: readonly string[];
  readonly retry: UnitRetry | null;
  readonly timing: UnitTiming | null;
}

export const noExtras: Extras = { queues: [], labels: [], retry: null, timing: null };

export const areExtras = ({ queues, labels, retry, timing }: Extras): boolean =>
  queues.length > 0 || labels.length > 0 || retry !== null || timing !== null;

/** What a put says of them. */
export const extrasOfPut = ({ queues, labels, retry, timing }: WorkUnitPut): Extras =>
  queues === undefined && labels === undefined && retry === undefined && timing === undefined
    ? noExtras
    : {
        queues: queues ?? noExtras.queues,
        labels: labels ?? noExtras.labels,
        retry: retry ?? null,
        timing: timing ?? null,
      };

/** Whether something happens to the unit by itself while it waits. */
export const hasTimer = (timing: UnitTiming | null): timing is UnitTiming =>
  timing !== null && (timing.deadline !== undefined || timing.expires !== undefined);

export interface BatchChange extends BatchCounts {
  readonly namespace: string;
  readonly name: string;
  /** Failed units that were deleted: a batch that has not ended no longer counts them. */
  readonly dropped: number;
}

type CountChange = Partial<BatchCounts & Pick<BatchChange, "dropped">>;

export abstract class WorkingSet<Unit extends UnitState> {
  /** The time of the verb. */
  now: number;
  readonly #notes: Notes;
  /** Units that ended or were removed, with the time of it, whose dependents have not been looked at yet. */
  #unresolved: Map<Unit, number> | null = null;
  #batchChanges: Map<string, BatchChange> | null = null;
  #outcomes: Map<Unit["spec"], Outcomes> | null = null;

  constructor(now: number, notes: Notes) {
    this.now = now;
    this.#notes = notes;
  }

  /** Whether a rule should load what later changes of the same call need as well: where each load is a round trip. */
  readonly readsAhead: boolean = false;

  // ---- loading: what a rule looks at must have been loaded before; units come with their needs. A store that has everything at
  // hand leaves these as they are.

  loadUnits(_ids: Iterable<number>): Loading {
    return undefined;
  }

  loadNames(_spec: Unit["spec"], _names: Iterable<string>): Loading {
    return undefined;
  }

  loadSpecs(_namespace: string, _names: Iterable<string>): Loading {
    return undefined;
  }

  /** Attempts that became history. */
  loadPast(_keys: readonly AttemptKey[]): Loading {
    return undefined;
  }

  /** The units that depend on these. */
  loadDependents(_units: readonly Unit[]): Loading {
    return undefined;
  }

  /** The needs of everything that these units lead to. Holds off other adds that could close a circle. */
  loadReachable(_units: readonly number[]): Loading {
    return undefined;
  }

  /** Exact counts of a spec, which nobody changes until the verb has ended. */
  loadCounts(_spec: Unit["spec"]): Loading {
    return undefined;
  }

  /** At least so many of the next units to claim. */
  loadReady(_spec: Unit["spec"], _count: number): Loading {
    return undefined;
  }

  /** Lanes enough to hand out so many units, with their first units; of a spec that has lanes. */
  loadLanes(_spec: Unit["spec"], _count: number): Loading {
    return undefined;
  }

  /** How many units of these partitions run, exactly: nobody begins another until the verb has ended. */
  loadRunning(_spec: Unit["spec"], _partition: string): Loading {
    return undefined;
  }

  /** What `lapsed` gives. */
  loadLapsed(_spec: Unit["spec"]): Loading {
    return undefined;
  }

  /** The shared limits of the spec: nobody begins a unit under them until the verb has ended. After `loadCounts`. */
  loadLimits(_spec: Unit["spec"]): Loading {
    return undefined;
  }

  /** A batch, which nobody else changes until the verb has ended; `create`: one that is about to be made. */
  loadBatch(_namespace: string, _name: string, _create: boolean): Loading {
    return undefined;
  }

  /** The state of the breaker and the counts of its window, which nobody else trips or closes until the verb has ended. */
  loadBreaker(_spec: Unit["spec"]): Loading {
    return undefined;
  }

  /** Makes sure that so many units can be made. */
  reserve(_count: number): Loading {
    return undefined;
  }

  // ---- looking

  /** Undefined for a unit that was deleted or never existed. */
  abstract unit(id: number): Unit | undefined;
  abstract find(spec: Unit["spec"], name: string): Unit | undefined;
  abstract spec(namespace: string, name: string): Unit["spec"] | undefined;
  /** Whether a unit of this id ever existed. */
  abstract everMade(id: number): boolean;
  abstract past(unit: Unit, number: number): AttemptState | undefined;
  abstract needs(unit: number): readonly Need[];
  /** Where the target of a need stands; null when it was deleted. */
  abstract targetStatus(need: Need): WorkUnitStatus | null;
  abstract hasDependents(unit: Unit): boolean;
  abstract dependents(unit: Unit): Iterable<Unit>;
  abstract count(spec: Unit["spec"], status: WorkUnitStatus): number;
  /** The next unit to claim: highest priority first, then name order. */
  abstract ready(spec: Unit["spec"]): Unit | undefined;
  abstract extras(unit: Unit): Extras;
  /** What the unit says of time; a store may know that no unit of the spec does. */
  timing(unit: Unit): UnitTiming | null {
    return this.extras(unit).timing;
  }
  /** The lane that is next to be served among those with available units that are not held. */
  abstract nextLane(spec: Unit["spec"]): LaneState | undefined;
  /** The lane's next unit: highest priority first, then name order; or the first of those that have begun. */
  abstract nextInLane(spec: Unit["spec"], lane: LaneState, begun: boolean): Unit | undefined;
  /**
   * When the last attempt of the work spec ended that a limit no longer counts, as far as was looked: who takes its place begins no
   * earlier. Only where the daemons' requests may overtake each other.
   */
  placeFreed(_spec: Unit["spec"]): number {
    return 0;
  }

  /** How many units of a partition run. */
  abstract running(spec: Unit["spec"], partition: string): number;
  /** Units that are pending although their leases have ended, of the spec and of all that share a limit with it. */
  abstract lapsed(spec: Unit["spec"]): readonly Unit[];
  /** The shared limits that the spec refers to and that are defined. */
  abstract limits(spec: Unit["spec"]): readonly SharedLimitState[];

  abstract batch(namespace: string, name: string): BatchRow | undefined;
  /** What attempts came to within the window of the breaker, those that this verb has added included. */
  abstract counts(spec: Unit["spec"]): OutcomeCounts;

  // ---- writing

  /** A unit of the lane was handed out: the turn passes to the one after it. Saves the lane. */
  abstract served(spec: Unit["spec"], lane: LaneState): void;
  /** Passes the lane over until then, or until something happens to its units. */
  abstract hold(spec: Unit["spec"], lane: LaneState, hold: Hold): void;
  /** Saves the bucket of a spec's rate. */
  abstract setFull(spec: Unit["spec"], full: number): void;
  /** Saves the bucket of a shared limit. */
  abstract setLimitFull(spec: Unit["spec"], limit: string, full: number): void;

  /** A fast path: adds units that are all new and depend on nothing; null, and nothing is written, when that is not so. */
  abstract addNew(spec: Unit["spec"], puts: readonly WorkUnitPut[]): Rule<AddedWorkUnit[] | null> | null;
  /** A new unit, which nobody sees before `add`. */
  abstract make(spec: Unit["spec"], put: WorkUnitPut): Unit;
  /** The unit exists from now on; it is in no order and not counted before it enters a status. */
  abstract add(unit: Unit): void;
  /** Takes a unit out of the order of its status: before anything changes that it is ordered by. */
  abstract leave(unit: Unit): void;
  /**
   * Sets the status of a unit that is in no order, counts it there, and saves it. A unit that waits stands in the order of timers as well,
   * if it has one (`nextTimer`).
   */
  abstract enter(unit: Unit, status: WorkUnitStatus): void;
  /** Saves a change of the unit's attempt that moves nothing. */
  abstract save(unit: Unit): void;
  /** Saves the data of an attempt that is history. */
  abstract savePast(unit: Unit, attempt: AttemptState): void;
  /**
   * The attempt becomes history; the unit is saved by what follows. `lost`: it ran until now, and stays on its worker's list
   * until the worker settles it or its lease would have ended.
   */
  abstract archive(unit: Unit, attempt: AttemptState, lost: boolean): void;
  abstract setNeeds(unit: Unit, needs: readonly Need[]): void;
  abstract meet(unit: Unit, need: Need): void;
  abstract setExtras(unit: Unit, extras: Extras): void;
  abstract saveBatch(namespace: string, batch: BatchRow): void;
  /** Deletes a unit that is in no order, with its attempts and needs. */
  abstract remove(unit: Unit): void;
  /** No unit is generated before this time. */
  abstract setNextContinuous(spec: Unit["spec"], time: number): void;
  /** Adds to what is counted under a time. */
  abstract addCounts(spec: Unit["spec"], at: number, counts: OutcomeCounts): void;
  protected abstract setBreaker(spec: Unit["spec"], state: BreakerState): void;
  /** When the schedule makes its next unit, and the time of the last one that it made. */
  abstract setRuns(spec: Unit["spec"], nextRun: number, lastRun: number): void;

  // ---- events, from which messages, wake-ups and the lists of workers follow

  /** The unit's attempt runs: its worker is known and holds it. `claimed` is false for one that was renewed after it had expired. */
  abstract began(unit: Unit, attempt: AttemptState, claimed: boolean): void;
  /** The worker of an attempt no longer holds its unit, or has heard that it lost it. */
  abstract released(unit: Unit, attempt: AttemptState): void;
  /** Appends a message. */
  protected abstract tell(message: Omit<QueueMessage, "seq">, unit: Unit): void;
  /** Wakes those who wait for the unit to end, once the verb has taken effect. */
  protected abstract wake(unit: Unit): void;

  /** For the history; `ms` is how long the attempt took, or the unit had waited for it, and below 0 when it did neither. */
  happened(unit: Unit, happening: Happening, ms: number): void {
    this.#notes.note(unit.spec.id, happening, this.now, ms, 1);
  }

  /** For the breaker of the work spec, if it has one: the attempt finished, or failed. */
  attemptEnded({ spec }: Unit, { start, data, reason }: AttemptState, finished: boolean): void {
    if (!hasBreaker(spec.meta)) return;
    this.#outcomes ??= new Map<Unit["spec"], Outcomes>();
    let outcomes = this.#outcomes.get(spec);
    if (outcomes === undefined) this.#outcomes.set(spec, (outcomes = { finished: [], failed: [] }));
    if (finished) outcomes.finished.push(start);
    else outcomes.failed.push({ start, data, reason });
  }

  takeOutcomes(): Map<Unit["spec"], Outcomes> | null {
    const outcomes = this.#outcomes;
    this.#outcomes = null;
    return outcomes;
  }

  /** Sets the state of a breaker; that it tripped, or no longer is, is told once the verb has taken effect. */
  changeBreaker(spec: Unit["spec"], state: BreakerState): void {
    const was = isTripped(spec.meta);
    this.setBreaker(spec, state);
    const is = state.since !== undefined;
    if (was !== is)
      this.#notes.breaker({ namespace: spec.namespace, workSpec: spec.name, time: this.now, state });
  }

  /** The unit has ended: its queues get a message, and its dependents are looked at before the verb answers. */
  ended(unit: Unit, status: "finished" | "failed", at: number): void {
    this.wake(unit);
    const { queues, labels } = this.extras(unit);
    this.#countUnit(unit, labels, status === "finished" ? { finished: 1 } : { failed: 1 });
    // nobody hears of a unit of a deleted work spec, though its row may still be there
    if (queues.length > 0 && !unit.spec.deleted)
      for (const queue of queues)
        this.tell(
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

  /** The unit was deleted: its dependents are looked at before the verb answers. */
  removed(unit: Unit, at: number, retired: boolean): void {
    this.wake(unit);
    // what has ended stays counted, unless a batch would wait for it for ever
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
    if (batch !== null) this.countInBatch(spec.namespace, batch, change);
  }

  /** The counts of a batch change by so much; that is looked at before the verb answers. */
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

  /** Whether the dependents of some units, or batches, have not been looked at yet; the dependents of this one, if it is given. */
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
