/** An inconsistent file: according to an index a unit has used all its retries, according to its row it has not. */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { pino } from "pino";
import { afterEach, expect, test } from "vitest";
import { Engine, encodeData, ManualClock, stuckText } from "../../src/core/index.ts";
import { configOf, startDaemon } from "../../src/daemon/index.ts";
import { loadDriver } from "../../src/sqlite/driver.ts";
import { openSqlite } from "../../src/sqlite/index.ts";

const directories: string[] = [];
afterEach(() => {
  for (const directory of directories.splice(0)) rmSync(directory, { recursive: true, force: true });
});

async function contradictory(): Promise<string> {
  const directory = mkdtempSync(path.join(tmpdir(), "coordinate-stuck-"));
  directories.push(directory);
  const file = path.join(directory, "units.sqlite");
  const engine = new Engine(await openSqlite(file), { clock: new ManualClock(1_000_000) });
  await engine.setWorkSpecs("n", [{ data: encodeData({ name: "s", max_retries: 1 }) }]);
  await engine.addWorkUnits("n", "s", [{ name: "a" }, { name: "b" }]);
  await engine.close();
  const connection = loadDriver().open(file);
  connection.exec("UPDATE ready SET tries = 5 WHERE name = 'a'");
  connection.close();
  return file;
}

test("housekeeping passes over what the rules leave alone, and says so", async () => {
  const engine = new Engine(await openSqlite(await contradictory()), { clock: new ManualClock(1_000_000) });
  expect(await engine.sweep()).toMatchObject({ stuck: 1, exhausted: 0, more: false });
  const attempts = await engine.requestAttempts("n", { worker: "w", number: 2 });
  expect(attempts.map(({ workUnit }) => workUnit)).toEqual(["a", "b"]);
  expect(await engine.sweep()).toMatchObject({ stuck: 0, more: false });
  await engine.close();
});

test("the daemon logs it once, and goes on", async () => {
  const file = await contradictory();
  const logged: string[] = [];
  let told: () => void = () => undefined;
  const seen = new Promise<void>((resolve) => (told = resolve));
  const write = (line: string): void => {
    logged.push(line);
    told();
  };
  const log = pino({ level: "error" }, { write });
  const daemon = await startDaemon(
    configOf({
      backend: `sqlite:${file}`,
      dataDir: path.dirname(file),
      http: ["127.0.0.1:0"],
      sweepMs: 10,
    }),
    log,
  );
  await seen;
  // later sweeps log nothing; `stop` waits until the current sweep has ended
  await daemon.stop();
  expect(logged.filter((line) => line.includes(stuckText))).toHaveLength(1);
});
