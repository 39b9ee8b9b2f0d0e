/** Two engines on one database share out worker time together: work settled through one counts for the other. */
import { afterAll, beforeAll, expect, test } from "vitest";
import { Engine, ManualClock, seededRandom } from "../../src/core/index.ts";
import { openPostgres, type PostgresStore } from "../../src/postgres/index.ts";
import { partOf, runShares } from "../core/share-run.ts";
import { openServer, type Server } from "./server.ts";

let server: Server;
const stores: PostgresStore[] = [];

beforeAll(async () => {
  server = await openServer();
  const url = await server.createDatabase();
  stores.push(
    ...(await Promise.all([openPostgres({ url, poolSize: 3 }), openPostgres({ url, poolSize: 3 })])),
  );
}, 60_000);

afterAll(async () => {
  await Promise.all(stores.map((store) => store.close()));
  await server.stop();
});

test("two engines give units of 50 ms and of 500 ms the same time, and each knows what went through the other", async () => {
  const clock = new ManualClock();
  const engines = stores.map((store, i) => new Engine(store, { clock, random: seededRandom(i + 5) }));
  await engines[0]!.setNamespace("n", { share: "time" });
  const { time } = await runShares({
    engines,
    clock,
    ns: "n",
    specs: { short: { weight: 1, ms: () => 50 }, long: { weight: 1, ms: () => 500 } },
    workers: 4,
    warmUpMs: 15_000,
    forMs: 60_000,
  });
  expect(Math.abs(partOf(time, "long") - 0.5)).toBeLessThan(0.08);

  // when all work is recorded
  clock.advance(11_000);
  for (const engine of engines) await engine.sweep();
  const told = await Promise.all(engines.map((engine) => engine.explain("n")));
  expect(told[0]).toEqual(told[1]);
  expect(told[0]?.map(({ workSpec, meanMs }) => [workSpec, meanMs])).toEqual([
    ["long", 500],
    ["short", 50],
  ]);
}, 180_000);
