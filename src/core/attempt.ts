/**
 * An attempt records that a worker tries, or tried, a work unit: its lease, its times, its data.
 *
 * `judge` is the only place that decides whether an attempt may still be changed; every store calls it.
 */
import type { AttemptLines } from "./attempt-log.ts";
import type { Data } from "./data.ts";
import { CoordinateError, type ErrorCode } from "./errors.ts";

export const attemptStatuses = ["pending", "expired", "finished", "failed", "retryable"] as const;
export type AttemptStatus = (typeof attemptStatuses)[number];

export interface AttemptRow {
  /** Opaque and never reused: an attempt of a deleted unit cannot change a later unit of the same name. */
  id: string;
  workSpec: string;
  workUnit: string;
  worker: string;
  /** 1 for the unit's first attempt, rising. */
  number: number;
  status: AttemptStatus;
  /** Whether this is the unit's active attempt. */
  active: boolean;
  startTime: number;
  /** 0 while it runs. */
  endTime: number;
  expirationTime: number;
  /** The data that the attempt wrote, else the data it was given. */
  data: Data | null;
  /** It was settled or renewed after its lease had expired, before another attempt took the unit. */
  late: boolean;
  /** One message for each entry of its `output` that could not be read. */
  chainingErrors: readonly string[];
  /** The progress that its worker last reported; null when none was reported, or when the attempt is not running. */
  progress: AttemptProgress | null;
}

export interface AttemptProgress {
  /** From 0 to 1. */
  done: number;
  /** A few words for people; may be empty. */
  note: string;
}

/** Most characters of a progress note. */
export const longestNote = 1000;

export const defaultLifetimeMs = 15 * 60 * 1000;

/** The traceback of a unit without tries left. A claim or sweep fails it by an attempt that never ran, so that its history says why. */
export const tooManyRetries = "too many retries";

export const attemptActions = ["finish", "fail", "error", "retry", "expire", "renew"] as const;
export type AttemptAction = (typeof attemptActions)[number];

/**
 * Why a unit has failed.
 *   error       its task failed it, or ended in an error and is not tried again
 *   exhausted   it has no tries left
 *   dependency  a unit that it depends on failed or was deleted
 *   expired     its task took too long
 *   cancelled   it was cancelled
 *   late        it was too late to be useful, as when it had not begun by `expires`
 */
export const failReasons = ["error", "exhausted", "dependency", "expired", "cancelled", "late"] as const;
export type FailReason = (typeof failReasons)[number];

/** The reasons that a settle may give; the rules set the others. */
export const givenReasons = ["error", "expired", "cancelled", "late"] as const;
export type GivenReason = (typeof givenReasons)[number];

/** How the traceback of a cancelled unit begins. */
export const cancelled = "cancelled";

export interface AttemptChange {
  attempt: string;
  action: AttemptAction;
  /** Replaces the attempt's data; absent or null keeps it. */
  data?: Data | null;
  /** `retry`: the unit waits this long. */
  delayMs?: number;
  /** `renew`: the lease ends this long from now; zero or less gives the unit back at once. */
  lifetimeMs?: number;
  /**
   * The attempt does not count as a try. `expire` of a pending attempt: the worker never began. `retry`: the worker began, then
   * postponed the unit.
   */
  untried?: boolean;
  /** `error`: what went wrong, for people. It becomes the `traceback` of the attempt's data. */
  error?: string;
  /** `fail` and `error`: the reason, if the unit fails; `error` when absent. */
  reason?: GivenReason;
  /** `renew`: how far the attempt has come. Absent keeps the last report. */
  progress?: AttemptProgress;
  /** Log lines of its task. They are stored even if the change is refused. */
  log?: AttemptLines;
  /**
   * `finish`, `fail` or `retry` of an attempt that lost its unit before its lease ended, as by a reset: the outcome is recorded on the
   * attempt, whose end time stays the same, and nothing else changes. Without it: `lost_lease`. For Go clients, which were promised it.
   */
  recordTaken?: boolean;
}

/** The length of the data and the log lines, which make a request long. */
export function lengthOfChange({ data, log }: AttemptChange): number {
  let length = data?.length ?? 0;
  if (log !== undefined) for (const { text } of log.lines) length += text.length;
  return length;
}

export interface NextTry {
  /** From now. */
  delayMs: number;
  left: number | null;
}

/** The result of one change. A refused change has an error and changed nothing, but a `renew` with `lost_lease` stores its data. */
export interface AttemptChanged {
  attempt: string;
  error: ErrorCode | null;
  /** False for a refused change, and for one that was in effect already, such as a repeated request. */
  changed: boolean;
  /** The status of the attempt now; null when there is no such attempt. */
  status: AttemptStatus | null;
  expirationTime: number;
  /** How many units the `output` of a finish added, and what in it could not be read. */
  outputs: number;
  chainingErrors: readonly string[];
  /** After an `error`, if the unit is tried again: when, and how many tries are left; null is unlimited. */
  retry?: NextTry;
}

/** Attempts are named by their unit's id and their number: unique without a sequence or a random source. */
export const attemptId = (unitId: number, number: number): string => `${unitId}.${number}`;

export function parseAttemptId(id: string): { unitId: number; number: number } | null {
  const dot = typeof id === "string" ? id.indexOf(".") : -1;
  if (dot < 1 || dot > 16 || id.length - dot > 17) return null;
  const unitId = Number(id.slice(0, dot));
  const number = Number(id.slice(dot + 1));
  const exact = Number.isSafeInteger(unitId) && Number.isSafeInteger(number) && unitId > 0 && number > 0;
  // "1e3.1" and "01.1" parse as numbers, but are not ids that were handed out
  return exact && attemptId(unitId, number) === id ? { unitId, number } : null;
}

export type Verdict = "apply" | "nothing" | "not_pending" | "lost_lease";

/** The status that an action leads to. */
export const actionStatus = {
  finish: "finished",
  fail: "failed",
  // or failed, if the unit is not tried again
  error: "retryable",
  retry: "retryable",
  expire: "expired",
  renew: "pending",
} as const satisfies Record<AttemptAction, AttemptStatus>;

/**
 * May `action` be applied to an attempt in `status`? A pending attempt past its expiration is `expired` here.
 * `current`: no later attempt, deletion, re-adding or clearing has taken the unit from it.
 *
 * - pending or expired, and current: `apply`. A supervisor may fail a job at the instant it finishes: the finish wins.
 * - the same outcome again: `nothing`, and no error, so that a client may repeat a request.
 * - settled otherwise: `not_pending`; replaced: `lost_lease`.
 */
export function judge(status: AttemptStatus, current: boolean, action: AttemptAction): Verdict {
  if (action !== "renew" && actionStatus[action] === status) return "nothing";
  if (action === "error" && status === "failed") return "nothing";
  if (status === "pending" || status === "expired") return current ? "apply" : "lost_lease";
  if (status === "failed" && action === "finish" && current) return "apply";
  return "not_pending";
}

/** Turns the per-item answer of a settle into the exception that a single call throws. */
export function throwChanged(changed: AttemptChanged): AttemptChanged {
  if (changed.error !== null) throw new CoordinateError(changed.error, changed.attempt);
  return changed;
}
