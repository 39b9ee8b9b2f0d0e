/** Several engines on one database, with connections that are cut and clocks that differ: each run of a schedule is made once. */
import { afterAll, beforeAll, expect, test } from "vitest";
import { encodeData, Engine, ManualClock } from "../../src/core/index.ts";
import { openPostgres, type PostgresStore } from "../../src/postgres/index.ts";
import { testClocksAhead } from "../core/clocks-ahead.ts";
import { openServer, query, type Server } from "./server.ts";

let server: Server;
let url: string;
const stores: PostgresStore[] = [];

beforeAll(async () => {
  server = await openServer();
  url = await server.createDatabase();
  stores.push(...(await Promise.all(Array.from({ length: 4 }, () => openPostgres({ url, poolSize: 3 })))));
}, 60_000);

afterAll(async () => {
  await Promise.all(stores.map((store) => store.close()));
  await server.stop();
});

test("each run is made by exactly one of four engines, while connections are cut", async () => {
  const ns = "runs";
  const clock = new ManualClock(1_000_000);
  const engines = stores.map((store) => new Engine(store, { clock }));
  const specs = ["a", "b", "c"];
  await engines[0]!.setWorkSpecs(
    ns,
    specs.map((name) => ({ data: encodeData({ name, schedule: { every: 1, catch_up: 5 } }) })),
  );
  const runs = 40;
  for (let i = 0; i < runs; i++) {
    clock.advance(1000);
    // calls on cut connections may fail: the next read makes the missed runs
    const asked = Promise.allSettled(
      engines.flatMap((engine, n) => [
        engine.sweep(),
        engine.requestAttempts(ns, { worker: `w${n}`, number: 1 }),
        engine.tally(ns),
      ]),
    );
    if (i % 5 === 0)
      await query(
        url,
        "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE datname = current_database() AND application_name = 'coordinate'",
      );
    await asked;
  }
  await engines[0]!.tally(ns);
  for (const name of specs) {
    const { rows } = await engines[0]!.listWorkUnits(ns, name);
    expect(rows.map((row) => row.name)).toEqual(
      Array.from({ length: runs }, (_, i) =>
        new Date(1_001_000 + i * 1000).toISOString().replace(".000Z", "Z"),
      ),
    );
    const [spec] = await engines[0]!.getWorkSpecs(ns, [name]);
    expect(spec?.meta).toMatchObject({ lastRun: 1_040_000, nextRun: 1_041_000 });
  }
  const counts = await engines[0]!.tally(ns);
  for (const row of counts) expect(Object.values(row.counts).reduce((sum, one) => sum + one, 0)).toBe(runs);
}, 120_000);

let tests = 0;
testClocksAhead(async () =>
  Promise.resolve({ store: stores[0]!, other: stores[1]!, ns: `clocks ${tests++}` }),
);
