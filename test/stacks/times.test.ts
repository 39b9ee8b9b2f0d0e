/** Two engines on one store, one with a clock that is behind: no recorded attempt starts before the previous one or a dependency ended. */
import { afterAll, beforeAll, describe, expect, test } from "vitest";
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

const stores: Record<string, (fastPaths: boolean) => Promise<Store>> = {
  memory: async () => new MemoryStore(),
  sqlite: (fastPaths) => openSqlite(":memory:", { fastPaths }),
  postgres: async (fastPaths) =>
    openPostgres({ url: await server.createDatabase(), notify: false, fastPaths }),
};

describe.each(Object.keys(stores))("%s", (name) => {
  test.each([true, false])("attempts do not overlap, fast paths %s", async (fastPaths) => {
    const store = await stores[name]!(fastPaths);
    const ahead = new Engine(store, { clock: new ManualClock(2000), random: () => 0 });
    const behind = new Engine(store, { clock: new ManualClock(1000), random: () => 0 });
    await ahead.setWorkSpecs("", [{ data: encodeData({ name: "s" }) }]);
    await ahead.addWorkUnits("", "s", [{ name: "a" }, { name: "b", dependencies: [{ workUnit: "a" }] }]);
    const request = { worker: "w", lifetimeMs: 500 };
    const [first] = await ahead.requestAttempts("", request);
    await ahead.settleAttempts("", [{ attempt: first!.id, action: "retry" }]);
    const [second] = await behind.requestAttempts("", request);
    expect(second).toMatchObject({ workUnit: "a", number: 2, startTime: 2000, expirationTime: 2500 });
    await behind.settleAttempts("", [{ attempt: second!.id, action: "finish" }]);
    const [dependent] = await behind.requestAttempts("", request);
    expect(dependent).toMatchObject({ workUnit: "b", startTime: 2000, expirationTime: 2500 });
    // here the dependency ended before the unit was added
    await behind.addWorkUnits("", "s", [{ name: "c", dependencies: [{ workUnit: "a" }] }]);
    const [late] = await behind.requestAttempts("", request);
    expect(late).toMatchObject({ workUnit: "c", startTime: 2000, expirationTime: 2500 });
    const ends = (await behind.listUnitAttempts("", "s", "a")).map(({ startTime, endTime }) => [
      startTime,
      endTime,
    ]);
    expect(ends).toEqual([
      [2000, 2000],
      [2000, 2000],
    ]);
    await ahead.close();
  });
});
