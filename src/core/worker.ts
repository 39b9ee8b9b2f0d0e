/** A worker is a process that runs work units. Workers check in; one parent may manage many children. */
import type { Data } from "./data.ts";

export const desiredStates = ["run", "idle", "terminate"] as const;
/** What a controller asks of a worker. It finishes what it holds before it obeys. */
export type DesiredState = (typeof desiredStates)[number];

/** A worker is active this long after it last checked in, unless it says otherwise. */
export const workerLifetimeMs = 15 * 60 * 1000;

export interface WorkerRow {
  name: string;
  parent: string | null;
  /** Checked in, not deactivated, and not past its expiration. */
  active: boolean;
  /** What the worker says it does; free text. */
  mode: string;
  /** The environment it uploaded last. */
  data: Data | null;
  lastUpdate: number;
  expiration: number;
  /** What it should do: its own setting, else its namespace's, else `run`. */
  desired: DesiredState;
}

/** A check-in, or a change by somebody else; what is absent stays. */
export interface WorkerChange {
  name: string;
  /** Null clears it. Changes nothing else. A parent that is not known is created. */
  parent?: string | null;
  /**
   * `true` is a check-in: it also takes `mode`, `data`, `lastUpdate` and `expiration`, with now and 15 minutes
   * from now where the times are absent. `false` deactivates. Absent: neither.
   */
  active?: boolean;
  mode?: string;
  data?: Data | null;
  lastUpdate?: number;
  expiration?: number;
  /** Null goes back to the namespace's setting. */
  desired?: DesiredState | null;
}

export interface WorkerQuery {
  names?: readonly string[];
  prefix?: string;
  active?: boolean;
  /** Only workers without a parent. */
  root?: boolean;
  parent?: string;
  previous?: string;
  limit?: number;
}

/** Would this parent make the worker its own ancestor? */
export function parentCycle(
  worker: string,
  parent: string | null,
  parentOf: (name: string) => string | null | undefined,
): boolean {
  for (let at: string | null | undefined = parent; at !== null && at !== undefined; at = parentOf(at)) {
    if (at === worker) return true;
  }
  return false;
}
