/**
 * Waiting for units to end. Whoever waits looks once, subscribes to the units that go on, looks once more at those (what
 * ended in between was not told), and then sleeps until the last of them was said to have ended: a wait for a thousand
 * units costs three looks, not a thousand.
 */
import type { Clock } from "./clock.ts";
import { isCoordinateError } from "./errors.ts";
import { isAnnouncing, type Store } from "./store.ts";
import type { WorkUnitRow } from "./work-unit.ts";

export interface EndWait {
  ns: string;
  names: readonly string[];
  deadline: number;
  /** Ends the wait; they are looked at once more. */
  signal: AbortSignal | undefined;
  look: (names: readonly string[]) => Promise<(WorkUnitRow | null)[]>;
}

const isOpen = (row: WorkUnitRow | null | undefined): row is WorkUnitRow =>
  row !== null && row !== undefined && row.status !== "finished" && row.status !== "failed";

export class EndWaits {
  readonly #store: Store;
  readonly #clock: Clock;
  /** Where the store cannot tell, or what it told was lost, units are looked at this often. */
  readonly #pollMs: number;
  readonly #asleep = new Set<AbortController>();
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

  async wait({ ns, names, deadline, signal, look }: EndWait): Promise<(WorkUnitRow | null)[]> {
    const rows = new Map<string, WorkUnitRow | null>();
    const keep = (asked: readonly string[], found: readonly (WorkUnitRow | null)[]): void =>
      asked.forEach((name, i) => rows.set(name, found[i] ?? null));
    const distinct = [...new Set(names)];
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
    while (open().length > 0 && !over())
      await this.#sleep(
        ns,
        open().map(({ id }) => id),
        deadline,
        signal,
        async () => {
          await lookAgain();
          return over() ? [] : open().map(({ id }) => id);
        },
      );
    return names.map((name) => rows.get(name) ?? null);
  }

  /** Until all of the units have ended, the time has passed, or the wait is ended. `look` answers which go on. */
  async #sleep(
    ns: string,
    units: readonly number[],
    deadline: number,
    signal: AbortSignal | undefined,
    look: () => Promise<number[]>,
  ): Promise<void> {
    const wake = new AbortController();
    const giveUp = (): void => wake.abort();
    const left = new Set(units);
    const stop = isAnnouncing(this.#store)
      ? this.#store.watchEnds(ns, units, (unit) => {
          left.delete(unit);
          if (left.size === 0) wake.abort();
        })
      : () => undefined;
    signal?.addEventListener("abort", giveUp);
    try {
      const open = new Set(await look());
      // of those that ended before anybody listened nothing will be told
      for (const unit of left) if (!open.has(unit)) left.delete(unit);
      if (left.size === 0 || left.size < open.size) return;
      this.#asleep.add(wake);
      if (this.#stopped) return;
      await this.#clock.waitUntil(Math.min(deadline, this.#clock.now() + this.#pollMs), wake.signal);
      if (!this.#stopped) await look();
    } finally {
      this.#asleep.delete(wake);
      stop();
      signal?.removeEventListener("abort", giveUp);
    }
  }
}
