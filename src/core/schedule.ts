/**
 * Schedules: the times at which a work spec makes units of its own. Pure: times in, times out.
 *
 * A cron expression is read as the clock of its time zone shows it. Where that clock is set forward, a time that does not
 * exist is the first moment after the gap; where it is set back, a fixed time comes once and a step (`*`, `0-59/15`) goes on
 * through both hours.
 */
import { Cron } from "croner";
import { latestTime } from "./check.ts";
import type { WorkSpecMeta } from "./work-spec-fields.ts";

export const overlapPolicies = ["allow", "skip", "wait"] as const;
export type OverlapPolicy = (typeof overlapPolicies)[number];

/** When units are made: by one of `cron`, `everyMs` and `at`. None of them: there is no schedule. */
export interface Schedule {
  cron?: string;
  /** Of `cron`; UTC when absent. */
  timezone?: string;
  /** Counted from `start`, else from 1970. */
  everyMs?: number;
  at?: readonly number[];
  start?: number;
  end?: number;
  jitterMs?: number;
  /** How many runs are made up for after an outage, the latest ones; 1 when absent. */
  catchUp?: number;
  overlap?: OverlapPolicy;
}

/** A run that is made later than this has been missed, and is left to `catchUp`. */
export const graceMs = 60_000;
const minEveryMs = 1000;
const maxDates = 10_000;
const maxCatchUp = 1000;

export const hasSchedule = ({ cron, everyMs, at }: Schedule): boolean =>
  cron !== undefined || everyMs !== undefined || at !== undefined;

/** The name of the unit of a run: its time in UTC. */
export const runName = (time: number): string => new Date(time).toISOString().replace(".000Z", "Z");

// ---- checking

/** What is wrong with a schedule that is one, by key; null when it is well. */
export function wrongInSchedule(schedule: Schedule): { key: string; problem: string } | null {
  const { cron, timezone, everyMs, at, start = 0, end, catchUp = 1 } = schedule;
  const wrong = (key: string, problem: string): { key: string; problem: string } => ({ key, problem });
  const given = [cron, everyMs, at].filter((one) => one !== undefined).length;
  if (given > 1) return wrong("", "expected one of cron, every and at");
  if (timezone !== undefined && cron === undefined) return wrong("timezone", "only with cron");
  if (timezone !== undefined && !isTimezone(timezone))
    return wrong("timezone", `expected a time zone such as Europe/Brussels, got ${JSON.stringify(timezone)}`);
  if (everyMs !== undefined && everyMs < minEveryMs) return wrong("every", "expected 1 second or more");
  if (at?.length === 0 || (at?.length ?? 0) > maxDates) return wrong("at", `expected 1 to ${maxDates} dates`);
  if (end !== undefined && end < start) return wrong("end", "is before start");
  if (catchUp > maxCatchUp) return wrong("catch_up", `expected at most ${maxCatchUp}`);
  if (cron === undefined) return null;
  try {
    // a question mark would be the moment at which the expression is read
    if (cron.includes("?")) return wrong("cron", "? is not supported; write *");
    cronOf(cron, timezone);
    return null;
  } catch (error) {
    const said = error instanceof Error ? error.message.replace(/^CronPattern: /, "") : String(error);
    return wrong("cron", `${JSON.stringify(cron)} is not a cron expression: ${said}`);
  }
}

function isTimezone(name: string): boolean {
  try {
    new Intl.DateTimeFormat("en", { timeZone: name });
    return true;
  } catch {
    return false;
  }
}

/** Parsed expressions: the same few are asked for again and again. */
const parsed = new Map<string, Cron>();

function cronOf(expression: string, timezone = "UTC"): Cron {
  const key = `${timezone} ${expression}`;
  let cron = parsed.get(key);
  if (cron === undefined) {
    cron = new Cron(expression, { timezone, paused: true, mode: "5-or-6-parts" });
    if (parsed.size > 1000) parsed.clear();
    parsed.set(key, cron);
  }
  return cron;
}

// ---- times

/** The first time after this one; 0 when there is none. */
export function nextRun(schedule: Schedule, after: number): number {
  const { start = 0, end = latestTime } = schedule;
  const time = nextTime(schedule, Math.max(after, start - 1));
  return time <= end ? time : 0;
}

function nextTime({ cron, timezone, everyMs, at, start = 0 }: Schedule, after: number): number {
  if (cron !== undefined) return cronOf(cron, timezone).nextRun(new Date(after))?.getTime() ?? 0;
  if (everyMs !== undefined) return start + (Math.floor((after - start) / everyMs) + 1) * everyMs;
  return Math.min(...(at ?? []).filter((time) => time > after), Infinity) % Infinity || 0;
}

/** The next times after this one, at most so many. */
export function nextRuns(schedule: Schedule, after: number, count: number): number[] {
  const times: number[] = [];
  for (let time = nextRun(schedule, after); time > 0 && times.length < count; time = nextRun(schedule, time))
    times.push(time);
  return times;
}

/** The latest times from one to another, both included, at most so many, in rising order. */
export function lastRuns(schedule: Schedule, from: number, to: number, count: number): number[] {
  const { cron, timezone, everyMs, at = [], start = 0, end = latestTime } = schedule;
  const min = Math.max(from, start);
  const max = Math.min(to, end);
  let times: number[];
  if (cron !== undefined) {
    // those before the next full second: times of cron have none but full seconds
    const before = Math.min((Math.floor(max / 1000) + 1) * 1000, latestTime);
    times = cronOf(cron, timezone)
      .previousRuns(count, new Date(before))
      .map((date) => date.getTime());
  } else if (everyMs !== undefined) {
    const last = start + Math.floor((max - start) / everyMs) * everyMs;
    times = Array.from({ length: count }, (_, i) => last - i * everyMs);
  } else times = [...new Set(at)];
  return times
    .filter((time) => time >= min && time <= max)
    .sort((a, b) => a - b)
    .slice(-count);
}

// ---- runs

/** When runs are due next; 0 when nothing is to come. A paused work spec makes none. */
export const runsDue = ({ paused, nextRun: next }: WorkSpecMeta): number => (paused ? 0 : next);

export const isRunDue = (meta: WorkSpecMeta, now: number): boolean => {
  const due = runsDue(meta);
  return due > 0 && due <= now;
};

/**
 * The runs to make now. Of those that have become due since the last were made, the latest `catchUp`; where that is 0, the
 * latest alone, if it is hardly late. Under the overlap policies `skip` and `wait` no more than can be used: one, or one and
 * another that waits for it.
 */
export function dueRuns({ schedule, nextRun: from }: WorkSpecMeta, now: number): number[] {
  const { catchUp = 1, overlap = "allow" } = schedule;
  const max = overlap === "allow" ? catchUp : Math.min(catchUp, overlap === "skip" ? 1 : 2);
  const times = lastRuns(schedule, from, now, Math.max(1, max));
  return catchUp > 0 ? times : times.filter((time) => now - time <= graceMs);
}

/** How much later the unit of a run may begin: another part of the jitter for each run, the same on every daemon. */
export function runDelay(workSpec: string, { jitterMs = 0 }: Schedule, time: number): number {
  if (jitterMs === 0) return 0;
  // FNV-1a
  let hash = 0x811c9dc5;
  for (const char of `${workSpec} ${time}`) hash = Math.imul(hash ^ (char.codePointAt(0) ?? 0), 0x01000193);
  // the last bits of it are the well mixed ones
  hash = Math.imul(hash ^ (hash >>> 15), 0x2c1b3c6d);
  return Math.floor((((hash ^ (hash >>> 13)) >>> 0) / 2 ** 32) * jitterMs);
}

const sameTimes = (a: Schedule, b: Schedule): boolean => timesKey(a) === timesKey(b);
const timesKey = ({ cron, timezone, everyMs, at, start, end }: Schedule): string =>
  JSON.stringify([cron, timezone, everyMs, at, start, end]);

/**
 * Metadata that is about to be written, with its next run. A schedule whose times stay the same goes on where it was, so that
 * setting a work spec again loses no run; a new one begins after now.
 */
export function withRuns(old: WorkSpecMeta | null, meta: WorkSpecMeta, now: number): WorkSpecMeta {
  const { schedule } = meta;
  if (!hasSchedule(schedule)) return { ...meta, nextRun: 0, lastRun: 0 };
  if (old !== null && sameTimes(old.schedule, schedule))
    return { ...meta, nextRun: old.nextRun, lastRun: old.lastRun };
  return { ...meta, nextRun: nextRun(schedule, now), lastRun: 0 };
}
