/** Jobs that are scheduled at the same moment are added with one request, and each call gets its own result. */
import { expect, test } from "vitest";
import { Engine, override, type WorkUnitInput } from "../../src/core/index.ts";
import { openJobs, type Jobs } from "../../src/jobs/index.ts";
import { MemoryStore } from "../../src/memory/index.ts";

const fn = { module: "./sums.mjs", export: "add" };

/** `calls` has the number of jobs of each add. */
async function open(): Promise<{ engine: Engine; jobs: Jobs; calls: number[] }> {
  const engine = new Engine(new MemoryStore());
  const calls: number[] = [];
  const counted = override(engine, {
    addWorkUnits: (ns, spec, units: readonly WorkUnitInput[], options) => {
      calls.push(units.length);
      return engine.addWorkUnits(ns, spec, units, options);
    },
  });
  const jobs = openJobs(counted, { namespace: "n" });
  await jobs.schedule(fn);
  calls.length = 0;
  return { engine, jobs, calls };
}

test("calls of one moment are one add, and each gets its own jobs", async () => {
  const { engine, jobs, calls } = await open();
  const handles = await Promise.all([
    jobs.schedule(fn, { args: [0, 1] }),
    jobs.scheduleAll([
      { fn, args: [1, 1] },
      { fn, args: [2, 1] },
    ]),
    jobs.schedule(fn, { args: [3, 1] }),
  ]);
  expect(calls).toEqual([4]);
  const args = await Promise.all(handles.flat().map(async ({ id }) => (await jobs.load(id)).args));
  expect(args).toEqual([
    [0, 1],
    [1, 1],
    [2, 1],
    [3, 1],
  ]);
  await engine.close();
});

test("a call that is refused takes no other with it", async () => {
  const { engine, jobs } = await open();
  await engine.setWorkSpecMeta("n", "jobs", { maxWaiting: 3 });
  const answers = await Promise.allSettled([
    jobs.schedule(fn),
    jobs.scheduleAll([{ fn }, { fn }]),
    jobs.schedule(fn),
  ]);
  expect(answers.map(({ status }) => status)).toEqual(["fulfilled", "rejected", "fulfilled"]);
  expect(answers[1]).toMatchObject({ reason: { code: "queue_full" } });
  expect(await jobs.queueSize()).toBe(3);
  await engine.close();
});
