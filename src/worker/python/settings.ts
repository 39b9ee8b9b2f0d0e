/**
 * The settings of the Python worker, under the names that its configuration files have: `coordinate` and, below it, `fork_worker`.
 * Times are seconds there.
 */
import { availableParallelism } from "node:os";
import { CoordinateError } from "../../core/index.ts";

export interface PythonSettings {
  /** `worker_job_fetch`: units of one fetch. */
  maxAttempts?: number;
  /** `num_workers`, else `num_workers_per_core` for each core: children at most. */
  processes?: number;
  /** `poll_interval`: between fetches that find nothing. */
  pollMs?: number;
  /** `heartbeat_interval` */
  heartbeatMs?: number;
  /** `child_lifetime`: an older child gets no more work, and is replaced. */
  childLifetimeMs?: number;
  /** `stop_jobs_early`: jobs are ended this long before their lease is. Less than 15 seconds is not possible. */
  stopEarlyMs?: number;
  /** `default_lifetime`: the lease that is asked for, and that `update()` asks for. */
  lifetimeMs?: number;
}

/** Keys that are not those of the worker are others'. Throws `bad_argument`, naming the key. */
export function readPythonSettings(coordinate: unknown, cores = availableParallelism()): PythonSettings {
  const own = objectOf("coordinate", coordinate);
  const fork = objectOf("fork_worker", own.fork_worker);
  const number = (from: Record<string, unknown>, key: string, least: number): number | undefined => {
    const value = from[key];
    if (value === undefined || value === null) return undefined;
    if (typeof value !== "number" || !(value >= least))
      throw new CoordinateError("bad_argument", `${key}: expected a number of ${least} or more`);
    return value;
  };
  const count = (from: Record<string, unknown>, key: string): number | undefined => {
    const value = number(from, key, 1);
    if (value !== undefined && !Number.isInteger(value))
      throw new CoordinateError("bad_argument", `${key}: expected a whole number`);
    return value;
  };
  const ms = (from: Record<string, unknown>, key: string, least = 0): number | undefined => {
    const seconds = number(from, key, least);
    return seconds === undefined ? undefined : seconds * 1000;
  };
  const perCore = number(fork, "num_workers_per_core", 0);
  return defined({
    maxAttempts: count(own, "worker_job_fetch"),
    processes:
      count(fork, "num_workers") ??
      (perCore === undefined ? undefined : Math.max(1, Math.round(perCore * Math.max(1, cores)))),
    pollMs: ms(fork, "poll_interval", 0.001),
    heartbeatMs: ms(fork, "heartbeat_interval", 0.001),
    childLifetimeMs: ms(fork, "child_lifetime"),
    stopEarlyMs: ms(fork, "stop_jobs_early"),
    lifetimeMs: ms(own, "default_lifetime", 1),
  });
}

function objectOf(key: string, value: unknown): Record<string, unknown> {
  if (value === undefined || value === null) return {};
  if (typeof value !== "object" || Array.isArray(value))
    throw new CoordinateError("bad_argument", `${key}: expected settings and their values`);
  return value as Record<string, unknown>;
}

/** Without the keys that were not given. */
function defined<Row extends object>(row: { [Key in keyof Row]: Row[Key] | undefined }): Row {
  return Object.fromEntries(Object.entries(row).filter(([, value]) => value !== undefined)) as Row;
}
