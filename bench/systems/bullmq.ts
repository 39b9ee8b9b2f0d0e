/** BullMQ on a private Redis. The import takes the package name from a variable, so that this file type-checks without the package. */
import { payload, type Driver, type UnitData, type WorkSetting } from "./driver.ts";

interface BullMq {
  Queue: new (
    name: string,
    options: object,
  ) => {
    add(name: string, data: object): Promise<unknown>;
    addBulk(jobs: object[]): Promise<unknown>;
    close(): Promise<void>;
  };
  Worker: new (
    name: string,
    processor: (job: { data: UnitData }) => Promise<void>,
    options: object,
  ) => {
    on(event: "completed", listener: () => void): void;
    waitUntilReady(): Promise<unknown>;
    close(force?: boolean): Promise<void>;
  };
}

/** The fastest of 25, 50, 100 and 300 on two cores. */
const bestConcurrency = 100;

export async function bullmqDriver(port: string): Promise<Driver> {
  const name = "bullmq";
  const { Queue, Worker } = (await import(name)) as BullMq;
  const connection = { host: "127.0.0.1", port: Number(port) };
  const queue = new Queue("q", { connection });
  return {
    async fill(count) {
      for (let left = count; left > 0; left -= 5000)
        await queue.addBulk(
          Array.from({ length: Math.min(5000, left) }, (_, n) => ({ name: "t", data: payload(n) })),
        );
    },
    async add(data) {
      await queue.add("t", { ...payload(0), ...data });
    },
    async work(task, { how, atOnce }: WorkSetting) {
      let done = 0;
      const concurrency = how === "best" ? bestConcurrency : (atOnce ?? 1);
      const worker = new Worker("q", async ({ data }) => task(data), { connection, concurrency });
      worker.on("completed", () => done++);
      await worker.waitUntilReady();
      return { done: () => done, stop: () => worker.close(true) };
    },
    close: () => queue.close(),
  };
}
