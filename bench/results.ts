/** The results of a run: one row per system and case of a workload, with all repetitions. */
import { median } from "./machine.ts";

export interface Row {
  workload: string;
  /** The case of the workload, such as "1 process, best settings". */
  case: string;
  system: string;
  label: string;
  durability: string;
  /** "units/s", "ms", "bytes". */
  unit: string;
  /** One for each repetition. */
  values: number[];
  median: number;
  /** Other figures, also medians. */
  detail: Record<string, number>;
}

export interface Skipped {
  workload: string;
  system: string;
  why: string;
}

export class Results {
  readonly rows: Row[] = [];
  readonly skipped: Skipped[] = [];
  readonly #details = new Map<Row, Record<string, number[]>>();

  add(
    key: Pick<Row, "workload" | "case" | "system" | "label" | "durability" | "unit">,
    value: number,
    detail: Record<string, number> = {},
  ): void {
    const at = this.rows.find(
      (row) => row.workload === key.workload && row.case === key.case && row.system === key.system,
    );
    const row = at ?? { ...key, values: [], median: NaN, detail: {} };
    if (at === undefined) this.rows.push(row);
    row.values.push(value);
    row.median = median(row.values);
    const details = this.#details.get(row) ?? {};
    this.#details.set(row, details);
    for (const [name, figure] of Object.entries(detail)) {
      (details[name] ??= []).push(figure);
      row.detail[name] = median(details[name]);
    }
  }

  skip(workload: string, system: string, why: string): void {
    if (!this.skipped.some((one) => one.workload === workload && one.system === system))
      this.skipped.push({ workload, system, why });
  }
}

export const find = (
  rows: readonly Row[],
  workload: string,
  system: string,
  what?: string,
): Row | undefined =>
  rows.find(
    (row) => row.workload === workload && row.system === system && (what === undefined || row.case === what),
  );

/** The best median among the cases of a system in a workload. */
function best(rows: readonly Row[], workload: string, system: string, of?: string): number | null {
  const medians = rows
    .filter(
      (row) => row.workload === workload && row.system === system && (of === undefined || row.case === of),
    )
    .map((row) => row.median);
  return medians.length === 0 ? null : Math.max(...medians);
}

const over = (value: number | null, peers: readonly (number | null)[]): number | null => {
  const known = peers.filter((peer) => peer !== null);
  return value === null || known.length === 0 ? null : Number((value / Math.max(...known)).toFixed(3));
};

export type Ratios = Record<
  "memory" | "sqlite" | "daemon" | "postgres_batched" | "postgres_single",
  number | null
>;

/** This system compared with its peers; null where one side was not measured. */
export function ratios(rows: readonly Row[]): Ratios {
  const noops = (system: string): number | null => best(rows, "process", system);
  const bullmq = [noops("bullmq_aof")];
  return {
    memory: over(noops("memory"), bullmq),
    sqlite: over(noops("sqlite"), bullmq),
    daemon: over(noops("daemon"), bullmq),
    postgres_batched: over(noops("postgres"), [noops("graphile"), noops("pg_boss")]),
    postgres_single: over(best(rows, "single", "postgres", "1 at once"), [
      best(rows, "single", "graphile", "1 at once"),
    ]),
  };
}

export function latencies(
  rows: readonly Row[],
  quantile: "p50" | "p99",
  name = "idle",
): Record<string, number> {
  return Object.fromEntries(
    rows
      .filter((row) => row.workload === "latency" && row.case === name)
      .map((row) => [row.system, Number((row.detail[quantile] ?? NaN).toFixed(3))]),
  );
}
