/** Workers that process units: no-ops with the best settings and with defaults, one by one, and tasks that take a while. */
import { startSubject } from "../subjects.ts";
import type { Place, System, SystemName } from "../systems.ts";
import type { WorkSetting } from "../systems/driver.ts";
import { forSystems, scaled, type Case, type Measured, type Scale, type Workload } from "./workload.ts";

interface Load {
  units: number;
  warm: number;
  seconds: number;
  processes: number;
  taskMs?: number;
  setting: WorkSetting;
}

/** Fills the queue, starts `processes` workers together, and measures their combined rate. */
export async function processUnits(system: System, { address }: Place, load: Load): Promise<Measured> {
  const { units, warm, seconds, processes, taskMs = 0, setting } = load;
  const role = { role: "work" as const, warm, seconds, taskMs, setting, units };
  const first = startSubject(system.name, address, { ...role, fill: units });
  await first.ready;
  const more = Array.from({ length: processes - 1 }, () =>
    startSubject(system.name, address, { ...role, fill: 0 }),
  );
  const all = [first, ...more];
  try {
    await Promise.all(more.map(({ ready }) => ready));
    for (const { go } of all) go();
    const results = await Promise.all(all.map(({ result }) => result));
    const from = Math.min(...results.map((one) => one.from));
    const to = Math.max(...results.map((one) => one.to));
    const done = results.reduce((sum, one) => sum + one.done, 0);
    const cpu = results.reduce((sum, one) => sum + one.cpuMicros * one.done, 0) / Math.max(1, done);
    return { value: (done * 1000) / Math.max(1, to - from), detail: { worker_cpu_us: cpu } };
  } finally {
    for (const { process } of all) process.kill("SIGKILL");
  }
}

/** Enough units to measure the slowest system for about two seconds and the fastest for about one. */
const noops: Partial<Record<SystemName, number>> = {
  memory: 400_000,
  sqlite: 200_000,
  daemon: 200_000,
  daemon_memory: 200_000,
  postgres: 120_000,
  bullmq_aof: 60_000,
  bullmq_sync: 60_000,
  bullmq: 60_000,
  graphile: 120_000,
  pg_boss: 150_000,
  bare_table: 200_000,
};

const perUnit = "units/s";

function noopCases(
  scale: Scale,
  processes: number,
  how: "best" | "defaults",
  names: readonly SystemName[],
): Case[] {
  return forSystems(names, (system) => ({
    name: `${processes === 1 ? "1 process" : `${processes} processes`}, ${how === "best" ? "best settings" : "defaults"}`,
    unit: perUnit,
    measure: (at) => {
      const units = scaled(noops[system.name as SystemName] ?? 50_000, scale, 200);
      return processUnits(system, at, {
        units,
        warm: Math.round(units / 6 / processes),
        seconds: 8,
        processes,
        setting: { how },
      });
    },
  }));
}

export const noop: Workload = {
  name: "process",
  title: "Tasks that do nothing",
  about:
    "The queue is filled first. Measured from the first sixth of the units to the last one. Best settings: the fastest documented for each system; every attempt is kept by Coordinate.",
  cases: (scale) => {
    const durable: readonly SystemName[] = [
      "sqlite",
      "daemon",
      "postgres",
      "bullmq_aof",
      "bullmq_sync",
      "graphile",
      "pg_boss",
    ];
    const main = noopCases(scale, 1, "best", ["memory", ...durable]);
    if (scale.quick) return main;
    return [
      ...main,
      ...noopCases(scale, 1, "best", ["daemon_memory", "bullmq"]),
      ...noopCases(scale, 2, "best", durable.slice(1)),
      ...noopCases({ ...scale, factor: scale.factor / 4 }, 1, "defaults", ["bullmq_aof", "graphile"]),
    ];
  },
};

export const single: Workload = {
  name: "single",
  title: "One by one on PostgreSQL",
  about:
    "Each unit is claimed by itself, so many at once, by one worker process. While its slots wait, Coordinate's worker has up to 8 such claims under way, and the store serves those of one moment in one statement.",
  cases: (scale) =>
    (scale.quick ? [1] : [1, 8, 32]).flatMap((atOnce) =>
      forSystems(
        scale.quick ? ["postgres", "graphile"] : ["postgres", "graphile", "bare_table"],
        (system) => ({
          name: `${atOnce} at once`,
          unit: perUnit,
          measure: (at) => {
            const units = scaled(atOnce === 1 ? 4000 : 15_000, scale, 100);
            return processUnits(system, at, {
              units,
              warm: Math.round(units / 10),
              seconds: 4,
              processes: 1,
              setting: { how: "single", atOnce },
            });
          },
        }),
      ),
    ),
};

export const bare: Workload = {
  name: "bare",
  title: "Beside a bare table with the same writes",
  about:
    "Claims and settles in batches of 1,000. The bare table has three under way, which is its best; it writes the same row three times, with the same indexes, and nothing else.",
  cases: (scale) => [
    ...forSystems(["postgres", "bare_table"], (system) => ({
      name: "batches of 1,000",
      unit: perUnit,
      measure: (at) => {
        const units = scaled(150_000, scale, 200);
        return processUnits(system, at, {
          units,
          warm: Math.round(units / 6),
          seconds: 8,
          processes: 1,
          setting: { how: "best" },
        });
      },
    })),
  ],
};

export const tasks: Workload = {
  name: "tasks",
  title: "Tasks that take a while",
  about:
    "Tasks that wait 1 ms or 20 ms, 50 at once in one worker process. The ideal is 50,000/s and 2,500/s.",
  cases: (scale) =>
    [1, 20].flatMap((taskMs) =>
      forSystems(["memory", "daemon", "postgres", "bullmq_aof", "graphile"], (system) => ({
        name: `${taskMs} ms`,
        unit: perUnit,
        measure: (at) =>
          processUnits(system, at, {
            units: scaled(taskMs === 1 ? 30_000 : 8000, scale, 100),
            warm: scaled(taskMs === 1 ? 5000 : 1000, scale),
            seconds: 5,
            processes: 1,
            taskMs,
            setting: { how: "tasks", atOnce: 50 },
          }),
      })),
    ),
};
