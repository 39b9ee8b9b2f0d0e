/** The lanes of a work spec in memory, with the units that wait in each. */
import {
  Lane,
  Lanes,
  SortedList,
  type Hold,
  type LaneRow,
  type LaneState,
  type WorkSpecMeta,
  type WorkUnitStatus,
} from "../core/index.ts";
import { byClaim, type Unit } from "./state.ts";

/**
 * Units mostly arrive in claim order and leave from the front. Then they are a linked list, and the successor of a unit that is
 * handed out is at hand. Otherwise the units after the first are in a sorted list.
 */
export class UnitLane extends Lane {
  /** The first in claim order. */
  first: Unit | null = null;
  #last: Unit | null = null;
  #list: SortedList<Unit> | null = null;
  /** Units that were claimed and have not ended: only for specs with an `order`. */
  begunUnits: Set<Unit> | null = null;

  add(unit: Unit): void {
    const { first } = this;
    if (first === null) this.first = this.#last = unit;
    else if (byClaim(unit, first) < 0) {
      this.first = unit;
      if (this.#list === null) unit.next = first;
      else this.#list.add(first);
    } else if (this.#list === null && this.#last !== null && byClaim(unit, this.#last) > 0) {
      this.#last.next = unit;
      this.#last = unit;
    } else this.#listed().add(unit);
  }

  remove(unit: Unit): void {
    if (unit !== this.first) this.#listed().remove(unit);
    else if (this.#list === null) {
      this.first = unit.next;
      if (this.first === null) this.#last = null;
      else unit.next = null;
      return;
    } else {
      this.first = this.#list.first() ?? null;
      if (this.first !== null) this.#list.remove(this.first);
    }
    if (this.#list?.size === 0) {
      this.#list = null;
      this.#last = this.first;
    }
  }

  /** Converts the units after the first to a sorted list. */
  #listed(): SortedList<Unit> {
    if (this.#list !== null) return this.#list;
    this.#list = new SortedList<Unit>(byClaim);
    for (let unit = this.first; unit !== null;) {
      const { next } = unit;
      unit.next = null;
      if (next !== null) this.#list.add(next);
      unit = next;
    }
    this.#last = null;
    return this.#list;
  }
}

const isCounted = ({ attempt }: Unit, status: WorkUnitStatus): boolean =>
  status === "available" ||
  status === "pending" ||
  (attempt !== null && (status === "delayed" || status === "blocked"));

export class SpecLanes {
  readonly lanes: Lanes<UnitLane>;
  readonly #ordered: boolean;

  /** Keeps the token buckets when the rules of a work spec change. */
  constructor(meta: WorkSpecMeta, units: Iterable<Unit>, before: SpecLanes | null) {
    this.lanes = new Lanes(meta, (partition) => new UnitLane(partition));
    this.#ordered = meta.order !== "";
    for (const { partition, full } of before?.lanes ?? []) if (full > 0) this.lanes.of(partition).full = full;
    for (const unit of units) {
      unit.lane = null;
      this.enter(unit, unit.status);
    }
  }

  /** A unit refers to its lane only while the lane counts it: a lane that counts no units may be removed. */
  #laneOf(unit: Unit): UnitLane {
    return unit.lane ?? (unit.lane = this.lanes.of(unit.partition));
  }

  enter(unit: Unit, status: WorkUnitStatus): void {
    if (!isCounted(unit, status)) {
      unit.lane = null;
      return;
    }
    const lane = this.#laneOf(unit);
    if (status === "available") lane.add(unit);
    if (this.#ordered && unit.attempt !== null) (lane.begunUnits ??= new Set()).add(unit);
    this.lanes.count(lane, unit, status, 1);
  }

  leave(unit: Unit, status: WorkUnitStatus): void {
    if (!isCounted(unit, status)) return;
    const lane = this.#laneOf(unit);
    if (status === "available") lane.remove(unit);
    if (this.#ordered) lane.begunUnits?.delete(unit);
    this.lanes.count(lane, unit, status, -1);
  }

  next(state: LaneState, begun: boolean): Unit | undefined {
    const lane = this.#own(state);
    if (!begun) return lane.first ?? undefined;
    return [...(lane.begunUnits ?? [])].filter(({ status }) => status === "available").sort(byClaim)[0];
  }

  list(previous: string | null, limit: number): LaneRow[] {
    return this.lanes
      .list(previous, limit)
      .map(({ partition, waiting, running, begun, begunAvailable, full, first }) => ({
        partition,
        waiting,
        running,
        begun,
        begunAvailable,
        full,
        first: first?.name ?? null,
      }));
  }

  hold(state: LaneState, hold: Hold): void {
    this.lanes.hold(this.#own(state), hold);
  }

  #own(state: LaneState): UnitLane {
    return state instanceof UnitLane ? state : this.lanes.of(state.partition);
  }
}
