/** The smallest run of `npm run bench`: every part runs, and the last line has the documented shape. */
import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { existsSync } from "node:fs";
import path from "node:path";
import { promisify } from "node:util";
import { describe, it } from "vitest";
import { bars } from "../../bench/plot.ts";
import { ratioMarkdown } from "../../bench/report.ts";
import { latencies, ratios, Results } from "../../bench/results.ts";

const run = promisify(execFile);
const root = path.join(import.meta.dirname, "../..");

const key = (workload: string, what: string, system: string) => ({
  workload,
  case: what,
  system,
  label: system,
  durability: "nothing",
  unit: "units/s",
});

describe("npm run bench", () => {
  it("compares medians: the best case of a system, and the better of two peers", () => {
    const results = new Results();
    for (const [system, ...rates] of [
      ["memory", 100, 300, 200],
      ["bullmq_aof", 10, 30, 20],
      ["postgres", 30, 30, 30],
      ["graphile", 15, 15, 15],
      ["pg_boss", 60, 60, 60],
    ] as const)
      for (const rate of rates) results.add(key("process", "1 process", system), rate);
    results.add(key("process", "2 processes", "postgres"), 45);
    results.add(key("single", "1 at once", "postgres"), 6);
    results.add(key("single", "1 at once", "graphile"), 5);
    results.add(key("single", "8 at once", "graphile"), 50);
    results.add({ ...key("latency", "idle", "daemon"), unit: "ms" }, 2, { p50: 2, p99: 4 });
    results.add({ ...key("latency", "idle", "daemon"), unit: "ms" }, 3, { p50: 3, p99: 9 });
    results.add({ ...key("latency", "idle", "daemon"), unit: "ms" }, 2, { p50: 2, p99: 5 });
    assert.deepEqual(ratios(results.rows), {
      memory: 10,
      sqlite: null,
      daemon: null,
      postgres_batched: 0.75,
      postgres_single: 1.2,
    });
    assert.deepEqual(latencies(results.rows, "p50"), { daemon: 2 });
    assert.deepEqual(latencies(results.rows, "p99"), { daemon: 5 });
    assert.match(ratioMarkdown(results.rows), /memory \/ BullMQ.*10\.00/);
  });

  it("plots are SVG with names escaped", () => {
    const svg = bars("a < b", "", [{ label: "x & y", value: 2, low: 1, high: 3, isOurs: true }], String);
    assert.match(svg, /^<svg [^]*a &lt; b[^]*x &amp; y[^]*<\/svg>\n$/);
  });

  it("ends with one JSON object", { timeout: 600_000 }, async () => {
    const args = ["--quick", "--factor", "0.01", "--repeat", "1", "--json"];
    // a test does not install the peers: if they are missing, it measures only this system
    const isInstalled = existsSync(path.join(root, "bench/node_modules"));
    const only = isInstalled ? [] : ["--only", "memory,sqlite,daemon,daemon_memory,postgres"];
    const { stdout } = await run(
      process.execPath,
      ["--import", "./examples/typescript.mjs", "bench/main.ts", ...args, ...only],
      { cwd: root, maxBuffer: 1e8, env: { ...process.env, BENCH_INSTALL: "no" } },
    );
    const lines = stdout.trimEnd().split("\n");
    const answer = JSON.parse(lines.at(-1) ?? "") as {
      ratios: Record<string, number | null>;
      latency_p50_ms: Record<string, number>;
      latency_p99_ms: Record<string, number>;
      environment: Record<string, unknown>;
      rows: { workload: string; system: string; values: number[]; median: number }[];
      skipped: { system: string; why: string }[];
    };
    assert.deepEqual(Object.keys(answer.ratios), [
      "memory",
      "sqlite",
      "daemon",
      "postgres_batched",
      "postgres_single",
    ]);
    const measured = (workload: string): string[] =>
      answer.rows.filter((row) => row.workload === workload).map(({ system }) => system);
    for (const system of ["memory", "sqlite", "daemon", "postgres"])
      assert.ok(measured("process").includes(system), JSON.stringify(answer.skipped));
    for (const system of ["daemon_memory", "daemon", "postgres"]) {
      assert.ok((answer.latency_p50_ms[system] ?? 0) > 0, system);
      assert.ok((answer.latency_p99_ms[system] ?? 0) >= (answer.latency_p50_ms[system] ?? 0), system);
    }
    for (const { values, median } of answer.rows) assert.ok(values.length === 1 && median > 0);
    assert.equal(answer.environment.cores, (await import("node:os")).cpus().length);
    for (const { why } of answer.skipped) assert.notEqual(why, "");
  });
});
