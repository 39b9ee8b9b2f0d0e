/** Queues, labels and waits with several daemons and after migrations, where PostgreSQL differs from a store of one process. */
import { setTimeout as delay } from "node:timers/promises";
import pg from "pg";
import { afterAll, beforeAll, expect, test } from "vitest";
import { encodeData, Engine, ManualClock, type QueueMessage } from "../../src/core/index.ts";
import { forSchema } from "../../src/postgres/connection.ts";
import { openPostgres, type PostgresStore } from "../../src/postgres/index.ts";
import { migrations, schemaVersion } from "../../src/postgres/schema.ts";
import { openServer, query, type Server } from "./server.ts";
import { checkStanding } from "./standing.ts";

let server: Server;
beforeAll(async () => {
  server = await openServer();
}, 60_000);
afterAll(() => server.stop());

const times = <Value>(count: number, make: (i: number) => Value): Value[] =>
  Array.from({ length: count }, (_, i) => make(i));

/** Two daemons on one database, each with its own connections. */
async function pair(): Promise<{ url: string; stores: PostgresStore[]; engines: [Engine, Engine] }> {
  const url = await server.createDatabase();
  const stores = [
    await openPostgres({ url, poolSize: 3, notifyMs: 10 }),
    await openPostgres({ url, poolSize: 3, notifyMs: 10 }),
  ];
  const clock = await stores[0]!.clock();
  const engines = stores.map((store) => new Engine(store, { clock })) as [Engine, Engine];
  await engines[0].setWorkSpecs("", [{ data: encodeData({ name: "s" }) }]);
  return { url, stores, engines };
}

const closeAll = (engines: readonly Engine[]): Promise<unknown> =>
  Promise.all(engines.map((engine) => engine.close()));

test("two daemons that settle and take at the same time: every message is taken once", async () => {
  const { engines } = await pair();
  const [a, b] = engines;
  const count = Number(process.env.MESSAGES ?? 400);
  await a.addWorkUnits(
    "",
    "s",
    times(count, (i) => ({ name: `u${i}`, queues: ["q"] })),
  );
  const taken: QueueMessage[] = [];
  let settled = 0;
  const settle = async (engine: Engine): Promise<void> => {
    for (;;) {
      const attempts = await engine.requestAttempts("", { worker: "w", number: 7 });
      if (attempts.length === 0) return;
      await engine.settleAttempts(
        "",
        attempts.map(({ id }, i) => ({ attempt: id, action: i % 2 === 0 ? "finish" : "fail" })),
      );
      settled += attempts.length;
    }
  };
  const take = async (engine: Engine, name: string): Promise<void> => {
    for (let i = 0; taken.length < count; i++) {
      const options = { max: 5, waitMs: 200, ...(i % 2 === 0 && { requestId: `${name} ${i}` }) };
      taken.push(...(await engine.takeMessages("", "q", options)));
    }
  };
  await Promise.all([settle(a), settle(b), take(a, "a"), take(a, "a2"), take(b, "b"), take(b, "b2")]);
  expect(settled).toBe(count);
  expect(taken).toHaveLength(count);
  expect(new Set(taken.map(({ seq }) => seq)).size).toBe(count);
  expect(new Set(taken.map(({ workUnit }) => workUnit)).size).toBe(count);
  await closeAll(engines);
}, 60_000);

test("a take that is repeated on another daemon before the first has ended gets the same messages", async () => {
  const { url, stores, engines } = await pair();
  const [a, b] = engines;
  await a.addWorkUnits(
    "",
    "s",
    times(10, (i) => ({ name: `u${i}`, queues: ["q", "other"] })),
  );
  const attempts = await a.requestAttempts("", { worker: "w", number: 10 });
  await a.settleAttempts(
    "",
    attempts.map(({ id }) => ({ attempt: id, action: "finish" })),
  );
  const options = { max: 5, requestId: "r" };
  const client = new pg.Client({ connectionString: url });
  await client.connect();
  await client.query("BEGIN");
  const first = await new Engine(stores[0]!.within(client)).takeMessages("", "q", options);
  expect(first).toHaveLength(5);
  const repeated = b.takeMessages("", "q", options);
  await delay(100);
  await client.query("COMMIT");
  expect(await repeated).toEqual(first);
  expect(await b.takeMessages("", "q", options)).toEqual(first);
  expect(await b.countMessages("", ["q"])).toEqual([5]);
  // the same id in another queue is another request
  expect(await b.takeMessages("", "other", options)).toHaveLength(5);
  await client.end();
  await closeAll(engines);
}, 60_000);

test("who waits on one daemon hears what another does: ends, deletions and messages", async () => {
  const { engines } = await pair();
  const [here, there] = engines;
  await there.addWorkUnits("", "s", [
    { name: "a", queues: ["q"] },
    { name: "b", dependencies: [{ workUnit: "a" }] },
    { name: "c" },
  ]);
  const ended = here.awaitWorkUnits("", "s", ["a", "b", "c"], { waitMs: 50_000 });
  const messages = here.takeMessages("", "q", { waitMs: 50_000 });
  while (here.waiting < 2) await delay(5);
  const [attempt] = await there.requestAttempts("", { worker: "w" });
  await there.settleAttempts("", [{ attempt: attempt!.id, action: "fail" }]);
  await there.deleteWorkUnits("", "s", { names: ["c"] });
  expect((await ended).map((row) => row?.status ?? null)).toEqual(["failed", "failed", null]);
  expect((await messages).map(({ workUnit }) => workUnit)).toEqual(["a"]);
  await closeAll(engines);
}, 60_000);

test("two thousand who wait cost a daemon a few statements, and others none", async () => {
  const { engines, stores } = await pair();
  const [here, there] = engines;
  const count = 2000;
  await there.addWorkUnits(
    "",
    "s",
    times(count + 100, (i) => ({ name: `u${String(i).padStart(5, "0")}` })),
  );
  const attempts = await there.requestAttempts("", { worker: "w", number: count + 100 });
  const [watched, others] = [attempts.slice(0, count), attempts.slice(count)];
  const answers = watched.map(({ workUnit }) =>
    here.awaitWorkUnits("", "s", [workUnit], { waitMs: 120_000 }),
  );
  while (here.waiting < count) await delay(20);
  const before = stores[0]!.counters.statements;
  const settles = stores[1]!.counters.statements;
  // ends of units without waiters: one read covers all waits, instead of one read per wait
  for (const { id } of others) await there.settleAttempts("", [{ attempt: id, action: "finish" }]);
  expect(stores[1]!.counters.statements - settles).toBeLessThanOrEqual(2 * others.length);
  await delay(100);
  expect(stores[0]!.counters.statements - before).toBeLessThanOrEqual(2 * others.length + 20);
  expect(here.waiting).toBe(count);
  for (let from = 0; from < count; from += 500)
    await there.settleAttempts(
      "",
      watched.slice(from, from + 500).map(({ id }) => ({ attempt: id, action: "finish" as const })),
    );
  const rows = (await Promise.all(answers)).flat();
  expect(rows.every((row) => row?.status === "finished")).toBe(true);
  await closeAll(engines);
}, 120_000);

/** Creates a schema of an older version and copies the data of the current schema into its tables. */
async function downgrade(
  url: string,
  from: string,
  to: string,
  version: number,
  withPartitions = false,
): Promise<void> {
  const client = new pg.Client({ connectionString: url });
  await client.connect();
  await client.query(`CREATE SCHEMA ${to}`);
  for (const { statements } of migrations.slice(0, version))
    for (const statement of statements) await client.query(forSchema(statement, to));
  await client.query(
    `CREATE TABLE ${to}.migration (version integer PRIMARY KEY, works_with integer NOT NULL, applied timestamptz NOT NULL DEFAULT now())`,
  );
  const { rows: tables } = await client.query<{ name: string; columns: string }>(
    `SELECT table_name AS name, string_agg(quote_ident(column_name), ', ') AS columns FROM information_schema.columns
     WHERE table_schema = $1 GROUP BY table_name`,
    [to],
  );
  // the columns of notes have changed, and their content is computed again
  for (const { name, columns } of tables.filter((table) => table.name !== "note"))
    await client.query(`INSERT INTO ${to}.${name} (${columns}) SELECT ${columns} FROM ${from}.${name}`);
  const fields = [
    "maxRunningPerPartition",
    "rate",
    "ratePerPartition",
    "order",
    "fair",
    "partitionWeights",
    "limits",
  ];
  if (!withPartitions)
    await client.query(`UPDATE ${to}.spec SET meta = (meta::jsonb - $1::text[])::text`, [fields]);
  // before version 3 the keys of long names contained a hash
  const key =
    "CASE WHEN length(long_name) > 2600 THEN substring(long_name FROM 1 FOR 2568) || sha256(long_name) ELSE long_name END";
  if (version === 2)
    await client.query(
      `UPDATE ${to}.label b SET key = u.key FROM (SELECT id, ${key} AS key FROM ${to}.unit WHERE long_name IS NOT NULL) u WHERE u.id = b.unit`,
    );
  if (version < 3)
    await client.query(
      `UPDATE ${to}.unit SET key = ${key}, long_name = CASE WHEN length(long_name) > 2600 THEN long_name END WHERE long_name IS NOT NULL`,
    );
  await client.query(`DELETE FROM ${to}.migration WHERE version > ${version}`);
  await client.query(`SELECT setval('${to}.unit_block', (SELECT last_value FROM ${from}.unit_block))`);
  await client.query(`DROP SCHEMA ${from} CASCADE`);
  await client.end();
}

test("partitions of a database of schema 4 go on, with what was noted and not folded", async () => {
  const url = await server.createDatabase();
  const clock = new ManualClock(1_000_000);
  const before = new Engine(await openPostgres({ url, schema: "newer", notify: false }), { clock });
  await before.setWorkSpecs("", [{ data: encodeData({ name: "s", max_running_per_partition: 1 }) }]);
  const add = (engine: Engine, ...names: string[]): Promise<unknown> =>
    engine.addWorkUnits(
      "",
      "s",
      names.map((name) => ({ name, partition: name.slice(0, 1) })),
    );
  await add(before, "a1", "a2", "b1", "b2");
  const [a1, b1] = await before.requestAttempts("", { worker: "w", number: 2 });
  await before.settleAttempts("", [{ attempt: b1!.id, action: "finish" }]);
  await add(before, "c1");
  await before.close();
  await downgrade(url, "newer", "coordinate", 4, true);

  const engine = new Engine(await openPostgres({ url, notify: false }), { clock });
  const claimed = async (): Promise<string[]> =>
    (await engine.requestAttempts("", { worker: "w", number: 9 })).map(({ workUnit }) => workUnit).sort();
  expect(await claimed()).toEqual(["b2", "c1"]);
  await engine.settleAttempts("", [{ attempt: a1!.id, action: "finish" }]);
  expect(await claimed()).toEqual(["a2"]);
  await engine.close();
});

test.each([1, 2, 3, 4, 5])(
  "a database of schema %i, with work in it, is brought up to date",
  async (version) => {
    const url = await server.createDatabase();
    const clock = new ManualClock(1_000_000);
    const before = new Engine(await openPostgres({ url, schema: "newer", notify: false }), { clock });
    await before.setWorkSpecs("", [{ data: encodeData({ name: "s" }) }]);
    await before.addWorkUnits(
      "",
      "s",
      times(20, (i) => ({ name: `u${String(i).padStart(2, "0")}`, data: encodeData({ i }) })),
    );
    await before.addWorkUnits("", "s", [{ name: "waits", dependencies: [{ workUnit: "u00" }] }]);
    const head = "z".repeat(2536);
    await before.addWorkUnits(
      "",
      "s",
      ["", "b", "a", "z".repeat(64), "z".repeat(1000), "c".repeat(1000)].map((tail) => ({
        name: head + tail,
      })),
    );
    if (version > 1)
      await before.addWorkUnits("", "s", [
        { name: "u04", data: encodeData({ i: 4 }), queues: ["old"], labels: ["blue"] },
        { name: "u19", data: encodeData({ i: 19 }), labels: ["blue"], delayMs: 1000 },
        { name: head + "c".repeat(1000), labels: ["long"] },
        { name: head + "a", labels: ["long"] },
      ]);
    const attempts = await before.requestAttempts("", { worker: "w", number: 6, lifetimeMs: 3_600_000 });
    await before.settleAttempts("", [
      { attempt: attempts[1]!.id, action: "finish" },
      { attempt: attempts[2]!.id, action: "fail" },
      { attempt: attempts[3]!.id, action: "retry", delayMs: 60_000 },
    ]);
    const seen = (await before.listWorkUnits("", "s")).rows;
    const tally = await before.tally("");
    await before.close();
    await downgrade(url, "newer", "coordinate", version);

    const store = await openPostgres({ url, notify: false });
    expect(await query(url, "SELECT max(version)::int AS n FROM coordinate.migration")).toEqual([
      { n: schemaVersion },
    ]);
    const engine = new Engine(store, { clock });
    expect((await engine.listWorkUnits("", "s")).rows).toEqual(seen);
    expect(await engine.tally("")).toEqual(tally);
    expect(await checkStanding(url)).toEqual([]);
    await engine.addWorkUnits("", "s", [
      { name: "u00", queues: ["q"], labels: ["red"] },
      { name: "fresh", queues: ["q"], labels: ["red"] },
    ]);
    await engine.settleAttempts("", [{ attempt: attempts[0]!.id, action: "finish" }]);
    expect((await engine.takeMessages("", "q")).map(({ workUnit }) => workUnit)).toEqual(["u00"]);
    await engine.addWorkUnits("", "s", [{ name: `${head}a1` }, { name: `${head}d` }]);
    const long = (await engine.listWorkUnits("", "s", { prefix: head })).rows.map(({ name }) =>
      name.slice(2536),
    );
    const tails = ["", "a", "a1", "b", "c".repeat(1000), "d", "z".repeat(64), "z".repeat(1000)];
    expect(long).toEqual(tails);
    const red = (await engine.listWorkUnits("", "s", { label: "red" })).rows;
    expect(red.map(({ name }) => name)).toEqual(["fresh", "u00"]);
    expect((await engine.getWorkUnits("", "s", ["waits"]))[0]?.status).toBe("available");
    if (version > 1) {
      await engine.settleAttempts("", [{ attempt: attempts[4]!.id, action: "finish" }]);
      expect((await engine.takeMessages("", "old")).map(({ workUnit }) => workUnit)).toEqual(["u04"]);
      await engine.deleteWorkUnits("", "s", { names: ["u04"] });
      const labelled = (await engine.listWorkUnits("", "s", { label: "long" })).rows;
      expect(labelled.map(({ name }) => name.slice(2536))).toEqual(["a", "c".repeat(1000)]);
      const blue = (await engine.listWorkUnits("", "s", { label: "blue" })).rows;
      expect(blue.map(({ name }) => name)).toEqual(["u19"]);
    }
    const code = await query(
      url,
      `SELECT proname AS name FROM pg_proc p JOIN pg_namespace n ON n.oid = p.pronamespace WHERE n.nspname = 'coordinate'
     UNION ALL SELECT tgname FROM pg_trigger t JOIN pg_class c ON c.oid = t.tgrelid WHERE NOT t.tgisinternal`,
    );
    expect(code).toEqual([]);
    // attempts from before the migration still run: a limit counts them
    const claimed = async (number: number): Promise<string[]> =>
      (await engine.requestAttempts("", { worker: "w", number })).map(({ workUnit }) => workUnit);
    const running = version > 1 ? 1 : 2;
    await engine.setWorkSpecs("", [
      { data: encodeData({ name: "s", max_running_per_partition: running + 1 }) },
    ]);
    await engine.addWorkUnits("", "s", [{ name: "other", partition: "a" }]);
    expect(await claimed(5)).toEqual(["other", "fresh"]);
    await engine.settleAttempts("", [{ attempt: attempts[5]!.id, action: "finish" }]);
    expect(await claimed(5)).toEqual(["u06"]);
    expect(await checkStanding(url)).toEqual([]);
    await engine.close();
  },
  60_000,
);

test("the longest label of the longest name is found", async () => {
  const { engines } = await pair();
  const [engine] = engines;
  // bytes that do not compress: otherwise the index entry would be small
  const noise = (length: number, seed: number): string =>
    times(length, (i) => String.fromCharCode(33 + ((i * 7919 + seed * 104729 + ((i * i) % 89)) % 90))).join(
      "",
    );
  const labels = times(8, (i) => noise(256, i));
  const names = [noise(2600, 1), noise(4096, 2), "short"];
  await engine.addWorkUnits(
    "",
    "s",
    names.map((name) => ({ name, labels })),
  );
  await engine.addWorkUnits("", "s", [{ name: "other", labels: [`${labels[0]!.slice(0, 255)}!`] }]);
  for (const label of labels)
    expect((await engine.listWorkUnits("", "s", { label })).rows.map(({ name }) => name).sort()).toEqual(
      [...names].sort(),
    );
  expect(await engine.deleteWorkUnits("", "s", { label: labels[3]! })).toBe(3);
  await closeAll(engines);
}, 60_000);

test("what fails and finishes in one settle is told twice", async () => {
  const { engines } = await pair();
  const [engine] = engines;
  await engine.addWorkUnits("", "s", [{ name: "u", queues: ["q"] }]);
  const [attempt] = await engine.requestAttempts("", { worker: "w" });
  await engine.settleAttempts("", [
    { attempt: attempt!.id, action: "fail", data: encodeData({ n: 1 }) },
    { attempt: attempt!.id, action: "finish", data: encodeData({ n: 2 }) },
  ]);
  const told = await engine.takeMessages("", "q");
  expect(told.map(({ status, data }) => [status, data])).toEqual([
    ["failed", '{"n":1}'],
    ["finished", '{"n":2}'],
  ]);
  await closeAll(engines);
}, 60_000);
