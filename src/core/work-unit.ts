/** A work unit is one job of a work spec: a name, a data dictionary and a status. */
import type { AttemptRow, FailReason } from "./attempt.ts";
import type { Data } from "./data.ts";
import type { DependencyKind } from "./dependency.ts";
import type { UnitRetry } from "./retry.ts";

export const workUnitStatuses = ["available", "delayed", "blocked", "pending", "finished", "failed"] as const;
export type WorkUnitStatus = (typeof workUnitStatuses)[number];

export interface WorkUnitInput extends UnitRetry {
  name: string;
  data?: Data | null;
  /** Higher is handed out first. Any finite number; 0 when absent. */
  priority?: number;
  /** Not before this time, in epoch milliseconds. Not together with `delayMs`. */
  notBefore?: number;
  /** Not before this long from now. */
  delayMs?: number;
  /** From this time on, in epoch milliseconds, the unit goes before all that are not late. Absent is never, also when it is added again. */
  deadline?: number;
  /** As `deadline`, this long from now. */
  deadlineMs?: number;
  /** A unit that has not begun by this time, in epoch milliseconds, fails with the reason `late`. Absent is never. */
  expires?: number;
  /** As `expires`, this long from now. */
  expiresMs?: number;
  /** The units to wait for. Absent is none; an existing unit keeps those it has. */
  dependencies?: readonly DependencyInput[];
  /**
   * The queues that get a message when the unit ends, finished or failed, for whatever reason; at most 16. As with the priority,
   * adding the unit again replaces them: absent is none.
   */
  queues?: readonly string[];
  /**
   * A few short words to find the unit by; at most 8, besides that of its batch, each of 1 to 256 bytes. Absent is none, also when
   * added again.
   */
  labels?: readonly string[];
  /**
   * Groups units where the work spec has limits, rates or an order for each partition: by tenant, host or account, say. At most 256
   * bytes. Absent or empty is none, also when added again; units without one share one partition.
   */
  partition?: string;
  // `maxRetries` and `retry` override those of the work spec; absent is no override, also when added again
  /** The batch that the unit belongs to, created when it does not exist. The unit gets the label `batch:` and this name. */
  batch?: string;
  /** What happens to an existing unit of this name; see `ConflictPolicy`. */
  onConflict?: ConflictPolicy;
  /**
   * The unit begins this long from now. Adding it again before it has begun replaces its data and restarts the wait: the last add
   * within the time wins. Not together with `notBefore` or `delayMs`.
   */
  debounceMs?: number;
  /** An existing unit that was added, or became available again, less than this long ago is left unchanged. */
  throttleMs?: number;
}

/**
 * What an add does with an existing unit. `update`, when absent: the unit gets the new data and metadata; a running unit goes on,
 * an ended one becomes available again. `replace`: the same, but a running unit is taken from its attempt. `data`: the unit gets
 * the new data and keeps its priority, delay, dependencies, queues and labels. `ignore`: the unit stays unchanged. `refuse`: the
 * call fails with `name_exists`, and nothing is added.
 */
export const conflictPolicies = ["update", "replace", "data", "ignore", "refuse"] as const;
export type ConflictPolicy = (typeof conflictPolicies)[number];

export const maxQueues = 16;
export const maxLabels = 8;

export interface DependencyInput {
  /** The unit's own work spec when absent. */
  workSpec?: string;
  workUnit: string;
  /** `hard` when absent. */
  kind?: DependencyKind;
}

export interface DependencyRow {
  workSpec: string;
  workUnit: string;
  kind: DependencyKind;
  /** The status of that unit; null when it was deleted. */
  status: WorkUnitStatus | null;
}

export interface WorkUnitRow extends UnitRetry {
  /** A unit that was deleted and added again has another id. */
  id: number;
  workSpec: string;
  name: string;
  status: WorkUnitStatus;
  /** Why it failed; null unless it has. */
  reason: FailReason | null;
  /** The active attempt's data if it has any, else the unit's own. */
  data: Data | null;
  priority: number;
  /** 0 is no delay. */
  notBefore: number;
  /** When it is late, and when it fails unless it has begun; absent is never. */
  deadline?: number;
  expires?: number;
  createdTime: number;
  /** How many attempts were ever made. */
  attempts: number;
  /** Pending, finished or failed; null while the unit waits. */
  activeAttempt: AttemptRow | null;
  /** The attempt whose output made this unit, if any. */
  origin: string | null;
  dependencies: readonly DependencyRow[];
  /** The queues that get a message when it ends, and its labels: as given, without duplicates. */
  queues: readonly string[];
  labels: readonly string[];
  /** Empty for a unit that was given none. */
  partition: string;
}

/** Whether a unit has finished or failed; a deleted unit (null) counts as ended, too. */
export const hasEnded = (row: WorkUnitRow | null): boolean =>
  row === null || row.status === "finished" || row.status === "failed";

/** The result for one unit of an add. */
export interface AddedWorkUnit {
  name: string;
  id: number;
  /** False when a unit of this name existed; it was overwritten unless `ignored` is set. */
  created: boolean;
  status: WorkUnitStatus;
  /** A unit of this name existed and was left unchanged. */
  ignored?: true;
}

/**
 * Which units of a work spec are meant. Conditions are combined with "and"; the values of one list with "or".
 * An empty list matches nothing. Listings are in name order; `previous` is the last name of the page before.
 */
export interface WorkUnitQuery {
  names?: readonly string[];
  statuses?: readonly WorkUnitStatus[];
  prefix?: string;
  /** Units with this label. Only these are read, however many others there are. */
  label?: string;
  /** Failed units of the failure group with this fingerprint: see `listFailures`. */
  error?: string;
  /** Units that ended, finished or failed, at this time or later. */
  endedSince?: number;
  /** Returns the data that the units were added with, not that of their attempts. */
  asAdded?: boolean;
  previous?: string;
  limit?: number;
}

/** A query that changes or deletes must name something, or say that it means everything. */
export type WorkUnitSelection = Omit<WorkUnitQuery, "asAdded" | "previous" | "limit"> & { all?: boolean };

/** Exact numbers of units by status. */
export type Tally = Record<WorkUnitStatus, number>;

export const emptyTally = (): Tally => ({
  available: 0,
  delayed: 0,
  blocked: 0,
  pending: 0,
  finished: 0,
  failed: 0,
});

export interface TallyRow {
  namespace: string;
  workSpec: string;
  counts: Tally;
  /** Ended units that retention removed: still counted here, so that totals stay correct. */
  removed: { finished: number; failed: number };
}

/** How long the units of a work spec have waited to be claimed. */
export interface WaitingSinceRow {
  namespace: string;
  workSpec: string;
  /**
   * When the unit that has waited longest, of those checked, became available. All available units are checked while there are at
   * most 200. Of more, the 100 that are next to be claimed and the 100 that are last are checked, and others may have waited even
   * longer.
   */
  since: number;
  /** Whether all available units were checked. */
  exact: boolean;
}

/** How many units `waitingSince` checks from each end of the claim order. */
export const waitingSample = 100;

/**
 * When an available unit became available: the latest of when it was added, its delay ended, and its last attempt ended. `since`,
 * if set, takes the place of when it was added: it was added again, reset or unblocked then.
 */
export const availableSince = (unit: {
  created: number;
  since: number;
  notBefore: number;
  attemptEnd: number;
}): number => Math.max(unit.since > 0 ? unit.since : unit.created, unit.notBefore, unit.attemptEnd);
