/**
 * Transactional enqueue: the order and the job that handles it are written in one transaction, or not at all.
 * Uses the PostgreSQL server at DATABASE_URL, or starts a temporary one.
 */
import assert from "node:assert/strict";
import pg from "pg";
import { Engine, handles } from "../src/index.ts";
import { openPostgres } from "../src/postgres/index.ts";
import { openServer } from "../test/postgres/server.ts";

const server = await openServer();
const pool = new pg.Pool({ connectionString: await server.createDatabase() });
await pool.query("CREATE TABLE orders (id int PRIMARY KEY, item text NOT NULL)");

// The store uses the connection pool of the program.
const store = await openPostgres({ pool });
const clock = await store.clock();
const coordinate = handles(new Engine(store, { clock }));
const ship = await coordinate.namespace("shop").setWorkSpec({ name: "ship" });

async function order(id: number, item: string): Promise<void> {
  const client = await pool.connect();
  try {
    await client.query("BEGIN");
    // The unit is added on the same connection, so it is part of the same transaction.
    const inside = handles(new Engine(store.within(client), { clock }));
    await inside.namespace("shop").workSpec("ship").addWorkUnit(`order ${id}`, { item });
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

const units: string[] = [];
for await (const { name, data } of ship.workUnits()) units.push(`${name}: ${JSON.stringify(data)}`);
console.log(units.join("\n"));
assert.deepEqual(units, ['order 1: {"item":"lamp"}']);

await coordinate.close();
await pool.end();
await server.stop();
