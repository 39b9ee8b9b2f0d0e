/**
 * Circuit breakers: a work spec whose attempts fail too often is paused or slowed down, probes with a few units now and then, and
 * resumes when the probes finish.
 *
 * Attempts that finish, fail or end in an error are counted in tenths of the window, each tenth under its start time. Each failure
 * checks the counts and may trip the breaker. While it is tripped nothing is counted, and only probes begin: up to `probes` units
 * in each `pause`. The outcome of attempts that began after the trip decides whether it stays tripped.
 */
import type { FailReason } from "./attempt.ts";
import { longestSkewMs, longestSpanMs } from "./check.ts";
import type { Data } from "./data.ts";
import { failureOf } from "./failure.ts";
import type { WorkSpecMeta } from "./work-spec-fields.ts";

export const breakerScopes = ["work_spec", "error"] as const;
export const breakerActions = ["pause", "slow"] as const;

/** Without `failures`, or with 0, there is no breaker. */
export interface Breaker {
  /** The share of failures that trips it. */
  failures?: number;
  /** It does not trip on fewer attempts in the window than this; 10 when absent. */
  min?: number;
  /** A minute when absent. */
  windowMs?: number;
  /** How long it waits before it probes, and between probes; a minute when absent. */
  pauseMs?: number;
  /** 1 when absent. */
  probes?: number;
  /** Whether all failures are counted together, or separately for each error; together when absent. */
  by?: (typeof breakerScopes)[number];
  /** `slow`: it probes at once. `pause` when absent. */
  action?: (typeof breakerActions)[number];
}

/** Empty for a breaker that has never tripped. */
export interface BreakerState {
  /** When it tripped; absent while it is closed. */
  since?: number;
  /** When the next round of probes may start. */
  until?: number;
  /** Probes that may begin before `until`. */
  left?: number;
  /** Probes that have finished since the last one failed. */
  good?: number;
  /** What tripped it: `failed` of `ended` attempts, and the error of the last failure. */
  failed?: number;
  ended?: number;
  error?: string;
  /** Set when it closes: outcomes before this time do not count. */
  from?: number;
}

/** A breaker tripped or closed. */
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

/** The settings of the breaker as text, to compare: when they change, the counts start anew. */
export const breakerRules = ({ breaker }: WorkSpecMeta): string => JSON.stringify(breaker);

// an earlier version stored longer spans
const spanOf = (ms: number): number => Math.min(Math.max(1, ms), longestSpanMs);
const windowOf = ({ windowMs = defaults.windowMs }: Breaker): number => spanOf(windowMs);
const pauseOf = ({ pauseMs = defaults.pauseMs }: Breaker): number => spanOf(pauseMs);
const probesOf = ({ probes = defaults.probes }: Breaker): number => Math.max(1, probes);

// ---- counting

/** The length of a tenth of the window; 0 without a breaker. */
export const countStepMs = (meta: WorkSpecMeta): number =>
  hasBreaker(meta) ? Math.max(1, Math.ceil(windowOf(meta.breaker) / 10)) : 0;

/** The time under which an outcome is counted at `now`. */
export const countedAt = (meta: WorkSpecMeta, now: number): number =>
  Math.max(meta.breakerState.from ?? 0, now - (now % countStepMs(meta)));

/** The start of the window: counts under this time or later are in it. */
export const countedFrom = (meta: WorkSpecMeta, now: number): number =>
  Math.max(meta.breakerState.from ?? 0, now - windowOf(meta.breaker) + 1);

/** The keys of the counts: one for finished attempts; for failures a common one, or their fingerprints. */
export const finishedKey = "";
const failedKey = "failed";

export type OutcomeCounts = ReadonlyMap<string, number>;

/** The outcomes of one work spec in one verb: the start times of finished attempts, and the failed attempts. */
export interface Outcomes {
  finished: number[];
  failed: FailedAttempt[];
}

export interface FailedAttempt {
  start: number;
  data: Data | null;
  reason: FailReason | null;
}

/** The outcomes by count key. The keys of `window` matter because the number of distinct errors is limited. */
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

/** The tripped state, if the counts of the whole window and a failure of this verb trip the breaker; else null. */
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
    // attempts that begin after the trip are probes, so the first one must not begin in the same millisecond
    const until = now + (breaker.action === "slow" ? 1 : pauseOf(breaker));
    // divided, not multiplied: 0.07 * 100 is a little more than 7
    if (failed > 0 && failed / ended >= (breaker.failures ?? 0))
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

/** The state of a tripped breaker after these outcomes; the same object if nothing changes. */
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

/** The state after closing. Nothing was counted since the trip; outcomes from now on are counted under later times. */
export const closed = (state: BreakerState): BreakerState =>
  state.since === undefined ? state : { from: Math.max(state.since, state.from ?? 0) + 1 };

/** Whether a round of probes may start: the pause is over, or it is longer than a pause, because a clock that was ahead tripped it. */
const mayProbe = ({ breaker, breakerState: { until = 0 } }: WorkSpecMeta, now: number): boolean =>
  now >= until || until > now + pauseOf(breaker) + longestSkewMs;

/** How many units the breaker lets begin now. */
export function probesLeft(meta: WorkSpecMeta, now: number): number {
  if (!isTripped(meta)) return Infinity;
  return mayProbe(meta, now) ? probesOf(meta.breaker) : (meta.breakerState.left ?? 0);
}

/** The state of a tripped breaker after `count` probes began. */
export function afterClaim(meta: WorkSpecMeta, count: number, now: number): BreakerState {
  const { breaker, breakerState: state } = meta;
  const { since = 0, left = 0, from = 0 } = state;
  if (!mayProbe(meta, now)) return { ...state, left: left - count };
  const round = { ...state, left: probesOf(breaker) - count, until: now + pauseOf(breaker) };
  // by a clock that was ahead: probes begin after the trip, and what that clock counted stays uncounted
  return since < now ? round : { ...round, since: now - 1, from: Math.max(from, since + 1) };
}

/** For a person: what tripped it, and what comes next. */
export function describeBreaker({ breaker, breakerState }: WorkSpecMeta, now: number): string {
  const { failed = 0, ended = 0, error = "", until = 0 } = breakerState;
  const does = breaker.action === "slow" ? "is slowed down by its breaker" : "is paused by its breaker";
  const next = until > now ? `; next probe in ${((until - now) / 1000).toFixed(1)} s` : "";
  return `${does}: ${failed} of ${ended} attempts failed${error === "" ? "" : ` (${error})`}${next}`;
}
