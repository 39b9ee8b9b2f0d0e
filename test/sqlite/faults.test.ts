/**
 * Disk faults: a full disk, failing writes, failing syncs, and a process that is killed at each of its writes. Nothing that was
 * acknowledged is lost, the message names file and cause, and the store continues when the disk has space again.
 *
 * A small file system in memory simulates a full disk, and strace makes system calls fail. Both need Linux, and the first needs
 * root; without them the tests are skipped with a message.
 */
import { execFileSync, spawnSync } from "node:child_process";
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { encodeData, Engine, isCoordinateError } from "../../src/core/index.ts";
import { openSqlite } from "../../src/sqlite/index.ts";
import { build } from "./crash/build.ts";
import { check } from "./crash/check.ts";
import { Driver, StoreProcess } from "./crash/driver.ts";
import { whySkipped } from "../skipped-reporter.ts";

let built: string;
const directory = mkdtempSync(path.join(tmpdir(), "coordinate-faults-"));
const small = path.join(directory, "small");
mkdirSync(small);

/** Why tests with a small disk cannot run here; empty if they can. */
const noSmallDisk = ((): string => {
  const { status, stderr } = spawnSync("mount", ["-t", "tmpfs", "-o", "size=6m", "tmpfs", small], {
    encoding: "utf8",
  });
  return status === 0 ? "" : `no small file system can be mounted: ${stderr || "no mount"}`.trim();
})();
const noTracer = ((): string => {
  const { status } = spawnSync("strace", [
    "-f",
    "-e",
    "trace=fsync",
    "-e",
    "inject=fsync:error=EIO:when=60000",
    "true",
  ]);
  return status === 0 ? "" : "strace, which makes system calls fail, does not run here";
})();
if (noSmallDisk !== "") console.warn(`left out: disk full: ${noSmallDisk}`);
if (noTracer !== "") console.warn(`left out: failing system calls: ${noTracer}`);

beforeAll(() => {
  built = build();
});

afterAll(() => {
  // lazy unmount: the packaged driver keeps the file open until its statements are garbage-collected
  if (noSmallDisk === "") execFileSync("umount", ["--lazy", small]);
  rmSync(built, { recursive: true, force: true });
  rmSync(directory, { recursive: true, force: true });
});

// mounting a small disk needs root
describe.skipIf(noSmallDisk !== "")(`a full disk${whySkipped(noSmallDisk)}`, () => {
  test("refuses with no_space, loses nothing, and goes on when there is space again", async () => {
    const file = path.join(small, "full.sqlite");
    const ballast = path.join(small, "ballast");
    const store = await openSqlite(file);
    const engine = new Engine(store);
    await engine.setWorkSpecs("", [{ data: encodeData({ name: "s" }) }]);
    const data = encodeData({ text: "x".repeat(2000) });
    let next = 0;
    const acknowledged = new Set<string>();
    const finished = new Set<string>();
    for (let round = 0; round < 10; round++) {
      // leave less space in each round, so that the file and its log run out of space at different moments
      writeFileSync(ballast, Buffer.alloc(4_000_000 + round * 60_000 - next * 200));
      let refused: unknown;
      for (let i = 0; i < 5000 && refused === undefined; i++) {
        const units = Array.from({ length: 5 }, () => ({ name: `unit ${next++}`, data }));
        await engine.addWorkUnits("", "s", units).then(
          (rows) => rows.forEach(({ name }) => acknowledged.add(name)),
          (error: unknown) => (refused = error),
        );
      }
      expect(refused).toSatisfy((error) => isCoordinateError(error, "no_space"));
      expect(String(refused)).toContain(file);
      expect(String(refused)).toContain("the disk is full");
      // stored units can still be read
      expect((await engine.tally(""))[0]?.counts).toMatchObject({
        available: acknowledged.size - finished.size,
        finished: finished.size,
      });
      expect(store.failure).toBeNull();
      rmSync(ballast);
      // there is space again: the same store continues
      const attempts = await engine.requestAttempts("", { worker: "w", number: 20 });
      expect(attempts.length).toBe(20);
      await engine.settleAttempts(
        "",
        attempts.map(({ id }) => ({ attempt: id, action: "finish" })),
      );
      for (const { workUnit } of attempts) finished.add(workUnit);
      await engine.deleteWorkUnits("", "s", { statuses: ["finished"] });
      for (const name of finished) acknowledged.delete(name);
      finished.clear();
      const { rows } = await engine.listWorkUnits("", "s", { limit: 100_000 });
      expect(new Set(rows.map(({ name }) => name))).toEqual(acknowledged);
      // delete all units, so that every round fits
      await engine.deleteWorkUnits("", "s", { all: true });
      acknowledged.clear();
      await store.compact();
      next = 0;
    }
    await engine.close();
    const again = await openSqlite(file);
    expect(await again.check()).toEqual({ ok: true, problems: [] });
    await again.close();
    for (const end of ["", "-wal", "-shm", "-owner"]) rmSync(file + end, { force: true });
  }, 60_000);

  test("loses nothing when it becomes full under load and the process is then killed", async () => {
    const file = path.join(small, "killed.sqlite");
    const ledger = path.join(directory, "full.ledger");
    const driver = new Driver(ledger, 5);
    const ballast = path.join(small, "ballast");
    for (let round = 0; round < 5; round++) {
      const store = new StoreProcess({ built, file });
      const { ready, error } = await store.opened;
      expect(error).toBeUndefined();
      expect(ready).toBe(true);
      await driver.start(store);
      let steps = 40;
      await driver.load(store, 4, () => steps-- < 0);
      // fill the rest of the disk
      spawnSync("dd", ["if=/dev/zero", `of=${ballast}`, "bs=4096"]);
      await driver.load(store, 4, () => false);
      expect(driver.refusals.length).toBeGreaterThan(0);
      expect(new Set(driver.refusals.map(({ code }) => code))).toEqual(new Set(["no_space"]));
      store.kill();
      await store.exited;
      rmSync(ballast);
      expect(check(file, ledger)).toEqual([]);
    }
  }, 60_000);
});

// needs strace and the permission to trace; CI installs it
describe.skipIf(noTracer !== "")(`a failing disk${whySkipped(noTracer)}`, () => {
  /** Runs a load against a store whose system calls fail from some moment on. Returns the driver with the refusals. */
  async function failing(name: string, inject: string, seed: number): Promise<Driver> {
    const file = path.join(directory, `${name}-${seed}.sqlite`);
    const ledger = `${file}.ledger`;
    const driver = new Driver(ledger, seed);
    const first = new StoreProcess({ built, file });
    await first.opened;
    await driver.start(first);
    let steps = 30;
    await driver.load(first, 4, () => steps-- < 0);
    first.kill();
    await first.exited;
    const traced = new StoreProcess({
      built,
      file,
      under: ["strace", "-f", "-qq", "-o", "/dev/null", "-e", "trace=fsync,fdatasync,pwrite64", "-e", inject],
    });
    const { ready } = await traced.opened;
    if (ready) await driver.load(traced, 4, () => false);
    // later requests are refused too, with the reason
    const after = await traced.ask("addWorkUnits", "", "first", [{ name: "late" }]);
    if (ready && after !== null) {
      expect(after.error?.code).toBe("unavailable");
      expect(after.error?.message).toContain(file);
    }
    traced.kill();
    await traced.exited;
    expect(check(file, ledger)).toEqual([]);
    // when the disk works again, the file opens and nothing is lost
    const last = new StoreProcess({ built, file });
    expect(await last.opened).toEqual({ ready: true });
    last.kill();
    await last.exited;
    expect(check(file, ledger)).toEqual([]);
    return driver;
  }

  test("that cannot sync: the outcome is not known, and nothing is written any more", async () => {
    for (const [seed, when] of [8, 11, 14].entries()) {
      const { refusals } = await failing("sync", `inject=fsync,fdatasync:error=EIO:when=${when}+`, seed);
      const codes = new Set(refusals.map(({ code }) => code));
      codes.delete("unavailable");
      expect([...codes]).toEqual(["unknown_outcome"]);
      expect(refusals[0]?.message).toMatch(/the disk reports an error/);
    }
  }, 60_000);

  test("that cannot write: the store says so and stops", async () => {
    // fail only after the file is open: opening first checkpoints the log that the previous load left
    for (const [seed, when] of [150, 200, 250].entries()) {
      const { refusals } = await failing("write", `inject=pwrite64:error=EIO:when=${when}+`, seed);
      expect(refusals.length).toBeGreaterThan(0);
      expect(refusals[0]?.message).toMatch(/the disk reports an error/);
    }
  }, 60_000);

  const points = Number(process.env.CRASH_POINTS ?? 24);
  test(
    "a process that dies at any of its writes and syncs leaves a whole file",
    async () => {
      for (let point = 0; point < points; point++) {
        const file = path.join(directory, `point-${point}.sqlite`);
        const ledger = `${file}.ledger`;
        const driver = new Driver(ledger, point);
        const call = point % 4 === 3 ? "fsync,fdatasync" : "pwrite64";
        const when = point % 4 === 3 ? 3 + point : 10 + point * 7;
        const traced = new StoreProcess({
          built,
          file,
          under: [
            "strace",
            "-f",
            "-qq",
            "-o",
            "/dev/null",
            "-e",
            `trace=${call}`,
            "-e",
            `inject=${call}:signal=KILL:when=${when}`,
          ],
        });
        const { ready } = await traced.opened;
        if (ready) {
          await driver.start(traced);
          let steps = 400;
          await driver.load(traced, 4, () => steps-- < 0);
        }
        traced.kill();
        await traced.exited;
        const last = new StoreProcess({ built, file });
        expect(await last.opened, `point ${point}`).toEqual({ ready: true });
        last.kill();
        await last.exited;
        expect(check(file, ledger), `point ${point}`).toEqual([]);
      }
    },
    points * 5000,
  );
});
