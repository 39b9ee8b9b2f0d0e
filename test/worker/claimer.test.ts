/**
 * The claimer's guarantee: an available unit and a free slot that could run it meet within a second. `CLAIMER_SCHEDULES` is the number of
 * random schedules, `CLAIMER_SEED` the first seed. A failure prints the command that repeats it alone.
 */
import assert from "node:assert/strict";
import { describe, it } from "vitest";
import { runSchedule } from "./claimer-model.ts";

const count = Number(process.env.CLAIMER_SCHEDULES ?? 2000);
const first = Number(process.env.CLAIMER_SEED ?? Date.now() % 1_000_000_000);

async function check(seed: number): Promise<number> {
  const replay = `CLAIMER_SEED=${seed} CLAIMER_SCHEDULES=1 npx vitest run test/worker/claimer.test.ts`;
  try {
    const { stallMs, description } = await runSchedule(seed);
    assert.ok(
      stallMs <= 1000,
      `available work beside a free slot for ${Math.round(stallMs)} ms; ${description}`,
    );
    return stallMs;
  } catch (error) {
    throw new Error(`${error instanceof Error ? error.message : String(error)}\nreplay: ${replay}`, {
      cause: error,
    });
  }
}

describe("work and a slot that could run it meet within a second", () => {
  it(
    `in ${count} random schedules from seed ${first}`,
    async () => {
      for (let seed = first; seed < first + count; seed++) await check(seed);
    },
    60_000 + count * 50,
  );
});
