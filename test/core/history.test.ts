import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import fc from "fast-check";
import { afterEach, describe, expect, test } from "vitest";
import {
  bucketOf,
  encodeData,
  Engine,
  gatherPoints,
  HistoryCounts,
  historySteps,
  ManualClock,
  planHistory,
  readRecord,
  spreadOf,
  writeRecord,
  type HistoryPoint,
} from "../../src/core/index.ts";
import { MemoryStore } from "../../src/memory/index.ts";
import { openSqlite } from "../../src/sqlite/index.ts";

const step = 10_000;
const hour = 3_600_000;

describe("percentiles", () => {
  test("are within a tenth of the value that they stand for", () => {
    fc.assert(
      fc.property(fc.double({ min: 1, max: 2e9, noNaN: true }), (ms) => {
        const { p50 = 0 } = spreadOf(new Map([[bucketOf(ms), 1]])) ?? {};
        expect(Math.abs(p50 - ms)).toBeLessThanOrEqual(0.1 * ms + 0.5);
      }),
    );
  });

  test("of many values are those of the values in order", () => {
    const histogram = new Map<number, number>();
    for (let ms = 1; ms <= 1000; ms++) histogram.set(bucketOf(ms), (histogram.get(bucketOf(ms)) ?? 0) + 1);
    const { count, p50, p90, p99 } = spreadOf(histogram)!;
    expect(count).toBe(1000);
    for (const [value, wanted] of [
      [p50, 500],
      [p90, 900],
      [p99, 990],
    ] as const)
      expect(Math.abs(value - wanted)).toBeLessThan(0.1 * wanted);
    expect(spreadOf(new Map())).toBeNull();
  });
});

test("what is noted of a step after it was taken is taken the next time, and of each work spec apart", () => {
  const happened = new HistoryCounts();
  happened.on = true;
  happened.note(1, "added", 0, -1, 2);
  expect(happened.take(step).get(0)?.get(1)?.counts.added).toBe(2);
  happened.note(1, "added", 0, -1, 3);
  happened.note(2, "added", 0, -1, 4);
  happened.note(2, "added", step, -1, 5);
  const taken = happened.take(2 * step);
  expect(taken.get(0)?.get(1)?.counts.added).toBe(3);
  expect(taken.get(0)?.get(2)?.counts.added).toBe(4);
  expect(taken.get(step)?.get(2)?.counts.added).toBe(5);
});

test("a record comes back as it was written, and the size of one with everything in it is bounded", () => {
  const happened = new HistoryCounts();
  happened.on = true;
  for (let ms = 1; ms < 1e9; ms *= 1.1) {
    happened.note(1, "started", 0, ms, 1e6);
    happened.note(1, "finished", 0, ms, 1e6);
  }
  happened.note(1, "added", 0, -1, 1e9);
  const record = happened.take(step).get(0)?.get(1);
  const text = writeRecord(record!);
  expect(readRecord(text)).toEqual(record);
  expect(text.length).toBeLessThan(5000);
});

test("what is read follows from the points asked for, and is kept as long as it is asked for", () => {
  const now = 1e12;
  fc.assert(
    fc.property(
      fc.integer({ min: 1, max: 40 * 24 * hour }),
      fc.integer({ min: 1, max: 40 * 24 * hour }),
      fc.integer({ min: 1, max: 3000 }),
      (age, span, points) => {
        const from = now - age;
        const to = Math.min(now, from + span);
        const plan = planHistory(from, to, points, now);
        const stepMs = plan.recordMs * plan.times;
        expect(plan.from).toBeLessThanOrEqual(from);
        expect(plan.to).toBeGreaterThanOrEqual(to);
        expect((plan.to - plan.from) / stepMs).toBeLessThanOrEqual(points + 2);
        // the number of records per point is limited, except for the coarsest records, of which there are few
        if (plan.recordMs < historySteps.at(-1)!.stepMs)
          expect((plan.to - plan.from) / plan.recordMs).toBeLessThan(100 * points + 200);
        const { keptMs } = historySteps.find((one) => one.stepMs === plan.recordMs)!;
        if (age <= historySteps.at(-1)!.keptMs) expect(keptMs).toBeGreaterThanOrEqual(age);
      },
    ),
  );
});

// ---- engines

async function added(engine: Engine, from: number): Promise<number[]> {
  const { series } = await engine.history("", { from, points: 3000 });
  return series[0]!.points.map((point: HistoryPoint) => point.added);
}

const add = (engine: Engine, ...names: string[]): Promise<unknown> =>
  engine.addWorkUnits(
    "",
    "s",
    names.map((name) => ({ name })),
  );

test("engines that share a store add up, and each counts what happened through it", async () => {
  const clock = new ManualClock(step * 1000);
  const store = new MemoryStore();
  const one = new Engine(store, { clock });
  const from = clock.now();
  await one.setWorkSpecs("", [{ data: encodeData({ name: "s" }) }]);
  await add(one, "a", "b");
  clock.advance(step);
  await one.sweep();
  // a second engine on the same store object counts what happens from now on
  const two = new Engine(store, { clock });
  await add(two, "c");
  await two.requestAttempts("", { worker: "w", number: 1 });
  clock.advance(step);
  await two.sweep();
  await one.sweep();
  clock.advance(2000);
  expect(await added(one, from)).toEqual([2, 1]);
  const { series } = await two.history("", { from, points: 3000 });
  // both engines sampled the same units: the samples are averaged, not added
  expect(series[0]!.points.map(({ running, waiting }) => [running, waiting])).toEqual([
    [0, 2],
    [1, 2],
  ]);
});

const directories: string[] = [];
afterEach(() => {
  for (const directory of directories.splice(0)) rmSync(directory, { recursive: true, force: true });
});

test("a daemon that stops in the middle of a step writes what it has, and the next one goes on", async () => {
  const directory = mkdtempSync(path.join(tmpdir(), "coordinate-history-"));
  directories.push(directory);
  const file = path.join(directory, "store.sqlite");
  const clock = new ManualClock(step * 1000);
  const from = clock.now();
  const open = async (): Promise<Engine> => new Engine(await openSqlite(file), { clock });
  let engine = await open();
  await engine.setWorkSpecs("", [{ data: encodeData({ name: "s" }) }]);
  await add(engine, "a");
  clock.advance(1000);
  await engine.close();
  engine = await open();
  await add(engine, "b", "c");
  clock.advance(1000);
  await engine.close();
  engine = await open();
  clock.advance(step);
  await engine.sweep();
  clock.advance(2000);
  expect((await added(engine, from))[0]).toBe(3);
  await engine.close();
});

test("what a failed write was to record is recorded by the next one, once", async () => {
  const clock = new ManualClock(step * 1000);
  const store = new MemoryStore();
  const engine = new Engine(store, { clock });
  const from = clock.now();
  await engine.setWorkSpecs("", [{ data: encodeData({ name: "s" }) }]);
  await add(engine, "a");
  const put = store.putHistory.bind(store);
  store.putHistory = async (writer, rows) => {
    // the rows are written, but the response is lost
    await put(writer, rows);
    throw new Error("lost");
  };
  clock.advance(step);
  await expect(engine.sweep()).rejects.toThrow("lost");
  store.putHistory = put;
  await add(engine, "b");
  clock.advance(step);
  await engine.sweep();
  clock.advance(2000);
  expect(await added(engine, from)).toEqual([1, 1]);
});

test("what was rolled back never happened", async () => {
  const clock = new ManualClock(step * 1000);
  const store = await openSqlite(":memory:");
  const engine = new Engine(store, { clock });
  const from = clock.now();
  await engine.setWorkSpecs("", [{ data: encodeData({ name: "s" }) }]);
  await add(engine, "a");
  await expect(
    engine.addWorkUnits("", "s", [{ name: "b" }, { name: "c", dependencies: [{ workUnit: "missing" }] }]),
  ).rejects.toThrow();
  // a verb that throws rolls back the shared transaction, and the other verbs in it run again
  const more = add(engine, "d", "e");
  const broken = store.putNamespace("", () => {
    throw new Error("broken");
  });
  await Promise.all([more, expect(broken).rejects.toThrow("broken")]);
  clock.advance(step);
  await engine.sweep();
  clock.advance(2000);
  expect(await added(engine, from)).toEqual([3]);
  await engine.close();
});

test("an engine that keeps no records writes none, and reads those of others", async () => {
  const clock = new ManualClock(step * 1000);
  const store = new MemoryStore();
  const silent = new Engine(store, { clock, history: false });
  const from = clock.now();
  await silent.setWorkSpecs("", [{ data: encodeData({ name: "s" }) }]);
  clock.advance(step);
  await silent.sweep();
  clock.advance(2000);
  expect(await added(silent, from)).toEqual([]);
});

test("records of many writers are put together by the step", () => {
  const data = (count: number): string => JSON.stringify({ added: count, looks: 1, waiting: count });
  const points = gatherPoints(
    [
      { time: 0, data: data(1) },
      { time: 0, data: data(3) },
      { time: step, data: data(5) },
      { time: 2 * step, data: data(7) },
    ],
    2 * step,
  );
  expect(points.map(({ time, added: count, waiting }) => [time, count, waiting])).toEqual([
    [0, 9, 3],
    [2 * step, 7, 7],
  ]);
});
