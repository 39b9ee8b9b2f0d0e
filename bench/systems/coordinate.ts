/** This system: embedded, on one of its stores, or through a daemon. */
import path from "node:path";
import { encodeData, Engine, handles, type Coordinate } from "../../src/index.ts";
import { MemoryStore } from "../../src/memory/index.ts";
import { openPostgres } from "../../src/postgres/index.ts";
import { RestClient } from "../../src/rest/client.ts";
import { openSqlite } from "../../src/sqlite/index.ts";
import { silentLogger, Worker, type WorkerOptions } from "../../src/worker/index.ts";
import { payload, type Driver, type WorkSetting } from "./driver.ts";

/** `address`: `memory:`, a directory for an SQLite file, `postgres://…`, or the `http://…` of a daemon. */
export async function openCoordinate(address: string): Promise<Coordinate> {
  if (address === "memory:") return new Engine(new MemoryStore());
  if (address.startsWith("http:")) return new RestClient(address);
  if (address.startsWith("postgres:")) return new Engine(await openPostgres({ url: address }));
  return new Engine(await openSqlite(path.join(address, "store.sqlite")));
}

const namespace = "bench";
const workSpec = "s";

export async function coordinateDriver(address: string): Promise<Driver> {
  const coordinate = await openCoordinate(address);
  const ns = handles(coordinate).namespace(namespace);
  const spec = await ns.setWorkSpec({ name: workSpec, runtime: "node" });
  const mark = process.pid.toString(36);
  let next = 0;
  const unitName = (): string => `unit-${mark}-${String(next++).padStart(9, "0")}`;
  return {
    async fill(count) {
      for (let left = count; left > 0; left -= 5000)
        await spec.addWorkUnits(
          Array.from({ length: Math.min(5000, left) }, (_, n) => [unitName(), payload(n)]),
        );
    },
    async add(data) {
      await coordinate.addWorkUnits(namespace, workSpec, [
        { name: unitName(), data: encodeData({ ...payload(next), ...data }) },
      ]);
    },
    work(task, setting) {
      const worker = new Worker(ns, {
        ...workerOptions(setting),
        log: silentLogger,
        tasks: { [workSpec]: ({ data }) => task(data) },
      });
      const ran = worker.run();
      return Promise.resolve({
        done: () => worker.counts.finished,
        stop: async () => {
          await worker.stop();
          await ran;
        },
      });
    },
    close: () => coordinate.close(),
  };
}

function workerOptions({ how, atOnce, lifetimeMs }: WorkSetting): WorkerOptions {
  if (how === "single") return { concurrency: atOnce ?? 1, maxAttempts: 1 };
  return {
    ...(atOnce !== undefined && { concurrency: atOnce }),
    // long enough that the worker renews its leases until the process is killed
    ...(lifetimeMs !== undefined && { lifetimeMs, renewForMs: 600_000 }),
  };
}
