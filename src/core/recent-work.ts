/**
 * Recent measurements of each work spec: how many attempts began, and how much time workers spent on it. They come from the
 * history, which all daemons write, plus what this process has counted since; read at most once every few seconds, not for every
 * claim.
 */
import { readRecord, type HistoryRecord } from "./history.ts";
import { keepsHistory, stepOf } from "./recording.ts";
import type { Store } from "./store.ts";

export interface RecentWork {
  /** Attempts that began, and the total duration of those that ended, in milliseconds. Older ones count less. */
  started: number;
  workedMs: number;
  /** The average duration of an attempt; null as long as none has ended. */
  meanMs: number | null;
}

/** By the id of the work spec. Work specs that are newer than the cached reading are missing. */
export type RecentWorks = ReadonlyMap<number, RecentWork>;

const minute = 60_000;
/** Records of the last ten minutes are read. Their weight halves with every minute of age. */
const windowMs = 10 * minute;
const halfLifeMs = minute;
/**
 * A minute adds at most this many attempts to the average. Otherwise, in a work spec that has become slow, the many short attempts
 * before would hide the few long ones since.
 */
const enoughAttempts = 20;
/** If no attempt has ended in the window, the average is that of the last day, which is read once, in longer steps. */
const longStepMs = 15 * minute;
const longWindowMs = 24 * 60 * minute;
/** How long a reading is cached: at least this, and longer with very many work specs. */
const usableMs = 2000;
const usableMsPerSpec = 10;
const maxNamespaces = 1000;

interface Sums {
  started: number;
  ended: number;
  workedMs: number;
}

/** By work spec, then by the start of the step. */
type Steps = Map<number, Map<number, Sums>>;

interface Reading {
  until: number;
  works: RecentWorks;
  /** The average over the last day, for work specs without an attempt that ended in the last ten minutes; null without any. */
  longMeans: Map<number, number | null>;
}

export class RecentWorkReader {
  readonly #store: Store;
  readonly #readings = new Map<string, Reading>();
  /** Readings in progress, by namespace. */
  readonly #underWay = new Map<string, Promise<RecentWorks>>();

  constructor(store: Store) {
    this.#store = store;
  }

  /** Unless `fresh`, returns the cached reading while it is valid, or while another caller reads a new one. */
  async read(ns: string, specs: readonly { id: number }[], now: number, fresh = false): Promise<RecentWorks> {
    const last = this.#readings.get(ns);
    const underWay = this.#underWay.get(ns);
    if (!fresh && last !== undefined && (now < last.until || underWay !== undefined)) return last.works;
    if (underWay !== undefined) return underWay;
    const ids = specs.map(({ id }) => id);
    const reading = this.#look(ns, ids, now);
    this.#underWay.set(ns, reading);
    try {
      return await reading;
    } finally {
      this.#underWay.delete(ns);
    }
  }

  async #look(ns: string, specs: readonly number[], now: number): Promise<RecentWorks> {
    const from = stepOf(now - windowMs, minute);
    const recent = await this.#steps(ns, specs, minute, from, now);
    if (keepsHistory(this.#store))
      for (const [time, spec, record] of this.#store.historyCounts.untaken(from))
        addTo(recent, spec, stepOf(time, minute), record);
    const works = new Map<number, RecentWork>();
    for (const id of specs) works.set(id, weigh(recent.get(id), now));
    const longMeans = await this.#longMeans(ns, works, now);
    for (const [id, mean] of longMeans) works.set(id, { ...(works.get(id) ?? nothing), meanMs: mean });
    const until = now + Math.max(usableMs, usableMsPerSpec * specs.length);
    if (this.#readings.size >= maxNamespaces) this.#readings.clear();
    this.#readings.set(ns, { until, works, longMeans });
    return works;
  }

  async #longMeans(ns: string, works: RecentWorks, now: number): Promise<Reading["longMeans"]> {
    const known = this.#readings.get(ns)?.longMeans;
    const means: Reading["longMeans"] = new Map();
    const unknown: number[] = [];
    for (const [id, { meanMs }] of works) {
      if (meanMs !== null) continue;
      const mean = known?.get(id);
      if (mean === undefined) unknown.push(id);
      else means.set(id, mean);
    }
    if (unknown.length === 0) return means;
    const from = stepOf(now - longWindowMs, longStepMs);
    const steps = await this.#steps(ns, unknown, longStepMs, from, now);
    for (const id of unknown) {
      const all = [...(steps.get(id)?.values() ?? [])];
      const ended = all.reduce((sum, one) => sum + one.ended, 0);
      means.set(id, ended > 0 ? all.reduce((sum, one) => sum + one.workedMs, 0) / ended : null);
    }
    return means;
  }

  async #steps(
    ns: string,
    specs: readonly number[],
    stepMs: number,
    from: number,
    now: number,
  ): Promise<Steps> {
    const steps: Steps = new Map();
    if (!keepsHistory(this.#store) || specs.length === 0) return steps;
    // a daemon whose clock is ahead may have begun the next step
    for (const { spec, time, data } of await this.#store.readHistory(ns, specs, stepMs, from, now + stepMs))
      addTo(steps, spec, time, readRecord(data));
    return steps;
  }
}

const nothing: RecentWork = { started: 0, workedMs: 0, meanMs: null };

/** Adds up the minutes of a work spec; newer ones count more. */
function weigh(minutes: ReadonlyMap<number, Sums> | undefined, now: number): RecentWork {
  let [started, workedMs, attempts, attemptsMs] = [0, 0, 0, 0];
  for (const [time, one] of minutes ?? []) {
    const weight = 2 ** (-Math.max(0, now - time - minute) / halfLifeMs);
    started += weight * one.started;
    workedMs += weight * one.workedMs;
    if (one.ended === 0) continue;
    const counted = weight * Math.min(one.ended, enoughAttempts);
    attempts += counted;
    attemptsMs += (counted * one.workedMs) / one.ended;
  }
  return { started, workedMs, meanMs: attempts > 0 ? attemptsMs / attempts : null };
}

function addTo(steps: Steps, spec: number, time: number, record: HistoryRecord): void {
  let ofSpec = steps.get(spec);
  if (ofSpec === undefined) steps.set(spec, (ofSpec = new Map<number, Sums>()));
  const { started, ended, workedMs } = ofSpec.get(time) ?? { started: 0, ended: 0, workedMs: 0 };
  ofSpec.set(time, {
    started: started + record.counts.started,
    ended: ended + record.ended,
    workedMs: workedMs + record.workedMs,
  });
}
