/** The server logs each statement that fails, so the quick statements of this store fail seldom, and their message says that it is harmless. */
import pg from "pg";
import { afterAll, beforeAll, expect, test } from "vitest";
import { encodeData, Engine, ManualClock } from "../../src/core/index.ts";
import { openPostgres, type PostgresStore } from "../../src/postgres/index.ts";
import { Caution } from "../../src/postgres/caution.ts";
import type { Pool } from "../../src/postgres/connection.ts";
import { openServer, type Server } from "./server.ts";

let server: Server;
let own: pg.Pool;
let store: PostgresStore;
/** What the server refused. */
let refused: string[] = [];

beforeAll(async () => {
  server = await openServer();
  own = new pg.Pool({ connectionString: await server.createDatabase() });
  const pool: Pool = {
    connect: async () => {
      const client = await own.connect();
      return {
        query: async (config) => {
          try {
            return await client.query(config);
          } catch (error) {
            refused.push(String(error));
            throw error;
          }
        },
        on: (event, listener) => client.on(event, listener),
        removeListener: (event, listener) => client.removeListener(event, listener),
        release: (destroy) => client.release(destroy),
      };
    },
  };
  store = await openPostgres({ pool, notify: false });
}, 60_000);
afterAll(async () => {
  await store.close();
  await own.end();
  await server.stop();
});

const start = async (ns: string, ...specs: Record<string, unknown>[]): Promise<Engine> => {
  const engine = new Engine(store, { clock: new ManualClock(1_000_000), random: () => 0 });
  await engine.setWorkSpecs(
    ns,
    specs.map((keys) => ({ data: encodeData(keys) })),
  );
  // the first claim of a worker is another statement
  await engine.requestAttempts(ns, { worker: "w" });
  refused = [];
  return engine;
};

const harmless = "coordinate: harmless, repeated in another form";

test("units that may chain, among others that do not", async () => {
  const engine = await start("chained", { name: "a", then: "b" }, { name: "b" }, { name: "c" });
  for (let i = 0; i < 200; i++)
    for (const spec of ["a", "c", "c"]) {
      await engine.addWorkUnits("chained", spec, [{ name: `${i}` }]);
      const [attempt] = await engine.requestAttempts("chained", { worker: "w" });
      await engine.settleAttempts("chained", [{ attempt: attempt!.id, action: "finish" }]);
    }
  expect(await engine.tally("chained")).toMatchObject([
    { workSpec: "a", counts: { finished: 200 } },
    { workSpec: "b" },
    { workSpec: "c", counts: { finished: 200 } },
  ]);
  // a settle, and a claim when units of the third are added again
  expect(refused.filter((message) => message.includes(harmless)).length).toBeLessThanOrEqual(2);
});

test("units that are tried again, among others that are not", async () => {
  const engine = await start("tried", { name: "s" });
  for (let i = 0; i < 200; i++) {
    await engine.addWorkUnits("tried", "s", [{ name: `${i}` }]);
    for (const action of i % 5 === 0 ? (["retry", "finish"] as const) : (["finish"] as const)) {
      const [attempt] = await engine.requestAttempts("tried", { worker: "w" });
      await engine.settleAttempts("tried", [{ attempt: attempt!.id, action }]);
    }
  }
  expect(await engine.tally("tried")).toMatchObject([{ counts: { finished: 200 } }]);
  expect(refused).toHaveLength(1);
  expect(refused[0]).toContain(harmless);
});

test("units that exist, added again among new ones", async () => {
  const engine = await start("again", { name: "s" });
  for (let i = 0; i < 100; i++)
    await engine.addWorkUnits("again", "s", [{ name: `new ${i}` }, { name: `${i % 7}` }]);
  expect(refused).toHaveLength(1);
  expect(refused[0]).toMatch(/duplicate key/);
});

test("the careful form is used until it has met nothing odd for a while, and longer after each failure", () => {
  const caution = new Caution<string>(4);
  const plainUntilQuick = (): number => {
    let count = 0;
    for (; caution.isNeeded("k"); count++) caution.used("k", false);
    return count;
  };
  expect(caution.isNeeded("k")).toBe(false);
  caution.failed("k");
  expect(plainUntilQuick()).toBe(4);
  caution.failed("k");
  expect(plainUntilQuick()).toBe(8);
  caution.failed("k");
  for (let i = 0; i < 15; i++) caution.used("k", false);
  caution.used("k", true);
  expect(plainUntilQuick()).toBe(16);
  caution.used("other", true);
  expect(caution.isNeeded("other")).toBe(true);
  for (let i = 0; i < 20; i++) caution.failed("k");
  expect(plainUntilQuick()).toBe(6400);
});
