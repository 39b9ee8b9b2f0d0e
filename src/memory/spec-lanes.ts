/** The lanes of a work spec in memory, with the units that wait in each. */
import { Lanes, SortedList, type LaneState, type WorkSpecMeta, type WorkUnitStatus } from "../core/index.ts";
import { byClaim, type Unit } from "./state.ts";

interface LaneUnits {
  ready: SortedList<Unit>;
  begun: Set<Unit>;
}

export class SpecLanes {
  readonly lanes: Lanes;
  readonly #units = new Map<string, LaneUnits>();

  /** Buckets are kept when the rules of a work spec change. */
  constructor(meta: WorkSpecMeta, units: Iterable<Unit>, before: SpecLanes | null) {
    this.lanes = new Lanes(meta);
    for (const { partition, full } of before?.lanes ?? []) if (full > 0) this.lanes.of(partition).full = full;
    for (const unit of units) this.enter(unit, unit.status);
  }

  enter(unit: Unit, status: WorkUnitStatus): void {
    if (status === "finished" || status === "failed") return;
    let units = this.#units.get(unit.partition);
    if (units === undefined)
      this.#units.set(unit.partition, (units = { ready: new SortedList(byClaim), begun: new Set() }));
    if (status === "available") units.ready.add(unit);
    if (unit.attempt !== null) units.begun.add(unit);
    this.lanes.enter(unit, status);
  }

  leave(unit: Unit, status: WorkUnitStatus): void {
    if (status === "finished" || status === "failed") return;
    const units = this.#units.get(unit.partition);
    if (status === "available") units?.ready.remove(unit);
    units?.begun.delete(unit);
    if (units?.ready.size === 0 && units.begun.size === 0) this.#units.delete(unit.partition);
    this.lanes.leave(unit, status);
  }

  next({ partition }: LaneState, begun: boolean): Unit | undefined {
    const units = this.#units.get(partition);
    if (!begun) return units?.ready.first();
    return [...(units?.begun ?? [])].filter(({ status }) => status === "available").sort(byClaim)[0];
  }
}
