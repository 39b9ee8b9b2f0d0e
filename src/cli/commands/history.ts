/** `coordinate history`: what happened over time, in the namespace or to one work spec. */
import type { History, HistoryPoint, HistorySeries, Spread } from "../../core/index.ts";
import { command } from "../command.ts";
import type { Context } from "../context.ts";
import { every } from "../every.ts";
import { exit } from "../failure.ts";
import { requireWorkSpec } from "../naming.ts";
import { sparkline } from "../sparkline.ts";
import type { Cell, Column } from "../table.ts";
import { count, duration, rate, readCount, readDuration, time } from "../units.ts";

interface Options {
  since?: string;
  points?: string;
  watch?: string | true;
  times?: string;
}

/** The number of characters of a sparkline. */
const width = 30;

export default command<Options>({
  define: (it) => {
    it.argument("[work_spec]", "show one work spec in detail (default: all work specs)")
      .option("--since <time>", "how far back, such as 5m, 1h, 7d (default: 1h)")
      .option("--points <n>", `with --json: approximate number of points (default: ${width})`)
      .option(
        "--watch [seconds]",
        "repeat every so many seconds (default: 10); with --json print one line each time",
      )
      .option("--times <n>", "with --watch: stop after this many times")
      .addHelpText(
        "after",
        "\nThe daemon keeps steps of 10 seconds for 2 hours, of 1 minute for a day, of 15 minutes for a month.",
      );
  },
  run: async (context, { args: [workSpec], options }) => {
    const since = readDuration(options.since ?? "1h", "--since");
    const points = options.points === undefined ? width : readCount(options.points, "--points", 1);
    const look = async (): Promise<void> => {
      const { coordinate, ns } = await context.work();
      const range = { lastMs: since, points };
      if (workSpec !== undefined) await requireWorkSpec(context, workSpec);
      const answer = await coordinate.history(
        ns,
        workSpec === undefined ? { ...range, each: true } : { ...range, workSpecs: [workSpec] },
      );
      print(context, answer, workSpec);
    };
    if (options.watch === undefined && options.times === undefined) {
      await look();
      return exit.done;
    }
    const ms = readDuration(options.watch === true ? "10" : (options.watch ?? "10"), "--watch");
    const times = options.times === undefined ? Infinity : readCount(options.times, "--times", 1);
    await every(ms, times, context.signal, async (n) => {
      if (context.out.isTerminal && !context.out.json) context.out.stream.write("\x1b[H\x1b[J");
      else if (n > 0 && !context.out.json) context.out.line();
      await look();
    });
    return exit.done;
  },
});

function print({ out }: Context, answer: History, workSpec: string | undefined): void {
  if (out.json) {
    out.printJson(answer, 0);
    return;
  }
  const steps = stepsOf(answer);
  if (workSpec === undefined) out.table(heads, rowsOf(answer, steps));
  else {
    const [series] = answer.series;
    if (series !== undefined) out.table(detailHeads, detailRows(series, steps));
    for (const change of series?.points.flatMap((point) => point.changes) ?? [])
      out.remark(`${time(change.time, answer.to)}  ${change.what}`);
  }
  const every = duration(answer.stepMs);
  out.remark(`From ${time(answer.from, answer.to)} to ${time(answer.to, answer.to)} in steps of ${every}.`);
}

/** The start times of the steps. */
const stepsOf = ({ from, to, stepMs }: History): number[] =>
  Array.from({ length: Math.max(0, Math.ceil((to - from) / stepMs)) }, (_, i) => from + i * stepMs);

/** One value per step. A step without a point is 0 by default: nothing happened to the work spec in it. */
function valuesOf(
  steps: readonly number[],
  points: readonly HistoryPoint[],
  read: (point: HistoryPoint) => number | null,
  otherwise: number | null = 0,
): (number | null)[] {
  const byTime = new Map(points.map((point) => [point.time, point]));
  return steps.map((at) => {
    const point = byTime.get(at);
    return point === undefined ? otherwise : read(point);
  });
}

const sumOf = (points: readonly HistoryPoint[], read: (point: HistoryPoint) => number): number =>
  points.reduce((sum, point) => sum + read(point), 0);

const perSecond = ({ from, to }: History, sum: number): number =>
  to > from ? (sum * 1000) / (to - from) : 0;

/** The value of the last point that has one. */
const last = <Value>(
  points: readonly HistoryPoint[],
  read: (point: HistoryPoint) => Value | null,
): Value | null => points.map(read).findLast((value) => value !== null) ?? null;

const heads: Column[] = [
  { head: "Work spec", min: 12 },
  { head: "In/s", align: "right" },
  { head: "Out/s", align: "right" },
  { head: "Failed", align: "right" },
  { head: "Waiting", align: "right" },
  { head: "Running", align: "right" },
  { head: "Took p50", align: "right" },
  { head: "Waited p90", align: "right" },
  { head: "Out" },
];

const dim = (text: string, isDim: boolean): Cell => ({ text, style: isDim ? "dim" : undefined });
const number = (value: number): Cell => dim(count(Math.round(value)), value === 0);
const speed = (value: number): Cell => dim(rate(value).replace(/\/s$/, ""), value === 0);
const span = (spread: Spread | null, key: "p50" | "p90"): Cell =>
  spread === null ? dim("–", true) : { text: duration(spread[key]) };

function rowsOf(answer: History, steps: readonly number[]): (string | Cell)[][] {
  return answer.series.map(({ workSpec, points }) => {
    const failed = sumOf(points, (point) => point.failed);
    const out = (point: HistoryPoint): number => point.finished + point.failed;
    return [
      workSpec ?? { text: "all", style: "bold" as const },
      speed(
        perSecond(
          answer,
          sumOf(points, ({ added }) => added),
        ),
      ),
      speed(perSecond(answer, sumOf(points, out))),
      failed === 0 ? dim("0", true) : { text: count(failed), style: "red" as const },
      number(last(points, ({ waiting }) => waiting) ?? 0),
      number(last(points, ({ running }) => running) ?? 0),
      span(
        last(points, (point) => point.duration),
        "p50",
      ),
      span(
        last(points, (point) => point.wait),
        "p90",
      ),
      sparkline(valuesOf(steps, points, out)),
    ];
  });
}

const detailHeads: Column[] = [
  { head: "" },
  { head: "Last", align: "right" },
  { head: "Max", align: "right" },
  { head: "Total", align: "right" },
  { head: "Over time" },
];

function detailRows({ points }: HistorySeries, steps: readonly number[]): (string | Cell)[][] {
  const counts = (["added", "started", "finished", "failed", "retried", "expired", "late"] as const).map(
    (what) => {
      const values = valuesOf(steps, points, (point) => point[what]);
      const top = Math.max(0, ...values.map((value) => value ?? 0));
      return [
        what,
        number(values.at(-1) ?? 0),
        number(top),
        number(sumOf(points, (point) => point[what])),
        sparkline(values),
      ];
    },
  );
  const gauges = (["running", "waiting", "delayed", "blocked"] as const).map((what) => {
    const values = valuesOf(steps, points, (point) => point[what]);
    const top = Math.max(0, ...values.map((value) => value ?? 0));
    return [what, number(last(points, (point) => point[what]) ?? 0), number(top), "", sparkline(values)];
  });
  const spans = (
    [
      ["duration p50", (point: HistoryPoint) => point.duration?.p50 ?? null],
      ["duration p99", (point: HistoryPoint) => point.duration?.p99 ?? null],
      ["waited p50", (point: HistoryPoint) => point.wait?.p50 ?? null],
      ["waited p99", (point: HistoryPoint) => point.wait?.p99 ?? null],
      ["oldest waiting", (point: HistoryPoint) => point.oldestMs],
    ] as const
  ).map(([what, read]) => {
    const values = valuesOf(steps, points, read, null);
    const known = values.filter((value) => value !== null);
    const at = known.at(-1);
    return [
      what,
      at === undefined ? dim("–", true) : duration(at),
      known.length === 0 ? "" : duration(Math.max(...known)),
      "",
      sparkline(values),
    ];
  });
  return [...counts, ...gauges, ...spans];
}
