/**
 * The store process is killed repeatedly at random moments, while several clients send many requests at once. After each kill, a
 * checker that shares no code with the store compares the file with the ledger of responses.
 *
 * 80 times here; `npm run test:crash` does 2,000.
 */
import { copyFileSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { afterAll, beforeAll, expect, test } from "vitest";
import { seededRandom } from "../../src/core/index.ts";
import { build } from "./crash/build.ts";
import { check } from "./crash/check.ts";
import { Driver, StoreProcess } from "./crash/driver.ts";
import { loadDriver } from "../../src/sqlite/driver.ts";

const kills = Number(process.env.CRASH_KILLS ?? 80);
const killsPerFile = 40;
let built: string;
let directory: string;

beforeAll(() => {
  built = build();
  directory = mkdtempSync(path.join(tmpdir(), "coordinate-crash-"));
});

afterAll(() => {
  rmSync(built, { recursive: true, force: true });
  rmSync(directory, { recursive: true, force: true });
});

test(
  `nothing that was acknowledged is lost or half done in ${kills} kills`,
  async () => {
    const seed = Number(process.env.CRASH_SEED ?? Date.now() % 1_000_000);
    const random = seededRandom(seed);
    const total = { add: 0, claim: 0, settle: 0, unknown: 0 };
    for (let kill = 0; kill < kills;) {
      const file = path.join(directory, `store-${kill}.sqlite`);
      const ledger = `${file}.ledger`;
      const driver = new Driver(ledger, seed + kill);
      for (let i = 0; i < killsPerFile && kill < kills; i++, kill++) {
        const store = new StoreProcess({ built, file });
        // sometimes the process is killed while it opens the file
        const early = random() < 0.1;
        if (early) void sleep(random() * 150).then(() => store.kill());
        const { ready, error } = await store.opened;
        if (!early) expect(error, `seed ${seed}, kill ${kill}`).toBeUndefined();
        if (ready) {
          await driver.start(store);
          // kill after a number of steps, not after a time, so that the kill interrupts work on a slow machine too
          let left = Math.floor(random() * 60);
          const last = random() * 6;
          await driver.load(store, 8, () => {
            if (left-- === 0) void sleep(last).then(() => store.kill());
            return false;
          });
        }
        await store.exited;
        const wrong = check(file, ledger);
        if (wrong.length > 0)
          throw new Error(`seed ${seed}, kill ${kill}, ${file}:\n${wrong.slice(0, 20).join("\n")}`);
      }
      expect(driver.refusals).toEqual([]);
      for (const key of ["add", "claim", "settle", "unknown"] as const) total[key] += driver.done[key];
    }
    console.log(`${kills} kills, seed ${seed}: ${JSON.stringify(total)}`);
    // the test is only meaningful if many requests were acknowledged and many were interrupted
    expect(total.settle).toBeGreaterThan(kills);
    expect(total.unknown).toBeGreaterThan(kills);
  },
  kills * 5000,
);

test("the checker finds what is planted", async () => {
  const file = path.join(directory, "planted.sqlite");
  const ledger = `${file}.ledger`;
  const driver = new Driver(ledger, 1);
  const store = new StoreProcess({ built, file });
  await store.opened;
  await driver.start(store);
  let left = 300;
  await driver.load(store, 4, () => left-- < 0);
  store.kill();
  await store.exited;
  expect(check(file, ledger)).toEqual([]);
  const plants: [sql: string, found: RegExp][] = [
    ["DELETE FROM unit WHERE id = (SELECT unit FROM ready LIMIT 1)", /acknowledged unit .* is lost/],
    ["DELETE FROM unit WHERE origin_unit IS NOT NULL AND id % 2 = 0", /finished without its output/],
    ["UPDATE unit SET state = 0 WHERE state = 2 AND spec = 1", /without its finish|is not/],
    ["DELETE FROM lease", /has no lease/],
    ["UPDATE tally SET available = available + 1", /counts/],
    ["UPDATE lease SET number = number + 1", /has attempts/],
    ["UPDATE unit SET origin_number = 7 WHERE origin_unit IS NOT NULL", /another origin/],
    [
      "INSERT INTO ready SELECT spec, 99, name, id, 0 FROM unit WHERE state = 2 LIMIT 1",
      /stands in 1 places/,
    ],
  ];
  for (const [sql, found] of plants) {
    const copy = path.join(directory, "planted-copy.sqlite");
    for (const end of ["", "-wal"]) copyFileSync(file + end, copy + end);
    const connection = loadDriver().open(copy);
    connection.exec(sql);
    expect(check(copy, ledger).join("\n"), sql).toMatch(found);
    connection.close();
    rmSync(`${copy}-shm`, { force: true });
  }
});
