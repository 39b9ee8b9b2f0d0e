import assert from "node:assert/strict";
import { describe, it } from "vitest";
import type { AttemptLog, Coordinate } from "../../src/index.ts";
import { bulk, type UnitTask } from "../../src/worker/index.ts";
import { bench, gate, until, wrapped, type Bench } from "./setup.ts";

async function logOf(t: Bench, unit: string): Promise<AttemptLog> {
  const { verbs } = t.ns;
  const attempt = (await verbs.listUnitAttempts("test", "s", unit)).at(-1);
  const [log] = await verbs.getAttemptLogs("test", [attempt?.id ?? ""]);
  assert.ok(log !== null && log !== undefined);
  return log;
}

const textsOf = ({ lines }: AttemptLog): string[] => lines.map(({ level, text }) => `${level} ${text}`);

async function add(t: Bench, ...units: string[]): Promise<void> {
  await t.ns.setWorkSpec({ name: "s", runtime: "node" });
  await t.ns.workSpec("s").addWorkUnits(units.map((name) => [name] as const));
}

/** Counts the calls of these verbs. */
function counting(coordinate: Coordinate): { over: Coordinate; calls: Record<string, number> } {
  const calls: Record<string, number> = {};
  const counted = <Name extends "settleAttempts" | "writeAttemptLogs">(name: Name): Coordinate[Name] =>
    ((...args: never[]) => {
      calls[name] = (calls[name] ?? 0) + 1;
      return (coordinate[name] as (...given: never[]) => unknown)(...args);
    }) as Coordinate[Name];
  const over = wrapped(coordinate, {
    settleAttempts: counted("settleAttempts"),
    writeAttemptLogs: counted("writeAttemptLogs"),
  });
  return { over, calls };
}

describe("what a task writes", () => {
  it("goes with the end of its unit, without a request of its own, and to the worker's log", async () => {
    const t = bench();
    await add(t, "a");
    const { over, calls } = counting(t.coordinate);
    t.start(
      {
        tasks: {
          s: (_unit, { log }) => {
            log("begin");
            log.warn({ page: 4 }, "slow");
            log.child({ host: "x" }).error("hm");
            log.debug("for nobody");
          },
        },
      },
      over,
    );
    await until("a has ended", async () => (await t.status("s", "a")) === "finished");
    assert.deepEqual(textsOf(await logOf(t, "a")), [
      "info begin",
      'warn slow {"page":4}',
      'error hm {"host":"x"}',
    ]);
    assert.equal(calls.writeAttemptLogs, undefined);
    assert.equal(calls.settleAttempts, 1);
    const told = t.lines.filter(({ message }) => ["begin", "slow", "hm", "for nobody"].includes(message));
    assert.deepEqual(
      told.map(({ level }) => level),
      ["info", "warn", "error", "debug"],
    );
  });

  it("is there within a second while it runs, for all units in one request", async () => {
    const t = bench();
    await add(t, "a", "b");
    const { over, calls } = counting(t.coordinate);
    const go = gate();
    const begun: string[] = [];
    t.start(
      {
        concurrency: 2,
        tasks: {
          s: async ({ name }, { log }) => {
            for (let i = 0; i < 10; i++) log(`${name} ${i}`);
            begun.push(name);
            await go.promise;
            log("end");
          },
        },
      },
      over,
    );
    await until("both run", () => begun.length === 2);
    assert.equal((await logOf(t, "a")).total, 0);
    await t.advance(1000);
    await until("lines are stored", async () => (await logOf(t, "b")).total === 10);
    assert.equal((await logOf(t, "a")).total, 10);
    assert.equal(calls.writeAttemptLogs, 1);
    go.open();
    await until("both have ended", async () => (await t.status("s", "b")) === "finished");
    await until("both have ended", async () => (await t.status("s", "a")) === "finished");
    assert.equal((await logOf(t, "a")).total, 11);
    assert.deepEqual(textsOf(await logOf(t, "a")).slice(-2), ["info a 9", "info end"]);
  });

  it("is kept when the task throws, and each attempt has its own", async () => {
    const t = bench();
    await t.ns.setWorkSpec({
      name: "s",
      runtime: "node",
      retry: { attempts: 2, backoff: { kind: "fixed", delay: 1 } },
    });
    await t.ns.workSpec("s").addWorkUnits([["a"]]);
    t.start({
      tasks: {
        s: ({ attempt }, { log }) => {
          log(`try ${attempt.number}`);
          throw new Error("no");
        },
      },
    });
    await until("a has failed", async () => {
      await t.advance(1000);
      return (await t.status("s", "a")) === "failed";
    });
    const attempts = await t.ns.verbs.listUnitAttempts("test", "s", "a");
    const logs = await t.ns.verbs.getAttemptLogs(
      "test",
      attempts.map(({ id }) => id),
    );
    assert.deepEqual(
      logs.map((log) => log?.lines.map(({ text }) => text)),
      [["try 1"], ["try 2"]],
    );
  });

  it("of a bulk task belongs to the attempt that it is written on", async () => {
    const t = bench();
    await add(t, "a", "b");
    t.start({
      tasks: {
        s: bulk(async (attempts) => {
          for (const attempt of attempts) {
            attempt.log(`of ${attempt.workUnitName}`, { level: "warn" });
            await attempt.finish();
          }
        }),
      },
    });
    await until("b has ended", async () => (await t.status("s", "b")) === "finished");
    assert.deepEqual(textsOf(await logOf(t, "a")), ["warn of a"]);
    assert.deepEqual(textsOf(await logOf(t, "b")), ["warn of b"]);
  });

  it("is sent again when the coordinator did not answer, and stored once", async () => {
    const t = bench();
    await add(t, "a");
    let failures = 0;
    const over = wrapped(t.coordinate, {
      writeAttemptLogs: async (ns, logs) => {
        // the request is executed, but the response is lost
        const stored = await t.coordinate.writeAttemptLogs(ns, logs);
        if (failures++ === 0) throw new Error("connection lost");
        return stored;
      },
    });
    const go = gate();
    const wrote = gate();
    t.start(
      {
        tasks: {
          s: async (_unit, { log }) => {
            log("one");
            wrote.open();
            await go.promise;
          },
        },
      },
      over,
    );
    await wrote.promise;
    await until("it was sent twice", async () => {
      await t.advance(1000);
      return failures >= 2;
    });
    go.open();
    await until("a has ended", async () => (await t.status("s", "a")) === "finished");
    assert.deepEqual(textsOf(await logOf(t, "a")), ["info one"]);
  });

  it("is there within a second for more units than one request holds", async () => {
    const t = bench();
    const units = Array.from({ length: 120 }, (_, i) => `u${i}`);
    await add(t, ...units);
    const { over, calls } = counting(t.coordinate);
    const go = gate();
    let begun = 0;
    const task: UnitTask = async (_unit, { log }) => {
      log("begun");
      begun++;
      await go.promise;
    };
    t.start({ concurrency: 120, tasks: { s: task } }, over);
    await until("all run", () => begun === 120);
    await t.advance(1000);
    for (const unit of units) assert.equal((await logOf(t, unit)).total, 1, unit);
    assert.equal(calls.writeAttemptLogs, 3);
    go.open();
  });

  it("is not delayed by units that have ended", async () => {
    const t = bench();
    await add(t, ...Array.from({ length: 100 }, (_, i) => `u${String(i).padStart(2, "0")}`), "z");
    const { over, calls } = counting(t.coordinate);
    const go = gate();
    const task: UnitTask = async ({ name }, { log }) => {
      log("begun");
      if (name === "z") await go.promise;
    };
    const worker = t.start({ tasks: { s: task } }, over);
    await until("all others have ended", () => worker.counts.finished === 100);
    await t.advance(1000);
    assert.equal((await logOf(t, "z")).total, 1);
    assert.equal(calls.writeAttemptLogs, 1);
    go.open();
  });

  it("is bounded in the worker too: the newest lines are kept", async () => {
    const t = bench();
    await add(t, "a");
    t.start({
      tasks: {
        s: (_unit, { log }) => {
          for (let i = 1; i <= 5000; i++) log(String(i));
        },
      },
    });
    await until("a has ended", async () => (await t.status("s", "a")) === "finished");
    const { first, total, lines } = await logOf(t, "a");
    assert.deepEqual([first, total, lines.length, lines[0]?.text], [4001, 5000, 1000, "4001"]);
  });
});

describe("a handle", () => {
  it("sends lines with its next change, or when told", async () => {
    const t = bench();
    await add(t, "a");
    const [attempt] = await t.ns.worker("w").requestAttempts();
    assert.ok(attempt !== undefined);
    attempt.log("one");
    assert.equal((await attempt.readLog()).total, 0);
    await attempt.flushLog();
    attempt.log("two");
    await attempt.renew();
    attempt.log("three");
    await attempt.finish();
    const { lines } = await attempt.readLog(1);
    assert.deepEqual(
      lines.map(({ text }) => text),
      ["two", "three"],
    );
  });
});
