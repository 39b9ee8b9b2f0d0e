/** A job that the runner did not begin, because the one before it takes long, is given back, and the pool hears of it. */
import { expect, test } from "vitest";
import { Engine, override } from "../../src/core/index.ts";
import { Actions } from "../../src/jobs/actions.ts";
import { DataLoop } from "../../src/jobs/data-loop.ts";
import { EventLog } from "../../src/jobs/events.ts";
import { openJobs } from "../../src/jobs/index.ts";
import { JobWorker } from "../../src/jobs/job-worker.ts";
import { readWorkerOptions } from "../../src/jobs/options.ts";
import { Queue } from "../../src/jobs/queue.ts";
import { endedBy, type Runner } from "../../src/jobs/runner.ts";
import { MemoryStore } from "../../src/memory/index.ts";
import { handles } from "../../src/objects/index.ts";
import { silentLogger } from "../../src/worker/index.ts";

const fn = { module: "./sums.mjs", export: "add" };

/** Runs the job `long` until it is halted, and gives all others back at once. */
function runnerWithLong(): Runner {
  return {
    pid: 0,
    isReady: true,
    maxQueued: 16,
    ready: () => Promise.resolve(),
    close: () => Promise.resolve(),
    run: async ({ name }, { signal, onBegun }) => {
      if (name !== "long") return null;
      onBegun();
      return new Promise((resolve) => {
        signal.addEventListener("abort", () => resolve(endedBy("HALTED", "halted")), { once: true });
      });
    },
  };
}

test("the pool looks for work after the job is available again", async () => {
  const engine = new Engine(new MemoryStore());
  const happened: string[] = [];
  const verbs = override(engine, {
    // both jobs in one claim: the worker itself begins with small claims
    requestAttempts: (ns, request) => engine.requestAttempts(ns, { ...request, number: 16 }),
    settleAttempts: async (ns, changes) => {
      const answers = await engine.settleAttempts(ns, changes);
      if (changes.some(({ untried }) => untried)) happened.push("given back");
      return answers;
    },
  });
  const namespace = handles(verbs).namespace("n");
  const jobs = openJobs(verbs, { namespace: "n" });
  const worker = new JobWorker({
    ...readWorkerOptions({ log: silentLogger }),
    namespace,
    queue: new Queue(verbs, "n", "jobs"),
    actions: new Actions(verbs, "n"),
    runner: runnerWithLong(),
    name: "w",
    pool: null,
    nr: 1,
    type: "inprocess",
    onetime: false,
    dataLoop: new DataLoop(new EventLog(() => Date.now())),
    now: () => Date.now(),
    onBusy: () => happened.push("the pool looks"),
  });
  const running = worker.run();
  const [long] = await jobs.scheduleAll([{ fn, name: "long" }, { fn }]);
  await expect.poll(() => happened).toContain("given back");
  await expect.poll(() => happened.slice(happened.indexOf("given back"))).toContain("the pool looks");
  expect((await long!.load()).state).toBe("RUNNING");
  worker.halt("the test is over");
  await worker.stop();
  await running;
  await engine.close();
});
