/** Opening a file of an older version migrates it, with the work in it. */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { afterAll, expect, test } from "vitest";
import { encodeData, Engine, ManualClock } from "../../src/core/index.ts";
import { loadDriver } from "../../src/sqlite/driver.ts";
import { openSqlite } from "../../src/sqlite/index.ts";
import { applicationId, migrations, schemaVersion } from "../../src/sqlite/schema.ts";

const directory = mkdtempSync(path.join(tmpdir(), "coordinate-migration-"));
afterAll(() => rmSync(directory, { recursive: true, force: true }));

/** Creates a file of an older schema version and copies the data of a current file into its tables. */
function downgrade(from: string, to: string, version: number): void {
  const connection = loadDriver().open(to);
  for (const statements of migrations.slice(0, version)) connection.exec(statements);
  connection.exec(`PRAGMA application_id = ${applicationId}; PRAGMA user_version = ${version}`);
  connection.exec(`ATTACH '${from}' AS new; DELETE FROM counter`);
  const tables = connection.prepare("SELECT name FROM main.sqlite_schema WHERE type = 'table'").all();
  for (const [table] of tables) {
    const columns = connection
      .prepare(`SELECT name FROM pragma_table_info('${String(table)}')`)
      .all()
      .map(([name]) => `"${String(name)}"`)
      .join(", ");
    connection.exec(
      `INSERT INTO main.${String(table)} (${columns}) SELECT ${columns} FROM new.${String(table)}`,
    );
  }
  const fields = [
    "maxRunningPerPartition",
    "rate",
    "ratePerPartition",
    "order",
    "fair",
    "partitionWeights",
    "limits",
  ];
  connection.exec(
    `UPDATE spec SET meta = json_remove(meta, ${fields.map((field) => `'$.${field}'`).join(", ")})`,
  );
  connection.close();
}

test.each([1, 2, 3, 4])("work of a file of schema %i goes on, and may have what is new", async (version) => {
  const clock = new ManualClock(1_000_000);
  const newer = path.join(directory, `new-${version}.sqlite`);
  const older = path.join(directory, `old-${version}.sqlite`);
  const before = new Engine(await openSqlite(newer), { clock });
  await before.setWorkSpecs("", [{ data: encodeData({ name: "s" }) }]);
  const names = Array.from({ length: 20 }, (_, i) => `u${String(i).padStart(2, "0")}`);
  await before.addWorkUnits(
    "",
    "s",
    names.map((name) => ({ name, data: encodeData({ name }) })),
  );
  await before.addWorkUnits("", "s", [{ name: "waits", dependencies: [{ workUnit: "u00" }] }]);
  const attempts = await before.requestAttempts("", { worker: "w", number: 6, lifetimeMs: 3_600_000 });
  await before.settleAttempts("", [
    { attempt: attempts[1]!.id, action: "finish" },
    { attempt: attempts[2]!.id, action: "fail" },
    { attempt: attempts[3]!.id, action: "retry", delayMs: 60_000 },
  ]);
  const seen = (await before.listWorkUnits("", "s")).rows;
  const tally = await before.tally("");
  await before.close();
  downgrade(newer, older, version);

  const store = await openSqlite(older);
  expect((await store.statistics()).schemaVersion).toBe(schemaVersion);
  const engine = new Engine(store, { clock });
  expect((await engine.listWorkUnits("", "s")).rows).toEqual(seen);
  expect(await engine.tally("")).toEqual(tally);
  // a running unit gets a queue, and is finished by an attempt from before the migration
  await engine.addWorkUnits("", "s", [
    { name: "u00", queues: ["q"], labels: ["red"] },
    { name: "fresh", queues: ["q"], labels: ["red"] },
  ]);
  expect(
    (await engine.settleAttempts("", [{ attempt: attempts[0]!.id, action: "finish" }]))[0]?.error,
  ).toBeNull();
  expect((await engine.takeMessages("", "q")).map(({ workUnit }) => workUnit)).toEqual(["u00"]);
  expect((await engine.listWorkUnits("", "s", { label: "red" })).rows.map(({ name }) => name)).toEqual([
    "fresh",
    "u00",
  ]);
  expect((await engine.getWorkUnits("", "s", ["waits"]))[0]?.status).toBe("available");
  expect(await engine.waitingSince("")).toEqual([
    { namespace: "", workSpec: "s", since: 1_000_000, exact: true },
  ]);
  // two attempts from before the migration still run: a limit counts them
  const claimed = async (number: number): Promise<string[]> =>
    (await engine.requestAttempts("", { worker: "w", number })).map(({ workUnit }) => workUnit);
  await engine.setWorkSpecs("", [{ data: encodeData({ name: "s", max_running_per_partition: 3 }) }]);
  await engine.addWorkUnits("", "s", [{ name: "other", partition: "a" }]);
  expect(await claimed(5)).toEqual(["other", "fresh"]);
  await engine.settleAttempts("", [{ attempt: attempts[4]!.id, action: "finish" }]);
  expect(await claimed(5)).toEqual(["u06"]);
  expect(await store.check()).toEqual({ ok: true, problems: [] });
  await engine.close();
});

test("what waited by partition in a file of schema 4 stands in one order", async () => {
  const clock = new ManualClock(1_000_000);
  const newer = path.join(directory, "new-lanes.sqlite");
  const older = path.join(directory, "old-lanes.sqlite");
  const before = new Engine(await openSqlite(newer), { clock });
  await before.setWorkSpecs("", [
    { data: encodeData({ name: "s", max_running_per_partition: 1 }) },
    { data: encodeData({ name: "plain" }) },
  ]);
  await before.addWorkUnits("", "plain", [{ name: "alone" }]);
  await before.addWorkUnits(
    "",
    "s",
    ["a1", "a2", "b1", "b2"].map((name) => ({ name, partition: name.slice(0, 1) })),
  );
  const [tried] = await before.requestAttempts("", { worker: "w", workSpecs: ["s"] });
  await before.settleAttempts("", [{ attempt: tried!.id, action: "retry" }]);
  await before.close();
  downgrade(newer, older, 4);
  // as in version 4: the units are in both tables
  const connection = loadDriver().open(older);
  connection.exec(`
    ATTACH '${newer}' AS new;
    INSERT INTO ready SELECT spec, place, name, unit, tries FROM new.ready_lane;
    UPDATE spec SET meta = (SELECT n.meta FROM new.spec AS n WHERE n.id = spec.id)`);
  connection.close();

  const store = await openSqlite(older);
  expect(await store.check()).toEqual({ ok: true, problems: [] });
  const engine = new Engine(store, { clock });
  const names = (await engine.listWorkUnits("", "s", { statuses: ["available"] })).rows.map(
    ({ name }) => name,
  );
  expect(names).toEqual(["a1", "a2", "b1", "b2"]);
  // the sweep finds the unit that has used its retries, without a claim
  await engine.setWorkSpecs("", [
    { data: encodeData({ name: "s", max_running_per_partition: 1, max_retries: 1 }) },
  ]);
  expect((await engine.sweep()).exhausted).toBe(1);
  const claimed = await engine.requestAttempts("", { worker: "w", number: 9, workSpecs: ["s"] });
  expect(claimed.map(({ workUnit }) => workUnit).sort()).toEqual(["a2", "b1"]);
  expect(await store.check()).toEqual({ ok: true, problems: [] });
  // the units move back when the work spec no longer has rules for partitions
  await engine.setWorkSpecs("", [{ data: encodeData({ name: "s" }) }]);
  expect(await store.check()).toEqual({ ok: true, problems: [] });
  const rest = await engine.requestAttempts("", { worker: "w", number: 9, workSpecs: ["s"] });
  expect(rest.map(({ workUnit }) => workUnit)).toEqual(["b2"]);
  await engine.close();
});

test("leases, messages and what was taken outlive the process", async () => {
  const file = path.join(directory, "reopened.sqlite");
  const engine = new Engine(await openSqlite(file));
  await engine.setWorkSpecs("", [{ data: encodeData({ name: "s" }) }]);
  await engine.addWorkUnits("", "s", [{ name: "u", queues: ["q"] }]);
  const [attempt] = await engine.requestAttempts("", { worker: "w" });
  await engine.close();
  // the lease is read from the file, and with it the queue for the message about the end
  const again = new Engine(await openSqlite(file));
  await again.settleAttempts("", [{ attempt: attempt!.id, action: "finish" }]);
  await again.close();
  const once = new Engine(await openSqlite(file));
  const taken = await once.takeMessages("", "q", { requestId: "r" });
  expect(taken).toHaveLength(1);
  await once.close();
  const last = new Engine(await openSqlite(file));
  expect(await last.takeMessages("", "q", { requestId: "r" })).toEqual(taken);
  expect(await last.takeMessages("", "q")).toEqual([]);
  await last.close();
});
