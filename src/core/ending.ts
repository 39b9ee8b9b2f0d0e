/**
 * Waiting for units to end. Whoever waits looks once, subscribes to the units that go on, looks once more at those (what
 * ended in between was not told), and then sleeps until the last of them was said to have ended: a wait for a thousand
 * units costs three looks, not a thousand.
 */
import type { Clock } from "./clock.ts";
import { isCoordinateError } from "./errors.ts";
import { watchesOf, type Store } from "./store.ts";
import { woken } from "./waiting.ts";
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

const isOpen = (row: WorkUnitRow | null | undefined): row is WorkUnitRow =>
  row !== null && row !== undefined && row.status !== "finished" && row.status !== "failed";

export class EndWaits {
  readonly #store: Store;
  readonly #clock: Clock;
  /** Where the store cannot tell, or what it told was lost, units are looked at this often. */
  readonly #pollMs: number;
  readonly #asleep = new Set<AbortController>();
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
    for (const wake of this.#asleep) wake.abort();
  }

  /** Stopping may happen during any await. */
  #isStopped(): boolean {
    return this.#stopped;
  }

  async wait({ ns, workSpec, names, any, deadline, signal }: EndWait): Promise<(WorkUnitRow | null)[]> {
    const rows = new Map<string, WorkUnitRow | null>();
    const keep = (asked: readonly string[], found: readonly (WorkUnitRow | null)[]): void =>
      asked.forEach((name, i) => rows.set(name, found[i] ?? null));
    const distinct = [...new Set(names)];
    const look = (asked: readonly string[]): Promise<(WorkUnitRow | null)[]> =>
      this.#look(ns, workSpec, asked);
    const open = (): WorkUnitRow[] => [...rows.values()].filter(isOpen);
    const lookAgain = async (): Promise<void> => {
      const asked = open().map(({ name }) => name);
      try {
        if (asked.length > 0) keep(asked, await look(asked));
      } catch (error) {
        // not there at first is the caller's mistake; later it was deleted, and its units are gone
        if (!isCoordinateError(error, "no_such_work_spec") && !isCoordinateError(error, "gone")) throw error;
        keep(asked, []);
      }
    };
    const over = (): boolean => this.#clock.now() >= deadline || signal?.aborted === true || this.#stopped;
    keep(distinct, await look(distinct));
    const enough = (left: number): boolean => left === 0 || (any && left < rows.size);
    while (!enough(open().length) && !over())
      await this.#sleep(
        ns,
        open().map(({ id }) => id),
        any,
        deadline,
        signal,
        async () => {
          await lookAgain();
          return over() ? [] : open().map(({ id }) => id);
        },
      );
    return names.map((name) => rows.get(name) ?? null);
  }

  /**
   * Looks of all who wait for units of one work spec go together: while one is under way those who come gather for the next.
   * A thousand who begin to wait at once, or are woken at once, are two calls of the store and not a thousand.
   */
  async #look(ns: string, workSpec: WorkSpecRef, names: readonly string[]): Promise<(WorkUnitRow | null)[]> {
    const key = JSON.stringify([ns, workSpec]);
    let look = this.#looks.get(key);
    if (look === undefined) this.#looks.set(key, (look = { next: null, running: Promise.resolve() }));
    const shared = look;
    if (shared.next === null) {
      const asked = new Set<string>();
      const found = shared.running.then(() => {
        shared.next = null;
        return this.#read(ns, workSpec, [...asked]);
      });
      shared.next = { asked, found };
      shared.running = found.then(nothing, nothing).then(() => {
        if (shared.next === null) this.#looks.delete(key);
      });
    }
    const { asked, found } = shared.next;
    for (const name of names) asked.add(name);
    const rows = await found;
    return names.map((name) => rows.get(name) ?? null);
  }

  async #read(
    ns: string,
    workSpec: WorkSpecRef,
    names: readonly string[],
  ): Promise<Map<string, WorkUnitRow | null>> {
    const rows = new Map<string, WorkUnitRow | null>();
    // also for no names at all: that there is no such work spec is told then, too
    for (let from = 0; from === 0 || from < names.length; from += maxAtOnce) {
      const some = names.slice(from, from + maxAtOnce);
      const found = await this.#store.getWorkUnits(ns, workSpec, some, this.#clock.now());
      some.forEach((name, i) => rows.set(name, found[i] ?? null));
    }
    return rows;
  }

  /** Until all of the units have ended, or any of them; the time has passed; or the wait is ended. `look` answers which go on. */
  async #sleep(
    ns: string,
    units: readonly number[],
    any: boolean,
    deadline: number,
    signal: AbortSignal | undefined,
    look: () => Promise<number[]>,
  ): Promise<void> {
    const wake = new AbortController();
    const giveUp = (): void => wake.abort(woken);
    const left = new Set(units);
    const stop = watchesOf(this.#store).watchEnds(ns, units, (unit) => {
      left.delete(unit);
      if (any || left.size === 0) wake.abort(woken);
    });
    signal?.addEventListener("abort", giveUp);
    try {
      const open = new Set(await look());
      // of those that ended before anybody listened nothing will be told
      for (const unit of left) if (!open.has(unit)) left.delete(unit);
      if (left.size === 0 || left.size < open.size || (any && left.size < units.length)) return;
      this.#asleep.add(wake);
      if (this.#stopped) return;
      await this.#clock.waitUntil(Math.min(deadline, this.#clock.now() + this.#pollMs), wake.signal);
      if (!this.#isStopped()) await look();
    } finally {
      this.#asleep.delete(wake);
      stop();
      signal?.removeEventListener("abort", giveUp);
    }
  }
}

interface Look {
  running: Promise<void>;
  next: { asked: Set<string>; found: Promise<Map<string, WorkUnitRow | null>> } | null;
}

const nothing = (): void => undefined;
