/** Counts of a worker since it was created. */

export interface WorkerCounts {
  /** Attempts that were claimed. */
  claimed: number;
  finished: number;
  failed: number;
  /** Ended to be tried again: after an error or a timeout, or by decision of the task. */
  retried: number;
  /** Claimed, and released before they began. */
  released: number;
  /** Left unsettled by a bulk task that returned. They will expire. */
  unsettled: number;
  /** Ended because their lease was about to end. Also counted as retried or failed. */
  timedOut: number;
  /** Refused settlements and lost units: the unit was taken, ended or deleted in the meantime. */
  refused: number;
  claims: number;
}

export const noCounts = (): WorkerCounts => ({
  claimed: 0,
  finished: 0,
  failed: 0,
  retried: 0,
  released: 0,
  unsettled: 0,
  timedOut: 0,
  refused: 0,
  claims: 0,
});
