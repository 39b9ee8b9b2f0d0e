/**
 * What the postgres store does in a second, beside a raw table and two peers on the same server in the same run.
 *
 *   npm run bench:postgres -- [--units 10000,1000000] [--seconds 5] [--hold 60] [--off] [--skip raw,peers,hold]
 *   (cd bench && npm install) brings the peers; without them their lines are left out.
 *
 * The server is started for the purpose with its default settings; `--off` adds synchronous_commit=off. Rates are of calls
 * through the engine. Machines are noisy: beside each rate stands the processor time that a unit cost server and client.
 */
import { readdirSync, readFileSync } from "node:fs";
import { parseArgs } from "node:util";
import pg from "pg";
import { encodeData, Engine } from "../src/core/index.ts";
import { openPostgres } from "../src/postgres/index.ts";
import { query, startServer } from "../test/postgres/server.ts";

const { values: given } = parseArgs({
  options: {
    units: { type: "string", default: "10000,1000000" },
    seconds: { type: "string", default: "5" },
    hold: { type: "string", default: "60" },
    off: { type: "boolean", default: false },
    skip: { type: "string", default: "" },
  },
});
const sizes = given.units.split(",").map(Number);
const seconds = Number(given.seconds);
const skip = new Set(given.skip.split(","));

const server = await startServer({ settings: given.off ? ["synchronous_commit = off"] : [] });
const postmaster = readFileSync(`${server.directory}/postmaster.pid`, "utf8").split("\n")[0];
const [version] = (await query(server.url(), "SHOW server_version")) as { server_version: string }[];
console.log(
  `PostgreSQL ${version?.server_version}, default settings${given.off ? ", synchronous_commit=off" : ""}\n`,
);

/** Processor time of the server's sessions so far, in microseconds. */
function serverTime(): number {
  let ticks = 0;
  for (const pid of readdirSync("/proc")) {
    if (!/^\d+$/.test(pid)) continue;
    try {
      const stat = readFileSync(`/proc/${pid}/stat`, "utf8");
      const fields = stat.slice(stat.lastIndexOf(")") + 2).split(" ");
      if (
        fields[1] !== postmaster ||
        !readFileSync(`/proc/${pid}/cmdline`, "utf8").startsWith("postgres: postgres ")
      )
        continue;
      ticks += Number(fields[11]) + Number(fields[12]);
    } catch {
      // a process that ended meanwhile
    }
  }
  return ticks * 10_000;
}

interface Result {
  rate: number;
}

/** Runs `work` by so many at once until the time is over; it answers how many units it did, 0 to stop. */
async function measure(
  label: string,
  url: string,
  at: number,
  work: (who: number) => Promise<number>,
  limit = Infinity,
): Promise<Result> {
  const wal = async (): Promise<number> =>
    Number(
      (
        (await query(url, "SELECT pg_wal_lsn_diff(pg_current_wal_lsn(), '0/0')::text AS at")) as {
          at: string;
        }[]
      )[0]?.at,
    );
  const commits = async (): Promise<number> =>
    Number(
      (
        (await query(
          url,
          "SELECT xact_commit::text AS n FROM pg_stat_database WHERE datname = current_database()",
        )) as { n: string }[]
      )[0]?.n,
    );
  const [wal0, commits0, server0, client0, start] = [
    await wal(),
    await commits(),
    serverTime(),
    process.cpuUsage(),
    performance.now(),
  ];
  let done = 0;
  await Promise.all(
    Array.from({ length: at }, async (_, who) => {
      while (performance.now() - start < seconds * 1000 && done < limit) {
        const count = await work(who);
        if (count === 0) break;
        done += count;
      }
    }),
  );
  const rate = done / ((performance.now() - start) / 1000);
  const client = process.cpuUsage(client0);
  const cpu = (micros: number): string => (micros / done).toFixed(1).padStart(7);
  console.log(
    `${label.padEnd(44)} ${Math.round(rate).toLocaleString("en").padStart(9)}/s   µs/unit server ${cpu(serverTime() - server0)} client ${cpu(client.user + client.system)}` +
      `   WAL ${String(Math.round(((await wal()) - wal0) / done)).padStart(6)} B/unit   ${(((await commits()) - commits0) / done).toFixed(3)} commits/unit`,
  );
  return { rate };
}

const unitName = (i: number): string => `unit-${String(i).padStart(9, "0")}`;
const data = (i: number) => encodeData({ n: i, path: "/some/where" });

// ---- this store

async function coordinate(waiting: number): Promise<{ best: number; single: number }> {
  const url = await server.createDatabase();
  const store = await openPostgres({ url, poolSize: 20 });
  const engine = new Engine(store);
  await engine.setWorkSpecs("", [{ data: encodeData({ name: "s" }) }]);
  let next = 0;
  const add = async (count: number): Promise<number> => {
    const from = next;
    next += count;
    await engine.addWorkUnits(
      "",
      "s",
      Array.from({ length: count }, (_, i) => ({ name: unitName(from + i), data: data(from + i) })),
    );
    return count;
  };
  const label = `coordinate, ${waiting.toLocaleString("en")} waiting:`;
  await measure(`${label} adds of 1, 8 at once`, url, 8, () => add(1));
  await measure(`${label} adds of 1,000`, url, 1, () => add(1000), waiting);
  await measure(`${label} adds of 10,000 (COPY)`, url, 1, () => add(10_000), Math.max(waiting, 100_000));
  await measure(
    `${label} adds of 10,000 (COPY), 2 at once`,
    url,
    2,
    () => add(10_000),
    Math.max(waiting, 100_000),
  );
  while (next < waiting) await add(10_000);
  let best = 0;
  let single = 0;
  for (const batch of [1, 10, 100, 1000])
    for (const claimers of [1, 2, 8]) {
      const { rate } = await measure(
        `${label} claim+finish of ${batch}, ${claimers} at once`,
        url,
        claimers,
        async (who) => {
          const attempts = await engine.requestAttempts("", { worker: `w${who}`, number: batch });
          if (attempts.length < batch) await add(10_000);
          if (attempts.length === 0) return 1e-9;
          await engine.settleAttempts(
            "",
            attempts.map(({ id }) => ({ attempt: id, action: "finish" as const })),
          );
          return attempts.length;
        },
      );
      if (batch === 1) single = Math.max(single, rate);
      best = Math.max(best, rate);
    }
  await engine.close();
  return { best, single };
}

// ---- the least that a table can do

async function raw(waiting: number): Promise<number> {
  const url = await server.createDatabase();
  const pool = new pg.Pool({
    connectionString: url,
    max: 8,
    options: "-c plan_cache_mode=force_generic_plan -c enable_seqscan=off",
  });
  await pool.query(`
    CREATE TABLE raw (id bigint PRIMARY KEY, spec bigint NOT NULL, place float8 NOT NULL, name bytea NOT NULL, status smallint NOT NULL,
      attempts int NOT NULL DEFAULT 0, worker bytea, started bigint, expiration bigint, ended bigint, data bytea);
    CREATE UNIQUE INDEX raw_name ON raw (spec, name);
    CREATE INDEX raw_ready ON raw (spec, place, name) WHERE status = 0;
    CREATE INDEX raw_lease ON raw (spec, expiration) WHERE status = 3;
    INSERT INTO raw (id, spec, place, name, status, data)
      SELECT i, 1, 0, convert_to('unit-' || lpad(i::text, 9, '0'), 'UTF8'), 0, '\\x7b7d' FROM generate_series(1, ${waiting + 500_000}) AS i;`);
  let best = 0;
  for (const batch of [100, 1000])
    for (const claimers of [1, 2, 8]) {
      const { rate } = await measure(
        `raw table: claim+settle of ${batch}, ${claimers} at once`,
        url,
        claimers,
        async () => {
          const { rows } = await pool.query<{ id: string }>({
            name: "claim",
            text: `WITH picked AS MATERIALIZED (
              SELECT id FROM raw WHERE spec = 1 AND status = 0 ORDER BY place, name LIMIT $1 FOR UPDATE SKIP LOCKED)
            UPDATE raw u SET status = 3, attempts = attempts + 1, worker = 'w', started = 1, expiration = 9e12 FROM picked p
            WHERE u.id = p.id RETURNING u.id, u.name, u.attempts, u.data`,
            values: [batch],
          });
          await pool.query({
            name: "settle",
            text: "UPDATE raw SET status = 4, ended = 2 WHERE id = ANY ($1::bigint[]) AND status = 3",
            values: [rows.map(({ id }) => id)],
          });
          return rows.length;
        },
      );
      best = Math.max(best, rate);
    }
  await pool.end();
  return best;
}

// ---- peers; named by variables, so that nobody needs their types

async function graphile(): Promise<{ best: number; single: number } | null> {
  const name = "graphile-worker";
  const worker = (await import(name).catch(() => null)) as {
    run(options: object): Promise<{ stop(): Promise<void> }>;
    makeWorkerUtils(options: object): Promise<{ migrate(): Promise<void>; release(): Promise<void> }>;
    Logger: new (factory: () => () => void) => unknown;
  } | null;
  if (worker === null) return null;
  const url = await server.createDatabase();
  const logger = new worker.Logger(() => () => undefined);
  const utils = await worker.makeWorkerUtils({ connectionString: url, logger });
  await utils.migrate();
  const add = (count: number): Promise<unknown> =>
    query(
      url,
      `SELECT count(*) FROM graphile_worker.add_jobs(ARRAY(
      SELECT json_populate_record(NULL::graphile_worker.job_spec, json_build_object('identifier', 't', 'payload', json_build_object('n', i)))
      FROM generate_series(1, ${count}) AS i))`,
    );
  await measure("graphile-worker: adds of 1,000", url, 1, async () => {
    await add(1000);
    return 1000;
  });
  const results = { best: 0, single: 0 };
  for (const batched of [false, true]) {
    await query(url, "TRUNCATE graphile_worker._private_jobs");
    const jobs = batched ? 200_000 : 20_000;
    for (let i = 0; i < jobs; i += 10_000) await add(10_000);
    // their plans depend on statistics, which autovacuum would bring within a minute
    await query(url, "VACUUM ANALYZE");
    let done = 0;
    const start = performance.now();
    const runner = await worker.run({
      connectionString: url,
      logger,
      concurrency: batched ? 100 : 8,
      maxPoolSize: 10,
      pollInterval: 100,
      noHandleSignals: true,
      preset: batched
        ? { worker: { localQueue: { size: 1000 }, completeJobBatchDelay: 0, failJobBatchDelay: 0 } }
        : {},
      taskList: {
        t: () => {
          done++;
        },
      },
    });
    while (done < jobs && performance.now() - start < seconds * 2000)
      await new Promise((resolve) => setTimeout(resolve, 5));
    const rate = done / ((performance.now() - start) / 1000);
    await runner.stop();
    console.log(
      `graphile-worker: ${batched ? "batched (local queue of 1,000, 100 at once)" : "unbatched, 8 at once"}: ${Math.round(rate).toLocaleString("en")}/s`,
    );
    if (batched) results.best = rate;
    else results.single = rate;
  }
  await utils.release();
  return results;
}

async function boss(): Promise<number | null> {
  const name = "pg-boss";
  const module = (await import(name).catch(() => null)) as { PgBoss?: unknown; default?: unknown } | null;
  if (module === null) return null;
  interface Boss {
    on(event: string, listener: () => void): void;
    start(): Promise<void>;
    stop(options: object): Promise<void>;
    createQueue(name: string): Promise<void>;
    insert(queue: string, jobs: object[]): Promise<unknown>;
    fetch(queue: string, options: object): Promise<{ id: string }[]>;
    complete(queue: string, ids: string[]): Promise<unknown>;
  }
  const PgBoss = (module.PgBoss ?? module.default) as new (options: object) => Boss;
  const url = await server.createDatabase();
  const instance = new PgBoss({ connectionString: url, max: 10 });
  instance.on("error", () => undefined);
  await instance.start();
  await instance.createQueue("q");
  const add = async (count: number): Promise<number> => {
    await instance.insert(
      "q",
      Array.from({ length: count }, (_, n) => ({ data: { n, path: "/some/where" } })),
    );
    return count;
  };
  await measure("pg-boss: adds of 1,000", url, 1, () => add(1000), 100_000);
  for (let i = 0; i < 300_000; i += 10_000) await add(10_000);
  await query(url, "VACUUM ANALYZE");
  let best = 0;
  for (const [batch, at] of [
    [1, 8],
    [100, 1],
    [100, 8],
    [1000, 1],
    [1000, 8],
  ] as const) {
    const { rate } = await measure(
      `pg-boss: fetch+complete of ${batch}, ${at} at once`,
      url,
      at,
      async () => {
        const jobs = await instance.fetch("q", { batchSize: batch });
        if (jobs.length === 0) return 0;
        await instance.complete(
          "q",
          jobs.map(({ id }) => id),
        );
        return jobs.length;
      },
    );
    best = Math.max(best, rate);
  }
  await instance.stop({ graceful: false });
  return best;
}

// ---- a reader that pins the horizon

async function held(): Promise<void> {
  const url = await server.createDatabase();
  const store = await openPostgres({ url, poolSize: 10 });
  const engine = new Engine(store);
  await engine.setWorkSpecs("", [{ data: encodeData({ name: "s" }) }]);
  let next = 0;
  const add = async (): Promise<void> => {
    const from = next;
    next += 10_000;
    await engine.addWorkUnits(
      "",
      "s",
      Array.from({ length: 10_000 }, (_, i) => ({ name: unitName(from + i), data: data(i) })),
    );
  };
  for (let i = 0; i < 10; i++) await add();
  const work = async (who: number): Promise<number> => {
    const attempts = await engine.requestAttempts("", { worker: `w${who}`, number: 100 });
    if (attempts.length < 100) await add();
    if (attempts.length === 0) return 1e-9;
    await engine.settleAttempts(
      "",
      attempts.map(({ id }) => ({ attempt: id, action: "finish" as const })),
    );
    return attempts.length;
  };
  const before = await measure("held snapshot: before, 2 at once", url, 2, work);
  const reader = new pg.Client({ connectionString: url });
  await reader.connect();
  await reader.query("BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM coordinate.unit");
  const end = performance.now() + Number(given.hold) * 1000;
  while (performance.now() < end) await work(0);
  const after = await measure(`held snapshot: after ${given.hold} s, 2 at once`, url, 2, work);
  await reader.query("ROLLBACK");
  await reader.end();
  console.log(
    `under a held snapshot: ${Math.round((100 * after.rate) / before.rate)} % of the rate before\n`,
  );
  await engine.close();
}

try {
  const ours: { best: number; single: number }[] = [];
  for (const size of sizes) {
    ours.push(await coordinate(size));
    console.log();
  }
  const best = Math.max(...ours.map((one) => one.best));
  const single = Math.max(...ours.map((one) => one.single));
  if (!skip.has("raw")) console.log(`ratio to the raw table: ${(best / (await raw(10_000))).toFixed(2)}\n`);
  if (!skip.has("peers")) {
    const g = await graphile();
    const b = await boss();
    if (g !== null)
      console.log(
        `ratio to graphile-worker: batched ${(best / g.best).toFixed(2)}, unbatched ${(single / g.single).toFixed(2)}`,
      );
    if (b !== null) console.log(`ratio to pg-boss: ${(best / b).toFixed(2)}`);
    console.log();
  }
  if (!skip.has("hold")) await held();
} finally {
  await server.stop();
}
