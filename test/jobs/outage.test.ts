/** A coordinator that does not answer for a while ends no job, and does not keep a pool from stopping. */
import { expect, onTestFinished, test } from "vitest";
import { CoordinateError, Engine, ManualClock, override, type Coordinate } from "../../src/core/index.ts";
import { openJobs } from "../../src/jobs/index.ts";
import { MemoryStore } from "../../src/memory/index.ts";
import { isAlive, until } from "../worker/process/processes.ts";
import { gate, turns } from "../worker/setup.ts";
import { fn, jobWorker, runnerWithLong } from "./job-worker.ts";
import { quick } from "./stack.ts";

const second = 1000;

/** A coordinator on a manual clock that can stop storing outcomes and renewals. */
function bench(): { clock: ManualClock; verbs: Coordinate; outage: { isOn: boolean } } {
  const clock = new ManualClock();
  const engine = new Engine(new MemoryStore(), { clock });
  onTestFinished(() => engine.close());
  const outage = { isOn: false };
  const verbs = override(engine, {
    settleAttempts: (...args) =>
      outage.isOn ? Promise.reject(new CoordinateError("unavailable")) : engine.settleAttempts(...args),
  });
  return { clock, verbs, outage };
}

test("a job goes on when a renewal of its lease is late", async () => {
  const { clock, verbs, outage } = bench();
  const begun = gate<AbortSignal>();
  const end = gate();
  const runner = runnerWithLong(async ({ signal }) => {
    begun.open(signal);
    await end.promise;
    return { state: "OK", result: 3 };
  });
  const worker = jobWorker(verbs, runner, { clock });
  const running = worker.run();
  const job = await openJobs(verbs, { namespace: "n", clock }).schedule(fn, { name: "long" });
  const signal = await begun.promise;
  for (let s = 1; s <= 60; s++) {
    await turns();
    clock.advance(second);
    await turns();
    // the lease of 30 s is renewed after 10 s
    outage.isOn = s >= 9 && s < 20;
  }
  expect(signal.aborted).toBe(false);
  end.open();
  await expect.poll(() => job.load()).toMatchObject({ state: "OK", result: 3 });
  await worker.stop();
  await running;
});

/** A hard stop ends while a job runs and the coordinator is as `begin` makes it. */
async function stopsHard(clock: ManualClock, verbs: Coordinate, begin: () => void): Promise<void> {
  const jobs = openJobs(verbs, { namespace: "n", clock });
  const pool = await jobs.startPool({ ...quick, workers_nr_max: 1 });
  const job = await jobs.schedule({ ...fn, export: "sleep" }, { args: [60 * second] });
  const [worker] = pool.workers.values();
  await until("it runs", () => worker!.currentJob === job.id);
  const { pid } = worker!;
  begin();
  const stopped: boolean[] = [];
  void pool.stop({ graceful: false }).then(() => stopped.push(true));
  await until("it has stopped", async () => {
    await turns();
    clock.advance(100);
    return stopped.length > 0;
  });
  expect(isAlive(pid)).toBe(false);
}

test("a hard stop gives up outcomes that cannot be stored", { timeout: 60 * second }, async () => {
  const { clock, verbs, outage } = bench();
  await stopsHard(clock, verbs, () => (outage.isOn = true));
});

test("a hard stop does not wait for requests that are not answered", { timeout: 60 * second }, async () => {
  const { clock, verbs } = bench();
  let isSilent = false;
  const silent = new Proxy(verbs, {
    get: (target, key) => {
      const verb: unknown = Reflect.get(target, key);
      if (typeof verb !== "function") return verb;
      return (...args: unknown[]): unknown =>
        isSilent ? new Promise(() => undefined) : Reflect.apply(verb, target, args);
    },
  });
  await stopsHard(clock, silent, () => (isSilent = true));
});

test("a job with a name is scheduled although the lock of the name cannot be released", async () => {
  const { clock, verbs } = bench();
  const unlock: Coordinate["unlock"] = () => Promise.reject(new CoordinateError("unknown_outcome"));
  const jobs = openJobs(override(verbs, { unlock }), { namespace: "n", clock });
  const job = await jobs.schedule(fn, { name: "once" });
  expect((await jobs.load("once")).id).toBe(job.id);
});
