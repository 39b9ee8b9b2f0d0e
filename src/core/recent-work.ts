/**
 * What was measured of each work spec lately: how many attempts began, and how much of their time workers spent on it. It is read from
 * the history, which all daemons write, with what this process has counted since on top; at most once in a few seconds, never for a claim.
 */
import { readRecord, type HistoryRecord } from "./history.ts";
import { keepsHistory, stepOf } from "./recording.ts";
import type { Store } from "./store.ts";

export interface RecentWork {
  /** Attempts that began, and the time of those that ended, in milliseconds. What is older counts less. */
  started: number;
  workedMs: number;
  /** How long an attempt takes on average; null as long as none has ended. */
  meanMs: number | null;
}

/** By the id of the work spec; those of which nothing is known are left out. */
export type RecentWorks = ReadonlyMap<number, RecentWork>;

const minute = 60_000;
/** Records of the last ten minutes are read. What happened a minute before something else counts half as much. */
const windowMs = 10 * minute;
const halfLifeMs = minute;
/**
 * More attempts of one minute than this do not count more for the average: of a work spec that has become slow, the many short ones before
 * would hide the few long ones since.
 */
const enoughAttempts = 20;
/** Where no attempt has ended for so long, the average is that of the last day, which is read once. */
const longStepMs = 15 * minute;
const longWindowMs = 24 * 60 * minute;
/** How long a reading is used: at least this, and longer with very many work specs. */
const usableMs = 2000;
const usableMsPerSpec = 10;
const maxNamespaces = 1000;

interface Sums {
  started: number;
  ended: number;
  workedMs: number;
}

/** By work spec, then by when a step begins. */
type Steps = Map<number, Map<number, Sums>>;

interface Reading {
  until: number;
  works: RecentWorks;
  /** The averages of the last day, of work specs none of whose attempts has ended for ten minutes; null where there is none. */
  longMeans: Map<number, number | null>;
}

export class RecentWorkReader {
  readonly #store: Store;
  readonly #readings = new Map<string, Reading>();
  /** Namespaces that are being read, and what that will give. */
  readonly #underWay = new Map<string, Promise<RecentWorks>>();

  constructor(store: Store) {
    this.#store = store;
  }

  /** Of these work specs. Unless it must be `fresh`, a caller is given the reading before while it is good, or while another reads. */
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
      for (const [time, spec, record] of this.#store.happened.untaken(from))
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

/** The minutes of a work spec, of which the newer count more. */
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
