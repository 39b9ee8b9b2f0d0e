/** Results as Markdown and as plots. */
import { bars } from "./plot.ts";
import { latencies, ratios, type Row, type Skipped } from "./results.ts";
import type { Workload } from "./workloads/workload.ts";

export interface Report {
  environment: Record<string, string | number | null>;
  rows: readonly Row[];
  skipped: readonly Skipped[];
}

export function figure(value: number, unit: string): string {
  if (Number.isNaN(value)) return "-";
  if (unit === "ms" || Math.abs(value) < 10) return value.toFixed(2);
  return Math.round(value).toLocaleString("en");
}

const detailNames: Record<string, string> = {
  p50: "p50 ms",
  p95: "p95 ms",
  p99: "p99 ms",
  worker_cpu_us: "worker's CPU, µs",
  server_cpu_us: "server's CPU, µs",
  wal_bytes: "WAL, bytes",
};

/** The first `left` columns are texts, the others numbers. */
function table(head: readonly string[], rows: readonly (readonly string[])[], left = 2): string {
  const widths = head.map((cell, i) => Math.max(3, cell.length, ...rows.map((row) => row[i]?.length ?? 0)));
  const line = (cells: readonly string[]): string =>
    `| ${cells.map((cell, i) => (i < left ? cell.padEnd(widths[i] ?? 0) : cell.padStart(widths[i] ?? 0))).join(" | ")} |`;
  const rule = `| ${widths.map((width, i) => (i < left ? "-".repeat(width) : "-".repeat(width - 1) + ":")).join(" | ")} |`;
  return [line(head), rule, ...rows.map(line)].join("\n");
}

/** Wider lines cannot be read on the page. */
const widest = 160;

export function workloadMarkdown(
  workload: Workload,
  rows: readonly Row[],
  skipped: readonly Skipped[],
): string {
  const own = rows.filter((row) => row.workload === workload.name);
  const missing = skipped.filter((one) => one.workload === workload.name);
  if (own.length === 0 && missing.length === 0) return "";
  const details = [...new Set(own.flatMap((row) => Object.keys(row.detail)))].filter(
    (name) => name !== "p50",
  );
  const measured = [...new Set(own.map((row) => row.case))].flatMap((name) =>
    own.filter((row) => row.case === name),
  );
  const named = details.map((name) => detailNames[name] ?? name);
  const results = measured.map((row) => [
    `${row.label}: ${row.case}`,
    row.durability,
    `${figure(row.median, row.unit)} ${row.unit}`,
    `${figure(Math.min(...row.values), row.unit)}-${figure(Math.max(...row.values), row.unit)}`,
  ]);
  const cells = measured.map(({ detail }) =>
    details.map((one) => (one in detail ? figure(detail[one] ?? NaN, /^p\d/.test(one) ? "ms" : "") : "")),
  );
  const head = ["system", "survives a crash", "median", "of all runs"];
  const parts = [`### ${workload.title}`, workload.about];
  const whole = table(
    [...head, ...named],
    results.map((row, i) => [...row, ...(cells[i] ?? [])]),
  );
  if (measured.length > 0 && whole.indexOf("\n") <= widest) parts.push(whole);
  else if (measured.length > 0)
    parts.push(
      table(head, results),
      table(
        ["in detail", ...measured.map(({ label }) => label)],
        named.map((name, i) => [name, ...cells.map((row) => row[i] ?? "")]),
        1,
      ),
    );
  for (const { system, why } of missing) parts.push(`Not measured: ${system}. ${why}`);
  return parts.join("\n\n");
}

const goals: Record<string, string> = {
  memory: "memory / BullMQ with append-only file; 10",
  sqlite: "SQLite in the process / BullMQ with append-only file; 4",
  daemon: "daemon on SQLite / BullMQ with append-only file; 3",
  postgres_batched: "PostgreSQL / the better of graphile-worker and pg-boss, batched; 1.3",
  postgres_single: "PostgreSQL / graphile-worker, one at once; 1.2",
};

export function ratioMarkdown(rows: readonly Row[]): string {
  const body = Object.entries(ratios(rows)).map(([name, ratio]) => {
    const [what = name, goal = ""] = (goals[name] ?? name).split("; ");
    return [what, "", ratio === null ? "not measured" : ratio.toFixed(2), goal];
  });
  const against = (
    ours: string,
    peer: string,
    name: string,
    goals: readonly [string, string] | null,
  ): string[][] =>
    (["p50", "p99"] as const).flatMap((quantile, i) => {
      const of = latencies(rows, quantile, name);
      const [mine, theirs] = [of[ours], of[peer]];
      if (mine === undefined || theirs === undefined) return [];
      const what = `add to start, ${name}, ${quantile}: ${ours} / ${peer}`;
      return [
        [what, "less is better", (mine / theirs).toFixed(2), goals === null ? "" : `at most ${goals[i]}`],
      ];
    });
  return table(
    ["ratio", "", "measured", "goal"],
    [
      ...body,
      ...against("daemon_memory", "bullmq", "idle", ["0.9", "1"]),
      ...against("daemon", "bullmq_aof", "idle", ["1", "1"]),
      ...against("daemon", "bullmq_sync", "idle", ["1", "1"]),
      ...against("daemon_memory", "bullmq", "just started", null),
      ...against("daemon", "bullmq_aof", "just started", null),
    ],
  );
}

export function environmentMarkdown(environment: Report["environment"]): string {
  return Object.entries(environment)
    .filter(([, value]) => value !== null)
    .map(([name, value]) => `${name.replaceAll("_", " ")} ${value}`)
    .join(", ");
}

/** Plots by file name. */
export function plots(rows: readonly Row[]): Record<string, string> {
  const of = (workload: string, name: string, isOurs: (row: Row) => boolean) =>
    rows
      .filter((row) => row.workload === workload && row.case === name)
      .map((row) => ({
        label: row.label,
        value: row.median,
        low: Math.min(...row.values),
        high: Math.max(...row.values),
        isOurs: isOurs(row),
      }));
  const ours = (row: Row): boolean => row.label.startsWith("Coordinate");
  const throughput = of("process", "1 process, best settings", ours).sort((a, b) => b.value - a.value);
  const latency = of("latency", "idle", ours).sort((a, b) => a.value - b.value);
  const note =
    "One run on one machine, in turns. The bar is the median, the line the spread of all repetitions.";
  return {
    ...(throughput.length > 0 && {
      "performance-process.svg": bars(
        "Tasks that do nothing, units a second (more is better)",
        note,
        throughput,
        (value) => figure(value, ""),
      ),
    }),
    ...(latency.length > 0 && {
      "performance-latency.svg": bars(
        "From adding to the start of the task, ms, median (less is better)",
        note,
        latency,
        (value) => `${value.toFixed(2)} ms`,
      ),
    }),
  };
}
