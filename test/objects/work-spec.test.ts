import { describe, expect, test } from "vitest";
import { encodeData, Tuple, type NewWorkUnit, type WorkSpec } from "../../src/index.ts";
import { all, expectError, setup } from "./setup.ts";

const named = (count: number): NewWorkUnit[] =>
  Array.from({ length: count }, (_, i) => ({ name: `unit-${String(i).padStart(5, "0")}`, data: { i } }));

describe("data and metadata", () => {
  test("data() is what was set, decoded", async () => {
    const { ns } = setup();
    const spec = await ns.setWorkSpec({ name: "spec", config: { pair: Tuple.of(1, 2) } });
    expect(await spec.data()).toEqual({ name: "spec", config: { pair: Tuple.of(1, 2) } });
  });

  test("setData() replaces; the name stays; keepMeta keeps", async () => {
    const { ns } = setup();
    const spec = await ns.setWorkSpec({ name: "spec" });
    await spec.setMeta({ weight: 3 });
    await spec.setData({ name: "spec", desc: "more" }, { keepMeta: true });
    expect([await spec.data(), (await spec.meta()).weight]).toEqual([{ name: "spec", desc: "more" }, 3]);
    await spec.setData({ name: "spec", weight: 9 });
    expect((await spec.meta()).weight).toBe(9);
    await expectError("changed_name", spec.setData({ name: "other" }));
    await expectError("no_work_spec_name", spec.setData({}));
    expect(await spec.data()).toEqual({ name: "spec", weight: 9 });
  });

  test("setData() makes no spec that is not there", async () => {
    const { ns } = setup();
    await expectError("no_such_work_spec", ns.workSpec("spec").setData({ name: "spec" }));
    expect(await all(ns.workSpecs())).toEqual([]);
  });

  test("setMeta() answers the result; continuous stays off where it cannot be", async () => {
    const { ns } = setup();
    const spec = await ns.setWorkSpec({ name: "spec" });
    expect(await spec.setMeta({ continuous: true, priority: 5 })).toMatchObject({
      continuous: false,
      priority: 5,
    });
    await expectError("bad_argument", spec.setMeta({ runtime: "node" } as never));
  });

  test("pause() and resume()", async () => {
    const { ns } = setup();
    const spec = await ns.setWorkSpec({ name: "spec" });
    await spec.addWorkUnit("unit");
    expect((await spec.pause()).paused).toBe(true);
    expect(await ns.worker("worker").requestAttempts()).toEqual([]);
    expect((await spec.resume()).paused).toBe(false);
    expect(await ns.worker("worker").requestAttempts()).toHaveLength(1);
  });

  test("counts()", async () => {
    const { ns } = setup();
    const spec = await ns.setWorkSpec({ name: "spec" });
    await spec.addWorkUnits([{ name: "a" }, { name: "b" }, { name: "c", delayMs: 1000 }]);
    await ns.worker("worker").requestAttempts();
    const counts = { available: 1, delayed: 1, blocked: 0, pending: 1, finished: 0, failed: 0 };
    expect(await spec.counts()).toEqual(counts);
    expect(await ns.workSpec("spec").counts()).toEqual(counts);
    await expectError("no_such_work_spec", ns.workSpec("other").counts());
  });
});

describe("after deletion", () => {
  const methods: [string, (spec: WorkSpec) => Promise<unknown>][] = [
    ["data", (spec) => spec.data()],
    ["setData", (spec) => spec.setData({ name: "spec" })],
    ["meta", (spec) => spec.meta()],
    ["setMeta", (spec) => spec.setMeta({ weight: 1 })],
    ["pause", (spec) => spec.pause()],
    ["resume", (spec) => spec.resume()],
    ["counts", (spec) => spec.counts()],
    ["addWorkUnit", (spec) => spec.addWorkUnit("unit")],
    ["addWorkUnits", (spec) => spec.addWorkUnits([["unit"]])],
    ["workUnit", (spec) => spec.workUnit("unit")],
    ["workUnits", (spec) => all(spec.workUnits())],
    ["setPriorities", (spec) => spec.setPriorities({ all: true }, 1)],
    ["adjustPriorities", (spec) => spec.adjustPriorities({ all: true }, 1)],
    ["setDelays", (spec) => spec.setDelays({ all: true }, 0)],
    ["retry", (spec) => spec.retry()],
    ["deleteWorkUnits", (spec) => spec.deleteWorkUnits({ all: true })],
    ["delete", (spec) => spec.delete()],
  ];

  test.each(methods)(
    "%s of a pinned handle is gone, also when the name is another spec's",
    async (_name, method) => {
      const { ns } = setup();
      const spec = await ns.setWorkSpec({ name: "spec" });
      await spec.delete();
      await expectError("gone", method(spec));
      const next = await ns.setWorkSpec({ name: "spec", desc: "next" });
      await next.addWorkUnit("kept");
      await expectError("gone", method(spec));
      expect([await next.data(), (await next.counts()).available]).toEqual([
        { name: "spec", desc: "next" },
        1,
      ]);
    },
  );

  test.each(methods)("%s of a handle by name finds no such spec", async (_name, method) => {
    const { ns } = setup();
    await expectError("no_such_work_spec", method(ns.workSpec("spec")));
  });

  test("a handle by name means whatever has the name", async () => {
    const { ns } = setup();
    const spec = ns.workSpec("spec");
    await ns.setWorkSpec({ name: "spec", desc: "first" });
    await spec.delete();
    await ns.setWorkSpec({ name: "spec", desc: "second" });
    expect((await spec.data()).desc).toBe("second");
  });
});

describe("adding units", () => {
  test("addWorkUnit() answers the unit", async () => {
    const { ns, clock } = setup();
    const spec = await ns.setWorkSpec({ name: "spec" });
    const unit = await spec.addWorkUnit("unit", { n: 1 }, { priority: 2, delayMs: 500 });
    expect([unit.name, unit.data, unit.priority, unit.notBefore, unit.status]).toEqual([
      "unit",
      { n: 1 },
      2,
      clock.now() + 500,
      "delayed",
    ]);
    expect((await spec.addWorkUnit("later", null, { notBefore: clock.now() + 9 })).status).toBe("delayed");
    const waits = await spec.addWorkUnit("waits", {}, { dependencies: [{ workUnit: "unit", kind: "soft" }] });
    expect([waits.status, waits.dependencies]).toEqual([
      "blocked",
      [{ workSpec: "spec", workUnit: "unit", kind: "soft", status: "delayed" }],
    ]);
  });

  test("addWorkUnit() refuses, and adds nothing", async () => {
    const { ns } = setup();
    const spec = await ns.setWorkSpec({ name: "spec" });
    await expectError("bad_data", spec.addWorkUnit("unit", []));
    await expectError("bad_data", spec.addWorkUnit("unit", { call: () => 1 }));
    await expectError("bad_argument", spec.addWorkUnit("unit", {}, { priority: NaN }));
    await expectError("bad_argument", spec.addWorkUnit("unit", {}, { delayMs: 5, notBefore: 5 }));
    await expectError(
      "bad_dependency",
      spec.addWorkUnit("unit", {}, { dependencies: [{ workUnit: "none" }] }),
    );
    expect(await all(spec.workUnits())).toEqual([]);
  });

  test("addWorkUnits() takes objects, pairs and mixtures", async () => {
    const { ns } = setup();
    const spec = await ns.setWorkSpec({ name: "spec" });
    await spec.addWorkUnit("a");
    const result = await spec.addWorkUnits([
      ["a", { n: 1 }],
      ["b"],
      { name: "c", data: { n: 3 }, priority: 4 },
    ]);
    expect(result).toEqual({ count: 3, created: 2 });
    const units = await all(spec.workUnits());
    expect(units.map(({ name, data, rawData, priority }) => [name, data, rawData, priority])).toEqual([
      ["a", { n: 1 }, encodeData({ n: 1 }), 0],
      ["b", {}, null, 0],
      ["c", { n: 3 }, encodeData({ n: 3 }), 4],
    ]);
  });

  test("addWorkUnits() of nothing asks for nothing", async () => {
    const { ns, calls } = setup();
    expect(await ns.workSpec("spec").addWorkUnits([])).toEqual({ count: 0, created: 0 });
    expect(calls).toEqual([]);
  });

  test("addWorkUnits() cuts what is large, tells progress and reads no further ahead than a batch", async () => {
    const { ns, calls } = setup();
    const spec = await ns.setWorkSpec({ name: "spec" });
    let read = 0;
    const seen: [read: number, count: number, batch: number][] = [];
    async function* input(): AsyncGenerator<NewWorkUnit> {
      for (const unit of named(2500)) {
        read++;
        yield unit;
        if (read % 100 === 0) await Promise.resolve();
      }
    }
    const onProgress = (progress: { count: number }, batch: readonly unknown[]) =>
      seen.push([read, progress.count, batch.length]);
    expect(await spec.addWorkUnits(input(), { onProgress })).toEqual({ count: 2500, created: 2500 });
    expect(seen).toEqual([
      [1000, 1000, 1000],
      [2000, 2000, 1000],
      [2500, 2500, 500],
    ]);
    expect(calls.filter((verb) => verb === "addWorkUnits")).toHaveLength(3);
  });

  test("addWorkUnits() of what is no list, and misspelt options", async () => {
    const { ns } = setup();
    const spec = await ns.setWorkSpec({ name: "spec" });
    await expect(spec.addWorkUnits({ a: {} } as never)).rejects.toThrow(
      "Bad argument units: expected a list of [name, data] or { name, data }, got an object",
    );
    await expect(spec.addWorkUnits([["a"]], { waitMS: 5 } as never)).rejects.toThrow(
      "waitMS: not an option of addWorkUnits; did you mean waitMs?",
    );
    await expect(spec.addWorkUnit("a", { toJSON: () => 5 })).rejects.toThrow(
      "expected an object, got an object whose toJSON() returns no object",
    );
  });

  test("addWorkUnits() cuts by the length of the data too", async () => {
    const { ns } = setup();
    const spec = await ns.setWorkSpec({ name: "spec" });
    const sizes: number[] = [];
    const mebibytes = [3, 3, 3, 12, 1, 1];
    await spec.addWorkUnits(
      mebibytes.map((size, i) => [`u${i}`, { x: "x".repeat(size * 2 ** 20 - 100) }]),
      { onProgress: (_progress, { length }) => sizes.push(length) },
    );
    expect(sizes).toEqual([2, 1, 1, 2]);
  });

  test("addWorkUnits(): a batch that is refused is not added, those before it are", async () => {
    const { ns } = setup();
    const spec = await ns.setWorkSpec({ name: "spec" });
    const units = named(1500);
    units[1200] = { name: "bad", priority: Infinity };
    await expectError("bad_argument", spec.addWorkUnits(units));
    expect((await spec.counts()).available).toBe(1000);
  });

  test("addWorkUnits(): an input that throws ends it, with its own error", async () => {
    const { ns } = setup();
    const spec = await ns.setWorkSpec({ name: "spec" });
    function* input(): Generator<NewWorkUnit> {
      yield* named(1001);
      throw new RangeError("no more");
    }
    await expect(spec.addWorkUnits(input())).rejects.toThrow(RangeError);
    expect((await spec.counts()).available).toBe(1000);
  });
});

describe("finding units", () => {
  test("workUnit() throws when there is none", async () => {
    const { ns } = setup();
    const spec = await ns.setWorkSpec({ name: "spec" });
    await expectError("no_such_work_unit", spec.workUnit("unit"));
    await spec.addWorkUnit("unit", { n: 1 });
    expect((await spec.workUnit("unit")).data).toEqual({ n: 1 });
  });

  test("workUnits() goes over 2,500 units in small pages, each once and in order", async () => {
    const { ns, calls } = setup();
    const spec = await ns.setWorkSpec({ name: "spec" });
    await spec.addWorkUnits(named(2500).reverse());
    calls.length = 0;
    const units = await all(spec.workUnits({ pageSize: 70 }));
    expect(units.map(({ name }) => name)).toEqual(
      named(2500).map((unit) => ("name" in unit ? unit.name : "")),
    );
    expect(calls).toHaveLength(Math.ceil(2500 / 70));
  });

  test("workUnits() asks for a page only when it is needed", async () => {
    const { ns, calls } = setup();
    const spec = await ns.setWorkSpec({ name: "spec" });
    await spec.addWorkUnits(named(50));
    calls.length = 0;
    for await (const unit of spec.workUnits({ pageSize: 10 })) if (unit.name === "unit-00009") break;
    expect(calls).toEqual(["listWorkUnits"]);
  });

  test("workUnits() by status, prefix, names and start", async () => {
    const { ns } = setup();
    const spec = await ns.setWorkSpec({ name: "spec" });
    await spec.addWorkUnits([["a1"], ["a2"], { name: "b1", delayMs: 1000 }, ["b2"]]);
    const names = async (query: Parameters<WorkSpec["workUnits"]>[0]) =>
      (await all(spec.workUnits(query))).map(({ name }) => name);
    expect(await names({ statuses: ["delayed"] })).toEqual(["b1"]);
    expect(await names({ prefix: "a" })).toEqual(["a1", "a2"]);
    expect(await names({ names: ["b2", "a1", "zz"] })).toEqual(["a1", "b2"]);
    expect(await names({ names: [] })).toEqual([]);
    expect(await names({ previous: "a2", pageSize: 1 })).toEqual(["b1", "b2"]);
  });

  test("units may be deleted while the loop runs", async () => {
    const { ns } = setup();
    const spec = await ns.setWorkSpec({ name: "spec" });
    await spec.addWorkUnits(named(30));
    for await (const unit of spec.workUnits({ pageSize: 7 })) await unit.delete();
    expect((await spec.counts()).available).toBe(0);
  });
});

describe("changing many units", () => {
  test("priorities", async () => {
    const { ns } = setup();
    const spec = await ns.setWorkSpec({ name: "spec" });
    await spec.addWorkUnits([["a"], ["b"], ["c"]]);
    expect(await spec.setPriorities({ names: ["a", "b"] }, 5)).toBe(2);
    expect(await spec.adjustPriorities({ prefix: "b" }, -1)).toBe(1);
    expect((await all(spec.workUnits())).map(({ priority }) => priority)).toEqual([5, 4, 0]);
  });

  test("delays", async () => {
    const { ns, clock } = setup();
    const spec = await ns.setWorkSpec({ name: "spec" });
    await spec.addWorkUnits([["a"], ["b"]]);
    await spec.setDelays({ names: ["a"] }, clock.now() + 1000);
    expect(await spec.counts()).toMatchObject({ available: 1, delayed: 1 });
    await spec.setDelays({ statuses: ["delayed"] }, 0);
    expect(await spec.counts()).toMatchObject({ available: 2, delayed: 0 });
  });

  test("retry() means the failed ones unless told otherwise", async () => {
    const { ns } = setup();
    const spec = await ns.setWorkSpec({ name: "spec" });
    await spec.addWorkUnits([["a"], ["b"], ["c"]]);
    const [a, b] = await ns.worker("worker").requestAttempts({ number: 3 });
    await a!.fail();
    await b!.finish();
    expect(await spec.retry()).toBe(1);
    expect(await spec.counts()).toMatchObject({ available: 1, pending: 1, finished: 1, failed: 0 });
    expect(await spec.retry({ all: true })).toBe(2);
    expect(await spec.counts()).toMatchObject({ available: 3 });
  });

  test("deleteWorkUnits()", async () => {
    const { ns } = setup();
    const spec = await ns.setWorkSpec({ name: "spec" });
    await spec.addWorkUnits([["a"], ["b"], ["c"]]);
    expect(await spec.deleteWorkUnits({ names: [] })).toBe(0);
    expect(await spec.deleteWorkUnits({ names: ["b", "x"] })).toBe(1);
    expect(await spec.deleteWorkUnits({ all: true })).toBe(2);
  });

  test("what names nothing is refused", async () => {
    const { ns } = setup();
    const spec = await ns.setWorkSpec({ name: "spec" });
    await expectError("empty_query", spec.deleteWorkUnits({}));
    await expectError("empty_query", spec.retry({}));
    await expectError("empty_query", spec.setPriorities({}, 1));
    await expectError("empty_query", spec.adjustPriorities({ prefix: "" }, 1));
    await expectError("empty_query", spec.setDelays({ all: false }, 0));
  });
});
