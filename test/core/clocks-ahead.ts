/** Engines whose clocks differ: one that was ahead once, as that of a machine before NTP, silences no schedule or breaker and breaks no record. */
import { expect, test } from "vitest";
import {
  encodeData,
  Engine,
  isTripped,
  ManualClock,
  type Store,
  type WorkSpecMeta,
} from "../../src/core/index.ts";

const hour = 3_600_000;
const start = Date.UTC(2026, 0, 1);

/** `open` returns a store, or two stores on the same database, and an empty namespace in it. */
export function testClocksAhead(open: () => Promise<{ store: Store; other?: Store; ns: string }>): void {
  const prepare = async (
    byMs: number,
    schedule: object = { every: 3600 },
  ): Promise<{
    ahead: Engine;
    good: Engine;
    aheadClock: ManualClock;
    clock: ManualClock;
    set: (engine: Engine) => Promise<WorkSpecMeta>;
    meta: () => Promise<WorkSpecMeta>;
    names: () => Promise<string[]>;
    look: Record<"sweep" | "request", () => Promise<unknown>>;
  }> => {
    const { store, other = store, ns } = await open();
    const [clock, aheadClock] = [new ManualClock(start), new ManualClock(start + byMs)];
    const good = new Engine(store, { clock });
    const set = async (engine: Engine): Promise<WorkSpecMeta> => {
      const [row] = await engine.setWorkSpecs(ns, [{ data: encodeData({ name: "s", schedule }) }]);
      return row!.meta;
    };
    return {
      ahead: new Engine(other, { clock: aheadClock }),
      good,
      aheadClock,
      clock,
      set,
      meta: async () => (await good.getWorkSpecs(ns, ["s"]))[0]!.meta,
      names: async () => (await good.listWorkUnits(ns, "s")).rows.map(({ name }) => name),
      look: {
        sweep: () => good.sweep(),
        request: () => good.requestAttempts(ns, { worker: "w" }),
      },
    };
  };

  test.each(["sweep", "request"] as const)(
    "runs that a clock made a year ahead do not silence a schedule: a %s starts it again",
    async (how) => {
      const { ahead, good, clock, set, meta, names, look } = await prepare(365 * 24 * hour);
      await set(good);
      await ahead.sweep();
      expect(await names()).toEqual(["2027-01-01T00:00:00Z"]);
      await look[how]();
      expect(await meta()).toMatchObject({ nextRun: start + hour, lastRun: 0 });
      for (let i = 0; i < 2; i++) {
        clock.advance(hour);
        await look[how]();
      }
      expect(await meta()).toMatchObject({ nextRun: start + 3 * hour, lastRun: start + 2 * hour });
      expect(await names()).toEqual(["2026-01-01T01:00:00Z", "2026-01-01T02:00:00Z", "2027-01-01T00:00:00Z"]);
    },
  );

  test("a schedule that was set by a clock ahead starts from now when it is set again", async () => {
    const { ahead, good, set } = await prepare(365 * 24 * hour);
    expect((await set(ahead)).nextRun).toBe(start + 365 * 24 * hour + hour);
    expect((await set(good)).nextRun).toBe(start + hour);
  });

  test("a schedule that has ended by a clock ahead goes on, and makes no run again", async () => {
    const at = [start / 1000 + 3600, start / 1000 + 7200];
    const { ahead, good, clock, set, meta, names } = await prepare(365 * 24 * hour, { at });
    await set(good);
    await ahead.sweep();
    expect(await meta()).toMatchObject({ nextRun: 0, lastRun: start + 2 * hour });
    await good.sweep();
    expect(await meta()).toMatchObject({ nextRun: start + hour, lastRun: 0 });
    for (let i = 0; i < 2; i++) {
      clock.advance(hour);
      await good.sweep();
    }
    expect(await names()).toEqual(["2026-01-01T01:00:00Z", "2026-01-01T02:00:00Z"]);
    expect(await meta()).toMatchObject({ nextRun: 0, lastRun: start + 2 * hour });
    expect((await set(good)).nextRun).toBe(0);
  });

  test("an attempt that a clock ahead began, and another one renewed, ends no earlier than it began", async () => {
    const { store, other = store, ns } = await open();
    const clock = new ManualClock(start);
    const good = new Engine(store, { clock });
    const ahead = new Engine(other, { clock: new ManualClock(start + hour) });
    await good.setWorkSpecs(ns, [{ data: encodeData({ name: "s" }) }]);
    await good.addWorkUnits(ns, "s", [{ name: "u" }]);
    const [attempt] = await ahead.requestAttempts(ns, { worker: "w" });
    await good.settleAttempts(ns, [{ attempt: attempt!.id, action: "renew", lifetimeMs: 1000 }]);
    clock.advance(1000);
    await good.sweep();
    const attempts = await good.listUnitAttempts(ns, "s", "u");
    expect(attempts).toMatchObject([
      { status: "expired", startTime: start + hour, endTime: start + hour, expirationTime: start + 1000 },
    ]);
    const [next] = await good.requestAttempts(ns, { worker: "w" });
    expect(next?.startTime).toBe(start + hour);
  });

  test("clocks that differ by half a minute make each run once", async () => {
    const { ahead, good, aheadClock, clock, set, meta, names } = await prepare(30_000);
    await set(good);
    for (const [i, by] of [hour - 30_000, 10_000, 20_000].entries()) {
      clock.advance(by);
      aheadClock.advance(by);
      if (i === 0) await ahead.sweep();
      await good.sweep();
      await set(good);
      expect(await meta()).toMatchObject({ nextRun: start + 2 * hour, lastRun: start + hour });
    }
    expect(await names()).toEqual(["2026-01-01T01:00:00Z"]);
  });

  test.each(["pause", "slow"])(
    "a breaker with %s that a clock ahead has tripped probes and closes",
    async (action) => {
      const { store, other = store, ns } = await open();
      const clock = new ManualClock(start);
      const good = new Engine(store, { clock });
      const ahead = new Engine(other, { clock: new ManualClock(start + 24 * hour) });
      const breaker = { failures: 0.5, min: 2, pause: 10, action };
      await good.setWorkSpecs(ns, [{ data: encodeData({ name: "s", breaker }) }]);
      await good.addWorkUnits(
        ns,
        "s",
        Array.from({ length: 9 }, (_, i) => ({ name: `u${i}` })),
      );
      const run = async (engine: Engine, action: "finish" | "fail", number = 1): Promise<number> => {
        const attempts = await engine.requestAttempts(ns, { worker: "w", number });
        await engine.settleAttempts(
          ns,
          attempts.map(({ id }) => ({ attempt: id, action })),
        );
        return attempts.length;
      };
      const isOpen = async (): Promise<boolean> => !isTripped((await good.getWorkSpecs(ns, ["s"]))[0]!.meta);
      expect(await run(ahead, "fail", 2)).toBe(2);
      expect(await isOpen()).toBe(false);
      clock.advance(1);
      expect(await run(good, "fail", 2)).toBe(1);
      // from now on by the clock that is right
      expect(await run(good, "finish")).toBe(0);
      clock.advance(10_000);
      expect(await run(good, "finish", 2)).toBe(1);
      expect(await isOpen()).toBe(true);
      // what the other clock counted does not trip it again
      expect(await run(good, "fail")).toBe(1);
      expect(await isOpen()).toBe(true);
      expect(await run(good, "fail")).toBe(1);
      expect(await isOpen()).toBe(false);
    },
  );
}
