/** How the Go wire writes and reads single values: times, durations, floats, strings, data dictionaries. */
import { Buffer } from "node:buffer";
import { CoordinateError, dataToJson, type Data } from "../core/index.ts";

/** Like Go's encoder, also escapes characters that are markup in HTML. */
export function goString(text: string): string {
  const json = JSON.stringify(text);
  return /[<>&\u2028\u2029]/.test(json) ? json.replace(/[<>&\u2028\u2029]/g, escapeUnit) : json;
}

const escapeUnit = (unit: string): string => "\\u" + unit.charCodeAt(0).toString(16).padStart(4, "0");

/** RFC 3339 with trailing zeros trimmed; 0 (no time) is Go's zero time in the year 1. */
export function goTime(ms: number): string {
  if (ms === 0) return '"0001-01-01T00:00:00Z"';
  return `"${new Date(ms).toISOString().replace(/\.?0*Z$/, "Z")}"`;
}

const rfc3339 = /^(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(\.\d+)?(Z|[+-]\d\d:\d\d)$/;

export function readGoTime(field: string, value: unknown): number {
  if (value === undefined || value === null) return 0;
  const match = typeof value === "string" ? rfc3339.exec(value) : null;
  // a Date has milliseconds: finer digits are cut off
  const ms = match === null ? NaN : Date.parse(`${match[1]}${(match[2] ?? "").slice(0, 4)}${match[3]}`);
  if (Number.isNaN(ms)) throw bad(field, "an RFC 3339 time");
  return Math.max(0, ms);
}

/** Nanoseconds, an integer. */
export const goDuration = (ms: number): string => (BigInt(Math.round(ms)) * 1_000_000n).toString();

/** Converts nanoseconds to milliseconds. Rounds away from zero, so that a lease of a nanosecond does not become 0. */
export function readGoDuration(field: string, value: unknown): number {
  const ns = readGoInteger(field, value);
  return ns > 0 ? Math.ceil(ns / 1e6) : Math.floor(ns / 1e6);
}

/** Go also accepts numbers in quotes. */
export function readGoInteger(field: string, value: unknown): number {
  const number = readGoFloat(field, value);
  if (!Number.isInteger(number)) throw bad(field, "an integer");
  return number;
}

export function readGoFloat(field: string, value: unknown): number {
  if (value === undefined || value === null) return 0;
  const number =
    typeof value === "string" && /^-?\d+(\.\d+)?([eE][+-]?\d+)?$/.test(value) ? Number(value) : value;
  if (typeof number !== "number" || !Number.isFinite(number)) throw bad(field, "a number");
  return number;
}

/** `2.0`, `1E+21`, `1E-07`: written like Go, so that Go reads the value as a float. */
export function goFloat(value: number): string {
  if (Number.isInteger(value) && Math.abs(value) < 1e21) return `${value}.0`;
  return String(value)
    .replace(/e([+-])(\d)$/, "e$10$2")
    .replace("e", "E");
}

/** For fields that are an int in Go and a number here. */
export const goInteger = (value: number): string => String(BigInt(Math.trunc(value)));

export const readGoBoolean = (value: unknown): boolean => value === true;

export function readGoText(field: string, value: unknown): string {
  if (value === undefined || value === null) return "";
  if (typeof value !== "string") throw bad(field, "a string");
  return value;
}

export function readGoList(field: string, value: unknown): string[] {
  if (value === undefined || value === null) return [];
  if (!Array.isArray(value)) throw bad(field, "a list of strings");
  return value.map((item) => readGoText(field, item));
}

/**
 * A JSON object if that loses nothing, else base64 of CBOR. The Go server writes CBOR only for tuples and UUIDs, and turns
 * byte strings into text. Go clients read both forms, so byte strings stay byte strings here.
 */
export function goData(data: Data | null): string {
  if (data === null) return "null";
  if (typeof data === "string") return data;
  const json = dataToJson(data);
  if (json.lossless) return json.text;
  return `"${Buffer.from(data.buffer, data.byteOffset, data.byteLength).toString("base64")}"`;
}

/** Units and attempts omit empty data. */
export const isEmptyData = (data: Data | null): boolean =>
  data === null || (typeof data === "string" ? /^\s*\{\s*\}\s*$/.test(data) : data[0] === 0xa0);

const bad = (field: string, want: string): CoordinateError =>
  new CoordinateError("bad_argument", `${field}: expected ${want}`);
