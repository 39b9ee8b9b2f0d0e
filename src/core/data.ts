/**
 * Data dictionaries: made here, carried opaquely everywhere else.
 *
 * Data keeps the encoding it arrived in, JSON text or CBOR bytes, so that it leaves through the same wire unchanged, key
 * order and 1.0 included. It is decoded only where its content is needed, and translated only for a reader on the other
 * wire.
 *
 * `jsonData`, `cborData` and `encodeData` make data out of other values, and refuse bad ones with `bad_data` or
 * `too_large`; the functions that take a `Data` rely on that and do not fail.
 */
import { Buffer } from "node:buffer";
import { headEnd, major, majorOf } from "./cbor-head.ts";
import { cborEntries, cborItemCount, checkCborMap } from "./cbor-item.ts";
import { cborToJson, readCbor } from "./cbor-read.ts";
import { cborMapHead, cborScalar, hasToJson, isUnfinished, writeCbor } from "./cbor-write.ts";
import type { CborBytes, Data, DataObject, JsonText } from "./data-value.ts";
import { Float, Tuple, Uuid } from "./data-value.ts";
import { describeValue } from "./describe-value.ts";
import { CoordinateError } from "./errors.ts";
import { checkJsonObject, checkObject, jsonMembers, readJson } from "./json-text.ts";
import { isCborKey, rawMember, rawText } from "./raw-value.ts";

export type { CborBytes, Data, DataObject, DataValue, JsonText } from "./data-value.ts";
export { Float, Tuple, Uuid } from "./data-value.ts";

export interface DataLimits {
  /** In the encoding of the data; JSON text counts as UTF-8. */
  readonly maxBytes?: number;
  /** Nested objects and arrays; an object of scalars is 1 deep. Never more than 1,024, to protect the stack. */
  readonly maxDepth?: number;
}

/**
 * A client puts at most so much data into one request, in characters of JSON or bytes of CBOR. As UTF-8 or base64 it is less than the
 * 32 MiB that a daemon accepts.
 */
export const maxRequestLength = 8 * 1024 * 1024;

export const defaultDataLimits = { maxBytes: 16 * 1024 * 1024, maxDepth: 512 } as const;

const deepest = 1024;

/** Data from JSON text, which is kept as it is, white space included. */
export function jsonData(text: string, limits: DataLimits = defaultDataLimits): JsonText {
  checkJsonSize(text, limits);
  checkJsonObject(text, maxDepthOf(limits));
  return text as JsonText;
}

/** Data from the object that starts at this character of a longer JSON text. */
export function jsonDataAt(text: string, start: number, limits: DataLimits = defaultDataLimits): JsonText {
  const data = text.slice(start, checkObject(text, start, maxDepthOf(limits)));
  checkJsonSize(data, limits);
  return data as JsonText;
}

/** Data from CBOR bytes, which are not copied: the caller gives them away and must not write to them again. */
export function cborData(bytes: Uint8Array, limits: DataLimits = defaultDataLimits): CborBytes {
  checkSize(bytes.length, limits);
  checkCborMap(bytes, maxDepthOf(limits));
  return bytes as CborBytes;
}

/**
 * For stores: data that was made by one of the functions above and read back from storage. It is not checked again, so
 * input from any other source must not pass through here.
 */
export function storedData(raw: string | Uint8Array): Data {
  return raw as Data;
}

/**
 * Data from JavaScript values: JSON text if that loses nothing, else CBOR.
 *
 * As in JSON.stringify, `toJSON` is called (it must return the same when called twice), keys with an undefined value are
 * left out, undefined in an array becomes null. In addition, `Tuple`, `Uuid`, `Float`, bigint, Uint8Array (Buffer too),
 * NaN, infinities, -0 and Map keep their meaning, by way of CBOR. Functions, symbols, sets, promises, iterators and
 * other binary views are refused, as are values that contain themselves.
 */
export function encodeData(value: unknown, limits: DataLimits = defaultDataLimits): Data {
  if (typeof value !== "object" || value === null || Array.isArray(value)) throw notAnObject(value);
  const maxDepth = maxDepthOf(limits);
  if (isPlain(value, "", maxDepth)) {
    const text = JSON.stringify(value);
    if (!text.startsWith("{")) throw notAnObject(value);
    // JSON.stringify escapes a lone surrogate, which a key must not have
    if (text.includes("\\ud")) checkJsonObject(text, maxDepth);
    checkJsonSize(text, limits);
    return text as JsonText;
  }
  const bytes = writeCbor(value, { maxBytes: maxBytesOf(limits), maxDepth });
  if (majorOf(bytes, 0) !== major.map) throw notAnObject(value);
  checkSize(bytes.length, limits);
  return bytes as CborBytes;
}

/** Whether JSON.stringify loses nothing. Doubtful values are left to the CBOR writer, whose errors name what it refuses. */
function isPlain(value: unknown, key: string, depthLeft: number): boolean {
  switch (typeof value) {
    case "string":
    case "boolean":
    case "undefined":
      return true;
    case "number":
      return isPlainNumber(value);
    case "object":
      return value === null || isPlainObject(value, key, depthLeft);
    default:
      return false;
  }
}

/** Integers beyond 2^53 are written without a decimal point and would be read back as bigint. */
function isPlainNumber(value: number): boolean {
  if (Number.isSafeInteger(value)) return value !== 0 || !Object.is(value, -0);
  return Number.isFinite(value) && (!Number.isInteger(value) || Math.abs(value) >= 1e21);
}

function isPlainObject(value: object, key: string, depthLeft: number): boolean {
  if (depthLeft === 0) return false;
  const prototype: unknown = Object.getPrototypeOf(value);
  const isArray = prototype === Array.prototype;
  if (prototype !== Object.prototype && !isArray && prototype !== null && isSpecial(value)) return false;
  if (hasToJson(value)) return isPlain(value.toJSON(key), key, depthLeft - 1);
  if (Array.isArray(value)) {
    for (const item of value) if (!isPlain(item, "", depthLeft - 1)) return false;
    return true;
  }
  const object = value as Readonly<Record<string, unknown>>;
  // for-in avoids the list of keys that Object.keys makes
  for (const name in object) {
    if (Object.hasOwn(object, name) && !isPlain(object[name], name, depthLeft - 1)) return false;
  }
  return true;
}

function isSpecial(value: object): boolean {
  return (
    value instanceof Tuple ||
    value instanceof Float ||
    value instanceof Uuid ||
    value instanceof Map ||
    value instanceof Set ||
    ArrayBuffer.isView(value) ||
    value instanceof ArrayBuffer ||
    isUnfinished(value)
  );
}

/**
 * Decodes data. Integers that a number cannot hold become bigint. With `precise`, floats whose value is integral
 * become `Float`, so that encoding them again gives floats. Of repeated keys, the last one counts.
 */
export function decodeData(data: Data, options: { readonly precise?: boolean } = {}): DataObject {
  const precise = options.precise ?? false;
  if (typeof data !== "string") return readCbor(data, 0, precise) as DataObject;
  // JSON.parse is right about everything but 1.0 and integers of sixteen digits or more.
  if (!precise && !/\d{16}/.test(data)) return JSON.parse(data) as DataObject;
  return readJson(data, { precise, maps: false }) as DataObject;
}

/**
 * Data for a reader on a JSON wire. Numbers are never changed. Values that JSON cannot express are converted (byte strings to text, or
 * to base64 with a mark if they are not UTF-8; tuples to arrays, UUIDs to text, NaN to null), and then `lossless` is false.
 */
export function dataToJson(data: Data): { text: string; lossless: boolean } {
  return typeof data === "string" ? { text: data, lossless: true } : cborToJson(data, 0);
}

const mark = "$cbor";

/**
 * JSON for people that converts back without loss: data that JSON cannot express gets one more key, `$cbor`, with the whole
 * data in base64. `dataFromMarked` reads it.
 */
export function dataToMarkedJson(data: Data): string {
  const { text, lossless } = dataToJson(data);
  if (lossless || typeof data === "string") return text;
  const whole = Buffer.from(data.buffer, data.byteOffset, data.byteLength).toString("base64");
  return jsonWith(text as JsonText, mark, whole);
}

/** The data of an object: restored from its `$cbor` key if it has one. Throws `bad_data` if the other keys were changed since. */
export function dataFromMarked(value: Readonly<Record<string, unknown>>): Data {
  if (!Object.hasOwn(value, mark)) return encodeData(value);
  const { [mark]: whole, ...rest } = value;
  const data = typeof whole === "string" ? cborData(new Uint8Array(Buffer.from(whole, "base64"))) : null;
  const shown =
    data === null ? null : dataToJson(encodeData(decodeData(dataToJson(data).text as JsonText))).text;
  if (data === null || shown !== dataToJson(encodeData(rest)).text)
    throw new CoordinateError(
      "bad_data",
      `${mark}: the other keys were changed after it was written; remove it to use them`,
    );
  return data;
}

/**
 * Data for a reader on a CBOR wire: 1.0 is a float and 1 an integer, key order is kept; of a repeated key the last value is kept.
 * Text with an escaped lone surrogate, which UTF-8 cannot express, becomes bytes: by the rule of names, else three for the surrogate.
 */
export function dataToCbor(data: Data): Uint8Array {
  if (typeof data !== "string") return data;
  return writeCbor(readJson(data, { precise: true, maps: true }), { maxBytes: Infinity, maxDepth: deepest });
}

/** The size that counts against a limit: of JSON text in UTF-8, of CBOR as it is. */
export function dataByteLength(data: Data): number {
  return typeof data === "string" ? Buffer.byteLength(data, "utf8") : data.length;
}

/** The text of one top-level key (bytes become text by the rule of names); null when it is absent or of another type. */
export function dataGetText(data: Data, key: string): string | null {
  const value = rawMember(data, key);
  return value === null ? null : rawText(value);
}

/**
 * Data with one top-level key set to a text or an integer, every other entry untouched to the byte. Size limits are not
 * applied again: this is how the engine notes a traceback in data that was accepted before, and that must not fail.
 */
export function dataWith(data: Data | null, key: string, value: string | number): Data {
  if (data === null) return JSON.stringify({ [key]: value }) as JsonText;
  return typeof data === "string" ? jsonWith(data, key, value) : cborWith(data, key, value);
}

/** Data without some top-level keys; the values of the others are untouched to the byte. */
export function dataWithout(data: Data, keys: readonly string[]): Data {
  if (typeof data === "string") {
    const members = [...jsonMembers(data)];
    const left = members.filter((member) => !keys.includes(member.key));
    if (left.length === members.length) return data;
    return `{${left.map((one) => `${JSON.stringify(one.key)}:${data.slice(one.start, one.end)}`).join(",")}}` as JsonText;
  }
  const entries = [...cborEntries(data, 0)];
  const left = entries.filter((entry) => !keys.some((key) => isCborKey(data, entry.key.start, key)));
  if (left.length === entries.length) return data;
  const pieces = left.map((entry) => data.subarray(entry.key.start, entry.end));
  return new Uint8Array(Buffer.concat([cborMapHead(left.length), ...pieces])) as CborBytes;
}

function jsonWith(data: JsonText, key: string, given: string | number): JsonText {
  const value = JSON.stringify(given);
  let result = "";
  let kept = 0;
  let members = 0;
  for (const member of jsonMembers(data)) {
    members += 1;
    if (member.key !== key) continue;
    // Every repetition is replaced: some readers take the first one.
    result += data.slice(kept, member.start) + value;
    kept = member.end;
  }
  if (kept > 0) return (result + data.slice(kept)) as JsonText;
  const end = data.lastIndexOf("}");
  return `${data.slice(0, end)}${members > 0 ? "," : ""}${JSON.stringify(key)}:${value}${data.slice(end)}` as JsonText;
}

function cborWith(data: CborBytes, key: string, given: string | number): CborBytes {
  const value = cborScalar(given);
  const pieces: Uint8Array[] = [];
  let kept = 0;
  for (const entry of cborEntries(data, 0)) {
    if (!isCborKey(data, entry.key.start, key)) continue;
    pieces.push(data.subarray(kept, entry.start), value);
    kept = entry.end;
  }
  if (kept > 0) pieces.push(data.subarray(kept));
  else pieces.push(...withEntry(data, cborScalar(key), value));
  return new Uint8Array(Buffer.concat(pieces)) as CborBytes;
}

/** The map with one more entry at its end: with a new head, or inserted before the break. */
function withEntry(data: CborBytes, key: Uint8Array, value: Uint8Array): Uint8Array[] {
  const count = cborItemCount(data, 0);
  if (count === null) return [data.subarray(0, data.length - 1), key, value, data.subarray(data.length - 1)];
  return [cborMapHead(count / 2 + 1), data.subarray(headEnd(data, 0)), key, value];
}

function maxBytesOf(limits: DataLimits): number {
  return limits.maxBytes ?? defaultDataLimits.maxBytes;
}

function maxDepthOf(limits: DataLimits): number {
  return Math.min(limits.maxDepth ?? defaultDataLimits.maxDepth, deepest);
}

function checkJsonSize(text: string, limits: DataLimits): void {
  const maxBytes = maxBytesOf(limits);
  // One UTF-16 unit is at most three bytes: text this short need not be counted.
  if (text.length * 3 > maxBytes) checkSize(Buffer.byteLength(text, "utf8"), limits);
}

function checkSize(bytes: number, limits: DataLimits): void {
  const maxBytes = maxBytesOf(limits);
  if (bytes > maxBytes)
    throw new CoordinateError("too_large", `data of ${bytes} bytes, the limit is ${maxBytes}`);
}

/** Describes a value; a JavaScript object that is no data object, such as a date, by its class. */
function describeClass(value: unknown): string {
  const plain = describeValue(value);
  if (plain !== "an object") return plain;
  const { constructor } = value as { constructor?: unknown };
  const name = typeof constructor === "function" ? constructor.name : "";
  if (name === "" || name === "Object") return "an object whose toJSON() returns no object";
  return `${/^[AEIOU]/.test(name) ? "an" : "a"} ${name}`;
}

function notAnObject(value: unknown): CoordinateError {
  return new CoordinateError("bad_data", `expected an object, got ${describeClass(value)}`);
}
