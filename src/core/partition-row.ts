/** A partition of a work spec as it is listed: what waits and runs in it, and what holds it back. */
import { holdOf, type HoldReason, type LaneState } from "./partitions.ts";
import type { WorkSpecMeta } from "./work-spec.ts";

/** Counting stops at this many units of a partition: a partition with more shows this number. */
export const maxCountedInPartition = 1000;

/** What a store reports of a partition. A count of `maxCountedInPartition` or more may be too low, but not below that number. */
export interface LaneRow extends Readonly<LaneState> {
  /** Units that are available. */
  readonly waiting: number;
  /** The name of the first of them in claim order, or null. */
  readonly first: string | null;
}

export interface PartitionRow {
  /** Empty for units without one. */
  partition: string;
  /** Available and running units; counting stops at 1,000 of each. */
  waiting: number;
  running: number;
  /** The first of the units that wait, by priority and name; null when none does. */
  first: string | null;
  /** The rule that keeps its units waiting; null when one may begin, or none waits. */
  held: Exclude<HoldReason, "nothing"> | null;
  /** When its rate allows the next unit; 0 when nothing is held, or when the hold lasts until another unit ends. */
  until: number;
  /** The state in words. */
  reason: string;
}

export function partitionRow(meta: WorkSpecMeta, lane: LaneRow, now: number): PartitionRow {
  const hold = lane.waiting > 0 ? holdOf(meta, lane, now) : null;
  return {
    partition: lane.partition,
    waiting: Math.min(lane.waiting, maxCountedInPartition),
    running: Math.min(lane.running, maxCountedInPartition),
    first: lane.first,
    held: hold === null || hold.reason === "nothing" ? null : hold.reason,
    until: hold?.until ?? 0,
    reason: describe(meta, lane, hold?.reason ?? null),
  };
}

function describe(meta: WorkSpecMeta, lane: LaneRow, held: HoldReason | null): string {
  const { maxRunningPerPartition, ratePerPartition } = meta;
  switch (held) {
    case "order":
      return lane.running > 0 ? "one unit at a time, in order" : "a started unit waits for its retry";
    case "max_running_per_partition":
      return `${lane.running} of ${maxRunningPerPartition} running`;
    case "rate_per_partition":
      return `rate limit of ${ratePerPartition.limit ?? 0} per ${(ratePerPartition.periodMs ?? 1000) / 1000} s`;
    default:
      if (lane.waiting > 0) return "ready to start";
      return lane.running > 0 ? "no waiting units" : "units wait for their retry";
  }
}
