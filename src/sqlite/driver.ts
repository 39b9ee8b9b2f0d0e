/**
 * The seam to SQLite itself: the few things this store needs of a driver, and the two drivers that do them.
 *
 * Node 22.13 and later bring SQLite along (`node:sqlite`); for Node 20 there is a package with the same interface and
 * its binaries inside, so that no install needs a compiler or an install script. It is an optional dependency and is
 * loaded only where it is needed. The choice is measured in docs/decisions/010-sqlite-driver.md.
 */
import { createRequire } from "node:module";
import { CoordinateError } from "../core/index.ts";

export type Value = null | number | string | Uint8Array;
export type Row = Value[];

export interface Statement {
  /** Answers how many rows were changed. */
  run(...values: Value[]): number;
  get(...values: Value[]): Row | undefined;
  all(...values: Value[]): Row[];
}

export interface Connection {
  exec(sql: string): void;
  /** For as long as the connection is open. */
  prepare(sql: string): Statement;
  /** The first row of a statement that is run once. */
  once(sql: string, ...values: Value[]): Row | undefined;
  /**
   * Ends the connection. The packaged driver does not end its statements then: until they are collected as garbage the
   * file stays open, without a lock. Who holds a transaction must end it before.
   */
  close(): void;
}

export interface Driver {
  readonly name: "node:sqlite" | "@photostructure/sqlite";
  /** What another thread must require to get the same driver. */
  readonly module: string;
  /** Of the SQLite library, as 3.53.0. */
  readonly version: string;
  open(file: string, options?: { readOnly?: boolean }): Connection;
}

/** What a driver throws: the extended result code of SQLite, https://www.sqlite.org/rescode.html. */
export interface SqliteError extends Error {
  readonly errcode: number;
}

export const isSqliteError = (error: unknown): error is SqliteError =>
  error instanceof Error && "errcode" in error && typeof error.errcode === "number";

/** The part of `node:sqlite` that is used; the packaged driver has the same. */
interface Module {
  DatabaseSync: new (file: string, options?: { readOnly?: boolean }) => Database;
}

interface Database {
  exec(sql: string): void;
  prepare(sql: string): NativeStatement;
  close(): void;
}

interface NativeStatement {
  run(...values: Value[]): { changes: number | bigint };
  get(...values: Value[]): Row | Record<string, Value> | undefined;
  all(...values: Value[]): Row[] | Record<string, Value>[];
  /** Not before Node 22.16. */
  setReturnArrays?(on: boolean): void;
}

const require = createRequire(import.meta.url);
let loaded: Driver | undefined;

/** Loads what this version of Node has. */
export function loadDriver(): Driver {
  loaded ??= loadNode() ?? loadPackage();
  return loaded;
}

function loadNode(): Driver | undefined {
  const [major = 0, minor = 0] = process.versions.node.split(".").map(Number);
  // before 22.13 it needs a flag; a user who sets it gets the package all the same
  if (major < 22 || (major === 22 && minor < 13)) return undefined;
  return driver(
    "node:sqlite",
    "node:sqlite",
    quietly(() => require("node:sqlite") as Module),
  );
}

function loadPackage(): Driver {
  try {
    return driver(
      "@photostructure/sqlite",
      require.resolve("@photostructure/sqlite"),
      require("@photostructure/sqlite") as Module,
    );
  } catch (cause) {
    const advice = `on Node ${process.versions.node} it needs the package @photostructure/sqlite (npm install @photostructure/sqlite@1), or use Node 22.13 or later`;
    throw new CoordinateError("unavailable", `the SQLite store has no driver: ${advice}`, { cause });
  }
}

/** `node:sqlite` warns that it is experimental; its interface is pinned down by the tests of this folder instead. */
function quietly<Result>(load: () => Result): Result {
  // the original is only put aside and put back, never called without its `process`
  // eslint-disable-next-line @typescript-eslint/unbound-method
  const warn = process.emitWarning;
  process.emitWarning = () => undefined;
  try {
    return load();
  } finally {
    process.emitWarning = warn;
  }
}

function driver(name: Driver["name"], module: string, { DatabaseSync }: Module): Driver {
  const open: Driver["open"] = (file, options = {}) => connect(new DatabaseSync(file, options));
  const memory = open(":memory:");
  const version = String(memory.once("SELECT sqlite_version()")?.[0]);
  memory.close();
  return { name, module, version, open };
}

const connect = (database: Database): Connection => ({
  exec: (sql) => database.exec(sql),
  prepare: (sql) => wrap(database.prepare(sql)),
  // to the end, and not only to its first row: a statement that is not done keeps a transaction open
  once: (sql, ...values) => wrap(database.prepare(sql)).all(...values)[0],
  close: () => database.close(),
});

function wrap(native: NativeStatement): Statement {
  const run = (...values: Value[]): number => Number(native.run(...values).changes);
  if (native.setReturnArrays !== undefined) {
    native.setReturnArrays(true);
    return {
      run,
      get: (...values) => native.get(...values) as Row | undefined,
      all: (...values) => native.all(...values) as Row[],
    };
  }
  // every statement of this folder names its columns apart, so that the values stand in order
  return {
    run,
    get(...values) {
      const row = native.get(...values);
      return row === undefined ? undefined : Object.values(row);
    },
    all: (...values) => native.all(...values).map((row) => Object.values(row)),
  };
}
