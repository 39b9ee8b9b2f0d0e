/** The times of schedules: in local time of a time zone, and the same when computed forwards and backwards. */
import { Cron } from "croner";
import fc from "fast-check";
import { describe, expect, test, vi } from "vitest";
import {
  defaultMeta,
  dueRuns,
  lastRuns,
  nextRun,
  nextRuns,
  runDelay,
  runName,
  withRuns,
  type Schedule,
} from "../../src/core/index.ts";

const names = (times: readonly number[]): string[] => times.map(runName);
const next = (schedule: Schedule, after: string, count: number): string[] =>
  names(nextRuns(schedule, Date.parse(after), count));

describe("daylight saving", () => {
  const brussels = (cron: string): Schedule => ({ cron, timezone: "Europe/Brussels" });

  test("forward: a time that does not exist is the first moment after the gap, once", () => {
    expect(next(brussels("30 2 * * *"), "2026-03-28T00:00:00Z", 4)).toEqual([
      "2026-03-28T01:30:00Z",
      "2026-03-29T01:00:00Z",
      "2026-03-30T00:30:00Z",
      "2026-03-31T00:30:00Z",
    ]);
  });

  test("forward: the day has 23 runs of every hour", () => {
    const day = next(brussels("0 * * * *"), "2026-03-28T22:59:59Z", 24);
    expect(day.filter((time) => time < "2026-03-29T22")).toHaveLength(23);
  });

  test("back: a fixed time comes once, the first time that the clock shows it", () => {
    expect(next(brussels("30 2 * * *"), "2026-10-24T00:00:00Z", 4)).toEqual([
      "2026-10-24T00:30:00Z",
      "2026-10-25T00:30:00Z",
      "2026-10-26T01:30:00Z",
      "2026-10-27T01:30:00Z",
    ]);
    // also when computed between the two times at which the clock shows 2:30
    expect(next(brussels("30 2 * * *"), "2026-10-25T01:10:00Z", 1)).toEqual(["2026-10-26T01:30:00Z"]);
  });

  test("back: a step goes on through both hours, and the day has 25 runs of every hour", () => {
    expect(next(brussels("*/30 * * * *"), "2026-10-25T00:10:00Z", 4)).toEqual([
      "2026-10-25T00:30:00Z",
      "2026-10-25T01:00:00Z",
      "2026-10-25T01:30:00Z",
      "2026-10-25T02:00:00Z",
    ]);
    const day = next(brussels("0 * * * *"), "2026-10-24T21:59:59Z", 26);
    expect(day.filter((time) => time < "2026-10-25T23")).toHaveLength(25);
  });

  test("half an hour on Lord Howe Island, and midnight that did not exist in Brazil", () => {
    const howe = { timezone: "Australia/Lord_Howe" };
    expect(next({ cron: "45 1 * * *", ...howe }, "2026-04-04T00:00:00Z", 2)).toEqual([
      "2026-04-04T14:45:00Z",
      "2026-04-05T15:15:00Z",
    ]);
    expect(next({ cron: "15 2 * * *", ...howe }, "2026-10-03T00:00:00Z", 2)).toEqual([
      "2026-10-03T15:30:00Z",
      "2026-10-04T15:15:00Z",
    ]);
    expect(next({ cron: "0 0 * * *", timezone: "America/Sao_Paulo" }, "2017-10-14T12:00:00Z", 2)).toEqual([
      "2017-10-15T03:00:00Z",
      "2017-10-16T02:00:00Z",
    ]);
  });
});

test("intervals are counted from 1970, or from start", () => {
  expect(next({ everyMs: 3_600_000 }, "2026-01-01T00:10:00Z", 2)).toEqual([
    "2026-01-01T01:00:00Z",
    "2026-01-01T02:00:00Z",
  ]);
  const start = Date.parse("2026-01-01T00:10:00Z");
  expect(next({ everyMs: 3_600_000, start }, "2025-06-01T00:00:00Z", 2)).toEqual([
    "2026-01-01T00:10:00Z",
    "2026-01-01T01:10:00Z",
  ]);
});

test("a time that never comes is none", () => {
  expect(nextRun({ cron: "0 0 30 2 *" }, 0)).toBe(0);
  expect(nextRun({ at: [5, 3] }, 5)).toBe(0);
  expect(nextRun({ at: [5, 3] }, 0)).toBe(3);
  expect(nextRun({ everyMs: 1000, end: 1500 }, 1000)).toBe(0);
});

const schedule = fc.oneof(
  fc.record({
    cron: fc.constantFrom(
      "* * * * *",
      "*/7 * * * *",
      "30 2 * * *",
      "0 3 * * 0",
      "15 1,2,3 * * *",
      "59 23 28-31 * *",
      "*/20 * 2 * * *",
      "0 0 1 * *",
    ),
    timezone: fc.constantFrom(
      "UTC",
      "Europe/Brussels",
      "America/New_York",
      "Australia/Lord_Howe",
      "America/Havana",
      "Asia/Kolkata",
    ),
  }),
  fc.record({
    everyMs: fc.integer({ min: 1000, max: 10_000_000 }),
    start: fc.integer({ min: 0, max: 2e12 }),
  }),
  fc.record({ at: fc.array(fc.integer({ min: 1.79e12, max: 1.8e12 }), { minLength: 1, maxLength: 20 }) }),
);
/** Moments that are often near a daylight saving change. */
const moment = fc.oneof(
  fc.integer({ min: 1.7e12, max: 1.9e12 }),
  fc
    .tuple(
      fc.constantFrom(
        "2026-03-29T01:00:00Z",
        "2026-10-25T01:00:00Z",
        "2026-11-01T06:00:00Z",
        "2026-03-08T07:00:00Z",
        "2026-04-04T15:00:00Z",
        "2026-10-03T15:30:00Z",
      ),
      fc.integer({ min: -3 * 3_600_000, max: 3 * 3_600_000 }),
    )
    .map(([time, by]) => Date.parse(time) + by),
);

test("the latest times are those that come one after the other", () => {
  fc.assert(
    fc.property(
      schedule,
      moment,
      fc.integer({ min: 1, max: 30 }),
      fc.integer({ min: 0, max: 3_600_000 }),
      fc.integer({ min: 1, max: 8 }),
      (one, from, count, by, max) => {
        const times = nextRuns(one, from - 1, count);
        const to = Math.min(
          (times.at(-1) ?? from) + by,
          (nextRun(one, times.at(-1) ?? from) || Infinity) - 1,
        );
        expect(names(lastRuns(one, from, to, max))).toEqual(names(times.slice(-max)));
      },
    ),
    { numRuns: 1500 },
  );
});

test("the latest times of cron are those that are found by going back", () => {
  const crons = schedule.filter(({ cron }: Schedule) => cron !== undefined);
  fc.assert(
    fc.property(
      crons,
      moment,
      fc.integer({ min: -60_000, max: 3 * 86_400_000 }),
      fc.integer({ min: 1, max: 12 }),
      ({ cron = "", timezone = "UTC" }: Schedule, from, span, count) => {
        const to = from + span;
        const back = new Cron(cron, { timezone, paused: true, mode: "5-or-6-parts" })
          .previousRuns(count, new Date((Math.floor(to / 1000) + 1) * 1000))
          .map((date) => date.getTime())
          .filter((time) => time >= from && time <= to)
          .reverse();
        expect(names(lastRuns({ cron, timezone }, from, to, count))).toEqual(names(back));
      },
    ),
    { numRuns: 500 },
  );
});

test("a run that is made in time computes few times, whatever catch_up is", () => {
  const due = Date.parse("2026-06-01T12:00:00Z");
  const meta = { ...defaultMeta, schedule: { cron: "* * * * *", catchUp: 1000 }, nextRun: due };
  const [forward, back] = [vi.spyOn(Cron.prototype, "nextRun"), vi.spyOn(Cron.prototype, "previousRuns")];
  try {
    expect(dueRuns(meta, due + 500)).toEqual([due]);
    expect(forward.mock.calls.length).toBeLessThanOrEqual(2);
    expect(back).not.toHaveBeenCalled();
  } finally {
    vi.restoreAllMocks();
  }
});

test("looking back costs the same after any outage", () => {
  const meta = { ...defaultMeta, schedule: { cron: "* * * * *", catchUp: 3 }, nextRun: 60_000 };
  expect(names(dueRuns(meta, Date.parse("2026-01-01T00:00:30Z")))).toEqual([
    "2025-12-31T23:58:00Z",
    "2025-12-31T23:59:00Z",
    "2026-01-01T00:00:00Z",
  ]);
});

test("jitter differs from run to run, and covers its span", () => {
  const delays = Array.from({ length: 1000 }, (_, i) => runDelay("s", { jitterMs: 1000 }, i * 60_000));
  expect(Math.min(...delays)).toBeLessThan(50);
  expect(Math.max(...delays)).toBeGreaterThan(950);
  expect(new Set(delays).size).toBeGreaterThan(500);
  expect(runDelay("s", {}, 60_000)).toBe(0);
});

test("what is set again goes on where it was, unless its times changed", () => {
  const set = (schedule: Schedule) => ({ ...defaultMeta, schedule });
  const first = withRuns(null, set({ everyMs: 60_000 }), 90_000);
  expect([first.nextRun, first.lastRun]).toEqual([120_000, 0]);
  const old = { ...first, lastRun: 60_000 };
  expect(withRuns(old, set({ everyMs: 60_000, catchUp: 5 }), 999_999)).toMatchObject({
    nextRun: 120_000,
    lastRun: 60_000,
  });
  expect(withRuns(old, set({ everyMs: 1000 }), 999_999)).toMatchObject({ nextRun: 1_000_000, lastRun: 0 });
  expect(withRuns(old, set({}), 999_999)).toMatchObject({ nextRun: 0, lastRun: 0 });
});
