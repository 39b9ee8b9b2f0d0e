/** The processor time of 100 idle workers. The caller of the probe measures that of the daemon. */
import { handles } from "../../src/index.ts";
import { silentLogger, Worker } from "../../src/worker/index.ts";
import { sleep } from "../machine.ts";
import { openCoordinate } from "../systems/coordinate.ts";
import type { Probe } from "./probe.ts";

export const idle: Probe = async (address, factor) => {
  for (let i = 0; i < 100; i++) {
    const ns = handles(await openCoordinate(address)).namespace("idle");
    void new Worker(ns, { log: silentLogger, tasks: { s: () => undefined } }).run();
  }
  await sleep(3000 * Math.min(1, factor));
  process.send?.("ready");
  const cpu = process.cpuUsage();
  const start = performance.now();
  await sleep(20_000 * Math.min(1, factor));
  const { user, system } = process.cpuUsage(cpu);
  return { value: (user + system) / 10 / (performance.now() - start) };
};
