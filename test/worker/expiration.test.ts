import assert from "node:assert/strict";
import { describe, it } from "vitest";
import { CoordinateError } from "../../src/index.ts";
import type { Attempt } from "../../src/objects/index.ts";
import { bulk, type Runtime, type BulkContext } from "../../src/worker/index.ts";
import { bench, gate, turns, until, wrapped, type Bench } from "./setup.ts";

const second = 1000;
const minute = 60 * second;

/** A worker with one running task that waits until the test ends it. */
async function running(
  t: Bench,
  {
    lifetimeMs,
    units = ["u"],
    renewForMs = 0,
  }: { lifetimeMs: number; units?: string[]; renewForMs?: number },
): Promise<{ attempts: readonly Attempt[]; context: BulkContext; end: () => void }> {
  await t.ns.setWorkSpec({ name: "s", runtime: "node" });
  await t.ns.workSpec("s").addWorkUnits(units.map((name) => [name, { own: name }] as const));
  const begun = gate<{ attempts: readonly Attempt[]; context: BulkContext }>();
  const end = gate();
  t.start({
    lifetimeMs,
    renewForMs,
    tasks: {
      s: bulk(async (attempts, context) => {
        begun.open({ attempts, context });
        await end.promise;
      }),
    },
  });
  return { ...(await begun.promise), end: () => end.open() };
}

describe("the signal", () => {
  it("is aborted 30 seconds before the first attempt expires, and not before", async () => {
    const t = bench();
    const { context } = await running(t, { lifetimeMs: 15 * minute });
    await t.advance(14.5 * minute - 1);
    assert.equal(context.signal.aborted, false);
    await t.advance(1);
    assert.equal(context.signal.aborted, true);
    assert.equal(context.expired.aborted, false);
    assert.match(String(context.signal.reason), /lease ends soon/);
  });

  it("of a short lease is not aborted before half the lifetime has passed", async () => {
    const t = bench();
    const { context } = await running(t, { lifetimeMs: 10 * second });
    await t.advance(5 * second - 1);
    assert.equal(context.signal.aborted, false);
    await t.advance(1);
    assert.equal(context.signal.aborted, true);
  });

  it("of a lease of a minute is aborted in the middle by both rules", async () => {
    const t = bench();
    const { context } = await running(t, { lifetimeMs: minute });
    await t.advance(30 * second - 1);
    assert.equal(context.signal.aborted, false);
    await t.advance(1);
    assert.equal(context.signal.aborted, true);
  });

  it("has no effect of its own: the attempts are still the task's", async () => {
    const t = bench();
    const { attempts, context } = await running(t, { lifetimeMs: 15 * minute });
    await t.advance(14.6 * minute);
    assert.equal(context.signal.aborted, true);
    assert.equal(await t.status("s", "u"), "pending");
    await attempts[0]!.finish();
    assert.equal(await t.status("s", "u"), "finished");
  });

  it("follows the first of the attempts that are pending: a settled one does not count", async () => {
    const t = bench();
    const { attempts, context } = await running(t, { lifetimeMs: 15 * minute, units: ["a", "b"] });
    await t.advance(10 * minute);
    await attempts[1]!.renew(15 * minute);
    await attempts[0]!.finish();
    await t.advance(4.5 * minute);
    assert.equal(context.signal.aborted, false);
    await t.advance(10 * minute);
    assert.equal(context.signal.aborted, true);
  });

  it("comes for the first to expire when leases differ", async () => {
    const t = bench();
    const { attempts, context } = await running(t, { lifetimeMs: 15 * minute, units: ["a", "b"] });
    await attempts[1]!.renew(2 * minute);
    await t.advance(1.5 * minute - 1);
    assert.equal(context.signal.aborted, false);
    await t.advance(1);
    assert.equal(context.signal.aborted, true);
  });
});

describe("time that is up", () => {
  it("15 seconds before the end, pending attempts are failed with the traceback", async () => {
    const t = bench();
    const { attempts, context } = await running(t, { lifetimeMs: 15 * minute, units: ["a", "b"] });
    await attempts[0]!.finish({ done: true });
    await t.advance(14.75 * minute - 1);
    assert.equal(context.expired.aborted, false);
    assert.equal(await t.status("s", "b"), "pending");
    await t.advance(1);
    assert.equal(context.expired.aborted, true);
    assert.equal(await t.status("s", "b"), "failed");
    assert.deepEqual(await t.data("s", "b"), { own: "b", traceback: "timed out" });
    assert.deepEqual(await t.data("s", "a"), { done: true });
    assert.equal(attempts[1]!.status, "failed");
    const told = t.events.filter(({ type }) => type === "timedOut");
    assert.deepEqual(told, [{ type: "timedOut", worker: "w/1", workSpec: "s", units: ["b"] }]);
  });

  it("of a short lease it is up in the last quarter", async () => {
    const t = bench();
    const { context } = await running(t, { lifetimeMs: 20 * second });
    await t.advance(15 * second - 1);
    assert.equal(context.expired.aborted, false);
    assert.equal(await t.status("s", "u"), "pending");
    await t.advance(1);
    assert.equal(context.expired.aborted, true);
    assert.equal(await t.status("s", "u"), "failed");
  });

  it("a task that returned in time is not failed", async () => {
    const t = bench();
    const { attempts, context, end } = await running(t, { lifetimeMs: 20 * second });
    await attempts[0]!.finish();
    end();
    await t.advance(minute);
    assert.equal(context.signal.aborted, false);
    assert.equal(context.expired.aborted, false);
    assert.equal(await t.status("s", "u"), "finished");
    assert.equal(t.clock.waiting > 0, true);
  });

  it("a task may still finish what was failed: finish wins", async () => {
    const t = bench();
    const { attempts } = await running(t, { lifetimeMs: 20 * second });
    await t.advance(15 * second);
    assert.equal(await t.status("s", "u"), "failed");
    await attempts[0]!.finish({ late: "but done" });
    assert.equal(await t.status("s", "u"), "finished");
  });

  it("the slot takes no other work until the task has returned, and then it does", async () => {
    const t = bench();
    const { end } = await running(t, { lifetimeMs: 20 * second });
    await t.advance(15 * second);
    await t.ns.workSpec("s").addWorkUnits([["next"]]);
    await t.advance(15 * second);
    assert.equal(await t.status("s", "next"), "available");
    assert.equal((await t.ns.worker("w/1").state()).mode, "overdue");
    end();
    await until("the next is taken", async () => (await t.status("s", "next")) === "pending");
  });

  it("a runtime says what the traceback is", async () => {
    const t = bench();
    await t.ns.setWorkSpec({ name: "s", runtime: "slow" });
    await t.ns.workSpec("s").addWorkUnits([["u"]]);
    const begun = gate();
    const runtime: Runtime = {
      names: ["slow"],
      timedOut: "killed after its time",
      task: () => () => {
        begun.open();
        return new Promise(() => undefined);
      },
      close: () => Promise.resolve(),
    };
    t.start({ runtimes: [runtime], lifetimeMs: 4 * second });
    await begun.promise;
    await t.advance(3 * second);
    assert.deepEqual(await t.data("s", "u"), { traceback: "killed after its time" });
  });

  it("what a task has settled and not waited for is not failed beside it", async () => {
    const t = bench();
    let hold: Promise<void> | null = null;
    const opened = gate();
    const slow = wrapped(t.coordinate, {
      settleAttempts: async (...args) => {
        await hold;
        return t.coordinate.settleAttempts(...args);
      },
    });
    await t.ns.setWorkSpec({ name: "s", runtime: "node" });
    await t.ns.workSpec("s").addWorkUnits([["u"]]);
    const begun = gate();
    const task = (attempts: readonly Attempt[]): Promise<void> => {
      hold = opened.promise;
      void attempts[0]!.finish({ ok: true });
      begun.open();
      return Promise.resolve();
    };
    const worker = t.start({ lifetimeMs: 4 * second, tasks: { s: bulk(task) } }, slow);
    await begun.promise;
    await t.advance(3.5 * second);
    opened.open();
    await until("it is finished", async () => (await t.status("s", "u")) === "finished");
    assert.equal(worker.counts.timedOut, 0);
    assert.equal(worker.counts.refused, 0);
  });
});

describe("a renew", () => {
  it("of the task moves both points", async () => {
    const t = bench();
    const { context } = await running(t, { lifetimeMs: 15 * minute });
    await t.advance(14 * minute);
    await context.renew();
    await t.advance(14.5 * minute - 1);
    assert.equal(context.signal.aborted, false);
    await t.advance(1);
    assert.equal(context.signal.aborted, true);
    await t.advance(15 * second);
    assert.equal(await t.status("s", "u"), "failed");
  });

  it("for a short time moves them nearer", async () => {
    const t = bench();
    const { context } = await running(t, { lifetimeMs: 15 * minute });
    await context.renew(8 * second);
    await t.advance(4 * second - 1);
    assert.equal(context.signal.aborted, false);
    await t.advance(1);
    assert.equal(context.signal.aborted, true);
    await t.advance(2 * second);
    assert.equal(await t.status("s", "u"), "failed");
  });

  it("after the signal leaves it aborted, and moves the end", async () => {
    const t = bench();
    const { context } = await running(t, { lifetimeMs: 20 * second });
    await t.advance(10 * second);
    assert.equal(context.signal.aborted, true);
    await context.renew();
    await t.advance(14 * second);
    assert.equal(context.signal.aborted, true);
    assert.equal(await t.status("s", "u"), "pending");
    await t.advance(second);
    assert.equal(await t.status("s", "u"), "failed");
  });

  it("tells when the lease was lost, and renews the others", async () => {
    const t = bench();
    const { attempts, context } = await running(t, { lifetimeMs: 15 * minute, units: ["a", "b"] });
    await t.ns.workSpec("s").retry({ names: ["a"] });
    await assert.rejects(context.renew(30 * minute), { code: "lost_lease" });
    assert.equal(attempts[1]!.expirationTime, t.clock.now() + 30 * minute);
  });

  it("of zero or less is no renew", async () => {
    const t = bench();
    const { context } = await running(t, { lifetimeMs: 15 * minute });
    await assert.rejects(context.renew(0), { code: "bad_argument" });
    assert.equal(await t.status("s", "u"), "pending");
  });

  it("comes by itself where asked for, until the task has run its time", async () => {
    const t = bench();
    const { context } = await running(t, { lifetimeMs: 30 * second, renewForMs: 5 * minute });
    for (let s = 0; s < 299; s += 1) await t.advance(second);
    assert.equal(context.signal.aborted, false);
    assert.equal(await t.status("s", "u"), "pending");
    for (let s = 0; s < 31; s += 1) await t.advance(second);
    assert.equal(context.signal.aborted, true);
    assert.equal(await t.status("s", "u"), "failed");
  });
});

describe("an outage of the coordinator", () => {
  /** A worker that renews the lease of 30 seconds of its only unit; the coordinator does not answer from 9 s to 20 s. */
  async function outage(t: Bench, renewForMs: number): Promise<BulkContext> {
    await t.ns.setWorkSpec({ name: "s", runtime: "node" });
    await t.ns.workSpec("s").addWorkUnits([["u"]]);
    let down = false;
    const over = wrapped(t.coordinate, {
      settleAttempts: (...args) =>
        down ? Promise.reject(new CoordinateError("unavailable")) : t.coordinate.settleAttempts(...args),
    });
    const begun = gate<BulkContext>();
    const task = bulk((_, context) => {
      begun.open(context);
      return new Promise<void>(() => undefined);
    });
    t.start({ lifetimeMs: 30 * second, renewForMs, tasks: { s: task } }, over);
    const context = await begun.promise;
    for (let s = 1; s <= 20; s++) {
      await t.advance(second);
      down = s >= 9 && s < 20;
    }
    return context;
  }

  it("shorter than the lease ends no task whose lease the worker renews, and renewals go on", async () => {
    const t = bench();
    const context = await outage(t, Infinity);
    for (let s = 0; s < 100; s++) await t.advance(second);
    assert.equal(context.signal.aborted, false);
    assert.equal(await t.status("s", "u"), "pending");
  });

  it("does not delay the signal of a task that has run its time", async () => {
    const t = bench();
    const context = await outage(t, 17 * second);
    assert.match(String(context.signal.reason), /lease ends soon/);
    assert.equal(context.expired.aborted, false);
  });
});

describe("progress", () => {
  it("is stored for others to see, and leaves the lease and its points as they are", async () => {
    const t = bench();
    const { attempts, context } = await running(t, { lifetimeMs: 15 * minute });
    const { expirationTime } = attempts[0]!;
    await t.advance(14 * minute);
    await context.progress(attempts[0]!, { part: 7 });
    assert.deepEqual(await t.data("s", "u"), { part: 7 });
    assert.equal(attempts[0]!.expirationTime, expirationTime);
    await t.advance(30 * second - 1);
    assert.equal(context.signal.aborted, false);
    await t.advance(1);
    assert.equal(context.signal.aborted, true);
    await t.advance(15 * second - 1);
    assert.equal(await t.status("s", "u"), "pending");
    await t.advance(1);
    assert.equal(await t.status("s", "u"), "failed");
  });

  it("of a settled attempt is refused", async () => {
    const t = bench();
    const { attempts, context } = await running(t, { lifetimeMs: 15 * minute });
    await attempts[0]!.finish();
    await assert.rejects(context.progress(attempts[0]!, { part: 7 }), { code: "not_pending" });
  });
});

/** A worker whose clock is the engine's clock plus an offset, and the context of its task once it runs. */
async function besideClock(t: Bench, clock: { offset: number }): Promise<{ begun: Promise<BulkContext> }> {
  await t.ns.setWorkSpec({ name: "s", runtime: "node" });
  const begun = gate<BulkContext>();
  const task = (_: readonly Attempt[], context: BulkContext): Promise<void> => {
    begun.open(context);
    return new Promise(() => undefined);
  };
  t.start({
    clock: {
      now: () => t.clock.now() + clock.offset,
      waitUntil: (time: number, signal?: AbortSignal) => t.clock.waitUntil(time - clock.offset, signal),
    },
    lifetimeMs: minute,
    tasks: { s: bulk(task) },
  });
  return { begun: begun.promise };
}

/** The task of a lease of a minute is told after half of it, and its time is up after three quarters. */
async function hasItsTime(t: Bench, { signal }: BulkContext): Promise<void> {
  await t.advance(30 * second - 1);
  assert.equal(signal.aborted, false);
  await t.advance(1);
  assert.equal(signal.aborted, true);
  await t.advance(15 * second - 1);
  assert.equal(await t.status("s", "u"), "pending");
  await t.advance(1);
  await turns();
  assert.equal(await t.status("s", "u"), "failed");
}

describe("a coordinator whose clock differs", () => {
  for (const offset of [-10 * minute, 10 * minute])
    it(`by ${offset / minute} minutes makes no difference to the points`, async () => {
      const t = bench();
      const { begun } = await besideClock(t, { offset });
      await t.ns.workSpec("s").addWorkUnits([["u"]]);
      await hasItsTime(t, await begun);
    });

  it("because the worker's clock was set forward: the next check-in tells the worker", async () => {
    const t = bench();
    const clock = { offset: 0 };
    const { begun } = await besideClock(t, clock);
    await turns();
    clock.offset = 10 * minute;
    for (let s = 0; s < 15; s++) await t.advance(second);
    await t.ns.workSpec("s").addWorkUnits([["u"]]);
    await hasItsTime(t, await begun);
  });
});
