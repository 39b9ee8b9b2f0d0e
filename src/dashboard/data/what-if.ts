/** The recorded load that "What if" replays, and the current slots. */
import { keepPreviousData, useQuery, type UseQueryResult } from "@tanstack/react-query";
import type { History, HistoryPoint, WorkerRow } from "../../core/index.ts";
import { ranges, type Range } from "../range.ts";
import { meanDuration, measuredWaits, type Load, type LoadSpec, type Waits } from "../what-if.ts";
import { client } from "./connection.ts";
import type { SpecRow } from "./look.ts";
import { reportOf } from "./workers.ts";

export function useRecord(ns: string, range: Range): UseQueryResult<History> {
  return useQuery({
    queryKey: ["what-if", ns, range],
    queryFn: () => client.history(ns, { each: true, lastMs: ranges[range], points: 360 }),
    placeholderData: keepPreviousData,
    staleTime: 60_000,
    retry: false,
  });
}

export interface Recorded {
  readonly load: Load;
  readonly measured: ReadonlyMap<string, Waits | null>;
  /** The maximum number of units that ran at once, by runtime. */
  readonly ran: Readonly<Record<string, number>>;
}

/** Leaves out work specs without activity or waiting units: they would be rows of zeros. */
export function readRecord({ from, to, stepMs, series }: History, specs: readonly SpecRow[]): Recorded {
  const steps = Math.max(1, Math.round((to - from) / stepMs));
  const points = new Map<string, readonly HistoryPoint[]>();
  for (const one of series) if (one.workSpec !== null) points.set(one.workSpec, one.points);
  const measured = new Map<string, Waits | null>();
  const running = new Map<string, number[]>();
  const load = specs.flatMap(({ name, meta, counts }): LoadSpec[] => {
    const own = points.get(name) ?? [];
    const arrivals = Array.from({ length: steps }, () => 0);
    const ran = running.get(meta.runtime) ?? Array.from({ length: steps }, () => 0);
    running.set(meta.runtime, ran);
    for (const point of own) {
      const step = Math.floor((point.time - from) / stepMs);
      if (step < 0 || step >= steps) continue;
      arrivals[step]! += point.added + point.retried + point.expired;
      ran[step]! += point.running ?? 0;
    }
    if (own.length === 0 && counts.available === 0) return [];
    measured.set(name, measuredWaits(own));
    return [
      {
        name,
        runtime: meta.runtime,
        priority: meta.priority,
        weight: meta.weight,
        maxRunning: meta.maxRunning,
        paused: meta.paused,
        durationMs: meanDuration(own),
        waiting: own[0]?.waiting ?? counts.available,
        arrivals,
      },
    ];
  });
  return {
    load: { stepMs, specs: load },
    measured,
    ran: Object.fromEntries([...running].map(([runtime, ran]) => [runtime, Math.ceil(Math.max(...ran))])),
  };
}

/** The slots that workers report for a runtime, but at least as many as ran at once. */
export function slotsNow(
  runtimes: readonly string[],
  workers: readonly WorkerRow[],
  ran: Readonly<Record<string, number>>,
): Record<string, number> {
  const told = workers.filter(({ desired }) => desired === "run").map(reportOf);
  return Object.fromEntries(
    runtimes.map((runtime) => {
      const slots = told
        .filter(({ asks = [] }) =>
          asks.some(({ runtimes: wanted = [], tasks }) =>
            wanted.length > 0
              ? wanted.includes(runtime)
              : tasks === undefined || runtime === "" || runtime === "node",
          ),
        )
        .reduce((sum, one) => sum + (one.slots ?? 0), 0);
      return [runtime, Math.max(slots, ran[runtime] ?? 0)];
    }),
  );
}
