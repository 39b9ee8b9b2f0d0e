/** Opening, owning and maintaining the file. */
import { spawnSync } from "node:child_process";
import {
  chmodSync,
  copyFileSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  readdirSync,
  rmSync,
  statSync,
  symlinkSync,
  truncateSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { afterAll, beforeAll, beforeEach, describe, expect, test } from "vitest";
import { encodeData, Engine, isCoordinateError } from "../../src/core/index.ts";
import { loadDriver } from "../../src/sqlite/driver.ts";
import { openSqlite, openSqliteReader, type SqliteStore } from "../../src/sqlite/index.ts";
import { build } from "./crash/build.ts";
import { StoreProcess } from "./crash/driver.ts";
import { whySkipped } from "../skipped-reporter.ts";

const noRoot = process.getuid?.() === 0 ? "" : "only root can become somebody who may not";

const directory = mkdtempSync(path.join(tmpdir(), "coordinate-file-"));
let built: string;
let file: string;
let serial = 0;

beforeAll(() => {
  built = build();
});
beforeEach(() => {
  file = path.join(directory, `${++serial}.sqlite`);
});
afterAll(() => {
  rmSync(built, { recursive: true, force: true });
  rmSync(directory, { recursive: true, force: true });
});

const stores = new WeakMap<Engine, SqliteStore>();

/** The store of an engine. */
function storeOf(engine: Engine): SqliteStore {
  const store = stores.get(engine);
  if (store === undefined) throw new Error("unknown engine");
  return store;
}

async function filled(units = 100): Promise<Engine> {
  const store = await openSqlite(file);
  const engine = new Engine(store);
  stores.set(engine, store);
  await engine.setWorkSpecs("", [{ data: encodeData({ name: "s" }) }]);
  await engine.addWorkUnits(
    "",
    "s",
    Array.from({ length: units }, (_, i) => ({ name: `unit ${i}`, data: encodeData({ i }) })),
  );
  return engine;
}

describe("ownership", () => {
  test("a second process is refused, with a message that names the first", async () => {
    const engine = await filled();
    const second = new StoreProcess({ built, file });
    const { ready, error } = await second.opened;
    expect(ready).toBe(false);
    expect(error?.code).toBe("unavailable");
    expect(error?.message).toContain(`${file}: is in use by process ${process.pid} on `);
    await second.exited;
    await expect(openSqlite(file)).rejects.toThrow(/is in use by process/);
    // the first process is not affected
    expect((await engine.tally(""))[0]?.counts.available).toBe(100);
    await engine.close();
  });

  test("a link to the file is the file: it has one owner, and one log", async () => {
    const link = `${file}.link`;
    const engine = await filled();
    symlinkSync(path.basename(file), link);
    await expect(openSqlite(link)).rejects.toThrow(/is in use by process/);
    await engine.close();
    const again = await openSqlite(link, { reserveLog: true });
    expect((await again.statistics()).logBytes).toBeGreaterThan(16_000_000);
    await again.close();
    expect(readdirSync(directory).filter((name) => name.startsWith(path.basename(link)))).toEqual([
      path.basename(link),
    ]);
  });

  test("a file whose owner was killed is free at once", async () => {
    for (let i = 0; i < 3; i++) {
      const store = new StoreProcess({ built, file });
      expect(await store.opened).toEqual({ ready: true });
      store.kill();
      await store.exited;
    }
    await (await openSqlite(file)).close();
  });

  test("a file can be closed and opened again, and closing twice is no error", async () => {
    for (let i = 0; i < 3; i++) {
      const store = await openSqlite(file);
      await Promise.all([store.close(), store.close()]);
      await expect(store.tally(null, 0)).rejects.toSatisfy((error) => isCoordinateError(error, "closed"));
    }
  });
});

test("a log with room is overwritten by commits, and a copy of it has all that was answered", async () => {
  const store = await openSqlite(file, { reserveLog: true });
  const engine = new Engine(store);
  const logBytes = (): number => statSync(`${file}-wal`).size;
  const reserved = logBytes();
  expect(reserved).toBeGreaterThan(16_000_000);
  await engine.setWorkSpecs("", [{ data: encodeData({ name: "s" }) }]);
  for (let i = 0; i < 50; i++) await engine.addWorkUnits("", "s", [{ name: `unit ${i}` }]);
  expect(logBytes()).toBe(reserved);
  // a copy of what a crash at this moment would leave
  const copy = `${file}.copy`;
  for (const end of ["", "-wal"]) copyFileSync(file + end, copy + end);
  const found = await openSqlite(copy, { reserveLog: true });
  expect(await found.check()).toEqual({ ok: true, problems: [] });
  expect((await found.tally("", 0))[0]?.counts.available).toBe(50);
  await found.close();
  // nothing is lost when more is written than the log has room for
  const large = encodeData({ text: "x".repeat(10_000) });
  for (let i = 0; i < 3; i++)
    await engine.addWorkUnits(
      "",
      "s",
      Array.from({ length: 1000 }, (_, n) => ({ name: `large ${i} ${n}`, data: large })),
    );
  expect(await store.check()).toEqual({ ok: true, problems: [] });
  await engine.close();
  expect(statSync(`${file}-wal`, { throwIfNoEntry: false })?.size ?? 0).toBe(0);
  const again = await openSqlite(file);
  expect((await again.tally("", 0))[0]?.counts.available).toBe(3050);
  await again.close();
});

describe("permissions and places", () => {
  test("what it makes is for its owner alone", async () => {
    const engine = await filled();
    for (const end of ["", "-wal", "-shm", "-owner"])
      expect(statSync(file + end).mode & 0o777, end).toBe(0o600);
    await engine.close();
  });

  test.each<[string, () => string, RegExp]>([
    [
      "a missing directory",
      () => path.join(directory, "no/such/store.sqlite"),
      /no\/such\/store\.sqlite: the directory .*no\/such does not exist/,
    ],
    ["a directory", () => directory, /is a directory/],
    [
      "a file on the way",
      () => {
        writeFileSync(path.join(directory, "plain"), "");
        return path.join(directory, "plain/store.sqlite");
      },
      /plain.*not a directory/,
    ],
  ])("%s is named in the message", async (_what, place, message) => {
    const error: unknown = await openSqlite(place()).catch((error: unknown) => error);
    expect(error).toSatisfy((error) => isCoordinateError(error, "unavailable"));
    expect(String(error)).toMatch(message);
  });

  test.skipIf(noRoot !== "")(`no permission is named in the message${whySkipped(noRoot)}`, () => {
    const closed = path.join(directory, "closed");
    mkdirSync(closed, { mode: 0o755 });
    writeFileSync(path.join(closed, "store.sqlite"), "", { mode: 0o600 });
    chmodSync(directory, 0o755);
    const program = path.join(import.meta.dirname, "crash/store.mjs");
    const run = (at: string): string => {
      const options = { uid: 65534, gid: 65534, encoding: "utf8", input: "" } as const;
      const { stdout, error } = spawnSync(process.execPath, [program, built, at], options);
      return error === undefined ? stdout : "";
    };
    // not testable if other users cannot read Node or these sources
    const first = run(path.join(closed, "store.sqlite"));
    if (first === "") return;
    expect(first).toMatch(/no permission|cannot be opened|cannot be written/);
    expect(first).toContain(closed);
    expect(run(path.join(closed, "new.sqlite"))).toMatch(/new\.sqlite: no permission/);
  });

  test.skipIf(noRoot !== "")(
    `a file system that is read-only is named in the message${whySkipped(noRoot)}`,
    async ({ skip }) => {
      const place = path.join(directory, "read-only");
      mkdirSync(place);
      if (spawnSync("mount", ["-t", "tmpfs", "-o", "size=2m,ro", "tmpfs", place]).status !== 0)
        skip("nothing can be mounted here");
      try {
        const error: unknown = await openSqlite(path.join(place, "s.sqlite")).catch(
          (error: unknown) => error,
        );
        expect(String(error)).toMatch(/read-only\/s\.sqlite: the file system is read-only/);
      } finally {
        spawnSync("umount", ["--lazy", place]);
      }
    },
  );
});

describe("what is not a store", () => {
  const refused = async (message: RegExp): Promise<void> => {
    for (const open of [openSqlite, openSqliteReader]) {
      const error: unknown = await open(file).catch((error: unknown) => error);
      expect(error).toSatisfy((error) => isCoordinateError(error, "unavailable"));
      expect(String(error)).toMatch(message);
      expect(String(error)).toContain(file);
    }
  };

  test("something else entirely", async () => {
    writeFileSync(file, "this is a letter to a friend, and not short either ".repeat(100));
    await refused(/is not an SQLite database/);
  });

  test("the database of another program", async () => {
    const connection = loadDriver().open(file);
    connection.exec("CREATE TABLE recipe (name TEXT)");
    connection.close();
    await refused(/is an SQLite database of another program/);
  });

  test("a file of a newer version", async () => {
    await (await filled()).close();
    const connection = loadDriver().open(file);
    connection.exec("PRAGMA user_version = 99");
    connection.close();
    await refused(
      /was written by a newer version of this program \(schema 99; this version supports up to \d+\)/,
    );
  });

  test("a file that was cut short", async () => {
    await (await filled(5000)).close();
    truncateSync(file, statSync(file).size - 3 * 4096);
    const error: unknown = await openSqlite(file).catch((error: unknown) => error);
    expect(String(error)).toMatch(/is truncated: \d+ bytes, expected \d+|is damaged/);
    expect(String(error)).toContain(file);
  });

  test("damage in the middle is noticed, named, and stops all writing", async () => {
    await (await filled(5000)).close();
    const bytes = readFileSync(file);
    bytes.fill(0xa5, 8 * 4096, bytes.length - 4096);
    writeFileSync(file, bytes);
    const outcome = async (): Promise<string> => {
      const store = await openSqlite(file);
      const engine = new Engine(store);
      const error: unknown = await engine.listWorkUnits("", "s").catch((error: unknown) => error);
      expect(store.failure).not.toBeNull();
      await expect(engine.addWorkUnits("", "s", [{ name: "more" }])).rejects.toSatisfy((error) =>
        isCoordinateError(error, "unavailable"),
      );
      await engine.close();
      return String(error);
    };
    // depending on the damaged pages, opening or reading detects the damage
    expect(await outcome().catch(String)).toMatch(/is damaged/);
  });

  test("no file at all is made by openSqlite, and not by a reader", async () => {
    await expect(openSqliteReader(file)).rejects.toThrow(/does not exist/);
    expect(existsSync(file)).toBe(false);
    await (await openSqlite(file)).close();
    await (await openSqliteReader(file)).close();
  });
});

describe("a reader", () => {
  test("sees what the owner writes, while it writes, and may write nothing", async () => {
    const engine = await filled();
    const reader = await openSqliteReader(file);
    const look = new Engine(reader);
    expect((await look.tally(""))[0]?.counts.available).toBe(100);
    const attempts = await engine.requestAttempts("", { worker: "w", number: 10 });
    expect((await look.tally(""))[0]?.counts).toMatchObject({ available: 90, pending: 10 });
    expect((await look.listWorkerAttempts("", "w", { which: "active" })).rows).toEqual(attempts);
    expect((await look.listWorkUnits("", "s", { statuses: ["pending"] })).rows).toHaveLength(10);
    await expect(look.addWorkUnits("", "s", [{ name: "x" }])).rejects.toSatisfy((error) =>
      isCoordinateError(error, "not_supported"),
    );
    await expect(look.requestAttempts("", { worker: "w" })).rejects.toSatisfy((error) =>
      isCoordinateError(error, "not_supported"),
    );
    await look.close();
    await engine.close();
  });

  test("sees the failures that the owner has grouped, and selects by them", async () => {
    const engine = await filled();
    const attempts = await engine.requestAttempts("", { worker: "w", number: 3 });
    await engine.settleAttempts(
      "",
      attempts.map(({ id }, i) => ({ attempt: id, action: "error", error: `Error: no answer in ${i} ms` })),
    );
    const look = new Engine(await openSqliteReader(file));
    await engine.sweep();
    const [group, ...others] = await look.listFailures("", { workSpec: "s" });
    expect([group?.error, group?.count, others.length]).toEqual(["Error: no answer in … ms", 3, 0]);
    const { rows } = await look.listWorkUnits("", "s", { error: group?.fingerprint ?? "" });
    expect(rows).toHaveLength(3);
    await look.close();
    await engine.close();
  });
});

describe("operations", () => {
  test("a backup is made while work goes on, and is a store", async () => {
    const engine = await filled(20_000);
    const copy = `${file}.copy`;
    const store = storeOf(engine);
    const progress: number[] = [];
    const copied = new AbortController();
    const work = (async () => {
      for (let i = 0; !copied.signal.aborted; i++)
        await engine.addWorkUnits("", "s", [{ name: `while ${i}` }]);
    })();
    await store.backup(copy, ({ done, total }) => progress.push(done / total));
    copied.abort();
    await work;
    expect(progress.at(-1)).toBe(1);
    expect(statSync(copy).mode & 0o777).toBe(0o600);
    expect(existsSync(`${copy}.partial`)).toBe(false);
    await expect(store.backup(copy)).rejects.toSatisfy((error) => isCoordinateError(error, "name_exists"));
    await expect(store.backup(path.join(directory, "no/where"))).rejects.toThrow(/no\/where/);
    await engine.close();
    const restored = await openSqlite(copy);
    expect(await restored.check()).toEqual({ ok: true, problems: [] });
    expect((await restored.tally("", 0))[0]?.counts.available).toBeGreaterThanOrEqual(20_000);
    await restored.close();
  });

  test("check finds wrong counts and lost rows", async () => {
    const engine = await filled();
    expect(await storeOf(engine).check()).toEqual({ ok: true, problems: [] });
    await engine.close();
    const connection = loadDriver().open(file);
    connection.exec("UPDATE tally SET available = 7; DELETE FROM ready WHERE name = 'unit 5'");
    connection.close();
    const store = await openSqlite(file);
    const { ok, problems } = await store.check();
    expect(ok).toBe(false);
    expect(problems.join("\n")).toMatch(/a wrong count of work spec: 1/);
    expect(problems.join("\n")).toMatch(/a waiting unit without an entry, or with two: 6/);
    await store.close();
  });

  test("compaction gives back what deletion has freed", async () => {
    const engine = await filled(20_000);
    const store = storeOf(engine);
    await engine.deleteWorkUnits("", "s", { all: true });
    const before = await store.statistics();
    expect(before.freePages).toBeGreaterThan(100);
    const seen: number[] = [];
    const freed = await store.compact(({ done }) => seen.push(done));
    const after = await store.statistics();
    expect(freed).toBeGreaterThan(100 * before.pageSize);
    expect(seen.at(-1)).toBe(freed);
    expect(after.freePages).toBe(0);
    expect(after.fileBytes).toBeLessThan(before.pages * before.pageSize);
    expect(after.units).toBe(0);
    await engine.close();
  });

  test("ids are not given twice, also when all units are gone and the file was closed", async () => {
    const engine = await filled(10);
    await engine.deleteWorkUnits("", "s", { all: true });
    await engine.close();
    const again = new Engine(await openSqlite(file));
    const [unit] = await again.addWorkUnits("", "s", [{ name: "new" }]);
    expect(unit?.id).toBe(11);
    await again.close();
  });
});
