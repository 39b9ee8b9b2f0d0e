/**
 * What time does to a unit that waits: its priority may grow, it may be late and then goes first, or come to no use and then fails.
 *
 * The order of claims is by a number that is written when a unit begins to wait and that nobody has to touch again: units that gain
 * priority at the same pace never overtake each other, so what counts is how much a unit had gained when the other began to wait. Only a
 * deadline moves a unit, once, when it passes.
 */
import type { WorkSpecMeta } from "./work-spec.ts";

/** What few units say of time. */
export interface UnitTiming {
  /** The priority that it was given, where its place in the order of claims is another one. */
  priority?: number;
  /** From then on it goes before all that are not late; 0 or absent is none. */
  deadline?: number;
  /** A unit that nobody has begun by then fails; 0 or absent is never. */
  expires?: number;
}

const minute = 60_000;

/** How much the units of a work spec have gained since it began to count. */
const gained = ({ aging, agedPoints, agedSince }: WorkSpecMeta, at: number): number =>
  agedPoints + (aging * Math.max(0, at - agedSince)) / minute;

/** Whether units of the work spec may be ordered by more than the priority that they were given: since it first had `aging`. */
export const ages = ({ aging, agedSince }: WorkSpecMeta): boolean => aging > 0 || agedSince > 0;

/** The place of a unit that begins to wait: later ones are behind by what it has gained until then. */
export const agedPriority = (meta: WorkSpecMeta, given: number, at: number): number =>
  given - gained(meta, at);

/** The other way round: the priority that a unit in this place has by now. */
export const currentPriority = (meta: WorkSpecMeta, place: number, now: number): number =>
  place + gained(meta, now);

/**
 * What a work spec has to remember when its `aging` is changed: places that were written before stay comparable with those that are
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

/** Late units go first, the earliest deadline before the others: exact to the millisecond, since a power of two keeps all digits. */
export const latePriority = (deadline: number): number => (2 ** 53 - deadline) * lateFrom;

export const isLate = (priority: number): boolean => priority >= lateFrom;

/** When something happens to a waiting unit by itself; 0 is never. */
export function nextTimer({ deadline = 0, expires = 0 }: UnitTiming, priority: number): number {
  const promotion = isLate(priority) ? 0 : deadline;
  return promotion > 0 && expires > 0 ? Math.min(promotion, expires) : promotion || expires;
}

/** The traceback of a unit that failed because nobody had begun it in time. */
export const lateText = (expires: number): string => `late: not begun by ${new Date(expires).toISOString()}`;
