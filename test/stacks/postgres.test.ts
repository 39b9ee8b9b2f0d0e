import pg from "pg";
import { afterAll, beforeAll, describe, test } from "vitest";
import { Engine, ManualClock, type Random } from "../../src/core/index.ts";
import { openPostgres, type Pool, type PostgresOptions } from "../../src/postgres/index.ts";
import { conformance, type Stack } from "../../src/testing/index.ts";
import { openServer } from "../postgres/server.ts";

const stack = (name: string, options: (url: string) => PostgresOptions): Stack => ({
  name,
  async open() {
    const server = await openServer();
    const clock = new ManualClock();
    let random: Random = () => 0;
    const store = await openPostgres(options(await server.createDatabase()));
    const coordinate = new Engine(store, { clock, random: () => random() });
    return {
      coordinate,
      clock,
      setRandom: (next) => (random = next),
      tidy: () => coordinate.tidy(),
      waiting: () => coordinate.waiting,
      async close() {
        await coordinate.close();
        await server.stop();
      },
    };
  },
});

/** As PgBouncer in transaction mode does: every transaction has another session, in which nothing was left. */
function transactionPool(url: string): Pool {
  const pool = new pg.Pool({ connectionString: url, max: 6 });
  pool.on("error", () => undefined);
  return {
    async connect() {
      const client = await pool.connect();
      await client.query("DISCARD ALL");
      return client;
    },
  };
}

const runner = { afterAll, beforeAll, describe, test };
conformance(
  stack("engine on the postgres store", (url) => ({ url })),
  runner,
);
conformance(
  stack("engine on the postgres store behind a transaction pool", (url) => ({
    pool: transactionPool(url),
    pgBouncer: true,
  })),
  runner,
);
