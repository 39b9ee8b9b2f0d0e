/**
 * Counts by status, and what follows from repeated counts: rates, a history of this tab, the time until nothing waits. For the
 * time before, the daemon has records: `history.ts`.
 */
import { useQuery, type QueryClient, type UseQueryResult } from "@tanstack/react-query";
import type { Spread, Tally, TallyRow } from "../../core/index.ts";
import { client } from "./connection.ts";
import { every } from "./live.ts";

/** One sample of a work spec's counts, as totals that only grow unless units are deleted by hand. */
interface Sample {
  readonly at: number;
  readonly added: number;
  readonly finished: number;
  readonly failed: number;
  readonly waiting: number;
  readonly pending: number;
}

export interface Point {
  readonly at: number;
  /** Per second since the previous point. */
  readonly added: number;
  readonly finished: number;
  readonly failed: number;
  readonly waiting: number;
  readonly pending: number;
  /** How long attempts took and units had waited, when the daemon has reported it. */
  readonly duration?: Spread | null;
  readonly wait?: Spread | null;
}

export interface Rates {
  readonly added: number;
  readonly finished: number;
  readonly failed: number;
  /** Finished and failed. */
  readonly out: number;
  /** The time span of the measurement; 0 before there is one. */
  readonly overMs: number;
}

const noRates: Rates = { added: 0, finished: 0, failed: 0, out: 0, overMs: 0 };

const open = (counts: Tally): number => counts.available + counts.delayed + counts.blocked + counts.pending;
const waiting = (counts: Tally): number => counts.available + counts.delayed + counts.blocked;

/** Two ring buffers: ten minutes at one sample a second, three hours at one every ten seconds. */
const rings = [
  { spacingMs: 900, max: 600 },
  { spacingMs: 10_000, max: 1080 },
] as const;

class Series {
  readonly #samples: [Sample[], Sample[]] = [[], []];

  add(sample: Sample): void {
    this.#samples.forEach((samples, i) => {
      const { spacingMs, max } = rings[i]!;
      const before = samples.at(-1);
      if (before !== undefined && sample.at - before.at < spacingMs) return;
      samples.push(sample);
      if (samples.length > max) samples.shift();
    });
  }

  since(from: number, now: number): readonly Sample[] {
    const fine = this.#samples[0];
    const samples = (fine[0]?.at ?? now) <= from + 1000 || now - from <= 600_000 ? fine : this.#samples[1];
    const first = samples.findIndex(({ at }) => at >= from);
    return first < 0 ? [] : samples.slice(Math.max(0, first - 1));
  }
}

const kept = new Map<string, Series>();
const keyOf = (ns: string, spec: string | null): string => JSON.stringify([ns, spec]);

function keep(ns: string, spec: string | null, sample: Sample): void {
  const key = keyOf(ns, spec);
  let series = kept.get(key);
  if (series === undefined) kept.set(key, (series = new Series()));
  series.add(sample);
}

function sampleOf(at: number, rows: readonly TallyRow[]): Sample {
  const sum = { at, added: 0, finished: 0, failed: 0, waiting: 0, pending: 0 };
  for (const { counts, removed } of rows) {
    sum.finished += counts.finished + removed.finished;
    sum.failed += counts.failed + removed.failed;
    sum.added += open(counts) + counts.finished + counts.failed + removed.finished + removed.failed;
    sum.waiting += waiting(counts);
    sum.pending += counts.pending;
  }
  return sum;
}

/** The samples of a work spec, or of the namespace (null), since a time, as points with the mean rate between two samples. */
export function seenPoints(ns: string, spec: string | null, from: number): Point[] {
  const samples = kept.get(keyOf(ns, spec))?.since(from, Date.now()) ?? [];
  return samples.slice(1).map((sample, i) => {
    const before = samples[i]!;
    const seconds = (sample.at - before.at) / 1000;
    // deleting and retrying decrease the totals: the rate must not be negative
    const per = (key: "added" | "finished" | "failed"): number =>
      Math.max(0, (sample[key] - before[key]) / seconds);
    return {
      at: sample.at,
      added: per("added"),
      finished: per("finished"),
      failed: per("failed"),
      waiting: sample.waiting,
      pending: sample.pending,
    };
  });
}

/** The rates over the samples of the last half minute. */
export function rates(ns: string, spec: string | null): Rates {
  const now = Date.now();
  const samples = kept.get(keyOf(ns, spec))?.since(now - 30_000, now) ?? [];
  const first = samples[0];
  const last = samples.at(-1);
  if (first === undefined || last === undefined || last.at - first.at < 1500) return noRates;
  const seconds = (last.at - first.at) / 1000;
  const per = (key: "added" | "finished" | "failed"): number =>
    Math.max(0, (last[key] - first[key]) / seconds);
  return {
    added: per("added"),
    finished: per("finished"),
    failed: per("failed"),
    out: per("finished") + per("failed"),
    overMs: last.at - first.at,
  };
}

export interface Drain {
  readonly text: "never" | "grows" | "empty" | "time" | "unknown" | "paused";
  /** Milliseconds of `time`, units a second of `grows`. */
  readonly value: number;
}

/** How long until nothing waits, at the rates of the last half minute. */
export function drain(counts: Tally, { added, out, overMs }: Rates, paused: boolean): Drain {
  const left = counts.available + counts.pending;
  if (left === 0) return { text: "empty", value: 0 };
  if (paused) return { text: "paused", value: 0 };
  if (overMs < 5000) return { text: "unknown", value: 0 };
  // a unit may run for longer than the rates are measured
  if (out < 0.01) return { text: counts.pending > 0 ? "unknown" : "never", value: 0 };
  if (added > out * 1.05 && added - out > 0.5) return { text: "grows", value: added - out };
  return { text: "time", value: (left / Math.max(0.01, out - added)) * 1000 };
}

export function useCounts(ns: string): UseQueryResult<TallyRow[]> {
  return useQuery({
    queryKey: ["counts", ns],
    queryFn: async () => {
      const rows = await client.tally(ns);
      remember(ns, rows);
      return rows;
    },
    // measured from the last response or the last counts from the stream
    refetchInterval: every(2500),
  });
}

/** Takes counts that the stream pushed. */
export const takeCounts =
  (cache: QueryClient) =>
  (ns: string, rows: readonly TallyRow[]): void => {
    // a pending response is older
    void cache.cancelQueries({ queryKey: ["counts", ns] });
    remember(ns, rows);
    cache.setQueryData(["counts", ns], rows);
  };

function remember(ns: string, rows: readonly TallyRow[]): void {
  const at = Date.now();
  keep(ns, null, sampleOf(at, rows));
  for (const row of rows) keep(ns, row.workSpec, sampleOf(at, [row]));
}

/** Since when the oldest available unit waits, by work spec. */
export function useWaiting(ns: string): UseQueryResult<Map<string, { since: number; exact: boolean }>> {
  return useQuery({
    queryKey: ["waiting", ns],
    queryFn: async () =>
      new Map(
        (await client.waitingSince(ns)).map(({ workSpec, since, exact }) => [workSpec, { since, exact }]),
      ),
    refetchInterval: every(30_000),
  });
}
