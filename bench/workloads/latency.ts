/** The time from adding a unit to the start of its task, in the same setup for all systems: a process that adds, a worker, and a server. */
import { quantile, sleep } from "../machine.ts";
import { startSubject } from "../subjects.ts";
import type { Place, System, SystemName } from "../systems.ts";
import { forSystems, scaled, type Measured, type Workload } from "./workload.ts";

async function addToStart(
  system: System,
  { address }: Place,
  count: number,
  pauseMs: number,
): Promise<Measured> {
  const listener = startSubject(system.name, address, { role: "listen", count });
  await listener.ready;
  await sleep(300);
  const sender = startSubject(system.name, address, { role: "send", count, pauseMs });
  try {
    await sender.result;
    const { times } = await listener.result;
    // the first tenth is not counted: it compiles the code
    const warm = times.slice(Math.floor(times.length / 10));
    const [p50, p95, p99] = [0.5, 0.95, 0.99].map((share) => quantile(warm, share));
    return { value: p50 ?? NaN, detail: { p50: p50 ?? NaN, p95: p95 ?? NaN, p99: p99 ?? NaN } };
  } finally {
    listener.process.kill("SIGKILL");
    sender.process.kill("SIGKILL");
  }
}

const idle: readonly SystemName[] = [
  "daemon_memory",
  "daemon",
  "bullmq",
  "bullmq_aof",
  "bullmq_sync",
  "postgres",
  "graphile",
];

export const latency: Workload = {
  name: "latency",
  title: "From adding to the start of the task",
  about:
    "One process adds a unit every 15 ms, another runs the worker, the system's server between them. The time is that from before the add to the first line of the task. Idle otherwise.",
  cases: (scale) => [
    ...forSystems(scale.quick ? idle : [...idle, "pg_boss"], (system) => ({
      name: "idle",
      unit: "ms",
      measure: (at) => addToStart(system, at, scaled(scale.quick ? 120 : 300, scale, 10), 15),
    })),
    ...(scale.quick
      ? []
      : forSystems(["daemon_memory", "daemon", "bullmq", "bullmq_aof"], (system) => ({
          name: "back to back",
          unit: "ms",
          measure: (at: Place) => addToStart(system, at, scaled(1000, scale, 10), 1),
        }))),
  ],
};
