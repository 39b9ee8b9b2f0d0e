/**
 * What the postgres store is measured beside: two other queues on PostgreSQL, each used as its documentation says is fastest,
 * and the least that a table can do. They are named by variables, so that nobody needs their types; what is not installed
 * is left out.
 */
import pg from "pg";
import { query } from "../test/postgres/server.ts";

/** Says when what is measured begins and ends, where that is not the whole of a run. */
export interface Meter {
  begin: () => Promise<void>;
  end: () => Promise<void>;
}

/** One of those that take turns. */
export interface Contender {
  name: string;
  url: string;
  add: (count: number) => Promise<number>;
  /** Claims and finishes one by one, by so many at once. */
  single: (at: number, seconds: number, meter: Meter) => Promise<Run>;
  /** The same in the largest batches that make sense, by so many at once. */
  batched: (at: number, seconds: number, meter: Meter) => Promise<Run>;
  /** How many at once `batched` is worth measuring with. */
  batchedAt: readonly number[];
  close: () => Promise<void>;
}

export interface Run {
  done: number;
  seconds: number;
}

/** Runs `work` by so many at once until the time is over; it answers how many units it did. */
export async function inTime(
  at: number,
  seconds: number,
  work: (who: number) => Promise<number>,
  limit = Infinity,
): Promise<Run> {
  const start = performance.now();
  let done = 0;
  await Promise.all(
    Array.from({ length: at }, async (_, who) => {
      while (performance.now() - start < seconds * 1000 && done < limit) {
        // not `done += await …`, which would add to what it was before the others had their turn
        const count = await work(who);
        done += count;
      }
    }),
  );
  return { done, seconds: (performance.now() - start) / 1000 };
}

// ---- graphile-worker

export async function graphile(url: string): Promise<Contender | null> {
  const name = "graphile-worker";
  const worker = (await import(name).catch(() => null)) as {
    run(options: object): Promise<{ stop(): Promise<void> }>;
    makeWorkerUtils(options: object): Promise<{ migrate(): Promise<void>; release(): Promise<void> }>;
    Logger: new (factory: () => () => void) => unknown;
  } | null;
  if (worker === null) return null;
  const logger = new worker.Logger(() => () => undefined);
  const utils = await worker.makeWorkerUtils({ connectionString: url, logger });
  await utils.migrate();
  const client = new pg.Client({ connectionString: url });
  await client.connect();
  const add = async (count: number): Promise<number> => {
    await client.query(
      `SELECT count(*) FROM graphile_worker.add_jobs(ARRAY(
         SELECT json_populate_record(NULL::graphile_worker.job_spec,
           json_build_object('identifier', 't', 'payload', json_build_object('n', i, 'path', '/some/where')))
         FROM generate_series(1, ${count}) AS i))`,
    );
    return count;
  };
  const run = async (jobs: number, seconds: number, meter: Meter, options: object): Promise<Run> => {
    await query(url, "TRUNCATE graphile_worker._private_jobs");
    for (let i = 0; i < jobs; i += 10_000) await add(10_000);
    // their plans depend on statistics, which autovacuum would bring within a minute
    await query(url, "VACUUM ANALYZE");
    let done = 0;
    const runner = await worker.run({
      connectionString: url,
      logger,
      maxPoolSize: 10,
      pollInterval: 100,
      noHandleSignals: true,
      taskList: {
        t: () => {
          done++;
        },
      },
      ...options,
    });
    const pause = (): Promise<void> => new Promise((resolve) => setTimeout(resolve, 2));
    // from the first job on: that it takes a moment to start is not what is measured
    while (done === 0) await pause();
    await meter.begin();
    const [before, start] = [done, performance.now()];
    while (done < jobs && performance.now() - start < seconds * 1000) await pause();
    const answer = { done: done - before, seconds: (performance.now() - start) / 1000 };
    await meter.end();
    await runner.stop();
    return answer;
  };
  return {
    name,
    url,
    add,
    single: (at, seconds, meter) =>
      run(10_000 * Math.ceil(seconds), seconds, meter, { concurrency: at, preset: {} }),
    batched: (at, seconds, meter) =>
      run(40_000 * Math.ceil(seconds), seconds, meter, {
        concurrency: at,
        preset: { worker: { localQueue: { size: 1000 }, completeJobBatchDelay: 0, failJobBatchDelay: 0 } },
      }),
    batchedAt: [100],
    async close() {
      await client.end();
      await utils.release();
    },
  };
}

// ---- pg-boss

export async function boss(url: string): Promise<Contender | null> {
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
  // as for graphile-worker: enough to do, and statistics that know of it
  for (let i = 0; i < 50_000; i += 10_000) await add(10_000);
  await query(url, "VACUUM ANALYZE");
  const run = (batch: number, at: number, seconds: number): Promise<Run> =>
    inTime(at, seconds, async () => {
      const jobs = await instance.fetch("q", { batchSize: batch });
      if (jobs.length < batch) await add(10_000);
      if (jobs.length === 0) return 0;
      await instance.complete(
        "q",
        jobs.map(({ id }) => id),
      );
      return jobs.length;
    });
  return {
    name,
    url,
    add,
    single: (at, seconds) => run(1, at, seconds),
    batched: (at, seconds) => run(1000, at, seconds),
    batchedAt: [8],
    close: () => instance.stop({ graceful: false }),
  };
}

// ---- the least that a table can do

/** Claims and settles on a bare table with the same indexes: no history, no counts, no guards. */
export async function rawTable(url: string, units: number) {
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
      SELECT i, 1, 0, convert_to('unit-' || lpad(i::text, 9, '0'), 'UTF8'), 0, '\\x7b7d' FROM generate_series(1, ${units}) AS i;`);
  return {
    url,
    batched: (at: number, seconds: number): Promise<Run> =>
      inTime(at, seconds, async () => {
        const { rows } = await pool.query<{ id: string }>({
          name: "claim",
          text: `WITH picked AS MATERIALIZED (
            SELECT id FROM raw WHERE spec = 1 AND status = 0 ORDER BY place, name LIMIT $1 FOR UPDATE SKIP LOCKED)
          UPDATE raw u SET status = 3, attempts = attempts + 1, worker = 'w', started = 1, expiration = 9e12 FROM picked p
          WHERE u.id = p.id RETURNING u.id, u.name, u.attempts, u.data`,
          values: [1000],
        });
        await pool.query({
          name: "settle",
          text: "UPDATE raw SET status = 4, ended = 2 WHERE id = ANY ($1::bigint[]) AND status = 3",
          values: [rows.map(({ id }) => id)],
        });
        return rows.length;
      }),
    close: () => pool.end(),
  };
}
