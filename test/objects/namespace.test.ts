import { describe, expect, test } from "vitest";
import { all, expectError, setup } from "./setup.ts";

describe("work specs", () => {
  test("setWorkSpec creates, and pins the handle", async () => {
    const { ns } = setup();
    const spec = await ns.setWorkSpec({ name: "spec", weight: 7 });
    expect(spec.name).toBe("spec");
    expect(spec.id).toEqual(expect.any(Number));
    expect((await spec.meta()).weight).toBe(7);
  });

  test("setWorkSpec again replaces and resets the metadata, unless keepMeta", async () => {
    const { ns } = setup();
    const first = await ns.setWorkSpec({ name: "spec" });
    await first.pause();
    const kept = await ns.setWorkSpec({ name: "spec", desc: "new" }, { keepMeta: true });
    expect(kept.id).toBe(first.id);
    expect(await kept.data()).toEqual({ name: "spec", desc: "new" });
    expect((await kept.meta()).paused).toBe(true);
    await ns.setWorkSpec({ name: "spec" });
    expect((await first.meta()).paused).toBe(false);
  });

  test("setWorkSpec refuses what is no work spec", async () => {
    const { ns } = setup();
    await expectError("no_work_spec_name", ns.setWorkSpec({}));
    await expectError("bad_work_spec_name", ns.setWorkSpec({ name: 1 }));
    await expectError("bad_work_spec", ns.setWorkSpec({ name: "spec", weight: "heavy" }));
    await expectError("bad_data", ns.setWorkSpec([]));
    expect(await all(ns.workSpecs())).toEqual([]);
  });

  test("setWorkSpecs sets all or none", async () => {
    const { ns } = setup();
    await expectError("bad_work_spec", ns.setWorkSpecs([{ name: "a" }, { name: "b", then: 1 }]));
    expect(await all(ns.workSpecs())).toEqual([]);
    const specs = await ns.setWorkSpecs([{ name: "a" }, { name: "b" }]);
    expect(specs.map(({ name }) => name)).toEqual(["a", "b"]);
  });

  test("workSpec(name) asks for nothing; getWorkSpec throws", async () => {
    const { ns, calls } = setup();
    const spec = ns.workSpec("spec");
    expect([spec.name, spec.id, calls]).toEqual(["spec", null, []]);
    await expectError("no_such_work_spec", ns.getWorkSpec("spec"));
    const set = await ns.setWorkSpec({ name: "spec" });
    expect((await ns.getWorkSpec("spec")).id).toBe(set.id);
  });

  test("workSpecs() in name order, over pages, pinned", async () => {
    const { ns, calls } = setup();
    await ns.setWorkSpecs(["c", "a", "e", "b", "d"].map((name) => ({ name })));
    const specs = await all(ns.workSpecs({ pageSize: 2 }));
    expect(specs.map(({ name }) => name)).toEqual(["a", "b", "c", "d", "e"]);
    expect(specs.every(({ id }) => id !== null)).toBe(true);
    expect(calls.filter((verb) => verb === "listWorkSpecs")).toHaveLength(3);
  });
});

describe("looking in", () => {
  test("tally() tells of this namespace only", async () => {
    const { coordinate, ns } = setup();
    await (await ns.setWorkSpec({ name: "spec" })).addWorkUnits([["a"], ["b"]]);
    await coordinate.namespace("other").setWorkSpec({ name: "spec" });
    expect((await ns.tally()).map(({ namespace, counts }) => [namespace, counts.available])).toEqual([
      ["test", 2],
    ]);
  });

  test("explain() with and without a request", async () => {
    const { ns } = setup();
    await ns.setWorkSpec({ name: "empty" });
    await (await ns.setWorkSpec({ name: "full" })).addWorkUnit("unit");
    const excluded = async (request?: { workSpecs: string[] }) =>
      Object.fromEntries((await ns.explain(request)).map((one) => [one.workSpec, one.excluded]));
    expect(await excluded()).toEqual({ empty: "no_work", full: null });
    expect(await excluded({ workSpecs: ["empty"] })).toEqual({ empty: "no_work", full: "other_work_spec" });
  });

  test("settings and configure", async () => {
    const { ns } = setup();
    expect(await ns.settings()).toEqual({ policy: "weighted", share: "choices", desired: "run" });
    expect(await ns.configure({ policy: "python" })).toEqual({
      policy: "python",
      share: "choices",
      desired: "run",
    });
    expect(await ns.configure({ desired: "terminate" })).toEqual({
      policy: "python",
      share: "choices",
      desired: "terminate",
    });
    expect(await ns.settings()).toEqual({ policy: "python", share: "choices", desired: "terminate" });
    await expectError("bad_argument", ns.configure({ policy: "fair" as never }));
  });

  test("delete() takes everything away, is no error twice, and leaves handles gone", async () => {
    const { ns, coordinate } = setup();
    const spec = await ns.setWorkSpec({ name: "spec" });
    const unit = await spec.addWorkUnit("unit");
    const [attempt] = await ns.worker("worker").requestAttempts();
    await ns.delete();
    await ns.delete();
    expect(await coordinate.namespaces()).toEqual([]);
    await expectError("gone", spec.data());
    await expectError("gone", unit.refresh());
    await expectError("gone", attempt!.finish());
    await expectError("no_such_work_spec", ns.workSpec("spec").data());
  });
});

describe("workers", () => {
  test("workers() filters, pages and tells the state", async () => {
    const { ns, calls } = setup();
    for (const name of ["host-a", "host-b", "host-c", "other"]) await ns.worker(name).checkIn({ mode: name });
    await ns.worker("host-b").deactivate();
    const names = async (query: Parameters<typeof ns.workers>[0]) =>
      (await all(ns.workers(query))).map(({ name }) => name);
    expect(await names({})).toEqual(["host-a", "host-b", "host-c", "other"]);
    expect(await names({ prefix: "host-" })).toEqual(["host-a", "host-b", "host-c"]);
    expect(await names({ active: false })).toEqual(["host-b"]);
    calls.length = 0;
    const workers = await all(ns.workers({ pageSize: 3 }));
    expect(workers.map(({ last }) => last?.mode)).toEqual(["host-a", "host-b", "host-c", "other"]);
    expect(calls).toEqual(["listWorkers", "listWorkers"]);
  });
});

describe("locks", () => {
  test("the family", async () => {
    const { ns, clock } = setup();
    expect(await ns.lock({ owner: "me", paths: [["a", "b"]] })).toBeNull();
    expect(await ns.lock({ owner: "you", paths: [["c"], ["a"]] })).toEqual({ path: ["a"], owner: null });
    expect(await ns.readLocks([["a", "b"], ["c"]])).toEqual(["me", null]);
    expect(await ns.lockSome({ owner: "you", paths: [["a", "b"], ["c"]] })).toEqual([false, true]);
    expect(await ns.renewLocks({ owner: "me", paths: [["a", "b"]], timeoutMs: 120_000 })).toBeNull();
    clock.advance(90_000);
    expect(await ns.readLocks([["a", "b"], ["c"]])).toEqual(["me", null]);
    expect(await ns.unlock({ owner: "you", paths: [["a", "b"]] })).toEqual({ path: ["a", "b"], owner: "me" });
    expect(await ns.unlock({ owner: "me", paths: [["a", "b"]] })).toBeNull();
    await ns.lock({
      owner: "me",
      paths: [
        ["a", "b"],
        ["a", "c"],
      ],
    });
    await ns.clearLocks(["a"]);
    expect(await ns.readLocks([["a", "b"]])).toEqual([null]);
  });
});
