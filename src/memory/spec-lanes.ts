/** The lanes of a work spec in memory, with the units that wait in each. */
import {
  Lane,
  Lanes,
  SortedList,
  type Hold,
  type LaneState,
  type WorkSpecMeta,
  type WorkUnitStatus,
} from "../core/index.ts";
import { byClaim, type Unit } from "./state.ts";

class UnitLane extends Lane {
  readonly ready = new SortedList<Unit>(byClaim);
  /** Units that were claimed and have not ended: only where there is an order. */
  readonly begunUnits = new Set<Unit>();
}

export class SpecLanes {
  readonly lanes: Lanes<UnitLane>;
  readonly #ordered: boolean;

  /** Buckets are kept when the rules of a work spec change. */
  constructor(meta: WorkSpecMeta, units: Iterable<Unit>, before: SpecLanes | null) {
    this.lanes = new Lanes(meta, (partition) => new UnitLane(partition));
    this.#ordered = meta.order !== "";
    for (const { partition, full } of before?.lanes ?? []) if (full > 0) this.lanes.of(partition).full = full;
    for (const unit of units) this.enter(unit, unit.status);
  }

  enter(unit: Unit, status: WorkUnitStatus): void {
    if (status === "finished" || status === "failed") return;
    const lane = this.lanes.of(unit.partition);
    if (status === "available") lane.ready.add(unit);
    if (this.#ordered && unit.attempt !== null) lane.begunUnits.add(unit);
    this.lanes.count(lane, unit, status, 1);
  }

  leave(unit: Unit, status: WorkUnitStatus): void {
    if (status === "finished" || status === "failed") return;
    const lane = this.lanes.of(unit.partition);
    if (status === "available") lane.ready.remove(unit);
    if (this.#ordered) lane.begunUnits.delete(unit);
    this.lanes.count(lane, unit, status, -1);
  }

  next(state: LaneState, begun: boolean): Unit | undefined {
    const lane = this.#own(state);
    if (!begun) return lane.ready.first();
    return [...lane.begunUnits].filter(({ status }) => status === "available").sort(byClaim)[0];
  }

  hold(state: LaneState, hold: Hold): void {
    this.lanes.hold(this.#own(state), hold);
  }

  #own(state: LaneState): UnitLane {
    return state instanceof UnitLane ? state : this.lanes.of(state.partition);
  }
}
