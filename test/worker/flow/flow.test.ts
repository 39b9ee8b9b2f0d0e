/** One flow through a TypeScript task, a Python function and a command, all three runtimes at once, on a real file. */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { expect, onTestFinished, test } from "vitest";
import { Engine, systemClock } from "../../../src/core/index.ts";
import { handles } from "../../../src/index.ts";
import { openSqlite } from "../../../src/sqlite/index.ts";
import { commandRuntime, processRuntime, pythonRuntime, Worker } from "../../../src/worker/index.ts";
import { collect, execArgv } from "../process/harness.ts";
import { until } from "../process/processes.ts";

/** `FLOW_UNITS=10000` is the full run: the last step starts one process per unit. */
const count = Number(process.env.FLOW_UNITS ?? 600);

test.each([
  { kind: "claims of several sizes", python: { maxAttempts: 50 }, command: { maxAttempts: 20 } },
  { kind: "claims of one", python: { maxAttempts: 1 }, command: {} },
])(`${count} units through three runtimes: $kind`, { timeout: 60_000 + count * 60 }, async (sizes) => {
  const directory = mkdtempSync(path.join(tmpdir(), "coordinate-flow-"));
  const store = await openSqlite(path.join(directory, "store.sqlite"));
  const coordinate = handles(new Engine(store, { clock: systemClock() }));
  onTestFinished(async () => {
    await coordinate.close();
    rmSync(directory, { recursive: true, force: true });
  });
  const namespace = coordinate.namespace();
  const last = await namespace.setWorkSpec({
    name: "rename",
    runtime: "command",
    // reads the unit's data as JSON and prints it with `n` renamed to `result`
    command: ["sed", 's/"n":/"result":/'],
  });
  await namespace.setWorkSpec({
    name: "double",
    module: "jobs",
    run_function: "double",
    runtime: "python_3",
    then: "rename",
  });
  const first = await namespace.setWorkSpec({ name: "number", runtime: "node", then: "double" });
  await first.addWorkUnits(Array.from({ length: count }, (_, i) => [`unit-${i}`, { i }] as const));

  const { log, lines } = collect();
  const cwd = import.meta.dirname;
  const runtimes = [
    await processRuntime({ tasks: path.join(cwd, "tasks.ts"), processes: 2, execArgv, log }),
    await pythonRuntime({ processes: 2, cwd, log, ...sizes.python, env: { PYTHONDONTWRITEBYTECODE: "1" } }),
    commandRuntime({ processes: 2, ...sizes.command }),
  ];
  const began = performance.now();
  const worker = new Worker(namespace, { runtimes, concurrency: 6, log });
  const running = worker.run();
  const stalls = new Map<string, number>();
  let longestStallMs = 0;
  let looked = began;
  const finished = async (): Promise<number> => {
    const rows = await namespace.tally();
    // at most 100 ms count per look, so that looks delayed by a busy machine do not count as stalls
    const sinceMs = Math.min(100, performance.now() - looked);
    looked = performance.now();
    for (const { workSpec, counts } of rows) {
      const isStalled = counts.available > 0 && counts.pending === 0;
      stalls.set(workSpec, isStalled ? (stalls.get(workSpec) ?? 0) + sinceMs : 0);
    }
    longestStallMs = Math.max(longestStallMs, ...stalls.values());
    const failed = rows.reduce((sum, { counts }) => sum + counts.failed, 0);
    if (failed > 0) throw new Error(`${failed} units failed:\n${lines.slice(-20).join("")}`);
    return rows.find(({ workSpec }) => workSpec === "rename")?.counts.finished ?? 0;
  };
  try {
    await until("all are through", async () => (await finished()) === count, 45_000 + count * 50);
  } finally {
    const seconds = (performance.now() - began) / 1000;
    console.log(
      `${count} units through three runtimes in ${seconds.toFixed(1)} s, longest stall ${Math.round(longestStallMs)} ms`,
    );
    await worker.stop();
    await running;
  }
  // every runtime has its own capacity: available units of each runtime run
  expect(longestStallMs).toBeLessThan(1000);
  let seen = 0;
  for await (const unit of last.workUnits()) {
    const i = Number(unit.name.slice("unit-".length));
    expect(unit.data.result).toBe((i + 1) * 2);
    expect(unit.data.command).toMatchObject({ exit_code: 0 });
    seen += 1;
  }
  expect(seen).toBe(count);
  expect(worker.counts).toMatchObject({
    finished: count * 3,
    failed: 0,
    retried: 0,
    timedOut: 0,
    unsettled: 0,
  });
});
