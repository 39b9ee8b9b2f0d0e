/** Keys for names that are too long for an index: they keep the order of names, whatever is added in between. */
import { afterAll, beforeAll, expect, test } from "vitest";
import { Engine, ManualClock, compareNames, encodeData, seededRandom } from "../../src/core/index.ts";
import { openPostgres, type PostgresStore } from "../../src/postgres/index.ts";
import { openServer, type Server } from "./server.ts";

let server: Server;
beforeAll(async () => {
  server = await openServer();
}, 120_000);
afterAll(() => server.stop());

const head = "x".repeat(3000);

async function open(url: string, clock: ManualClock): Promise<{ store: PostgresStore; engine: Engine }> {
  const store = await openPostgres({ url, notify: false, connectTimeoutMs: 60_000, lockTimeoutMs: 60_000 });
  return { store, engine: new Engine(store, { clock, random: () => 0 }) };
}

const listed = async (engine: Engine, label?: string): Promise<string[]> =>
  (await engine.listWorkUnits("", "s", { limit: 10_000, ...(label !== undefined && { label }) })).rows.map(
    ({ name }) => name,
  );

async function claimed(engine: Engine, number: number): Promise<string[]> {
  const attempts = await engine.requestAttempts("", { worker: "w", number });
  return attempts.map(({ workUnit }) => workUnit);
}

test("names that each halve the same gap stay in order, for readers, claims and labels", async () => {
  const { engine } = await open(await server.createDatabase(), new ManualClock(1_000_000));
  await engine.setWorkSpecs("", [{ data: encodeData({ name: "s" }) }]);
  // 500 names, each after "A" and before the previous one
  const names = [`${head}A`, ...Array.from({ length: 500 }, (_, i) => `${head}${"a".repeat(i)}b`)];
  await engine.addWorkUnits("", "s", [{ name: names[0]!, labels: ["l"] }]);
  await engine.addWorkUnits("", "s", [{ name: names[1]!, labels: ["l"] }]);
  // the claimed unit is before the position at which the next claim starts
  expect(await claimed(engine, 1)).toEqual([names[0]]);
  for (const name of names.slice(2)) await engine.addWorkUnits("", "s", [{ name, labels: ["l"] }]);
  const sorted = names.toSorted(compareNames);
  expect(await listed(engine)).toEqual(sorted);
  expect(await listed(engine, "l")).toEqual(sorted);
  const page = await engine.listWorkUnits("", "s", { previous: `${head}aaaa`, limit: 2 });
  const after = sorted.filter((name) => compareNames(name, `${head}aaaa`) > 0).slice(0, 2);
  expect(page.rows.map(({ name }) => name)).toEqual(after);
  expect(await claimed(engine, 1000)).toEqual(sorted.slice(1));
  expect(await engine.deleteWorkUnits("", "s", { label: "l" })).toBe(names.length);
  expect(await listed(engine)).toEqual([]);
  await engine.close();
}, 120_000);

test("long names that are added at the same moment, in any order and by several engines, are in order", async () => {
  const url = await server.createDatabase();
  const clock = new ManualClock(1_000_000);
  const engines = await Promise.all(Array.from({ length: 4 }, async () => (await open(url, clock)).engine));
  await engines[0]!.setWorkSpecs("", [{ data: encodeData({ name: "s" }) }]);
  const random = seededRandom(7);
  const tails = Array.from({ length: 240 }, (_, i) => i.toString(2)).concat(
    Array.from({ length: 60 }, (_, i) => "y".repeat(900) + String(i)),
  );
  const shuffled = tails.toSorted(() => random() - 0.5).map((tail) => head + tail);
  // every name twice: the second add finds the existing unit
  const twice = [...shuffled, ...shuffled];
  const added = await Promise.all(
    Array.from({ length: twice.length / 5 }, (_, i) =>
      engines[i % 4]!.addWorkUnits(
        "",
        "s",
        twice.slice(i * 5, i * 5 + 5).map((name) => ({ name })),
      ),
    ),
  );
  expect(added.flat().filter(({ created }) => created).length).toBe(tails.length);
  const sorted = shuffled.toSorted(compareNames);
  expect(await listed(engines[0]!)).toEqual(sorted);
  expect(await claimed(engines[1]!, 1000)).toEqual(sorted);
  for (const engine of engines) await engine.close();
}, 120_000);
