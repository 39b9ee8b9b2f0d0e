/** Typical uses of jobs, end to end. */
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import {
  JobFailedError,
  WaitTimeoutError,
  type JobPool,
  type Jobs,
  type JobWorkerRecord,
} from "../../../src/jobs/index.ts";
import { until } from "../../worker/process/processes.ts";
import { Bench, fn, quick, quickSingle, type Stack } from "../stack.ts";

export function scenarioSuite(stack: Stack): void {
  describe(`scenarios on ${stack.name}`, () => {
    let bench: Bench;
    let jobs: Jobs;
    let pool: JobPool;
    beforeAll(async () => {
      bench = await Bench.open(stack);
      jobs = bench.jobs();
      pool = await jobs.startPool({ ...quick, workers_nr_min: 2, workers_nr_max: 3 });
    }, 120_000);
    afterAll(async () => {
      await pool.stop({ graceful: false });
      await bench.close();
    });

    test("basic: schedule, one turn in this process, results; and again", async () => {
      const own = bench.jobs();
      const once = (): Promise<void> => own.work({ ...quickSingle, type: "inprocess", onetime: true });
      const batch = own.batch();
      const first = await batch.schedule(fn("add"), { args: [1, 2] });
      expect(batch.ids).toEqual([first.id]);
      await once();
      expect(batch.ids).toEqual([first.id]);
      const { state, result, time_start, time_stop, error } = await first.load();
      expect([state, result, error]).toEqual(["OK", 3, null]);
      expect(time_stop - time_start).toBeLessThan(10_000);
      expect(await batch.results()).toEqual([3]);
      const second = await own.schedule(fn("add"), { args: [3, 4] });
      await once();
      expect(await own.results([second.id])).toEqual([7]);
    });

    test("simple error: results throws; settled tells, with the stack", async () => {
      const job = await jobs.schedule(fn("divide"), { args: [1, 0] });
      await expect(jobs.results([job])).rejects.toThrow(JobFailedError);
      const [settled] = await jobs.settled([job.id]);
      expect(settled?.error?.traceback).toMatch(/sums\.mjs/);
    });

    test("time-out: also of a function that never lets go of the processor", async () => {
      const sleeps = await jobs.schedule(fn("sleep"), { args: [60_000], timeoutMs: 300 });
      const spins = await jobs.schedule(fn("spin"), { timeoutMs: 300, returnQueues: ["timeouts"] });
      for (const job of await jobs.settled([sleeps, spins])) {
        expect([job.state, job.error_cat]).toEqual(["ERROR", "TIMEOUT"]);
        expect(job.error?.message).toContain("0.3 s");
        expect(job.time_stop - job.time_start).toBeGreaterThanOrEqual(300);
      }
      expect(await jobs.returnQueue("timeouts").take(1)).toMatchObject([{ error_cat: "TIMEOUT" }]);
    });

    test("time-out: in this process too, for a function that lets others have their turn", async () => {
      const own = bench.jobs();
      const job = await own.schedule(fn("sleep"), { args: [60_000], timeoutMs: 100 });
      await own.work({ ...quickSingle, type: "inprocess", onetime: true });
      expect(await job.load()).toMatchObject({ state: "ERROR", error_cat: "TIMEOUT" });
    });

    test("data: 20 jobs without workers are NEW and indexed; deleted, there are none", async () => {
      const own = bench.jobs();
      const handles = await own.scheduleAll(
        Array.from({ length: 20 }, () => ({ fn: fn("sleep"), args: [0] })),
      );
      expect(await own.count({ state: "NEW" })).toBe(20);
      const later = await own.startPool({ ...quick, workers_nr_max: 2 });
      expect(await own.results(handles)).toEqual(Array.from({ length: 20 }, () => "OK"));
      await later.stop();
      expect(await own.delete(handles.map(({ id }) => id))).toBe(20);
      expect(await own.count()).toBe(0);
    });

    test("start: 100 jobs with at most 10 workers", { timeout: 120_000 }, async () => {
      const own = bench.jobs();
      const items = Array.from({ length: 100 }, (_, n) => ({ fn: fn("sleep"), args: [20, n] }));
      const handles = await own.scheduleAll(items);
      const max = await own.startPool({ ...quick, workers_nr_max: 10 });
      let seen = 0;
      const look = setInterval(() => (seen = Math.max(seen, max.workers.size)), 5);
      expect(await own.results(handles)).toEqual(items.map((_, n) => n));
      clearInterval(look);
      expect(seen).toBeGreaterThan(1);
      expect(seen).toBeLessThanOrEqual(10);
      await max.stop();
    });

    test("wait: all of them, again as often as one likes, and a failure among them", async () => {
      const sums = await jobs.scheduleAll(
        Array.from({ length: 10 }, (_, n) => ({ fn: fn("add"), args: [n, n] })),
      );
      expect(await jobs.wait(sums)).toHaveLength(10);
      expect(await jobs.results(sums)).toHaveLength(10);
      expect(await jobs.results(sums)).toHaveLength(10);
      expect(await jobs.results([])).toEqual([]);
      const bad = await jobs.schedule(fn("divide"), { args: [1, 0] });
      await expect(jobs.wait([...sums, bad])).rejects.toThrow("division by zero");
      expect(await jobs.settled([...sums, bad])).toHaveLength(11);
    });

    test("workers: a start that changes nothing, one that is halted, one that goes on", async () => {
      await until("both wait", async () => {
        const states = (await jobs.workers.list({ running: true })).map(({ state }) => state);
        return states.length >= 2 && states.every((state) => state === "WAITING");
      });
      // on a busy machine a worker may be late to check in: it is healthy again after its next heartbeat
      let workers: JobWorkerRecord[] = [];
      await until("both are healthy", async () => {
        const check = await jobs.workers.check();
        ({ workers } = check);
        return check.healthy >= 2 && check.errors === 0;
      });
      expect(workers.slice(0, 2).map(({ nr }) => nr)).toEqual([1, 2]);
      await until("none is reaped", async () => (await jobs.workers.reap()).length === 0);
    });

    test("dependencies: run after both have ended, and with what they gave", async () => {
      const [one, two] = await jobs.scheduleAll([
        { fn: fn("sleep"), args: [200, "first"] },
        { fn: fn("sleep"), args: [100, "second"] },
      ]);
      const third = await jobs.schedule(fn("dependencies"), {
        dependencies: [one!, two!],
        timeoutMs: 30_000,
      });
      expect((await third.load()).substate).toBe("blocked");
      expect(await third.wait()).toEqual([
        ["OK", "first"],
        ["OK", "second"],
      ]);
      expect((await third.load()).dependencies).toEqual([one!.id, two!.id]);
      const [a, b] = [await one!.load(), await third.load()];
      expect(b.time_start).toBeGreaterThanOrEqual(a.time_stop);
    });

    test("dependencies: a failed one fails what waits for it, and what waits for that; the others go on", async () => {
      const bad = await jobs.schedule(fn("divide"), { args: [1, 0], delayMs: 200 });
      const good = await jobs.schedule(fn("sleep"), { args: [50] });
      const third = await jobs.schedule(fn("add"), { dependencies: [bad, good], returnQueues: ["broken"] });
      const fourth = await jobs.schedule(fn("add"), { dependencies: [third.id], returnQueues: ["broken"] });
      const soft = await jobs.schedule(fn("dependencies"), { dependencies: [{ id: bad.id, kind: "soft" }] });
      const [failed, next] = await jobs.settled([third, fourth]);
      expect(failed).toMatchObject({
        state: "ERROR",
        error_cat: "ERROR",
        error: { dependency_failure: bad.id },
      });
      expect(next).toMatchObject({ state: "ERROR", error: { dependency_failure: third.id } });
      expect((await good.settled()).state).toBe("OK");
      expect(await soft.wait()).toEqual([["ERROR", null]]);
      const told = await jobs.returnQueue("broken").take(2, { timeoutMs: 20_000 });
      expect(told.map(({ id, state }) => [id, state])).toEqual([
        [third.id, "ERROR"],
        [fourth.id, "ERROR"],
      ]);
      const late = await jobs.schedule(fn("add"), { args: [1, 2], dependencies: [good] });
      expect(await late.wait()).toBe(3);
    });

    test("dependencies: by name, within one call", async () => {
      const [, second] = await jobs.scheduleAll([
        { fn: fn("add"), args: [1, 2], name: "before" },
        { fn: fn("dependencies"), dependencies: ["before"], name: "after" },
      ]);
      expect(await second!.wait()).toEqual([["OK", 3]]);
    });

    test("return queues: ten outcomes in two queues, and both are empty afterwards", async () => {
      const returnQueues = ["ten-a", "ten-b"];
      await jobs.scheduleAll(
        Array.from({ length: 10 }, (_, n) => ({ fn: fn("add"), args: [n, 1], returnQueues })),
      );
      for (const name of returnQueues) {
        const taken = await jobs.returnQueue(name).take(10, { timeoutMs: 60_000 });
        expect(taken.map(({ result }) => result).sort()).toEqual([1, 10, 2, 3, 4, 5, 6, 7, 8, 9].sort());
        expect(new Set(taken.map(({ id }) => id)).size).toBe(10);
        expect(await jobs.returnQueue(name).size()).toBe(0);
      }
    });

    test("return queues: eleven of ten is an error in time, and nothing is lost by it", async () => {
      const queue = jobs.returnQueue("eleven");
      const handles = await jobs.scheduleAll(
        Array.from({ length: 10 }, (_, n) => ({ fn: fn("add"), args: [n, 1], returnQueues: ["eleven"] })),
      );
      await jobs.wait(handles);
      await expect(queue.take(11, { timeoutMs: 100 })).rejects.toThrow(WaitTimeoutError);
      expect(await queue.size()).toBe(10);
      const seen: string[] = [];
      for await (const { id } of queue) if (seen.push(id) === 10) break;
      expect(new Set(seen).size).toBe(10);
      await jobs.schedule(fn("add"), { returnQueues: ["eleven"], args: [1, 1] }).then((job) => job.wait());
      await jobs
        .schedule(fn("add"), { args: [2, 2], returnQueues: ["eleven"], resetReturnQueues: true })
        .then((job) => job.wait());
      expect(await queue.reset()).toBe(1);
    });

    test("workers: ten sums, sleepers, one out of time, one that fails", async () => {
      const own = bench.jobs();
      const fixed = await own.startPool({ ...quick, workers_nr_min: 2, workers_nr_max: 2 });
      await own.scheduleAll([
        ...Array.from({ length: 10 }, (_, n) => ({ fn: fn("add"), args: [n, n] })),
        ...Array.from({ length: 10 }, () => ({ fn: fn("sleep"), args: [20] })),
        { fn: fn("sleep"), args: [60_000], timeoutMs: 200 },
        { fn: fn("divide"), args: [1, 0] },
      ]);
      await until("all have ended", async () => (await own.count({ state: ["OK", "ERROR"] })) === 22, 60_000);
      expect(await own.queueSize()).toBe(0);
      expect(await own.count({ state: "OK" })).toBe(20);
      expect(await own.count({ errorCategory: "TIMEOUT" })).toBe(1);
      expect(await own.count({ errorCategory: "ERROR" })).toBe(1);
      for await (const { time_stop } of own.list()) expect(time_stop).toBeGreaterThan(0);
      await fixed.stop();
    });
  });
}
