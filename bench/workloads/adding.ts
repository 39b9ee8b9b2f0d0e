/** Adds: one by one with 50 in flight, and in bulk. */
import { startSubject } from "../subjects.ts";
import { forSystems, scaled, type Workload } from "./workload.ts";
import type { SystemName } from "../systems.ts";

const all: readonly SystemName[] = [
  "memory",
  "sqlite",
  "daemon_memory",
  "daemon",
  "postgres",
  "bullmq_aof",
  "bullmq",
  "graphile",
  "pg_boss",
];

export const adding: Workload = {
  name: "add",
  title: "Adding units",
  about: "One by one: 50 requests in flight from one process. In bulk: 5,000 or 10,000 a call.",
  cases: (scale) =>
    (["one by one, 50 in flight", "in bulk"] as const).flatMap((name) =>
      forSystems(all, (system) => ({
        name,
        unit: "units/s",
        measure: async ({ address }) => {
          const { result, process } = startSubject(system.name, address, {
            role: "add",
            units: scaled(100_000, scale, 100),
            inFlight: name === "in bulk" ? 0 : 50,
            seconds: Math.min(2, 2 * scale.factor),
          });
          try {
            return { value: (await result).rate };
          } finally {
            process.kill("SIGKILL");
          }
        },
      })),
    ),
};
