/**
 * Breakers: a work spec whose attempts fail too often pauses itself or slows down, tries a few units now and then, and goes
 * on when those finish.
 *
 * Attempts that finish, fail or end in an error are counted in tenths of the window, each tenth under the time it begins at. A
 * failure looks at the counts, and may trip the breaker. While it is tripped nothing is counted, and only probes begin: up to
 * `probes` units in each `pause`. What an attempt that began after the trip comes to decides whether it stays tripped.
 */
import type { FailReason } from "./attempt.ts";
import type { Data } from "./data.ts";
import { failureOf } from "./failure.ts";
import type { WorkSpecMeta } from "./work-spec-fields.ts";

export const breakerScopes = ["work_spec", "error"] as const;
export const breakerActions = ["pause", "slow"] as const;

/** Without `failures`, or with 0, there is no breaker. */
export interface Breaker {
  /** The share of failures that trips it. */
  failures?: number;
  /** Attempts in the window below which it does not trip; 10 when absent. */
  min?: number;
  /** A minute when absent. */
  windowMs?: number;
  /** How long it waits before it probes, and between probes; a minute when absent. */
  pauseMs?: number;
  /** 1 when absent. */
  probes?: number;
  /** Whether all failures count together, or those with the same error; all when absent. */
  by?: (typeof breakerScopes)[number];
  /** `slow`: it probes at once. `pause` when absent. */
  action?: (typeof breakerActions)[number];
}

/** Of a breaker that was never tripped, nothing. */
export interface BreakerState {
  /** When it tripped; absent while it is not. */
  since?: number;
  /** When the next probes may begin. */
  until?: number;
  /** Probes that may begin before that. */
  left?: number;
  /** Probes that have finished since the last one failed. */
  good?: number;
  /** What tripped it: how many attempts failed of how many, and the error of the last one. */
  failed?: number;
  ended?: number;
  error?: string;
  /** Once it was tripped and no longer is: what ended before does not count. */
  from?: number;
}

/** A breaker tripped, or no longer is. */
export interface BreakerEvent {
  namespace: string;
  workSpec: string;
  time: number;
  state: BreakerState;
}

export const breakerWord = ({ since }: BreakerState): string =>
  since === undefined ? "breaker closed" : "breaker tripped";

const defaults = { min: 10, windowMs: 60_000, pauseMs: 60_000, probes: 1 } as const;

export const hasBreaker = ({ breaker }: WorkSpecMeta): boolean => (breaker.failures ?? 0) > 0;

export const isTripped = (meta: WorkSpecMeta): boolean =>
  meta.breakerState.since !== undefined && hasBreaker(meta);

/** What of the metadata says how it counts, to see whether it has changed: then it counts anew. */
export const breakerRules = ({ breaker }: WorkSpecMeta): string => JSON.stringify(breaker);

const windowOf = ({ windowMs = defaults.windowMs }: Breaker): number => Math.max(1, windowMs);
const pauseOf = ({ pauseMs = defaults.pauseMs }: Breaker): number => Math.max(1, pauseMs);
const probesOf = ({ probes = defaults.probes }: Breaker): number => Math.max(1, probes);

// ---- counting

/** How long a tenth of the window is; 0 where nothing is counted. */
export const countStepMs = (meta: WorkSpecMeta): number =>
  hasBreaker(meta) ? Math.max(1, Math.ceil(windowOf(meta.breaker) / 10)) : 0;

/** The time under which an outcome is counted. */
export const countedAt = (meta: WorkSpecMeta, now: number): number =>
  Math.max(meta.breakerState.from ?? 0, now - (now % countStepMs(meta)));

/** Counts from this time on are in the window. */
export const countedFrom = (meta: WorkSpecMeta, now: number): number =>
  Math.max(meta.breakerState.from ?? 0, now - windowOf(meta.breaker) + 1);

/** How outcomes are told apart in the counts: those that finished, and failures by their fingerprint, or all alike. */
export const finishedKey = "";
const failedKey = "failed";

export type OutcomeCounts = ReadonlyMap<string, number>;

/** What attempts of one work spec came to in one verb: when those began that finished, and those that failed. */
export interface Outcomes {
  finished: number[];
  failed: FailedAttempt[];
}

export interface FailedAttempt {
  start: number;
  data: Data | null;
  reason: FailReason | null;
}

/** The outcomes under the keys by which they are counted, given what there is in the window: the kinds of errors are limited. */
export function countsOf(
  { by }: Breaker,
  { finished, failed }: Outcomes,
  window: OutcomeCounts,
): Map<string, number> {
  const counts = new Map<string, number>();
  if (finished.length > 0) counts.set(finishedKey, finished.length);
  if (by !== "error") {
    if (failed.length > 0) counts.set(failedKey, failed.length);
    return counts;
  }
  const known = new Set([...window.keys(), finishedKey]);
  for (const { data, reason } of failed) {
    const { fingerprint } = failureOf(data, reason, known);
    known.add(fingerprint);
    counts.set(fingerprint, (counts.get(fingerprint) ?? 0) + 1);
  }
  return counts;
}

// ---- tripping, probing, going on

/** Whether these counts, of the whole window, trip the breaker by one of the failures of this verb. */
export function tripBy(
  { breaker, breakerState: { from } }: WorkSpecMeta,
  { failed: failures }: Outcomes,
  window: OutcomeCounts,
  now: number,
): BreakerState | null {
  let ended = 0;
  for (const count of window.values()) ended += count;
  if (ended < Math.max(1, breaker.min ?? defaults.min)) return null;
  for (const { data, reason } of failures.toReversed()) {
    const { fingerprint, error } = failureOf(data, reason, window);
    const failed = window.get(breaker.by === "error" ? fingerprint : failedKey) ?? 0;
    // what begins later than the trip is a probe: the first one not in the same millisecond
    const until = now + (breaker.action === "slow" ? 1 : pauseOf(breaker));
    if (failed > 0 && failed >= (breaker.failures ?? 0) * ended)
      return {
        since: now,
        until,
        left: 0,
        good: 0,
        failed,
        ended,
        error,
        ...(from !== undefined && { from }),
      };
    if (breaker.by !== "error") return null;
  }
  return null;
}

/** A tripped breaker after these outcomes; the same object when they change nothing. */
export function afterProbes(
  { breaker, breakerState: state }: WorkSpecMeta,
  { finished, failed }: Outcomes,
  now: number,
): BreakerState {
  const { since = 0 } = state;
  if (failed.some(({ start }) => start > since))
    return breaker.action === "slow"
      ? { ...state, good: 0 }
      : { ...state, good: 0, left: 0, until: now + pauseOf(breaker) };
  const probes = finished.filter((start) => start > since).length;
  if (probes === 0) return state;
  const good = (state.good ?? 0) + probes;
  return good >= probesOf(breaker) ? closed(state) : { ...state, good };
}

/** No longer tripped. Nothing was counted since it was; what is counted from now on is counted under later times. */
export const closed = (state: BreakerState): BreakerState =>
  state.since === undefined ? state : { from: Math.max(state.since, state.from ?? 0) + 1 };

/** How many units may begin now. */
export function probesLeft(meta: WorkSpecMeta, now: number): number {
  if (!isTripped(meta)) return Infinity;
  const { until = 0, left = 0 } = meta.breakerState;
  return now >= until ? probesOf(meta.breaker) : left;
}

/** A tripped breaker after so many probes began. */
export function afterClaim(
  { breaker, breakerState: state }: WorkSpecMeta,
  count: number,
  now: number,
): BreakerState {
  const { until = 0, left = 0 } = state;
  return now >= until
    ? { ...state, left: probesOf(breaker) - count, until: now + pauseOf(breaker) }
    : { ...state, left: left - count };
}

/** For a person: what tripped it, and what comes next. */
export function describeBreaker({ breaker, breakerState }: WorkSpecMeta, now: number): string {
  const { failed = 0, ended = 0, error = "", until = 0 } = breakerState;
  const does = breaker.action === "slow" ? "is slowed down by its breaker" : "is paused by its breaker";
  const next = until > now ? `; the next probe in ${((until - now) / 1000).toFixed(1)} s` : "";
  return `${does}: ${failed} of ${ended} attempts failed${error === "" ? "" : ` (${error})`}${next}`;
}
