/**
 * How fast jobs go: schedule a function that adds two numbers, wait for its result. On the embedded SQLite store with its
 * usual durability, with real worker processes.
 *
 *   round trips   64 callers, each schedules a job and waits for its result, again and again
 *   batch         so many jobs in one call, until all have their results
 *   latency       one caller on an idle pool
 *
 * Run `npm run bench:jobs`, with `nice -n -10` where others use the machine. JOBS=5000 and
 * SECONDS=5 scale it; DURABILITY=off leaves out the fsync of every write, and shows what is not the disk.
 */
import { existsSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { availableParallelism, cpus, tmpdir } from "node:os";
import path from "node:path";
import { Engine, systemClock } from "../src/index.ts";
import { openJobs, type Jobs } from "../src/jobs/index.ts";
import { openSqlite } from "../src/sqlite/index.ts";

const batch = Number(process.env.JOBS ?? 2000);
const seconds = Number(process.env.SECONDS ?? 4);
const callers = 64;

const folder = mkdtempSync(path.join(tmpdir(), "coordinate-bench-jobs-"));
writeFileSync(path.join(folder, "sums.mjs"), "export const add = (a, b) => a + b;\n");
const fn = { module: "./sums.mjs", export: "add" };
const built = path.join(import.meta.dirname, "../dist/jobs/child/main.js");
const program = existsSync(built) ? { program: built, execArgv: [] } : {};

console.log(
  `${cpus()[0]?.model ?? "unknown processor"}, ${availableParallelism()} cores, Node ${process.versions.node}`,
);

const durability = process.env.DURABILITY === "off" ? "off" : "full";
const store = await openSqlite(path.join(folder, "store.sqlite"), { durability });
const engine = new Engine(store, { clock: systemClock() });

async function roundTrips(jobs: Jobs): Promise<number> {
  const end = performance.now() + seconds * 1000;
  let done = 0;
  const begun = performance.now();
  await Promise.all(
    Array.from({ length: callers }, async () => {
      while (performance.now() < end) {
        const job = await jobs.schedule(fn, { args: [done, 1] });
        await job.wait();
        done++;
      }
    }),
  );
  return done / ((performance.now() - begun) / 1000);
}

async function inBatch(jobs: Jobs): Promise<number> {
  const begun = performance.now();
  const handles = await jobs.scheduleAll(Array.from({ length: batch }, (_, n) => ({ fn, args: [n, 1] })));
  await jobs.wait(handles);
  return batch / ((performance.now() - begun) / 1000);
}

async function latency(jobs: Jobs): Promise<number[]> {
  const times: number[] = [];
  for (let n = 0; n < 500; n++) {
    const begun = performance.now();
    await (await jobs.schedule(fn, { args: [n, 1] })).wait();
    times.push(performance.now() - begun);
  }
  return times.slice(100).sort((a, b) => a - b);
}

const at = (sorted: number[], share: number): string =>
  (sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))] ?? 0).toFixed(2);

for (const workers of [1, 2, 4]) {
  const jobs = openJobs(engine, { namespace: `bench-${workers}` });
  const pool = await jobs.startPool({
    ...program,
    roots: [folder],
    workers_nr_min: workers,
    workers_nr_max: workers,
  });
  await jobs.wait(await jobs.scheduleAll(Array.from({ length: 200 }, (_, n) => ({ fn, args: [n, 1] }))));
  const trips = await roundTrips(jobs);
  const bulk = await inBatch(jobs);
  console.log(
    `${workers} workers: ${Math.round(trips)} round trips/s with ${callers} callers, ${Math.round(bulk)} jobs/s in a batch of ${batch}`,
  );
  if (workers === 1) {
    const times = await latency(jobs);
    console.log(
      `latency on an idle pool, ms: p50 ${at(times, 0.5)}, p95 ${at(times, 0.95)}, p99 ${at(times, 0.99)}`,
    );
  }
  await pool.stop();
}
await engine.close();
rmSync(folder, { recursive: true });
