/**
 * Limits that work specs share: defined on the namespace by name, and referred to by the key `limits` of work specs. Running units
 * are counted over all work specs that refer to the limit, and take tokens from one bucket. A name that is not defined limits
 * nothing.
 */
import { checkCount, checkNumber, checkObject, checkSpan, refuseOthers } from "./check.ts";
import { CoordinateError } from "./errors.ts";
import { checkName, compareNames } from "./names.ts";
import { hasRate, nextToken, tokensOf, type Rate } from "./partitions.ts";
import type { Candidate, Held } from "./scheduler.ts";
import type { WorkSpecMeta } from "./work-spec.ts";

export interface SharedLimitInput {
  name: string;
  /** Units that may be pending at once; absent or 0 is unlimited. */
  maxRunning?: number;
  /** How many units may begin per period; absent is unlimited. */
  rate?: Rate;
}

export interface SharedLimitRow {
  name: string;
  maxRunning: number;
  rate: Rate;
  /** Units that are pending under it. */
  running: number;
  /** When its rate allows the next unit; 0 when it allows one now, or there is no rate. */
  nextTime: number;
  /** The work specs that refer to it, in name order. */
  workSpecs: string[];
}

/** A limit as a store keeps it: `full` is when the bucket of its rate is full again. */
export interface SharedLimit {
  readonly name: string;
  readonly maxRunning: number;
  readonly rate: Rate;
  full: number;
}

/** A limit with the number of units that are pending under it. */
export interface SharedLimitState extends SharedLimit {
  readonly running: number;
}

/** The limits that a work spec refers to, each once, in name order. */
export const limitNames = ({ limits }: WorkSpecMeta): readonly string[] =>
  limits.length < 2 ? limits : [...new Set(limits)].sort(compareNames);

export const refersTo = ({ limits }: WorkSpecMeta, name: string): boolean => limits.includes(name);

/** Whether the two work specs share a limit, so that their units compete for places. */
export const sharesLimit = (a: WorkSpecMeta, b: WorkSpecMeta): boolean =>
  a.limits.some((name) => refersTo(b, name));

/** How many more units may begin under all of these limits. */
export const placesUnder = (limits: readonly SharedLimitState[], now: number): number =>
  limits.reduce(
    (least, { maxRunning, running, rate, full }) =>
      Math.min(least, maxRunning > 0 ? maxRunning - running : Infinity, tokensOf(rate, full, now)),
    Infinity,
  );

/** Whether a unit whose lease expired may run again under all of these limits; that takes no token. */
export const mayRunUnder = (limits: readonly SharedLimitState[]): boolean =>
  limits.every(({ maxRunning, running }) => maxRunning === 0 || running < maxRunning);

const runningUnder = (candidates: readonly Candidate[], name: string): number =>
  candidates.reduce((sum, { meta, pending }) => (refersTo(meta, name) ? sum + pending : sum), 0);

/** Returns the candidates, with `held` set where a shared limit holds them back. */
export function holdByLimits(
  candidates: Candidate[],
  limits: readonly SharedLimit[],
  now: number,
): Candidate[] {
  if (limits.length === 0) return candidates;
  const holds = new Map<string, Held>();
  for (const { name, maxRunning, rate, full } of limits) {
    if (maxRunning > 0 && runningUnder(candidates, name) >= maxRunning)
      holds.set(name, { reason: "limit", until: 0, limit: name });
    else if (tokensOf(rate, full, now) < 1)
      holds.set(name, { reason: "limit", until: nextToken(rate, full, now), limit: name });
  }
  return candidates.map((candidate) => {
    if (holds.size === 0 || (candidate.held ?? null) !== null) return candidate;
    const [name] = limitNames(candidate.meta).filter((one) => holds.has(one));
    return name === undefined ? candidate : { ...candidate, held: holds.get(name) ?? null };
  });
}

/** The limits of a namespace with their usage. */
export const limitRows = (
  limits: readonly SharedLimit[],
  candidates: readonly Candidate[],
  now: number,
): SharedLimitRow[] =>
  limits
    .map(({ name, maxRunning, rate, full }) => {
      const next = hasRate(rate) && tokensOf(rate, full, now) < 1 ? nextToken(rate, full, now) : 0;
      const workSpecs = candidates.filter(({ meta }) => refersTo(meta, name)).map((one) => one.name);
      const running = runningUnder(candidates, name);
      return { name, maxRunning, rate, running, nextTime: next, workSpecs: workSpecs.sort(compareNames) };
    })
    .sort((a, b) => compareNames(a.name, b.name));

export function checkLimit(given: SharedLimitInput, now: number): SharedLimit {
  const { name, maxRunning, rate, ...rest } = checkObject("limit", given);
  refuseOthers("limit", rest);
  return {
    name: checkName("limit", name),
    maxRunning: checkCount("maxRunning", maxRunning, 0, 0),
    rate: rate === undefined ? {} : checkRate(rate, now),
    full: 0,
  };
}

function checkRate(given: Rate, now: number): Rate {
  const { limit, periodMs, burst, ...rest } = checkObject("rate", given);
  refuseOthers("rate", rest);
  const rate: Rate = {};
  if (limit !== undefined) {
    if (checkNumber("rate.limit", limit) < 0)
      throw new CoordinateError("bad_argument", `rate.limit: expected a number of 0 or more, got ${limit}`);
    rate.limit = limit;
  }
  if (periodMs !== undefined) rate.periodMs = checkSpan("rate.periodMs", periodMs, now);
  if (burst !== undefined) rate.burst = checkCount("rate.burst", burst, 0);
  return rate;
}
