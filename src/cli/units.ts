/** Numbers, times and durations, for people. The clock is an argument. */
import type { Rate } from "../core/index.ts";
import { UsageError } from "./failure.ts";

/** 1234567 as 1,234,567. */
export const count = (value: number): string => String(value).replace(/\B(?=(\d{3})+(?!\d))/g, ",");

/** "1 work unit", "1,200 work units". */
export const counted = (value: number, noun: string, plural = `${noun}s`): string =>
  `${count(value)} ${value === 1 ? noun : plural}`;

/** Two parts at most: "350 ms", "12 s", "3 min 20 s", "5 h 12 min", "3 d 4 h". */
export function duration(ms: number): string {
  if (!Number.isFinite(ms)) return "forever";
  if (ms < 0) return `-${duration(-ms)}`;
  if (ms < 1000) return `${Math.round(ms)} ms`;
  if (ms < 10_000) return `${(Math.floor(ms / 100) / 10).toFixed(1)} s`;
  const seconds = Math.floor(ms / 1000);
  const parts: readonly [size: number, unit: string][] = [
    [86_400, "d"],
    [3600, "h"],
    [60, "min"],
    [1, "s"],
  ];
  const first = parts.findIndex(([size]) => seconds >= size);
  const [size, unit] = parts[first] ?? [1, "s"];
  const next = parts[first + 1];
  const rest = next === undefined ? 0 : Math.floor((seconds % size) / next[0]);
  return `${Math.floor(seconds / size)} ${unit}${rest > 0 && next !== undefined ? ` ${rest} ${next[1]}` : ""}`;
}

/** A rate of a work spec: "100 in 1 min, 10 at once". */
export const unitsIn = ({ limit = 0, periodMs = 1000, burst = 1 }: Rate): string =>
  `${limit} in ${duration(periodMs)}${burst > 1 ? `, ${burst} at once` : ""}`;

/** Local time to the second; the day is left out when it is today. */
export function time(at: number, now: number): string {
  const text = (ms: number): string => {
    const date = new Date(ms - new Date(ms).getTimezoneOffset() * 60_000);
    return date.toISOString().slice(0, 19).replace("T", " ");
  };
  const shown = text(at);
  return shown.slice(0, 10) === text(now).slice(0, 10) ? shown.slice(11) : shown;
}

/** "3 min ago", "in 12 s". */
export const relative = (at: number, now: number): string =>
  at <= now ? `${duration(now - at)} ago` : `in ${duration(at - now)}`;

/** "12.3/s", "4,560/s", "0.02/s". */
export function rate(perSecond: number): string {
  if (perSecond >= 100) return `${count(Math.round(perSecond))}/s`;
  return perSecond === 0 ? "0/s" : `${perSecond.toFixed(perSecond >= 1 ? 1 : 2)}/s`;
}

const units: Readonly<Record<string, number>> = {
  ms: 1,
  s: 1000,
  m: 60_000,
  min: 60_000,
  h: 3_600_000,
  d: 86_400_000,
  w: 604_800_000,
};

/** "90", "90s", "1.5h", "7d" as milliseconds; a bare number is seconds. */
export function readDuration(text: string, what: string): number {
  const match = /^(\d+(?:\.\d+)?|\.\d+)\s*([a-z]*)$/.exec(text.trim());
  const unit = units[match?.[2] === "" ? "s" : (match?.[2] ?? "none")];
  if (match === null || unit === undefined)
    throw new UsageError(`${what}: expected a time such as 90s, 15m, 12h or 7d, got ${text}`);
  return Number(match[1]) * unit;
}

/** A whole number of at least `min`. */
export function readCount(text: string, what: string, min = 0): number {
  const value = /^\d{1,15}$/.test(text) ? Number(text) : NaN;
  if (!(value >= min))
    throw new UsageError(`${what}: expected a whole number of ${min} or more, got ${text}`);
  return value;
}

export function readNumber(text: string, what: string): number {
  const value = text.trim() === "" ? NaN : Number(text);
  if (!Number.isFinite(value)) throw new UsageError(`${what}: expected a number, got ${text}`);
  return value;
}

/** 1536 as "1.5 KiB". */
export function bytes(value: number): string {
  const names = ["bytes", "KiB", "MiB", "GiB", "TiB"];
  let size = value;
  let at = 0;
  for (; size >= 1024 && at < names.length - 1; at++) size /= 1024;
  return `${at === 0 ? size : size.toFixed(1)} ${names[at] ?? ""}`;
}
