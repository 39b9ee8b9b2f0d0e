/**
 * The messages between a supervisor and a child, and the functions that validate what a child sends.
 *
 *   to the child
 *     start     what to load; answered with `ready`
 *     run       a claim: the units as rows, the data of the work spec and of each unit
 *     signal    the task should end
 *     expired   the attempts are given up
 *     answer    the answer to the request with this `ref`: a value or an error
 *   from the child
 *     ready     the names of its tasks
 *     failed    loading failed, and why; the child then exits
 *     begin     the child starts this attempt. If it dies now, this attempt is blamed
 *     settle    finish, fail, error, retry, expire or renew an attempt
 *     progress  reports the progress of an attempt, or stores data on it
 *     renew     extends all leases of the run
 *     log       a line for the worker's log; with an attempt, it is stored with the attempt as well
 *     lines     lines to store with an attempt
 *     done      the run has ended, with or without an error; its data is that of a `retry(ms, data)`
 *
 * A request without a `ref` (0) is not answered.
 */
import {
  attemptActions,
  CoordinateError,
  givenReasons,
  isErrorCode,
  type AttemptAction,
  type AttemptChanged,
  type AttemptRow,
  type Data,
  type GivenReason,
  type LogLevel,
  type LogLineInput,
} from "../../core/index.ts";
import { Fail, Retry, Snooze } from "../outcome.ts";
import { isStopCause, Stop, type StopCause } from "../stops.ts";
import type { Head } from "./frame.ts";

export type RunHead = {
  readonly kind: "run";
  readonly task: string;
  readonly workSpec: string;
  readonly worker: string;
  /** The data of the units follows the data of the work spec, in this order. */
  readonly units: readonly UnitHead[];
};

export type UnitHead = Omit<AttemptRow, "data" | "workSpec">;

export type SettleHead = {
  readonly kind: "settle";
  readonly ref: number;
  readonly attempt: string;
  readonly action: AttemptAction;
  readonly delayMs?: number;
  readonly lifetimeMs?: number;
  readonly untried?: boolean;
  readonly error?: string;
  readonly reason?: GivenReason;
};

export type ProgressHead = {
  readonly kind: "progress";
  readonly ref: number;
  readonly attempt: string;
  /** The progress from 0 to 1. Without it, the message has data. */
  readonly done?: number;
  readonly note?: string;
};

/** Asks the tasks of a child to end, or tells them that their attempts are given up, with the reason of the worker's signal. */
export type SignalHead = {
  readonly kind: "signal" | "expired";
  readonly cause: StopCause;
  readonly text: string;
};

export function signalHead(kind: SignalHead["kind"], { reason }: AbortSignal): SignalHead {
  const { reason: cause, message } = reason instanceof Stop ? reason : new Stop("lost");
  return { kind, cause, text: message };
}

export function readStop({ cause, text }: Head): Stop {
  return new Stop(isStopCause(cause) ? cause : "lost", typeof text === "string" ? text : undefined);
}

export type RenewHead = { readonly kind: "renew"; readonly ref: number; readonly lifetimeMs?: number };

export type LogHead = {
  readonly kind: "log";
  readonly level: "debug" | "info" | "warn" | "error";
  readonly text: string;
  readonly details: object;
  readonly attempt?: string;
};

export type LinesHead = {
  readonly kind: "lines";
  readonly attempt: string;
  readonly lines: readonly LogLineInput[];
};

export type DoneHead = {
  readonly kind: "done";
  readonly error: TaskFailure | null;
};

/** The error that a task threw: its text, and its decision if it is one. */
export interface TaskFailure {
  readonly text: string;
  readonly decision: "retry" | "snooze" | "fail" | null;
  readonly delayMs: number;
}

export type AnswerHead = {
  readonly kind: "answer";
  readonly ref: number;
  readonly error: { readonly code: string; readonly value: string } | null;
  readonly changed: AttemptChanged | null;
};

export type ReadyHead = {
  readonly kind: "ready";
  readonly taskNames: readonly string[];
  /** Names of the bulk tasks among them. */
  readonly bulkNames: readonly string[];
};

const actions: readonly string[] = attemptActions;
const reasons: readonly unknown[] = givenReasons;
const levels: readonly string[] = ["debug", "info", "warn", "error"] satisfies LogHead["level"][];

export function readSettle(head: Head): SettleHead {
  const { action, delayMs, lifetimeMs, untried, error, reason } = head;
  if (typeof action !== "string" || !actions.includes(action)) throw wrong(head, "action");
  return {
    kind: "settle",
    ref: readRef(head),
    attempt: readText(head, "attempt"),
    action: action as AttemptAction,
    ...(typeof delayMs === "number" && { delayMs }),
    ...(typeof lifetimeMs === "number" && { lifetimeMs }),
    ...(untried === true && { untried }),
    ...(typeof error === "string" && { error }),
    ...(reasons.includes(reason) && { reason: reason as GivenReason }),
  };
}

export function readProgress(head: Head): ProgressHead {
  const { done, note } = head;
  return {
    kind: "progress",
    ref: readRef(head),
    attempt: readText(head, "attempt"),
    ...(typeof done === "number" && { done }),
    ...(typeof note === "string" && { note }),
  };
}

export function readRenew(head: Head): RenewHead {
  const { lifetimeMs } = head;
  return { kind: "renew", ref: readRef(head), ...(typeof lifetimeMs === "number" && { lifetimeMs }) };
}

export function readLog(head: Head): LogHead {
  const { level, text, details } = head;
  return {
    kind: "log",
    level: typeof level === "string" && levels.includes(level) ? (level as LogHead["level"]) : "info",
    text: typeof text === "string" ? text : "",
    details: typeof details === "object" && details !== null ? details : {},
    ...(typeof head.attempt === "string" && { attempt: head.attempt }),
  };
}

export function readLinesHead(head: Head): LinesHead {
  const { lines } = head;
  const given: readonly unknown[] = Array.isArray(lines) ? lines : [];
  return {
    kind: "lines",
    attempt: readText(head, "attempt"),
    lines: given.flatMap((line) => {
      if (typeof line !== "object" || line === null || !("text" in line)) return [];
      const { level, text, time } = line as Record<string, unknown>;
      return [
        {
          text: String(text),
          level: typeof level === "string" && levels.includes(level) ? (level as LogLevel) : "info",
          ...(typeof time === "number" && { time }),
        },
      ];
    }),
  };
}

export function readDone(head: Head): DoneHead {
  const { error } = head;
  if (typeof error !== "object" || error === null) return { kind: "done", error: null };
  const text = "text" in error && typeof error.text === "string" ? error.text : "the task failed";
  const given = "decision" in error ? error.decision : null;
  const decision = given === "retry" || given === "snooze" || given === "fail" ? given : null;
  const delayMs = "delayMs" in error && typeof error.delayMs === "number" ? error.delayMs : 0;
  return { kind: "done", error: { text, decision, delayMs } };
}

export function readTaskNames(head: Head, field: "taskNames" | "bulkNames"): readonly string[] {
  const names = head[field];
  return Array.isArray(names) ? names.filter((name) => typeof name === "string") : [];
}

/** Recreates the error that the task threw in the child. */
export function thrownError({ text, decision, delayMs }: TaskFailure, data: Data | null): Error {
  switch (decision) {
    case "retry":
      return new Retry(delayMs, data ?? undefined);
    case "snooze":
      return new Snooze(delayMs);
    case "fail":
      return new Fail(text);
    case null:
      return new ChildTaskError(text);
  }
}

/** The error of a task in a child, with the stack of the child. */
export class ChildTaskError extends Error {
  override readonly name = "ChildTaskError";

  constructor(text: string) {
    super(text.split("\n", 1)[0]);
    this.stack = text;
  }
}

export function readText(head: Head, field: string): string {
  const value = head[field];
  if (typeof value !== "string") throw wrong(head, field);
  return value;
}

/** Recreates the error of an answer in the child. */
export function answeredError({ code, value }: { code: string; value: string }): Error {
  return isErrorCode(code) ? new CoordinateError(code, value) : new Error(value);
}

function readRef(head: Head): number {
  return typeof head.ref === "number" ? head.ref : 0;
}

/** An internal error, never a user's mistake: both sides of the protocol are part of this project. */
function wrong({ kind }: Head, field: string): Error {
  return new Error(`a ${kind} message without ${field}`);
}
