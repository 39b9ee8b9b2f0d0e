/**
 * CBOR items as values, and as JSON text.
 *
 * Everything read here has passed `checkCborMap`, so reading cannot fail and its recursion is bounded.
 */
import { Buffer, isUtf8 } from "node:buffer";
import { argument, halfFloat, headEnd, isIndefinite, itemEnd, major, majorOf, tag } from "./cbor-head.ts";
import { cborItemCount, cborStringBytes } from "./cbor-item.ts";
import type { DataObject, DataValue } from "./data-value.ts";
import { Float, Tuple, Uuid } from "./data-value.ts";
import { setOwn } from "./json-text.ts";
import { nameFromBytes } from "./names.ts";

/** A lone low surrogate, which escapes a byte in a name; not the second half of a pair. */
const loneLow = /(?<![\ud800-\udbff])[\udc00-\udfff]/;

interface Cursor {
  readonly bytes: Buffer;
  at: number;
}

function cursorAt(bytes: Uint8Array, at: number): Cursor {
  return { bytes: Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength), at };
}

/** The value of the item that starts at `start`. With `precise`, floats of integral value are `Float`. */
export function readCbor(bytes: Uint8Array, start: number, precise: boolean): DataValue {
  return readItem(cursorAt(bytes, start), precise);
}

/**
 * A key or name as a string: text as it is, bytes by the rule of names, anything else as its JSON text. So text and
 * bytes of the same content are the same key.
 */
export function cborKeyText(bytes: Uint8Array, start: number): string {
  return readKey(cursorAt(bytes, start));
}

function readItem(cursor: Cursor, precise: boolean): DataValue {
  const { bytes, at } = cursor;
  switch (majorOf(bytes, at)) {
    case major.unsigned:
    case major.negative:
      return readInteger(cursor);
    case major.bytes:
      // a copy, so that callers can neither change nor keep alive the bytes it came from
      return new Uint8Array(readStringBytes(cursor));
    case major.text:
      return readText(cursor);
    case major.array:
      return readArray(cursor, [], precise);
    case major.map:
      return readMap(cursor, precise);
    case major.tag:
      return readTagged(cursor, precise);
    default:
      return readSimple(cursor, precise);
  }
}

function readInteger(cursor: Cursor): number | bigint {
  const { bytes, at } = cursor;
  const negative = majorOf(bytes, at) === major.negative;
  const value = argument(bytes, at);
  cursor.at = headEnd(bytes, at);
  // not `<=`: for MAX_SAFE_INTEGER itself, -1 - value is not a safe integer
  if (value < Number.MAX_SAFE_INTEGER) return negative ? -1 - value : value;
  return plainest(signed(bytes.readBigUInt64BE(at + 1), negative));
}

function signed(magnitude: bigint, negative: boolean): bigint {
  return negative ? -1n - magnitude : magnitude;
}

/** A number if it is exact, else the bigint. */
function plainest(value: bigint): number | bigint {
  const number = Number(value);
  return Number.isSafeInteger(number) ? number : value;
}

function readStringBytes(cursor: Cursor): Uint8Array {
  const { bytes, at } = cursor;
  cursor.at = itemEnd(bytes, at);
  return cborStringBytes(bytes, at);
}

function readText(cursor: Cursor): string {
  const { bytes, at } = cursor;
  if (isIndefinite(bytes, at)) return Buffer.from(readStringBytes(cursor)).toString("utf8");
  const start = headEnd(bytes, at);
  cursor.at = start + argument(bytes, at);
  return bytes.toString("utf8", start, cursor.at);
}

/** Runs `readOne` for each item (arrays) or entry (maps). `checkCborMap` has refused counts that exceed the bytes. */
function readSequence(cursor: Cursor, itemsPerTurn: number, readOne: () => void): void {
  const { bytes, at } = cursor;
  const count = cborItemCount(bytes, at);
  cursor.at = headEnd(bytes, at);
  if (count === null) {
    while (bytes[cursor.at] !== 0xff) readOne();
    cursor.at += 1;
  } else for (let done = 0; done < count; done += itemsPerTurn) readOne();
}

function readArray<Items extends DataValue[]>(cursor: Cursor, items: Items, precise: boolean): Items {
  readSequence(cursor, 1, () => items.push(readItem(cursor, precise)));
  return items;
}

function readMap(cursor: Cursor, precise: boolean): DataObject {
  const object: DataObject = {};
  readSequence(cursor, 2, () => {
    const key = readKey(cursor);
    setOwn(object, key, readItem(cursor, precise));
  });
  return object;
}

function readKey(cursor: Cursor): string {
  switch (majorOf(cursor.bytes, cursor.at)) {
    case major.text:
      return readText(cursor);
    case major.bytes:
      return nameFromBytes(readStringBytes(cursor));
    default:
      return itemJson(cursor, { lossless: true, isKey: true });
  }
}

function readTagged(cursor: Cursor, precise: boolean): DataValue {
  const number = argument(cursor.bytes, cursor.at);
  cursor.at = headEnd(cursor.bytes, cursor.at);
  if (number === tag.tuple) return readArray(cursor, new Tuple(), precise);
  return number === tag.uuid ? new Uuid(readStringBytes(cursor)) : readBigInteger(cursor, number);
}

/** The integer of a tag 2 or 3 whose head has been read. */
function readBigInteger(cursor: Cursor, number: number): number | bigint {
  const content = readStringBytes(cursor);
  const magnitude = content.length === 0 ? 0n : BigInt(`0x${Buffer.from(content).toString("hex")}`);
  return plainest(signed(magnitude, number === tag.bigNegative));
}

function readSimple(cursor: Cursor, precise: boolean): null | boolean | number | Float {
  if (isFloat(cursor)) {
    const value = readFloat(cursor);
    return precise && Number.isInteger(value) ? new Float(value) : value;
  }
  return readWord(cursor);
}

function isFloat({ bytes, at }: Cursor): boolean {
  return (bytes[at] ?? 0) >= 0xf9;
}

/** Undefined becomes null: Python and Go do not distinguish them, and JSON has only null. */
function readWord(cursor: Cursor): null | boolean {
  const first = cursor.bytes[cursor.at];
  cursor.at += 1;
  return first === 0xf4 ? false : first === 0xf5 ? true : null;
}

function readFloat(cursor: Cursor): number {
  const { bytes, at } = cursor;
  cursor.at = headEnd(bytes, at);
  if (bytes[at] === 0xfb) return bytes.readDoubleBE(at + 1);
  return bytes[at] === 0xfa ? bytes.readFloatBE(at + 1) : halfFloat(bytes.readUInt16BE(at + 1));
}

/**
 * The item as JSON text. Numbers are never changed: floats are written as floats (1.0), integers in full. Byte strings
 * become text, or base64 with a mark, tuples arrays, UUIDs text, NaN and infinities null, and keys that are neither text nor UTF-8
 * their nearest text; `lossless` is false when any of these occurred.
 */
export function cborToJson(bytes: Uint8Array, start: number): { text: string; lossless: boolean } {
  const outcome = { lossless: true, isKey: false };
  const text = itemJson(cursorAt(bytes, start), outcome);
  return { text, lossless: outcome.lossless };
}

interface Outcome {
  lossless: boolean;
  /** Within a key, bytes are not shown as text: two different keys must not become one. */
  readonly isKey: boolean;
}

function itemJson(cursor: Cursor, outcome: Outcome): string {
  const { bytes, at } = cursor;
  switch (majorOf(bytes, at)) {
    case major.unsigned:
    case major.negative:
      return String(readInteger(cursor));
    case major.bytes:
      outcome.lossless = false;
      return bytesJson(Buffer.from(readStringBytes(cursor)), outcome);
    case major.text:
      return JSON.stringify(readText(cursor));
    case major.array:
      return arrayJson(cursor, outcome);
    case major.map:
      return mapJson(cursor, outcome);
    case major.tag:
      return taggedJson(cursor, outcome);
    default:
      return simpleJson(cursor, outcome);
  }
}

/** Python 2 writes most of its text as bytes, so bytes in UTF-8 are shown as text, others in base64 with a mark. */
function bytesJson(content: Buffer, { isKey }: Outcome): string {
  if (!isKey && isUtf8(content)) return JSON.stringify(content.toString("utf8"));
  return `{"$base64":"${content.toString("base64")}"}`;
}

function arrayJson(cursor: Cursor, outcome: Outcome): string {
  let text = "";
  readSequence(cursor, 1, () => {
    text += (text === "" ? "" : ",") + itemJson(cursor, outcome);
  });
  return `[${text}]`;
}

function mapJson(cursor: Cursor, outcome: Outcome): string {
  let text = "";
  readSequence(cursor, 2, () => {
    const kind = majorOf(cursor.bytes, cursor.at);
    const key = readKey(cursor);
    // A key of UTF-8 bytes is the same key as text. Other bytes need an escape that JSON readers may not understand.
    if (kind !== major.text && (kind !== major.bytes || loneLow.test(key))) outcome.lossless = false;
    text += `${text === "" ? "" : ","}${JSON.stringify(key)}:${itemJson(cursor, outcome)}`;
  });
  return `{${text}}`;
}

function taggedJson(cursor: Cursor, outcome: Outcome): string {
  const number = argument(cursor.bytes, cursor.at);
  cursor.at = headEnd(cursor.bytes, cursor.at);
  if (number === tag.bigPositive || number === tag.bigNegative) return String(readBigInteger(cursor, number));
  outcome.lossless = false;
  return number === tag.uuid
    ? `"${new Uuid(readStringBytes(cursor)).toString()}"`
    : arrayJson(cursor, outcome);
}

function simpleJson(cursor: Cursor, outcome: Outcome): string {
  if (!isFloat(cursor)) return String(readWord(cursor));
  const value = readFloat(cursor);
  if (Number.isFinite(value)) return floatJson(value);
  outcome.lossless = false;
  return "null";
}

/** A float with a point or exponent, so that readers take it for a float. */
function floatJson(value: number): string {
  const text = Object.is(value, -0) ? "-0" : String(value);
  return /[.e]/.test(text) ? text : `${text}.0`;
}
