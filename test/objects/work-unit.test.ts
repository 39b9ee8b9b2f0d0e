import { describe, expect, test } from "vitest";
import type { Attempt, WorkUnit } from "../../src/index.ts";
import { expectError, setup } from "./setup.ts";

async function one(data: object = { n: 1 }) {
  const all = setup();
  const spec = await all.ns.setWorkSpec({ name: "spec" });
  const unit = await spec.addWorkUnit("unit", data);
  return { ...all, spec, unit, worker: all.ns.worker("worker") };
}

describe("snapshot", () => {
  test("tells what was read, until refresh()", async () => {
    const { clock, unit, worker } = await one();
    expect({
      name: unit.name,
      spec: unit.workSpecName,
      status: unit.status,
      priority: unit.priority,
      notBefore: unit.notBefore,
      created: unit.createdTime,
      attempts: unit.attemptCount,
      origin: unit.origin,
      dependencies: unit.dependencies,
      active: unit.activeAttempt,
    }).toEqual({
      name: "unit",
      spec: "spec",
      status: "available",
      priority: 0,
      notBefore: 0,
      created: clock.now(),
      attempts: 0,
      origin: null,
      dependencies: [],
      active: null,
    });
    await worker.requestAttempts();
    expect(unit.status).toBe("available");
    expect(await unit.refresh()).toBe(unit);
    expect([unit.status, unit.attemptCount, unit.activeAttempt?.workerName]).toEqual([
      "pending",
      1,
      "worker",
    ]);
  });

  test("data is decoded once, and is the active attempt's when it wrote some", async () => {
    const { unit, worker } = await one();
    expect(unit.data).toBe(unit.data);
    expect(unit.rawData).toBe('{"n":1}');
    const [attempt] = await worker.requestAttempts();
    await attempt!.finish({ n: 2 });
    expect(unit.data).toEqual({ n: 1 });
    expect((await unit.refresh()).data).toEqual({ n: 2 });
    await unit.clearActiveAttempt();
    expect(unit.data).toEqual({ n: 1 });
  });

  test("a unit without data has an empty dictionary", async () => {
    const { spec } = await one();
    const unit = await spec.addWorkUnit("bare");
    expect([unit.data, unit.rawData]).toEqual([{}, null]);
  });

  test("attempts() in the order they were made", async () => {
    const { unit, worker } = await one();
    for (const outcome of ["retry", "retry", "finish"] as const) {
      const [attempt] = await worker.requestAttempts();
      await attempt![outcome]();
    }
    const attempts = await unit.attempts();
    expect(attempts.map(({ number, status }) => [number, status])).toEqual([
      [1, "retryable"],
      [2, "retryable"],
      [3, "finished"],
    ]);
  });
});

describe("changes", () => {
  test("priority", async () => {
    const { unit } = await one();
    expect((await unit.setPriority(5)).priority).toBe(5);
    expect((await unit.adjustPriority(-2)).priority).toBe(3);
    await expectError("bad_argument", unit.setPriority(NaN));
  });

  test("delay", async () => {
    const { clock, unit } = await one();
    const later = clock.now() + 1000;
    await unit.setDelay(later);
    expect([unit.status, unit.notBefore]).toEqual(["delayed", later]);
    await unit.setDelay(0);
    expect([unit.status, unit.notBefore]).toEqual(["available", 0]);
  });

  test("clearActiveAttempt() takes the lease away; the history stays", async () => {
    const { unit, worker } = await one();
    await unit.clearActiveAttempt();
    expect(unit.status).toBe("available");
    const [attempt] = await worker.requestAttempts();
    await unit.clearActiveAttempt();
    expect([unit.status, unit.activeAttempt, unit.attemptCount]).toEqual(["available", null, 1]);
    await expectError("lost_lease", attempt!.finish());
    expect((await unit.attempts()).map(({ id }) => id)).toEqual([attempt!.id]);
  });

  test("delete()", async () => {
    const { spec, unit } = await one();
    await unit.delete();
    await expectError("no_such_work_unit", spec.workUnit("unit"));
  });
});

describe("after deletion", () => {
  const methods: [string, (unit: WorkUnit) => Promise<unknown>][] = [
    ["refresh", (unit) => unit.refresh()],
    ["attempts", (unit) => unit.attempts()],
    ["setPriority", (unit) => unit.setPriority(9)],
    ["adjustPriority", (unit) => unit.adjustPriority(9)],
    ["setDelay", (unit) => unit.setDelay(8e15)],
    ["clearActiveAttempt", (unit) => unit.clearActiveAttempt()],
    ["lineage", (unit) => unit.lineage()],
    ["delete", (unit) => unit.delete()],
  ];

  test.each(methods)("%s is gone, also when the name is another unit's", async (_name, method) => {
    const { spec, unit } = await one();
    await unit.delete();
    await expectError("gone", method(unit));
    const next = await spec.addWorkUnit("unit", { n: 2 });
    await expectError("gone", method(unit));
    await next.refresh();
    expect([next.priority, next.status]).toEqual([0, "available"]);
  });

  test.each(methods)(
    "%s is gone with its work spec, whatever the handle of that was",
    async (_name, method) => {
      const { ns, spec, unit } = await one();
      const byName = await ns.workSpec("spec").workUnit("unit");
      await spec.delete();
      await expectError("gone", method(unit));
      await expectError("gone", method(byName));
      await ns.setWorkSpec({ name: "spec" });
      await expectError("gone", method(unit));
      await expectError("gone", method(byName));
    },
  );

  test("the getters still tell what was last read", async () => {
    const { unit } = await one();
    await unit.delete();
    expect([unit.name, unit.data]).toEqual(["unit", { n: 1 }]);
  });
});

describe("lineage", () => {
  async function chain() {
    const all = setup();
    await all.ns.setWorkSpecs([
      { name: "first", then: "second", priority: 3 },
      { name: "second", then: "third", priority: 2 },
      { name: "third", priority: 1 },
    ]);
    const worker = all.ns.worker("worker");
    const run = async (output?: object): Promise<Attempt> => {
      const [attempt] = await worker.requestAttempts();
      await attempt!.finish(output === undefined ? {} : { output });
      return attempt!;
    };
    await all.ns.workSpec("first").addWorkUnit("a");
    await run({ b: {} });
    await run({ c: {} });
    return { ...all, run, unit: await all.ns.workSpec("third").workUnit("c") };
  }

  test("tells what led here, nearest first", async () => {
    const { unit } = await chain();
    const steps = await unit.lineage();
    expect(steps.map((step) => [step.unit.workSpecName, step.unit.name, step.attempt.number])).toEqual([
      ["second", "b", 1],
      ["first", "a", 1],
    ]);
    expect(steps[0]?.attempt.id).toBe(unit.origin);
    expect(steps[0]?.attempt.data).toEqual({ output: { c: {} } });
  });

  test("is empty for a unit that nobody's output made", async () => {
    const { ns } = await chain();
    expect(await (await ns.workSpec("first").workUnit("a")).lineage()).toEqual([]);
  });

  test("ends where a unit or a spec was deleted", async () => {
    const { ns, unit } = await chain();
    await (await ns.workSpec("first").workUnit("a")).delete();
    expect((await unit.lineage()).map((step) => step.unit.name)).toEqual(["b"]);
    await ns.workSpec("second").delete();
    expect(await unit.lineage()).toEqual([]);
  });

  test("ends where a loop closes", async () => {
    const { ns } = setup();
    await ns.setWorkSpec({ name: "loop", then: "loop" });
    const spec = ns.workSpec("loop");
    await spec.addWorkUnit("a");
    const worker = ns.worker("worker");
    for (const next of ["b", "a", "b"]) {
      const [attempt] = await worker.requestAttempts();
      await attempt!.finish({ output: [next] });
    }
    const steps = await (await spec.workUnit("b")).lineage();
    expect(steps.map((step) => [step.unit.name, step.attempt.number])).toEqual([
      ["a", 2],
      ["b", 1],
    ]);
  });
});
