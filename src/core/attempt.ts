/**
 * An attempt records that a worker tries, or tried, a work unit: its lease, its times, its data.
 *
 * The rules of who may still change what stand here once, as a table of cases; every store asks `judge`.
 */
import type { AttemptLines } from "./attempt-log.ts";
import type { Data } from "./data.ts";
import { CoordinateError, type ErrorCode } from "./errors.ts";

export const attemptStatuses = ["pending", "expired", "finished", "failed", "retryable"] as const;
export type AttemptStatus = (typeof attemptStatuses)[number];

export interface AttemptRow {
  /** Opaque, unique for ever: attempts of a unit that was deleted cannot touch its successor. */
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
  /** What the attempt wrote, else what it was given. */
  data: Data | null;
  /** It was settled after its lease had passed, before anybody else took the unit. */
  late: boolean;
  /** What could not be read in its `output`. */
  chainingErrors: readonly string[];
  /** How far it has come, as its worker last said; null when it said nothing, and when the attempt does not run. */
  progress: AttemptProgress | null;
}

export interface AttemptProgress {
  /** From 0 to 1. */
  done: number;
  /** A few words for people; may be empty. */
  note: string;
}

/** Characters of a progress note. */
export const longestNote = 1000;

export const defaultLifetimeMs = 15 * 60 * 1000;

/** A unit that cannot go on is failed by an attempt of its own that nobody ran, so that its history says so. */
export const tooManyRetries = "too many retries";

export const attemptActions = ["finish", "fail", "error", "retry", "expire", "renew"] as const;
export type AttemptAction = (typeof attemptActions)[number];

/**
 * Why a unit has failed.
 *   error       its task failed it, or ended in an error and is not tried again
 *   exhausted   it was tried as often as it may be
 *   dependency  a unit that it depends on failed or was deleted
 *   expired     its task took too long
 *   cancelled   somebody cancelled it
 *   late        it came too late to be of use
 */
export const failReasons = ["error", "exhausted", "dependency", "expired", "cancelled", "late"] as const;
export type FailReason = (typeof failReasons)[number];

/** Those that a settle may give; the others follow from rules. */
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
  /** `renew`: the lease ends this long from now; zero or less gives it back at once. */
  lifetimeMs?: number;
  /**
   * It does not count as a try. `expire` of a pending attempt: the worker never began. `retry`: it began and put the unit
   * off.
   */
  untried?: boolean;
  /** `error`: what went wrong, for people. It becomes the `traceback` of the attempt's data. */
  error?: string;
  /** `fail` and `error`: why, should the unit fail; `error` when absent. */
  reason?: GivenReason;
  /** `renew`: how far the attempt has come. Absent leaves what was said before. */
  progress?: AttemptProgress;
  /** Lines that its task wrote. They are kept whatever becomes of the change. */
  log?: AttemptLines;
  /**
   * `finish`, `fail` or `retry` of an attempt that the unit was taken from before its lease ended, as by a reset: it is recorded on the
   * attempt, which ended when the unit was taken, and nothing else changes. Without it: `lost_lease`. For clients that were promised it.
   */
  recordTaken?: boolean;
}

export interface NextTry {
  /** From now on. */
  delayMs: number;
  left: number | null;
}

/** What became of one change. Refused changes have an error and changed nothing, but for the data of a lost renew. */
export interface AttemptChanged {
  attempt: string;
  error: ErrorCode | null;
  /** False for a repeated request that was carried out before. */
  changed: boolean;
  /** Where the attempt stands now; null when it is not known. */
  status: AttemptStatus | null;
  expirationTime: number;
  /** How many units the `output` of a finish made, and what in it could not be read. */
  outputs: number;
  chainingErrors: readonly string[];
  /** After an `error` of a unit that is tried again: when, and how often at most; null is unlimited. */
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
  // "1e3.1" and "01.1" are numbers too, but not the name that was handed out
  return exact && attemptId(unitId, number) === id ? { unitId, number } : null;
}

export type Verdict = "apply" | "nothing" | "not_pending" | "lost_lease";

/** The status that an action leads to. */
export const actionStatus = {
  finish: "finished",
  fail: "failed",
  // or failed, where it is not tried again
  error: "retryable",
  retry: "retryable",
  expire: "expired",
  renew: "pending",
} as const satisfies Record<AttemptAction, AttemptStatus>;

/**
 * May `action` be applied to an attempt in `status`? A pending attempt past its expiration is `expired` here.
 * `current`: no later attempt, deletion, re-adding or clearing has taken the unit from it.
 *
 * - pending or expired and current: yes. A supervisor may fail a job at the instant it finishes: finish wins.
 * - the same outcome again: nothing to do, and no error, so that a client may repeat a request.
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
