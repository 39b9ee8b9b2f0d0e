/** Results, and waiting for them. */
import assert from "node:assert/strict";
import { describe, expect, test } from "vitest";
import { WorkUnitFailedError } from "../../src/index.ts";
import { setup } from "./setup.ts";

const turn = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));

async function withUnits() {
  const all = setup();
  const spec = await all.ns.setWorkSpec({ name: "spec" });
  await spec.addWorkUnits([["a", { n: 1 }], ["b"]]);
  return { ...all, spec, worker: all.ns.worker("worker") };
}

describe("the result of a unit", () => {
  test("is what it was finished with, however long that takes", async () => {
    const { spec, worker, clock } = await withUnits();
    const unit = await spec.workUnit("a");
    const result = unit.result();
    const [attempt] = await worker.requestAttempts();
    for (let i = 0; i < 5; i++) {
      while (clock.waiting === 0) await turn();
      await attempt!.renew();
      clock.advance(30_000);
    }
    await attempt!.finish({ sum: 3 });
    expect(await result).toEqual({ sum: 3 });
    expect(unit.status).toBe("finished");
  });

  test("of a failed unit is an error that says why", async () => {
    const { spec, worker } = await withUnits();
    const unit = await spec.workUnit("a");
    const [attempt] = await worker.requestAttempts();
    await attempt!.failWith("Error: broken\n    at line 1");
    await assert.rejects(unit.result(), (error) => {
      assert.ok(error instanceof WorkUnitFailedError);
      expect(error.message).toBe("work unit a of spec failed: Error: broken");
      expect(error.traceback).toBe("Error: broken\n    at line 1");
      expect(error.data).toEqual({ n: 1, traceback: error.traceback });
      return true;
    });
  });

  test("is not waited for longer than asked, nor after the signal", async () => {
    const { spec, clock } = await withUnits();
    const unit = await spec.workUnit("a");
    await expect(unit.result({ waitMs: 0 })).rejects.toMatchObject({
      code: "unavailable",
      message: 'Not available: "a" has not ended after 0 ms',
    });
    const late = unit.result({ waitMs: 45_000 });
    for (const ms of [30_000, 15_000]) {
      while (clock.waiting === 0) await turn();
      clock.advance(ms);
    }
    await expect(late).rejects.toMatchObject({ code: "unavailable" });
    await expect(unit.result({ signal: AbortSignal.abort(new Error("enough")) })).rejects.toThrow("enough");
    await expect(unit.result({ waitMs: -1 })).rejects.toMatchObject({ code: "bad_argument" });
  });

  test("of a deleted unit is gone", async () => {
    const { spec } = await withUnits();
    const unit = await spec.workUnit("a");
    await unit.delete();
    await expect(unit.result()).rejects.toMatchObject({ code: "gone" });
  });
});

test("several units are waited for together, finished and failed", async () => {
  const { spec, worker } = await withUnits();
  const waiting = spec.wait(["b", "a"]);
  const [a, b] = await worker.requestAttempts({ number: 2 });
  await a!.finish({ sum: 1 });
  await b!.fail();
  expect((await waiting).map(({ name, status }) => [name, status])).toEqual([
    ["b", "failed"],
    ["a", "finished"],
  ]);
  await expect(spec.wait(["a", "none"])).rejects.toMatchObject({ code: "no_such_work_unit" });
});

describe("an attempt's handle", () => {
  test("reports progress with a lease as long as the first", async () => {
    const { worker, clock, spec } = await withUnits();
    const [attempt] = await worker.requestAttempts({ lifetimeMs: 5000 });
    expect(attempt!.reported).toBeNull();
    clock.advance(4000);
    const { expirationTime } = await attempt!.progress(0.25, "one of four");
    expect(expirationTime).toBe(clock.now() + 5000);
    expect(attempt!.reported).toEqual({ done: 0.25, note: "one of four" });
    expect((await spec.workUnit("a")).progress).toEqual({ done: 0.25, note: "one of four" });
    await expect(attempt!.progress(7)).rejects.toMatchObject({ code: "bad_argument" });
    await attempt!.finish();
    expect(attempt!.reported).toBeNull();
  });
});

test("a unit's handle cancels it", async () => {
  const { spec, worker } = await withUnits();
  const [attempt] = await worker.requestAttempts();
  const unit = await spec.workUnit("a");
  await unit.cancel({ by: "alice" });
  expect(unit.status).toBe("failed");
  expect(unit.data).toEqual({ n: 1, traceback: "cancelled by alice" });
  await expect(attempt!.finish()).rejects.toMatchObject({ code: "lost_lease" });
  expect(await spec.cancel({ all: true })).toBe(1);
});
