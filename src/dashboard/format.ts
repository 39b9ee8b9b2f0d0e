/** Numbers, times and names as people read them. */
import type { Rate } from "../core/index.ts";

const whole = new Intl.NumberFormat("en-US");
const letters: readonly (readonly [number, string])[] = [
  [1e9, " G"],
  [1e6, " M"],
  [1e3, "k"],
];

export const count = (value: number): string => whole.format(value);

/** For little room, where the exact number does not matter: 12.1 M. */
export function shortCount(value: number): string {
  for (const [size, letter] of letters) {
    if (value >= size) return (value / size).toFixed(value >= size * 100 ? 0 : 1) + letter;
  }
  return String(value);
}

export function rate(perSecond: number): string {
  if (perSecond < 0.05) return "0";
  return perSecond < 10 ? perSecond.toFixed(1) : whole.format(Math.round(perSecond));
}

export const percent = (share: number): string => {
  const value = share * 100;
  return `${value === 0 ? "0" : value < 0.1 ? "< 0.1" : value < 10 ? value.toFixed(1) : Math.round(value)} %`;
};

export const plural = (number: number, word: string): string =>
  `${count(number)} ${word}${number === 1 ? "" : "s"}`;

/** Where the command line looks for a daemon unless it is told otherwise. */
const usualOrigins: readonly string[] = ["http://127.0.0.1:5980", "http://localhost:5980"];

/** A command for this daemon and a namespace, ready to be pasted into a shell. */
export const commandLine = (ns: string, ...words: readonly string[]): string =>
  [
    "coordinate",
    ...(usualOrigins.includes(location.origin) ? [] : ["--address", location.origin]),
    ...(ns === "" ? [] : ["--namespace", ns]),
    ...words,
  ]
    .map(shellWord)
    .join(" ");

export const shellWord = (word: string): string =>
  /^[\w.:/-]+$/.test(word) ? word : `'${word.replaceAll("'", "'\\''")}'`;

/** Two units at most: 2 h 14 m, 52 s, 0.41 s. */
export function duration(ms: number): string {
  const seconds = Math.max(0, ms) / 1000;
  if (seconds < 0.1) return `${Math.round(seconds * 1000)} ms`;
  if (seconds < 1) return `${Number(seconds.toFixed(2))} s`;
  if (seconds < 10) return `${Number(seconds.toFixed(1))} s`;
  if (seconds < 60) return `${Math.floor(seconds)} s`;
  const minutes = Math.floor(seconds / 60);
  if (minutes < 60) return joined(minutes, "m", Math.floor(seconds % 60), "s");
  const hours = Math.floor(minutes / 60);
  if (hours < 48) return joined(hours, "h", minutes % 60, "m");
  return joined(Math.floor(hours / 24), "d", hours % 24, "h");
}

const joined = (a: number, first: string, b: number, second: string): string =>
  b === 0 ? `${a} ${first}` : `${a} ${first} ${b} ${second}`;

/** For a value that is updated continually: whole seconds only, so that it does not flicker. */
export function ago(ms: number): string {
  if (ms < 1000) return "now";
  const seconds = Math.floor(ms / 1000);
  return `${duration(seconds * 1000)} ago`;
}

/** "100 per 1 m, burst of 10". */
export const rateWords = ({ limit = 0, periodMs = 1000, burst = 1 }: Rate): string =>
  `${count(limit)} per ${duration(periodMs)}${burst > 1 ? `, burst of ${count(burst)}` : ""}`;

export const exactTime = (time: number): string => new Date(time).toISOString();

const two = (value: number): string => String(value).padStart(2, "0");

export function clockTime(time: number, withSeconds = true): string {
  const at = new Date(time);
  return `${two(at.getHours())}:${two(at.getMinutes())}${withSeconds ? `:${two(at.getSeconds())}` : ""}`;
}

/** With the day unless it is today. */
export function dayTime(time: number, now: number): string {
  const at = new Date(time);
  if (at.toDateString() === new Date(now).toDateString()) return clockTime(time);
  return `${at.getDate()} ${at.toLocaleString("en", { month: "short" })} ${clockTime(time, false)}`;
}

export function bytes(value: number): string {
  if (value < 1024) return `${value} B`;
  const units = ["kB", "MB", "GB", "TB"];
  let size = value / 1024;
  let unit = 0;
  while (size >= 1024 && unit < units.length - 1) {
    size /= 1024;
    unit += 1;
  }
  return `${size.toFixed(size < 10 ? 1 : 0)} ${units[unit] ?? ""}`;
}

/**
 * A name or other text of users, written so that it cannot be mistaken for something else: control characters, marks that change
 * the direction or have no width, and bytes that are no text are escaped.
 */
export const visible = (text: string): string =>
  text.replace(
    /[\u0000-\u001f\u007f-\u009f\u00ad\u061c\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff\ufff9-\ufffb]|[\ud800-\udbff](?![\udc00-\udfff])|(?<![\ud800-\udbff])[\udc00-\udfff]/g,
    (one) => `\\u${one.charCodeAt(0).toString(16).padStart(4, "0")}`,
  );

/** Like `visible`, for text of several lines. */
export const visibleLines = (text: string): string =>
  text
    .split("\n")
    .map((line) => line.split("\t").map(visible).join("\t"))
    .join("\n");

/** Cut in the middle: the beginning and the end of a name tell most. */
export function middle(text: string, max: number): string {
  if (text.length <= max) return text;
  const half = Math.floor((max - 1) / 2);
  return `${text.slice(0, half)}…${text.slice(-half)}`;
}

export const nsTitle = (ns: string): string => (ns === "" ? "default namespace" : visible(ns));
