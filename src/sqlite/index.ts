export { openSqlite, openSqliteReader, type SqliteOptions } from "./open.ts";
export type { Durability } from "./file.ts";
export type { CheckReport, Progress, Statistics } from "./maintenance.ts";
export { SqliteStore } from "./store.ts";
