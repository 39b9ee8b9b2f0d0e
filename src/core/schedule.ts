/**
 * Schedules: the times at which a work spec makes units by itself. Pure functions from times to times.
 *
 * A cron expression is evaluated in the local time of its time zone. When the clock is set forward, a time that does not exist
 * becomes the first moment after the gap. When it is set back, a fixed time comes once, and a step (`*`, `0-59/15`) continues
 * through both hours.
 */
import { Cron } from "croner";
import { latestTime } from "./check.ts";
import type { WorkSpecMeta, WorkSpecProblem } from "./work-spec-fields.ts";

export const overlapPolicies = ["allow", "skip", "wait"] as const;
export type OverlapPolicy = (typeof overlapPolicies)[number];

/** When units are made: by one of `cron`, `everyMs` and `at`. None of them: there is no schedule. */
export interface Schedule {
  cron?: string;
  /** The time zone of `cron`; UTC when absent. */
  timezone?: string;
  /** Counted from `start`, else from 1970. */
  everyMs?: number;
  at?: readonly number[];
  start?: number;
  end?: number;
  jitterMs?: number;
  /** How many missed runs are made after an outage, the latest ones; 1 when absent. */
  catchUp?: number;
  overlap?: OverlapPolicy;
}

/**
 * A run that would be made later than this was missed: `catchUp` decides about it. Also by how much the clock of another daemon may
 * be ahead.
 */
export const graceMs = 60_000;
const minEveryMs = 1000;
const maxDates = 10_000;
const maxCatchUp = 1000;

export const hasSchedule = ({ cron, everyMs, at }: Schedule): boolean =>
  cron !== undefined || everyMs !== undefined || at !== undefined;

/** The name of the unit of a run: its time in UTC. */
export const runName = (time: number): string => new Date(time).toISOString().replace(".000Z", "Z");

// ---- checking

/** The problems of a schedule, each with its path; none when it is valid. */
export function scheduleProblems(schedule: Schedule): WorkSpecProblem[] {
  const { cron, timezone, everyMs, at, start = 0, end, catchUp = 1 } = schedule;
  const problems: WorkSpecProblem[] = [];
  const wrong = (key: string, problem: string): void =>
    void problems.push({ path: ["schedule", ...(key === "" ? [] : [key])], problem });
  const given = [cron, everyMs, at].filter((one) => one !== undefined).length;
  if (given > 1) wrong("", "expected only one of cron, every and at");
  const isKnown = timezone === undefined || isTimezone(timezone);
  if (timezone !== undefined && cron === undefined) wrong("timezone", "allowed only with cron");
  else if (!isKnown)
    wrong("timezone", `expected a time zone such as Europe/Brussels, got ${JSON.stringify(timezone)}`);
  if (everyMs !== undefined && everyMs < minEveryMs)
    wrong("every", `expected 1 second or more, got ${everyMs / 1000}`);
  if (at?.length === 0 || (at?.length ?? 0) > maxDates) wrong("at", `expected 1 to ${maxDates} dates`);
  if (end !== undefined && end < start) wrong("end", "expected a time at or after start");
  if (catchUp > maxCatchUp) wrong("catch_up", `expected at most ${maxCatchUp}, got ${catchUp}`);
  if (cron === undefined) return problems;
  // a question mark would stand for the moment at which the expression is parsed
  if (cron.includes("?")) wrong("cron", "? is not supported; write *");
  else
    try {
      cronOf(cron, isKnown ? timezone : undefined);
    } catch (error) {
      const said = error instanceof Error ? error.message.replace(/^CronPattern: /, "") : String(error);
      wrong("cron", `${JSON.stringify(cron)} is not a cron expression: ${said}`);
    }
  return problems;
}

function isTimezone(name: string): boolean {
  try {
    new Intl.DateTimeFormat("en", { timeZone: name });
    return true;
  } catch {
    return false;
  }
}

/** Cache of parsed expressions: the same few are used again and again. */
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

/** The first run after this time; 0 when there is none. */
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

/** The next runs after this time, at most `count`. */
export function nextRuns(schedule: Schedule, after: number, count: number): number[] {
  const times: number[] = [];
  for (let time = nextRun(schedule, after); time > 0 && times.length < count; time = nextRun(schedule, time))
    times.push(time);
  return times;
}

/** The latest runs from `from` to `to`, both included, at most `count`, in rising order. */
export function lastRuns(schedule: Schedule, from: number, to: number, count: number): number[] {
  const { cron, timezone, everyMs, at = [], start = 0, end = latestTime } = schedule;
  const min = Math.max(from, start);
  const max = Math.min(to, end);
  let times: number[] = [];
  if (cron !== undefined) {
    // usually one run is due, and going back always computes `count` runs, each 0.1 to 0.6 ms
    for (
      let time = nextRun(schedule, min - 1);
      time > 0 && time <= max && times.length <= count;
      time = nextRun(schedule, time)
    )
      times.push(time);
    if (times.length > count) {
      // runs before the next full second: cron times are full seconds
      const before = Math.min((Math.floor(max / 1000) + 1) * 1000, latestTime);
      times = cronOf(cron, timezone)
        .previousRuns(count, new Date(before))
        .map((date) => date.getTime());
    }
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

/** When the next run is due; 0 when there is none. A paused work spec has none. */
export const runsDue = ({ paused, nextRun: next }: WorkSpecMeta): number => (paused ? 0 : next);

/** Whether `makeRuns` has something to do: a run is due, or the schedule starts again. */
export const isRunDue = (meta: WorkSpecMeta, now: number): boolean => {
  const due = runsDue(meta);
  return (due > 0 && due <= now) || (!meta.paused && ranAhead(meta, now));
};

/** Whether a clock that was ahead made the last run. The schedule would be silent until that time, so it starts again from now. */
export const ranAhead = ({ lastRun }: WorkSpecMeta, now: number): boolean => lastRun > now + graceMs;

/**
 * The runs to make now: the latest `catchUp` of those that became due since the last run. If that is 0, only the latest, if it is
 * at most `graceMs` late. The overlap policy `skip` allows one run, `wait` two: the second waits for the first.
 */
export function dueRuns({ schedule, nextRun: from }: WorkSpecMeta, now: number): number[] {
  const { catchUp = 1, overlap = "allow" } = schedule;
  const max = overlap === "allow" ? catchUp : Math.min(catchUp, overlap === "skip" ? 1 : 2);
  const times = lastRuns(schedule, from, now, Math.max(1, max));
  return catchUp > 0 ? times : times.filter((time) => now - time <= graceMs);
}

/** How long the unit of a run is delayed: a different part of the jitter for each run, the same on every daemon. */
export function runDelay(workSpec: string, { jitterMs = 0 }: Schedule, time: number): number {
  if (jitterMs === 0) return 0;
  // FNV-1a
  let hash = 0x811c9dc5;
  for (const char of `${workSpec} ${time}`) hash = Math.imul(hash ^ (char.codePointAt(0) ?? 0), 0x01000193);
  // the low bits of FNV-1a are the well mixed ones: mix them into the others
  hash = Math.imul(hash ^ (hash >>> 15), 0x2c1b3c6d);
  return Math.floor((((hash ^ (hash >>> 13)) >>> 0) / 2 ** 32) * jitterMs);
}

/** Whether a run comes before the next one that is stored. */
function skipsRun({ schedule, nextRun: stored }: WorkSpecMeta, now: number): boolean {
  const next = nextRun(schedule, now + graceMs);
  return next > 0 && (stored === 0 || next < stored);
}

const sameTimes = (a: Schedule, b: Schedule): boolean => timesKey(a) === timesKey(b);
const timesKey = ({ cron, timezone, everyMs, at, start, end }: Schedule): string =>
  JSON.stringify([cron, timezone, everyMs, at, start, end]);

/**
 * Adds the next run to metadata that is about to be written. A schedule whose times are unchanged keeps its next run, so that
 * setting a work spec again loses no run; a new one begins after now, and so does one whose next run is from a clock that was ahead.
 */
export function withRuns(old: WorkSpecMeta | null, meta: WorkSpecMeta, now: number): WorkSpecMeta {
  const { schedule } = meta;
  if (!hasSchedule(schedule)) return { ...meta, nextRun: 0, lastRun: 0 };
  if (old !== null && sameTimes(old.schedule, schedule) && !skipsRun(old, now))
    return { ...meta, nextRun: old.nextRun, lastRun: old.lastRun };
  return { ...meta, nextRun: nextRun(schedule, now), lastRun: 0 };
}
