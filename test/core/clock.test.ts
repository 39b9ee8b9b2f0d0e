import { expect, test } from "vitest";
import { systemClock, type Clock } from "../../src/core/index.ts";

const second = 1000;
const hour = 3600 * second;

/** A clock over two sources of time that the test moves. */
function clockAt(wall: number): { clock: Clock; pass: (ms: number) => void; step: (ms: number) => void } {
  let elapsed = 0;
  return {
    clock: systemClock(
      () => Math.floor(wall),
      () => elapsed,
    ),
    pass: (ms) => {
      wall += ms;
      elapsed += ms;
    },
    step: (ms) => (wall += ms),
  };
}

test("shows the wall clock, also when that steps forward", () => {
  const { clock, pass, step } = clockAt(100 * hour);
  expect(clock.now()).toBe(100 * hour);
  for (let part = 1; part <= 1000; part++) {
    pass(0.75);
    expect(clock.now()).toBe(100 * hour + Math.floor(part * 0.75));
  }
  step(hour);
  expect(clock.now()).toBe(101 * hour + 750);
});

test("goes on when the wall clock steps back, in whole milliseconds, until both are the same", () => {
  const { clock, pass, step } = clockAt(100 * hour);
  let last = clock.now();
  step(-9 * second);
  expect(clock.now()).toBe(last);
  for (let passed = 0; passed < 90; passed++) {
    pass(second);
    const now = clock.now();
    expect(Math.abs(now - last - 900)).toBeLessThanOrEqual(1);
    expect(Number.isInteger(now)).toBe(true);
    last = now;
  }
  pass(second);
  expect(clock.now()).toBe(100 * hour + 82 * second);
});

test("a wait takes its time, whatever the wall clock does meanwhile", { timeout: 10 * second }, async () => {
  let behind = 0;
  const clock = systemClock(() => Date.now() - behind);
  const began = performance.now();
  const waits = clock.waitUntil(clock.now() + 50);
  behind = hour;
  await waits;
  expect(performance.now() - began).toBeGreaterThan(45);
});
