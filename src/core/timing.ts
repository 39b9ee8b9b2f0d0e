/**
 * How time affects a waiting unit: its priority may grow, past its deadline it goes first, past its expiry it fails.
 *
 * Claims are ordered by a number that is written once, when a unit begins to wait, and needs no updates: units that gain priority
 * at the same pace never overtake each other, so what counts is how much the older unit had gained when the newer one began to
 * wait. Only a deadline moves a unit, once, when it passes.
 */
import type { WorkSpecMeta } from "./work-spec.ts";

/** Timing, which few units have. */
export interface UnitTiming {
  /** The priority that it was given, if its place in the claim order is a different number. */
  priority?: number;
  /** Its place in the claim order before it became late, if that is not its priority. */
  place?: number;
  /** From this time on the unit goes before all that are not late; 0 or absent is none. */
  deadline?: number;
  /** The unit fails if it has not begun by this time; 0 or absent is never. */
  expires?: number;
}

const minute = 60_000;

/** How much priority a unit would have gained since the work spec first had `aging`. */
const gained = ({ aging, agedPoints, agedSince }: WorkSpecMeta, at: number): number =>
  agedPoints + (aging * Math.max(0, at - agedSince)) / minute;

/** Whether the claim order may differ from the given priorities: from the first `aging` of the work spec on. */
export const ages = ({ aging, agedSince }: WorkSpecMeta): boolean => aging > 0 || agedSince > 0;

/** The place in the claim order of a unit that begins to wait: lower by what earlier units have gained until then. */
export const agedPriority = (meta: WorkSpecMeta, given: number, at: number): number =>
  given - gained(meta, at);

/** The inverse: the current priority of a unit in this place. */
export const currentPriority = (meta: WorkSpecMeta, place: number, now: number): number =>
  place + gained(meta, now);

/**
 * Carries over what units have gained when `aging` changes, so that places written before stay comparable with those that are
 * written from now on.
 */
export function withAging(old: WorkSpecMeta | null, made: WorkSpecMeta, now: number): WorkSpecMeta {
  if (old === null) return made.aging > 0 ? { ...made, agedPoints: 0, agedSince: now } : made;
  const { agedPoints, agedSince } = old;
  return made.aging === old.aging
    ? { ...made, agedPoints, agedSince }
    : { ...made, agedPoints: gained(old, now), agedSince: now };
}

/** Above every priority that a unit can be given. */
const lateFrom = 2 ** 500;

/**
 * Late units go first, the earliest deadline before the others. Exact to the millisecond: a factor that is a power of two keeps all
 * digits.
 */
export const latePriority = (deadline: number): number => (2 ** 53 - deadline) * lateFrom;

export const isLate = (priority: number): boolean => priority >= lateFrom;

/** The unit's place in the claim order apart from its deadline. */
export const placeOf = (priority: number, timing: UnitTiming | null): number =>
  isLate(priority) ? (timing?.place ?? timing?.priority ?? 0) : priority;

/** When the timer of a waiting unit fires, for its deadline or its expiry; 0 is never. */
export function nextTimer({ deadline = 0, expires = 0 }: UnitTiming, priority: number): number {
  const promotion = isLate(priority) ? 0 : deadline;
  return promotion > 0 && expires > 0 ? Math.min(promotion, expires) : promotion || expires;
}

/** The traceback of a unit that failed because it did not begin in time. */
export const lateText = (expires: number): string => `late: not begun by ${new Date(expires).toISOString()}`;
