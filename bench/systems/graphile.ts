/** graphile-worker. The import takes the package name from a variable, so that this file type-checks without the package. */
import pg from "pg";
import type { Driver, UnitData, WorkSetting } from "./driver.ts";

interface Graphile {
  run: (options: object) => Promise<{ stop(): Promise<void> }>;
  makeWorkerUtils: (options: object) => Promise<{
    migrate(): Promise<void>;
    addJob(task: string, payload: object): Promise<unknown>;
    release(): Promise<void>;
  }>;
  Logger: new (factory: () => () => void) => unknown;
}

/** The batch settings of its page on performance. The fastest of local queues of 500 and 1,000, with 10, 24 and 100 at once. */
const batched = { localQueue: { size: 500 }, completeJobBatchDelay: 0, failJobBatchDelay: 0 };

export async function graphileDriver(url: string): Promise<Driver> {
  const name = "graphile-worker";
  const { run, makeWorkerUtils, Logger } = (await import(name)) as Graphile;
  const logger = new Logger(() => () => undefined);
  const pool = new pg.Pool({ connectionString: url, max: 30 });
  const utils = await makeWorkerUtils({ pgPool: pool, logger });
  await utils.migrate();
  return {
    async fill(count) {
      for (let left = count; left > 0; left -= 10_000)
        await pool.query(
          `SELECT count(*) FROM graphile_worker.add_jobs(ARRAY(
             SELECT json_populate_record(NULL::graphile_worker.job_spec,
               json_build_object('identifier', 't', 'payload', json_build_object('n', i, 'path', '/some/where')))
             FROM generate_series(1, ${Math.min(left, 10_000)}) AS i))`,
        );
      // its query plans depend on statistics, which autovacuum would collect within a minute
      if (count > 1000) await pool.query("VACUUM ANALYZE");
    },
    async add(data) {
      await utils.addJob("t", { n: 0, path: "/some/where", ...data });
    },
    async work(task, { how, atOnce }: WorkSetting) {
      let done = 0;
      const runner = await run({
        connectionString: url,
        logger,
        noHandleSignals: true,
        maxPoolSize: Math.max(10, (atOnce ?? 1) + 1),
        ...(how === "best" && { concurrency: 24, maxPoolSize: 25, preset: { worker: batched } }),
        ...(atOnce !== undefined && { concurrency: atOnce }),
        taskList: {
          t: async (data: UnitData) => {
            await task(data);
            done++;
          },
        },
      });
      return { done: () => done, stop: () => runner.stop() };
    },
    async close() {
      await utils.release();
      await pool.end();
    },
  };
}
