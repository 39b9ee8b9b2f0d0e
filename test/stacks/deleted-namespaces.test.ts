/** A namespace that is deleted and created again while the units of the old one are still stored. */
import { afterAll, beforeAll, expect, test } from "vitest";
import { encodeData, Engine, ManualClock, type Store } from "../../src/core/index.ts";
import { MemoryStore } from "../../src/memory/index.ts";
import { openPostgres } from "../../src/postgres/index.ts";
import { openSqlite } from "../../src/sqlite/index.ts";
import { openServer, type Server } from "../postgres/server.ts";

let server: Server;
beforeAll(async () => {
  server = await openServer();
}, 60_000);
afterAll(() => server.stop());

const stores: Record<string, () => Promise<Store>> = {
  memory: async () => new MemoryStore(),
  sqlite: () => openSqlite(":memory:"),
  postgres: async () => openPostgres({ url: await server.createDatabase(), notify: false }),
};

test.each(Object.keys(stores))(
  "%s: the old units are not counted in the batches of the new one",
  async (name) => {
    const store = await stores[name]!();
    const engine = new Engine(store, { clock: new ManualClock() });
    const fill = async (count: number): Promise<void> => {
      await engine.setWorkSpecs("", [{ data: encodeData({ name: "s" }) }]);
      const units = Array.from({ length: count }, (_, i) => ({ name: String(i), batch: "b" }));
      await engine.addWorkUnits("", "s", units);
    };
    await fill(3);
    // not by the engine, which would remove the units at once
    await store.deleteNamespace("");
    await fill(5);
    expect(await engine.getBatches("", ["b"])).toMatchObject([{ total: 5 }]);
    await engine.sweep();
    expect(await engine.getBatches("", ["b"])).toMatchObject([{ total: 5, failed: 0, doneTime: 0 }]);
    await engine.close();
  },
);
