/** A worker is a process that runs work units. Workers check in; one parent may manage many children. */
import type { Data } from "./data.ts";
import { CoordinateError } from "./errors.ts";

export const desiredStates = ["run", "idle", "terminate"] as const;
/** What a controller asks of a worker. The worker finishes the units it holds first. */
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

/** A check-in, or a change by another client; absent fields stay unchanged. */
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

/**
 * Throws `worker_cycle` if one of these changes, applied in order, would make a worker its own ancestor. `storedParent` gives the
 * parent that a worker has before any of them.
 */
export function checkParents(
  changes: readonly WorkerChange[],
  storedParent: (name: string) => string | null | undefined,
): void {
  const changed = new Map<string, string | null>();
  const parentOf = (name: string): string | null | undefined =>
    changed.has(name) ? changed.get(name) : storedParent(name);
  for (const { name, parent } of changes) {
    if (parent === undefined) continue;
    for (let at: string | null | undefined = parent; at !== null && at !== undefined; at = parentOf(at))
      if (at === name) throw new CoordinateError("worker_cycle", `${name} below ${parent ?? ""}`);
    changed.set(name, parent);
  }
}

/** What a change sets besides the parent. */
export interface ChangedWorker {
  deactivated: boolean;
  mode: string;
  data: Data | null;
  lastUpdate: number;
  expiration: number;
  desired: DesiredState | null;
}

export function changeWorker(worker: ChangedWorker, change: WorkerChange, now: number): void {
  if (change.active === true) {
    worker.deactivated = false;
    worker.mode = change.mode ?? worker.mode;
    if (change.data !== undefined) worker.data = change.data;
    worker.lastUpdate = change.lastUpdate ?? now;
    worker.expiration = change.expiration ?? now + workerLifetimeMs;
  } else if (change.active === false) worker.deactivated = true;
  if (change.desired !== undefined) worker.desired = change.desired;
}
