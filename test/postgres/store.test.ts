/** Features that only this store has: transactions of the caller, wake-ups, the server's clock, migrations, several schemas. */
import { setTimeout as delay } from "node:timers/promises";
import pg from "pg";
import { afterAll, beforeAll, expect, test } from "vitest";
import { encodeData, Engine, ManualClock } from "../../src/core/index.ts";
import { openPostgres, schemaVersion, type PostgresOptions } from "../../src/postgres/index.ts";
import { lockSliceMs } from "../../src/postgres/connection.ts";
import { Notifier, type ListeningClient } from "../../src/postgres/notify.ts";
import { openServer, query, type Server } from "./server.ts";

let server: Server;
beforeAll(async () => {
  server = await openServer();
}, 60_000);
afterAll(() => server.stop());

async function open(options: PostgresOptions = {}) {
  const url = options.url ?? (await server.createDatabase());
  const store = await openPostgres({ ...options, url });
  const engine = new Engine(store, { clock: await store.clock() });
  await engine.setWorkSpecs("", [{ data: encodeData({ name: "s" }) }]);
  return { url, store, engine };
}

test("units added on the caller's connection are there when the caller commits, and not when it rolls back", async () => {
  const { url, store, engine } = await open();
  const client = new pg.Client({ connectionString: url });
  await client.connect();
  await client.query("CREATE TABLE orders (id int)");
  const within = new Engine(store.within(client));
  for (const end of ["ROLLBACK", "COMMIT"]) {
    await client.query("BEGIN");
    await client.query("INSERT INTO orders VALUES (1)");
    await within.addWorkUnits("", "s", [{ name: end }]);
    await expect(within.addWorkUnits("", "missing", [{ name: "x" }])).rejects.toMatchObject({
      code: "no_such_work_spec",
    });
    expect(await engine.getWorkUnits("", "s", [end])).toEqual([null]);
    await client.query(end);
  }
  expect((await engine.listWorkUnits("", "s")).rows.map(({ name }) => name)).toEqual(["COMMIT"]);
  expect(await query(url, "SELECT count(*)::int AS n FROM orders")).toEqual([{ n: 1 }]);
  await within.close();
  await client.end();
  await engine.close();
});

test("calls on one client at the same time take turns: one that is refused undoes nothing of the others", async () => {
  const { url, store, engine } = await open();
  await engine.addWorkUnits("", "s", [{ name: "there" }]);
  const client = new pg.Client({ connectionString: url });
  await client.connect();
  await client.query("BEGIN");
  const add = (name: string) =>
    new Engine(store.within(client)).addWorkUnits("", "s", [{ name, onConflict: "refuse" }]);
  const answers = await Promise.allSettled(["a", "there", "b", "there", "c"].map(add));
  expect(answers.map(({ status }) => status)).toEqual([
    "fulfilled",
    "rejected",
    "fulfilled",
    "rejected",
    "fulfilled",
  ]);
  await client.query("COMMIT");
  const { rows } = await engine.listWorkUnits("", "s");
  expect(rows.map(({ name }) => name)).toEqual(["a", "b", "c", "there"]);
  await client.end();
  await engine.close();
});

test("a client that is in no transaction is refused", async () => {
  const { url, store, engine } = await open();
  const client = new pg.Client({ connectionString: url });
  await client.connect();
  await expect(new Engine(store.within(client)).addWorkUnits("", "s", [{ name: "u" }])).rejects.toMatchObject(
    { code: "bad_argument", message: expect.stringContaining("BEGIN") as string },
  );
  expect(await engine.getWorkUnits("", "s", ["u"])).toEqual([null]);
  await client.end();
  await engine.close();
});

test("an add in the caller's transaction keeps no other unit back, and neither does one that holds overdue units", async () => {
  const { url, store, engine } = await open();
  await engine.addWorkUnits("", "s", [{ name: "due", delayMs: 1 }, { name: "free" }]);
  await delay(20);
  const client = new pg.Client({ connectionString: url });
  await client.connect();
  const claim = async () =>
    (await engine.requestAttempts("", { worker: "w", number: 10 })).map(({ workUnit }) => workUnit).sort();
  await client.query("BEGIN");
  await new Engine(store.within(client)).addWorkUnits("", "s", [{ name: "new" }]);
  expect(await claim()).toEqual(["due", "free"]);
  await client.query("COMMIT");
  expect(await claim()).toEqual(["new"]);
  // the same when the transaction has locked overdue units, such as one that claims, or another daemon that is slow
  await engine.addWorkUnits("", "s", [
    { name: "due 2", delayMs: 200 },
    { name: "late", expiresMs: 200 },
    { name: "free 2" },
  ]);
  await client.query("BEGIN");
  await client.query("SELECT 1 FROM coordinate.unit WHERE key IN ('due 2', 'late') FOR UPDATE");
  await delay(250);
  expect(await claim()).toEqual(["free 2"]);
  await client.query("ROLLBACK");
  expect(await claim()).toEqual(["due 2"]);
  expect((await engine.getWorkUnits("", "s", ["late"]))[0]?.status).toBe("failed");
  await client.end();
  await engine.close();
});

test("a unit that is committed long after it was added is handed out in its place", async () => {
  const { url, store, engine } = await open();
  const client = new pg.Client({ connectionString: url });
  await client.connect();
  const claim = async () => (await engine.requestAttempts("", { worker: "w" }))[0]?.workUnit;
  await engine.addWorkUnits("", "s", [{ name: "b" }, { name: "c" }, { name: "d" }, { name: "e" }]);
  expect(await claim()).toBe("b");
  await client.query("BEGIN");
  await new Engine(store.within(client)).addWorkUnits("", "s", [{ name: "a" }]);
  expect(await claim()).toBe("c");
  // other adds in the same and in later seconds, in other sessions and in this one
  await engine.addWorkUnits("", "s", [{ name: "x" }]);
  await delay(1100);
  await engine.addWorkUnits("", "s", [{ name: "y" }]);
  await client.query("COMMIT");
  await client.query("BEGIN");
  await new Engine(store.within(client)).addWorkUnits("", "s", [{ name: "z" }]);
  await client.query("COMMIT");
  expect(await claim()).toBe("a");
  expect(await claim()).toBe("d");
  await client.end();
  await engine.close();
});

test("a request that waits on one daemon is answered by an add on another, at once", async () => {
  const one = await open();
  const two = await openPostgres({ url: one.url });
  const other = new Engine(two, { pollMs: 60_000 });
  const waiting = other.requestAttempts("", { worker: "w", waitMs: 20_000 });
  await delay(300);
  const started = performance.now();
  await one.engine.addWorkUnits("", "s", [{ name: "u" }]);
  expect((await waiting).map(({ workUnit }) => workUnit)).toEqual(["u"]);
  expect(performance.now() - started).toBeLessThan(5000);
  // the listener loses its connection and reconnects
  await query(
    one.url,
    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE query LIKE 'LISTEN%' AND datname = current_database()",
  );
  const again = other.requestAttempts("", { worker: "w", waitMs: 20_000 });
  await delay(500);
  await one.engine.addWorkUnits("", "s", [{ name: "v" }]);
  expect(await again).toHaveLength(1);
  await other.close();
  await one.engine.close();
}, 60_000);

test("a request that waits is answered when the caller of a transaction commits", async () => {
  const { url, store, engine } = await open();
  const other = new Engine(await openPostgres({ url }), { pollMs: 60_000 });
  const waiting = other.requestAttempts("", { worker: "w", waitMs: 20_000 });
  await delay(300);
  const client = new pg.Client({ connectionString: url });
  await client.connect();
  await client.query("BEGIN");
  await new Engine(store.within(client)).addWorkUnits("", "s", [{ name: "u" }]);
  await delay(200);
  await client.query("COMMIT");
  const [attempt] = await waiting;
  // the same for ends of units: a notice before the commit would wake a waiter that sees nothing and gets no second notice
  const ending = other.awaitWorkUnits("", "s", ["u"], { waitMs: 20_000 });
  await delay(300);
  await client.query("BEGIN");
  await new Engine(store.within(client)).settleAttempts("", [{ attempt: attempt!.id, action: "finish" }]);
  await delay(200);
  await client.query("COMMIT");
  expect((await ending).map((unit) => unit?.status)).toEqual(["finished"]);
  await client.end();
  await other.close();
  await engine.close();
}, 60_000);

test("the log of attempts forgets claims of which no unit is left", async () => {
  const { url, engine } = await open();
  await engine.addWorkUnits("", "s", [{ name: "a" }, { name: "b" }]);
  await engine.requestAttempts("", { worker: "w" });
  await engine.requestAttempts("", { worker: "w" });
  await engine.deleteWorkUnits("", "s", { names: ["a"] });
  await engine.sweep();
  expect(await query(url, "SELECT count(*)::int AS n FROM coordinate.log")).toEqual([{ n: 1 }]);
  const { rows } = await engine.listWorkerAttempts("", "w", { which: "all" });
  expect(rows.map(({ workUnit }) => workUnit)).toEqual(["b"]);
  await engine.close();
});

test("the sweep deletes old rows some at a time, also when one of its steps fails", async () => {
  const { url, engine } = await open({ lockTimeoutMs: 100 });
  await query(
    url,
    `INSERT INTO coordinate.request (namespace, spec, id, time, answer)
     SELECT 1, 0, convert_to(i::text, 'UTF8'), i, '' FROM generate_series(1, 10500) AS i`,
  );
  const left = async () => query(url, "SELECT count(*)::int AS n FROM coordinate.request");
  const blocker = new pg.Client({ connectionString: url });
  await blocker.connect();
  await blocker.query("BEGIN; LOCK TABLE coordinate.lane IN ACCESS EXCLUSIVE MODE");
  await expect(engine.sweep()).rejects.toMatchObject({ code: "unavailable" });
  expect(await left()).toEqual([{ n: 500 }]);
  await blocker.query("ROLLBACK");
  await blocker.end();
  await engine.sweep();
  expect(await left()).toEqual([{ n: 0 }]);
  await engine.close();
}, 60_000);

test("nothing is heard of the units of a deleted work spec, also before their rows are purged", async () => {
  const { store, engine } = await open();
  const clock = new ManualClock(Date.now());
  const timed = new Engine(store, { clock });
  await timed.setWorkSpecs("", [{ data: encodeData({ name: "gone" }) }]);
  await timed.addWorkUnits("", "gone", [{ name: "x", queues: ["q"], expiresMs: 10 }]);
  await timed.addWorkUnits("", "s", [{ name: "x", queues: ["q"], expiresMs: 10 }]);
  // another daemon may read before the deleting daemon has removed the rows
  await store.deleteWorkSpecs("", ["gone"], clock.now());
  clock.advance(1000);
  await timed.tally("");
  expect((await timed.takeMessages("", "q", { max: 10 })).map(({ workSpec }) => workSpec)).toEqual(["s"]);
  expect(timed.late).toBe(1);
  await engine.close();
});

test("the row of a deleted namespace is removed with its last message, whether or not it had work specs", async () => {
  const { url, engine } = await open();
  await engine.setNamespace("empty", { desired: "idle" });
  await engine.deleteNamespace("empty");
  await engine.setWorkSpecs("told", [{ data: encodeData({ name: "s" }) }]);
  await engine.addWorkUnits("told", "s", [
    { name: "a", queues: ["q"] },
    { name: "b", queues: ["q"] },
  ]);
  for (const { id } of await engine.requestAttempts("told", { worker: "w", number: 2 }))
    await engine.settleAttempts("told", [{ attempt: id, action: "finish" }]);
  await engine.takeMessages("told", "q", { requestId: "r" });
  await engine.deleteNamespace("told");
  // as if the work specs had been deleted long ago
  await query(url, "DELETE FROM coordinate.spec WHERE dead");
  await engine.sweep();
  const left =
    "SELECT (SELECT count(*) FROM coordinate.namespace WHERE dead)::int AS n, count(*)::int AS m FROM coordinate.message";
  expect(await query(url, left)).toEqual([{ n: 0, m: 0 }]);
  await engine.close();
});

test("many adds in a moment are told to others a few times", async () => {
  const { url, engine } = await open({ notifyMs: 50 });
  const listener = new pg.Client({ connectionString: url });
  await listener.connect();
  let heard = 0;
  listener.on("notification", () => heard++);
  await listener.query('LISTEN "coordinate coordinate"');
  await Promise.all(
    Array.from({ length: 200 }, (_, i) => engine.addWorkUnits("", "s", [{ name: String(i) }])),
  );
  await delay(200);
  expect(heard).toBeGreaterThan(0);
  expect(heard).toBeLessThan(60);
  await listener.end();
  await engine.close();
}, 60_000);

test("the first change after a while is told to others at once", async () => {
  // the setWorkSpecs call in `open` may have sent a notice, and the next one would come an hour later
  const { url, engine } = await open();
  await engine.close();
  const store = await openPostgres({ url, notifyMs: 3_600_000 });
  const other = new Engine(store);
  const listener = new pg.Client({ connectionString: url });
  await listener.connect();
  const heard = new Promise((resolve) => listener.on("notification", resolve));
  await listener.query('LISTEN "coordinate coordinate"');
  await other.addWorkUnits("", "s", [{ name: "u" }]);
  await heard;
  await listener.end();
  await other.close();
}, 60_000);

test("behind a pooler nobody is told, and polling finds the work", async () => {
  const url = await server.createDatabase();
  const one = await open({ url, pgBouncer: true });
  const other = new Engine(await openPostgres({ url, pgBouncer: true }), { pollMs: 100 });
  const waiting = other.requestAttempts("", { worker: "w", waitMs: 20_000 });
  await delay(200);
  await one.engine.addWorkUnits("", "s", [{ name: "u" }]);
  expect(await waiting).toHaveLength(1);
  expect(
    await query(
      url,
      "SELECT 1 FROM pg_stat_activity WHERE query LIKE 'LISTEN%' AND datname = current_database()",
    ),
  ).toEqual([]);
  await other.close();
  await one.engine.close();
}, 60_000);

test("the database's clock, whatever this machine's says", async () => {
  const { url, store, engine } = await open();
  const clock = await store.clock();
  const [row] = (await query(
    url,
    "SELECT (extract(epoch FROM clock_timestamp()) * 1000)::float8 AS now",
  )) as { now: number }[];
  expect(Math.abs(clock.now() - row!.now)).toBeLessThan(1000);
  const before = clock.now();
  await clock.waitUntil(before + 30);
  expect(clock.now()).toBeGreaterThanOrEqual(before + 30);
  await engine.close();
});

test("two schemas in one database do not meet; names need no care", async () => {
  const url = await server.createDatabase();
  const a = await open({ url });
  const b = await open({ url, schema: 'o"dd Schema' });
  await a.engine.addWorkUnits("", "s", [{ name: "u" }]);
  expect((await b.engine.listWorkUnits("", "s")).rows).toEqual([]);
  await a.engine.close();
  await b.engine.close();
});

test("a daemon listens to the channel of its schema, whatever its name", async () => {
  const texts: string[] = [];
  const client: ListeningClient = {
    connect: () => Promise.resolve(),
    end: () => Promise.resolve(),
    on: () => undefined,
    query: ({ text }) => {
      texts.push(text);
      return Promise.resolve({ rows: [] });
    },
  };
  const notifier = new Notifier({
    channel: 'coordinate o"dd',
    listen: () => client,
    settings: [],
    send: () => Promise.resolve(),
    run: () => Promise.resolve([]),
    debounceMs: 10,
  });
  await new Promise((resolve) => notifier.listen(resolve));
  await notifier.close();
  expect(texts.join("")).toContain('LISTEN "coordinate o""dd"');
});

test("a schema of a version that this program cannot work with is refused, one that it can is used", async () => {
  const { url, engine } = await open();
  await engine.close();
  await query(url, "INSERT INTO coordinate.migration (version, works_with) VALUES ($1, 1)", [
    schemaVersion + 1,
  ]);
  await (await openPostgres({ url })).close();
  await query(url, "INSERT INTO coordinate.migration (version, works_with) VALUES ($1, $1)", [
    schemaVersion + 2,
  ]);
  await expect(openPostgres({ url })).rejects.toMatchObject({
    code: "unavailable",
    message: expect.stringMatching(/newer/) as string,
  });
});

test("a daemon that does not migrate refuses a schema that is too old, too new, or not there", async () => {
  const url = await server.createDatabase();
  const opening = () => openPostgres({ url, migrate: false });
  const refused = (text: RegExp) => ({
    code: "unavailable",
    message: expect.stringMatching(text) as string,
  });
  await expect(opening()).rejects.toMatchObject(refused(/has version 0.*Migrate/));
  await (await openPostgres({ url })).close();
  await (await opening()).close();
  await query(url, "DELETE FROM coordinate.migration WHERE version = $1", [schemaVersion]);
  await expect(opening()).rejects.toMatchObject(refused(new RegExp(`needs version ${schemaVersion}`)));
  await query(url, "INSERT INTO coordinate.migration (version, works_with) VALUES ($1, $1)", [
    schemaVersion + 1,
  ]);
  await expect(opening()).rejects.toMatchObject(refused(/newer/));
});

test("a migration takes as long as it takes", async () => {
  const url = await server.createDatabase();
  await query(
    url,
    `CREATE FUNCTION slow() RETURNS event_trigger LANGUAGE plpgsql AS $$ BEGIN PERFORM pg_sleep(0.5); END $$;
     CREATE EVENT TRIGGER slow ON ddl_command_start WHEN TAG IN ('CREATE SEQUENCE') EXECUTE FUNCTION slow()`,
  );
  await (
    await openPostgres({ url, statementTimeoutMs: 200, answerTimeoutMs: 300, patienceMs: 1000 })
  ).close();
}, 60_000);

test.each([false, true])(
  "a role that may only use the tables is enough for a daemon (migrate: %s)",
  async (migrate) => {
    const { url, engine } = await open();
    await engine.close();
    await query(
      url,
      `DO $$ BEGIN IF NOT EXISTS (SELECT 1 FROM pg_roles WHERE rolname = 'worker_only') THEN CREATE ROLE worker_only LOGIN; END IF; END $$;
     GRANT USAGE ON SCHEMA coordinate TO worker_only;
     GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA coordinate TO worker_only;
     GRANT SELECT, USAGE ON ALL SEQUENCES IN SCHEMA coordinate TO worker_only`,
    );
    const limited = new URL(url);
    limited.username = "worker_only";
    const store = await openPostgres({ url: limited.href, migrate });
    const daemon = new Engine(store);
    await daemon.addWorkUnits("", "s", [{ name: "u", queues: ["q"], labels: ["red"] }]);
    const [attempt] = await daemon.requestAttempts("", { worker: "w" });
    const [answer] = await daemon.settleAttempts("", [{ attempt: attempt!.id, action: "finish" }]);
    expect(answer?.error).toBeNull();
    expect(await daemon.takeMessages("", "q")).toHaveLength(1);
    await daemon.sweep();
    await daemon.deleteWorkSpecs("", ["s"]);
    await daemon.close();
  },
);

test("names that are longer than an index entry are kept apart, found, listed and deleted", async () => {
  const { engine } = await open();
  const random = (seed: number): string =>
    Array.from({ length: 4000 }, (_, i) =>
      String.fromCharCode(33 + ((i * 7919 + seed * 104729 + ((i * i) % 89)) % 90)),
    ).join("");
  const names = [random(1), random(2), `${random(1).slice(0, 3999)}!`, "short"];
  await engine.addWorkUnits(
    "",
    "s",
    names.map((name) => ({ name })),
  );
  const { rows } = await engine.listWorkUnits("", "s");
  expect(new Set(rows.map(({ name }) => name))).toEqual(new Set(names));
  const found = await engine.listWorkUnits("", "s", { prefix: random(1).slice(0, 3999) });
  expect(found.rows).toHaveLength(random(1).startsWith(names[2]!.slice(0, 3999)) ? 2 : 1);
  expect(await engine.deleteWorkUnits("", "s", { names: [names[0]!] })).toBe(1);
  expect((await engine.getWorkUnits("", "s", names)).map((unit) => unit === null)).toEqual([
    true,
    false,
    false,
    false,
  ]);
  await engine.close();
});

test("a storm of leases that end at once is moved in pieces, and counts stay exact", async () => {
  const url = await server.createDatabase();
  const store = await openPostgres({ url });
  const clock = new ManualClock();
  const engine = new Engine(store, { clock });
  await engine.setWorkSpecs("", [{ data: encodeData({ name: "s" }) }]);
  await engine.addWorkUnits(
    "",
    "s",
    Array.from({ length: 7000 }, (_, i) => ({ name: String(i) })),
  );
  expect(await engine.requestAttempts("", { worker: "w", number: 7000, lifetimeMs: 1000 })).toHaveLength(
    7000,
  );
  clock.advance(1000);
  expect(await engine.requestAttempts("", { worker: "w", number: 10 })).toHaveLength(10);
  const [tally] = await engine.tally("");
  expect(tally?.counts).toMatchObject({ available: 6990, pending: 10 });
  await engine.close();
}, 60_000);

test("one connection is enough: ids for what is made in a transaction are taken there", async () => {
  const { engine } = await open({ poolSize: 1, connectTimeoutMs: 2000, notify: false });
  await engine.setWorkSpecs("", [
    { data: encodeData({ name: "s", then: "t" }) },
    { data: encodeData({ name: "t" }) },
  ]);
  const names = (count: number) => Array.from({ length: count }, (_, i) => `u${i}`);
  await engine.addWorkUnits("", "s", [{ name: "u0" }, { name: "u1" }]);
  // some units exist, and there are more new ones than allocated ids; the same for the outputs of a finished unit
  const added = await engine.addWorkUnits(
    "",
    "s",
    names(2500).map((name) => ({ name })),
  );
  expect(added.filter(({ created }) => created)).toHaveLength(2498);
  const attempts = await engine.requestAttempts("", { worker: "w", number: 2 });
  const answers = await engine.settleAttempts(
    "",
    attempts.map(({ id }) => ({ attempt: id, action: "finish", data: encodeData({ output: names(2500) }) })),
  );
  expect(answers.map(({ error }) => error)).toEqual([null, null]);
  expect((await engine.tally(""))[1]?.counts.available).toBe(2500);
  await engine.close();
});

test("a finish with many outputs takes longer than a session may be idle, and is stored", async () => {
  const { engine } = await open({ settings: ["idle_in_transaction_session_timeout=50"], notify: false });
  await engine.setWorkSpecs("", [
    { data: encodeData({ name: "s", then: "t" }) },
    { data: encodeData({ name: "t" }) },
  ]);
  await engine.addWorkUnits("", "s", [{ name: "u" }]);
  const [attempt] = await engine.requestAttempts("", { worker: "w" });
  const output = Array.from({ length: 20_000 }, (_, i) => `output ${i}`);
  const data = encodeData({ output });
  const [answer] = await engine.settleAttempts("", [{ attempt: attempt!.id, action: "finish", data }]);
  expect(answer).toMatchObject({ error: null, outputs: output.length });
  await engine.close();
}, 60_000);

test("however many list, there is a connection left for adds, claims and settles", async () => {
  const { url, store, engine } = await open({
    poolSize: 4,
    connectTimeoutMs: 30_000,
    lockTimeoutMs: 30_000,
    notify: false,
  });
  await engine.addWorkUnits("", "s", [{ name: "a" }, { name: "b" }, { name: "c" }]);
  await engine.requestAttempts("", { worker: "w" });
  // listing attempts has to wait for this lock; nothing else reads the table
  const blocker = new pg.Client({ connectionString: url });
  await blocker.connect();
  await blocker.query("BEGIN; LOCK TABLE coordinate.history IN ACCESS EXCLUSIVE MODE");
  let listed = 0;
  const lists = Array.from({ length: 12 }, async () => {
    await engine.listUnitAttempts("", "s", "a");
    listed++;
  });
  const waiting =
    "SELECT count(*)::int AS n FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()";
  // two of the four connections wait for the lock; the other ten requests are queued
  await expect.poll(() => query(url, waiting), { timeout: 20_000 }).toEqual([{ n: 2 }]);
  await engine.addWorkUnits("", "s", [{ name: "d" }]);
  const [attempt] = await engine.requestAttempts("", { worker: "w" });
  expect(attempt?.workUnit).toBe("b");
  const [answer] = await engine.settleAttempts("", [{ attempt: attempt!.id, action: "finish" }]);
  expect(answer?.error).toBeNull();
  expect(listed).toBe(0);
  await blocker.query("ROLLBACK");
  await blocker.end();
  await Promise.all(lists);
  expect(listed).toBe(12);
  expect(store.counters.unknown).toBe(0);
  await engine.close();
}, 60_000);

test("leases, delays and ends count from when they are written, however long a lock was waited for", async () => {
  const { url, store } = await open({
    poolSize: 2,
    connectTimeoutMs: 30_000,
    lockTimeoutMs: 30_000,
    notify: false,
  });
  const clock = await store.clock();
  const engine = new Engine(store, { clock });
  await engine.addWorkUnits(
    "",
    "s",
    Array.from({ length: 9 }, (_, i) => ({ name: `u${i}` })),
  );
  const held = await engine.requestAttempts("", { worker: "w", number: 4, lifetimeMs: 60_000 });
  const blocker = new pg.Client({ connectionString: url });
  await blocker.connect();
  /** Runs `work` while the table is locked for a long time. `freed` is well after the start: the times written must not be earlier. */
  const whileLocked = async <Answer>(
    work: () => Promise<Answer>,
  ): Promise<{ freed: number; answer: Answer }> => {
    await blocker.query("BEGIN; LOCK TABLE coordinate.unit IN ACCESS EXCLUSIVE MODE");
    const running = work();
    const asked = clock.now();
    // hold the lock much longer than a statement waits for a lock, or a request for one of the two connections
    await expect.poll(() => clock.now() - asked, { timeout: 20_000 }).toBeGreaterThan(12 * lockSliceMs);
    const freed = asked + 6 * lockSliceMs;
    await blocker.query("ROLLBACK");
    return { freed, answer: await running };
  };
  const claims = await whileLocked(() =>
    Promise.all(
      Array.from({ length: 5 }, (_, i) =>
        engine.requestAttempts("", { worker: `w${i}`, lifetimeMs: 1000, requestId: `r${i}` }),
      ),
    ),
  );
  expect(claims.answer.flat()).toHaveLength(5);
  for (const { startTime, expirationTime } of claims.answer.flat()) {
    expect(startTime).toBeGreaterThanOrEqual(claims.freed);
    expect(expirationTime).toBe(startTime + 1000);
  }
  const actions = ["finish", "retry", "renew", "fail"] as const;
  const settles = await whileLocked(() =>
    Promise.all(
      actions.map((action, i) =>
        engine.settleAttempts("", [{ attempt: held[i]!.id, action, delayMs: 5000, lifetimeMs: 5000 }]),
      ),
    ),
  );
  expect(settles.answer.flat().map(({ error }) => error)).toEqual([null, null, null, null]);
  expect(settles.answer[2]![0]!.expirationTime).toBeGreaterThanOrEqual(settles.freed + 5000);
  const rows = await engine.getWorkUnits("", "s", ["u0", "u1", "u3"]);
  expect(rows[1]!.notBefore).toBeGreaterThanOrEqual(settles.freed + 5000);
  for (const i of [0, 3])
    expect((await engine.getAttempts("", [held[i]!.id]))[0]!.endTime).toBeGreaterThanOrEqual(settles.freed);
  await blocker.end();
  await engine.close();
}, 120_000);

test("a lock that is never given up is an error in the end", async () => {
  const { url, engine } = await open({ lockTimeoutMs: 1200, notify: false });
  await engine.addWorkUnits("", "s", [{ name: "a" }]);
  const [attempt] = await engine.requestAttempts("", { worker: "w" });
  const blocker = new pg.Client({ connectionString: url });
  await blocker.connect();
  await blocker.query("BEGIN; LOCK TABLE coordinate.unit IN ACCESS EXCLUSIVE MODE");
  const refused = { code: "unavailable" };
  const settling = engine.settleAttempts("", [{ attempt: attempt!.id, action: "finish" }]);
  await expect(settling).rejects.toMatchObject(refused);
  await expect(engine.listWorkUnits("", "s")).rejects.toMatchObject(refused);
  await blocker.query("ROLLBACK");
  await blocker.end();
  expect((await engine.getAttempts("", [attempt!.id]))[0]?.status).toBe("pending");
  await engine.close();
}, 60_000);

test("who waits too long to list is told that there is no connection, and the next goes on", async () => {
  const { url, engine } = await open({ poolSize: 3, connectTimeoutMs: 300, notify: false });
  await engine.addWorkUnits("", "s", [{ name: "a" }]);
  const blocker = new pg.Client({ connectionString: url });
  await blocker.connect();
  await blocker.query("BEGIN; LOCK TABLE coordinate.history IN ACCESS EXCLUSIVE MODE");
  const first = engine.listUnitAttempts("", "s", "a");
  const second = engine.listUnitAttempts("", "s", "a");
  await expect(second).rejects.toMatchObject({ code: "unavailable" });
  await blocker.query("ROLLBACK");
  await blocker.end();
  expect(await first).toEqual([]);
  expect(await engine.listUnitAttempts("", "s", "a")).toEqual([]);
  await engine.close();
}, 60_000);
