/** The most important behaviour, in real time, for every kind of connection: in process, on a file, through a daemon. */
import assert from "node:assert/strict";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { afterAll, beforeAll, describe, it, onTestFinished } from "vitest";
import { Engine, handles, type Coordinate, type Namespace } from "../../src/index.ts";
import { MemoryStore } from "../../src/memory/index.ts";
import { coalesce, listen, RestClient, restServer } from "../../src/rest/index.ts";
import { openSqlite } from "../../src/sqlite/index.ts";
import { bulk, Worker, type Task, type WorkerOptions } from "../../src/worker/index.ts";
import { openServer } from "../postgres/server.ts";
import { openPostgres } from "../../src/postgres/index.ts";
import { gate, recorder, until, type Line } from "./setup.ts";

interface Stack {
  coordinate: Coordinate;
  close: () => Promise<void>;
}

async function sqlite(): Promise<Stack> {
  const directory = mkdtempSync(path.join(tmpdir(), "worker-"));
  const engine = new Engine(await openSqlite(path.join(directory, "store.sqlite")));
  return {
    coordinate: engine,
    close: async () => {
      await engine.close();
      rmSync(directory, { recursive: true });
    },
  };
}

const stacks: Record<string, () => Promise<Stack>> = {
  memory: () => {
    const engine = new Engine(new MemoryStore());
    return Promise.resolve({ coordinate: engine, close: () => engine.close() });
  },
  sqlite,
  "rest on sqlite": async () => {
    const { coordinate, close } = await sqlite();
    const { app } = restServer({ coordinate: coalesce(coordinate) });
    const listener = await listen(app, { at: { host: "127.0.0.1", port: 0 } });
    const client = new RestClient(listener.url);
    return {
      coordinate: client,
      close: async () => {
        await client.close();
        await listener.stop(1000);
        await app.close();
        await close();
      },
    };
  },
  postgres: async () => {
    const server = await openServer();
    const engine = new Engine(await openPostgres({ url: await server.createDatabase() }));
    return {
      coordinate: engine,
      close: async () => {
        await engine.close();
        await server.stop();
      },
    };
  },
};

for (const [name, open] of Object.entries(stacks))
  describe(name, () => {
    let stack: Stack;
    let tests = 0;
    const lines: Line[] = [];
    beforeAll(async () => {
      stack = await open();
    }, 60_000);
    afterAll(() => stack.close());

    const fresh = (): Namespace => handles(stack.coordinate).namespace(`n${++tests}`);
    const start = (ns: Namespace, options: WorkerOptions): Worker => {
      const worker = new Worker(ns, { concurrency: 2, log: recorder(lines), ...options });
      const running = worker.run();
      onTestFinished(async () => {
        void worker.stop();
        await worker.stop();
        await running;
      });
      return worker;
    };
    const fill = async (ns: Namespace, spec: { name: string; [key: string]: unknown }, count: number) => {
      const made = await ns.setWorkSpec({ runtime: "node", ...spec });
      await made.addWorkUnits(
        Array.from({ length: count }, (_, i) => [`u${String(i).padStart(5, "0")}`, { i }]),
      );
    };
    const finished = async (ns: Namespace): Promise<number> =>
      (await ns.tally()).reduce((sum, { counts }) => sum + counts.finished, 0);

    it("two workers of three slots do everything once", async () => {
      const ns = fresh();
      await fill(ns, { name: "s" }, 3000);
      const ran = new Map<string, number>();
      const task: Task = ({ name: unit, data }) => {
        ran.set(unit, (ran.get(unit) ?? 0) + 1);
        return { ...data, done: true };
      };
      const workers = [1, 2].map(() => start(ns, { concurrency: 3, tasks: { s: task } }));
      await until("all", async () => (await finished(ns)) === 3000);
      assert.equal(ran.size, 3000);
      assert.ok([...ran.values()].every((times) => times === 1));
      await until("told", () => workers.reduce((sum, { counts }) => sum + counts.finished, 0) === 3000);
      const { data } = await ns.workSpec("s").workUnit("u00007");
      assert.deepEqual(data, { i: 7, done: true });
    });

    it("an idle worker hears of new work at once", async () => {
      const ns = fresh();
      await fill(ns, { name: "s" }, 0);
      const heard: number[] = [];
      start(ns, { tasks: { s: () => void heard.push(performance.now()) } });
      await until("it waits", async () => (await ns.worker("x").desired()) === "run");
      await new Promise((resolve) => setTimeout(resolve, 300));
      const delays: number[] = [];
      for (let i = 0; i < 5; i++) {
        const asked = performance.now();
        await ns.workSpec("s").addWorkUnit(`late-${i}`);
        await until("it ran", () => heard.length === i + 1);
        delays.push(heard[i]! - asked);
      }
      // faster than any polling interval
      assert.ok(Math.min(...delays) < 250, delays.join());
    });

    it("short leases: the signal at half of it, given up before it ends", async () => {
      const ns = fresh();
      await fill(ns, { name: "s" }, 1);
      const times = { begun: 0, signal: 0, expired: 0 };
      start(ns, {
        // a second from the signal to the end: a busy machine may stop a process for a part of it
        lifetimeMs: 3000,
        tasks: {
          s: async (_, { signal, expired }) => {
            if (times.begun > 0) return;
            times.begun = performance.now();
            signal.addEventListener("abort", () => (times.signal = performance.now()));
            expired.addEventListener("abort", () => (times.expired = performance.now()));
            await new Promise(() => undefined);
          },
        },
      });
      const unit = () => ns.workSpec("s").workUnit("u00000");
      await until("it has failed", async () => (await unit()).status === "failed");
      assert.equal((await unit()).data.traceback, "timed out");
      assert.equal((await unit()).attemptCount, 1);
      assert.ok(times.signal - times.begun > 1300, `signal after ${times.signal - times.begun}`);
      assert.ok(times.expired - times.signal > 200, `given up ${times.expired - times.signal} after`);
    });

    it("a task that renews goes on past its first lease", async () => {
      const ns = fresh();
      await fill(ns, { name: "s" }, 1);
      start(ns, {
        lifetimeMs: 3000,
        tasks: {
          s: bulk(async ([attempt], { signal, renew, progress }) => {
            for (let step = 0; step < 8; step++) {
              await new Promise((resolve) => setTimeout(resolve, 450));
              await renew();
              await progress(attempt!, { step });
            }
            await attempt!.finish({ aborted: signal.aborted });
          }),
        },
      });
      await until("it is finished", async () => (await finished(ns)) === 1);
      assert.deepEqual((await ns.workSpec("s").workUnit("u00000")).data, { aborted: false });
    });

    it("a long task lets go of what was claimed ahead: another worker has it within two seconds", async () => {
      const ns = fresh();
      await fill(ns, { name: "s", max_getwork: 1, max_retries: 1 }, 30);
      const end = gate();
      let released = 0;
      let stuck = 0;
      const first = start(ns, {
        concurrency: 1,
        tasks: {
          s: async ({ name: unit }) => {
            if (unit < "u00010") return;
            stuck = performance.now();
            await end.promise;
          },
        },
      });
      first.on("released", () => (released = performance.now()));
      await until("it is stuck", () => stuck > 0);
      const others: number[] = [];
      start(ns, { tasks: { s: () => void others.push(performance.now()) } });
      await until("the others are done", async () => (await finished(ns)) === 29);
      if (first.counts.released > 0) {
        assert.ok(released > 0);
        assert.ok(Math.max(...others) - stuck < 5000, `after ${Math.max(...others) - stuck} ms`);
      }
      end.open();
      await until("all", async () => (await finished(ns)) === 30);
    });

    it("stops in order: what runs is finished, the rest is for others, and the records say so", async () => {
      const ns = fresh();
      await fill(ns, { name: "s", max_getwork: 5 }, 500);
      const task = () => new Promise<void>((resolve) => setTimeout(resolve, 2));
      const worker = start(ns, { concurrency: 2, tasks: { s: task } });
      await until("it works", () => worker.counts.finished > 20);
      await worker.stop();
      const [tally] = await ns.tally();
      assert.equal(tally?.counts.pending, 0);
      assert.equal(tally.counts.finished, worker.counts.finished);
      assert.equal(tally.counts.failed, 0);
      for (const child of [worker.name, ...worker.children])
        assert.equal((await ns.worker(child).state()).active, false);
    });

    it("stops at once when told twice, and others may try what it held", async () => {
      const ns = fresh();
      await fill(ns, { name: "s" }, 10);
      const begun = gate();
      const worker = start(ns, {
        concurrency: 1,
        tasks: {
          s: () => {
            begun.open();
            return new Promise(() => undefined);
          },
        },
      });
      await begun.promise;
      void worker.stop();
      await worker.stop();
      const [tally] = await ns.tally();
      assert.equal(tally?.counts.available, 10);
    });
  });
