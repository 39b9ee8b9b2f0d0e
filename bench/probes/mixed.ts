/** Everything at once: adds, chained work specs, lease renewals, and the reads of a dashboard page. The figure is finished units per second. */
import { encodeData, handles } from "../../src/index.ts";
import { silentLogger, Worker } from "../../src/worker/index.ts";
import { quantile, sleep } from "../machine.ts";
import { openCoordinate } from "../systems/coordinate.ts";
import { addUnits } from "./claims.ts";
import type { Probe } from "./probe.ts";

export const mixed: Probe = async (address, factor) => {
  const coordinate = await openCoordinate(address);
  const ns = handles(coordinate).namespace("mixed");
  await coordinate.setWorkSpecs("mixed", [
    { data: encodeData({ name: "s", then: "t" }) },
    { data: encodeData({ name: "t" }) },
    { data: encodeData({ name: "long" }) },
  ]);
  const ms = 5000 * Math.min(1, factor);
  let n = 0;
  const worker = new Worker(ns, {
    log: silentLogger,
    concurrency: 20,
    lifetimeMs: 10_000,
    tasks: {
      s: () => ({ output: { [`then-${n++}`]: {} } }),
      t: () => undefined,
      long: async (_unit, { renew }) => {
        await sleep(ms / 4);
        await renew();
      },
    },
  });
  await coordinate.addWorkUnits(
    "mixed",
    "long",
    Array.from({ length: 5 }, (_, i) => ({ name: `long-${i}`, data: encodeData({}) })),
  );
  const ran = worker.run();
  const start = performance.now();
  const isOver = (): boolean => performance.now() - start > ms;
  const looks: number[] = [];
  await Promise.all([
    ...[1, 1, 100].map(async (count) => {
      while (!isOver()) {
        await addUnits(coordinate, "mixed", count);
        if (count > 1) await sleep(20);
      }
    }),
    (async () => {
      while (!isOver()) {
        const before = performance.now();
        await coordinate.tally("mixed");
        await coordinate.listWorkUnits("mixed", "t", { statuses: ["finished"], limit: 50 });
        looks.push(performance.now() - before);
        await sleep(50);
      }
    })(),
  ]);
  const finished = worker.counts.finished;
  const seconds = (performance.now() - start) / 1000;
  await worker.stop();
  await ran;
  await coordinate.close();
  return {
    value: finished / seconds,
    "a look, p50 ms": quantile(looks, 0.5),
    "a look, p99 ms": quantile(looks, 0.99),
  };
};
