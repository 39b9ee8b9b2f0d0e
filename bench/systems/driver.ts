/** What a system must be able to do to be measured. A driver lives in the process of a subject. */

/** What a task gets of its unit: the clock when it was added, where that matters. */
export interface UnitData {
  readonly at?: string;
}

export type Task = (data: UnitData) => void | Promise<void>;

/**
 * `defaults`: as somebody gets it who sets nothing. `best`: the fastest documented settings for tasks that do nothing. `single`: each unit is
 * claimed and settled by itself, by so many at once. `tasks`: tasks that wait, by so many at once. `latency`: nothing waits, units come one by
 * one.
 */
export interface WorkSetting {
  readonly how: "defaults" | "best" | "single" | "tasks" | "latency";
  readonly atOnce?: number;
  /** The lease, where a system has one to set. */
  readonly lifetimeMs?: number;
}

export interface Working {
  /** Units that are done. */
  done(): number;
  stop(): Promise<void>;
}

export interface Driver {
  /** Adds so many units in bulk. */
  fill(count: number): Promise<void>;
  /** Adds one unit, and resolves when the system has answered. */
  add(data: UnitData): Promise<void>;
  work(task: Task, setting: WorkSetting): Promise<Working>;
  close(): Promise<void>;
}

/** Data of a usual size. */
export const payload = (n: number): object => ({ n, path: "/some/where" });
