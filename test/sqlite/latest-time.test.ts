/** Work specs that an earlier version stored, with spans that end after the latest date: every integer stays one that the driver reads. */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { afterAll, expect, test } from "vitest";
import { encodeData, Engine, ManualClock, readWorkSpec, type WorkSpecMeta } from "../../src/core/index.ts";
import { openSqlite } from "../../src/sqlite/index.ts";

const directory = mkdtempSync(path.join(tmpdir(), "coordinate-latest-time-"));
afterAll(() => rmSync(directory, { recursive: true, force: true }));

const latest = 8.64e15;
const tooLong = 1e17;

/** Stores metadata that is refused today, and opens the file again after `use`. */
async function stored(
  name: string,
  meta: Partial<WorkSpecMeta>,
  use: (engine: Engine, clock: ManualClock) => Promise<void>,
): Promise<Engine> {
  const file = path.join(directory, `${name}.sqlite`);
  const clock = new ManualClock(Date.UTC(2026, 0, 1));
  const store = await openSqlite(file, { durability: "off" });
  const data = encodeData({ name: "s" });
  await store.putWorkSpecs("ns", [{ ref: "s", data, meta: () => ({ ...readWorkSpec(data).meta, ...meta }) }]);
  const engine = new Engine(store, { clock });
  await use(engine, clock);
  await engine.close();
  return new Engine(await openSqlite(file, { durability: "off" }), { clock });
}

async function works(engine: Engine): Promise<void> {
  await engine.setWorkSpecs("other", [{ data: encodeData({ name: "s" }) }]);
  await engine.addWorkUnits("other", "s", [{ name: "u" }]);
  expect(await engine.requestAttempts("other", { worker: "w" })).toHaveLength(1);
  expect(await engine.requestAttempts("ns", { worker: "w" })).toEqual([]);
  await engine.sweep();
  expect(await engine.tally()).toHaveLength(2);
}

test("a back-off", async () => {
  const retry = { backoff: { kind: "fixed", delayMs: tooLong, maxMs: tooLong } } as const;
  const engine = await stored("retry", { retry }, async (first) => {
    await first.addWorkUnits("ns", "s", [{ name: "u" }]);
    const [attempt] = await first.requestAttempts("ns", { worker: "w" });
    await first.settleAttempts("ns", [{ attempt: attempt!.id, action: "error", error: "x" }]);
  });
  await works(engine);
  expect((await engine.getWorkUnits("ns", "s", ["u"]))[0]?.notBefore).toBe(latest);
  await engine.close();
});

test("the jitter of a schedule", async () => {
  const schedule = { everyMs: 60_000, jitterMs: 100 * tooLong };
  const engine = await stored("jitter", { schedule, nextRun: 60_000 }, async (first) => {
    await first.sweep();
  });
  await works(engine);
  expect((await engine.listWorkUnits("ns", "s")).rows.map(({ notBefore }) => notBefore)).toEqual([latest]);
  await engine.close();
});

test("the pause and the window of a breaker", async () => {
  const breaker = { failures: 1, min: 1, windowMs: 1e303, pauseMs: tooLong };
  const engine = await stored("breaker", { breaker }, async (first) => {
    await first.addWorkUnits("ns", "s", [{ name: "u" }]);
    const [attempt] = await first.requestAttempts("ns", { worker: "w" });
    await first.settleAttempts("ns", [{ attempt: attempt!.id, action: "fail" }]);
  });
  await works(engine);
  const [row] = await engine.getWorkSpecs("ns", ["s"]);
  expect(row?.meta.breakerState.until).toBeLessThanOrEqual(latest);
  await engine.close();
});
