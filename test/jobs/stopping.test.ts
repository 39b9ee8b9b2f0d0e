/** A worker that stops lets its job end, however often and in whatever way it was asked to. */
import { expect, test } from "vitest";
import { Engine, ManualClock } from "../../src/core/index.ts";
import { openJobs } from "../../src/jobs/index.ts";
import type { JobWorker } from "../../src/jobs/job-worker.ts";
import { MemoryStore } from "../../src/memory/index.ts";
import { gate, turns } from "../worker/setup.ts";
import { fn, jobWorker, runnerWithLong } from "./job-worker.ts";

const ways: [string, (worker: JobWorker, askByRecord: () => Promise<void>) => Promise<void>][] = [
  [
    "twice",
    async (worker) => {
      void worker.stop();
      await turns();
      void worker.stop();
    },
  ],
  [
    "by its record first",
    async (worker, askByRecord) => {
      await askByRecord();
      void worker.stop();
    },
  ],
];

test.each(ways)("stopped %s", async (_how, stop) => {
  const clock = new ManualClock();
  const engine = new Engine(new MemoryStore(), { clock });
  const jobs = openJobs(engine, { namespace: "n", clock });
  const begun = gate();
  const end = gate();
  const runner = runnerWithLong(async () => {
    begun.open();
    await end.promise;
    return { state: "OK", result: 3 };
  });
  const worker = jobWorker(engine, runner, { clock });
  const running = worker.run();
  const job = await jobs.schedule(fn, { name: "long" });
  await begun.promise;
  await stop(worker, async () => {
    await jobs.workers.halt("w");
    await turns();
    // the time of the next heartbeat
    clock.advance(5000);
    await turns();
  });
  await turns();
  end.open();
  await running;
  expect(await job.load()).toMatchObject({ state: "OK", result: 3, attempts: 1 });
  await engine.close();
});
