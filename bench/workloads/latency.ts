/** The time from adding a unit to the start of its task, in the same setup for all systems: a process that adds, a worker, and a server. */
import { quantile, sleep } from "../machine.ts";
import { startSubject } from "../subjects.ts";
import type { Place, System, SystemName } from "../systems.ts";
import { forSystems, scaled, type Measured, type Workload } from "./workload.ts";

async function addToStart(
  system: System,
  { address }: Place,
  units: { warm: number; count: number; pauseMs: number },
): Promise<Measured> {
  const listener = startSubject(system.name, address, { role: "listen", ...units });
  await listener.ready;
  await sleep(300);
  const sender = startSubject(system.name, address, { role: "send", ...units });
  try {
    await sender.result;
    const { times } = await listener.result;
    const [p50, p95, p99] = [0.5, 0.95, 0.99].map((share) => quantile(times, share));
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
    "One process adds a unit every 15 ms, another runs the worker, the system's server between them. The time is that from before the add to the first line of the task. Idle: after 1,000 units, 4 ms apart. Just started: after 30, while Node still compiles the code of all processes. Back to back: 1 ms apart.",
  cases: (scale) => {
    const measured = (
      name: string,
      systems: readonly SystemName[],
      warm: number,
      count: number,
      pauseMs: number,
    ) =>
      forSystems(systems, (system) => ({
        name,
        unit: "ms",
        measure: (at) =>
          addToStart(system, at, { warm: scaled(warm, scale), count: scaled(count, scale, 10), pauseMs }),
      }));
    if (scale.quick) return measured("idle", idle, 1000, 150, 15);
    return [
      ...measured("idle", [...idle, "pg_boss"], 1000, 300, 15),
      ...measured("just started", idle, 30, 270, 15),
      ...measured("back to back", ["daemon_memory", "daemon", "bullmq", "bullmq_aof"], 1000, 1000, 1),
    ];
  },
};
