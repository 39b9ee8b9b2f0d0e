/**
 * Checks and slices CBOR items as bytes, without decoding them.
 *
 * CBOR libraries decode to values, but data must come out as the same bytes, so items are located as [start, end)
 * positions. `checkCborMap` looks at every byte once and allocates nothing, whatever lengths the bytes declare (five
 * bytes may announce four thousand million items). All other functions require bytes that have passed that check.
 *
 * Allowed are exactly the items that Python and Go clients send: integers (tags 2 and 3 for long ones), floats of any
 * width, byte and text strings, arrays, maps, UUIDs (tag 37), tuples (tag 128), false, true, null and undefined;
 * lengths may be indefinite, or encoded in more bytes than necessary.
 */
import { isUtf8 } from "node:buffer";
import {
  argument,
  breakByte,
  headEnd,
  isIndefinite,
  indefinite,
  itemEnd,
  major,
  majorOf,
  tag,
} from "./cbor-head.ts";
import { CoordinateError } from "./errors.ts";

/** 4096 bits, as for numbers in JSON text: the cost of conversion grows with the square of the number of digits. */
const longestInteger = 512;

export interface CborSlice {
  readonly start: number;
  readonly end: number;
}

export interface CborEntry extends CborSlice {
  readonly key: CborSlice;
}

/** Throws `bad_data` unless the bytes are exactly one well-formed map of allowed items, at most `maxDepth` deep. */
export function checkCborMap(bytes: Uint8Array, maxDepth: number): void {
  if (bytes.length === 0 || majorOf(bytes, 0) !== major.map)
    throw new CoordinateError("bad_data", "expected a CBOR map");
  const end = checkItem(bytes, 0, maxDepth);
  if (end !== bytes.length) throw malformed(end, "more after the end of the map");
}

function checkItem(bytes: Uint8Array, at: number, depthLeft: number): number {
  if (at >= bytes.length) throw malformed(at, "end of input");
  switch (majorOf(bytes, at)) {
    case major.unsigned:
    case major.negative:
      return checkHead(bytes, at);
    case major.bytes:
    case major.text:
      return checkString(bytes, at);
    case major.array:
      return checkSequence(bytes, at, 1, depthLeft);
    case major.map:
      return checkSequence(bytes, at, 2, depthLeft);
    case major.tag:
      return checkTag(bytes, at, depthLeft);
    default:
      return checkSimple(bytes, at);
  }
}

/** The end of an item's head. The head must be whole, and must have a definite length or value. */
function checkHead(bytes: Uint8Array, at: number): number {
  const info = (bytes[at] ?? 0) & 31;
  if (info > 27)
    throw malformed(at, info === indefinite ? "break or indefinite length out of place" : "reserved length");
  const end = headEnd(bytes, at);
  if (end > bytes.length) throw malformed(at, "end of input");
  return end;
}

function checkString(bytes: Uint8Array, at: number): number {
  if (!isIndefinite(bytes, at)) return checkChunk(bytes, at);
  const kind = majorOf(bytes, at);
  let chunk = at + 1;
  while (bytes[chunk] !== breakByte) {
    if (chunk >= bytes.length) throw malformed(chunk, "end of input");
    if (majorOf(bytes, chunk) !== kind) throw malformed(chunk, "part of a string is of another type");
    chunk = checkChunk(bytes, chunk);
  }
  return chunk + 1;
}

function checkChunk(bytes: Uint8Array, at: number): number {
  const start = checkHead(bytes, at);
  const length = argument(bytes, at);
  if (length > bytes.length - start) throw malformed(at, "end of input");
  const end = start + length;
  if (majorOf(bytes, at) === major.text && !isUtf8(bytes.subarray(start, end)))
    throw malformed(at, "text is not UTF-8");
  return end;
}

/** Arrays have one item per count, maps two. */
function checkSequence(bytes: Uint8Array, at: number, itemsPerCount: 1 | 2, depthLeft: number): number {
  if (depthLeft === 0) throw new CoordinateError("bad_data", `nested too deeply at byte ${at}`);
  if (isIndefinite(bytes, at)) {
    let item = at + 1;
    while (bytes[item] !== breakByte) {
      item = checkItem(bytes, item, depthLeft - 1);
      if (itemsPerCount === 2) item = checkItem(bytes, item, depthLeft - 1);
    }
    return item + 1;
  }
  let item = checkHead(bytes, at);
  const count = argument(bytes, at) * itemsPerCount;
  // Each item is at least one byte: refuse a count that cannot be met before reading any of it.
  if (count > bytes.length - item) throw malformed(at, "end of input");
  for (let done = 0; done < count; done++) item = checkItem(bytes, item, depthLeft - 1);
  return item;
}

/** A tag must be followed directly by the item it tags, so that tags cannot be nested. */
function checkTag(bytes: Uint8Array, at: number, depthLeft: number): number {
  const inner = checkHead(bytes, at);
  if (inner >= bytes.length) throw malformed(inner, "end of input");
  const number = argument(bytes, at);
  const kind = majorOf(bytes, inner);
  switch (number) {
    case tag.tuple:
      if (kind !== major.array) throw malformed(at, "tuple is not an array");
      return checkItem(bytes, inner, depthLeft);
    case tag.uuid: {
      if (kind !== major.bytes) throw malformed(at, "UUID is not a byte string");
      const end = checkString(bytes, inner);
      if (cborStringLength(bytes, inner) !== 16) throw malformed(at, "UUID is not 16 bytes");
      return end;
    }
    case tag.bigPositive:
    case tag.bigNegative: {
      if (kind !== major.bytes) throw malformed(at, "big integer is not a byte string");
      const end = checkString(bytes, inner);
      if (cborStringLength(bytes, inner) > longestInteger)
        throw malformed(at, `integer of more than ${longestInteger} bytes`);
      return end;
    }
    default:
      throw malformed(at, `tag ${number} is not supported`);
  }
}

function checkSimple(bytes: Uint8Array, at: number): number {
  const info = (bytes[at] ?? 0) & 31;
  // 20..23 are false, true, null, undefined; 25..27 are floats; 24 and below 20 are simple values that no client sends.
  if (info < 20 || info === 24) throw malformed(at, "unknown simple value");
  return checkHead(bytes, at);
}

/** The entries of the map that starts here, in their order, repeated keys included. */
export function* cborEntries(bytes: Uint8Array, start: number): Generator<CborEntry> {
  const slices = cborItems(bytes, start);
  for (const key of slices) {
    const value = slices.next();
    if (value.done === true) return;
    yield { key, start: value.value.start, end: value.value.end };
  }
}

/** The items of the array or tuple that starts here, or the alternating keys and values of a map. */
export function* cborItems(bytes: Uint8Array, start: number): Generator<CborSlice> {
  const sequence = cborUntagged(bytes, start);
  let at = headEnd(bytes, sequence);
  const left = cborItemCount(bytes, sequence);
  for (let done = 0; left === null ? bytes[at] !== breakByte : done < left; done++) {
    const end = itemEnd(bytes, at);
    yield { start: at, end };
    at = end;
  }
}

/** How many items follow the head of an array, or keys and values that of a map; null for an indefinite length. */
export function cborItemCount(bytes: Uint8Array, at: number): number | null {
  if (isIndefinite(bytes, at)) return null;
  return majorOf(bytes, at) === major.map ? argument(bytes, at) * 2 : argument(bytes, at);
}

/** The content of a byte or text string: a copy if it comes in chunks, else a view. */
export function cborStringBytes(bytes: Uint8Array, start: number): Uint8Array {
  const at = headEnd(bytes, start);
  if (!isIndefinite(bytes, start)) return bytes.subarray(at, at + argument(bytes, start));
  const whole = new Uint8Array(cborStringLength(bytes, start));
  let filled = 0;
  for (let chunk = at; bytes[chunk] !== breakByte; chunk = itemEnd(bytes, chunk)) {
    const part = cborStringBytes(bytes, chunk);
    whole.set(part, filled);
    filled += part.length;
  }
  return whole;
}

function cborStringLength(bytes: Uint8Array, start: number): number {
  if (!isIndefinite(bytes, start)) return argument(bytes, start);
  let length = 0;
  for (let at = start + 1; bytes[at] !== breakByte; at = itemEnd(bytes, at)) length += argument(bytes, at);
  return length;
}

/** Where the tagged item starts; `start` itself when there is no tag. */
export function cborUntagged(bytes: Uint8Array, start: number): number {
  return majorOf(bytes, start) === major.tag ? headEnd(bytes, start) : start;
}

function malformed(at: number, why: string): CoordinateError {
  return new CoordinateError("bad_data", `malformed CBOR at byte ${at}: ${why}`);
}
