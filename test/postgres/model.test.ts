/** Random histories on the engine over PostgreSQL and on the model that the memory store is held to: the same is seen after every step. */
import fc from "fast-check";
import { afterAll, beforeAll, test } from "vitest";
import { encodeData, Engine, ManualClock } from "../../src/core/index.ts";
import { openPostgres, type PostgresStore } from "../../src/postgres/index.ts";
import { commands, specNames } from "../model/commands.ts";
import { Model } from "../model/model.ts";
import { openServer, type Server } from "./server.ts";

let server: Server;
let store: PostgresStore;

beforeAll(async () => {
  server = await openServer();
  store = await openPostgres({ url: await server.createDatabase() });
});

afterAll(async () => {
  await store.close();
  await server.stop();
});

test("the engine on the postgres store does what the model does", async () => {
  let serial = 0;
  await fc.assert(
    fc.asyncProperty(commands, async (steps) => {
      await fc.asyncModelRun(async () => {
        const ns = `history ${serial++}`;
        const clock = new ManualClock(1_000_000);
        const coordinate = new Engine(store, { clock, random: () => 0 });
        const model = new Model();
        model.now = clock.now();
        model.specs = specNames.map((name) => ({
          name,
          paused: false,
          maxRunning: 0,
          maxGetwork: 0,
          maxRetries: 0,
          then: name === "a" ? "b" : "",
        }));
        await coordinate.setWorkSpecs(
          ns,
          model.specs.map(({ name, then }) => ({ data: encodeData({ name, ...(then !== "" && { then }) }) })),
        );
        return { model, real: { coordinate, clock, ids: new Map<never, never>(), ns } };
      }, steps);
    }),
    { numRuns: Number(process.env.MODEL_RUNS ?? 60) },
  );
}, 300_000);
