/** Random histories on the engine over PostgreSQL and on the model: the visible state is the same after every step. */
import { afterAll, beforeAll, test } from "vitest";
import { openPostgres, type PostgresStore } from "../../src/postgres/index.ts";
import { checkModel } from "../model/model-test.ts";
import { openServer, type Server } from "./server.ts";

let server: Server;
let store: PostgresStore;
let histories = 0;

beforeAll(async () => {
  server = await openServer();
  store = await openPostgres({ url: await server.createDatabase() });
}, 60_000);

afterAll(async () => {
  await store.close();
  await server.stop();
});

const name = "the engine on the postgres store does what the model does";

test(
  name,
  () =>
    checkModel({
      file: "test/postgres/model.test.ts",
      name,
      async open() {
        const ns = `history ${histories++}`;
        return {
          store,
          ns,
          async close() {
            await store.deleteNamespace(ns);
            while (!(await store.purge(1000, Date.now())).done);
          },
        };
      },
      runs: { fixed: 8, fresh: 20 },
      compareEvery: 3,
    }),
  3_600_000,
);
