/**
 * Waiting for units to end. Whoever waits looks at the units, and in the same step begins to watch those that go on; then it sleeps until
 * the last of them was said to have ended, and looks once more: a wait for a thousand units costs two looks, not a thousand. Where a
 * store cannot begin to watch in the step in which it reads, what goes on is looked at again once it is watched.
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
  /** The first end is enough. */
  any: boolean;
  deadline: number;
  /** Ends the wait; they are looked at once more. */
  signal: AbortSignal | undefined;
}

/** Looked at in one call of the store. */
const maxAtOnce = 5000;

type Rows = Map<string, WorkUnitRow | null>;

const isOpen = (row: WorkUnitRow | null | undefined): row is WorkUnitRow =>
  row !== null && row !== undefined && row.status !== "finished" && row.status !== "failed";

const namesOf = (rows: readonly WorkUnitRow[]): string[] => rows.map(({ name }) => name);

export class EndWaits {
  readonly #store: Store;
  readonly #clock: Clock;
  /** Where the store cannot tell, or what it told was lost, units are looked at this often. */
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

  /** Nobody waits any longer: each is answered with what was seen last. */
  stop(): void {
    this.#stopped = true;
    for (const watch of this.#asleep) watch.wake();
  }

  async wait({ ns, workSpec, names, any, deadline, signal }: EndWait): Promise<(WorkUnitRow | null)[]> {
    const rows: Rows = new Map();
    /** Those that go on. */
    let open: WorkUnitRow[] = [];
    const look = async (asked: readonly string[], watch: Watch | null): Promise<void> => {
      try {
        const found = await this.#look(ns, workSpec, asked, watch);
        for (const name of asked) rows.set(name, found.get(name) ?? null);
      } catch (error) {
        // not there at first is the caller's mistake; later it was deleted, and its units are gone
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
   * Looks of all who wait for units of one work spec go together: while one is under way those who come gather for the next.
   * A thousand who begin to wait at once, or are woken at once, are two calls of the store and not a thousand.
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
    // what is read in several steps is not watched by any of them
    const seen =
      names.length > maxAtOnce
        ? undefined
        : (found: readonly (WorkUnitRow | null)[]): void => {
            keep(names, found);
            for (const one of asked) one.watch?.begin(one.names.map((name) => rows.get(name)).filter(isOpen));
          };
    // also for no names at all: that there is no such work spec is told then, too
    for (let from = 0; from === 0 || from < names.length; from += maxAtOnce) {
      const some = names.slice(from, from + maxAtOnce);
      keep(some, await this.#store.getWorkUnits(ns, workSpec, some, this.#clock.now(), seen));
    }
    return rows;
  }

  /** Until what is watched has ended, the time has passed, or the wait is ended. */
  async #sleep(watch: Watch, deadline: number, signal: AbortSignal | undefined): Promise<void> {
    const wake = (): void => watch.wake();
    signal?.addEventListener("abort", wake);
    this.#asleep.add(watch);
    await watch.sleep(Math.min(deadline, this.#clock.now() + this.#pollMs));
    this.#asleep.delete(watch);
    signal?.removeEventListener("abort", wake);
  }
}

/** Some units, from a look at them until the next one. It is woken when they have ended. */
class Watch extends Sleeper {
  readonly #watches: Watchable;
  readonly #ns: string;
  readonly #any: boolean;
  /** Of those that are watched, which were not said to have ended. */
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

  /** Again when a store reads again: what was read before does not count. */
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
   * Waits for these alone: of others, which ended before they were watched, nothing will be told. False when one of these was said to have
   * ended: it was added again, and must be watched anew.
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
