import { describe, expect, test } from "vitest";
import { all, expectError, setup } from "./setup.ts";

async function withUnits(count: number, spec: object = {}) {
  const all = setup();
  const workSpec = await all.ns.setWorkSpec({ name: "spec", ...spec });
  await workSpec.addWorkUnits(Array.from({ length: count }, (_, i) => [`unit-${i}`] as const));
  return { ...all, spec: workSpec, worker: all.ns.worker("worker") };
}

describe("asking for work", () => {
  test("one attempt unless told otherwise, with a lease of 15 minutes", async () => {
    const { clock, worker } = await withUnits(3);
    const attempts = await worker.requestAttempts();
    expect(
      attempts.map(({ workUnitName, workerName, expirationTime }) => [
        workUnitName,
        workerName,
        expirationTime,
      ]),
    ).toEqual([["unit-0", "worker", clock.now() + 15 * 60_000]]);
  });

  test("number, lifetime, work specs, runtimes and memory are asked for", async () => {
    const { clock, worker } = await withUnits(3, { runtime: "node", min_gb: 4 });
    expect(await worker.requestAttempts({ workSpecs: ["other"] })).toEqual([]);
    expect(await worker.requestAttempts({ runtimes: [""] })).toEqual([]);
    expect(await worker.requestAttempts({ availableGb: 2 })).toEqual([]);
    const request = { number: 2, lifetimeMs: 1000, workSpecs: ["spec"], runtimes: ["node"], availableGb: 8 };
    const attempts = await worker.requestAttempts(request);
    expect(attempts.map(({ expirationTime }) => expirationTime - clock.now())).toEqual([1000, 1000]);
  });

  test("waits for work to come", async () => {
    const { spec, worker, clock } = await withUnits(0);
    const waiting = worker.requestAttempts({ waitMs: 60_000 });
    while (clock.waiting === 0) await new Promise((resolve) => setImmediate(resolve));
    await spec.addWorkUnit("late");
    expect((await waiting).map(({ workUnitName }) => workUnitName)).toEqual(["late"]);
  });

  test("a wait that is over, or was ended, answers with nothing", async () => {
    const { worker, clock } = await withUnits(0);
    const waiting = worker.requestAttempts({ waitMs: 1000 });
    while (clock.waiting === 0) await new Promise((resolve) => setImmediate(resolve));
    clock.advance(1000);
    expect(await waiting).toEqual([]);
    const ended = new AbortController();
    const second = worker.requestAttempts({ waitMs: 1000, signal: ended.signal });
    while (clock.waiting === 0) await new Promise((resolve) => setImmediate(resolve));
    ended.abort();
    expect(await second).toEqual([]);
  });

  test("makeAttempt() takes a unit wherever it stands", async () => {
    const { clock, ns, spec, worker } = await withUnits(1);
    const [first] = await ns.worker("other").requestAttempts();
    const unit = await spec.workUnit("unit-0");
    const attempt = await worker.makeAttempt(unit, { lifetimeMs: 500 });
    expect([attempt.workerName, attempt.number, attempt.expirationTime]).toEqual([
      "worker",
      2,
      clock.now() + 500,
    ]);
    await expectError("lost_lease", first!.finish());
    await attempt.finish();
    expect((await worker.makeAttempt(unit)).expirationTime).toBe(clock.now() + 15 * 60_000);
  });

  test("makeAttempt() of a unit that was deleted is gone, also when another has its name", async () => {
    const { spec, worker } = await withUnits(1);
    const unit = await spec.workUnit("unit-0");
    await unit.delete();
    await expectError("gone", worker.makeAttempt(unit));
    await spec.addWorkUnit("unit-0");
    await expectError("gone", worker.makeAttempt(unit));
  });
});

describe("state", () => {
  test("a handle creates nothing; state() throws for a worker that is not known", async () => {
    const { ns } = setup();
    const worker = ns.worker("worker");
    expect(worker.last).toBeNull();
    await expectError("no_such_worker", worker.state());
    expect([await worker.parent(), await all(worker.children()), await all(worker.attempts())]).toEqual([
      null,
      [],
      [],
    ]);
  });

  test("checkIn() is good for 15 minutes", async () => {
    const { ns, clock } = setup();
    const worker = ns.worker("worker");
    const state = await worker.checkIn({ mode: "busy", data: { cores: 4 } });
    expect(state).toEqual({
      name: "worker",
      parent: null,
      active: true,
      mode: "busy",
      data: { cores: 4 },
      lastUpdate: clock.now(),
      expiration: clock.now() + 15 * 60_000,
      desired: "run",
    });
    expect(worker.last).toEqual(state);
    clock.advance(15 * 60_000);
    expect((await worker.state()).active).toBe(false);
  });

  test("update() changes what is given and nothing else", async () => {
    const { ns, clock } = setup();
    const worker = ns.worker("worker");
    await worker.checkIn({ mode: "busy", data: { cores: 4 } });
    expect(await worker.update({ active: true, expiration: clock.now() + 1 })).toMatchObject({
      mode: "busy",
      data: { cores: 4 },
      expiration: clock.now() + 1,
    });
    expect((await worker.update({ active: true, data: null })).data).toBeNull();
    await expectError("bad_data", worker.update({ active: true, data: [] }));
  });

  test("deactivate()", async () => {
    const { ns } = setup();
    const worker = ns.worker("worker");
    await worker.checkIn();
    expect((await worker.deactivate()).active).toBe(false);
    expect((await worker.checkIn()).active).toBe(true);
  });

  test("parents and children", async () => {
    const { ns } = setup();
    const [parent, a, b] = ["parent", "a", "b"].map((name) => ns.worker(name));
    await b!.setParent(parent!);
    await a!.setParent("parent");
    expect((await a!.parent())?.name).toBe("parent");
    const children = await all(parent!.children({ pageSize: 1 }));
    expect(children.map(({ name, last }) => [name, last?.parent])).toEqual([
      ["a", "parent"],
      ["b", "parent"],
    ]);
    await expectError("worker_cycle", parent!.setParent(a!));
    await a!.setParent(null);
    expect(await a!.parent()).toBeNull();
  });

  test("desired: its own, else the namespace's, also for one that is not known", async () => {
    const { ns } = setup();
    const worker = ns.worker("worker");
    expect(await worker.desired()).toBe("run");
    await ns.configure({ desired: "idle" });
    expect(await worker.desired()).toBe("idle");
    expect((await worker.setDesired("terminate")).desired).toBe("terminate");
    expect(await worker.desired()).toBe("terminate");
    expect((await worker.setDesired(null)).desired).toBe("idle");
    await expectError("bad_argument", worker.setDesired("sleep" as never));
  });
});

describe("attempts", () => {
  test("active, all and children, over pages", async () => {
    const { ns, worker, calls } = await withUnits(5);
    const attempts = await worker.requestAttempts({ number: 5 });
    await attempts[0]!.finish();
    calls.length = 0;
    const active = await all(worker.attempts("active", { pageSize: 2 }));
    expect(active.map(({ workUnitName }) => workUnitName)).toEqual(["unit-1", "unit-2", "unit-3", "unit-4"]);
    expect(calls).toEqual(["listWorkerAttempts", "listWorkerAttempts"]);
    expect((await all(worker.attempts())).map(({ id }) => id)).toEqual(active.map(({ id }) => id));
    const every = await all(worker.attempts("all", { pageSize: 2 }));
    expect(every.map(({ id }) => id)).toEqual(attempts.map(({ id }) => id).reverse());
    await worker.setParent("parent");
    const held = await all(ns.worker("parent").attempts("children", { pageSize: 3 }));
    expect(held.map(({ id }) => id)).toEqual(active.map(({ id }) => id));
  });

  test("an attempt from a listing can be settled", async () => {
    const { worker, spec } = await withUnits(2);
    await worker.requestAttempts({ number: 2 });
    for await (const attempt of worker.attempts()) await attempt.finish();
    expect((await spec.counts()).finished).toBe(2);
  });
});
