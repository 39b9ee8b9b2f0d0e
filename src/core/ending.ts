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
  /** Where the store cannot tell, or what it told was lost, they are looked at this often. */
  pollMs: number;
  /** Ends the wait; they are looked at once more. */
  signal: AbortSignal | undefined;
  /** The engine is being closed: the wait is answered with what was seen last. */
  closing: AbortSignal;
  look: (names: readonly string[]) => Promise<(WorkUnitRow | null)[]>;
}

const isOpen = (row: WorkUnitRow | null): row is WorkUnitRow =>
  row !== null && row.status !== "finished" && row.status !== "failed";

export async function awaitEnds(store: Store, clock: Clock, wait: EndWait): Promise<(WorkUnitRow | null)[]> {
  const { ns, names, deadline, pollMs, signal, closing } = wait;
  const rows = new Map<string, WorkUnitRow | null>();
  const keep = (asked: readonly string[], found: readonly (WorkUnitRow | null)[]): void =>
    asked.forEach((name, i) => rows.set(name, found[i] ?? null));
  const distinct = [...new Set(names)];
  // a work spec that is not there is the caller's mistake at first; later it was deleted, and its units are gone
  keep(distinct, await wait.look(distinct));
  const openNames = (): string[] => distinct.filter((name) => isOpen(rows.get(name) ?? null));
  const lookAgain = async (): Promise<void> => {
    const open = openNames();
    try {
      keep(open, await wait.look(open));
    } catch (error) {
      if (!isCoordinateError(error, "no_such_work_spec") && !isCoordinateError(error, "gone")) throw error;
      keep(open, []);
    }
  };
  const over = (): boolean => clock.now() >= deadline || signal?.aborted === true || closing.aborted;
  while (openNames().length > 0 && !over()) {
    const wake = new AbortController();
    const giveUp = (): void => wake.abort();
    const left = new Set([...rows.values()].filter(isOpen).map(({ id }) => id));
    const stop = isAnnouncing(store)
      ? store.watchEnds(ns, [...left], (unit) => {
          left.delete(unit);
          if (left.size === 0) wake.abort();
        })
      : nothing;
    signal?.addEventListener("abort", giveUp);
    closing.addEventListener("abort", giveUp);
    try {
      await lookAgain();
      // those that ended unheard need not be told of any more
      const open = new Set(openNames().map((name) => rows.get(name)?.id));
      for (const unit of left) if (!open.has(unit)) left.delete(unit);
      if (open.size > 0 && left.size === 0) continue;
      if (left.size > 0 && !over()) {
        await clock.waitUntil(Math.min(deadline, clock.now() + pollMs), wake.signal);
        if (!closing.aborted) await lookAgain();
      }
    } finally {
      stop();
      signal?.removeEventListener("abort", giveUp);
      closing.removeEventListener("abort", giveUp);
    }
  }
  return names.map((name) => rows.get(name) ?? null);
}

const nothing = (): void => undefined;
