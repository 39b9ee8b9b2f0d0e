/** A store that counts its commits and can make them fail as a disk would. */
import { loadDriver, type Connection } from "../../src/sqlite/driver.ts";
import { openFile, own } from "../../src/sqlite/file.ts";
import { migrate } from "../../src/sqlite/schema.ts";
import { SqliteStore } from "../../src/sqlite/store.ts";

/** Result codes of SQLite. */
export const diskFull = 13;
export const diskError = 10;

export class Fault {
  commits = 0;
  #code: number | null = null;

  /** Makes the next commit fail. Returns a function that undoes this. */
  arm(on: boolean, code = diskFull): () => void {
    this.#code = on ? code : null;
    return () => {
      this.#code = null;
    };
  }

  /** Called before each commit. */
  meet(): void {
    this.commits++;
    if (this.#code === null) return;
    const errcode = this.#code;
    this.#code = null;
    throw Object.assign(new Error("made to fail"), { errcode });
  }
}

export async function openWithFault(file: string, fault: Fault): Promise<SqliteStore> {
  const driver = loadDriver();
  const ownership = own(driver, file);
  const inner = openFile(driver, file, "off");
  migrate(inner, file, () => undefined);
  const connection: Connection = {
    ...inner,
    prepare(sql) {
      const statement = inner.prepare(sql);
      if (sql !== "COMMIT") return statement;
      return {
        ...statement,
        run() {
          fault.meet();
          return statement.run();
        },
      };
    },
  };
  return new SqliteStore({ file, driver, connection, ownership, readOnly: false, joinMs: Infinity });
}
