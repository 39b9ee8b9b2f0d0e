/**
 * How the history is made. Rules and fast paths note what happens (`Notes`); a store hands the notes of a transaction to its
 * `Happened` once that has been committed, so that what was rolled back is never counted. Every ten seconds the engine puts the
 * counts into records and writes them.
 *
 * A record belongs to one writer, an engine from its start to its end, and is written whole each time: writing it twice is the
 * same as once, and no two engines ever change the same row.
 */
import type { BreakerEvent } from "./breaker.ts";
import {
  addRecord,
  bucketOf,
  emptyRecord,
  finestStepMs,
  happenings,
  historySteps,
  writeRecord,
  type Happening,
  type HistoryChange,
  type HistoryRecord,
} from "./history.ts";
import type { Store } from "./store.ts";

/** An ability of a store that keeps a history. */
export interface HistoryKeeper {
  /** What happened through this store since it was last taken. */
  readonly happened: Happened;
  /** A number that no other writer of this store has or had. */
  newWriter(): number;
  /** Writes records, each in place of what this writer wrote before; those of specs and namespaces that are gone are left out. */
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

/** Something happened to `count` units of a work spec; `ms` is how long it took, or had waited. Below 0 is not known. */
export interface Notes {
  note(spec: number, happening: Happening, at: number, ms: number, count: number): void;
  /** A breaker tripped, or no longer is. */
  breaker(event: BreakerEvent): void;
}

const kinds = Object.fromEntries(happenings.map((happening, i) => [happening, i])) as Record<
  Happening,
  number
>;

/** Notes that are kept room for at first, and from one transaction to the next at most. */
const firstNotes = 16;
const keptNotes = 10_000;
const noItems = new Float64Array(0);

/** What a transaction has noted so far; nothing of it counts before the commit. */
export class Noted implements Notes {
  /** Five numbers for each note: neighbours that differ in nothing are one. */
  #items = noItems;
  #used = 0;
  #breakers: BreakerEvent[] = [];
  readonly #happened: Happened;

  constructor(happened: Happened) {
    this.#happened = happened;
  }

  note(spec: number, happening: Happening, at: number, ms: number, count: number): void {
    if (!this.#happened.on && happening !== "late") return;
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

  /** It has happened. */
  committed(): void {
    if (this.#breakers.length > 0) {
      for (const event of this.#breakers) this.#happened.breaker(event);
      this.#breakers = [];
    }
    const items = this.#items;
    for (let i = 0, used = this.#used; i < used; i += 5)
      this.#happened.note(items[i]!, happenings[items[i + 1]!]!, items[i + 2]!, items[i + 3]!, items[i + 4]!);
    this.clear();
  }
}

/** Steps that are remembered where nobody takes them. */
const maxSteps = 60;

/** Counts by step and work spec. */
export class Happened implements Notes {
  /** Whether anybody records what happens. */
  on = false;
  /** Units that were late, whether that is recorded or not. */
  late = 0;
  /** Those who are told of breakers. */
  readonly breakers = new Set<(event: BreakerEvent) => void>();
  readonly #steps = new Map<number, Map<number, HistoryRecord>>();
  // the latest notes, which differ in nothing: units of one batch are counted together
  #spec = -1;
  #happening: Happening = "added";
  #at = -1;
  #ms = -1;
  #count = 0;
  // where they go: the notes of a unit mostly are of one step
  #record: HistoryRecord | null = null;
  #recordSpec = -1;
  #recordTime = -1;

  note(spec: number, happening: Happening, at: number, ms: number, count: number): void {
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

  /** What happened since `from` and has not been taken yet. */
  *untaken(from: number): Generator<[time: number, spec: number, record: HistoryRecord]> {
    this.#add();
    for (const [time, specs] of this.#steps)
      if (time >= from) for (const [spec, record] of specs) yield [time, spec, record];
  }

  /** Takes out what happened before a time. */
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

/** So long a step is kept open for what is told of it late: by verbs under way when it ended, or after a failed write. */
const openMs = 60_000;
/** Records of so many work specs are written at a time: those with the most units, and the most that happened. */
const maxSpecs = 1000;
/** Old records removed at a time, and how often. */
const maxDropped = 5000;
const dropEveryMs = 60_000;

/** When the step begins that a time lies in. */
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

/** Puts what happened into records, and writes them. One for each engine. */
export class Recorder {
  readonly #store: Store & HistoryKeeper;
  readonly #writer: number;
  readonly #open = new Map<string, OpenRecord>();
  #changes: { namespace: string; change: HistoryChange }[] = [];
  /** Steps before this one were recorded. */
  #recorded: number;
  /** What happened before this is counted as if it had happened then: older records are closed. */
  #floor = -Infinity;
  #dropped = -Infinity;
  #running: Promise<void> = Promise.resolve();

  constructor(store: Store & HistoryKeeper, now: number) {
    this.#store = store;
    this.#writer = store.newWriter();
    store.happened.on = true;
    this.#recorded = stepOf(now, finestStepMs);
  }

  /** To be shown as a mark; those that are too many to remember are forgotten. */
  changed(namespace: string, change: HistoryChange): void {
    if (change.what !== "" && this.#changes.length < maxSpecs) this.#changes.push({ namespace, change });
  }

  /** Records the steps that are over and were not recorded yet; with `all`, the one under way as well. */
  record(now: number, all = false): Promise<void> {
    const end = stepOf(now, finestStepMs);
    if (this.#recorded >= end && !all) return Promise.resolve();
    this.#recorded = end;
    const recorded = this.#running.then(async () => {
      await this.#gather(now, all ? Infinity : end);
      await this.#write(end);
      if (now >= this.#dropped + dropEveryMs) await this.#drop(now);
    });
    // one after the other, whatever became of the one before
    this.#running = recorded.catch(() => undefined);
    return recorded;
  }

  async #gather(now: number, before: number): Promise<void> {
    const tallies = await this.#store.tally(null, now);
    const ages = new Map<string, number>();
    for (const { namespace, workSpec, since } of await this.#store.waitingSince(null, now))
      ages.set(keyOf(namespace, workSpec), Math.max(0, now - since));
    const namespaces = new Map<number, string>();
    const ids = new Map<string, number>();
    const entries: Entry[] = [];
    // how it stands now is how the step ended that is over now
    const time = this.#recorded - (before === Infinity ? 0 : finestStepMs);
    const spaces = new Map<string, HistoryRecord>();
    for (const { id, namespace, workSpec, counts } of tallies) {
      namespaces.set(id, namespace);
      ids.set(keyOf(namespace, workSpec), id);
      const record: HistoryRecord = {
        ...emptyRecord(),
        looks: 1,
        running: counts.pending,
        waiting: counts.available,
        delayed: counts.delayed,
        blocked: counts.blocked,
        oldestMs: ages.get(keyOf(namespace, workSpec)) ?? 0,
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
    for (const [at, specs] of this.#store.happened.take(before))
      for (const [spec, record] of specs) entries.push({ spec, time: at, record });
    const changes = this.#changes;
    this.#changes = [];
    for (const { namespace, change } of changes) {
      const spec = ids.get(keyOf(namespace, change.workSpec));
      const record = { ...emptyRecord(), changes: [change] };
      if (spec !== undefined) entries.push({ spec, time: stepOf(change.time, finestStepMs), record });
    }
    const busiest = busiestOf(entries);
    for (const { spec, time: at, record } of entries) {
      // what happened to a spec that is gone is gone with it
      const namespace = namespaces.get(spec);
      if (namespace === undefined) continue;
      if (busiest === null || busiest.has(spec)) this.#add(namespace, spec, at, record);
      if (record.looks === 0) this.#add(namespace, 0, at, record);
    }
  }

  /** Adds to the record of a spec, or of a namespace, in each of the steps that a time lies in. */
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
    // while there is much to remove, some of it goes with every recording
    if (max < maxDropped) this.#dropped = now;
  }
}

const keyOf = (namespace: string, workSpec: string): string => `${namespace}\0${workSpec}`;

const openUnits = ({ running, waiting, delayed, blocked }: HistoryRecord): number =>
  running + waiting + delayed + blocked;

/** The work specs to write records of, where there are too many; null is all. */
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
