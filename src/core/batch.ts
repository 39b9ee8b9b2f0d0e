/**
 * A batch groups units of any work specs, counts how they end, and creates one unit, once, when all of them have ended. A unit
 * belongs to the batch whose label it carries; the units that its outputs create belong to that batch, too.
 */

/** When the `then` unit is created: when all units have ended, finished or failed; or only when all have finished. */
export const batchConditions = ["ended", "finished"] as const;
export type BatchCondition = (typeof batchConditions)[number];

/** The unit created when the batch ends; its data holds the name and the counts of the batch. */
export interface BatchThen {
  workSpec: string;
  /** Defaults to the name of the batch. */
  workUnit: string;
  on: BatchCondition;
}

export interface BatchInput {
  name: string;
  /** Null removes it; absent keeps the current one. */
  then?: { workSpec: string; workUnit?: string; on?: BatchCondition } | null;
  /** Its producer adds no more units: from now on the batch may end. */
  sealed?: boolean;
  /** The batch that this one belongs to, where it counts as one unit; created if it does not exist. Cannot be changed once set. */
  parent?: string;
}

export interface BatchRow {
  name: string;
  createdTime: number;
  sealed: boolean;
  /** How many units and child batches belong to it, and how many of them finished and failed. */
  total: number;
  finished: number;
  failed: number;
  then: BatchThen | null;
  parent: string | null;
  /** When it ended and its `then` unit was created; 0 before that. */
  doneTime: number;
}

export const batchActions = ["cancel", "retry"] as const;
export type BatchAction = (typeof batchActions)[number];

export type BatchCounts = Pick<BatchRow, "total" | "finished" | "failed">;

const prefix = "batch:";

/** The label that the units of a batch carry. */
export const batchLabel = (name: string): string => prefix + name;

/** The batch of a unit with these labels; null when it is in none. */
export function batchOf(labels: readonly string[] | undefined): string | null {
  if (labels === undefined || labels.length === 0) return null;
  const label = labels.find((one) => one.startsWith(prefix));
  return label === undefined ? null : label.slice(prefix.length);
}

/** The labels that say nothing about a batch. */
export const withoutBatch = (labels: readonly string[]): string[] =>
  labels.filter((label) => !label.startsWith(prefix));

export const newBatch = (name: string, now: number): BatchRow => ({
  name,
  createdTime: now,
  sealed: false,
  total: 0,
  finished: 0,
  failed: 0,
  then: null,
  parent: null,
  doneTime: 0,
});

/** How the batch counts in its parent; null while it has not ended, or while ended units of it wait or run again. */
export function outcomeOf({ total, finished, failed, doneTime }: BatchRow): "finished" | "failed" | null {
  if (doneTime === 0 || finished + failed < total) return null;
  return failed > 0 ? "failed" : "finished";
}

/** Whether the batch ends now: it is sealed, has not ended before, and its units have ended as `then.on` requires. */
export const endsNow = ({ sealed, total, finished, failed, then, doneTime }: BatchRow): boolean =>
  sealed && doneTime === 0 && finished + failed >= total && (then?.on !== "finished" || failed === 0);
