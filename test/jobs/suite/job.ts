/** The guarantees for jobs: their fields, their states, and how they are found. */
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import {
  JobFailedError,
  jobSchema,
  schemas,
  WaitTimeoutError,
  type Job,
  type JobPool,
  type Jobs,
} from "../../../src/jobs/index.ts";
import { until } from "../../worker/process/processes.ts";
import { Bench, fn, quick, type Stack } from "../stack.ts";

async function all(listing: AsyncIterable<Job>): Promise<Job[]> {
  const found: Job[] = [];
  for await (const job of listing) found.push(job);
  return found;
}

const fieldOf = (name: string) => jobSchema.fields.find((field) => field.name === name);

export function jobSuite(stack: Stack): void {
  describe(`job on ${stack.name}`, () => {
    let bench: Bench;
    let jobs: Jobs;
    let pool: JobPool;
    beforeAll(async () => {
      bench = await Bench.open(stack);
      jobs = bench.jobs();
      pool = await jobs.startPool({ ...quick, workers_nr_max: 2 });
    }, 120_000);
    afterAll(async () => {
      await pool.stop({ graceful: false });
      await bench.close();
    });

    test("J1 asynchronous: schedule returns before the function has run", async () => {
      const job = await jobs.schedule(fn("sleep"), { args: [300, "slept"] });
      expect((await job.load()).state).not.toBe("OK");
      expect(await job.wait()).toBe("slept");
    });

    test("J2 schema: the job has a stable identifier in the listing", () => {
      expect(jobSchema.url).toBe("jumpscale.myjobs.job");
      expect(schemas).toContain(jobSchema);
    });

    test("J3 category: empty by default, and a job is found by it", async () => {
      const plain = await jobs.schedule(fn("add"), { args: [1, 2] });
      const red = await jobs.schedule(fn("add"), { args: [3, 4], category: "red" });
      await jobs.schedule(fn("add"), { args: [5, 6], category: "blue" });
      expect((await plain.load()).category).toBe("");
      expect((await all(jobs.list({ category: "red" }))).map(({ id }) => id)).toEqual([red.id]);
      expect(await jobs.count({ category: "red" })).toBe(1);
      expect(await jobs.count({ category: "green" })).toBe(0);
    });

    test("J4 time_start: 0 before it began, then found by a range", async () => {
      const waits = await jobs.schedule(fn("add"), { args: [1, 2], delayMs: 60_000, category: "J4" });
      expect((await waits.load()).time_start).toBe(0);
      const first = await jobs.schedule(fn("add"), { args: [1, 2], category: "J4" });
      await first.wait();
      const { time_stop: end } = await first.load();
      await until("the clock has moved on", () => Date.now() > end + 5);
      const second = await jobs.schedule(fn("add"), { args: [1, 2], category: "J4" });
      const { time_start: start } = await second.settled();
      const early = await all(jobs.list({ category: "J4", startedBefore: start }));
      const late = await all(jobs.list({ category: "J4", startedAfter: start }));
      expect(early.map(({ id }) => id)).toEqual([first.id]);
      expect(late.map(({ id }) => id)).toEqual([second.id]);
      expect(await jobs.count({ category: "J4", startedAfter: 1 })).toBe(2);
      await waits.cancel();
    });

    test("J5 time_stop: 0 until it has ended", async () => {
      const job = await jobs.schedule(fn("sleep"), { args: [200] });
      expect((await job.load()).time_stop).toBe(0);
      expect((await job.settled()).time_stop).toBeGreaterThan(0);
      expect(fieldOf("time_stop")).toMatchObject({ default: 0, indexed: false });
    });

    test("J6 state: NEW by default, never empty, and jobs are found by it", async () => {
      const own = bench.jobs();
      const job = await own.schedule(fn("add"), { args: [1, 2] });
      expect((await job.load()).state).toBe("NEW");
      expect(fieldOf("state")).toMatchObject({ default: "NEW", indexed: true });
      expect(await own.count({ state: "NEW" })).toBe(1);
      expect(await own.count({ state: ["RUNNING", "OK", "ERROR"] })).toBe(0);
      await job.cancel();
      expect((await all(own.list({ state: "ERROR" }))).map(({ id }) => id)).toEqual([job.id]);
    });

    test("J7 timeout: 0 by default, which does not end the job", async () => {
      const job = await jobs.schedule(fn("sleep"), { args: [300] });
      const settled = await job.settled();
      expect(settled.timeout).toBe(0);
      expect(settled.state).toBe("OK");
      const other = await jobs.schedule(fn("add"), { args: [1, 2], timeoutMs: 2500 });
      expect((await other.load()).timeout).toBe(2.5);
    });

    test("J8 action_id: the jobs of an action are found by it", async () => {
      const own = bench.jobs();
      const [one, two] = await own.scheduleAll([
        { fn: fn("add"), args: [1, 2] },
        { fn: fn("add"), args: [3, 4] },
        { fn: fn("divide"), args: [1, 2] },
      ]);
      const { action_id } = await one!.load();
      expect((await all(own.list({ action: action_id }))).map(({ id }) => id)).toEqual([one!.id, two!.id]);
      expect(await own.count({ action: action_id, state: "NEW" })).toBe(2);
    });

    test("J9 args: a list, as JSON there and back", async () => {
      const args = [1, "two", null, true, { three: [3.5, -0.25] }, ["ü€😀", ""]];
      const job = await jobs.schedule(fn("echo"), { args });
      expect((await job.load()).args).toEqual(args);
      expect(await job.wait()).toEqual(args);
    });

    test("J10 kwargs: by name, as JSON there and back", async () => {
      const kwargs = { name: "x", timeout: 3, nested: { list: [1] } };
      const job = await jobs.schedule(fn("echo"), { kwargs });
      expect((await job.load()).kwargs).toEqual(kwargs);
      expect(await job.wait()).toEqual([kwargs]);
    });

    test("J11 result: the value that was returned, as JSON", async () => {
      expect(await (await jobs.schedule(fn("add"), { args: [1, 2] })).wait()).toBe(3);
      expect(await (await jobs.schedule(fn("nothing"))).wait()).toBeNull();
      const nested = { a: [{ b: null }], c: "d" };
      expect(await (await jobs.schedule(fn("sleep"), { args: [0, nested] })).wait()).toEqual(nested);
    });

    test("J12 error: the stack trace, with file, function and line", async () => {
      const job = await jobs.schedule(fn("divide"), { args: [1, 0] });
      expect((await job.load()).error).toBeNull();
      const { error } = await job.settled();
      expect(error?.message).toBe("division by zero");
      expect(error?.type).toBe("RangeError");
      expect(error?.traceback).toMatch(/RangeError: division by zero\n\s+at divide .*sums\.mjs:\d+:\d+/);
      expect(error?.frames?.[0]).toMatchObject({ function: "divide" });
      expect(error?.frames?.[0]?.file).toContain("sums.mjs");
      expect(error?.frames?.[0]?.line).toBeGreaterThan(10);
    });

    test("J13 return_queues: a list of texts, empty by default", async () => {
      const plain = await jobs.schedule(fn("add"), { args: [1, 2] });
      expect((await plain.load()).return_queues).toEqual([]);
      const named = await jobs.schedule(fn("add"), { args: [1, 2], returnQueues: ["J13-a", "J13-b"] });
      expect((await named.load()).return_queues).toEqual(["J13-a", "J13-b"]);
    });

    test("J14 category of an event: J for a job, apart from the job's own", async () => {
      const since = (await pool.events()[Symbol.asyncIterator]().next()).value!.seq;
      const job = await jobs.schedule(fn("add"), { args: [1, 2], category: "W" });
      await job.wait();
      for await (const event of pool.events({ since })) {
        if (event.id !== job.id || event.data.state !== "OK") continue;
        expect(event.category).toBe("J");
        break;
      }
      expect((await job.load()).category).toBe("W");
    });

    test("J15 time_start: when it was begun, not when it was scheduled", async () => {
      const job = await jobs.schedule(fn("sleep"), { args: [10], delayMs: 150 });
      const { createdAt, time_start, time_stop } = await job.settled();
      expect(time_start).toBeGreaterThanOrEqual(createdAt + 150);
      expect(time_stop).toBeGreaterThanOrEqual(time_start);
    });

    test("J16 time_stop: when it stopped, in OK and in ERROR", async () => {
      const good = await (await jobs.schedule(fn("sleep"), { args: [50] })).settled();
      const bad = await (await jobs.schedule(fn("divide"), { args: [1, 0] })).settled();
      expect(good.time_stop - good.time_start).toBeGreaterThanOrEqual(45);
      expect(bad.time_stop).toBeGreaterThanOrEqual(bad.time_start);
      expect(bad.time_start).toBeGreaterThan(0);
    });

    test("J17 final states: exactly OK and ERROR, and they stay", async () => {
      const good = await jobs.schedule(fn("add"), { args: [1, 2] });
      const bad = await jobs.schedule(fn("divide"), { args: [1, 0] });
      expect((await good.settled()).state).toBe("OK");
      expect((await bad.settled()).state).toBe("ERROR");
      expect(await good.cancel()).toBe(false);
      expect((await good.load()).state).toBe("OK");
    });

    test("J18 action_id: refers to a stored function", async () => {
      const job = await jobs.schedule(fn("add"), { args: [1, 2] });
      const { action_id } = await job.load();
      expect(await jobs.action(action_id)).toMatchObject({
        key: action_id,
        methodname: "add",
        kind: "module",
      });
    });

    test("J19 result: computed with both args and kwargs", async () => {
      const job = await jobs.schedule(fn("withKwargs"), { args: [1], kwargs: { b: 2, c: 4 } });
      expect(await job.wait()).toEqual({ sum: 7 });
    });

    test("J20 return queues: the outcome is in each of them once, on OK and on ERROR", async () => {
      const returnQueues = ["J20-a", "J20-b"];
      const good = await jobs.schedule(fn("add"), { args: [1, 2], returnQueues });
      await good.wait();
      const bad = await jobs.schedule(fn("divide"), { args: [1, 0], returnQueues });
      await bad.settled();
      for (const name of returnQueues) {
        const queue = jobs.returnQueue(name);
        expect(await queue.size()).toBe(2);
        const [first, second] = await queue.take(2);
        expect(first).toMatchObject({ id: good.id, state: "OK", result: 3, error: null });
        expect(second).toMatchObject({ id: bad.id, state: "ERROR", result: null });
        expect(second?.error?.message).toBe("division by zero");
        expect(await queue.size()).toBe(0);
      }
    });

    // ---- beyond the rows

    test("waiting: a failed job throws, a short time-out throws, a deleted job is gone", async () => {
      const bad = await jobs.schedule(fn("divide"), { args: [1, 0] });
      await expect(bad.wait()).rejects.toThrow(JobFailedError);
      await expect(bad.result).rejects.toThrow("division by zero");
      const slow = await jobs.schedule(fn("add"), { args: [1, 2], delayMs: 60_000 });
      await expect(slow.wait({ timeoutMs: 50 })).rejects.toThrow(WaitTimeoutError);
      await expect(slow.wait({ timeoutMs: -1 })).rejects.toMatchObject({ code: "bad_argument" });
      await expect(slow.wait({ signal: AbortSignal.timeout(50) })).rejects.toThrow("timeout");
      const waiting = expect(slow.wait()).rejects.toMatchObject({ code: "gone" });
      await slow.delete();
      await waiting;
      await expect(jobs.wait(["00000000-0000-7000-8000-000000000000"])).rejects.toMatchObject({
        code: "no_such_work_unit",
      });
    });

    test("a schedule that is refused leaves the return queues as they are", async () => {
      const done = await jobs.schedule(fn("add"), { name: "kept", args: [1, 2], returnQueues: ["full"] });
      await done.wait();
      const queue = jobs.returnQueue("full");
      expect(await queue.size()).toBe(1);
      const reset = { returnQueues: ["full"], resetReturnQueues: true };
      for (const [refused, code] of [
        [{ name: "kept" }, "name_exists"],
        [{ dependencies: ["00000000-0000-7000-8000-000000000000"] }, "bad_dependency"],
        [{ id: done.id }, "name_exists"],
      ] as const)
        await expect(jobs.schedule(fn("add"), { ...reset, ...refused })).rejects.toMatchObject({ code });
      expect(await queue.size()).toBe(1);
      await (await jobs.schedule(fn("add"), { ...reset, args: [3, 4] })).wait();
      expect((await queue.take(1)).map(({ result }) => result)).toEqual([7]);
      expect(await queue.size()).toBe(0);
    });

    test("waiting for several throws at the first failure, or when all have ended where it is told so", async () => {
      const own = bench.jobs();
      const pair = await own.startPool({ ...quick, workers_nr_min: 2, workers_nr_max: 2 });
      try {
        const slow = await own.schedule(fn("sleep"), { args: [20_000] });
        const failing = await own.schedule(fn("divide"), { args: [1, 0] });
        const began = Date.now();
        await expect(own.wait([slow, failing])).rejects.toThrow("division by zero");
        await expect(own.results([slow, failing])).rejects.toThrow("division by zero");
        expect(Date.now() - began).toBeLessThan(10_000);
        await expect(own.wait([slow, failing], { failFast: false, timeoutMs: 300 })).rejects.toMatchObject({
          name: "WaitTimeoutError",
          waitedFor: [slow.id],
        });
        await slow.cancel();
      } finally {
        await pair.stop({ graceful: false });
      }
    }, 60_000);

    test("a job whose only worker died ends by itself, though no other worker comes", async () => {
      const own = bench.jobs();
      const job = await own.schedule(fn("add"), { args: [1, 2], returnQueues: ["lost"] });
      const again = await own.schedule(fn("add"), { args: [1, 2], retries: 1 });
      for (let taken = 0; taken < 2; taken++)
        await bench.coordinate.requestAttempts(own.namespace, { worker: "dead/1", lifetimeMs: 300 });
      // without a caller that waits for the job, and without requests for jobs
      await until("it has ended", async () => (await own.count({ state: "ERROR" })) === 1);
      const { state, error_cat, error } = await job.settled({ timeoutMs: 20_000 });
      expect([state, error_cat]).toEqual(["ERROR", "CRASH"]);
      expect(error?.message).toBe("the lease of worker dead/1 ended");
      expect(await own.returnQueue("lost").size()).toBe(1);
      // the job with a retry left waits for a worker
      await expect(again.settled({ timeoutMs: 4000 })).rejects.toMatchObject({ name: "WaitTimeoutError" });
      expect((await again.load()).state).toBe("NEW");
    }, 60_000);

    test("takeAll: what is in several queues, each outcome once", async () => {
      const both = await jobs.schedule(fn("add"), { args: [1, 1], returnQueues: ["left", "right"] });
      const one = await jobs.schedule(fn("add"), { args: [2, 2], returnQueues: ["right"] });
      await jobs.wait([both, one]);
      const taken = await jobs.takeAll(["left", "right", "left"]);
      expect(taken.map(({ result }) => result).sort()).toEqual([2, 4]);
      expect(await jobs.takeAll(["left", "right"])).toEqual([]);
    });

    test("ids: one that is made beforehand is the job's, once", async () => {
      const id = jobs.newId();
      const job = await jobs.schedule(fn("add"), { id, args: [1, 2] });
      expect(job.id).toBe(id);
      expect(await job.wait()).toBe(3);
      await expect(jobs.schedule(fn("add"), { id })).rejects.toMatchObject({ code: "name_exists" });
      await expect(jobs.schedule(fn("add"), { id: "mine" })).rejects.toMatchObject({ code: "bad_argument" });
    });

    test("retention is set on the queue, also on one that is there", async () => {
      const own = bench.jobs();
      await own.schedule(fn("add"));
      const again = bench.jobs({ namespace: own.namespace, retention: { finishedMs: 60_000 } });
      await again.schedule(fn("add"));
      const retentionOf = async (): Promise<unknown> =>
        (await bench.coordinate.getWorkSpecs(own.namespace, ["jobs"]))[0]?.meta.retention;
      expect(await retentionOf()).toEqual({ finished: { maxAgeMs: 60_000 } });
      await bench.jobs({ namespace: own.namespace }).schedule(fn("add"));
      expect(await retentionOf()).toEqual({ finished: { maxAgeMs: 60_000 } });
    });

    test("names: unique, unless the caller says what to do", async () => {
      const own = bench.jobs();
      const first = await own.schedule(fn("add"), { name: "sum", args: [1, 2] });
      await expect(own.schedule(fn("add"), { name: "sum" })).rejects.toMatchObject({ code: "name_exists" });
      expect(await own.count()).toBe(1);
      const same = await own.schedule(fn("add"), { name: "sum", onConflict: "return" });
      expect(same.id).toBe(first.id);
      const next = await own.schedule(fn("add"), { name: "sum", args: [5, 5], onConflict: "replace" });
      expect(next.id).not.toBe(first.id);
      expect((await own.load("sum")).args).toEqual([5, 5]);
      expect(await own.count()).toBe(1);
      await expect(own.load("difference")).rejects.toMatchObject({ code: "no_such_work_unit" });
      // of several concurrent calls, exactly one gets the name
      const race = await Promise.allSettled(
        Array.from({ length: 5 }, () => own.schedule(fn("add"), { name: "raced" })),
      );
      expect(race.filter(({ status }) => status === "fulfilled")).toHaveLength(1);
    });

    test("cancel: a job that waits and one that runs are HALTED, and waiters wake", async () => {
      const waits = await jobs.schedule(fn("add"), { args: [1, 2], delayMs: 60_000 });
      const waiting = waits.settled();
      expect(await waits.cancel("not needed")).toBe(true);
      expect(await waiting).toMatchObject({ state: "ERROR", error_cat: "HALTED" });
      expect((await waits.load()).error?.message).toBe("not needed");
      const file = bench.file("signal");
      const runs = await jobs.schedule(fn("untilSignal"), { args: [file], returnQueues: ["cancelled"] });
      await until("it runs", async () => (await runs.load()).state === "RUNNING");
      expect(await runs.cancel()).toBe(true);
      expect(await runs.settled()).toMatchObject({ state: "ERROR", error_cat: "HALTED" });
      expect(await runs.cancel()).toBe(false);
      await until("its worker is free", () => [...pool.workers.values()].every(({ isBusy }) => !isBusy));
      expect((await runs.load()).state).toBe("ERROR");
      expect(await jobs.returnQueue("cancelled").size()).toBe(1);
    });

    test("retries: tried again as often as it may be, then ERROR", async () => {
      const file = bench.file("tries");
      const good = await jobs.schedule(fn("failTimes"), { args: [file, 2], retries: 2, retryDelayMs: 10 });
      expect(await good.wait()).toBe(3);
      expect((await good.load()).attempts).toBe(3);
      const bad = await jobs.schedule(fn("failTimes"), { args: [bench.file("tries"), 5], retries: 1 });
      expect(await bad.settled()).toMatchObject({ state: "ERROR", attempts: 2 });
    });

    test("progress: what the function tells is kept with the job", async () => {
      const job = await jobs.schedule(fn("progress"), { name: "walk" });
      expect(await job.wait()).toBe("walk");
    });

    test("priority and order: higher first, else first in, first out", async () => {
      const own = bench.jobs();
      const file = bench.file("order");
      const make = (line: string, priority: number) => ({ fn: fn("note"), args: [file, line], priority });
      await own.scheduleAll([make("a", 0), make("b", 0), make("c", 5), make("d", 0)]);
      const one = await own.startPool({ ...quick, workers_nr_max: 1 });
      await own.wait((await all(own.list())).map(({ id }) => id));
      await one.stop();
      const done = (await all(own.list())).sort(
        (x, y) => x.time_start - y.time_start || (x.id < y.id ? -1 : 1),
      );
      expect(done[0]?.args[1]).toBe("c");
      expect(done.slice(1).map(({ args }) => args[1])).toEqual(["a", "b", "d"]);
    });

    test("bad input: refused with its name, and nothing is stored", async () => {
      const own = bench.jobs();
      const refuse = async (
        work: () => Promise<unknown>,
        message: RegExp,
        code = "bad_argument",
      ): Promise<void> => {
        await expect(work).rejects.toMatchObject({ code });
        await expect(work).rejects.toThrow(message);
      };
      const cycle: Record<string, unknown> = {};
      cycle.self = cycle;
      await refuse(() => own.schedule(fn("add"), { args: [1n] }), /args\[0\].*BigInt/);
      await refuse(() => own.schedule(fn("add"), { args: [cycle] }), /args\[0\]\.self: contains itself/);
      await refuse(() => own.schedule(fn("add"), { kwargs: { f: () => 1 } }), /kwargs\.f: a function/);
      await refuse(() => own.schedule(fn("add"), { timeoutMs: -1 }), /timeoutMs/);
      await refuse(() => own.schedule(fn("add"), { retries: 1.5 }), /retries/);
      await refuse(() => own.schedule(fn("add"), { name: "" }), /name/);
      await refuse(() => own.schedule(fn("add"), { category: "x".repeat(300) }), /category/);
      await refuse(() => own.schedule(fn("add"), { timeout: 3 } as object), /timeout: unknown option/);
      await refuse(() => own.schedule({ module: "" }), /module/);
      await refuse(() => own.schedule({ module: "node:fs" }), /module/);
      await refuse(() => own.schedule(() => 1), /inline/, "not_supported");
      await refuse(
        () => own.schedule(fn("add"), { dependencies: ["00000000-0000-7000-8000-000000000000"] }),
        /job .* does not exist/,
        "bad_dependency",
      );
      const circle = [
        { fn: fn("add"), name: "one", dependencies: ["two"] },
        { fn: fn("add"), name: "two", dependencies: ["one"] },
      ];
      await refuse(() => own.scheduleAll(circle), /cycle/, "dependency_cycle");
      expect(await own.count()).toBe(0);
    });
  });
}
