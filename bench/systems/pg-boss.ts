/** pg-boss. The import takes the package name from a variable, so that this file type-checks without the package. */
import pg from "pg";
import { payload, type Driver, type UnitData, type WorkSetting } from "./driver.ts";

interface Boss {
  on(event: string, listener: () => void): void;
  start(): Promise<unknown>;
  stop(options: object): Promise<void>;
  createQueue(name: string, options: object): Promise<void>;
  insert(queue: string, jobs: object[]): Promise<unknown>;
  send(queue: string, data: object): Promise<unknown>;
  work(
    queue: string,
    options: object,
    handler: (jobs: { data: UnitData }[]) => Promise<void>,
  ): Promise<string>;
}

/** Fetches again at once as long as batches are full. */
const batched = { batchSize: 1000, localConcurrency: 4, burstWhenBatchFull: true };

export async function pgBossDriver(url: string): Promise<Driver> {
  const name = "pg-boss";
  const { PgBoss } = (await import(name)) as { PgBoss: new (options: object) => Boss };
  const boss = new PgBoss({ connectionString: url, max: 10, useListenNotify: true });
  boss.on("error", () => undefined);
  await boss.start();
  await boss.createQueue("q", { notify: true });
  return {
    async fill(count) {
      for (let left = count; left > 0; left -= 10_000)
        await boss.insert(
          "q",
          Array.from({ length: Math.min(10_000, left) }, (_, n) => ({ data: payload(n) })),
        );
      if (count <= 1000) return;
      const client = new pg.Client({ connectionString: url });
      await client.connect();
      await client.query("VACUUM ANALYZE");
      await client.end();
    },
    async add(data) {
      await boss.send("q", { ...payload(0), ...data });
    },
    async work(task, { how, atOnce }: WorkSetting) {
      let done = 0;
      const options =
        how === "best" ? batched : { pollingIntervalSeconds: 0.5, localConcurrency: atOnce ?? 1 };
      await boss.work("q", how === "defaults" ? {} : options, async (jobs) => {
        await Promise.all(jobs.map(async ({ data }) => task(data)));
        done += jobs.length;
      });
      return { done: () => done, stop: () => Promise.resolve() };
    },
    close: () => boss.stop({ graceful: false }),
  };
}
