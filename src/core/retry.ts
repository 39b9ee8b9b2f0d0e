/**
 * Retry policies: how often a unit is tried, and how long it waits between two tries. A work spec has a policy, and a unit may
 * override it.
 */
import { checkCount, checkNumber, checkObject, checkOneOf, checkSpan, refuseOthers } from "./check.ts";
import { CoordinateError } from "./errors.ts";

export const backoffKinds = ["exponential", "fixed", "linear"] as const;
export type BackoffKind = (typeof backoffKinds)[number];

/** How long a unit waits before its next try. */
export interface Backoff {
  /** `exponential` when absent: twice as long after each try. `linear`: `delayMs` longer after each. `fixed`: always the same. */
  kind?: BackoffKind;
  /** After the first try; a second when absent. */
  delayMs?: number;
  /** Never longer than this; an hour when absent. */
  maxMs?: number;
  /** The random share of the wait, 0 to 1: with 0.5, the wait is between half of it and all of it. 0 when absent. */
  jitter?: number;
}

export interface RetryPolicy {
  /** Tries after which a unit fails; 0 and absent are unlimited. */
  attempts?: number;
  backoff?: Backoff;
}

/** The retry settings of a work spec. */
export interface SpecRetry {
  readonly maxRetries: number;
  readonly retry: RetryPolicy;
}

/** A unit's own retry settings. */
export interface UnitRetry {
  /** As `max_retries` of a work spec, which it replaces; 0 is unlimited. */
  maxRetries?: number;
  /** As `retry` of a work spec, with times in milliseconds; replaces its number of tries and its backoff. */
  retry?: RetryPolicy;
}

const smaller = (a = 0, b = 0): number => (a === 0 || b === 0 ? a + b : Math.min(a, b));

/** The try limit for units without their own; 0 is unlimited. */
export const specTryLimit = ({ maxRetries, retry }: SpecRetry): number => smaller(maxRetries, retry.attempts);

/** The unit's own try limit; null when that of its work spec applies. */
export const ownTryLimit = (own: UnitRetry | null): number | null =>
  own === null || (own.maxRetries === undefined && own.retry?.attempts === undefined)
    ? null
    : smaller(own.maxRetries, own.retry?.attempts);

/** Whether a unit has reached its own try limit, or else `limit`; 0 is unlimited. */
export function isSpent(tries: number, own: UnitRetry | null, limit: number): boolean {
  const max = ownTryLimit(own) ?? limit;
  return max > 0 && tries >= max;
}

/**
 * Decides what follows an error in the try of this number. A number is the wait until the next try, in milliseconds; `exhausted`:
 * no tries are left; `final`: neither a limit nor a backoff asks for another try. `random` is between 0 and 1.
 */
export function retryAfter(
  spec: SpecRetry,
  own: UnitRetry | null,
  tries: number,
  random: number,
): number | "exhausted" | "final" {
  const limit = ownTryLimit(own) ?? specTryLimit(spec);
  const backoff = own?.retry?.backoff ?? spec.retry.backoff;
  if (limit === 0 && backoff === undefined) return "final";
  if (limit > 0 && tries >= limit) return "exhausted";
  return waitMs(backoff ?? {}, tries, random);
}

function waitMs(
  { kind, delayMs = 1000, maxMs = 3_600_000, jitter = 0 }: Backoff,
  tries: number,
  random: number,
): number {
  const times = kind === "fixed" ? 1 : kind === "linear" ? tries : 2 ** Math.min(tries - 1, 60);
  return Math.round(Math.min(maxMs, delayMs * times) * (1 - jitter * random));
}

/** Checks the retry policy of a unit. Throws `bad_argument` naming the field. */
export function checkRetry(given: RetryPolicy, now: number): RetryPolicy {
  const { attempts, backoff, ...rest } = checkObject("retry", given);
  refuseOthers("retry", rest);
  const policy: RetryPolicy = {};
  if (attempts !== undefined) policy.attempts = checkCount("retry.attempts", attempts, 0);
  if (backoff === undefined) return policy;
  const { kind, delayMs, maxMs, jitter, ...others } = checkObject("retry.backoff", backoff);
  refuseOthers("retry.backoff", others);
  policy.backoff = {
    ...(kind !== undefined && { kind: checkOneOf("retry.backoff.kind", kind, backoffKinds) }),
    ...(delayMs !== undefined && { delayMs: checkSpan("retry.backoff.delayMs", delayMs, now) }),
    ...(maxMs !== undefined && { maxMs: checkSpan("retry.backoff.maxMs", maxMs, now) }),
    ...(jitter !== undefined && { jitter: checkShare("retry.backoff.jitter", jitter) }),
  };
  return policy;
}

function checkShare(field: string, value: number): number {
  if (checkNumber(field, value) >= 0 && value <= 1) return value;
  throw new CoordinateError("bad_argument", `${field}: expected a number from 0 to 1, got ${value}`);
}
