/**
 * The history: what happened to each work spec over time, in steps that grow coarser with age. Each engine records only what it did
 * itself; a query adds up the records of all engines. See `recording.ts` for how records are made.
 */
import type { WorkSpecMetaChange } from "./work-spec-fields.ts";

/** The events that are counted. Adding a unit again after it has ended counts as added. */
export const historyEvents = [
  "added",
  "started",
  "finished",
  "failed",
  "retried",
  "expired",
  "late",
] as const;
export type HistoryEvent = (typeof historyEvents)[number];

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
  /** Instead of `from`: the range begins this long before `to`. An hour when both are absent. */
  lastMs?: number;
  /** Now when absent. */
  to?: number;
  /** About the highest number of points: 360 when absent, never more than 3,000. The step length follows from it. */
  points?: number;
}

export interface History {
  /** The range in whole steps. Everything before `to` has been recorded, except by daemons that are behind. */
  from: number;
  to: number;
  stepMs: number;
  /** The namespace as a whole comes first, if it was asked for. Work specs follow in the order of the query, or by name with `each`. */
  series: HistorySeries[];
}

export interface HistorySeries {
  /** Null for the namespace as a whole. */
  workSpec: string | null;
  /**
   * Ordered by time. A point is missing where no daemon kept records; in the series of a work spec also where nothing happened and
   * no unit was open.
   */
  points: HistoryPoint[];
}

export interface HistoryPoint {
  /** When the step begins. */
  time: number;
  /** Units added in this step. */
  added: number;
  /** Attempts that began in this step, and attempts that ended in it, by outcome. */
  started: number;
  finished: number;
  failed: number;
  retried: number;
  expired: number;
  /** Units that passed their deadline and go first from then on, or that expired and failed. */
  late: number;
  /** Units by status, averaged over the samples of this step; null without a sample. */
  running: number | null;
  waiting: number | null;
  delayed: number | null;
  blocked: number | null;
  /** The longest time that an available unit had waited. */
  oldestMs: number;
  /** How long attempts that finished or failed took, in milliseconds; null when none did. */
  duration: Spread | null;
  /** How long units waited from becoming available until their attempts began. */
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

/** Changes kept for one step. */
const maxChanges = 20;

// ---- histograms: four buckets to each doubling, so that a percentile is off by less than a tenth

const bucketsPerDoubling = 4;
/** The last bucket begins at 2^31 ms, about 25 days. */
export const histogramSize = 31 * bucketsPerDoubling + 2;

const findBucket = (ms: number): number =>
  ms < 1 ? 0 : Math.min(histogramSize - 1, 1 + Math.floor(Math.log2(ms) * bucketsPerDoubling));

/** The buckets of 0 to 1,023 ms, which cover most durations: a lookup replaces a logarithm for each unit. */
const buckets = Uint8Array.from({ length: 1024 }, (_, ms) => findBucket(ms));

export const bucketOf = (ms: number): number => buckets[ms] ?? findBucket(ms);

/** The geometric middle of a bucket. */
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

/** What one writer recorded for a work spec, or for a namespace, in one step. */
export interface HistoryRecord {
  counts: Record<HistoryEvent, number>;
  durations: Histogram;
  waits: Histogram;
  /** Attempts that a worker ended, retried ones included, and their total duration. */
  ended: number;
  workedMs: number;
  /** How often the counts by status were sampled, and the sums of the samples. */
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

/** Adds one record to another: from another writer, from the next step, or from another work spec of the same namespace. */
export function addRecord(to: HistoryRecord, from: HistoryRecord): void {
  for (const happening of historyEvents) to.counts[happening] += from.counts[happening];
  addHistogram(to.durations, from.durations);
  addHistogram(to.waits, from.waits);
  for (const sum of sums) to[sum] += from[sum];
  to.oldestMs = Math.max(to.oldestMs, from.oldestMs);
  if (from.changes.length > 0)
    to.changes = [...to.changes, ...from.changes].sort((a, b) => a.time - b.time).slice(0, maxChanges);
}

/** Leaves out zeros: most records of most work specs take a few dozen bytes. */
export function writeRecord(record: HistoryRecord): string {
  const { counts, durations, waits, oldestMs, changes } = record;
  const written: Record<string, unknown> = {};
  for (const happening of historyEvents) if (counts[happening] > 0) written[happening] = counts[happening];
  for (const sum of sums) if (record[sum] > 0) written[sum] = record[sum];
  if (oldestMs > 0) written.oldestMs = oldestMs;
  if (durations.size > 0) written.durations = [...durations].flat();
  if (waits.size > 0) written.waits = [...waits].flat();
  if (changes.length > 0) written.changes = changes;
  return JSON.stringify(written);
}

interface Written extends Partial<Record<HistoryEvent | (typeof sums)[number] | "oldestMs", number>> {
  durations?: number[];
  waits?: number[];
  changes?: HistoryChange[];
}

export function readRecord(text: string): HistoryRecord {
  const written = JSON.parse(text) as Written;
  const record = emptyRecord();
  for (const happening of historyEvents) record.counts[happening] = written[happening] ?? 0;
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

/** What to read for a query: records of `recordMs`, `times` of them merged into one point. */
export interface HistoryPlan {
  from: number;
  to: number;
  recordMs: number;
  times: number;
}

/**
 * Picks the coarsest records that reach back to `from` and give at least half the points asked for, else the finest that reach back
 * to it. The cost of a read grows with the number of points, not with the length of the range.
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

/** Merges the records of one series, from all writers, into steps of `stepMs`. */
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
