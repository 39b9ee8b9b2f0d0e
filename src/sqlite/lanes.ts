/**
 * The lanes of work specs that hand out units by partition. Lanes are kept in memory and loaded from the tables on first use. Table
 * `lane` has the rate buckets, `tally` the turn. Available units of these specs are in `ready_lane` instead of `ready`.
 */
import {
  hasLanes,
  Lane,
  Lanes,
  nameFromBytes,
  nameToBytes,
  type LaneRow,
  type WorkUnitStatus,
} from "../core/index.ts";
import type { Value } from "./driver.ts";
import type { Spec, State } from "./state.ts";
import { findUnit, type Unit } from "./units.ts";

/** The column value of a partition in table `ready_lane`: never null. */
export const laneValue = (partition: string): Value => nameToBytes(partition);

const partitionOf = (value: Value | undefined): string =>
  value instanceof Uint8Array ? nameFromBytes(value) : "";

/** Only for specs that have lanes. */
export function lanesOf(state: State, spec: Spec): Lanes {
  if (spec.lanes !== null) return spec.lanes;
  const { sql } = state;
  const lanes = new Lanes(spec.meta, (partition) => new Lane(partition));
  for (const [partition, full] of sql.lanes.all(spec.id))
    lanes.of(partitionOf(partition)).full = full as number;
  for (const [partition, place, count] of sql.laneCounts.all(spec.id))
    lanes.count(
      lanes.of(partitionOf(partition)),
      { priority: 0 - (place as number), attempt: null },
      "available",
      count as number,
    );
  for (const [partition, count] of sql.laneLeases.all(spec.id)) {
    const lane = lanes.of(partitionOf(partition));
    lane.running = lane.begun = count as number;
  }
  for (const [partition, available] of sql.laneBegun.all(spec.id)) {
    const lane = lanes.of(partitionOf(partition));
    lane.begun++;
    lane.begunAvailable += available as number;
  }
  spec.lanes = lanes;
  return lanes;
}

export function listLanes(state: State, spec: Spec, previous: string | null, limit: number): LaneRow[] {
  if (!hasLanes(spec.meta)) return [];
  return lanesOf(state, spec)
    .list(previous, limit)
    .map(({ partition, waiting, running, begun, begunAvailable, full }) => {
      const [unit] = waiting === 0 ? [] : (state.sql.firstInLane.get(spec.id, laneValue(partition)) ?? []);
      const first = unit === undefined ? null : (findUnit(state, unit as number)?.name ?? null);
      return { partition, waiting, running, begun, begunAvailable, full, first };
    });
}

/** Call before the unit is written: if this loads the lanes from the tables, they must not contain the unit yet. */
export function enterLane(state: State, unit: Unit, status: WorkUnitStatus): void {
  if (hasLanes(unit.spec.meta)) lanesOf(state, unit.spec).enter(unit, status);
}

/** Call before the unit is written: if this loads the lanes from the tables, they must still contain the unit. */
export function leaveLane(state: State, unit: Unit, status: WorkUnitStatus): void {
  if (hasLanes(unit.spec.meta)) lanesOf(state, unit.spec).leave(unit, status);
}

/** Call after the rules of a spec changed: moves its available units from `ready` to `ready_lane`, or back. */
export function syncLanes(state: State, spec: Spec, had: boolean): void {
  const { sql } = state;
  const has = hasLanes(spec.meta);
  spec.lanes = null;
  spec.top = undefined;
  if (has === had) return;
  state.writes++;
  if (has) {
    sql.fillReadyLane.run(spec.id);
    sql.clearReady.run(spec.id);
  } else {
    sql.fillReady.run(spec.id);
    sql.clearReadyLane.run(spec.id);
    sql.clearLanes.run(spec.id);
  }
}

/** Drops lanes that have no waiting or started units and a full rate bucket. */
export function pruneLanes(state: State, spec: Spec, now: number): void {
  if (!hasLanes(spec.meta)) return;
  for (const partition of lanesOf(state, spec).prune(now))
    if (state.sql.dropLane.run(spec.id, laneValue(partition)) > 0) state.writes++;
}
