/**
 * Failure groups: the failed units of a work spec, grouped by error without the parts that differ from unit to unit.
 *
 * A unit that fails is only noted. The sweep puts it into its group, or a call that lists the groups does. So neither finishing
 * nor failing pays for it, and units that failed before groups existed are treated like any other. Groups store their counts:
 * listing them reads no units.
 */
import type { FailReason } from "./attempt.ts";
import { dataGetText, type Data } from "./data.ts";
import { compareNames } from "./names.ts";

export interface FailureRow {
  workSpec: string;
  /** Identifies the group within its work spec: the same for the same kind of error, in every store. */
  fingerprint: string;
  /** The significant line of the error, with `…` for the parts that differ. */
  error: string;
  /** How many failed units are in the group. */
  count: number;
  /** When the first and the last of them failed, since the group was last empty. */
  firstTime: number;
  lastTime: number;
  /** The name of the unit of the group that failed last; of several at the same time, the last by name. */
  example: string;
  /** The most tries that one of them took. */
  tries: number;
  /** Failures per hour, of units that have left the group, too: the last 48 hours that had any, oldest first. */
  trend: readonly FailurePoint[];
}

export interface FailurePoint {
  /** When the hour begins. */
  time: number;
  count: number;
}

const hour = 3_600_000;
/** Hours that are kept for each group. */
export const maxTrendPoints = 48;

/** The hour that a failure is counted in. */
const trendTime = (at: number): number => at - (((at % hour) + hour) % hour);

/** Adds up points of the same hour, and keeps the last `maxTrendPoints` hours. */
export function mergeTrend(points: Iterable<FailurePoint>): FailurePoint[] {
  const counts = new Map<number, number>();
  for (const { time, count } of points) counts.set(time, (counts.get(time) ?? 0) + count);
  return [...counts]
    .sort(([a], [b]) => a - b)
    .slice(-maxTrendPoints)
    .map(([time, count]) => ({ time, count }));
}

/** What a group keeps of its units besides their number. */
export interface FailureSummary {
  firstTime: number;
  lastTime: number;
  example: string;
  tries: number;
  trend: readonly FailurePoint[];
}

/** Adds a unit to the summary of its group. */
export function summarize(group: FailureSummary, { name, end, tries }: FailedUnit): void {
  if (end > group.lastTime || (end === group.lastTime && compareNames(name, group.example) > 0))
    group.example = name;
  group.firstTime = Math.min(group.firstTime, end);
  group.lastTime = Math.max(group.lastTime, end);
  group.tries = Math.max(group.tries, tries);
  group.trend = mergeTrend([...group.trend, { time: trendTime(end), count: 1 }]);
}

export interface FailedUnit {
  name: string;
  end: number;
  tries: number;
}

/** The summary of a group without units. */
export const noFailures = (): FailureSummary => ({
  firstTime: Infinity,
  lastTime: -Infinity,
  example: "",
  tries: 0,
  trend: [],
});

export interface Failure {
  readonly fingerprint: string;
  readonly error: string;
}

/** Most groups of a work spec; further kinds of errors share one more group. */
export const maxFailureGroups = 200;

const others: Failure = { fingerprint: "other", error: "other errors" };
const longestError = 200;

/** The group of a failed unit, given the existing groups. */
export function failureOf(
  data: Data | null,
  reason: FailReason | null,
  groups: { readonly size: number; has(fingerprint: string): boolean },
): Failure {
  const failure = fingerprintOf(errorText(data, reason));
  return groups.has(failure.fingerprint) || groups.size < maxFailureGroups ? failure : others;
}

function errorText(data: Data | null, reason: FailReason | null): string {
  if (data === null) return "";
  const last = reason === "exhausted" ? dataGetText(data, "last_error") : null;
  return last ?? dataGetText(data, "traceback") ?? dataGetText(data, "error") ?? "";
}

/** The line that says what went wrong: the first of a JavaScript stack, the last of a Python traceback. */
export function errorLine(text: string): string {
  const lines = text.split("\n").filter((line) => line.trim() !== "");
  const isPython = lines[0]?.startsWith("Traceback (most recent call last)") === true;
  return ((isPython ? lines.at(-1) : lines[0]) ?? "").trim();
}

/** The parts that differ from unit to unit, in the order in which they are replaced. */
const variable: readonly RegExp[] = [
  /(?<!\w)(["'`])(?:(?!\1).)*\1(?!\w)/g,
  /\b[a-z][a-z0-9+.-]*:\/\/\S+/gi,
  /(?<![\w…])(?:[a-z]:|\.{1,2}|~)?(?:[\\/][^\s\\/:,;()]+)+[\\/]?/gi,
  /\b[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}\b/gi,
  /[-+]?[\w.@-]*\d[\w.@%-]*/g,
];

export function fingerprintOf(text: string): Failure {
  let line = errorLine(text)
    // longer lines tend to differ somewhere beyond what people read
    .slice(0, 1000)
    .replace(/^dependency .* of work spec (.*) (failed|was deleted)$/, "dependency … of work spec $1 $2");
  if (!line.startsWith("dependency …")) for (const pattern of variable) line = line.replace(pattern, "…");
  line = line
    .replace(/…(?:[\s,]*…)+/g, "…")
    .slice(0, longestError)
    // control characters and lone surrogates: not every database can store or show them as text
    .replace(/[\p{Cc}\p{Surrogate}]/gu, "\ufffd");
  const error = line === "" ? "no error was given" : line;
  return { fingerprint: hashOf(error), error };
}

/** Twelve hexadecimal digits that differ widely even for similar texts. */
function hashOf(text: string): string {
  let a = 0x811c9dc5;
  let b = 0x9e3779b9;
  for (let i = 0; i < text.length; i++) {
    const code = text.charCodeAt(i);
    a = Math.imul(a ^ code, 0x01000193);
    b = Math.imul(b ^ code, 0x85ebca6b) ^ (b >>> 13);
  }
  b = Math.imul(b ^ (b >>> 16), 0xc2b2ae35);
  const hex = (value: number): string => (value >>> 0).toString(16).padStart(8, "0");
  return hex(a ^ (a >>> 15)) + hex(b).slice(0, 4);
}
