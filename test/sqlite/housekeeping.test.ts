/** What housekeeping leaves in the file. */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { afterAll, expect, test } from "vitest";
import { encodeData, Engine, ManualClock } from "../../src/core/index.ts";
import { loadDriver } from "../../src/sqlite/driver.ts";
import { openSqlite } from "../../src/sqlite/index.ts";

const directory = mkdtempSync(path.join(tmpdir(), "coordinate-housekeeping-"));
afterAll(() => rmSync(directory, { recursive: true, force: true }));

async function sweepAll(engine: Engine): Promise<void> {
  for (let more = true; more;) ({ more } = await engine.sweep());
}

test("retention that is turned off and on again while housekeeping is at it leaves out no units", async () => {
  const clock = new ManualClock(1_000_000);
  const engine = new Engine(await openSqlite(":memory:"), { clock });
  const set = (keys: object): Promise<unknown> =>
    engine.setWorkSpecs("", [{ data: encodeData({ name: "s", ...keys }) }]);
  await set({});
  const units = Array.from({ length: 4500 }, (_, i) => ({ name: String(i) }));
  await engine.addWorkUnits("", "s", units);
  const attempts = await engine.requestAttempts("", { worker: "w", number: units.length });
  await engine.settleAttempts(
    "",
    attempts.map(({ id }) => ({ attempt: id, action: "finish" })),
  );
  const retention = { finished: { max_age: 60 } };
  await set({ retention });
  await engine.sweep();
  await set({});
  await engine.sweep();
  await set({ retention });
  await sweepAll(engine);
  clock.advance(61_000);
  await sweepAll(engine);
  expect((await engine.tally(""))[0]?.counts.finished).toBe(0);
  await engine.close();
});

test("the log of a busy worker has no claims of deleted units, though one of its oldest units is still there", async () => {
  const file = path.join(directory, "log.sqlite");
  const engine = new Engine(await openSqlite(file, { durability: "off" }), {
    clock: new ManualClock(1_000_000),
  });
  await engine.setWorkSpecs("", [
    { data: encodeData({ name: "s", retention: { finished: { max_count: 0 } } }) },
  ]);
  const run = async (name: string, action: "finish" | "fail"): Promise<void> => {
    await engine.addWorkUnits("", "s", [{ name }]);
    const [attempt] = await engine.requestAttempts("", { worker: "w" });
    await engine.settleAttempts("", [{ attempt: attempt!.id, action }]);
  };
  const rows = (): number => {
    const connection = loadDriver().open(file, { readOnly: true });
    const [count] = connection.once("SELECT count(*) FROM log") ?? [];
    connection.close();
    return Number(count);
  };
  await run("stays", "fail");
  for (let i = 0; i < 300; i++) await run(String(i), "finish");
  expect(rows()).toBe(301);
  await sweepAll(engine);
  expect(rows()).toBe(1);
  const page = await engine.listWorkerAttempts("", "w", { which: "all" });
  expect(page.rows.map(({ workUnit }) => workUnit)).toEqual(["stays"]);
  await engine.close();
});
