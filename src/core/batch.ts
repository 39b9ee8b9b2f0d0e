/**
 * A batch: units of any work specs that belong together, with their counts, and a unit that is made once when all of them have
 * ended. A unit belongs to the batch whose label it carries; what its outputs lead to belongs to it as well.
 */

/** When the unit of `then` is made: when all have ended, however they did, or when all have finished. */
export const batchConditions = ["ended", "finished"] as const;
export type BatchCondition = (typeof batchConditions)[number];

/** The unit that is made at the end; its data are the name and the counts of the batch. */
export interface BatchThen {
  workSpec: string;
  /** The name of the batch when absent. */
  workUnit: string;
  on: BatchCondition;
}

export interface BatchInput {
  name: string;
  /** Null takes it away; absent keeps what there is. */
  then?: { workSpec: string; workUnit?: string; on?: BatchCondition } | null;
  /** Nothing more will be added by its producer: from now on it may end. */
  sealed?: boolean;
  /** The batch that this one belongs to, as a unit does. Cannot be changed. */
  parent?: string;
}

export interface BatchRow {
  name: string;
  createdTime: number;
  sealed: boolean;
  /** Units and batches that belong to it, and those of them that ended. */
  total: number;
  finished: number;
  failed: number;
  then: BatchThen | null;
  parent: string | null;
  /** When it ended, and the unit of `then` was made; 0 before that. */
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

/** How the batch counts in the one that it belongs to, as a unit does; null while it has not ended, or units of it came back. */
export function outcomeOf({ total, finished, failed, doneTime }: BatchRow): "finished" | "failed" | null {
  if (doneTime === 0 || finished + failed < total) return null;
  return failed > 0 ? "failed" : "finished";
}

/** Whether the batch ends now: it has not ended before, nothing is to come, and its units are as `then` wants them. */
export const endsNow = ({ sealed, total, finished, failed, then, doneTime }: BatchRow): boolean =>
  sealed && doneTime === 0 && finished + failed >= total && (then?.on !== "finished" || failed === 0);
