/** The same random commands on the memory store and on the postgres store give the same answers. */
import fc from "fast-check";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { encodeData, Engine, ManualClock, seededRandom } from "../../src/core/index.ts";
import { MemoryStore } from "../../src/memory/index.ts";
import { openPostgres, type PostgresStore } from "../../src/postgres/index.ts";
import { commands, commandsWithReopen, finish, start, type Pair } from "../model/differential.ts";
import { Ids } from "../model/ids.ts";
import { openServer, query, type Server } from "./server.ts";

let server: Server;
beforeAll(async () => {
  server = await openServer();
}, 60_000);
afterAll(() => server.stop());

async function compare(runs: number, steps: typeof commands): Promise<void> {
  const url = await server.createDatabase();
  const clock = new ManualClock(1_000_000);
  const memory = new MemoryStore();
  const open = (): Promise<PostgresStore> => openPostgres({ url, notify: false });
  let store = await open();
  const ids = new Ids();
  // commands that guess the name of an attempt guess a low one: of both stores, one that was there and is gone
  for (const one of [memory, store]) {
    const engine = new Engine(one, { clock });
    await engine.setWorkSpecs("before", [{ data: encodeData({ name: "s" }) }]);
    await engine.addWorkUnits(
      "before",
      "s",
      Array.from({ length: 20 }, (_, i) => ({ name: String(i) })),
    );
    await engine.deleteNamespace("before");
  }
  let run = 0;
  await fc.assert(
    fc.asyncProperty(steps, async (run100) => {
      // the same numbers are drawn by both, and in every run: one that fails can be repeated
      const [first, second] = [seededRandom(7), seededRandom(7)];
      const options = { workerRetentionMs: 5000, clock };
      const pair: Pair = {
        memory: new Engine(memory, { ...options, random: first }),
        other: new Engine(store, { ...options, random: second }),
        clock,
        ns: `run ${run++}`,
        attempts: [],
        ids,
        tallyEvery: 4,
        async reopen() {
          await store.close();
          store = await open();
          pair.other = new Engine(store, { ...options, random: second });
          // an engine remembers which workers it has met
          pair.memory = new Engine(memory, { ...options, random: first });
        },
      };
      await start(pair);
      await fc.asyncModelRun(async () => ({ model: {}, real: pair }), run100);
      await finish(pair);
      // what was deleted stays for an hour, in case somebody is still looking at it; here nobody is
      await query(url, "UPDATE coordinate.spec SET died = died - interval '2 hours' WHERE dead");
    }),
    // the stores are the same in all runs, so that a shorter one tells nothing
    { numRuns: runs, endOnFailure: true },
  );
  // all namespaces were deleted: no row is left behind
  while (!(await store.purge(1000, clock.now())).done);
  for (const table of [
    "namespace",
    "spec",
    "unit",
    "history",
    "need",
    "tally",
    "log",
    "request",
    "worker",
    "lock",
  ])
    expect(await query(url, `SELECT count(*)::int AS n FROM coordinate.${table}`), table).toEqual([{ n: 0 }]);
  await store.close();
}

const runs = Number(process.env.POSTGRES_RUNS ?? 120);

describe("memory and postgres", () => {
  test("answer the same to the same commands", () => compare(runs, commands), 3_600_000);

  test(
    "also when the store is closed and opened in between",
    () => compare(Math.ceil(runs / 10), commandsWithReopen),
    3_600_000,
  );
});
