/** A work unit is one job of a work spec: a name, a data dictionary, and where it stands. */
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
  /** Not before this time, in epoch milliseconds, or this long from now. At most one of the two. */
  notBefore?: number;
  delayMs?: number;
  /** From this time on, or this long from now, the unit goes before all that are not late. Absent is never, also when added again. */
  deadline?: number;
  deadlineMs?: number;
  /** A unit that nobody has begun by this time, or within this long from now, fails with the reason `late`. Absent is never. */
  expires?: number;
  expiresMs?: number;
  /** What to wait for. Absent: nothing, or what a unit that exists waits for already. */
  dependencies?: readonly DependencyInput[];
  /**
   * The queues that get a message when the unit ends, finished or failed, by whatever route; at most 16. Like the
   * priority, a unit that is added again has what the new add says: absent is none.
   */
  queues?: readonly string[];
  /** A few short words to find the unit by; at most 8, each of 1 to 256 bytes. Absent is none, also when added again. */
  labels?: readonly string[];
  /**
   * What the unit is counted under where its work spec has limits, rates or an order for each partition: a tenant, a host, an
   * account. At most 256 bytes. Absent or empty is none, also when added again; units without one are together in one partition.
   */
  partition?: string;
  // `maxRetries` and `retry` take the place of what the work spec says; absent is nothing, also when added again
  /** The batch that the unit belongs to, which is made when it does not exist. The unit carries the label `batch:` and this name. */
  batch?: string;
  /** What becomes of a unit of this name that exists; see `ConflictPolicy`. */
  onConflict?: ConflictPolicy;
  /**
   * The unit begins this long from now; added again before it has begun, it has the new data and waits anew: the last one within
   * the time wins. Not together with `notBefore` or `delayMs`.
   */
  debounceMs?: number;
  /** A unit of this name that was added less than this long ago, or became available again, is left as it is. */
  throttleMs?: number;
}

/**
 * What an add does with a unit that exists. `update`, when absent: it gets the new data and metadata; one that runs goes on, one
 * that has ended becomes available again. `replace`: the same, and one that runs is taken from its attempt. `data`: it gets the
 * new data and keeps its priority, delay, dependencies, queues and labels. `ignore`: it stays as it is. `refuse`: the call is
 * refused with `name_exists`, and nothing is added.
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
  /** Where that unit stands; null when it was deleted. */
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
  /** The queues that hear of its end, and the words it is found by: as they were given, without repetitions. */
  queues: readonly string[];
  labels: readonly string[];
  /** Empty for a unit that was given none. */
  partition: string;
}

/** Whether nothing more will become of a unit by itself; one that is gone has ended, too. */
export const hasEnded = (row: WorkUnitRow | null): boolean =>
  row === null || row.status === "finished" || row.status === "failed";

/** What was done with one unit of an add. */
export interface AddedWorkUnit {
  name: string;
  id: number;
  /** False when a unit of this name existed and was written over. */
  created: boolean;
  status: WorkUnitStatus;
  /** A unit of this name existed and was left as it is. */
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
  /** Units that carry this label. What is looked at are the units with the label, however many others there are. */
  label?: string;
  /** Failed units of the failure group with this fingerprint: see `listFailures`. */
  error?: string;
  /** Units that ended, finished or failed, at this time or later. */
  endedSince?: number;
  /** With the data that the units were added with, whatever attempts have made of it. */
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
  /** Ended units that retention removed: counted on, so that totals stay true. */
  removed: { finished: number; failed: number };
}

/** How long the units of a work spec have waited to be claimed. */
export interface WaitingSinceRow {
  namespace: string;
  workSpec: string;
  /**
   * When a unit that is available now became so, the earliest that was found: nothing that was found has waited longer, and
   * this one really has waited that long. All are looked at while no more than 200 wait; of more, the 100 that are
   * next to be claimed and the 100 that are last, and then the oldest may have waited even longer.
   */
  since: number;
  /** Whether all were looked at. */
  exact: boolean;
}

/** So many are looked at from each end of the claim order for `waitingSince`. */
export const waitingSample = 100;

/**
 * When a unit became available that is so now. `since` is set where nothing else says it: when it was added again, reset,
 * or let go by what it waited for; else it is when it was added, its delay was over, or its latest attempt ended.
 */
export const availableSince = (unit: {
  created: number;
  since: number;
  notBefore: number;
  attemptEnd: number;
}): number => Math.max(unit.since > 0 ? unit.since : unit.created, unit.notBefore, unit.attemptEnd);
