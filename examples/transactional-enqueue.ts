/**
 * Transactional enqueue: the order and the job that handles it are written in one transaction, or not at all.
 * Uses the PostgreSQL server at DATABASE_URL, or starts a temporary one.
 */
import assert from "node:assert/strict";
import pg from "pg";
import { encodeData, Engine } from "../src/index.ts";
import { openPostgres } from "../src/postgres/index.ts";
import { openServer } from "../test/postgres/server.ts";

const server = await openServer();
const pool = new pg.Pool({ connectionString: await server.createDatabase() });
await pool.query("CREATE TABLE orders (id int PRIMARY KEY, item text NOT NULL)");

// The store uses the connection pool of the program.
const store = await openPostgres({ pool });
const engine = new Engine(store);
await engine.setWorkSpecs("shop", [{ data: encodeData({ name: "ship" }) }]);

async function order(id: number, item: string): Promise<void> {
  const client = await pool.connect();
  try {
    await client.query("BEGIN");
    // The unit is added on the same connection, so it is part of the same transaction.
    await new Engine(store.within(client)).addWorkUnits("shop", "ship", [
      { name: `order ${id}`, data: encodeData({ item }) },
    ]);
    await client.query("INSERT INTO orders VALUES ($1, $2)", [id, item]);
    await client.query("COMMIT");
  } catch (error) {
    await client.query("ROLLBACK");
    throw error;
  } finally {
    client.release();
  }
}

await order(1, "lamp");
// Order 1 exists: the transaction fails and adds neither an order nor a job.
await assert.rejects(order(1, "chair"), /duplicate key/);

const { rows } = await engine.listWorkUnits("shop", "ship");
console.log(rows.map(({ name, data }) => `${name}: ${String(data)}`).join("\n"));
assert.deepEqual(
  rows.map(({ name }) => name),
  ["order 1"],
);

await engine.close();
await pool.end();
await server.stop();
