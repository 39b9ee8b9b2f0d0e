/** The input of `wantedWorkers`, a pure function, so that tests can try every combination of numbers. */
export interface Load {
  /** Workers that run a job. */
  readonly busy: number;
  /** Jobs that wait for a worker. */
  readonly waiting: number;
  readonly min: number;
  readonly max: number;
}

/** How many workers a pool should have: one for each running or waiting job, between `min` and `max`. */
export const wantedWorkers = ({ busy, waiting, min, max }: Load): number =>
  Math.min(max, Math.max(min, busy + waiting));
