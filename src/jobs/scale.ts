/** How many workers a pool should have. Pure, so that it can be tried with all numbers there are. */
export interface Load {
  /** Workers that run a job. */
  readonly busy: number;
  /** Jobs that wait to be taken. */
  readonly waiting: number;
  readonly min: number;
  readonly max: number;
}

/** One for each job that runs or waits, within the bounds. */
export const wantedWorkers = ({ busy, waiting, min, max }: Load): number =>
  Math.min(max, Math.max(min, busy + waiting));
