import pg from "pg";
import { afterAll, beforeAll, describe, test, vi } from "vitest";
import { Engine, ManualClock, type Random } from "../../src/core/index.ts";
import { openPostgres, type Pool, type PostgresOptions } from "../../src/postgres/index.ts";
import { conformance, type Stack } from "../../src/testing/index.ts";
import { findPgBouncer, startPgBouncer } from "../postgres/pgbouncer.ts";
import { openServer } from "../postgres/server.ts";
import { failingOn } from "./failing.ts";

// housekeeping looks at the work specs of all cases before: many, on a machine that does other things as well
vi.setConfig({ testTimeout: 120_000 });

interface Way {
  options: PostgresOptions;
  /** Ends what stands between the store and the server. */
  end?: () => Promise<void>;
}

const stack = (name: string, way: (url: string) => Way | Promise<Way>): Stack => ({
  name,
  failing: failingOn("postgres", "postgres in process"),
  async open() {
    const server = await openServer();
    const clock = new ManualClock();
    let random: Random = () => 0;
    const { options, end } = await way(await server.createDatabase());
    const store = await openPostgres(options);
    const coordinate = new Engine(store, { clock, random: () => random() });
    return {
      coordinate,
      clock,
      setRandom: (next) => (random = next),
      sweep: () => coordinate.sweep(),
      waiting: () => coordinate.waiting,
      async close() {
        await coordinate.close();
        await end?.();
        await server.stop();
      },
    };
  },
});

const bouncer = findPgBouncer();

async function behindPgBouncer(program: string, url: string): Promise<Way> {
  const pooler = await startPgBouncer(program, url);
  return { options: { url: pooler.url, pgBouncer: true }, end: () => pooler.stop() };
}

/** Where there is no PgBouncer, what it does: every transaction has another session, in which nothing was left. */
function behindTransactionPool(url: string): Way {
  const pool = new pg.Pool({ connectionString: url, max: 6 });
  pool.on("error", () => undefined);
  const shared: Pool = {
    async connect() {
      const client = await pool.connect();
      await client.query("DISCARD ALL");
      return client;
    },
  };
  return { options: { pool: shared, pgBouncer: true }, end: () => pool.end() };
}

const runner = { afterAll, beforeAll, describe, test };
conformance(
  stack("engine on the postgres store", (url) => ({ options: { url } })),
  runner,
);
conformance(
  bouncer === null
    ? stack("engine on the postgres store behind a transaction pool", behindTransactionPool)
    : stack("engine on the postgres store behind PgBouncer", (url) => behindPgBouncer(bouncer, url)),
  runner,
);
