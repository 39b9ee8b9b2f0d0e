/**
 * What happened over time. The daemon's records go as far back as they are kept; the samples of this tab since the newest record
 * keep the end of the line live. Without records of the daemon, only the samples are shown.
 */
import { keepPreviousData, useQuery, type UseQueryResult } from "@tanstack/react-query";
import { useMemo } from "react";
import type { History, HistoryPoint } from "../../core/index.ts";
import type { Window } from "../range.ts";
import { client } from "./connection.ts";
import { seenPoints, type Point } from "./counts.ts";
import { every } from "./live.ts";
import { daemonNow } from "./session.ts";

const points = 300;

/** A change of a work spec. */
export interface Mark {
  readonly at: number;
  readonly workSpec: string;
  readonly what: string;
}

export interface TimeSeries {
  readonly points: readonly Point[];
  readonly marks: readonly Mark[];
  /** Points further apart than this have a gap between them: no daemon kept records in that time. */
  readonly gapMs: number;
  /** Whether the daemon has records for this time. */
  readonly recorded: boolean;
}

/** In a longer range than this, the samples of this tab become one point, as wide as a record. */
const fine = 900_000;

function meanOf(tail: readonly Point[]): readonly Point[] {
  const last = tail.at(-1);
  if (last === undefined) return [];
  const mean = (key: "added" | "finished" | "failed"): number =>
    tail.reduce((sum, point) => sum + point[key], 0) / tail.length;
  return [{ ...last, added: mean("added"), finished: mean("finished"), failed: mean("failed") }];
}

/** How far the daemon's clock is ahead of this browser's. */
const ahead = (): number => daemonNow() - Date.now();

function useHistory(ns: string, spec: string | null, { range, from, to }: Window): UseQueryResult<History> {
  return useQuery({
    queryKey: ["history", ns, spec, range ?? `${from}-${to}`],
    queryFn: () =>
      client.history(ns, {
        points,
        ...(spec !== null && { workSpecs: [spec] }),
        ...(range === null ? { from: from + ahead(), to: to + ahead() } : { lastMs: to - from }),
      }),
    refetchInterval: range === null ? false : every(to - from > 3_600_000 ? 60_000 : 30_000),
    placeholderData: keepPreviousData,
    retry: 1,
  });
}

/** The namespace (null) or a work spec over a window of time. */
export function useTimeSeries(ns: string, spec: string | null, window: Window): TimeSeries {
  const whole = useHistory(ns, null, window);
  const own = useHistory(ns, spec, window);
  const { from, to, range } = window;
  const recorded = useMemo(
    () => recordedPoints(own.data, spec === null ? undefined : whole.data),
    [own.data, whole.data, spec],
  );
  const { stepMs = 0 } = own.data ?? {};
  const end = own.data === undefined ? from : own.data.to - ahead();
  // the samples of this tab are finer than a minute and current
  const tail =
    range === null || stepMs > 60_000
      ? []
      : seenPoints(ns, spec, recorded.points.length === 0 ? from : Math.max(from, end - 1000)).filter(
          ({ at }) => recorded.points.length === 0 || at > end + 2000,
        );
  return {
    points: [
      ...recorded.points.filter(({ at }) => at >= from && at <= to),
      ...(to - from > fine ? meanOf(tail) : tail),
    ],
    marks: recorded.marks.filter(({ at }) => at >= from && at <= to),
    gapMs: Math.max(1.6 * stepMs, 15_000),
    recorded: recorded.points.length > 0,
  };
}

/** For a work spec, a step without a record is zero when the daemon kept records of the namespace in that step. */
function recordedPoints(
  answer: History | undefined,
  whole: History | undefined,
): { points: Point[]; marks: Mark[] } {
  const series = answer?.series[0];
  if (answer === undefined || series === undefined) return { points: [], marks: [] };
  const offset = ahead();
  const byTime = new Map(series.points.map((point) => [point.time, point]));
  if (whole?.stepMs === answer.stepMs)
    for (const { time } of whole.series[0]?.points ?? [])
      if (!byTime.has(time)) byTime.set(time, { ...nothing, time });
  const times = [...byTime.keys()].sort((a, b) => a - b);
  return {
    points: times.map((time) => pointOf(byTime.get(time) ?? { ...nothing, time }, answer, offset)),
    marks: series.points.flatMap(({ changes }) =>
      changes.map(({ time, workSpec, what }) => ({ at: time - offset, workSpec, what })),
    ),
  };
}

const nothing: HistoryPoint = {
  time: 0,
  added: 0,
  started: 0,
  finished: 0,
  failed: 0,
  retried: 0,
  late: 0,
  expired: 0,
  running: 0,
  waiting: 0,
  delayed: 0,
  blocked: 0,
  oldestMs: 0,
  duration: null,
  wait: null,
  changes: [],
};

/** The rates of a step, placed at its end; for the newest step, over the part that has passed. */
function pointOf(point: HistoryPoint, { stepMs, to }: History, offset: number): Point {
  const end = Math.min(point.time + stepMs, Math.max(to, point.time + 1000));
  const seconds = (end - point.time) / 1000;
  return {
    at: end - offset,
    added: point.added / seconds,
    finished: point.finished / seconds,
    failed: point.failed / seconds,
    waiting: (point.waiting ?? 0) + (point.delayed ?? 0) + (point.blocked ?? 0),
    pending: point.running ?? 0,
    duration: point.duration,
    wait: point.wait,
  };
}

export interface Sparks {
  readonly from: number;
  readonly to: number;
  readonly gapMs: number;
  /** Empty when the daemon keeps no records. */
  readonly bySpec: ReadonlyMap<string, readonly Point[]>;
  /** How many attempts began: in total (null), and by work spec. */
  readonly started: ReadonlyMap<string | null, number>;
}

const hour = 3_600_000;

/** Every work spec over the last hour, by minute. When there are too many for one response, only those in `only`. */
export function useSparks(ns: string, only?: readonly string[]): Sparks {
  const { data } = useQuery({
    queryKey: ["history", ns, "each", only],
    queryFn: async () => {
      const query = { lastMs: hour, points: 60 };
      if (only === undefined) return client.history(ns, { ...query, each: true });
      const [whole, own] = await Promise.all([
        client.history(ns, query),
        client.history(ns, { ...query, workSpecs: only }),
      ]);
      return { ...whole, series: [...whole.series, ...own.series] };
    },
    refetchInterval: every(30_000),
    placeholderData: keepPreviousData,
    retry: false,
  });
  return useMemo(() => {
    const to = Date.now();
    const bySpec = new Map<string, readonly Point[]>();
    const started = new Map<string | null, number>();
    const whole = data?.series[0];
    for (const series of data?.series ?? []) {
      started.set(
        series.workSpec,
        series.points.reduce((sum, point) => sum + point.started, 0),
      );
      if (series.workSpec === null || whole === undefined || whole.points.length === 0) continue;
      const own = { ...data!, series: [series] };
      bySpec.set(series.workSpec, recordedPoints(own, { ...data!, series: [whole] }).points);
    }
    return { from: to - hour, to, gapMs: 1.6 * (data?.stepMs ?? 60_000), bySpec, started };
  }, [data]);
}
