/**
 * Waits for units to end. A wait reads the units and, in the same step, begins to watch those that have not ended. It sleeps until the
 * store has reported the end of the last one, then reads once more: a wait for a thousand units costs two reads, not a thousand. If a
 * store cannot begin to watch in the step in which it reads, the open units are read again once they are watched.
 */
import type { Clock } from "./clock.ts";
import { isCoordinateError } from "./errors.ts";
import { Sleeper } from "./sleeper.ts";
import { watchesOf, type Store, type Watchable } from "./store.ts";
import type { WorkSpecRef } from "./work-spec.ts";
import type { WorkUnitRow } from "./work-unit.ts";

export interface EndWait {
  ns: string;
  workSpec: WorkSpecRef;
  names: readonly string[];
  /** One ended unit is enough. */
  any: boolean;
  deadline: number;
  /** Ends the wait, after one more read. */
  signal: AbortSignal | undefined;
}

/** Most units read in one call of the store. */
const maxAtOnce = 5000;

type Rows = Map<string, WorkUnitRow | null>;

const isOpen = (row: WorkUnitRow | null | undefined): row is WorkUnitRow =>
  row !== null && row !== undefined && row.status !== "finished" && row.status !== "failed";

const namesOf = (rows: readonly WorkUnitRow[]): string[] => rows.map(({ name }) => name);

export class EndWaits {
  readonly #store: Store;
  readonly #clock: Clock;
  /** How often units are read without a notification: the store may send none, or one may get lost. */
  readonly #pollMs: number;
  readonly #asleep = new Set<Watch>();
  /** By namespace and work spec. */
  readonly #looks = new Map<string, Look>();
  #stopped = false;

  constructor(store: Store, clock: Clock, pollMs: number) {
    this.#store = store;
    this.#clock = clock;
    this.#pollMs = pollMs;
  }

  get size(): number {
    return this.#asleep.size;
  }

  /** Ends all waits: each caller gets the rows that were read last. */
  stop(): void {
    this.#stopped = true;
    for (const watch of this.#asleep) watch.wake();
  }

  async wait({ ns, workSpec, names, any, deadline, signal }: EndWait): Promise<(WorkUnitRow | null)[]> {
    const rows: Rows = new Map();
    /** Units that have not ended. */
    let open: WorkUnitRow[] = [];
    const look = async (asked: readonly string[], watch: Watch | null): Promise<void> => {
      try {
        const found = await this.#look(ns, workSpec, asked, watch);
        for (const name of asked) rows.set(name, found.get(name) ?? null);
      } catch (error) {
        // the store was closed during a later read
        if (this.#stopped && rows.size > 0) return;
        // missing at the first read is the caller's mistake; later, the work spec was deleted with its units
        if (rows.size === 0 || !isCoordinateError(error, "no_such_work_spec", "gone")) throw error;
        for (const name of asked) rows.set(name, null);
      }
      open = asked.map((name) => rows.get(name)).filter(isOpen);
    };
    const isOver = (): boolean =>
      this.#stopped ||
      open.length === 0 ||
      (any && open.length < rows.size) ||
      this.#clock.now() >= deadline ||
      signal?.aborted === true;
    let asked: readonly string[] = [...new Set(names)];
    do {
      const watch = new Watch(watchesOf(this.#store), ns, any, this.#clock);
      try {
        await look(asked, watch);
        if (isOver()) break;
        if (!watch.isOn) {
          watch.begin(open);
          await look(namesOf(open), null);
          if (isOver()) break;
        }
        asked = namesOf(open);
        if (watch.narrow(open)) await this.#sleep(watch, deadline, signal);
      } finally {
        watch.end();
      }
    } while (!this.#stopped);
    return names.map((name) => rows.get(name) ?? null);
  }

  /**
   * Merges the reads of all waits for units of one work spec: requests that arrive during a read share the next one. A
   * thousand waits that begin or wake up at the same time cost two calls of the store, not a thousand.
   */
  async #look(
    ns: string,
    workSpec: WorkSpecRef,
    names: readonly string[],
    watch: Watch | null,
  ): Promise<Rows> {
    const key = JSON.stringify([ns, workSpec]);
    let look = this.#looks.get(key);
    if (look === undefined) this.#looks.set(key, (look = { next: null, running: Promise.resolve() }));
    const shared = look;
    if (shared.next === null) {
      const asked: Asked[] = [];
      const found = shared.running.then(() => {
        shared.next = null;
        return this.#read(ns, workSpec, asked);
      });
      shared.next = { asked, found };
      shared.running = found.then(nothing, nothing).then(() => {
        if (shared.next === null) this.#looks.delete(key);
      });
    }
    const { asked, found } = shared.next;
    asked.push({ names, watch });
    return found;
  }

  async #read(ns: string, workSpec: WorkSpecRef, asked: readonly Asked[]): Promise<Rows> {
    const names = [...new Set(asked.flatMap((one) => one.names))];
    const rows: Rows = new Map();
    const keep = (some: readonly string[], found: readonly (WorkUnitRow | null)[]): void =>
      some.forEach((name, i) => rows.set(name, found[i] ?? null));
    // units that are read in several calls are not watched in the step that reads them
    const seen =
      names.length > maxAtOnce
        ? undefined
        : (found: readonly (WorkUnitRow | null)[]): void => {
            keep(names, found);
            for (const one of asked) one.watch?.begin(one.names.map((name) => rows.get(name)).filter(isOpen));
          };
    // make one call even without names, so that a missing work spec is reported
    for (let from = 0; from === 0 || from < names.length; from += maxAtOnce) {
      const some = names.slice(from, from + maxAtOnce);
      keep(some, await this.#store.getWorkUnits(ns, workSpec, some, this.#clock.now(), seen));
    }
    return rows;
  }

  /** Sleeps until the watched units have ended, the deadline or the next poll has come, or the signal aborts. */
  async #sleep(watch: Watch, deadline: number, signal: AbortSignal | undefined): Promise<void> {
    const wake = (): void => watch.wake();
    signal?.addEventListener("abort", wake);
    this.#asleep.add(watch);
    await watch.sleep(Math.min(deadline, this.#clock.now() + this.#pollMs));
    this.#asleep.delete(watch);
    signal?.removeEventListener("abort", wake);
  }
}

/** Watches units from one read to the next. It is woken when they have ended. */
class Watch extends Sleeper {
  readonly #watches: Watchable;
  readonly #ns: string;
  readonly #any: boolean;
  /** The ids of watched units whose end has not been reported. */
  #left = new Set<number>();
  #stop: (() => void) | null = null;

  constructor(watches: Watchable, ns: string, any: boolean, clock: Clock) {
    super(clock);
    this.#watches = watches;
    this.#ns = ns;
    this.#any = any;
  }

  get isOn(): boolean {
    return this.#stop !== null;
  }

  /** Called again when a store repeats its read: only the last read counts. */
  begin(units: readonly WorkUnitRow[]): void {
    this.end();
    const ids = units.map(({ id }) => id);
    this.#left = new Set(ids);
    this.#stop = this.#watches.watchEnds(this.#ns, ids, (unit) => {
      this.#left.delete(unit);
      if (this.#any || this.#left.size === 0) this.wake();
    });
  }

  /**
   * Waits for these units only: others ended before they were watched, and will not be reported. Returns false if the end of one of
   * these has been reported: it was added again since, and must be watched anew.
   */
  narrow(open: readonly WorkUnitRow[]): boolean {
    if (open.some(({ id }) => !this.#left.has(id))) return false;
    if (this.#left.size > open.length) this.#left = new Set(open.map(({ id }) => id));
    return true;
  }

  end(): void {
    this.#stop?.();
    this.#stop = null;
  }
}

interface Asked {
  readonly names: readonly string[];
  readonly watch: Watch | null;
}

interface Look {
  running: Promise<void>;
  next: { asked: Asked[]; found: Promise<Rows> } | null;
}

const nothing = (): void => undefined;
