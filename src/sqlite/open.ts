/** Opening a store. */
import { CoordinateError } from "../core/index.ts";
import { loadDriver } from "./driver.ts";
import { explain, followLink, openFile, openReadOnly, own, reserveLog, type Durability } from "./file.ts";
import { checkVersion, migrate, schemaVersion } from "./schema.ts";
import { SqliteStore } from "./store.ts";

export interface SqliteOptions {
  /** Default `full`: every answered call survives a power cut. See docs/sqlite.md. */
  durability?: Durability;
  /** Called for each numbered step when a file of an older version is migrated. */
  onMigration?: (step: number, of: number) => void;
  /**
   * Extends the write-ahead log to 16 MB when the store is opened, so that commits need not: they take 0.4 ms instead of 0.6. Takes
   * about 20 ms, so it pays for a process that keeps the store open for long. Default false.
   */
  reserveLog?: boolean;
  /** False: every verb goes by the rules of core, one unit at a time, without set-based statements. For tests. */
  fastPaths?: boolean;
}

/**
 * Opens or creates a store and owns the file until the store is closed. Throws `unavailable`, naming file and cause, if another
 * process owns the file, or if it is damaged, of a newer version or cannot be opened. `:memory:` is a store without a file.
 */
export async function openSqlite(name: string, options: SqliteOptions = {}): Promise<SqliteStore> {
  const driver = loadDriver();
  const file = followLink(name);
  const ownership = file === ":memory:" ? null : own(driver, file);
  try {
    const connection = openFile(driver, file, options.durability ?? "full");
    try {
      migrate(connection, file, options.onMigration ?? (() => undefined));
      const { fastPaths = true, reserveLog: reserves = false } = options;
      if (reserves && file !== ":memory:") reserveLog(file);
      return new SqliteStore({ file, driver, connection, ownership, readOnly: false, fastPaths });
    } catch (error) {
      connection.close();
      throw explain(file, error);
    }
  } catch (error) {
    ownership?.release();
    throw error;
  }
}

/**
 * Opens a store read-only, whether or not another process owns it. Verbs that write throw `not_supported`. Expired leases and
 * elapsed delays show as the owner last updated them.
 */
export async function openSqliteReader(name: string): Promise<SqliteStore> {
  const driver = loadDriver();
  const file = followLink(name);
  const connection = openReadOnly(driver, file);
  try {
    const version = checkVersion(connection, file);
    if (version < schemaVersion)
      throw new CoordinateError(
        "unavailable",
        `${file}: ${version === 0 ? "contains no store" : "has an older schema; open it once for writing to upgrade it"}`,
      );
    return new SqliteStore({ file, driver, connection, ownership: null, readOnly: true });
  } catch (error) {
    connection.close();
    throw explain(file, error);
  }
}
