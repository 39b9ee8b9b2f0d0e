/**
 * Compares this system with its peers, in turns, in one run on one machine.
 *
 *   npm run bench -- [--quick] [--json] [--only process,latency,sqlite,bullmq_aof] [--repeat 5] [--factor 1] [--write]
 *
 *   --quick    what the ratios need, in about four minutes on two cores
 *   --json     the last line is one JSON object: ratios, latency_p50_ms, latency_p99_ms, environment, rows, skipped
 *   --only     these workloads or these systems
 *   --repeat   repetitions of each case; 5, or 3 with --quick
 *   --factor   multiplies numbers of units and seconds
 *   --write    writes results to bench/results.json, docs/performance.md and docs/images; keeps earlier results of other workloads
 *
 * The peers are the dependencies of bench/package.json, which the first run installs unless BENCH_INSTALL=no. The run starts its own
 * PostgreSQL and Redis. Cases that cannot be measured are listed with the reason.
 */
import { execFileSync } from "node:child_process";
import { existsSync } from "node:fs";
import path from "node:path";
import { parseArgs } from "node:util";
import { environment, here, quiet } from "./machine.ts";
import { environmentMarkdown, figure, ratioMarkdown, workloadMarkdown, type Report } from "./report.ts";
import { latencies, ratios, Results } from "./results.ts";
import { Postgres } from "./servers.ts";
import { systems, type System } from "./systems.ts";
import { quickWorkloads, workloads } from "./workloads.ts";
import type { Scale, Workload } from "./workloads/workload.ts";
import { writeReport } from "./write.ts";

const { values: given } = parseArgs({
  options: {
    quick: { type: "boolean", default: false },
    json: { type: "boolean", default: false },
    only: { type: "string", default: "" },
    repeat: { type: "string" },
    factor: { type: "string", default: "1" },
    write: { type: "boolean", default: false },
  },
});

const say = (line: string): void => console.log(line);

/** Installs the peers if they are missing. Returns why they are unavailable, or null when they are installed. */
function installPeers(): string | null {
  if (existsSync(path.join(here, "node_modules"))) return null;
  if (process.env.BENCH_INSTALL === "no") return "its package is not installed: npm ci in bench/";
  say("installing the peers of bench/package.json");
  try {
    execFileSync("npm", ["ci", "--no-audit", "--no-fund"], { cwd: here, stdio: "ignore", timeout: 120_000 });
    return null;
  } catch (error) {
    return `its package could not be installed: ${String(error).split("\n")[0]}`;
  }
}

function choose(names: readonly string[]): {
  chosen: readonly Workload[];
  takes: (system: System) => boolean;
} {
  const known = new Set<string>([...workloads, ...systems].map(({ name }) => name));
  for (const name of names)
    if (!known.has(name)) throw new Error(`--only ${name}: expected one of ${[...known].join(", ")}`);
  const byName = workloads.filter(({ name }) => names.includes(name));
  const bySystem = systems.filter(({ name }) => names.includes(name));
  return {
    chosen: byName.length > 0 ? byName : given.quick ? quickWorkloads : workloads,
    takes: ({ name }) => bySystem.length === 0 || bySystem.some((system) => system.name === name),
  };
}

async function measure(
  workload: Workload,
  scale: Scale,
  repeat: number,
  results: Results,
  postgres: Postgres,
  takes: (system: System) => boolean,
  missing: string | null,
): Promise<void> {
  const cases = workload.cases(scale).filter(({ system }) => takes(system));
  const out = new Set<unknown>();
  say(`\n${workload.title}`);
  for (let round = 0; round < repeat; round++)
    for (const one of cases) {
      const { system, name, unit } = one;
      if (out.has(one) || (one.once === true && round > 0)) continue;
      if (system.needs !== undefined && missing !== null) {
        out.add(one);
        results.skip(workload.name, system.name, missing);
        continue;
      }
      await quiet(scale.factor < 1 ? 0 : scale.quick ? 1000 : 5000);
      try {
        const { value, detail } = await system.with(postgres, (at) => one.measure(at, postgres));
        const { label, durability } = system;
        results.add(
          { workload: workload.name, case: name, system: system.name, label, durability, unit },
          value,
          detail,
        );
        say(`  ${`${system.label}: ${name}`.padEnd(64)} ${figure(value, unit).padStart(10)} ${unit}`);
      } catch (error) {
        out.add(one);
        const [why = ""] = (error instanceof Error ? error.message : String(error)).split("\n\n");
        results.skip(workload.name, system.name, why);
        say(`  ${system.label}: ${name}: not measured: ${why}`);
      }
    }
}

async function main(): Promise<void> {
  const began = performance.now();
  const scale: Scale = { quick: given.quick, factor: Number(given.factor) };
  const repeat = Number(given.repeat ?? (given.quick ? 3 : 5));
  const { chosen, takes } = choose(given.only === "" ? [] : given.only.split(","));
  const missing = installPeers();
  const results = new Results();
  const postgres = new Postgres();
  const around = await environment();
  say(environmentMarkdown(around));
  try {
    for (const workload of chosen) await measure(workload, scale, repeat, results, postgres, takes, missing);
  } finally {
    await postgres.stop();
  }
  const { rows, skipped } = results;
  const report: Report = { environment: { ...around, repetitions: repeat }, rows, skipped };
  say("");
  for (const workload of chosen) say(`${workloadMarkdown(workload, rows, skipped)}\n`);
  say(ratioMarkdown(rows));
  if (given.write) await writeReport(report);
  const seconds = Math.round((performance.now() - began) / 1000);
  say(`\n${seconds} s in all`);
  if (given.json)
    say(
      JSON.stringify({
        ratios: ratios(rows),
        latency_p50_ms: latencies(rows, "p50"),
        latency_p99_ms: latencies(rows, "p99"),
        seconds,
        ...report,
      }),
    );
}

await main();
