/** Counts of work units, as people and scripts see them. */
import type { Tally, TallyRow } from "../core/index.ts";

/** Includes the ended units that retention deleted, so that totals stay correct. */
export function totals({ counts, removed }: TallyRow): Tally & { total: number } {
  const sums = {
    ...counts,
    finished: counts.finished + removed.finished,
    failed: counts.failed + removed.failed,
  };
  return { ...sums, total: Object.values(sums).reduce((sum, one) => sum + one, 0) };
}

/** The field names of the Python tool, which scripts parse. */
export function numbers(row: TallyRow): Record<string, number> {
  const { available, blocked, delayed, failed, finished, pending, total } = totals(row);
  return {
    num_available: available,
    num_blocked: blocked,
    num_delayed: delayed,
    num_failed: failed,
    num_finished: finished,
    num_pending: pending,
    num_tasks: total,
  };
}

/** How fast units end, from repeated counts: over the last half minute, or since the first count. */
export class Rates {
  readonly #seen = new Map<string, { at: number; done: number }[]>();

  /** Ended units per second; null until the oldest count is at least 200 ms old. */
  look(row: TallyRow, now: number): number | null {
    const key = JSON.stringify([row.namespace, row.workSpec]);
    const { finished, failed } = totals(row);
    const seen = (this.#seen.get(key) ?? []).filter(({ at }) => now - at <= 30_000);
    seen.push({ at: now, done: finished + failed });
    this.#seen.set(key, seen);
    const first = seen[0];
    if (first === undefined || now - first.at < 200) return null;
    // retried and deleted units leave the count: the rate must not be negative
    return Math.max(0, ((finished + failed - first.done) * 1000) / (now - first.at));
  }
}
