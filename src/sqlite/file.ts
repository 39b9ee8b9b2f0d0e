/**
 * Opens the database file, takes ownership of it, and turns its errors into messages that name it.
 *
 * One process owns a file. Ownership is a lock on a small file next to it, held by an open transaction. The kernel
 * releases the lock when the process dies, however it dies, so there are no stale locks and no process ids to verify.
 */
import {
  closeSync,
  existsSync,
  fdatasyncSync,
  fstatSync,
  fsyncSync,
  ftruncateSync,
  lstatSync,
  openSync,
  readSync,
  realpathSync,
  statSync,
  writeSync,
} from "node:fs";
import { hostname } from "node:os";
import path from "node:path";
import { CoordinateError, InUseError } from "../core/index.ts";
import { isSqliteError, type Connection, type Driver } from "./driver.ts";

/**
 * `full` syncs before a call is answered. `normal` syncs at checkpoints: a killed process loses nothing, but a power
 * cut may lose the last moments. `off` leaves syncing to the operating system.
 */
export type Durability = "full" | "normal" | "off";

/** The write-ahead log is checkpointed into the file after this many pages of 4 KiB. */
const checkpointPages = 4000;
/** Each page in the log has a header of 24 bytes, and the log one of 32. */
const reservedLogBytes = 32 + checkpointPages * (4096 + 24);

export function openFile(driver: Driver, file: string, durability: Durability): Connection {
  const connection = open(driver, file, false);
  try {
    connection.exec(`
      PRAGMA busy_timeout = 2000;
      PRAGMA auto_vacuum = INCREMENTAL;
      PRAGMA journal_mode = WAL;
      PRAGMA synchronous = ${durability};
      PRAGMA wal_autocheckpoint = ${checkpointPages};
      PRAGMA journal_size_limit = 67108864;
      PRAGMA cache_size = -65536;
      PRAGMA temp_store = MEMORY;
    `);
    return connection;
  } catch (error) {
    connection.close();
    throw explain(file, error);
  }
}

/**
 * Extends the write-ahead log to its size at the first checkpoint; from then on SQLite overwrites it from the start. A commit that
 * extends the log takes 0.6 ms, one that overwrites it 0.4 ms, since the file system need not record a new length and new blocks.
 * Only the owner may call it, between transactions. SQLite ignores bytes after the last transaction in the log.
 */
export function reserveLog(file: string): void {
  const handle = openSync(`${file}-wal`, "r+");
  try {
    const { size } = fstatSync(handle);
    try {
      const zeros = new Uint8Array(1024 * 1024);
      for (let at = size; at < reservedLogBytes; at += zeros.length)
        writeSync(handle, zeros, 0, Math.min(zeros.length, reservedLogBytes - at), at);
      fdatasyncSync(handle);
    } catch {
      // not enough disk space: the log grows with its transactions
      ftruncateSync(handle, size);
    }
  } finally {
    closeSync(handle);
  }
}

/** Checkpoints the log into the file before closing, so that the file can be moved or copied alone. */
export function closeFile({ connection, readOnly }: { connection: Connection; readOnly: boolean }): void {
  try {
    if (!readOnly) connection.exec("PRAGMA wal_checkpoint(TRUNCATE)");
  } catch {
    // a full disk, or a reader: the log stays next to the file and is checkpointed when the file is opened again
  }
  connection.close();
}

export function openReadOnly(driver: Driver, file: string): Connection {
  if (!existsSync(file)) throw new CoordinateError("unavailable", `${file}: does not exist`);
  const connection = open(driver, file, true);
  try {
    connection.exec("PRAGMA busy_timeout = 2000; PRAGMA cache_size = -16384");
    return connection;
  } catch (error) {
    connection.close();
    throw explain(file, error);
  }
}

/** The file behind a symbolic link. SQLite keeps the log next to that file, and so must its lock be: by any name it has one owner. */
export function followLink(file: string): string {
  try {
    const isLink = lstatSync(file, { throwIfNoEntry: false })?.isSymbolicLink() === true;
    return isLink ? realpathSync(file) : file;
  } catch (error) {
    throw explain(file, error);
  }
}

function open(driver: Driver, file: string, readOnly: boolean): Connection {
  try {
    return driver.open(file, { readOnly });
  } catch (error) {
    throw explain(file, error);
  }
}

/** Creates the file, readable only by its owner. SQLite gives its companion files the same permissions. */
function createFile(file: string): void {
  const directory = path.dirname(path.resolve(file));
  try {
    if (!statSync(directory).isDirectory())
      throw new CoordinateError("unavailable", `${file}: ${directory} is not a directory`);
    if (existsSync(file)) {
      if (statSync(file).isDirectory()) throw new CoordinateError("unavailable", `${file}: is a directory`);
      return;
    }
    closeSync(openSync(file, "wx", 0o600));
    syncDirectory(directory);
  } catch (error) {
    if (error instanceof Error && "code" in error && error.code === "ENOENT")
      throw new CoordinateError("unavailable", `${file}: the directory ${directory} does not exist`, {
        cause: error,
      });
    throw explain(file, error);
  }
}

/** Syncs a directory. Without this, a power cut may lose a new file name in it. */
export function syncDirectory(directory: string): void {
  // Windows cannot open a directory, and does not need it
  if (process.platform === "win32") return;
  const handle = openSync(directory, "r");
  try {
    fsyncSync(handle);
  } finally {
    closeSync(handle);
  }
}

/**
 * Detects a truncated file now, not when the missing part is read. Call before SQLite opens the file: SQLite might extend it again
 * with empty pages. If a log is next to it, the file may correctly be shorter than its header says.
 */
function checkSize(file: string): void {
  const { size } = statSync(file);
  if (size < 100 || (statSync(`${file}-wal`, { throwIfNoEntry: false })?.size ?? 0) > 0) return;
  const header = Buffer.alloc(100);
  const handle = openSync(file, "r");
  try {
    readSync(handle, header);
  } finally {
    closeSync(handle);
  }
  // https://www.sqlite.org/fileformat.html: the page count is valid if the version-valid-for number equals the change counter
  if (
    !header.toString("latin1").startsWith("SQLite format 3\0") ||
    header.readUInt32BE(24) !== header.readUInt32BE(92)
  )
    return;
  const pageSize = header.readUInt16BE(16) === 1 ? 65536 : header.readUInt16BE(16);
  const expected = header.readUInt32BE(28) * pageSize;
  if (size < expected)
    throw new CoordinateError(
      "unavailable",
      `${file}: is truncated: ${size} bytes, expected ${expected}. Restore a backup`,
    );
}

// ---- ownership

export interface Ownership {
  release(): void;
}

/** Takes ownership of the file for this process. Throws, naming the owner, if another process owns it. */
export function own(driver: Driver, file: string): Ownership {
  // before the lock file, so that an error message names the file itself
  createFile(file);
  const lockFile = `${file}-owner`;
  createFile(lockFile);
  const connection = open(driver, lockFile, false);
  try {
    connection.exec("PRAGMA busy_timeout = 0");
    connection.exec("BEGIN IMMEDIATE");
    connection.exec("CREATE TABLE IF NOT EXISTS owner (pid INTEGER, host TEXT); DELETE FROM owner");
    connection.once("INSERT INTO owner VALUES (?, ?)", process.pid, hostname());
    connection.exec("COMMIT; BEGIN IMMEDIATE");
  } catch (error) {
    const owner =
      isSqliteError(error) && primary(error.errcode) === codes.busy ? readOwner(connection) : null;
    connection.close();
    if (owner === null) throw explain(lockFile, error);
    throw new InUseError(
      `${file}: is in use by ${owner}. Only one process at a time can own a store; connect to that process, or open the store read-only`,
      { cause: error },
    );
  }
  try {
    checkSize(file);
  } catch (error) {
    connection.exec("ROLLBACK");
    connection.close();
    throw explain(file, error);
  }
  return {
    release() {
      connection.exec("ROLLBACK");
      connection.close();
    },
  };
}

function readOwner(connection: Connection): string {
  try {
    const [pid, host] = connection.once("SELECT pid, host FROM owner") ?? [];
    return pid === undefined ? "another process" : `process ${String(pid)} on ${String(host)}`;
  } catch {
    // the owner is just writing its name: it is enough to report that there is an owner
    return "another process";
  }
}

// ---- errors

const codes = {
  busy: 5,
  noMemory: 7,
  readOnly: 8,
  io: 10,
  corrupt: 11,
  full: 13,
  cannotOpen: 14,
  notADatabase: 26,
} as const;

/** SQLITE_IOERR_SHMSIZE: an error of shared memory that a full disk causes. */
const sharedMemorySize = 4874;

const primary = (code: number): number => code & 0xff;

/** Whether nothing may be written after this error, so that damage does not spread: only a restart, and perhaps a restore, helps. */
export function isFatal(error: unknown): boolean {
  if (!isSqliteError(error) || error.errcode === sharedMemorySize) return false;
  const code = primary(error.errcode);
  return code === codes.io || code === codes.corrupt || code === codes.notADatabase;
}

/** Turns an error of SQLite or the file system into one that names the file and the cause. Returns other errors unchanged. */
export function explain(file: string, error: unknown): unknown {
  if (error instanceof CoordinateError) return error;
  const say = (code: "unavailable" | "no_space", text: string): CoordinateError =>
    new CoordinateError(code, `${file}: ${text}`, { cause: error });
  if (isSqliteError(error)) {
    if (error.errcode === sharedMemorySize) return say("no_space", "the disk is full");
    switch (primary(error.errcode)) {
      case codes.full:
        return say("no_space", "the disk is full");
      case codes.io:
        return say("unavailable", `the disk reports an error (${error.message}, code ${error.errcode})`);
      case codes.corrupt:
        return say("unavailable", `is damaged (${error.message}). Restore a backup`);
      case codes.notADatabase:
        return say("unavailable", "is not an SQLite database");
      case codes.readOnly:
        return say("unavailable", "cannot be written: the file or its directory is read-only");
      case codes.cannotOpen:
        return say("unavailable", `cannot be opened (${error.message}); check its permissions`);
      case codes.busy:
        return new InUseError(`${file}: is locked by another program`, { cause: error });
      case codes.noMemory:
        return say("unavailable", "not enough memory");
      default:
        return error;
    }
  }
  if (error instanceof Error && "code" in error && typeof error.code === "string") {
    const reasons: Record<string, string> = {
      ENOENT: "its directory does not exist",
      EACCES: "no permission",
      EPERM: "no permission",
      EROFS: "the file system is read-only",
      ENOSPC: "the disk is full",
      EDQUOT: "the disk quota is exceeded",
      ENOTDIR: "part of its path is not a directory",
      EMFILE: "too many open files",
    };
    const reason = reasons[error.code];
    if (reason !== undefined)
      return say(error.code === "ENOSPC" || error.code === "EDQUOT" ? "no_space" : "unavailable", reason);
  }
  return error;
}
