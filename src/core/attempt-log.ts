/**
 * The log of an attempt: lines for people that its task wrote while it ran, numbered from 1.
 *
 * A worker numbers the lines of an attempt and sends them with its settles, or every second while the task runs. A line that arrives
 * twice is stored once. Only the newest lines are kept; the number of the first one says how many were left out.
 */
import { parseAttemptId } from "./attempt.ts";
import { checkCount, checkList, checkObject, checkOneOf, checkText, checkTime } from "./check.ts";
import type { AttemptKey } from "./store.ts";

export const logLevels = ["debug", "info", "warn", "error"] as const;
export type LogLevel = (typeof logLevels)[number];

export interface LogLine {
  time: number;
  level: LogLevel;
  text: string;
}

/** Lines to append to the log of one attempt. */
export interface AttemptLines {
  /**
   * The number of the first of these lines. Lines that are stored already are skipped; numbers that were never sent count as left
   * out. Absent: the lines follow the stored ones.
   */
  first?: number;
  lines: readonly LogLineInput[];
}

export interface LogLineInput {
  text: string;
  /** `info` when absent. */
  level?: LogLevel;
  /** Defaults to when the coordinator received the line. */
  time?: number;
}

export interface AttemptLinesOf extends AttemptLines {
  attempt: string;
}

export interface AttemptLog {
  attempt: string;
  /** The number of the first of `lines`. Requested lines with lower numbers were left out. */
  first: number;
  /** How many lines the task has written. */
  total: number;
  lines: readonly LogLine[];
}

export interface LogQuery {
  /** Only lines with a higher number. */
  after?: number;
}

/** Most lines kept per attempt; older ones are left out. */
export const maxLogLines = 1000;
/** Most bytes of text kept per attempt; older lines are left out. */
export const maxLogBytes = 64 * 1024;
/** Most characters of one line; longer lines are cut. */
export const maxLineLength = 4096;

/** Lines to append, checked. */
export interface LogWrite extends AttemptKey {
  /** 0: the lines follow the stored ones. */
  first: number;
  lines: readonly LogLine[];
}

/** A log as stored: `text` holds the newest of `total` lines, as JSON. */
export interface StoredLog {
  total: number;
  text: string;
}

type Packed = [time: number, level: number, text: string];

const unpack = ({ text }: StoredLog): Packed[] => JSON.parse(text) as Packed[];

/** Appends lines to a log. Returns the old log if it has all of them already. */
export function appendLog(old: StoredLog | null, { first, lines }: LogWrite): StoredLog | null {
  const before = old?.total ?? 0;
  const start = first === 0 ? before + 1 : first;
  const added = lines
    .slice(Math.max(0, before + 1 - start))
    .map(({ time, level, text }): Packed => [time, logLevels.indexOf(level), text]);
  if (added.length === 0) return old;
  const leftOut = Math.max(0, start - before - 1);
  // a worker leaves lines out only when it has more than a log keeps, so the stored lines are too old to keep
  const all = leftOut > 0 || old === null ? added : [...unpack(old), ...added];
  return {
    total: before + leftOut + added.length,
    text: JSON.stringify(all.slice(firstKept(all, ([, , text]) => text))),
  };
}

/** The index of the first line to keep: the newest lines stay, up to `maxLogLines` and `maxLogBytes`. */
export function firstKept<Line>(lines: readonly Line[], textOf: (line: Line) => string): number {
  let bytes = 0;
  let from = lines.length;
  const last = Math.max(0, lines.length - maxLogLines);
  while (from > last) {
    bytes += Buffer.byteLength(textOf(lines[from - 1]!), "utf8");
    if (bytes > maxLogBytes) break;
    from--;
  }
  return from;
}

export function readStoredLog(attempt: string, stored: StoredLog | null, after: number): AttemptLog {
  if (stored === null) return { attempt, first: after + 1, total: 0, lines: [] };
  const { total } = stored;
  const kept = unpack(stored);
  const oldest = total - kept.length + 1;
  const first = Math.max(oldest, after + 1);
  const lines = kept.slice(first - oldest).map(([time, level, text]) => ({
    time,
    level: logLevels[level] ?? "info",
    text,
  }));
  return { attempt, first, total, lines };
}

/** Cuts a text to `maxLineLength`, noting how much was left out, and replaces lone surrogates, which not every wire can carry. */
export function lineText(text: string): string {
  const cut = text.length - maxLineLength;
  const kept = cut > 0 ? text.slice(0, maxLineLength) : text;
  const whole = kept.replace(/\p{Surrogate}/gu, "\ufffd");
  return cut > 0 ? `${whole} (${cut} characters left out)` : whole;
}

/** Checks lines from a caller; null when the attempt id is malformed. */
export function checkLines(
  field: string,
  attempt: string,
  given: AttemptLines,
  now: number,
  maxItems: number,
): LogWrite | null {
  const { first, lines } = checkObject(field, given);
  const checked = checkList(`${field}.lines`, lines, maxItems).map((line, i): LogLine => {
    const name = `${field}.lines[${i}]`;
    const { text, level = "info", time } = checkObject(name, line);
    return {
      time: checkTime(`${name}.time`, time) || now,
      level: checkOneOf(`${name}.level`, level, logLevels),
      text: lineText(checkText(`${name}.text`, text)),
    };
  });
  const key = parseAttemptId(attempt);
  return key === null ? null : { ...key, first: checkCount(`${field}.first`, first, 0, 1), lines: checked };
}
