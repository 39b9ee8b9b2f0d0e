/** Long verbs give the event loop turns. */
import { afterEach, expect, test, vi } from "vitest";
import { encodeData, Engine } from "../../src/core/index.ts";
import { openSqlite } from "../../src/sqlite/index.ts";

afterEach(() => {
  vi.restoreAllMocks();
});

/** How many turns the event loop gets if each step takes longer than a verb may run without one. */
async function turnsOf(work: () => Promise<unknown>): Promise<number> {
  let now = 0;
  vi.spyOn(performance, "now").mockImplementation(() => (now += 1000));
  let turns = 0;
  let timer = setImmediate(function turn() {
    turns++;
    timer = setImmediate(turn);
  });
  await work();
  clearImmediate(timer);
  vi.restoreAllMocks();
  return turns;
}

const open = async (): Promise<Engine> => {
  const engine = new Engine(await openSqlite(":memory:", { durability: "off" }));
  await engine.setWorkSpecs("", [
    { data: encodeData({ name: "first" }) },
    { data: encodeData({ name: "s" }) },
  ]);
  return engine;
};

test("the end of a unit that thousands depend on", async () => {
  const engine = await open();
  await engine.addWorkUnits("", "first", [{ name: "u" }]);
  const dependencies = [{ workSpec: "first", workUnit: "u" }];
  const units = Array.from({ length: 2000 }, (_, i) => ({ name: String(i), dependencies }));
  await engine.addWorkUnits("", "s", units);
  const [attempt] = await engine.requestAttempts("", { worker: "w" });
  const turns = await turnsOf(() => engine.settleAttempts("", [{ attempt: attempt!.id, action: "finish" }]));
  // to find them, and to make them available
  expect(turns).toBeGreaterThan(2 * 18);
  expect((await engine.tally("")).find(({ workSpec }) => workSpec === "s")?.counts.available).toBe(2000);
  await engine.close();
});

test("thousands of units with queues: adding and finishing them", async () => {
  const engine = await open();
  const units = Array.from({ length: 20_000 }, (_, i) => ({ name: String(i), queues: ["q"] }));
  // 50 in a statement, and then their queues
  expect(await turnsOf(() => engine.addWorkUnits("", "s", units))).toBeGreaterThan(400 + 30);
  const attempts = await engine.requestAttempts("", { worker: "w", number: units.length });
  const changes = attempts.map(({ id }) => ({ attempt: id, action: "finish" as const }));
  // to read their leases, and to end them
  expect(await turnsOf(() => engine.settleAttempts("", changes))).toBeGreaterThan(2 * 35);
  expect(await engine.countMessages("", ["q"])).toEqual([20_000]);
  await engine.close();
});
