/**
 * One value inside data, not decoded: its position in the original text or bytes.
 *
 * The engine looks into data in a few places only (chaining, a traceback). It uses these functions for both encodings, and passes
 * on slices: an output's data is exactly what the worker wrote.
 */
import { major, majorOf } from "./cbor-head.ts";
import { cborEntries, cborItems, cborStringBytes, cborUntagged } from "./cbor-item.ts";
import { cborKeyText, readCbor } from "./cbor-read.ts";
import type { CborBytes, Data } from "./data-value.ts";
import { jsonItems, jsonMember, jsonMembers, readJson } from "./json-text.ts";
import { nameFromBytes } from "./names.ts";

export interface RawValue {
  readonly data: Data;
  readonly start: number;
  readonly end: number;
}

/** A tuple is an array; text and byte strings are both strings; undefined is null; a UUID is other. */
export type RawKind = "object" | "array" | "string" | "number" | "boolean" | "null" | "other";

export interface RawEntry {
  /** The key as text, with bytes decoded as in names; `isString` is false for keys such as 1, which JSON does not have. */
  readonly key: string;
  readonly isString: boolean;
  readonly value: RawValue;
}

/** The value of a top-level key, text or bytes; the last one where a key is repeated. Null when there is none. */
export function rawMember(data: Data, key: string): RawValue | null {
  if (typeof data === "string") {
    const member = jsonMember(data, key);
    return member === null ? null : { data, start: member.start, end: member.end };
  }
  let found: RawValue | null = null;
  for (const entry of cborEntries(data, 0)) {
    if (isCborKey(data, entry.key.start, key)) found = { data, start: entry.start, end: entry.end };
  }
  return found;
}

/** Whether the key that starts here is this one, as text or as bytes. */
export function isCborKey(bytes: Uint8Array, start: number, key: string): boolean {
  const kind = majorOf(bytes, start);
  return (kind === major.text || kind === major.bytes) && cborKeyText(bytes, start) === key;
}

export function rawKind({ data, start }: RawValue): RawKind {
  return typeof data === "string" ? jsonKind(data, start) : cborKind(data, start);
}

function jsonKind(text: string, start: number): RawKind {
  switch (text[start]) {
    case "{":
      return "object";
    case "[":
      return "array";
    case '"':
      return "string";
    case "t":
    case "f":
      return "boolean";
    case "n":
      return "null";
    default:
      return "number";
  }
}

function cborKind(bytes: Uint8Array, start: number): RawKind {
  switch (majorOf(bytes, start)) {
    case major.unsigned:
    case major.negative:
      return "number";
    case major.bytes:
    case major.text:
      return "string";
    case major.array:
      return "array";
    case major.map:
      return "object";
    case major.tag:
      return cborTaggedKind(bytes, start);
    default:
      return cborSimpleKind(bytes[start]);
  }
}

function cborTaggedKind(bytes: Uint8Array, start: number): RawKind {
  if (majorOf(bytes, cborUntagged(bytes, start)) === major.array) return "array";
  const value = readCbor(bytes, start, false);
  return typeof value === "number" || typeof value === "bigint" ? "number" : "other";
}

function cborSimpleKind(first: number | undefined): RawKind {
  if (first === 0xf4 || first === 0xf5) return "boolean";
  return first === 0xf6 || first === 0xf7 ? "null" : "number";
}

/** The items of an array or tuple. */
export function* rawItems({ data, start }: RawValue): Generator<RawValue> {
  const slices = typeof data === "string" ? jsonItems(data, start) : cborItems(data, start);
  for (const slice of slices) yield { data, start: slice.start, end: slice.end };
}

/** The entries of an object. */
export function* rawEntries({ data, start }: RawValue): Generator<RawEntry> {
  if (typeof data === "string") {
    for (const { key, start: from, end } of jsonMembers(data, start)) {
      yield { key, isString: true, value: { data, start: from, end } };
    }
    return;
  }
  for (const entry of cborEntries(data, start)) {
    const kind = majorOf(data, entry.key.start);
    const key = cborKeyText(data, entry.key.start);
    yield {
      key,
      isString: kind === major.text || kind === major.bytes,
      value: { data, start: entry.start, end: entry.end },
    };
  }
}

/** The text of a string, with bytes decoded as in names; null for any other value. */
export function rawText(value: RawValue): string | null {
  const { data, start, end } = value;
  if (rawKind(value) !== "string") return null;
  if (typeof data === "string") return JSON.parse(data.slice(start, end)) as string;
  return majorOf(data, start) === major.bytes
    ? nameFromBytes(cborStringBytes(data, start))
    : cborKeyText(data, start);
}

/** The nearest JavaScript number; null for any other value. NaN and infinities are numbers. */
export function rawNumber(value: RawValue): number | null {
  if (rawKind(value) !== "number") return null;
  const { data, start, end } = value;
  const number =
    typeof data === "string"
      ? readJson(data.slice(start, end), { precise: false, maps: false })
      : readCbor(data, start, false);
  return Number(number);
}

/** An object inside data, as data with the same text or bytes. Null for any other value. */
export function rawData(value: RawValue): Data | null {
  const { data, start, end } = value;
  if (rawKind(value) !== "object") return null;
  // V8 keeps the whole text alive for a slice of it. The outputs of a unit are about as long as its data, so that is acceptable.
  if (typeof data === "string") return data.slice(start, end) as Data;
  // A copy: bytes are often a view of a frame of many megabytes, and may be overwritten.
  return new Uint8Array(data.subarray(start, end)) as CborBytes;
}
