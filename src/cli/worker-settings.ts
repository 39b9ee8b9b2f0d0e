/**
 * The worker settings from the configuration, in the form that a worker takes. A setting that was not given is absent: each
 * runtime has its own defaults.
 */
import { availableParallelism } from "node:os";
import type { Configuration, WorkerConfig } from "../config/index.ts";
import { CommandError } from "./failure.ts";

export interface WorkerSettings {
  /** `worker_job_fetch`: units per fetch. */
  maxAttempts?: number;
  /** `num_workers`, else `num_workers_per_core` for each core: the maximum number of children. */
  processes?: number;
  /** `poll_interval`: time between fetches that find nothing. */
  pollMs?: number;
  /** `heartbeat_interval` */
  heartbeatMs?: number;
  /** `child_lifetime`: an older child gets no more work, and is replaced. */
  childLifetimeMs?: number;
  /** `stop_jobs_early`: ends jobs this long before their lease ends. A value below 15 seconds has no effect. */
  stopEarlyMs?: number;
  /** `default_lifetime`: the lease that claims and `update()` ask for. */
  lifetimeMs?: number;
  /** `available_gb`: work specs that need more memory are skipped. */
  availableGb?: number;
}

/** Throws a `CommandError` that names the source of a setting with an invalid value. */
export function workerSettings(
  { worker, sources }: Pick<Configuration, "worker" | "sources">,
  cores = availableParallelism(),
): WorkerSettings {
  const given = (key: keyof WorkerConfig, min = 0): number | undefined => {
    const from = sources.get(`worker.${key}`);
    if (from === undefined) return undefined;
    if (worker[key] >= min) return worker[key];
    throw new CommandError(`${from}: ${key}: expected ${min} or more, got ${worker[key]}`);
  };
  const ms = (key: keyof WorkerConfig, min?: number): number | undefined => {
    const seconds = given(key, min);
    return seconds === undefined ? undefined : seconds * 1000;
  };
  const children = given("num_workers");
  const perCore = given("num_workers_per_core");
  return defined({
    maxAttempts: given("worker_job_fetch", 1),
    processes:
      children !== undefined && children > 0
        ? children
        : perCore === undefined
          ? undefined
          : Math.max(1, Math.round(perCore * cores)),
    pollMs: ms("poll_interval", 0.001),
    heartbeatMs: ms("heartbeat_interval", 0.001),
    childLifetimeMs: ms("child_lifetime"),
    stopEarlyMs: ms("stop_jobs_early"),
    lifetimeMs: ms("default_lifetime", 1),
    availableGb: given("available_gb"),
  });
}

/** Drops the keys that were not given. */
function defined<Row extends object>(row: { [Key in keyof Row]: Row[Key] | undefined }): Row {
  return Object.fromEntries(Object.entries(row).filter(([, value]) => value !== undefined)) as Row;
}
