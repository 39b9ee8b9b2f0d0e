/**
 * Partitions, rates and limits: which of a work spec's units may be handed out now, beyond its `max_running`.
 *
 * A lane is the state of one partition of a work spec: how many units run, how many have begun, and when its rate has the next
 * token. Lanes take turns. The lane with the highest waiting priority goes first; with `fair`, priorities do not matter. Among
 * equals, the next lane in name order after the one served last goes first. A turn is one unit, or with `fair` as many as the
 * weight of the partition. Within a lane units follow the order of every claim: highest priority first, then name.
 */
import { isTripped } from "./breaker.ts";
import { latestTime, longestSkewMs, longestSpanMs } from "./check.ts";
import type { WorkSpecMeta } from "./work-spec.ts";

/** At most `limit` units may begin per `periodMs`, up to `burst` of them at once. Without a limit, or with 0, there is no rate. */
export interface Rate {
  limit?: number;
  /** A second when absent. */
  periodMs?: number;
  /** 1 when absent: the units are spread evenly. */
  burst?: number;
}

export const hasRate = ({ limit = 0, periodMs = 1000 }: Rate): boolean => limit > 0 && periodMs > 0;

/** The time in which one token comes back. A very small limit must not make it infinite: the bucket would count as full. */
export const tokenMs = ({ limit = 0, periodMs = 1000 }: Rate): number =>
  Math.min(periodMs / limit, longestSpanMs);

export const burstOf = ({ burst = 1 }: Rate): number => Math.max(1, burst);

/**
 * A token bucket in one number (GCRA): `full` is when the bucket will be full again. A time too far ahead was left by a slower rate
 * or by a clock that was ahead; the bucket then has one token, so that nothing waits until that time.
 */
function fillTime(rate: Rate, full: number, now: number): number {
  const burst = burstOf(rate) * tokenMs(rate);
  return full > now + burst + longestSkewMs ? now + burst - tokenMs(rate) : Math.max(full, now);
}

/** How many units the rate allows now. */
export function tokensOf(rate: Rate, full: number, now: number): number {
  if (!hasRate(rate)) return Infinity;
  const missing = (fillTime(rate, full, now) - now) / tokenMs(rate);
  // tolerate rounding errors: times are sums of fractions
  return Math.max(0, Math.floor(burstOf(rate) - missing + 1e-6));
}

/** The bucket after `count` units have begun. Tokens do not come back when a unit ends. */
export const takeTokens = (rate: Rate, full: number, now: number, count: number): number =>
  hasRate(rate) && count > 0 ? fillTime(rate, full, now) + count * tokenMs(rate) : full;

/** When the rate allows the next unit. */
export const nextToken = (rate: Rate, full: number, now: number): number =>
  Math.min(
    Math.max(now, Math.ceil(fillTime(rate, full, now) - (burstOf(rate) - 1) * tokenMs(rate) - 1e-6)),
    latestTime,
  );

/** Whether the units of the work spec are handed out by partition. */
export const hasLanes = ({ maxRunningPerPartition, ratePerPartition, order, fair }: WorkSpecMeta): boolean =>
  maxRunningPerPartition > 0 || order !== "" || fair !== "" || hasRate(ratePerPartition);

/** The metadata that lanes depend on, as a string, to detect changes. */
export const laneRules = ({
  maxRunningPerPartition,
  ratePerPartition,
  order,
  fair,
  partitionWeights,
}: WorkSpecMeta): string =>
  JSON.stringify([maxRunningPerPartition, ratePerPartition, order, fair, partitionWeights]);

/** Whether claims of the work spec must check more than its units and `max_running`. */
export const hasFlowRules = (meta: WorkSpecMeta): boolean =>
  hasRate(meta.rate) || hasLanes(meta) || meta.limits.length > 0 || isTripped(meta);

export interface LaneState {
  readonly partition: string;
  /** Units that are pending. */
  readonly running: number;
  /** Units that were claimed and have not ended: pending, or given back, or waiting for another try. */
  readonly begun: number;
  /** Begun units that are available. */
  readonly begunAvailable: number;
  /** When the bucket of `rate_per_partition` is full again. */
  full: number;
}

/** `nothing`: the lane has no unit that can be handed out at this moment. */
export type HoldReason = "max_running_per_partition" | "rate_per_partition" | "order" | "nothing";

/** Why a lane hands out nothing. `until` is when the hold ends by itself; 0 means that it lasts until one of the lane's units changes. */
export interface Hold {
  reason: HoldReason;
  until: number;
}

/** What holds a lane back now, or null. */
export function holdOf(meta: WorkSpecMeta, lane: LaneState, now: number): Hold | null {
  const { maxRunningPerPartition, ratePerPartition, order } = meta;
  if (order !== "" && lane.begun > 0 && (lane.running > 0 || lane.begunAvailable === 0))
    return { reason: "order", until: 0 };
  if (maxRunningPerPartition > 0 && lane.running >= maxRunningPerPartition)
    return { reason: "max_running_per_partition", until: 0 };
  if (tokensOf(ratePerPartition, lane.full, now) < 1)
    return { reason: "rate_per_partition", until: nextToken(ratePerPartition, lane.full, now) };
  return null;
}

/** With an order, a unit that has begun goes before all others of its partition until it has ended. */
export const begunFirst = (meta: WorkSpecMeta, lane: LaneState): boolean =>
  meta.order !== "" && lane.begun > 0;

/** Whether an attempt whose lease expired may run again: another unit of its partition may have taken its place. */
export const mayRunAgain = (meta: WorkSpecMeta, running: number): boolean =>
  !(meta.order !== "" && running > 0) &&
  !(meta.maxRunningPerPartition > 0 && running >= meta.maxRunningPerPartition);

/** The state of the rotation: the partition that was served last, and how many units of its turn it has had. */
export interface Turn {
  cursor: string;
  turn: number;
}

/**
 * How many units a turn of the partition has. Tests for an empty object first: looking up a name that was never a property key
 * costs more.
 */
const weightOf = (meta: WorkSpecMeta, partition: string): number =>
  hasWeights(meta) && Object.hasOwn(meta.partitionWeights, partition)
    ? (meta.partitionWeights[partition] ?? 1)
    : 1;

/** Whether some partitions have turns of several units. */
export const hasWeights = ({ fair, partitionWeights }: WorkSpecMeta): boolean =>
  fair !== "" && hasAny(partitionWeights);

function hasAny(weights: Readonly<Record<string, number>>): boolean {
  for (const _ in weights) return true;
  return false;
}

/** Whether the partition that was served last is served again before others. */
export const turnGoesOn = (meta: WorkSpecMeta, { cursor, turn }: Turn): boolean =>
  turn > 0 && turn < weightOf(meta, cursor);

/** The rotation after one more unit of a partition. */
export const nextTurnOf = (meta: WorkSpecMeta, before: Turn, partition: string): Turn => ({
  cursor: partition,
  // names are compared last: comparing two different names reads both of them
  turn: turnGoesOn(meta, before) && partition === before.cursor ? before.turn + 1 : 1,
});

/** The rank of a lane: lower goes first. */
export const rankOf = ({ fair }: WorkSpecMeta, priority: number): number =>
  fair !== "" || priority === 0 ? 0 : -priority;

/** Fewer units than this are not worth being sorted. */
const manyUnits = 100;

/**
 * Whether this many new units get their ids in the order in which their partitions will take turns. Ids decide the place in memory
 * and on disk: a claim takes units of many partitions, and then finds them beside each other.
 */
export const addsInterleaved = (meta: WorkSpecMeta, count: number): boolean =>
  count >= manyUnits && hasLanes(meta);

/** First one unit of each partition, in the order of partitions, then another one of each, and so on. */
export function interleaveByPartition<Unit extends { partition?: string }>(units: readonly Unit[]): Unit[] {
  const counts = new Map<string, number>();
  const turns: Unit[][] = [];
  for (const unit of units) {
    const { partition = "" } = unit;
    const turn = counts.get(partition) ?? 0;
    counts.set(partition, turn + 1);
    (turns[turn] ??= []).push(unit);
  }
  return turns.flatMap((turn) => turn.sort(byPartition));
}

/** JavaScript's `<` orders all but rare names as lanes do. */
function byPartition({ partition: a = "" }: { partition?: string }, { partition: b = "" }): number {
  return a < b ? -1 : a > b ? 1 : 0;
}
