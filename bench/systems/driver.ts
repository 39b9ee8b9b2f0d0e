/** The operations that a system must support to be measured. A driver runs in the process of a subject. */

/** The data of a unit that its task reads: for latency measurements, the time at which the unit was added. */
export interface UnitData {
  readonly at?: string;
}

export type Task = (data: UnitData) => void | Promise<void>;

/**
 * `defaults`: the default settings. `best`: the fastest documented settings for tasks that do nothing. `single`: each unit is claimed and
 * settled by itself, `atOnce` at a time. `tasks`: tasks that take time, `atOnce` at a time. `latency`: an empty queue, units arrive one by
 * one.
 */
export interface WorkSetting {
  readonly how: "defaults" | "best" | "single" | "tasks" | "latency";
  readonly atOnce?: number;
  /** The duration of the lease, if the system has such a setting. */
  readonly lifetimeMs?: number;
}

export interface Working {
  /** Units that are done. */
  done(): number;
  stop(): Promise<void>;
}

export interface Driver {
  /** Adds `count` units in bulk. */
  fill(count: number): Promise<void>;
  /** Adds one unit. Resolves when the system has acknowledged it. */
  add(data: UnitData): Promise<void>;
  work(task: Task, setting: WorkSetting): Promise<Working>;
  close(): Promise<void>;
}

/** Data of a typical size. */
export const payload = (n: number): object => ({ n, path: "/some/where" });
