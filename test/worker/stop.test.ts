import assert from "node:assert/strict";
import { describe, it } from "vitest";
import { CoordinateError, handles } from "../../src/index.ts";
import { bulk, Worker, type Runtime, type BulkContext } from "../../src/worker/index.ts";
import { bench, gate, recorder, turns, until, wrapped, type Bench } from "./setup.ts";

interface Held {
  worker: Worker;
  running: Promise<void>;
  context: BulkContext;
  end: () => void;
}

/** A worker that runs one batch of two units, while one more unit is available. */
async function held(t: Bench, graceMs = 5000, runtimes: Runtime[] = []): Promise<Held> {
  await t.ns.setWorkSpec({ name: "s", runtime: "node", max_getwork: 2 });
  await t.ns.workSpec("s").addWorkUnits([["a"], ["b"], ["c"]]);
  const begun = gate<BulkContext>();
  const end = gate();
  const worker = new Worker(t.ns, {
    clock: t.clock,
    log: recorder(t.lines),
    name: "w",
    concurrency: 1,
    graceMs,
    runtimes,
    tasks: {
      s: bulk(async (attempts, context) => {
        begun.open(context);
        await end.promise;
        await Promise.all(attempts.map((attempt) => attempt.finish()));
      }),
    },
  });
  const running = worker.run();
  return { worker, running, context: await begun.promise, end: () => end.open() };
}

/** A worker that is stopped twice ends within seconds. */
async function stopsTwice(t: Bench, worker: Worker): Promise<void> {
  void worker.stop();
  await turns();
  const stopped: boolean[] = [];
  void worker.stop().then(() => stopped.push(true));
  for (let s = 0; s < 5 && stopped.length === 0; s++) await t.advance(1000);
  assert.deepEqual(stopped, [true]);
}

describe("stop", () => {
  it("takes no more work, lets the task end, stores what it settles, and signs off", async () => {
    const t = bench();
    const { worker, running, context, end } = await held(t);
    let stopped = false;
    const stopping = worker.stop().then(() => (stopped = true));
    await t.advance(4999);
    assert.equal(context.signal.aborted, false);
    assert.equal(stopped, false);
    end();
    await stopping;
    await running;
    assert.equal(await t.status("s", "b"), "finished");
    assert.equal(await t.status("s", "c"), "available");
    for (const name of ["w", "w/1"]) assert.equal((await t.ns.worker(name).state()).active, false);
    assert.equal(t.clock.waiting, 0);
  });

  it("tells the task after the grace time, and waits for it", async () => {
    const t = bench();
    const { worker, context, end, running } = await held(t);
    void worker.stop();
    await t.advance(5000);
    assert.equal(context.signal.aborted, true);
    assert.match(String(context.signal.reason), /worker stops/);
    assert.equal(context.expired.aborted, false);
    await t.advance(60_000);
    assert.equal(await t.status("s", "a"), "pending");
    end();
    await running;
    assert.equal(await t.status("s", "a"), "finished");
  });

  it("gives back the unit of a task that ends because of it, and this does not count as a try", async () => {
    const t = bench();
    const thrown: Record<string, (signal: AbortSignal) => unknown> = {
      reason: ({ reason }) => reason as unknown,
      abort: () => new DOMException("This operation was aborted", "AbortError"),
      cause: ({ reason }) => new Error("the download failed", { cause: reason }),
      other: () => new Error("broken"),
    };
    const names = Object.keys(thrown);
    await t.ns.setWorkSpecs([
      { name: "s", max_retries: 1 },
      { name: "bulk", max_retries: 1 },
    ]);
    await t.ns.workSpec("s").addWorkUnits(names.map((name) => [name] as const));
    await t.ns.workSpec("bulk").addWorkUnits([["whole"]]);
    const worker = t.start({
      concurrency: 5,
      tasks: {
        s: async ({ name }, { signal }) => {
          await new Promise((resolve) => signal.addEventListener("abort", resolve));
          throw thrown[name]!(signal);
        },
        bulk: bulk(async (_attempts, { signal }) => {
          await new Promise((resolve) => signal.addEventListener("abort", resolve));
          signal.throwIfAborted();
        }),
      },
    });
    await until("all run", () => worker.counts.claimed === 5);
    const stopping = worker.stop();
    await t.advance(10_000);
    await stopping;
    for (const name of ["reason", "abort", "cause"])
      assert.equal(await t.status("s", name), "available", name);
    assert.equal(await t.status("bulk", "whole"), "available");
    assert.equal(await t.status("s", "other"), "failed");
    assert.equal(worker.counts.released, 4);
    // the only try is not used up
    t.start({ name: "next", concurrency: 5, tasks: { s: () => undefined, bulk: () => undefined } });
    for (const name of ["reason", "abort", "cause"])
      await until(name, async () => (await t.status("s", name)) === "finished");
    await until("whole", async () => (await t.status("bulk", "whole")) === "finished");
  });

  it("the error of a task whose lease is about to end counts as a try, also when it is an AbortError", async () => {
    const t = bench();
    await t.ns.setWorkSpec({ name: "s" });
    await t.ns.workSpec("s").addWorkUnits([["u"]]);
    t.start({
      tasks: {
        s: async (_unit, { signal }) => {
          await new Promise((resolve) => signal.addEventListener("abort", resolve));
          signal.throwIfAborted();
        },
      },
    });
    await turns();
    await t.advance(14.5 * 60_000);
    assert.equal(await t.status("s", "u"), "failed");
    assert.match(String((await t.data("s", "u")).traceback), /the lease ends soon/);
  });

  it("has a grace time of its own where told", async () => {
    const t = bench();
    const { worker, context, end, running } = await held(t);
    void worker.stop({ graceMs: 100 });
    await t.advance(100);
    assert.equal(context.signal.aborted, true);
    end();
    await running;
  });

  it("does not wait for a task whose time is up", async () => {
    const t = bench();
    const { worker, running } = await held(t);
    const stopping = worker.stop();
    await t.advance(14.75 * 60_000);
    await stopping;
    await running;
    assert.equal(await t.status("s", "a"), "failed");
    assert.equal((await t.data("s", "a")).traceback, "timed out");
  });

  it("does not wait for a task that was given up before", async () => {
    const t = bench();
    const { worker, running } = await held(t);
    await t.advance(14.75 * 60_000);
    assert.equal(await t.status("s", "a"), "failed");
    await worker.stop();
    await running;
  });

  it("a second time is at once: the task is told, what it holds is given back, nobody waits for it", async () => {
    const t = bench();
    const { worker, running, context } = await held(t);
    await t.ns.workSpec("s").setMeta({ maxRetries: 1 });
    void worker.stop();
    await turns();
    assert.equal(context.signal.aborted, false);
    await worker.stop();
    await running;
    assert.equal(context.signal.aborted, true);
    assert.equal(context.expired.aborted, true);
    assert.equal(await t.status("s", "a"), "available");
    assert.equal(await t.status("s", "b"), "available");
    // the only try is not used up
    const next = await t.ns.worker("next").requestAttempts({ number: 2 });
    assert.deepEqual(
      next.map(({ workUnitName }) => workUnitName),
      ["a", "b"],
    );
    assert.equal(worker.counts.released, 2);
    assert.equal((await t.ns.worker("w").state()).active, false);
    assert.equal(t.clock.waiting, 0);
  });

  it("a second time is at once also when the coordinator does not answer", async () => {
    const t = bench();
    const silent = gate();
    let down = false;
    const over = wrapped(t.coordinate, {
      settleAttempts: async (...args) => {
        if (down) await silent.promise;
        return t.coordinate.settleAttempts(...args);
      },
      updateWorkers: async (...args) => {
        if (down) await silent.promise;
        return t.coordinate.updateWorkers(...args);
      },
    });
    await t.ns.setWorkSpec({ name: "s", runtime: "node" });
    await t.ns.workSpec("s").addWorkUnits([["a"]]);
    const begun = gate();
    const worker = t.start(
      {
        tasks: {
          s: () => {
            begun.open();
            return new Promise(() => undefined);
          },
        },
      },
      over,
    );
    await begun.promise;
    down = true;
    await stopsTwice(t, worker);
    silent.open();
  });

  it("a second time does not wait for a check-in that is not answered", async () => {
    const t = bench();
    const silent = gate();
    let down = false;
    const over = wrapped(t.coordinate, {
      updateWorkers: async (...args) => {
        if (down) await silent.promise;
        return t.coordinate.updateWorkers(...args);
      },
    });
    const worker = t.start({ tasks: { s: () => undefined } }, over);
    await turns();
    down = true;
    await t.advance(15_000);
    await stopsTwice(t, worker);
    silent.open();
  });

  it("a second time does not wait for the first check-in", async () => {
    const t = bench();
    const silent = gate();
    const over = wrapped(t.coordinate, {
      updateWorkers: async (...args) => {
        await silent.promise;
        return t.coordinate.updateWorkers(...args);
      },
    });
    const worker = t.start({ tasks: { s: () => undefined } }, over);
    await turns();
    await stopsTwice(t, worker);
    silent.open();
  });

  it("a second time does not wait for an outcome that cannot be stored, when all tasks have ended", async () => {
    const t = bench();
    const silent = gate();
    const over = wrapped(t.coordinate, {
      settleAttempts: async (...args) => {
        await silent.promise;
        return t.coordinate.settleAttempts(...args);
      },
    });
    await t.ns.setWorkSpec({ name: "s" });
    await t.ns.workSpec("s").addWorkUnits([["u"]]);
    const ended = gate();
    const worker = t.start({ tasks: { s: () => ended.open() } }, over);
    await ended.promise;
    await stopsTwice(t, worker);
    silent.open();
  });

  it("the first stop of a worker that was asked to terminate lets its task end, the second does not", async () => {
    for (const times of [1, 2]) {
      const t = bench();
      const { worker, running, context, end } = await held(t, 60_000);
      await t.coordinate.updateWorkers("test", [{ name: "w", desired: "terminate" }]);
      await t.advance(15_000);
      for (let i = 0; i < times; i++) void worker.stop();
      await turns();
      assert.equal(context.expired.aborted, times === 2);
      if (times === 1) end();
      await running;
      assert.equal(await t.status("s", "a"), times === 1 ? "finished" : "available");
    }
  });

  it("an idle worker stops at once, and any number of times", async () => {
    const t = bench();
    const worker = t.start({ concurrency: 4, tasks: { s: () => undefined } });
    await turns();
    await Promise.all([worker.stop(), worker.stop(), worker.stop()]);
    await worker.stop();
    assert.equal(t.clock.waiting, 0);
  });

  it("before run: run returns at once, and asks for nothing", async () => {
    const t = bench();
    const worker = new Worker(t.ns, { name: "w", clock: t.clock, tasks: { s: () => undefined } });
    await worker.stop();
    await worker.run();
    assert.deepEqual(await t.coordinate.getWorkers("test", ["w"]), [null]);
  });

  it("by the signal that run was given, also when it was aborted before", async () => {
    const t = bench();
    const stop = new AbortController();
    const worker = new Worker(t.ns, { name: "w", clock: t.clock, tasks: { s: () => undefined } });
    const running = worker.run(stop.signal);
    await turns();
    stop.abort();
    await running;
    await new Worker(t.ns, { name: "x", clock: t.clock, tasks: { s: () => undefined } }).run(stop.signal);
  });

  it("a worker runs once", async () => {
    const t = bench();
    const worker = t.start({ tasks: { s: () => undefined } });
    await assert.rejects(worker.run(), { code: "bad_argument" });
    await worker.stop();
    await assert.rejects(worker.run(), /a worker that was stopped cannot run again; create a new one/);
  });

  it("closes its runtimes once: when all has ended with the rest of the grace time, or at once with none", async () => {
    for (const [twice, expected] of [
      [false, [4000]],
      [true, [0]],
    ] as const) {
      const t = bench();
      const closes: number[] = [];
      const runtime: Runtime = {
        names: ["other"],
        task: () => null,
        close: (graceMs) => {
          closes.push(graceMs);
          return Promise.reject(new Error("stuck"));
        },
      };
      const { worker, running, end } = await held(t, 5000, [runtime]);
      void worker.stop();
      await t.advance(1000);
      assert.deepEqual(closes, []);
      if (twice) await worker.stop();
      else end();
      await running;
      assert.deepEqual(closes, expected);
      assert.ok(t.lines.some(({ message }) => message === "a runtime did not close"));
    }
  });

  it("closes its runtimes also when it never ran, or could not start", async () => {
    const t = bench();
    const closes: number[] = [];
    const runtime: Runtime = {
      names: ["other"],
      task: () => null,
      close: async (graceMs) => void closes.push(graceMs),
    };
    const unused = new Worker(t.ns, { clock: t.clock, runtimes: [runtime] });
    await unused.stop();
    await unused.stop();
    assert.deepEqual(closes, [0]);
    const asked = gate();
    const answer = gate();
    const over = wrapped(t.coordinate, {
      updateWorkers: async () => {
        asked.open();
        await answer.promise;
        throw new CoordinateError("bad_argument");
      },
    });
    const refused = new Worker(handles(over).namespace("test"), { clock: t.clock, runtimes: [runtime] });
    const running = refused.run();
    await asked.promise;
    const stopping = refused.stop();
    answer.open();
    await assert.rejects(running, { code: "bad_argument" });
    await stopping;
    assert.deepEqual(closes, [0, 0]);
    assert.equal(t.clock.waiting, 0);
  });
});

describe("a coordinator that is closed before the worker has stopped", () => {
  for (const [when, task] of [
    ["while a task runs", () => new Promise<void>(() => undefined)],
    ["while an outcome waits to be stored", () => ({ done: true })],
  ] as const)
    it(`${when}: the worker stops by itself, says so, and reports what it could not store`, async () => {
      const t = bench();
      await t.ns.setWorkSpec({ name: "s" });
      await t.ns.workSpec("s").addWorkUnits([["u"]]);
      let closing = Promise.resolve();
      const worker = new Worker(t.ns, {
        clock: t.clock,
        log: recorder(t.lines),
        tasks: {
          s: () => {
            closing = t.coordinate.close();
            return task();
          },
        },
      });
      const units: string[] = [];
      worker.on("unsettled", (event) => units.push(...event.units));
      await assert.rejects(worker.run(), { code: "closed", message: /stop the worker first/ });
      await closing;
      await worker.stop();
      assert.deepEqual(units, ["u"]);
      assert.equal(t.lines.filter(({ level }) => level === "error").length, 2);
      assert.equal(t.clock.waiting, 0);
    });

  it("before it runs: run rejects", async () => {
    const t = bench();
    await t.coordinate.close();
    const worker = new Worker(t.ns, { clock: t.clock, tasks: { s: () => undefined } });
    await assert.rejects(worker.run(), { code: "closed" });
  });
});

it("sends nothing after it has stopped, also when a task ends with an error after its unit was deleted", async () => {
  const t = bench();
  await t.ns.setWorkSpec({ name: "s" });
  await t.ns.workSpec("s").addWorkUnits([["u"]]);
  const sent: string[] = [];
  const over = wrapped(t.coordinate, {
    settleAttempts: (ns, changes) => {
      sent.push(...changes.map(({ action }) => action));
      return t.coordinate.settleAttempts(ns, changes);
    },
  });
  const begun = gate();
  const worker = t.start(
    {
      tasks: {
        s: async (_unit, { signal }) => {
          begun.open();
          await new Promise((resolve) => signal.addEventListener("abort", resolve));
          throw new Error("ended");
        },
      },
    },
    over,
  );
  await begun.promise;
  await t.ns.workSpec("s").deleteWorkUnits({ all: true });
  const stopping = worker.stop({ graceMs: 0 });
  await t.advance(0);
  await stopping;
  await turns();
  assert.deepEqual(sent, ["error"]);
});

it("does not report a unit as given back when it was deleted before", async () => {
  const t = bench();
  await t.ns.setWorkSpec({ name: "s" });
  await t.ns.workSpec("s").addWorkUnits([["u"]]);
  const begun = gate();
  const worker = t.start({
    tasks: {
      s: async (_unit, { signal }) => {
        begun.open();
        await new Promise((resolve) => signal.addEventListener("abort", resolve));
        signal.throwIfAborted();
      },
    },
  });
  await begun.promise;
  await t.ns.workSpec("s").deleteWorkUnits({ all: true });
  const stopping = worker.stop({ graceMs: 0 });
  await t.advance(0);
  await stopping;
  assert.equal(worker.counts.released, 0);
  assert.equal(t.events.filter(({ type }) => type === "lost").length, 1);
});

describe("errors in user code", () => {
  it("a listener that throws is logged and ends nothing", async () => {
    const t = bench();
    await t.ns.setWorkSpec({ name: "s", runtime: "node" });
    await t.ns.workSpec("s").addWorkUnits([["a"], ["b"]]);
    const worker = t.start({ tasks: { s: () => undefined } });
    worker.on("finished", () => {
      throw new Error("listener");
    });
    await until("it works", async () => (await t.status("s", "b")) === "finished");
    assert.ok(t.lines.some(({ level }) => level === "error"));
  });

  it("a task that fails over and over leaves the worker at work", async () => {
    const t = bench();
    await t.ns.setWorkSpec({ name: "s", runtime: "node", max_getwork: 1 });
    await t.ns.workSpec("s").addWorkUnits(Array.from({ length: 50 }, (_, i) => [`u${i}`] as const));
    const worker = t.start({
      concurrency: 3,
      tasks: {
        s: bulk(async (attempts) => {
          if (attempts[0]!.workUnitName.endsWith("7")) await Promise.reject(new Error("seven"));
          throw new Error("broken");
        }),
      },
    });
    await until("all have failed", () => worker.counts.failed === 50);
  });
});
