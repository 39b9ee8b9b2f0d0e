/** Several engines on one database share one breaker. */
import { afterAll, beforeAll, expect, test } from "vitest";
import { encodeData, Engine, isTripped, ManualClock, seededRandom } from "../../src/core/index.ts";
import { openPostgres, type PostgresStore } from "../../src/postgres/index.ts";
import { openServer, query, type Server } from "./server.ts";

let server: Server;
let url: string;
const stores: PostgresStore[] = [];
const clock = new ManualClock(1_000_000);
const engines: Engine[] = [];

beforeAll(async () => {
  server = await openServer();
  url = await server.createDatabase();
  for (let i = 0; i < 4; i++) {
    const store = await openPostgres({ url, poolSize: 3 });
    stores.push(store);
    engines.push(new Engine(store, { clock, random: seededRandom(i) }));
  }
}, 60_000);

afterAll(async () => {
  await Promise.all(stores.map((store) => store.close()));
  await server.stop();
});

test("failures through all engines trip it, probes are never too many, and it closes for all", async () => {
  const [first] = engines;
  const data = encodeData({ name: "s", breaker: { failures: 0.5, min: 20, pause: 10, probes: 3 } });
  await first!.setWorkSpecs("n", [{ data }]);
  await first!.addWorkUnits(
    "n",
    "s",
    Array.from({ length: 200 }, (_, i) => ({ name: `u${i}` })),
  );
  const claimAll = async (number: number): Promise<string[][]> =>
    Promise.all(
      engines.map(async (engine, i) =>
        (await engine.requestAttempts("n", { worker: `w${i}`, number })).map(({ id }) => id),
      ),
    );
  const settleAll = async (held: readonly string[][], action: "finish" | "fail"): Promise<void> => {
    await Promise.all(
      engines.map(async (engine, i) => {
        const changes = (held[i] ?? []).map((attempt) => ({ attempt, action }));
        const answers = await engine.settleAttempts("n", changes);
        expect(answers.every(({ error }) => error === null)).toBe(true);
      }),
    );
  };
  // five finish and five fail on each engine: no engine alone sees twenty outcomes
  const held = await claimAll(10);
  expect(held.flat()).toHaveLength(40);
  await settleAll(
    held.map((ids) => ids.slice(0, 5)),
    "finish",
  );
  await settleAll(
    held.map((ids) => ids.slice(5)),
    "fail",
  );
  const state = async () => (await engines[3]!.getWorkSpecs("n", ["s"]))[0]!.meta;
  expect(isTripped(await state())).toBe(true);
  expect((await claimAll(10)).flat()).toHaveLength(0);
  clock.advance(10_000);
  const probes = await claimAll(10);
  expect(probes.flat()).toHaveLength(3);
  await settleAll(probes, "finish");
  expect(isTripped(await state())).toBe(false);
  expect((await claimAll(2)).flat()).toHaveLength(8);
  // the sweep deletes outcomes that are older than the window
  clock.advance(600_000);
  await engines[1]!.sweep();
  expect(await query(url, "SELECT count(*)::int AS n FROM coordinate.outcome")).toEqual([{ n: 0 }]);
}, 60_000);
