/** Rates as token buckets, compared with a bucket that is refilled step by step. */
import { expect, test } from "vitest";
import { nextToken, seededRandom, takeTokens, tokensOf, type Rate } from "../../src/core/index.ts";

const rates: Rate[] = [
  { limit: 1 },
  { limit: 10 },
  { limit: 3, periodMs: 1000, burst: 2 },
  { limit: 7, periodMs: 60_000, burst: 5 },
  { limit: 2.5, periodMs: 100, burst: 100 },
];

test.each(rates)("%j allows what a bucket of tokens has", (rate) => {
  const { limit = 0, periodMs = 1000, burst = 1 } = rate;
  const random = seededRandom(1);
  let level = burst;
  let full = 0;
  let now = 1000;
  for (let step = 0; step < 2000; step++) {
    const passed = Math.floor(random() * periodMs * (random() < 0.1 ? 5 : 0.3));
    now += passed;
    level = Math.min(burst, level + (passed * limit) / periodMs);
    const tokens = tokensOf(rate, full, now);
    expect(Math.abs(tokens - Math.floor(level + 1e-6))).toBeLessThanOrEqual(
      Math.abs(level - Math.round(level)) < 1e-3 ? 1 : 0,
    );
    const taken = Math.floor(random() * (tokens + 1));
    full = takeTokens(rate, full, now, taken);
    level -= taken;
  }
});

test.each(rates)("%j: the next token is there when it is said to be, and not before", (rate) => {
  const now = 5000;
  const full = takeTokens(rate, 0, now, tokensOf(rate, 0, now));
  expect(tokensOf(rate, full, now)).toBe(0);
  const next = nextToken(rate, full, now);
  expect(tokensOf(rate, full, next)).toBeGreaterThanOrEqual(1);
  expect(tokensOf(rate, full, next - 2)).toBe(0);
});

test("in any period no more begin than the limit and the burst", () => {
  const rate = { limit: 20, periodMs: 1000, burst: 5 };
  const starts: number[] = [];
  let full = 0;
  for (let now = 0; now < 60_000; now++) {
    const tokens = tokensOf(rate, full, now);
    full = takeTokens(rate, full, now, tokens);
    for (let i = 0; i < tokens; i++) starts.push(now);
  }
  expect(starts.length).toBeGreaterThanOrEqual(1199);
  for (let i = 0; i + 25 < starts.length; i++)
    expect(starts[i + 25]! - starts[i]!).toBeGreaterThanOrEqual(1000);
});

test("a bucket that a slower rate or a clock that was ahead has emptied has one token", () => {
  const [rate, now] = [{ limit: 10, burst: 3 }, 1000];
  const slow = takeTokens({ limit: 1, periodMs: 86_400_000 }, 0, now, 1);
  expect(tokensOf(rate, slow, now)).toBe(1);
  const full = takeTokens(rate, slow, now, 1);
  expect(tokensOf(rate, full, now)).toBe(0);
  expect(nextToken(rate, full, now)).toBe(now + 100);
});

test("clocks that differ by less than a minute do not make a token", () => {
  const full = takeTokens({ limit: 1 }, 0, 60_000, 1);
  expect(tokensOf({ limit: 1 }, full, 0)).toBe(0);
  expect(nextToken({ limit: 1 }, full, 0)).toBe(61_000);
});

test.each([1e-300, Number.MIN_VALUE])(
  "a limit of %d in a period lets one unit begin, and the next one never",
  (limit) => {
    const rate = { limit, periodMs: 4.32e15 };
    const now = Date.UTC(2026, 0, 1);
    expect(tokensOf(rate, 0, now)).toBe(1);
    const full = takeTokens(rate, 0, now, 1);
    expect(tokensOf(rate, full, now + 1000)).toBe(0);
    expect(nextToken(rate, full, now)).toBeLessThanOrEqual(8.64e15);
    expect(
      nextToken({ ...rate, burst: 3 }, takeTokens({ ...rate, burst: 3 }, 0, now, 3), now),
    ).toBeLessThanOrEqual(8.64e15);
  },
);

test("without a limit there is no rate", () => {
  expect(tokensOf({}, 5, 0)).toBe(Infinity);
  expect(takeTokens({ limit: 0 }, 5, 0, 3)).toBe(5);
});
