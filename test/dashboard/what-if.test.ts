/** The model behind "What if": properties of every queue, and the shares that the scheduler guarantees. */
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { meanDuration, measuredWaits, simulate, type LoadSpec } from "../../src/dashboard/what-if.ts";

const stepMs = 10_000;
const spec = (given: Partial<LoadSpec> & { name: string }): LoadSpec => ({
  runtime: "node",
  priority: 0,
  weight: 10,
  maxRunning: 0,
  paused: false,
  durationMs: 1000,
  waiting: 0,
  arrivals: [],
  ...given,
});
const steady = (perStep: number, steps = 60): number[] => Array.from({ length: steps }, () => perStep);
const plan = (slots: number, weights: Record<string, number> = {}) => ({ slots: { node: slots }, weights });

describe("what if", () => {
  test("enough slots leave nothing waiting, too few let the queue grow by what they cannot do", () => {
    // 20 units of 1 s every 10 s need two slots
    const load = { stepMs, specs: [spec({ name: "a", arrivals: steady(20) })] };
    expect(simulate(load, plan(2)).get("a")).toMatchObject({ waits: { p50: 0, p90: 0 }, left: 0 });
    const half = simulate(load, plan(1)).get("a")!;
    expect(half.left).toBe(600);
    // only units that began count: the last one began in the tenth minute and had arrived five minutes before
    expect(half.waits!.p90).toBeGreaterThan(200_000);
    expect(half.waits!.p90).toBeLessThanOrEqual(300_000);
    expect(simulate(load, plan(0)).get("a")).toMatchObject({ waits: null, left: 1200 });
  });

  test("slots are shared by weight, and what one does not need goes to the others", () => {
    const load = {
      stepMs,
      specs: [
        spec({ name: "a", weight: 30, arrivals: steady(1000) }),
        spec({ name: "b", weight: 10, arrivals: steady(1000) }),
        spec({ name: "idle", weight: 60, arrivals: steady(10) }),
      ],
    };
    const shared = simulate(load, plan(41));
    expect(shared.get("idle")!.left).toBe(0);
    expect(shared.get("a")!.began / shared.get("b")!.began).toBeCloseTo(3, 5);
    const other = simulate(load, plan(41, { b: 30 }));
    expect(other.get("a")!.began).toBeCloseTo(other.get("b")!.began, 5);
  });

  test("a higher priority goes first, max_running limits, paused and other runtimes get nothing", () => {
    const load = {
      stepMs,
      specs: [
        spec({ name: "first", priority: 1, arrivals: steady(50), maxRunning: 3 }),
        spec({ name: "rest", arrivals: steady(50) }),
        spec({ name: "paused", paused: true, arrivals: steady(1) }),
        spec({ name: "gpu", runtime: "gpu", arrivals: steady(1) }),
      ],
    };
    const done = simulate(load, plan(4));
    expect(done.get("first")!.began).toBeCloseTo(60 * 30, 5);
    expect(done.get("rest")!.began).toBeCloseTo(60 * 10, 5);
    expect([done.get("paused")!.left, done.get("gpu")!.left]).toEqual([60, 60]);
  });

  test("nothing is lost, and more slots never make the whole of it wait for longer", () => {
    const anySpec = fc.record({
      weight: fc.integer({ min: 0, max: 50 }),
      priority: fc.integer({ min: 0, max: 2 }),
      maxRunning: fc.integer({ min: 0, max: 5 }),
      durationMs: fc.integer({ min: 0, max: 60_000 }),
      waiting: fc.integer({ min: 0, max: 500 }),
      arrivals: fc.array(fc.integer({ min: 0, max: 100 }), { minLength: 1, maxLength: 20 }),
    });
    fc.assert(
      fc.property(
        fc.array(anySpec, { minLength: 1, maxLength: 5 }),
        fc.integer({ min: 0, max: 20 }),
        (given, slots) => {
          const specs = given.map((one, i) => spec({ name: String(i), ...one }));
          const few = simulate({ stepMs, specs }, plan(slots));
          const more = simulate({ stepMs, specs }, plan(slots + 5));
          let work = 0;
          let less = 0;
          for (const { name, arrivals, waiting, durationMs } of specs) {
            const came = waiting + arrivals.reduce((sum, one) => sum + one, 0);
            const { began, left, backlog } = few.get(name)!;
            expect(Math.abs(began + left - came)).toBeLessThan(1);
            expect(backlog.every((one) => one >= 0)).toBe(true);
            work += began * Math.max(1, durationMs);
            less += more.get(name)!.began * Math.max(1, durationMs);
          }
          const steps = Math.max(...specs.map(({ arrivals }) => arrivals.length));
          expect(work).toBeLessThanOrEqual(slots * steps * stepMs + 1);
          expect(less).toBeGreaterThanOrEqual(work - 1);
        },
      ),
    );
  });

  test("reads durations and waits from what is kept of them", () => {
    const even = { count: 10, p50: 100, p90: 100, p99: 100 };
    expect(meanDuration([{ duration: even }, { duration: null }])).toBeCloseTo(87.5, 5);
    expect(meanDuration([])).toBe(0);
    expect(
      measuredWaits([
        { wait: { ...even, count: 30 } },
        { wait: { count: 10, p50: 500, p90: 900, p99: 900 } },
      ]),
    ).toEqual({
      p50: 200,
      p90: 300,
    });
    expect(measuredWaits([{ wait: null }])).toBeNull();
  });
});
