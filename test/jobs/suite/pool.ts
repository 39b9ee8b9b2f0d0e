/** The guarantees for a pool: the number of its workers, its two loops, its queues, and how it stops. */
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { availableParallelism } from "node:os";
import { setTimeout } from "node:timers/promises";
import { override } from "../../../src/core/index.ts";
import { openJobs, singleName, type JobEvent, type JobPool, type Jobs } from "../../../src/jobs/index.ts";
import { isAlive, until } from "../../worker/process/processes.ts";
import { Bench, fn, linesOf, quick, quickSingle, type Stack } from "../stack.ts";

const running = (pool: JobPool): number => pool.workers.size;

/** The store shows a job as RUNNING slightly before its worker has it. A worker that is stopped in between returns the job. */
const busy = (pool: JobPool): number => [...pool.workers.values()].filter(({ isBusy }) => isBusy).length;

export function poolSuite(stack: Stack): void {
  describe(`pool on ${stack.name}`, () => {
    let bench: Bench;
    beforeAll(async () => {
      bench = await Bench.open(stack);
    }, 120_000);
    afterAll(() => bench.close());

    const withPool = async (
      options: object,
      work: (jobs: Jobs, pool: JobPool) => Promise<void>,
    ): Promise<void> => {
      const jobs = bench.jobs();
      const pool = await jobs.startPool({ ...quick, ...options });
      try {
        await work(jobs, pool);
      } finally {
        await pool.stop({ graceful: false });
      }
    };

    test("D1 the pool runs tasks through workers that it manages", () =>
      withPool({ workers_nr_max: 1 }, async (jobs, pool) => {
        const job = await jobs.schedule(fn("add"), { args: [1, 2] });
        expect(await job.wait()).toBe(3);
        const { worker } = await job.load();
        expect([...pool.workers.values()].some(({ name }) => worker.startsWith(name))).toBe(true);
      }));

    test("D2 the pool keeps its workers by number", () =>
      withPool({ workers_nr_min: 2, workers_nr_max: 2 }, async (jobs, pool) => {
        await until("both are there", async () => (await jobs.workers.list({ running: true })).length === 2);
        expect([...pool.workers.keys()]).toEqual([1, 2]);
        const records = await jobs.workers.list({ pool: pool.name });
        expect(records.map(({ nr }) => nr)).toEqual([1, 2]);
        expect(records.every((record) => record.type === "process" && record.pool === pool.name)).toBe(true);
      }));

    test("D3 workers_nr_max: the number of processors by default", async () => {
      const jobs = bench.jobs();
      const pool = await jobs.startPool({ ...quick });
      expect(pool.workersMax).toBe(availableParallelism());
      await pool.stop();
      await expect(jobs.startPool({ ...quick, workers_nr_max: 0 })).rejects.toMatchObject({
        code: "bad_argument",
      });
      await expect(jobs.startPool({ ...quick, workers_nr_min: 3, workers_nr_max: 2 })).rejects.toThrow(
        /workers_nr_max/,
      );
    });

    test("D4 workers_nr_min: 1 by default, 0 is allowed and starts one when there is work", async () => {
      await withPool({}, async (_jobs, pool) => {
        expect(pool.workersMin).toBe(1);
        expect(running(pool)).toBe(1);
      });
      await withPool({ workers_nr_min: 0, workers_nr_max: 1 }, async (jobs, pool) => {
        expect(running(pool)).toBe(0);
        expect(await (await jobs.schedule(fn("add"), { args: [1, 2] })).wait()).toBe(3);
        await until("it is taken away again", () => running(pool) === 0);
      });
      const jobs = bench.jobs();
      await expect(jobs.startPool({ ...quick, workers_nr_min: -1 })).rejects.toMatchObject({
        code: "bad_argument",
      });
    });

    test("a worker is not stopped as idle while its first claim takes longer than the idle timeout", async () => {
      const { coordinate } = bench;
      const slow = override(coordinate, {
        requestAttempts: async (ns, request) => {
          await setTimeout(3 * quick.idleTimeoutMs!);
          const rows = await coordinate.requestAttempts(ns, request);
          await setTimeout(3 * quick.idleTimeoutMs!);
          return rows;
        },
      });
      const jobs = openJobs(slow, { namespace: "slow claims" });
      const pool = await jobs.startPool({ ...quick, workers_nr_min: 0, workers_nr_max: 1 });
      try {
        const job = await jobs.schedule(fn("add"), { args: [1, 2] });
        expect(await job.wait({ timeoutMs: 20_000 })).toBe(3);
        expect((await job.load()).attempts).toBe(1);
        await until("it is taken away again", () => running(pool) === 0);
      } finally {
        await pool.stop({ graceful: false });
      }
    });

    test("M1 two loops: the main loop and the data loop", () =>
      withPool({ workers_nr_max: 1 }, async (_jobs, pool) => {
        expect(pool.loops).toEqual(["mainloop", "dataloop"]);
      }));

    test("M2 M3 D5 the main loop starts processes when work waits and takes them away again, always within the bounds", () =>
      withPool({ workers_nr_min: 1, workers_nr_max: 3 }, async (jobs, pool) => {
        const seen: number[] = [];
        // a slow machine may take a process away between two jobs and start another
        const started = new Set<number>();
        const look = setInterval(() => {
          seen.push(running(pool));
          for (const { pid } of pool.workers.values()) started.add(pid);
        }, 5);
        const handles = await jobs.scheduleAll(
          Array.from({ length: 8 }, () => ({ fn: fn("sleep"), args: [300] })),
        );
        await until("there are three", () => running(pool) === 3);
        await jobs.wait(handles);
        await until("there is one", () => running(pool) === 1);
        clearInterval(look);
        expect(Math.max(...seen)).toBe(3);
        expect(Math.min(...seen)).toBeGreaterThanOrEqual(1);
        expect([...started].filter(isAlive)).toEqual([...pool.workers.values()].map(({ pid }) => pid));
        expect(await jobs.count({ state: "OK" })).toBe(8);
      }));

    test("M4 workers that others started are neither counted nor taken away", () =>
      withPool({ workers_nr_max: 1 }, async (jobs, pool) => {
        const stop = new AbortController();
        const external = jobs.work({ ...quickSingle, signal: stop.signal });
        await until("it is there", async () => (await jobs.workers.list({ running: true })).length === 2);
        await Promise.all(
          (await jobs.scheduleAll([1, 2, 3].map((n) => ({ fn: fn("add"), args: [n, n] })))).map((job) =>
            job.wait(),
          ),
        );
        expect(running(pool)).toBe(1);
        await pool.stop();
        const left = await jobs.workers.list({ running: true });
        expect(left.map(({ id }) => id)).toEqual([singleName()]);
        expect(await (await jobs.schedule(fn("add"), { args: [1, 2] })).wait()).toBe(3);
        stop.abort();
        await external;
      }));

    test("M5 M6 the data loop takes what workers return and stores it, in order", () =>
      withPool({ workers_nr_max: 1 }, async (jobs, pool) => {
        const handles = await jobs.scheduleAll(
          Array.from({ length: 5 }, (_, n) => ({ fn: fn("add"), args: [n, 0] })),
        );
        expect(await jobs.results(handles)).toEqual([0, 1, 2, 3, 4]);
        await pool.stop();
        const events: JobEvent[] = [];
        for await (const event of pool.events()) events.push(event);
        expect(events.map(({ seq }) => seq)).toEqual(events.map((_, i) => i + 1));
        const done = events.filter(({ category, data }) => category === "J" && data.state === "OK");
        expect(done.map(({ id }) => id)).toEqual(handles.map(({ id }) => id));
      }));

    test("M7 a crash is noticed: the job is in CRASH, the worker has another process, the error is told", () =>
      withPool({ workers_nr_max: 1 }, async (jobs, pool) => {
        const before = [...pool.workers.values()][0]!.pid;
        expect(await (await jobs.schedule(fn("exit"), { args: [3] })).settled()).toMatchObject({
          state: "ERROR",
          error_cat: "CRASH",
        });
        expect((await (await jobs.schedule(fn("kill"))).settled()).error?.message).toMatch(
          /killed by SIGKILL/,
        );
        const rejected = await (await jobs.schedule(fn("reject"))).settled();
        expect(rejected.error?.traceback).toMatch(/^the process of the job exited with code 1\n/);
        expect(rejected.error?.traceback).toContain("Error: nobody awaited this\n    at reject ");
        expect(rejected.error?.traceback.length).toBeLessThan(5000);
        const after = await (await jobs.schedule(fn("pid"))).wait();
        expect(after).not.toBe(before);
        // the error is sent at once, without awaiting it, and with each heartbeat: an earlier heartbeat may arrive after it
        const told = async (): Promise<string> =>
          (await jobs.workers.list({ running: true }))[0]?.error ?? "";
        await expect.poll(told, { timeout: 20_000 }).toMatch(/SIGKILL|code [13]/);
        for await (const event of pool.events()) {
          if (event.category !== "E") continue;
          expect(event.data.message).toMatch(/code 3/);
          break;
        }
      }));

    test("Q1 Q2 queue: first in, first out, of jobs that wait for a worker", async () => {
      const jobs = bench.jobs();
      const file = bench.file("fifo");
      const lines = Array.from({ length: 12 }, (_, n) => `line ${n}`);
      for (const line of lines) await jobs.schedule(fn("note"), { args: [file, line] });
      expect(await jobs.queueSize()).toBe(12);
      const pool = await jobs.startPool({ ...quick, workers_nr_max: 1 });
      await until("it is empty", async () => (await jobs.count({ state: "OK" })) === 12);
      await pool.stop();
      expect(linesOf(file)).toEqual(lines);
      expect(await jobs.queueSize()).toBe(0);
    });

    /** Runs short jobs, which make claims larger: afterwards a worker claims its next jobs before it has finished the current one. */
    const shortJobs = async (jobs: Jobs): Promise<void> => {
      await jobs.wait(
        await jobs.scheduleAll(Array.from({ length: 100 }, (_, n) => ({ fn: fn("add"), args: [n, n] }))),
      );
    };

    test("short jobs that were claimed together with a long one are run by another worker", () =>
      withPool({ workers_nr_min: 2, workers_nr_max: 2 }, async (jobs, pool) => {
        await until("both are there", async () => (await jobs.workers.list({ running: true })).length === 2);
        await shortJobs(jobs);
        const file = bench.file("long");
        const [long, ...short] = await jobs.scheduleAll([
          { fn: fn("untilSignal"), args: [file] },
          ...Array.from({ length: 50 }, (_, n) => ({ fn: fn("add"), args: [n, 1] })),
        ]);
        expect(await jobs.results(short)).toEqual(short.map((_, n) => n + 1));
        expect((await long!.load()).state).toBe("RUNNING");
        expect(pool.workers.size).toBe(2);
        await long!.cancel();
      }));

    test("a job that was claimed behind a long one and given back has a process started for it", () =>
      // the main loop runs when a worker takes or returns a job; its timer fires only after the test
      withPool({ workers_nr_max: 2, tickMs: 600_000 }, async (jobs) => {
        for (let n = 0; n < 10; n++) await (await jobs.schedule(fn("add"), { args: [n, 1] })).wait();
        const [long, short] = await jobs.scheduleAll([
          { fn: fn("untilSignal"), args: [bench.file("long")] },
          { fn: fn("add"), args: [1, 2] },
        ]);
        expect(await short!.wait()).toBe(3);
        await long!.cancel();
      }));

    test("a job that was claimed behind another and is cancelled does not run", () =>
      withPool({ workers_nr_max: 1 }, async (jobs) => {
        await shortJobs(jobs);
        const [file, notes] = [bench.file("long"), bench.file("notes")];
        const [long, ...next] = await jobs.scheduleAll([
          { fn: fn("untilSignal"), args: [file] },
          ...Array.from({ length: 10 }, (_, n) => ({ fn: fn("note"), args: [notes, `line ${n}`] })),
        ]);
        await until("it runs", () => linesOf(file).length === 1);
        // several claims may be under way, and be answered in any order: some may have run before the long one, and end by the
        // cancellation if their outcomes are not stored yet
        const ran = new Set(linesOf(notes));
        const cancelled = new Map<string, (typeof next)[number]>();
        for (const [n, job] of next.entries()) if (await job.cancel()) cancelled.set(`line ${n}`, job);
        expect(cancelled.size).toBeGreaterThan(0);
        await long!.cancel();
        expect(await (await jobs.schedule(fn("add"), { args: [1, 2] })).wait()).toBe(3);
        expect(linesOf(notes).filter((line) => cancelled.has(line) && !ran.has(line))).toEqual([]);
        for (const { state, error_cat } of await jobs.settled([...cancelled.values()]))
          expect([state, error_cat]).toEqual(["ERROR", "HALTED"]);
      }));

    test("Q3 Q4 queue_data: ordered changes with category, id and record", () =>
      withPool({ workers_nr_max: 1 }, async (jobs, pool) => {
        const job = await jobs.schedule(fn("divide"), { args: [1, 0], name: "ratio" });
        await job.settled();
        await pool.stop();
        const own: unknown[] = [];
        const workers = new Set<unknown>();
        for await (const { category, id, data } of pool.events()) {
          if (category === "J" && id === job.id) own.push([data.state, data.error_cat]);
          if (category === "W") workers.add(data.state);
        }
        expect(own).toEqual([
          ["RUNNING", undefined],
          ["ERROR", "ERROR"],
        ]);
        expect(workers).toEqual(new Set(["WAITING", "BUSY", "HALTED"]));
      }));

    test("graceful stop: what runs comes to its end, what waits stays, no process is left", async () => {
      const jobs = bench.jobs();
      const pool = await jobs.startPool({ ...quick, workers_nr_max: 1 });
      const runs = await jobs.schedule(fn("sleep"), { args: [500] });
      const waits = await jobs.schedule(fn("add"), { args: [1, 2] });
      await until("it runs", () => busy(pool) === 1);
      const pids = [...pool.workers.values()].map(({ pid }) => pid);
      await Promise.all([pool.stop(), pool.stop()]);
      expect((await runs.load()).state).toBe("OK");
      expect((await waits.load()).state).toBe("NEW");
      expect(pids.filter(isAlive)).toEqual([]);
      const again = await jobs.startPool({ ...quick, workers_nr_max: 1 });
      expect(await waits.wait()).toBe(3);
      await again.stop();
    });

    test("hard stop: what runs is HALTED, also where it never lets go; waiters wake", async () => {
      const jobs = bench.jobs();
      const pool = await jobs.startPool({ ...quick, workers_nr_max: 2 });
      const [spins, again] = await jobs.scheduleAll([{ fn: fn("spin") }, { fn: fn("spin"), retries: 1 }]);
      await until("both run", () => busy(pool) === 2);
      const waiting = spins!.settled();
      await pool.stop({ graceful: false });
      expect(await waiting).toMatchObject({ state: "ERROR", error_cat: "HALTED" });
      expect(await again!.load()).toMatchObject({ state: "NEW", attempts: 1 });
    });

    test("a graceful stop that takes too long becomes a hard one", async () => {
      const jobs = bench.jobs();
      const pool = await jobs.startPool({ ...quick, workers_nr_max: 1 });
      const spins = await jobs.schedule(fn("spin"));
      await until("it runs", () => busy(pool) === 1);
      await pool.stop({ timeoutMs: 100 });
      expect(await spins.load()).toMatchObject({ state: "ERROR", error_cat: "HALTED" });
    });

    test("reset: no jobs, no actions, no outcomes are left, and work goes on", () =>
      withPool({ workers_nr_max: 1 }, async (jobs) => {
        await (await jobs.schedule(fn("add"), { args: [1, 2], returnQueues: ["q"] })).wait();
        await jobs.reset({ confirm: true });
        expect(await jobs.count()).toBe(0);
        expect(await jobs.returnQueue("q").size()).toBe(0);
        for await (const action of jobs.actions()) expect(action).toBeUndefined();
        expect(await (await jobs.schedule(fn("add"), { args: [1, 2] })).wait()).toBe(3);
      }));

    test("a worker that cannot be started is told at once", async () => {
      const jobs = bench.jobs();
      const options = { ...quick, workers_nr_max: 1 };
      await expect(jobs.startPool({ ...options, roots: ["/no/such/folder"] })).rejects.toThrow(
        /is not a folder/,
      );
      await expect(jobs.startPool({ ...options, execArgv: ["--no-such-flag"] })).rejects.toThrow(
        /no-such-flag|code 9/,
      );
      await expect(jobs.startPool({ ...options, min: 3 } as object)).rejects.toThrow(/min: unknown option/);
    });
  });
}
