/** A job that the runner did not begin, because the one before it takes long, is given back, and the pool hears of it. */
import { expect, test } from "vitest";
import { Engine, override } from "../../src/core/index.ts";
import { openJobs } from "../../src/jobs/index.ts";
import { MemoryStore } from "../../src/memory/index.ts";
import { fn, jobWorker, runnerWithLong } from "./job-worker.ts";

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
  const jobs = openJobs(verbs, { namespace: "n" });
  const worker = jobWorker(verbs, runnerWithLong(), { onBusy: () => happened.push("the pool looks") });
  const running = worker.run();
  const [long] = await jobs.scheduleAll([{ fn, name: "long" }, { fn }]);
  await expect.poll(() => happened).toContain("given back");
  await expect.poll(() => happened.slice(happened.indexOf("given back"))).toContain("the pool looks");
  expect((await long!.load()).state).toBe("RUNNING");
  await worker.halt("the test is over");
  await running;
  await engine.close();
});
