/**
 * How the history is made. Rules and fast paths report events to a `HistorySink`. A store passes the notes of a transaction to its
 * `HistoryCounts` after the commit, so that rolled-back work is never counted. Every ten seconds the engine puts the counts into records
 * and writes them.
 *
 * A record belongs to one writer, an engine from its start to its end, and is always written whole: writing it twice has the same
 * effect as once, and no two engines ever change the same row.
 */
import type { BreakerEvent } from "./breaker.ts";
import {
  addRecord,
  bucketOf,
  emptyRecord,
  finestStepMs,
  historyEvents,
  historySteps,
  writeRecord,
  type HistoryEvent,
  type HistoryChange,
  type HistoryRecord,
} from "./history.ts";
import { pairKey } from "./names.ts";
import type { Store } from "./store.ts";

/** Implemented by stores that keep a history. */
export interface HistoryKeeper {
  /** The events counted by this store since they were last taken. */
  readonly historyCounts: HistoryCounts;
  /** A number that no other writer of this store has ever had. */
  newWriter(): number;
  /** Writes records, each replacing this writer's earlier version. Skips deleted work specs and namespaces. */
  putHistory(writer: number, rows: readonly HistoryRow[]): Promise<void>;
  /** The records of these specs from `from` to before `to`, in any order; 0 is the namespace as a whole. */
  readHistory(
    ns: string,
    specs: readonly number[],
    stepMs: number,
    from: number,
    to: number,
  ): Promise<StoredRecord[]>;
  /** Removes at most `limit` records of this step that begin before `before`; answers how many. */
  dropHistory(stepMs: number, before: number, limit: number): Promise<number>;
}

export interface HistoryRow {
  namespace: string;
  /** The id of a work spec; 0 is the namespace as a whole. */
  spec: number;
  stepMs: number;
  time: number;
  data: string;
}

export interface StoredRecord {
  spec: number;
  time: number;
  data: string;
}

export const keepsHistory = (store: Store): store is Store & HistoryKeeper => "readHistory" in store;

/** Receives events of `count` units. `ms` is how long the attempt took, or the unit had waited; below 0 is not known. */
export interface HistorySink {
  note(spec: number, happening: HistoryEvent, at: number, ms: number, count: number): void;
  /** A breaker tripped or closed. */
  breaker(event: BreakerEvent): void;
}

const kinds = Object.fromEntries(historyEvents.map((happening, i) => [happening, i])) as Record<
  HistoryEvent,
  number
>;

/** The initial capacity in notes, and the largest that is kept for the next transaction. */
const firstNotes = 16;
const keptNotes = 10_000;
const noItems = new Float64Array(0);

/** The notes of a transaction. They do not count before the commit. */
export class TransactionHistory implements HistorySink {
  /** Five numbers for each note. Consecutive notes that differ only in their count are merged. */
  #items = noItems;
  #used = 0;
  #breakers: BreakerEvent[] = [];
  readonly #counts: HistoryCounts;

  constructor(counts: HistoryCounts) {
    this.#counts = counts;
  }

  note(spec: number, happening: HistoryEvent, at: number, ms: number, count: number): void {
    if (!this.#counts.on && happening !== "late") return;
    let items = this.#items;
    const kind = kinds[happening];
    const used = this.#used;
    if (
      used > 0 &&
      items[used - 2] === ms &&
      items[used - 3] === at &&
      items[used - 4] === kind &&
      items[used - 5] === spec
    ) {
      items[used - 1]! += count;
      return;
    }
    if (used === items.length) {
      this.#items = new Float64Array(Math.max(5 * firstNotes, 2 * used));
      this.#items.set(items);
      items = this.#items;
    }
    items[used] = spec;
    items[used + 1] = kind;
    items[used + 2] = at;
    items[used + 3] = ms;
    items[used + 4] = count;
    this.#used = used + 5;
  }

  breaker(event: BreakerEvent): void {
    this.#breakers.push(event);
  }

  clear(): void {
    if (this.#breakers.length > 0) this.#breakers = [];
    this.#used = 0;
    if (this.#items.length > 5 * keptNotes) this.#items = noItems;
  }

  /** Passes the notes on, after the commit. */
  committed(): void {
    if (this.#breakers.length > 0) {
      for (const event of this.#breakers) this.#counts.breaker(event);
      this.#breakers = [];
    }
    const items = this.#items;
    for (let i = 0, used = this.#used; i < used; i += 5)
      this.#counts.note(
        items[i]!,
        historyEvents[items[i + 1]!]!,
        items[i + 2]!,
        items[i + 3]!,
        items[i + 4]!,
      );
    this.clear();
  }
}

/** The most steps that are kept while no recorder takes them. */
const maxSteps = 60;

/** Counts by step and work spec. */
export class HistoryCounts implements HistorySink {
  /** Whether a recorder takes the counts. */
  on = false;
  /** Late units, counted even without a recorder. */
  late = 0;
  /** Callbacks for breaker events. */
  readonly breakers = new Set<(event: BreakerEvent) => void>();
  readonly #steps = new Map<number, Map<number, HistoryRecord>>();
  // the current run of equal notes: units of one batch are counted together
  #spec = -1;
  #happening: HistoryEvent = "added";
  #at = -1;
  #ms = -1;
  #count = 0;
  // caches the record they are added to: consecutive notes are mostly of the same step
  #record: HistoryRecord | null = null;
  #recordSpec = -1;
  #recordTime = -1;

  note(spec: number, happening: HistoryEvent, at: number, ms: number, count: number): void {
    if (happening === "late") this.late += count;
    if (!this.on) return;
    if (ms !== this.#ms || at !== this.#at || happening !== this.#happening || spec !== this.#spec) {
      this.#add();
      this.#spec = spec;
      this.#happening = happening;
      this.#at = at;
      this.#ms = ms;
    }
    this.#count += count;
  }

  breaker(event: BreakerEvent): void {
    for (const tell of this.breakers) tell(event);
  }

  #add(): void {
    const count = this.#count;
    if (count === 0) return;
    this.#count = 0;
    const time = stepOf(this.#at, finestStepMs);
    let record = this.#record;
    if (record === null || time !== this.#recordTime || this.#spec !== this.#recordSpec) {
      record = this.#record = this.#find(this.#spec, time);
      this.#recordSpec = this.#spec;
      this.#recordTime = time;
    }
    const happening = this.#happening;
    record.counts[happening] += count;
    if (this.#ms < 0) return;
    if (happening === "started") add(record.waits, this.#ms, count);
    else if (happening !== "expired") {
      if (happening !== "retried") add(record.durations, this.#ms, count);
      record.ended += count;
      record.workedMs += this.#ms * count;
    }
  }

  #find(spec: number, time: number): HistoryRecord {
    let specs = this.#steps.get(time);
    if (specs === undefined) {
      this.#steps.set(time, (specs = new Map<number, HistoryRecord>()));
      if (this.#steps.size > maxSteps) this.#steps.delete(Math.min(...this.#steps.keys()));
    }
    let record = specs.get(spec);
    if (record === undefined) specs.set(spec, (record = emptyRecord()));
    return record;
  }

  /** The records from `from` on that have not been taken yet. */
  *untaken(from: number): Generator<[time: number, spec: number, record: HistoryRecord]> {
    this.#add();
    for (const [time, specs] of this.#steps)
      if (time >= from) for (const [spec, record] of specs) yield [time, spec, record];
  }

  /** Removes and returns the records of steps before a time. */
  take(before: number): Map<number, Map<number, HistoryRecord>> {
    this.#add();
    const taken = new Map<number, Map<number, HistoryRecord>>();
    for (const [time, specs] of this.#steps) if (time < before) taken.set(time, specs);
    for (const time of taken.keys()) this.#steps.delete(time);
    this.#record = null;
    return taken;
  }
}

function add(histogram: Map<number, number>, ms: number, count: number): void {
  const bucket = bucketOf(ms);
  histogram.set(bucket, (histogram.get(bucket) ?? 0) + count);
}

// ---- the engine's part

/** How long a step stays open for late notes: from verbs that were running when it ended, or after a failed write. */
const openMs = 60_000;
/** Records of at most this many work specs are written at a time: those with the most units and events. */
const maxSpecs = 1000;
/** Old records removed at a time, and how often. */
const maxDropped = 5000;
const dropEveryMs = 60_000;

/** The start of the step that contains a time. */
export const stepOf = (time: number, stepMs: number): number => time - (time % stepMs);

interface OpenRecord {
  row: Omit<HistoryRow, "data">;
  record: HistoryRecord;
  dirty: boolean;
}

/** Something to add to the record of a work spec. */
interface Entry {
  spec: number;
  time: number;
  record: HistoryRecord;
}

/** Puts the counted events into records, and writes them. Each engine has one. */
export class Recorder {
  readonly #store: Store & HistoryKeeper;
  readonly #writer: number;
  readonly #open = new Map<string, OpenRecord>();
  #changes: { namespace: string; change: HistoryChange }[] = [];
  /** Steps before this one were recorded. */
  #recorded: number;
  /** Events before this time are counted at this time: older records are closed. */
  #floor = -Infinity;
  #dropped = -Infinity;
  #running: Promise<void> = Promise.resolve();

  constructor(store: Store & HistoryKeeper, now: number) {
    this.#store = store;
    this.#writer = store.newWriter();
    store.historyCounts.on = true;
    this.#recorded = stepOf(now, finestStepMs);
  }

  /** Notes a change of a work spec, to be shown as a mark. Changes beyond the limit are dropped. */
  changed(namespace: string, change: HistoryChange): void {
    if (change.what !== "" && this.#changes.length < maxSpecs) this.#changes.push({ namespace, change });
  }

  /** Records the completed steps that were not recorded yet; with `all`, the current one as well. */
  record(now: number, all = false): Promise<void> {
    const end = stepOf(now, finestStepMs);
    if (this.#recorded >= end && !all) return Promise.resolve();
    this.#recorded = end;
    const recorded = this.#running.then(async () => {
      await this.#gather(now, all ? Infinity : end);
      await this.#write(end);
      if (now >= this.#dropped + dropEveryMs) await this.#drop(now);
    });
    // recordings run one after the other, even after one has failed
    this.#running = recorded.catch(() => undefined);
    return recorded;
  }

  async #gather(now: number, before: number): Promise<void> {
    const tallies = await this.#store.tally(null, now);
    const ages = new Map<string, number>();
    for (const { namespace, workSpec, since } of await this.#store.waitingSince(null, now))
      ages.set(pairKey(namespace, workSpec), Math.max(0, now - since));
    const namespaces = new Map<number, string>();
    const ids = new Map<string, number>();
    const entries: Entry[] = [];
    // the current counts are those at the end of the step that is over now
    const time = this.#recorded - (before === Infinity ? 0 : finestStepMs);
    const spaces = new Map<string, HistoryRecord>();
    for (const { id, namespace, workSpec, counts } of tallies) {
      namespaces.set(id, namespace);
      ids.set(pairKey(namespace, workSpec), id);
      const record: HistoryRecord = {
        ...emptyRecord(),
        looks: 1,
        running: counts.pending,
        waiting: counts.available,
        delayed: counts.delayed,
        blocked: counts.blocked,
        oldestMs: ages.get(pairKey(namespace, workSpec)) ?? 0,
      };
      if (openUnits(record) > 0) entries.push({ spec: id, time, record });
      const space = spaces.get(namespace);
      if (space === undefined) spaces.set(namespace, { ...record });
      else {
        addRecord(space, record);
        space.looks = 1;
      }
    }
    for (const [namespace, record] of spaces) this.#add(namespace, 0, time, record);
    for (const [at, specs] of this.#store.historyCounts.take(before))
      for (const [spec, record] of specs) entries.push({ spec, time: at, record });
    const changes = this.#changes;
    this.#changes = [];
    for (const { namespace, change } of changes) {
      const spec = ids.get(pairKey(namespace, change.workSpec));
      const record = { ...emptyRecord(), changes: [change] };
      if (spec !== undefined) entries.push({ spec, time: stepOf(change.time, finestStepMs), record });
    }
    const busiest = busiestOf(entries);
    for (const { spec, time: at, record } of entries) {
      // events of a deleted spec are dropped
      const namespace = namespaces.get(spec);
      if (namespace === undefined) continue;
      if (busiest === null || busiest.has(spec)) this.#add(namespace, spec, at, record);
      if (record.looks === 0) this.#add(namespace, 0, at, record);
    }
  }

  /** Adds to the record of a spec, or of a namespace, for each step length. */
  #add(namespace: string, spec: number, time: number, record: HistoryRecord): void {
    const at = Math.max(time, this.#floor);
    for (const { stepMs } of historySteps) {
      const step = stepOf(at, stepMs);
      const key = `${stepMs} ${step} ${spec} ${namespace}`;
      let open = this.#open.get(key);
      if (open === undefined) {
        open = { row: { namespace, spec, stepMs, time: step }, record: emptyRecord(), dirty: true };
        this.#open.set(key, open);
      }
      addRecord(open.record, record);
      open.dirty = true;
    }
  }

  async #write(end: number): Promise<void> {
    const dirty = [...this.#open.values()].filter((one) => one.dirty);
    if (dirty.length > 0)
      await this.#store.putHistory(
        this.#writer,
        dirty.map(({ row, record }) => ({ ...row, data: writeRecord(record) })),
      );
    for (const one of dirty) one.dirty = false;
    this.#floor = end - openMs;
    for (const [key, { row }] of this.#open) if (row.time + row.stepMs <= this.#floor) this.#open.delete(key);
  }

  async #drop(now: number): Promise<void> {
    let max = 0;
    for (const { stepMs, keptMs } of historySteps)
      max = Math.max(max, await this.#store.dropHistory(stepMs, now - keptMs - stepMs, maxDropped));
    // while there is more to remove, every recording removes some
    if (max < maxDropped) this.#dropped = now;
  }
}

const openUnits = ({ running, waiting, delayed, blocked }: HistoryRecord): number =>
  running + waiting + delayed + blocked;

/** The work specs to write records of, when there are too many; null is all. */
function busiestOf(entries: readonly Entry[]): Set<number> | null {
  const weights = new Map<number, number>();
  for (const { spec, record } of entries) {
    const { added, started, finished, failed } = record.counts;
    const weight = openUnits(record) + added + started + finished + failed + record.changes.length;
    weights.set(spec, (weights.get(spec) ?? 0) + weight);
  }
  if (weights.size <= maxSpecs) return null;
  const sorted = [...weights].sort(([, a], [, b]) => b - a).slice(0, maxSpecs);
  return new Set(sorted.map(([spec]) => spec));
}
