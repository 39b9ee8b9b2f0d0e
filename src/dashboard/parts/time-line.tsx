/** The namespace or a work spec over time: lanes over one axis, with the range and the changes. */
import type { ReactNode } from "react";
import type { Spread } from "../../core/index.ts";
import type { Point } from "../data/counts.ts";
import { useTimeSeries } from "../data/history.ts";
import { dayTime } from "../format.ts";
import { useHere } from "../here.ts";
import { go } from "../route.ts";
import { between, inRange, ranges, useWindow, type Range } from "../range.ts";
import { Lanes, type Lane, type LaneLine } from "./plot.tsx";
import { Link } from "./text.tsx";

const flow: readonly Lane[] = [
  {
    key: "rates",
    height: 64,
    lines: [
      {
        label: "Finished",
        tone: "finished",
        shape: "area",
        value: ({ finished }) => finished,
        perSecond: true,
      },
      { label: "Added", tone: "in", shape: "dashed", value: ({ added }) => added, perSecond: true },
    ],
  },
  {
    key: "failed",
    height: 32,
    lines: [
      { label: "Failed", tone: "failed", shape: "bars", value: ({ failed }) => failed, perSecond: true },
    ],
  },
  {
    key: "running",
    height: 40,
    lines: [{ label: "Running", tone: "pending", shape: "area", value: ({ pending }) => pending }],
  },
  {
    key: "waiting",
    height: 40,
    lines: [{ label: "Waiting", tone: "available", shape: "area", value: ({ waiting }) => waiting }],
  },
];

const spread = (
  of: (point: Point) => Spread | null | undefined,
  word: string,
  tone: LaneLine["tone"],
): LaneLine[] => [
  { label: `${word} p99`, tone, shape: "dashed", value: (point) => of(point)?.p99 ?? null },
  { label: "p50", tone, shape: "line", value: (point) => of(point)?.p50 ?? null },
];

const times: readonly Lane[] = [
  {
    key: "duration",
    height: 56,
    times: true,
    lines: spread(({ duration }) => duration, "Run", "pending"),
  },
  { key: "wait", height: 56, times: true, lines: spread(({ wait }) => wait, "Wait", "available") },
];

export function TimeLine({ spec, title }: { spec: string | null; title: ReactNode }): ReactNode {
  const { ns, route } = useHere();
  const { range, from, to } = useWindow();
  const { points, marks, gapMs, recorded } = useTimeSeries(ns, spec, { range, from, to });
  return (
    <section className="card" aria-label="Over time">
      <div className="seg ranges" role="group" aria-label="Range">
        {range === null && (
          <Link to={inRange(route, (route.filters?.range ?? "15m") as Range)} current>
            {dayTime(from, Date.now())} – {dayTime(to, Date.now())} ×
          </Link>
        )}
        {(Object.keys(ranges) as Range[]).map((one) => (
          <Link key={one} to={inRange(route, one)} {...(one === range && { current: true })}>
            {one.replace(/([mhd])/, " $1")}
          </Link>
        ))}
      </div>
      <Lanes
        title={title}
        note={recorded ? "drag to zoom in" : "measured by this tab"}
        points={points}
        marks={marks}
        gapMs={gapMs}
        from={from}
        to={to}
        isNow={range !== null}
        lanes={spec === null ? flow : [...flow, ...times]}
        onZoom={(start, end) => go(between(route, start, end))}
      />
    </section>
  );
}
