import { describe, expect, test } from "vitest";
import { Attempt } from "../../src/index.ts";
import { expectError, setup } from "./setup.ts";

async function claimed(number = 1) {
  const all = setup();
  const spec = await all.ns.setWorkSpec({ name: "spec" });
  await spec.addWorkUnits(Array.from({ length: number }, (_, i) => [`unit-${i}`, { i }] as const));
  const worker = all.ns.worker("worker");
  const attempts = await worker.requestAttempts({ number, lifetimeMs: 60_000 });
  all.calls.length = 0;
  return { ...all, spec, worker, attempts, attempt: attempts[0]! };
}

describe("snapshot", () => {
  test("tells what was handed out", async () => {
    const { clock, attempt } = await claimed();
    expect({
      spec: attempt.workSpecName,
      unit: attempt.workUnitName,
      worker: attempt.workerName,
      number: attempt.number,
      status: attempt.status,
      active: attempt.active,
      start: attempt.startTime,
      end: attempt.endTime,
      expiration: attempt.expirationTime,
      late: attempt.late,
      errors: attempt.chainingErrors,
      data: attempt.data,
      raw: attempt.rawData,
    }).toEqual({
      spec: "spec",
      unit: "unit-0",
      worker: "worker",
      number: 1,
      status: "pending",
      active: true,
      start: clock.now(),
      end: 0,
      expiration: clock.now() + 60_000,
      late: false,
      errors: [],
      data: { i: 0 },
      raw: '{"i":0}',
    });
    expect(attempt.data).toBe(attempt.data);
  });

  test("an attempt without data has an empty dictionary", async () => {
    const { spec, worker } = await claimed();
    await spec.addWorkUnit("bare");
    const [attempt] = await worker.requestAttempts();
    expect([attempt!.data, attempt!.rawData]).toEqual([{}, null]);
  });

  test("workUnit() is the unit as it stands now", async () => {
    const { attempt } = await claimed();
    const unit = await attempt.workUnit();
    expect([unit.name, unit.status, unit.activeAttempt?.id]).toEqual(["unit-0", "pending", attempt.id]);
  });

  test("workUnit() is gone with the unit, also when another has its name", async () => {
    const { spec, attempt } = await claimed();
    await spec.deleteWorkUnits({ all: true });
    await expectError("gone", attempt.workUnit());
    await spec.addWorkUnit("unit-0");
    await expectError("gone", attempt.workUnit());
    await spec.delete();
    await expectError("gone", attempt.workUnit());
  });

  test("refresh() reads the end, and is gone with the unit", async () => {
    const { clock, spec, attempt } = await claimed();
    await attempt.finish();
    clock.advance(5);
    await attempt.refresh();
    expect([attempt.status, attempt.endTime]).toEqual(["finished", clock.now() - 5]);
    await spec.deleteWorkUnits({ all: true });
    await expectError("gone", attempt.refresh());
  });
});

describe("settling", () => {
  test.each([
    ["finish", "finished", "finished", true],
    ["fail", "failed", "failed", true],
    ["retry", "retryable", "available", false],
    ["expire", "expired", "available", false],
  ] as const)("%s() is one request and updates the snapshot", async (action, status, unitStatus, active) => {
    const { attempt, calls } = await claimed();
    const changed = await attempt[action]();
    expect(changed).toMatchObject({ error: null, changed: true, status });
    expect(calls).toEqual(["settleAttempts"]);
    expect([attempt.status, attempt.active, attempt.data]).toEqual([status, active, { i: 0 }]);
    expect((await attempt.workUnit()).status).toBe(unitStatus);
  });

  test("data given becomes the attempt's", async () => {
    const { attempt } = await claimed();
    await attempt.fail({ traceback: "oh" });
    expect(attempt.data).toEqual({ traceback: "oh" });
    expect((await attempt.workUnit()).data).toEqual({ traceback: "oh" });
  });

  test("the decoded data may be changed and given back", async () => {
    const { attempt } = await claimed();
    attempt.data.done = true;
    await attempt.finish(attempt.data);
    expect((await attempt.refresh()).data).toEqual({ i: 0, done: true });
  });

  test("retry() with a delay and data", async () => {
    const { clock, attempt } = await claimed();
    await attempt.retry({ delayMs: 1000, data: { why: "later" } });
    expect(attempt.data).toEqual({ why: "later" });
    const unit = await attempt.workUnit();
    expect([unit.status, unit.notBefore, unit.data]).toEqual(["delayed", clock.now() + 1000, { i: 0 }]);
  });

  test("renew() moves the expiration, by default 15 minutes from now; zero gives the lease back", async () => {
    const { clock, attempt } = await claimed();
    clock.advance(30_000);
    await attempt.renew(90_000, { step: 2 });
    expect([attempt.expirationTime, attempt.data]).toEqual([clock.now() + 90_000, { step: 2 }]);
    await attempt.renew();
    expect(attempt.expirationTime).toBe(clock.now() + 15 * 60_000);
    await attempt.renew(0);
    expect([attempt.status, attempt.active]).toEqual(["expired", false]);
    expect((await attempt.workUnit()).status).toBe("available");
  });

  test("a late finish counts while nobody took the unit", async () => {
    const { clock, attempt } = await claimed();
    clock.advance(60_000);
    await attempt.finish();
    await attempt.refresh();
    expect([attempt.status, attempt.active, attempt.late]).toEqual(["finished", true, true]);
  });

  test("a late renew takes the lease back", async () => {
    const { clock, attempt } = await claimed();
    clock.advance(60_000);
    await attempt.refresh();
    expect([attempt.status, attempt.active]).toEqual(["expired", false]);
    await attempt.renew(1000);
    expect([attempt.status, attempt.active, attempt.expirationTime]).toEqual([
      "pending",
      true,
      clock.now() + 1000,
    ]);
  });

  test("lost_lease once somebody did; the data of a renew is kept", async () => {
    const { clock, ns, attempt } = await claimed();
    clock.advance(60_000);
    const [other] = await ns.worker("other").requestAttempts();
    await expectError("lost_lease", attempt.finish({ result: 1 }));
    expect([attempt.status, attempt.active, attempt.data]).toEqual(["expired", false, { i: 0 }]);
    await expectError("lost_lease", attempt.renew(1000, { step: 3 }));
    expect(attempt.data).toEqual({ step: 3 });
    expect((await attempt.refresh()).data).toEqual({ step: 3 });
    expect((await other!.refresh()).data).toEqual({ i: 0 });
  });

  test("not_pending once it is settled otherwise; the same again is no error", async () => {
    const { attempt } = await claimed();
    await attempt.finish();
    expect(await attempt.finish()).toMatchObject({ changed: false, status: "finished" });
    await expectError("not_pending", attempt.fail());
    await expectError("not_pending", attempt.retry());
    await expectError("not_pending", attempt.renew(1000));
    expect(attempt.status).toBe("finished");
  });

  test("failed, then finished: finish wins", async () => {
    const { attempt } = await claimed();
    await attempt.fail();
    await attempt.finish();
    expect(attempt.status).toBe("finished");
  });

  test("another handle's change is learned from the refusal", async () => {
    const { attempt } = await claimed();
    await (await attempt.workUnit()).activeAttempt!.finish();
    expect(attempt.status).toBe("pending");
    await expectError("not_pending", attempt.fail());
    expect(attempt.status).toBe("finished");
  });

  test.each(["finish", "fail", "retry", "expire", "renew"] as const)(
    "%s() is gone with the unit",
    async (action) => {
      const { spec, attempt } = await claimed();
      await spec.deleteWorkUnits({ all: true });
      await expectError("gone", attempt[action]());
      await spec.addWorkUnit("unit-0");
      await expectError("gone", attempt[action]());
      expect((await spec.workUnit("unit-0")).status).toBe("available");
    },
  );

  test("finish() tells of its outputs", async () => {
    const { ns, attempt, spec } = await claimed();
    await spec.setData({ name: "spec", then: "next" });
    await ns.setWorkSpec({ name: "next" });
    const changed = await attempt.finish({ output: ["a", "b", 7] });
    expect(changed).toMatchObject({ outputs: 2, chainingErrors: [expect.stringContaining("output[2]")] });
    expect(attempt.chainingErrors).toEqual(changed.chainingErrors);
    expect((await ns.workSpec("next").workUnit("a")).origin).toBe(attempt.id);
  });

  test("data that cannot be encoded changes nothing", async () => {
    const { attempt } = await claimed();
    await expectError("bad_data", attempt.finish({ call: () => 1 }));
    expect((await attempt.refresh()).status).toBe("pending");
  });
});

describe("settleAll", () => {
  test("is one request, with data for each", async () => {
    const { attempts, calls, spec } = await claimed(5);
    const changed = await Attempt.settleAll(attempts, "finish", {
      data: ({ data }) => ({ twice: Number(data.i) * 2 }),
    });
    expect(calls).toEqual(["settleAttempts"]);
    expect(changed.every(({ error }) => error === null)).toBe(true);
    expect(attempts.map(({ status, data }) => [status, data.twice])).toEqual(
      [0, 2, 4, 6, 8].map((twice) => ["finished", twice]),
    );
    expect((await spec.counts()).finished).toBe(5);
  });

  test("cuts by the length of the data", async () => {
    const { attempts, calls } = await claimed(5);
    await Attempt.settleAll(attempts, "finish", { data: () => ({ x: "x".repeat(3 * 2 ** 20) }) });
    expect(calls).toEqual(["settleAttempts", "settleAttempts", "settleAttempts"]);
  });

  test("cuts by the length of the logs, too", async () => {
    const { attempts, calls } = await claimed(150);
    for (const attempt of attempts) for (let i = 0; i < 16; i++) attempt.log("x".repeat(4096));
    await Attempt.settleAll(attempts, "finish");
    expect(calls).toEqual(["settleAttempts", "settleAttempts"]);
  });

  test("answers each by itself and does not throw", async () => {
    const { attempts, spec } = await claimed(3);
    await attempts[0]!.fail();
    await (await spec.workUnit("unit-1")).delete();
    const changed = await Attempt.settleAll(attempts, "retry", { delayMs: 1000 });
    expect(changed.map(({ attempt, error }) => [attempt, error])).toEqual([
      [attempts[0]!.id, "not_pending"],
      [attempts[1]!.id, "gone"],
      [attempts[2]!.id, null],
    ]);
    expect(attempts.map(({ status }) => status)).toEqual(["failed", "pending", "retryable"]);
    expect((await spec.counts()).delayed).toBe(1);
  });

  test("renews", async () => {
    const { clock, attempts } = await claimed(2);
    await Attempt.settleAll(attempts, "renew", { lifetimeMs: 5000 });
    expect(attempts.map(({ expirationTime }) => expirationTime - clock.now())).toEqual([5000, 5000]);
  });

  test("goes by namespace and thousand, and answers in the order given", async () => {
    const { coordinate, ns, attempts, calls } = await claimed(1500);
    const other = coordinate.namespace("other");
    await (await other.setWorkSpec({ name: "spec" })).addWorkUnit("x");
    const [x] = await other.worker("worker").requestAttempts();
    await ns.worker("idle").checkIn();
    calls.length = 0;
    const mixed = [...attempts.slice(0, 700), x!, ...attempts.slice(700)];
    const changed = await Attempt.settleAll(mixed, "finish");
    expect(changed.map(({ attempt }) => attempt)).toEqual(mixed.map(({ id }) => id));
    expect(changed.every(({ error }) => error === null)).toBe(true);
    expect(calls).toEqual(["settleAttempts", "settleAttempts", "settleAttempts"]);
  });

  test("of nothing asks for nothing", async () => {
    expect(await Attempt.settleAll([], "finish")).toEqual([]);
  });
});
