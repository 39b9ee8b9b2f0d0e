/** What a worker has done since it was made, and what it tells whoever listens. */

export interface WorkerCounts {
  /** Attempts that were claimed. */
  claimed: number;
  finished: number;
  failed: number;
  /** Given back by their tasks, to be tried again. */
  retried: number;
  /** Claimed ahead and given back untried. */
  released: number;
  /** Left open by a task that returned: they expire. */
  unsettled: number;
  /** Failed because their time was up. */
  timedOut: number;
  /** Settles that were refused: the unit was taken, ended or deleted in the meantime. */
  refused: number;
  batches: number;
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
  batches: 0,
});

/** Told as it happens. `units` are names; `worker` is the child that held them. */
export type WorkerEvent =
  | {
      type: "unsettled" | "timed out" | "released";
      worker: string;
      workSpec: string;
      units: readonly string[];
    }
  | { type: "refused"; worker: string; workSpec: string; unit: string; action: string; error: string }
  | { type: "started" | "stopping" | "stopped"; worker: string };
