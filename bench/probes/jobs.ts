/** Job functions, on the embedded SQLite store with two worker processes: schedules a sum and waits for its result. */
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { openJobs, type Jobs } from "../../src/jobs/index.ts";
import { quantile } from "../machine.ts";
import { openCoordinate } from "../systems/coordinate.ts";
import type { Probe } from "./probe.ts";

const callers = 64;

async function roundTrips(jobs: Jobs, fn: object, ms: number): Promise<number> {
  const begun = performance.now();
  let done = 0;
  await Promise.all(
    Array.from({ length: callers }, async () => {
      while (performance.now() - begun < ms) {
        await (await jobs.schedule(fn as never, { args: [done, 1] })).wait();
        done++;
      }
    }),
  );
  return (done * 1000) / (performance.now() - begun);
}

export const jobs: Probe = async (address, factor) => {
  const folder = mkdtempSync(path.join(tmpdir(), "coordinate-bench-jobs-"));
  writeFileSync(path.join(folder, "sums.mjs"), "export const add = (a, b) => a + b;\n");
  const fn = { module: "./sums.mjs", export: "add" };
  const coordinate = await openCoordinate(address);
  const jobs = openJobs(coordinate, { namespace: "jobs" });
  const pool = await jobs.startPool({ roots: [folder], workers_nr_min: 2, workers_nr_max: 2 });
  const many = (count: number) => Array.from({ length: count }, (_, n) => ({ fn, args: [n, 1] }));
  await jobs.wait(await jobs.scheduleAll(many(Math.max(20, 200 * factor))));
  const trips = await roundTrips(jobs, fn, 4000 * Math.min(1, factor));
  const count = Math.max(50, Math.round(2000 * factor));
  const begun = performance.now();
  await jobs.wait(await jobs.scheduleAll(many(count)));
  const batch = (count * 1000) / (performance.now() - begun);
  const times: number[] = [];
  for (let n = 0; n < Math.max(10, 300 * factor); n++) {
    const start = performance.now();
    await (await jobs.schedule(fn, { args: [n, 1] })).wait();
    times.push(performance.now() - start);
  }
  await pool.stop();
  await coordinate.close();
  rmSync(folder, { recursive: true, force: true });
  return {
    value: trips,
    "in one call, jobs/s": batch,
    p50: quantile(times, 0.5),
    p99: quantile(times, 0.99),
  };
};
