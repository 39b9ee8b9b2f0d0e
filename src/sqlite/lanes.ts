/**
 * The lanes of work specs whose units are handed out by partition. They are in memory, and read from the tables when they are first
 * looked at; buckets stand in table `lane`, whose turn it is in `tally`. What waits stands in `ready_lane` instead of `ready`.
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

/** A partition as table `ready_lane` has it: never null. */
export const laneValue = (partition: string): Value => nameToBytes(partition);

const partitionOf = (value: Value | undefined): string =>
  value instanceof Uint8Array ? nameFromBytes(value) : "";

/** Of a spec that has lanes. */
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

/** To be called before the unit is written: lanes that are read now do not have it yet. */
export function enterLane(state: State, unit: Unit, status: WorkUnitStatus): void {
  if (hasLanes(unit.spec.meta)) lanesOf(state, unit.spec).enter(unit, status);
}

/** To be called before the unit is written. */
export function leaveLane(state: State, unit: Unit, status: WorkUnitStatus): void {
  if (hasLanes(unit.spec.meta)) lanesOf(state, unit.spec).leave(unit, status);
}

/** The rules of a spec have changed: what waits goes from `ready` to `ready_lane`, or back. */
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

/** Forgets lanes that are as good as new. */
export function pruneLanes(state: State, spec: Spec, now: number): void {
  if (!hasLanes(spec.meta)) return;
  for (const partition of lanesOf(state, spec).prune(now))
    if (state.sql.dropLane.run(spec.id, laneValue(partition)) > 0) state.writes++;
}
