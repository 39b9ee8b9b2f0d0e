/** Results, and waiting for them. */
import assert from "node:assert/strict";
import { describe, expect, test } from "vitest";
import { override } from "../../src/core/index.ts";
import { CoordinateError, CoordinateHandle, NotEndedError, WorkUnitFailedError } from "../../src/index.ts";
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

test("a missing unit is reported at once, although another has not ended", async () => {
  const { spec } = await withUnits();
  await expect(spec.wait(["a", "none"], { waitMs: 60_000 })).rejects.toMatchObject({
    code: "no_such_work_unit",
    value: "none",
  });
});

describe("an outage", () => {
  async function withOutage(failures: number) {
    const { coordinate, ns, spec, worker } = await withUnits();
    let left = failures;
    const { verbs } = coordinate;
    const failing = new CoordinateHandle(
      override(verbs, {
        awaitWorkUnits: async (...args) => {
          if (left-- > 0) throw new CoordinateError("unavailable", "connection refused");
          return verbs.awaitWorkUnits(...args);
        },
      }),
    );
    return { spec: failing.namespace(ns.name).workSpec(spec.name), worker };
  }

  test("does not end a wait that has time left", async () => {
    const { spec, worker } = await withOutage(2);
    const [first, second] = await worker.requestAttempts({ number: 2 });
    await first!.finish({ sum: 3 });
    await second!.finish();
    expect(await (await spec.workUnit("a")).result({ waitMs: 60_000 })).toEqual({ sum: 3 });
    expect(await (await withOutage(2)).spec.wait([])).toEqual([]);
  });

  test("ends it after its time, with another error than units that have not ended", async () => {
    const { spec } = await withOutage(Infinity);
    const start = performance.now();
    const error: unknown = await spec.wait(["a", "b"], { waitMs: 600 }).catch((reason: unknown) => reason);
    expect(performance.now() - start).toBeGreaterThan(500);
    expect(error).toMatchObject({ code: "unavailable", value: "connection refused" });
    expect(error).not.toBeInstanceOf(NotEndedError);
    const { spec: reachable } = await withOutage(0);
    await expect(reachable.wait(["a", "b"], { waitMs: 0 })).rejects.toBeInstanceOf(NotEndedError);
  });
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
