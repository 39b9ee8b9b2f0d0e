/**
 * The history: what happened to each work spec over time, in steps that grow coarser with age. Every engine keeps records of
 * what happened through it alone; they are added up when somebody reads them. See `recording.ts` for how they are made.
 */
import type { WorkSpecMetaChange } from "./work-spec-fields.ts";

/** What is counted. A unit that had ended and is added again counts as added. */
export const happenings = ["added", "started", "finished", "failed", "retried", "expired", "late"] as const;
export type Happening = (typeof happenings)[number];

const hour = 3_600_000;

/** How fine the records are, and how long they are kept: finest first, each a multiple of the one before. */
export const historySteps = [
  { stepMs: 10_000, keptMs: 2 * hour },
  { stepMs: 60_000, keptMs: 26 * hour },
  { stepMs: 900_000, keptMs: 31 * 24 * hour },
] as const;

export const finestStepMs = historySteps[0].stepMs;

export interface HistoryQuery {
  /** One series for each of these work specs. Absent: one for the namespace as a whole. */
  workSpecs?: readonly string[];
  /** Besides the namespace as a whole, one series for every work spec; at most 1,000 of them. */
  each?: boolean;
  from?: number;
  /** In place of `from`: so long before `to`. An hour when both are absent. */
  lastMs?: number;
  /** Now when absent. */
  to?: number;
  /** About so many points at most: 360 when absent, never more than 3,000. The step follows from it. */
  points?: number;
}

export interface History {
  /** The whole steps that were asked for; what happened before `to` is complete but for daemons that are behind. */
  from: number;
  to: number;
  stepMs: number;
  /** The namespace as a whole first, then work specs in the order asked for, or of their names. */
  series: HistorySeries[];
}

export interface HistorySeries {
  /** Null for the namespace as a whole. */
  workSpec: string | null;
  /**
   * In the order of time. Of the namespace as a whole a missing point is a time when no daemon kept records; of a work spec it
   * is also one when nothing happened and no unit was open.
   */
  points: HistoryPoint[];
}

export interface HistoryPoint {
  /** When the step begins. */
  time: number;
  /** How many in this step. */
  added: number;
  /** Attempts that began, and how those ended that did. */
  started: number;
  finished: number;
  failed: number;
  retried: number;
  expired: number;
  /** Units that were late: they went first from then on, or failed. */
  late: number;
  /** Units that ran, and that waited, on average; null when nobody looked in this step. */
  running: number | null;
  waiting: number | null;
  delayed: number | null;
  blocked: number | null;
  /** How long the unit had waited that had waited longest. */
  oldestMs: number;
  /** How long attempts took that finished or failed, in milliseconds; null when none did. */
  duration: Spread | null;
  /** How long units had waited since they became available, when their attempts began. */
  wait: Spread | null;
  changes: HistoryChange[];
}

/** Percentiles, to within a tenth of their value. */
export interface Spread {
  count: number;
  p50: number;
  p90: number;
  p99: number;
}

/** A work spec was set anew, paused, resumed, or its metadata was changed. */
export interface HistoryChange {
  time: number;
  workSpec: string;
  /** `set`, `paused`, `resumed`, `breaker tripped`, `breaker closed`, or what was changed, such as `weight 40`. */
  what: string;
}

/** Changes remembered of one step. */
const maxChanges = 20;

// ---- histograms: four buckets to each doubling, so that a percentile is off by less than a tenth

const bucketsPerDoubling = 4;
/** The last bucket begins at 2^31 ms, about 25 days. */
export const histogramSize = 31 * bucketsPerDoubling + 2;

const findBucket = (ms: number): number =>
  ms < 1 ? 0 : Math.min(histogramSize - 1, 1 + Math.floor(Math.log2(ms) * bucketsPerDoubling));

/** Of whole milliseconds up to a second, as most durations are: found without a logarithm for each unit. */
const buckets = Uint8Array.from({ length: 1024 }, (_, ms) => findBucket(ms));

export const bucketOf = (ms: number): number => buckets[ms] ?? findBucket(ms);

/** The middle of a bucket, by ratio. */
const valueOf = (bucket: number): number =>
  bucket === 0 ? 0 : Math.round(2 ** ((bucket - 0.5) / bucketsPerDoubling));

export type Histogram = Map<number, number>;

export function spreadOf(histogram: Histogram): Spread | null {
  const buckets = [...histogram].sort(([a], [b]) => a - b);
  const count = buckets.reduce((sum, [, n]) => sum + n, 0);
  if (count === 0) return null;
  const at = (share: number): number => {
    let left = Math.ceil(count * share);
    for (const [bucket, n] of buckets) if ((left -= n) <= 0) return valueOf(bucket);
    return valueOf(buckets.at(-1)?.[0] ?? 0);
  };
  return { count, p50: at(0.5), p90: at(0.9), p99: at(0.99) };
}

// ---- records

/** What one writer knows of one work spec, or of a namespace, in one step. */
export interface HistoryRecord {
  counts: Record<Happening, number>;
  durations: Histogram;
  waits: Histogram;
  /** Attempts that a worker ended, tried again or not, and how long they took together. */
  ended: number;
  workedMs: number;
  /** Looks at the counts by status, and the sums of what they saw. */
  looks: number;
  running: number;
  waiting: number;
  delayed: number;
  blocked: number;
  oldestMs: number;
  changes: HistoryChange[];
}

export const emptyRecord = (): HistoryRecord => ({
  counts: { added: 0, started: 0, finished: 0, failed: 0, retried: 0, expired: 0, late: 0 },
  durations: new Map(),
  waits: new Map(),
  ended: 0,
  workedMs: 0,
  looks: 0,
  running: 0,
  waiting: 0,
  delayed: 0,
  blocked: 0,
  oldestMs: 0,
  changes: [],
});

const sums = ["ended", "workedMs", "looks", "running", "waiting", "delayed", "blocked"] as const;

function addHistogram(to: Histogram, from: Histogram): void {
  for (const [bucket, n] of from) to.set(bucket, (to.get(bucket) ?? 0) + n);
}

/** Adds one record to another: of the same work spec by another writer or in the next step, or of another of the namespace. */
export function addRecord(to: HistoryRecord, from: HistoryRecord): void {
  for (const happening of happenings) to.counts[happening] += from.counts[happening];
  addHistogram(to.durations, from.durations);
  addHistogram(to.waits, from.waits);
  for (const sum of sums) to[sum] += from[sum];
  to.oldestMs = Math.max(to.oldestMs, from.oldestMs);
  if (from.changes.length > 0)
    to.changes = [...to.changes, ...from.changes].sort((a, b) => a.time - b.time).slice(0, maxChanges);
}

/** What is zero is left out: most records of most work specs are a few dozen bytes. */
export function writeRecord(record: HistoryRecord): string {
  const { counts, durations, waits, oldestMs, changes } = record;
  const written: Record<string, unknown> = {};
  for (const happening of happenings) if (counts[happening] > 0) written[happening] = counts[happening];
  for (const sum of sums) if (record[sum] > 0) written[sum] = record[sum];
  if (oldestMs > 0) written.oldestMs = oldestMs;
  if (durations.size > 0) written.durations = [...durations].flat();
  if (waits.size > 0) written.waits = [...waits].flat();
  if (changes.length > 0) written.changes = changes;
  return JSON.stringify(written);
}

interface Written extends Partial<Record<Happening | (typeof sums)[number] | "oldestMs", number>> {
  durations?: number[];
  waits?: number[];
  changes?: HistoryChange[];
}

export function readRecord(text: string): HistoryRecord {
  const written = JSON.parse(text) as Written;
  const record = emptyRecord();
  for (const happening of happenings) record.counts[happening] = written[happening] ?? 0;
  for (const sum of sums) record[sum] = written[sum] ?? 0;
  record.oldestMs = written.oldestMs ?? 0;
  record.durations = readHistogram(written.durations);
  record.waits = readHistogram(written.waits);
  record.changes = written.changes ?? [];
  return record;
}

function readHistogram(pairs: readonly number[] = []): Histogram {
  const histogram: Histogram = new Map();
  for (let i = 0; i + 1 < pairs.length; i += 2) histogram.set(pairs[i] ?? 0, pairs[i + 1] ?? 0);
  return histogram;
}

export function pointOf(time: number, record: HistoryRecord): HistoryPoint {
  const { looks, durations, waits, oldestMs, changes } = record;
  const mean = (sum: number): number | null => (looks === 0 ? null : sum / looks);
  return {
    time,
    ...record.counts,
    running: mean(record.running),
    waiting: mean(record.waiting),
    delayed: mean(record.delayed),
    blocked: mean(record.blocked),
    oldestMs,
    duration: spreadOf(durations),
    wait: spreadOf(waits),
    changes,
  };
}

// ---- reading

/** What to read for a query: records of this step, put together `times` at a time. */
export interface HistoryPlan {
  from: number;
  to: number;
  recordMs: number;
  times: number;
}

/**
 * The coarsest records that give at least half the points asked for; where those are not kept so long, the finest that are.
 * What is read grows with the points, not with the span.
 */
export function planHistory(from: number, to: number, points: number, now: number): HistoryPlan {
  const kept = historySteps.filter(({ keptMs }) => from >= now - keptMs);
  const usable = kept.length > 0 ? kept : historySteps.slice(-1);
  const span = Math.max(to - from, 1);
  const enough = usable.filter(({ stepMs }) => span / stepMs >= points / 2);
  const { stepMs } = enough.at(-1) ?? usable[0] ?? historySteps[0];
  const times = Math.max(1, Math.ceil(span / stepMs / points));
  const step = stepMs * times;
  return {
    from: Math.floor(from / step) * step,
    to: Math.max(Math.ceil(to / step) * step, Math.floor(from / step) * step + step),
    recordMs: stepMs,
    times,
  };
}

/** Puts the records of one series together, whoever wrote them, in steps of `stepMs`. */
export function gatherPoints(
  rows: readonly { time: number; data: string }[],
  stepMs: number,
): HistoryPoint[] {
  const records = new Map<number, HistoryRecord>();
  for (const { time, data } of rows) {
    const step = Math.floor(time / stepMs) * stepMs;
    const record = records.get(step);
    if (record === undefined) records.set(step, readRecord(data));
    else addRecord(record, readRecord(data));
  }
  return [...records].sort(([a], [b]) => a - b).map(([time, record]) => pointOf(time, record));
}

/** A change of a work spec's metadata in a few words. */
export function describeChange(change: WorkSpecMetaChange): string {
  const { paused, ...rest } = change;
  const words = Object.entries(rest).map(
    ([field, value]) => `${field} ${typeof value === "object" ? JSON.stringify(value) : String(value)}`,
  );
  if (paused !== undefined) words.unshift(paused ? "paused" : "resumed");
  return words.join(", ").slice(0, 200);
}
