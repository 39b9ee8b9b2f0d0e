import assert from "node:assert/strict";
import { hostname } from "node:os";
import { describe, it } from "vitest";
import { isCoordinateError, openMemory, systemClock, type Coordinate } from "../../src/index.ts";
import { bulk, silentLogger, Worker, type Runtime, type Task } from "../../src/worker/index.ts";
import { bench, gate, silentlyStopped, turns, until, wrapped, type Bench } from "./setup.ts";

const add = async (
  t: Bench,
  spec: { name: string; [key: string]: unknown },
  ...units: string[]
): Promise<void> => {
  await t.ns.setWorkSpec({ runtime: "node", ...spec });
  await t.ns.workSpec(spec.name).addWorkUnits(units.map((name) => [name] as const));
};

const numbered = (count: number): string[] =>
  Array.from({ length: count }, (_, i) => String(i).padStart(5, "0"));

/** Counts the open requests for attempts, and records all of them. */
function claims(t: Bench): {
  over: Coordinate;
  open: number;
  max: number;
  asked: number[];
  waits: number[];
} {
  const seen = { over: t.coordinate, open: 0, max: 0, asked: [] as number[], waits: [] as number[] };
  seen.over = wrapped(t.coordinate, {
    requestAttempts: async (ns, request) => {
      seen.asked.push(request.number ?? 1);
      seen.waits.push(request.waitMs ?? 0);
      seen.max = Math.max(seen.max, ++seen.open);
      try {
        return await t.coordinate.requestAttempts(ns, request);
      } finally {
        seen.open--;
      }
    },
  });
  return seen;
}

describe("worker records", () => {
  it("a parent for the process and a child for each slot; a batch belongs to one child", async () => {
    const t = bench();
    await add(t, { name: "s", max_getwork: 2 }, ...numbered(6));
    const workers: string[][] = [];
    const end = gate();
    const worker = t.start({
      concurrency: 3,
      environment: { rack: 4 },
      tasks: {
        s: bulk(async (attempts) => {
          workers.push(attempts.map(({ workerName }) => workerName));
          await end.promise;
        }),
      },
    });
    await until("three batches", () => workers.length === 3);
    assert.deepEqual(worker.children, ["w/1", "w/2", "w/3"]);
    assert.deepEqual(
      workers.sort(),
      ["w/1", "w/2", "w/3"].map((name) => [name, name]),
    );
    const children: string[] = [];
    for await (const child of t.ns.worker("w").children()) children.push(child.name);
    assert.deepEqual(children, ["w/1", "w/2", "w/3"]);
    const { active, data, mode } = await t.ns.worker("w").state();
    assert.deepEqual([active, mode], [true, "run"]);
    assert.equal(data?.host, hostname());
    assert.equal(data.pid, process.pid);
    assert.equal(data.rack, 4);
    assert.equal(data.slots, 3);
    assert.match(JSON.stringify(data.versions), /"coordinate":"\d.*"node":"\d/);
    assert.match(JSON.stringify(data.memory), /"rss":\d.*"total":\d/);
    assert.equal(typeof data.ip, "string");
    end.open();
  });

  it("check in every 15 seconds, in one request", async () => {
    const t = bench();
    let updates = 0;
    const over = wrapped(t.coordinate, {
      updateWorkers: (ns, changes) => {
        updates++;
        assert.equal(changes.length, 3);
        return t.coordinate.updateWorkers(ns, changes);
      },
    });
    t.start({ concurrency: 2, tasks: { s: () => undefined } }, over);
    await until("registered", () => updates === 1);
    await turns();
    const { lastUpdate } = await t.ns.worker("w/2").state();
    await t.advance(14_999);
    assert.equal(updates, 1);
    await t.advance(1);
    assert.equal(updates, 2);
    assert.equal((await t.ns.worker("w/2").state()).lastUpdate, lastUpdate + 15_000);
    assert.equal((await t.ns.worker("w/2").state()).mode, "ready");
  });

  it("have a parent of their own where told, and a name that no other has where not", async () => {
    const t = bench();
    const worker = t.start({ parent: "machine", tasks: { s: () => undefined } });
    await until("registered", async () => (await t.coordinate.getWorkers("test", ["w"]))[0] !== null);
    assert.equal((await t.ns.worker("w").parent())?.name, "machine");
    const task: Task = () => undefined;
    const names = [1, 2].map(() => new Worker(t.ns, { tasks: { s: task } }).name);
    assert.equal(new Set(names).size, 2);
    assert.ok(names[0]?.startsWith(hostname()));
    await worker.stop();
  });

  it("are refused with the coordinator's error when they cannot be", async () => {
    const t = bench();
    await t.ns.worker("w").setParent("machine");
    const worker = new Worker(t.ns, { name: "machine", parent: "w", tasks: { s: () => undefined } });
    await assert.rejects(worker.run(), (error) => isCoordinateError(error, "worker_cycle"));
  });
});

describe("desired state", () => {
  it("idle: no more work, what runs goes on; run: work again", async () => {
    const t = bench();
    await add(t, { name: "s", max_getwork: 1 }, "a", "b");
    const first = gate();
    const ran: string[] = [];
    t.start({
      tasks: {
        s: async ({ name }) => {
          ran.push(name);
          if (name === "a") await first.promise;
        },
      },
    });
    await until("it runs", () => ran.length === 1);
    await t.ns.worker("w").setDesired("idle");
    await t.advance(15_000);
    first.open();
    await until("the first ends", async () => (await t.status("s", "a")) === "finished");
    await t.advance(15_000);
    assert.deepEqual(ran, ["a"]);
    assert.equal((await t.ns.worker("w/1").state()).mode, "idle");
    await t.ns.worker("w").setDesired(null);
    await t.advance(15_000);
    await until("the second runs", async () => (await t.status("s", "b")) === "finished");
  });

  it("idle for one child leaves the other at work", async () => {
    const t = bench();
    await add(t, { name: "s" });
    const by: string[] = [];
    t.start({
      concurrency: 2,
      maxAttempts: 1,
      tasks: { s: (_, { worker }) => void by.push(worker) },
    });
    await turns();
    await t.ns.worker("w/1").setDesired("idle");
    await t.advance(15_000);
    await t.ns.workSpec("s").addWorkUnits(numbered(20).map((name) => [name] as const));
    await until("all ran", () => by.length === 20);
    assert.deepEqual([...new Set(by)], ["w/2"]);
  });

  it("terminate for one child ends that slot, and the worker goes on", async () => {
    const t = bench();
    await add(t, { name: "s" });
    const by: string[] = [];
    t.start({
      concurrency: 2,
      maxAttempts: 1,
      tasks: { s: (_, { worker }) => void by.push(worker) },
    });
    await turns();
    await t.ns.worker("w/2").setDesired("terminate");
    await t.advance(15_000);
    await t.advance(15_000);
    assert.equal((await t.ns.worker("w/2").state()).active, false);
    await t.ns.workSpec("s").addWorkUnits(numbered(5).map((name) => [name] as const));
    await until("all ran", () => by.length === 5);
    assert.deepEqual([...new Set(by)], ["w/1"]);
  });

  it("terminate: what it holds is finished, then it stops by itself", async () => {
    const t = bench();
    await add(t, { name: "s", max_getwork: 1 }, "a", "b");
    const end = gate();
    const begun = gate();
    const worker = new Worker(t.ns, {
      clock: t.clock,
      name: "w",
      concurrency: 1,
      tasks: {
        s: async () => {
          begun.open();
          await end.promise;
        },
      },
    });
    const running = worker.run();
    await begun.promise;
    await t.ns.worker("w").setDesired("terminate");
    await t.advance(15_000);
    end.open();
    await running;
    assert.equal(await t.status("s", "a"), "finished");
    assert.equal(await t.status("s", "b"), "available");
    assert.equal((await t.ns.worker("w").state()).active, false);
  });

  it("terminate of a former life is not obeyed; that of the namespace is", async () => {
    const t = bench();
    await add(t, { name: "s" }, "a");
    await t.ns.worker("w").setDesired("terminate");
    await t.ns.worker("w/1").setDesired("terminate");
    t.start({ tasks: { s: () => undefined } });
    await until("it works", async () => (await t.status("s", "a")) === "finished");
    await t.ns.configure({ desired: "terminate" });
    const other = new Worker(t.ns, { clock: t.clock, name: "x", tasks: { s: () => undefined } });
    await other.run();
    await t.ns.configure({ desired: "run" });
  });
});

describe("claims", () => {
  it("of a bulk task ask for 100, and for twice as many after each that was full and quick, up to 1,000", async () => {
    const t = bench();
    await add(t, { name: "s" }, ...numbered(4000));
    const sizes: number[] = [];
    const task: Task = bulk(async (attempts) => {
      sizes.push(attempts.length);
      await Promise.all(attempts.map((attempt) => attempt.finish()));
    });
    t.start({ tasks: { s: task } });
    await until("all ran", () => sizes.reduce((a, b) => a + b, 0) === 4000);
    assert.equal(sizes[0], 100);
    assert.equal(Math.max(...sizes), 1000);
    for (const [i, size] of sizes.slice(0, -1).entries())
      assert.ok(size >= (sizes[i - 1] ?? 0) && size <= 2 * (sizes[i - 1] ?? 100), sizes.join());
  });

  it("do not grow beyond 8 MiB of data", async () => {
    const t = bench();
    const seen = claims(t);
    const text = "x".repeat(64 * 1024 - `{"text":""}`.length);
    await add(t, { name: "s" });
    await t.ns.workSpec("s").addWorkUnits(numbered(700).map((name) => [name, { text }] as const));
    const worker = t.start({ ahead: false, tasks: { s: () => ({}) } }, seen.over);
    await until("all are finished", () => worker.counts.finished === 700);
    assert.equal(Math.max(...seen.asked), 128);
  });

  it("many idle slots are one open request", async () => {
    const t = bench();
    await add(t, { name: "s" });
    const seen = claims(t);
    t.start({ concurrency: 50, tasks: { s: () => undefined } }, seen.over);
    await until("it waits", () => seen.open === 1);
    await t.advance(29_999);
    assert.equal(seen.asked.length, 1);
    assert.deepEqual(seen.waits, [30_000]);
    await t.advance(1);
    assert.equal(seen.asked.length, 2);
    assert.equal(seen.max, 1);
  });

  it("with work for many, all slots work at once", async () => {
    const t = bench();
    await add(t, { name: "s", max_getwork: 1 });
    let now = 0;
    const end = gate();
    t.start({
      concurrency: 8,
      tasks: {
        s: async () => {
          now++;
          await end.promise;
        },
      },
    });
    await turns();
    await t.ns.workSpec("s").addWorkUnits(numbered(20).map((name) => [name] as const));
    await until("eight at once", () => now === 8);
    end.open();
    await until("all", () => now === 20);
  });

  it("a coordinator that does not wait is asked once a second", async () => {
    const t = bench();
    let asked = 0;
    const over = wrapped(t.coordinate, {
      requestAttempts: () => {
        asked++;
        return Promise.resolve([]);
      },
    });
    t.start({ concurrency: 3, tasks: { s: () => undefined } }, over);
    await until("asked", () => asked === 1);
    await t.advance(999);
    assert.equal(asked, 1);
    await t.advance(1);
    assert.equal(asked, 2);
  });

  it("filter as told", async () => {
    const t = bench();
    await add(t, { name: "small", min_gb: 1 }, "a");
    await add(t, { name: "large", min_gb: 8 }, "b");
    await add(t, { name: "other" }, "c");
    await add(t, { name: "fit", requires: ["version>=2"] }, "d");
    await add(t, { name: "unfit", requires: ["gpu"] }, "e");
    const task = () => undefined;
    t.start({
      workSpecs: ["small", "large", "fit", "unfit"],
      availableGb: 2,
      labels: ["version=2.1"],
      tasks: { "*": task },
    });
    await until("done", async () => (await t.status("small", "a")) === "finished");
    await until("done too", async () => (await t.status("fit", "d")) === "finished");
    assert.equal(await t.status("unfit", "e"), "available");
    await t.advance(1000);
    assert.equal(await t.status("large", "b"), "available");
    assert.equal(await t.status("other", "c"), "available");
  });

  it("take no more batches of a runtime than it can run, and no larger ones than it wants", async () => {
    const t = bench();
    await add(t, { name: "one", runtime: "narrow" }, ...numbered(9));
    await add(t, { name: "two" }, ...numbered(400));
    let now = 0;
    let max = 0;
    const sizes = new Set<number>();
    const narrow: Runtime = {
      names: ["narrow"],
      capacity: 2,
      maxAttempts: 3,
      firstAttempts: 3,
      task: () =>
        bulk(async (attempts) => {
          sizes.add(attempts.length);
          max = Math.max(max, ++now);
          await turns(5);
          await Promise.all(attempts.map((attempt) => attempt.finish()));
          now--;
        }),
      close: () => Promise.resolve(),
    };
    const worker = t.start({
      concurrency: 4,
      tasks: {
        two: async () => {
          await turns(1);
        },
      },
      runtimes: [narrow],
    });
    await until("all", () => worker.counts.finished === 409);
    assert.equal(max, 2);
    assert.deepEqual([...sizes], [3]);
  });

  it("begin several of a claim in a row where the runtime takes them so, claim nothing for it meanwhile, and wait for all of them", async () => {
    const t = bench();
    await add(t, { name: "one", runtime: "row" }, ...numbered(4));
    const begun: string[] = [];
    const ends = new Map<string, () => void>();
    const row: Runtime = {
      names: ["row"],
      maxAttempts: 4,
      firstAttempts: 4,
      runsPerSlot: 3,
      task: () => async (unit) => {
        begun.push(unit.name);
        await new Promise<void>((resolve) => ends.set(unit.name, resolve));
      },
      close: () => Promise.resolve(),
    };
    const seen = claims(t);
    const worker = t.start({ concurrency: 1, holdMs: 60_000, runtimes: [row] }, seen.over);
    await until("three run", () => begun.length === 3);
    await turns(5);
    assert.deepEqual(begun, numbered(3));
    ends.get("00001")?.();
    await until("the fourth runs", () => begun.length === 4);
    await t.ns.workSpec("one").addWorkUnits([["late"]]);
    await turns(20);
    assert.deepEqual([begun.length, seen.asked], [4, [4]]);
    const stopped = worker.stop();
    await turns(20);
    assert.equal(worker.counts.finished, 1);
    for (const end of ends.values()) end();
    await stopped;
    assert.equal(worker.counts.finished, 4);
  });

  it("with one slot, runtimes of different sizes take turns", async () => {
    const t = bench();
    await add(t, { name: "one", runtime: "narrow" });
    await add(t, { name: "two" });
    const narrow: Runtime = {
      names: ["narrow"],
      maxAttempts: 1,
      task: () => () => undefined,
      close: () => Promise.resolve(),
    };
    t.start({ tasks: { two: () => undefined }, runtimes: [narrow] });
    await turns();
    await t.ns.workSpec("one").addWorkUnits([["u"]]);
    await t.ns.workSpec("two").addWorkUnits([["u"]]);
    for (let s = 0; s < 3; s++) await t.advance(1000);
    assert.equal(await t.status("one", "u"), "finished");
    assert.equal(await t.status("two", "u"), "finished");
  });
});

describe("claiming ahead", () => {
  /** Units whose name starts with x run until `end` resolves. */
  const mixed =
    (end: Promise<void>, begun: (name: string) => void): Task =>
    async ({ name }) => {
      begun(name);
      if (name.startsWith("x")) await end;
    };

  it("happens while short claims run", async () => {
    const t = bench();
    await add(t, { name: "s", max_getwork: 5 }, ...numbered(50));
    let ahead = 0;
    const over = wrapped(t.coordinate, {
      requestAttempts: (ns, request) => {
        if (worker.counts.claimed > worker.counts.finished) ahead++;
        return t.coordinate.requestAttempts(ns, request);
      },
    });
    const task: Task = bulk(async (attempts) => {
      await turns(3);
      await Promise.all(attempts.map((attempt) => attempt.finish()));
    });
    const worker = t.start({ tasks: { s: task } }, over);
    await until("all", () => worker.counts.finished === 50);
    assert.ok(ahead >= 8, `${ahead} claims ahead`);
    assert.equal(worker.counts.released, 0);
  });

  it("several at a time where each is on its way longer than its unit runs, and one where it is not", async () => {
    for (const { taskTurns, least, most } of [
      { taskTurns: 0, least: 4, most: 9 },
      { taskTurns: 40, least: 1, most: 2 },
    ]) {
      const t = bench();
      await add(t, { name: "s" }, ...numbered(100));
      let [underWay, begun, largest] = [0, 0, 0];
      const over = wrapped(t.coordinate, {
        requestAttempts: async (ns, request) => {
          underWay++;
          if (begun > 20) largest = Math.max(largest, underWay + worker.counts.claimed - begun);
          await turns(10);
          return t.coordinate.requestAttempts(ns, request).finally(() => underWay--);
        },
      });
      const task: Task = async () => {
        begun++;
        await turns(taskTurns);
      };
      const worker = t.start({ concurrency: 1, maxAttempts: 1, tasks: { s: task } }, over);
      await until("all", () => worker.counts.finished === 100);
      assert.ok(largest >= least && largest <= most, `${largest} held or requested at once`);
      assert.equal(worker.counts.released, 0);
    }
  });

  it("does not happen where switched off, or while claims are long", async () => {
    for (const options of [
      { ahead: false, longMs: 0 },
      { ahead: true, longMs: 300 },
    ]) {
      const t = bench();
      await add(t, { name: "s", max_getwork: 5 }, ...numbered(50));
      let ahead = 0;
      const over = wrapped(t.coordinate, {
        requestAttempts: (ns, request) => {
          if (worker.counts.claimed > worker.counts.finished) ahead++;
          return t.coordinate.requestAttempts(ns, request);
        },
      });
      const task: Task = bulk(async (attempts) => {
        t.clock.advance(options.longMs);
        await turns(3);
        await Promise.all(attempts.map((attempt) => attempt.finish()));
      });
      const worker = t.start({ ahead: options.ahead, tasks: { s: task } }, over);
      await until("all", () => worker.counts.finished === 50);
      assert.equal(ahead, 0);
    }
  });

  it("a long task does not hold what was claimed ahead: another gets it within a second", async () => {
    const t = bench();
    await add(t, { name: "s", max_getwork: 1, max_retries: 1 }, "a", "b", "x1", "y");
    const end = gate();
    const begun: string[] = [];
    const first = t.start({ tasks: { s: mixed(end.promise, (name) => begun.push(name)) } });
    await until("the long one runs", () => begun.includes("x1"));
    await turns();
    assert.equal(await t.status("s", "y"), "pending");
    assert.equal(first.counts.claimed, 4);
    await t.advance(799);
    assert.equal(await t.status("s", "y"), "pending");
    const by: string[] = [];
    t.start({
      name: "other",
      tasks: { s: ({ name }, { worker }) => void by.push(`${name} ${worker}`) },
    });
    await t.advance(1);
    await until("the other has them", async () => (await t.status("s", "y")) === "finished");
    assert.deepEqual(by, ["y other/1"]);
    assert.equal(first.counts.released, 1);
    assert.ok(t.events.some((event) => event.type === "released" && event.units.join() === "y"));
    end.open();
    await until("the long one ends", async () => (await t.status("s", "x1")) === "finished");
  });

  it("is not held past half its lease, when that is shorter", async () => {
    const t = bench();
    await add(t, { name: "s", max_getwork: 1 }, "a", "b", "x1", "y");
    const end = gate();
    const begun: string[] = [];
    t.start({ lifetimeMs: 600, tasks: { s: mixed(end.promise, (name) => begun.push(name)) } });
    await until("the long one runs", () => begun.includes("x1"));
    await turns();
    assert.equal(await t.status("s", "y"), "pending");
    await t.advance(299);
    assert.equal(await t.status("s", "y"), "pending");
    await t.advance(1);
    assert.equal(await t.status("s", "y"), "available");
    end.open();
  });

  it("is given back at once when the worker is to stop or to idle", async () => {
    for (const how of ["stop", "idle"] as const) {
      const t = bench();
      await add(t, { name: "s", max_getwork: 1, max_retries: 1 }, "a", "b", "x1", "y");
      const end = gate();
      const begun: string[] = [];
      const worker = t.start({
        heartbeatMs: 500,
        tasks: { s: mixed(end.promise, (name) => begun.push(name)) },
      });
      await until("the long one runs", () => begun.includes("x1"));
      await turns();
      assert.equal(await t.status("s", "y"), "pending");
      if (how === "stop") void worker.stop();
      else {
        await t.ns.worker("w").setDesired("idle");
        await t.advance(500);
      }
      await turns();
      assert.equal(await t.status("s", "y"), "available");
      assert.equal(await t.status("s", "x1"), "pending");
      end.open();
      await silentlyStopped(worker);
    }
  });
});

describe("tasks that block the event loop", () => {
  const block = (ms: number): void => {
    const end = performance.now() + ms;
    while (performance.now() < end);
  };

  it("let it turn: timers fire between short ones", async () => {
    const t = bench();
    await t.ns.setWorkSpec({ name: "s" });
    await t.ns.workSpec("s").addWorkUnits(Array.from({ length: 60 }, (_, i) => [`u${i}`] as const));
    let most = 0;
    let inTurn = 0;
    const timer = setInterval(() => (inTurn = 0), 1);
    const task = (): void => {
      most = Math.max(most, ++inTurn);
      block(5);
    };
    const worker = t.start({ concurrency: 10, clock: systemClock(), tasks: { s: task } });
    await until("all", () => worker.counts.finished === 60);
    clearInterval(timer);
    assert.ok(most <= 4, `${most} runs of 5 ms in a turn`);
  });

  for (const [what, wait] of [
    ["at once", () => undefined],
    ["after it has waited", () => new Promise<void>((resolve) => setTimeout(resolve, 1))],
  ] as const)
    it(`for longer than its lease, ${what}: the outcome is stored before the unit is claimed again`, async () => {
      const coordinate = openMemory();
      const ns = coordinate.namespace("test");
      const spec = await ns.setWorkSpec({ name: "s" });
      let runs = 0;
      const worker = new Worker(ns, {
        concurrency: 2,
        lifetimeMs: 200,
        log: silentLogger,
        tasks: {
          s: async () => {
            const waited = wait();
            if (waited !== undefined) await waited;
            if (++runs < 5) block(260);
          },
        },
      });
      const running = worker.run();
      const unit = await spec.addWorkUnit("u");
      await until("it has ended", async () => (await unit.refresh()).status === "finished");
      await worker.stop();
      await running;
      await coordinate.close();
      assert.equal(runs, 1);
    });
});

describe("many slots", () => {
  it("share the work fairly, and nothing is lost or done twice", async () => {
    const t = bench();
    await add(t, { name: "s", max_getwork: 7 }, ...numbered(3000));
    const by = new Map<string, number>();
    const ran: string[] = [];
    const task: Task = async ({ name }, { worker }) => {
      ran.push(name);
      by.set(worker, (by.get(worker) ?? 0) + 1);
      if (ran.length % 3 === 0) await turns(1);
    };
    const worker = t.start({ concurrency: 6, tasks: { s: task } });
    await until("all", () => worker.counts.finished === 3000);
    assert.equal(new Set(ran).size, 3000);
    assert.equal(ran.length, 3000);
    assert.equal(by.size, 6);
    for (const [name, count] of by) assert.ok(count > 150, `${name} ran ${count}`);
  });
});
