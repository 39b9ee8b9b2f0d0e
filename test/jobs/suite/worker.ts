/** The guarantees for workers: their records, halting, one-time workers, and the iterations of their loop. */
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import {
  schemas,
  singleName,
  workerSchema,
  type JobPool,
  type Jobs,
  type JobWorkerRecord,
  type SingleOptions,
} from "../../../src/jobs/index.ts";
import { isAlive, until } from "../../worker/process/processes.ts";
import { Bench, fn, functions, linesOf, quick, quickSingle, type Stack } from "../stack.ts";

const defaultOf = (name: string): unknown =>
  workerSchema.fields.find((field) => field.name === name)?.default;

export function workerSuite(stack: Stack): void {
  describe(`worker on ${stack.name}`, () => {
    let bench: Bench;
    let jobs: Jobs;
    let pool: JobPool;
    const first = async (): Promise<JobWorkerRecord> => {
      const [worker] = await jobs.workers.list({ running: true });
      if (worker === undefined) throw new Error("there is no worker");
      return worker;
    };

    const single: SingleOptions = { ...quickSingle, type: "inprocess" };
    beforeAll(async () => {
      bench = await Bench.open(stack);
      jobs = bench.jobs();
      pool = await jobs.startPool({ ...quick, workers_nr_max: 1 });
    }, 120_000);
    afterAll(async () => {
      await pool.stop({ graceful: false });
      await bench.close();
    });

    test("W1 tasks: a worker takes jobs from the queue", async () => {
      const own = bench.jobs();
      const job = await own.schedule(fn("add"), { args: [1, 2] });
      expect(await own.queueSize()).toBe(1);
      await own.work({ ...single, onetime: true });
      expect(await own.queueSize()).toBe(0);
      expect(await job.wait()).toBe(3);
    });

    test("W2 results: a worker puts them into the queues that the job names", async () => {
      const job = await jobs.schedule(fn("add"), { args: [1, 2], returnQueues: ["W2"] });
      const [outcome] = await jobs.returnQueue("W2").take(1, { timeoutMs: 20_000 });
      expect(outcome).toMatchObject({ id: job.id, state: "OK", result: 3 });
    });

    test("W3 schema: the worker has a stable identifier in the listing", () => {
      expect(workerSchema.url).toBe("jumpscale.myjobs.worker");
      expect(schemas).toContain(workerSchema);
    });

    test("W4 timeout: 3600 s by default; it ends a job that has none of its own", async () => {
      expect((await first()).timeout).toBe(3600);
      expect(defaultOf("timeout")).toBe(3600);
      const own = bench.jobs();
      const strict = await own.startPool({ ...quick, workers_nr_max: 1, timeoutMs: 300 });
      const spins = await own.schedule(fn("spin"));
      expect(await spins.settled()).toMatchObject({ state: "ERROR", error_cat: "TIMEOUT", timeout: 0 });
      // the timeout of the job overrides that of the worker
      const longer = await own.schedule(fn("sleep"), { args: [600], timeoutMs: 20_000 });
      expect(await longer.wait()).toBe("OK");
      await strict.stop();
    });

    test("W5 time_start: when the worker was started", async () => {
      const { time_start } = await first();
      expect(time_start).toBeGreaterThan(Date.now() - 120_000);
      expect(time_start).toBeLessThanOrEqual(Date.now());
      expect(defaultOf("time_start")).toBe(0);
    });

    test("W6 last_update: a heartbeat, also while a job runs", async () => {
      const { last_update: idle } = await first();
      await until("it was heard of again", async () => (await first()).last_update > idle);
      const job = await jobs.schedule(fn("sleep"), { args: [1500] });
      await until("it is busy", async () => (await first()).state === "BUSY");
      const { last_update: before } = await first();
      await until("it was heard of while busy", async () => {
        const now = await first();
        return now.last_update > before && now.current_job === job.id;
      });
      await job.wait();
      expect(defaultOf("last_update")).toBe(0);
    });

    test("W7 current_job: the job that it runs, empty when it has none", async () => {
      const job = await jobs.schedule(fn("sleep"), { args: [500] });
      await until("it runs the job", async () => (await first()).current_job === job.id);
      expect((await first()).state).toBe("BUSY");
      await job.wait();
      await until("it has nothing to do", async () => (await first()).current_job === "");
      expect((await first()).state).toBe("WAITING");
    });

    test("W8 halt: a request, which the worker obeys when its job has ended", async () => {
      const own = bench.jobs();
      const two = await own.startPool({ ...quick, workers_nr_min: 2, workers_nr_max: 2 });
      await until("both are there", async () => (await own.workers.list({ running: true })).length === 2);
      const [one, other] = await own.workers.list({ running: true });
      expect(one?.halt).toBe(false);
      const job = await own.schedule(fn("sleep"), { args: [300] });
      await until("somebody runs it", async () => (await job.load()).state === "RUNNING");
      const { worker } = await job.load();
      const busy = worker.startsWith(`${one!.id}/`) ? one! : other!;
      await own.workers.halt(busy.id);
      expect(await job.wait()).toBe("OK");
      // the pool may replace it at once with another process of the same number
      await until("its process has ended", () => !isAlive(busy.pid));
      const left = busy === one ? other! : one!;
      expect(isAlive(left.pid)).toBe(true);
      await two.stop();
      await expect(own.workers.halt("nobody")).rejects.toMatchObject({ code: "no_such_worker" });
    });

    test("W9 running: true while the worker runs, false after", async () => {
      const own = bench.jobs();
      const one = await own.startPool({ ...quick, workers_nr_max: 1 });
      const [running] = await own.workers.list();
      expect(running).toMatchObject({ running: true, state: "WAITING" });
      await one.stop();
      const [stopped] = await own.workers.list();
      expect(stopped).toMatchObject({ running: false, state: "HALTED", pid: 0, current_job: "" });
      expect(defaultOf("running")).toBe(false);
    });

    test("W10 pid: that of the process which runs the functions", async () => {
      const { pid } = await first();
      expect(pid).toBe(await (await jobs.schedule(fn("pid"))).wait());
      expect(pid).not.toBe(process.pid);
      expect(isAlive(pid)).toBe(true);
      expect(defaultOf("pid")).toBe(0);
    });

    test("D6 direct start: with an id, once or not, silent or not", async () => {
      const own = bench.jobs();
      const stop = new AbortController();
      const running = own.work({ ...single, signal: stop.signal });
      await until("it is there", async () => (await own.workers.list({ running: true })).length === 1);
      const [worker] = await own.workers.list();
      expect(worker).toMatchObject({
        id: singleName(),
        nr: 999999,
        type: "inprocess",
        pool: "",
        pid: process.pid,
      });
      expect(await (await own.schedule(fn("add"), { args: [1, 2] })).wait()).toBe(3);
      expect(await (await own.schedule(fn("add"), { args: [3, 4] })).wait()).toBe(7);
      stop.abort();
      await running;
      expect((await own.workers.get(singleName())).state).toBe("HALTED");
      const job = await own.schedule(fn("pid"));
      await own.work({ ...quickSingle, id: 7, onetime: true });
      expect((await own.workers.get(singleName(7))).type).toBe("external");
      expect(await job.wait()).not.toBe(process.pid);
      await expect(own.work({ id: 0 })).rejects.toMatchObject({ code: "bad_argument" });
    });

    test("D7 onetime: one turn of the loop", async () => {
      const own = bench.jobs();
      const file = bench.file("once");
      await own.scheduleAll([1, 2, 3].map((n) => ({ fn: fn("note"), args: [file, String(n)] })));
      await own.work({ ...single, onetime: true });
      expect(linesOf(file)).toEqual(["1"]);
      expect(await own.count({ state: "OK" })).toBe(1);
      expect(await own.count({ state: "NEW" })).toBe(2);
    });

    test("D8 onetime: one run of the job even if it failed, whatever it says of retries", async () => {
      const own = bench.jobs();
      const job = await own.schedule(fn("failTimes"), { args: [bench.file("fails"), 9], retries: 5 });
      await own.work({ ...single, onetime: true });
      expect(await job.settled()).toMatchObject({ state: "ERROR", attempts: 1 });
    });

    test("D9 showout: prints what is executed and what came of it; silent when false", async () => {
      const own = bench.jobs();
      const lines: string[] = [];
      const print = (line: string): void => void lines.push(line);
      await own.schedule(fn("add"), { args: [1, 2], name: "sum" });
      await own.work({ ...single, onetime: true, print });
      expect(lines).toEqual([]);
      await own.schedule(fn("divide"), { args: [1, 0], name: "ratio" });
      await own.work({ ...single, onetime: true, showout: true, print });
      expect(lines.join("\n")).toMatch(
        /execute ratio \.\/sums\.mjs#divide[^]*ERROR ratio \(ERROR\)[^]*division by zero/,
      );
      lines.length = 0;
      await own.schedule(fn("print"), { args: ["hello from the function"] });
      await own.work({ ...quickSingle, onetime: true, showout: true, print });
      expect(lines.join("\n")).toContain("stdout: hello from the function");
    });

    test("L1 a turn begins with the id of a job, the one that waits longest", async () => {
      const own = bench.jobs();
      const [one] = await own.scheduleAll([{ fn: fn("add") }, { fn: fn("add") }]);
      await own.work({ ...single, onetime: true });
      expect((await one!.load()).state).not.toBe("NEW");
      expect(await own.count({ state: "NEW" })).toBe(1);
    });

    test("L2 a turn goes on only when there is such a job: what is none is skipped, and the worker survives", async () => {
      await bench.coordinate.addWorkUnits(jobs.namespace, "jobs", [{ name: "0-not-a-job", data: null }]);
      const gone = await jobs.schedule(fn("add"), { delayMs: 60_000 });
      await gone.delete();
      expect(await (await jobs.schedule(fn("add"), { args: [1, 2] })).wait()).toBe(3);
      const [row] = await bench.coordinate.awaitWorkUnits(jobs.namespace, "jobs", ["0-not-a-job"], {
        waitMs: 20_000,
      });
      expect(row?.status).toBe("failed");
      expect(String(row?.data)).toContain("expected an action");
    });

    test("L3 the action is found through action_id", async () => {
      const job = await jobs.schedule(fn("withKwargs"), { args: [1], kwargs: { b: 1, c: 1 } });
      await job.wait();
      expect(await jobs.action((await job.load()).action_id)).toMatchObject({ methodname: "withKwargs" });
    });

    test("L4 the function is loaded by its kind, and found by its name", async () => {
      const own = bench.jobs({ inline: true });
      await own.allowInline();
      const inline = await own.schedule((a: number, b: number) => a * b, { args: [6, 7] });
      const module = await own.schedule(fn("add"), { args: [6, 7] });
      for (let turns = 0; turns < 2; turns++)
        await own.work({ ...single, roots: [functions], inline: true, onetime: true });
      expect(await inline.wait({ timeoutMs: 100 })).toBe(42);
      expect(await module.wait({ timeoutMs: 100 })).toBe(13);
    });

    test("L5 args and kwargs are those of the stored job", async () => {
      const args = [{ list: [1] }];
      const job = await jobs.schedule(fn("echo"), { args, kwargs: { k: "v" }, delayMs: 100 });
      args[0]!.list.push(2);
      expect(await job.wait()).toEqual([{ list: [1] }, { k: "v" }]);
    });

    test("L6 the function is called with both", async () => {
      const job = await jobs.schedule(fn("echo"), { args: [1, 2], kwargs: { three: 3 } });
      expect(await job.wait()).toEqual([1, 2, { three: 3 }]);
    });

    test("L7 success: the result and OK are there together", async () => {
      const job = await jobs.schedule(fn("sleep"), { args: [100, "done"] });
      await until("it is OK", async () => {
        const { state, result, time_stop } = await job.load();
        expect(state === "OK").toBe(result === "done");
        expect(state === "OK").toBe(time_stop > 0);
        return state === "OK";
      });
    });

    test("L8 exception: the stack trace and ERROR are there together", async () => {
      const job = await jobs.schedule(fn("divide"), { args: [1, 0] });
      await until("it is in ERROR", async () => {
        const { state, error } = await job.load();
        expect(state === "ERROR").toBe(error !== null);
        return state === "ERROR";
      });
      expect((await (await jobs.schedule(fn("throwText"))).settled()).error?.message).toContain("only text");
    });

    test("L9 onetime: the loop is left after one turn, and the worker has ended", async () => {
      const own = bench.jobs();
      const working = own.work({ ...single, onetime: true });
      // the worker waits for its single job
      await until("it waits", async () => (await own.workers.list({ running: true })).length === 1);
      const job = await own.schedule(fn("divide"), { args: [1, 0] });
      await working;
      expect((await job.load()).state).toBe("ERROR");
      expect((await own.workers.get(singleName())).state).toBe("HALTED");
    });

    test("results that are not JSON are errors that name the place, and the worker goes on", async () => {
      const messageOf = async (name: string): Promise<string> => {
        const { state, error } = await (await jobs.schedule(fn(name))).settled();
        expect([state, error?.phase]).toEqual(["ERROR", "serialise"]);
        return error?.message ?? "";
      };
      expect(await messageOf("bigint")).toMatch(/the result: a BigInt/);
      expect(await messageOf("cycle")).toMatch(/the result\.self: contains itself/);
      expect(await messageOf("aFunction")).toMatch(/the result\.call: a function/);
      expect(await messageOf("notANumber")).toMatch(/the result\.ratio: NaN/);
      expect(await (await jobs.schedule(fn("add"), { args: [1, 2] })).wait()).toBe(3);
    });

    test("a function does not see the settings of its worker", async () => {
      process.env.COORDINATE_TOKEN = "secret";
      const own = bench.jobs();
      const one = await own.startPool({ ...quick, workers_nr_max: 1, env: { OWN: "word" } });
      const seen = (await (await own.schedule(fn("environment"))).wait()) as Record<string, string>;
      delete process.env.COORDINATE_TOKEN;
      await one.stop();
      expect(seen.OWN).toBe("word");
      expect(JSON.stringify(seen)).not.toContain("secret");
    });
  });
}
