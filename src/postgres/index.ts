export type { DatabaseClock } from "./clock.ts";
export type { Client, Counters, Pool, PooledClient } from "./connection.ts";
export { openPostgres, type PostgresOptions } from "./open.ts";
export { migrations, schemaVersion } from "./schema.ts";
export { PostgresStore } from "./store.ts";
