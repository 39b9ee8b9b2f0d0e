/**
 * The SQLite driver: the few operations that this store needs, and the two drivers that provide them.
 *
 * Node 22.13 and later include SQLite (`node:sqlite`). For Node 20 there is a package with the same interface and
 * prebuilt binaries, so that no install needs a compiler or an install script. The package is an optional dependency and
 * is loaded only where it is needed. The choice is measured in docs/decisions/010-sqlite-driver.md.
 */
import { createRequire } from "node:module";
import { CoordinateError } from "../core/index.ts";

export type Value = null | number | string | Uint8Array;
export type Row = Value[];

export interface Statement {
  /** Returns the number of changed rows. */
  run(...values: Value[]): number;
  get(...values: Value[]): Row | undefined;
  all(...values: Value[]): Row[];
}

export interface Connection {
  exec(sql: string): void;
  /** The statement is valid as long as the connection is open. */
  prepare(sql: string): Statement;
  /** Runs a statement once and returns its first row. */
  once(sql: string, ...values: Value[]): Row | undefined;
  /**
   * Closes the connection. The packaged driver does not finalize its statements: the file stays open, without a lock,
   * until they are garbage-collected. The caller must end an open transaction first.
   */
  close(): void;
}

export interface Driver {
  readonly name: "node:sqlite" | "@photostructure/sqlite";
  /** The module that another thread must require to get the same driver. */
  readonly module: string;
  /** The version of the SQLite library, such as 3.53.0. */
  readonly version: string;
  open(file: string, options?: { readOnly?: boolean }): Connection;
}

/** The error that drivers throw, with the extended result code of SQLite: https://www.sqlite.org/rescode.html. */
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
  /** Missing before Node 22.16. */
  setReturnArrays?(on: boolean): void;
}

const require = createRequire(import.meta.url);
let loaded: Driver | undefined;

/** Loads the driver for this version of Node. */
export function loadDriver(): Driver {
  loaded ??= loadNode() ?? loadPackage();
  return loaded;
}

function loadNode(): Driver | undefined {
  const [major = 0, minor = 0] = process.versions.node.split(".").map(Number);
  // before 22.13 `node:sqlite` needs a flag; the package is used even if the flag is set
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
    const advice = `on Node ${process.versions.node}, install the package @photostructure/sqlite (npm install @photostructure/sqlite@1), or use Node 22.13 or later`;
    throw new CoordinateError("unavailable", `the SQLite store has no driver: ${advice}`, { cause });
  }
}

/** Suppresses the warning that `node:sqlite` is experimental: the tests of this folder verify its interface. */
function quietly<Result>(load: () => Result): Result {
  // the original is only saved and restored, never called without `process` as its `this`
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
  // reads all rows, not only the first: an unfinished statement keeps a transaction open
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
  // the columns of every statement here have distinct names, so the row object has all values, in order
  return {
    run,
    get(...values) {
      const row = native.get(...values);
      return row === undefined ? undefined : Object.values(row);
    },
    all: (...values) => native.all(...values).map((row) => Object.values(row)),
  };
}
