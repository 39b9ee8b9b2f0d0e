/** What a worker has done since it was made. */

export interface WorkerCounts {
  /** Attempts that were claimed. */
  claimed: number;
  finished: number;
  failed: number;
  /** Given back by their tasks, to be tried again. */
  retried: number;
  /** Claimed, not begun, and given back untried. */
  released: number;
  /** Left open by a bulk task that returned: they expire. */
  unsettled: number;
  /** Failed because their time was up. */
  timedOut: number;
  /** Settles that were refused: the unit was taken, ended or deleted in the meantime. */
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
