import pg from "pg";
import { afterAll, beforeAll, describe, test } from "vitest";
import type { Pool } from "../../src/postgres/index.ts";
import { conformance } from "../../src/testing/index.ts";
import { findPgBouncer, startPgBouncer } from "../postgres/pgbouncer.ts";
import { stack, type Way } from "./postgres-stack.ts";

const bouncer = findPgBouncer();

async function behindPgBouncer(program: string, url: string): Promise<Way> {
  const pooler = await startPgBouncer(program, url);
  return { options: { url: pooler.url, pgBouncer: true }, end: () => pooler.stop() };
}

/** A substitute if PgBouncer is not installed: every transaction gets another session without any state. */
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

/**
 * Runs a random third of the cases: a pooler changes how statements are sent, not what they do, and each case takes four times as
 * long. `PGBOUNCER_CASES=all` runs all.
 */
const third = Math.floor(Math.random() * 3);
let cases = 0;
const someTest = (name: string, body: () => Promise<void>): void => {
  if (process.env.PGBOUNCER_CASES === "all" || cases++ % 3 === third) test(name, body);
};

conformance(
  bouncer === null
    ? stack("engine on the postgres store behind a transaction pool", behindTransactionPool)
    : stack("engine on the postgres store behind PgBouncer", (url) => behindPgBouncer(bouncer, url)),
  { afterAll, beforeAll, describe, test: someTest },
);
