/**
 * Limits, rates, order and turns over several engines on one database, with killed sessions and expired leases. The records of the
 * attempts must satisfy all rules.
 */
import pg from "pg";
import { afterAll, beforeAll, expect, test } from "vitest";
import {
  encodeData,
  Engine,
  ManualClock,
  seededRandom,
  type AttemptRow,
  type WorkUnitInput,
} from "../../src/core/index.ts";
import { openPostgres, type PostgresStore } from "../../src/postgres/index.ts";
import { unitsAtOnce } from "../../src/postgres/lanes.ts";
import { openServer, query, type Server } from "./server.ts";

let server: Server;
let url: string;
const stores: PostgresStore[] = [];
const engines: Engine[] = [];

beforeAll(async () => {
  server = await openServer("quiet");
  url = await server.createDatabase();
  for (let i = 0; i < 3; i++) {
    const store = await openPostgres({ url });
    stores.push(store);
    // one clock for all, because every daemon uses the clock of the database
    engines.push(new Engine(store, { clock: await stores[0]!.clock() }));
  }
}, 60_000);
afterAll(async () => {
  for (const engine of engines) await engine.close();
  await server.stop();
});

const set = (ns: string, keys: Record<string, unknown>): Promise<unknown> =>
  engines[0]!.setWorkSpecs(ns, [{ data: encodeData({ name: "s", ...keys }) }]);

const units = (partitions: number, each: number): WorkUnitInput[] =>
  Array.from({ length: partitions * each }, (_, i) => ({
    name: `${String(Math.floor(i / partitions)).padStart(4, "0")} ${i % partitions}`,
    partition: `p${i % partitions}`,
  }));

/** Runs workers on all engines, some of which lose their sessions or abandon attempts, until all units have ended. */
async function work(ns: string, seed: number): Promise<AttemptRow[]> {
  const random = seededRandom(seed);
  let over = false;
  const worker = async (i: number): Promise<void> => {
    const engine = engines[i % engines.length]!;
    while (!over) {
      const request = {
        worker: `w${i}`,
        number: 1 + Math.floor(random() * 4),
        lifetimeMs: 2000,
        waitMs: 200,
      };
      const attempts = await engine.requestAttempts(ns, request).catch(lostSession);
      for (const { id } of attempts) {
        const draw = random();
        // abandon the attempt: its lease expires
        if (draw < 0.03) continue;
        const action = draw < 0.1 ? "retry" : draw < 0.15 ? "fail" : "finish";
        await new Promise((resolve) => setTimeout(resolve, random() * 5));
        const change = {
          attempt: id,
          action,
          ...(action === "retry" && { delayMs: Math.floor(random() * 50) }),
        } as const;
        await engine.settleAttempts(ns, [change]).catch(lostSession);
      }
    }
  };
  const kills = async (): Promise<void> => {
    while (!over) {
      await new Promise((resolve) => setTimeout(resolve, 150));
      await query(
        url,
        `SELECT pg_terminate_backend(pid) FROM pg_stat_activity
         WHERE datname = current_database() AND pid <> pg_backend_pid() AND backend_type = 'client backend'
         ORDER BY random() LIMIT 1`,
      );
    }
  };
  const workers = Array.from({ length: 12 }, (_, i) => worker(i));
  const killing = kills();
  try {
    await expect
      .poll(
        async () => {
          const rows = await engines[0]!.tally(ns).catch(() => []);
          const open = rows.map(({ counts }) => counts.available + counts.delayed + counts.pending);
          return rows.length === 0 ? 1 : open.reduce((sum, count) => sum + count, 0);
        },
        { timeout: 120_000, interval: 200 },
      )
      .toBe(0);
  } finally {
    over = true;
    await Promise.all([...workers, killing]);
  }
  return records(ns);
}

const lostSession = (): never[] => [];

async function records(ns: string): Promise<AttemptRow[]> {
  const attempts: AttemptRow[] = [];
  for (const { workSpec } of await engines[0]!.tally(ns)) {
    const { rows } = await engines[0]!.listWorkUnits(ns, workSpec, { limit: 10_000 });
    for (const { name } of rows) attempts.push(...(await engines[0]!.listUnitAttempts(ns, workSpec, name)));
  }
  return attempts;
}

const partitionOf = ({ workUnit }: AttemptRow): string => workUnit.slice(5);

function byPartition(attempts: readonly AttemptRow[]): Map<string, AttemptRow[]> {
  const found = new Map<string, AttemptRow[]>();
  for (const attempt of attempts) {
    const list = found.get(partitionOf(attempt)) ?? [];
    found.set(partitionOf(attempt), list);
    list.push(attempt);
  }
  return found;
}

/** The highest number of attempts that ran at once. If one ends in the millisecond in which another begins, they do not overlap. */
function mostAtOnce(attempts: readonly AttemptRow[]): number {
  // an attempt that was settled late held its slot until its lease expired
  const events = attempts.flatMap(({ startTime, endTime, expirationTime, late }) => [
    { at: startTime, by: 1 },
    { at: late ? expirationTime : endTime, by: -1 },
  ]);
  events.sort((a, b) => a.at - b.at || a.by - b.by);
  let running = 0;
  let most = 0;
  for (const { by } of events) most = Math.max(most, (running += by));
  return most;
}

test("no partition ever has more units running than it may, and all are done", async () => {
  await set("limit", { max_running_per_partition: 3 });
  await engines[1]!.addWorkUnits("limit", "s", units(7, 40));
  const attempts = await work("limit", 1);
  for (const [partition, list] of byPartition(attempts))
    expect(mostAtOnce(list), partition).toBeLessThanOrEqual(3);
  expect(byPartition(attempts).size).toBe(7);
}, 180_000);

test("a work spec never has more units running than it may", async () => {
  await set("whole", { max_running: 3 });
  await engines[1]!.addWorkUnits("whole", "s", units(7, 30));
  const attempts = await work("whole", 4);
  expect(mostAtOnce(attempts)).toBeLessThanOrEqual(3);
  expect(byPartition(attempts).size).toBe(7);
}, 180_000);

test("no more units run under a limit that work specs share than it says", async () => {
  await engines[0]!.setLimits("shared", [{ name: "api", maxRunning: 4 }]);
  const specs = ["s", "t", "u"];
  await engines[0]!.setWorkSpecs(
    "shared",
    specs.map((name) => ({ data: encodeData({ name, limits: ["api"] }) })),
  );
  for (const spec of specs) await engines[1]!.addWorkUnits("shared", spec, units(1, 70));
  const attempts = await work("shared", 5);
  expect(mostAtOnce(attempts)).toBeLessThanOrEqual(4);
  expect(new Set(attempts.map(({ workSpec }) => workSpec)).size).toBe(3);
}, 180_000);

test.each([
  ["a limit that work specs share", { limits: ["api"] }],
  ["a limit of each partition", { max_running_per_partition: 1 }],
])("a lease that a slow call renews in time has kept its place meanwhile: %s", async (_, keys) => {
  const database = await server.createDatabase();
  const store = await openPostgres({ url: database, notify: false });
  const clock = new ManualClock(1_000_000);
  const engine = new Engine(store, { clock });
  await engine.setLimits("", [{ name: "api", maxRunning: 1 }]);
  const [spec] = await engine.setWorkSpecs("", [{ data: encodeData({ name: "s", ...keys }) }]);
  await engine.addWorkUnits("", "s", [{ name: "a" }, { name: "b" }]);
  const [a] = await engine.requestAttempts("", { worker: "w", lifetimeMs: 1000 });
  // another daemon looked just before the lease expired and claims just after; the renewing call started before that
  expect(await engine.requestAttempts("", { worker: "v" })).toEqual([]);
  const claim = {
    workSpec: { name: "s", id: spec!.id },
    worker: "v",
    limit: 1,
    lifetimeMs: 1000,
    maxRetries: 0,
    requestId: null,
  };
  expect((await store.claim("", claim, clock.now() + 1001)).attempts).toEqual([]);
  clock.advance(999);
  const [renewed] = await engine.settleAttempts("", [
    { attempt: a!.id, action: "renew", lifetimeMs: 60_000 },
  ]);
  expect(renewed).toMatchObject({ error: null, changed: true });
  clock.advance(2);
  expect(await engine.requestAttempts("", { worker: "v" })).toEqual([]);
  await engine.close();
});

test.each([
  ["a limit of each partition", { max_running_per_partition: 2 }],
  ["a limit of the work spec, by partition", { max_running: 2, fair: "partition" }],
  ["a limit of the work spec", { max_running: 2 }],
])(
  "an attempt begins no earlier than the one whose place it takes ended: %s",
  async (_, keys) => {
    const database = await server.createDatabase();
    // those who settle are ahead of the one who claims, by less than a clock may be
    const clocks = [0, 10_000, 20_000].map((ahead) => new ManualClock(1_000_000 + ahead));
    const three = await Promise.all(
      clocks.map(
        async (clock) => new Engine(await openPostgres({ url: database, notify: false }), { clock }),
      ),
    );
    const [claimer, ...settlers] = three;
    await claimer!.setWorkSpecs("", [{ data: encodeData({ name: "s", ...keys }) }]);
    await claimer!.addWorkUnits("", "s", units(1, 300));
    let running: AttemptRow[] = [];
    for (let round = 0; round < 150; round++) {
      // attempts end while claims look for work: in some rounds one ends between two statements of a claim
      for (const clock of clocks) clock.advance(20_000);
      const ends = running.map(async ({ id }, i) => {
        await settlers[i]!.settleAttempts("", [{ attempt: id, action: "finish" }]);
      });
      running = [];
      while (running.length < 2)
        running.push(...(await claimer!.requestAttempts("", { worker: "w", number: 2 - running.length })));
      await Promise.all(ends);
    }
    const rows = await claimer!.listWorkUnits("", "s", { limit: 1000 });
    const attempts = await Promise.all(rows.rows.map(({ name }) => claimer!.listUnitAttempts("", "s", name)));
    expect(mostAtOnce(attempts.flat().filter(({ endTime }) => endTime > 0))).toBeLessThanOrEqual(2);
    await Promise.all(three.map((engine) => engine.close()));
  },
  60_000,
);

test("the order within a partition is never broken, also over retries, expired leases and lost sessions", async () => {
  await set("order", { order: "partition" });
  await engines[1]!.addWorkUnits("order", "s", units(10, 12));
  const attempts = await work("order", 2);
  for (const [partition, list] of byPartition(attempts)) {
    expect(mostAtOnce(list), partition).toBeLessThanOrEqual(1);
    list.sort((a, b) => a.startTime - b.startTime || a.endTime - b.endTime);
    const order = list.map(({ workUnit }) => workUnit).filter((name, i, all) => all[i - 1] !== name);
    expect(order, partition).toEqual([...order].sort());
  }
}, 180_000);

test("rates hold for a work spec and for each partition", async () => {
  const rate = { limit: 100, period: 1, burst: 10 };
  const perPartition = { limit: 20, period: 1, burst: 2 };
  await set("rate", { rate, rate_per_partition: perPartition });
  await engines[1]!.addWorkUnits("rate", "s", units(10, 20));
  const attempts = (await work("rate", 3)).filter(({ worker }) => worker !== "");
  const keeps = (list: readonly AttemptRow[], { limit, burst }: typeof rate): void => {
    const starts = list.map(({ startTime }) => startTime).sort((a, b) => a - b);
    // of any consecutive attempts, all except the burst had to wait for a token
    for (let i = 0; i < starts.length; i++)
      for (let j = i + burst; j < starts.length; j++)
        expect(starts[j]! - starts[i]!).toBeGreaterThanOrEqual(((j - i + 1 - burst) * 1000) / limit - 2);
  };
  keeps(attempts, rate);
  for (const list of byPartition(attempts).values()) keeps(list, perPartition);
}, 180_000);

test("one partition with many units delays the others by one turn", async () => {
  await set("fair", { fair: "partition" });
  const many = Array.from({ length: 3000 }, (_, i) => ({ name: `0000 large ${i}`, partition: "large" }));
  await engines[0]!.addWorkUnits("fair", "s", many);
  await engines[0]!.addWorkUnits("fair", "s", units(99, 2));
  const given: string[] = [];
  for (let i = 0; i < 100; i++) {
    const engine = engines[i % engines.length]!;
    for (const attempt of await engine.requestAttempts("fair", { worker: `w${i}`, number: 2 })) {
      given.push(attempt.workUnit);
      await engine.settleAttempts("fair", [{ attempt: attempt.id, action: "finish" }]);
    }
  }
  const isLarge = (name: string): boolean => name.startsWith("0000 large");
  expect(given).toHaveLength(200);
  expect(given.filter(isLarge)).toHaveLength(2);
}, 60_000);

test("a claim by partition takes a fixed number of statements, however many units and partitions there are", async () => {
  const store = await openPostgres({ url: await server.createDatabase(), notify: false });
  const engine = new Engine(store, { clock: new ManualClock(1_000_000), random: () => 0 });
  const data = { max_running_per_partition: 2, rate_per_partition: { limit: 1000 }, fair: "partition" };
  await engine.setWorkSpecs("", [{ data: encodeData({ name: "s", ...data }) }]);
  const statements = async (): Promise<number> => {
    await engine.requestAttempts("", { worker: "w", number: 20 });
    const before = store.counters.statements;
    const attempts = await engine.requestAttempts("", { worker: "w", number: 20 });
    const after = store.counters.statements;
    expect(attempts).toHaveLength(20);
    const changes = attempts.map(({ id }) => ({ attempt: id, action: "finish" as const }));
    await engine.settleAttempts("", changes);
    // the first settle of a namespace reads whether it has partitions
    const settles = store.counters.statements;
    await engine.settleAttempts(
      "",
      (await engine.requestAttempts("", { worker: "v", number: 1 })).map(({ id }) => ({
        attempt: id,
        action: "finish",
      })),
    );
    expect(store.counters.statements - settles).toBeLessThan(30);
    return after - before;
  };
  await engine.addWorkUnits("", "s", units(100, 5));
  const few = await statements();
  await engine.addWorkUnits(
    "",
    "s",
    Array.from({ length: 5000 }, (_, i) => ({ name: `more ${i}`, partition: `m${i % 1000}` })),
  );
  expect(await statements()).toBe(few);
  expect(few).toBeLessThanOrEqual(6);
  await engine.close();
}, 60_000);

test("units that are added in bulk stand in the order in which their partitions take turns", async () => {
  await set("turns", { fair: "partition" });
  const added = await engines[0]!.addWorkUnits("turns", "s", [
    ...Array.from({ length: 600 }, (_, i) => ({ name: `a${i}`, partition: "a" })),
    ...Array.from({ length: 600 }, (_, i) => ({ name: `b${i}`, partition: "b" })),
  ]);
  const stored = (await query(
    url,
    `SELECT u.id::int, convert_from(u.lane, 'UTF8') AS lane, convert_from(u.key, 'UTF8') AS name
     FROM coordinate.unit u JOIN coordinate.spec s ON s.id = u.spec JOIN coordinate.namespace n ON n.id = s.namespace
     WHERE n.name = 'turns' ORDER BY u.ctid`,
  )) as { id: number; lane: string; name: string }[];
  expect(stored.map(({ lane }) => lane).join("")).toBe("ab".repeat(600));
  expect(stored.map(({ id }) => id)).toEqual(stored.map(({ id }) => id).sort((x, y) => x - y));
  const ids = new Map(stored.map(({ name, id }) => [name, id]));
  for (const { name, id } of added) expect(id).toBe(ids.get(name));
});

test("partitions of a bulk add are opened with it, unless a claim holds the work spec", async () => {
  const notes = async (): Promise<number> => {
    const [row] = (await query(
      url,
      `SELECT count(*)::int FROM coordinate.note o JOIN coordinate.spec s ON s.id = o.spec
       JOIN coordinate.namespace n ON n.id = s.namespace WHERE n.name = 'loaded'`,
    )) as { count: number }[];
    return row!.count;
  };
  await set("loaded", { fair: "partition" });
  const load = (from: number): Promise<unknown> =>
    engines[0]!.addWorkUnits(
      "loaded",
      "s",
      Array.from({ length: 1000 }, (_, i) => ({ name: String(from + i), partition: `p${i}` })),
    );
  await load(0);
  expect(await notes()).toBe(0);
  const holder = new pg.Client({ connectionString: url });
  await holder.connect();
  try {
    await holder.query("BEGIN");
    await holder.query("SELECT 1 FROM coordinate.spec FOR UPDATE");
    await load(1000);
    expect(await notes()).toBeGreaterThan(0);
  } finally {
    await holder.end();
  }
  const given = new Set<string>();
  for (let left = 2000; left > 0; left -= 500)
    for (const { workUnit } of await engines[1]!.requestAttempts("loaded", { worker: "w", number: 500 }))
      given.add(workUnit);
  expect(given.size).toBe(2000);
});

test("a turn of a partition with a rate changes no index", async () => {
  const database = await server.createDatabase();
  const store = await openPostgres({ url: database, notify: false });
  const engine = new Engine(store, { clock: new ManualClock(1_000_000), random: () => 0 });
  const keys = { rate_per_partition: { limit: 1000, burst: 1000 }, fair: "partition" };
  await engine.setWorkSpecs("", [{ data: encodeData({ name: "s", ...keys }) }]);
  await engine.addWorkUnits("", "s", units(10, 20));
  for (let i = 0; i < 5; i++) await engine.requestAttempts("", { worker: "w", number: 10 });
  await engine.close();
  const turns =
    "SELECT n_tup_upd::int AS all, n_tup_hot_upd::int AS hot FROM pg_stat_user_tables WHERE relname = 'lane'";
  await expect.poll(() => query(database, turns), { timeout: 10_000 }).toEqual([{ all: 50, hot: 50 }]);
});

test("new rules for partitions change the units that have no lane, and read no others", async () => {
  const at = await server.createDatabase();
  /** Opens a store for some work; when this returns, the server has counted what it did. */
  const run = async (work: (engine: Engine) => Promise<unknown>): Promise<void> => {
    const store = await openPostgres({ url: at, notify: false });
    const engine = new Engine(store, { clock: await store.clock() });
    await work(engine);
    await engine.close();
    const others =
      "SELECT 1 FROM pg_stat_activity WHERE datname = current_database() AND application_name = 'coordinate'";
    await expect.poll(() => query(at, others), { timeout: 10_000 }).toEqual([]);
  };
  const spec = (keys: Record<string, unknown>) => ({ data: encodeData({ name: "s", ...keys }) });
  await run(async (engine) => {
    await engine.setWorkSpecs("", [spec({})]);
    await engine.addWorkUnits("", "s", [...units(4, 500), { name: "none 1" }, { name: "none 2" }]);
  });
  await query(at, "SELECT pg_stat_reset()");
  await run(async (engine) => {
    await engine.setWorkSpecs("", [spec({ max_running_per_partition: 1 })]);
    const attempts = await engine.requestAttempts("", { worker: "w", number: 10 });
    expect(attempts.map(({ workUnit }) => workUnit).sort()).toEqual([
      ...units(4, 1).map(({ name }) => name),
      "none 1",
    ]);
  });
  const read = "SELECT idx_tup_fetch::int AS n FROM pg_stat_user_tables WHERE relname = 'unit'";
  const [unit] = (await query(at, read)) as { n: number }[];
  expect(unit!.n).toBeGreaterThan(0);
  expect(unit!.n).toBeLessThan(500);
}, 60_000);

test("rules for partitions apply to a large backlog step by step, and no limit is exceeded meanwhile", async () => {
  const ns = "backlog";
  const [engine] = engines;
  await set(ns, {});
  const names = Array.from({ length: unitsAtOnce + 100 }, (_, i) => String(i).padStart(6, "0"));
  await engine!.addWorkUnits(
    ns,
    "s",
    names.map((name) => ({ name })),
  );
  const claim = async () =>
    (await engine!.requestAttempts(ns, { worker: "w", number: 10 })).map(({ id, workUnit }) => ({
      id,
      workUnit,
    }));
  expect(await claim()).toHaveLength(10);
  await set(ns, { max_running_per_partition: 12 });
  // ten run, so two more may begin
  const more = await claim();
  expect(more.map(({ workUnit }) => workUnit)).toEqual(names.slice(10, 12));
  expect(await claim()).toEqual([]);
  const changed = await query(
    url,
    `SELECT count(*)::int AS units FROM coordinate.waiting w JOIN coordinate.spec s ON s.id = w.spec
       JOIN coordinate.namespace n ON n.id = s.namespace WHERE n.name = 'backlog' AND w.lane = ''
     GROUP BY w.xmin::text ORDER BY 1`,
  );
  expect(changed).toEqual([{ units: 90 }, { units: unitsAtOnce - 2 }]);
  await engine!.settleAttempts(
    ns,
    more.map(({ id }) => ({ attempt: id, action: "finish" })),
  );
  expect((await claim()).map(({ workUnit }) => workUnit)).toEqual(names.slice(12, 14));
}, 60_000);
