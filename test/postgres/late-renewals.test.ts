import { afterAll, beforeAll } from "vitest";
import { openPostgres, type PostgresStore } from "../../src/postgres/index.ts";
import { testLateRenewals } from "../core/late-renewals.ts";
import { openServer, type Server } from "./server.ts";

let server: Server;
let store: PostgresStore;
let other: PostgresStore;
let tests = 0;

beforeAll(async () => {
  server = await openServer();
  const url = await server.createDatabase();
  store = await openPostgres({ url });
  other = await openPostgres({ url });
}, 60_000);

afterAll(async () => {
  await store.close();
  await other.close();
  await server.stop();
});

testLateRenewals(async () => ({ store, other, ns: `test ${tests++}` }));
