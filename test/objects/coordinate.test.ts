import { describe, expect, test, vi } from "vitest";
import * as main from "../../src/index.ts";
import { CoordinateHandle, Engine, handles, ManualClock, openMemory } from "../../src/index.ts";
import { MemoryStore } from "../../src/memory/index.ts";
import { expectError, setup } from "./setup.ts";

describe("handles", () => {
  test("wraps whatever implements the verbs", () => {
    const engine = new Engine(new MemoryStore());
    const coordinate = handles(engine);
    expect(coordinate).toBeInstanceOf(CoordinateHandle);
    expect(coordinate.verbs).toBe(engine);
  });

  test("the default namespace has the empty name", () => {
    expect(setup().coordinate.namespace().name).toBe("");
  });

  test("namespaces() lists those that exist; a handle alone creates nothing", async () => {
    const { coordinate } = setup();
    await coordinate.namespace("b").setWorkSpec({ name: "spec" });
    await coordinate.namespace("a").configure({ desired: "idle" });
    coordinate.namespace("c").workSpec("spec");
    expect((await coordinate.namespaces()).map(({ name }) => name)).toEqual(["a", "b"]);
  });

  test("tally() tells of all namespaces", async () => {
    const { coordinate } = setup();
    for (const name of ["a", "b"]) {
      const spec = await coordinate.namespace(name).setWorkSpec({ name: "spec" });
      await spec.addWorkUnit("unit");
    }
    const rows = await coordinate.tally();
    expect(rows.map(({ namespace, counts }) => [namespace, counts.available])).toEqual([
      ["a", 1],
      ["b", 1],
    ]);
  });

  test("close() is idempotent; what is asked later is refused", async () => {
    const { coordinate } = setup();
    await coordinate.close();
    await coordinate.close();
    await expectError("closed", coordinate.namespaces());
    await expectError("closed", coordinate.namespace().setWorkSpec({ name: "spec" }));
  });

  test("disposing closes", async () => {
    const { coordinate } = setup();
    await coordinate[Symbol.asyncDispose]();
    await expectError("closed", coordinate.namespaces());
  });
});

describe("openMemory", () => {
  test("the main entry has the domain and the handles, and no driver", () => {
    expect(main).toMatchObject({ Engine, ManualClock, handles, openMemory });
    expect(Object.keys(main).filter((name) => /sqlite|postgres|rest|memorystore/i.test(name))).toEqual([]);
  });

  test("takes the options of the engine", async () => {
    const coordinate = openMemory({ maxDataBytes: 100 });
    const spec = await coordinate.namespace().setWorkSpec({ name: "spec" });
    await expectError("too_large", spec.addWorkUnit("unit", { text: "x".repeat(200) }));
    await coordinate.close();
  });

  test("a larger limit of the engine is not cut by the handles", async () => {
    const coordinate = openMemory({ maxDataBytes: 20 * 1024 * 1024 });
    const spec = await coordinate.namespace().setWorkSpec({ name: "spec" });
    await spec.addWorkUnit("unit", { text: "x".repeat(17 * 1024 * 1024) });
    await coordinate.close();
  });

  test("tidies by itself: a unit that was tried too often fails though nobody asks for work", async () => {
    vi.useFakeTimers();
    try {
      const coordinate = openMemory({ sweepMs: 1000 });
      const spec = await coordinate.namespace().setWorkSpec({ name: "spec", max_retries: 1 });
      await spec.addWorkUnit("unit");
      const [attempt] = await coordinate.namespace().worker("worker").requestAttempts();
      await attempt?.retry();
      expect((await spec.counts()).available).toBe(1);
      await vi.advanceTimersByTimeAsync(1500);
      expect((await spec.counts()).failed).toBe(1);
      await coordinate.close();
      expect(vi.getTimerCount()).toBe(0);
    } finally {
      vi.useRealTimers();
    }
  });

  test("with a clock of one's own it does not, unless told to", async () => {
    vi.useFakeTimers();
    try {
      const coordinate = openMemory({ clock: new ManualClock() });
      expect(vi.getTimerCount()).toBe(0);
      await coordinate.close();
    } finally {
      vi.useRealTimers();
    }
  });
});
