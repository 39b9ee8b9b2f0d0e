/**
 * Names of namespaces, work specs, work units, workers, queues, labels and actions.
 *
 * A name is a sequence of bytes. In memory it is a JavaScript string, because nearly every name is text: a byte that
 * is not part of valid UTF-8 is carried as a lone surrogate U+DC80..U+DCFF (Python's surrogateescape) and comes out
 * as the same byte on every wire. A string in which no escapes could be read as valid UTF-8 is canonical; two
 * canonical strings are equal exactly when their bytes are, so `===` and Map keys may be trusted behind `checkName`.
 */
import { Buffer, isUtf8 } from "node:buffer";
import { describeValue } from "./describe-value.ts";
import { CoordinateError } from "./errors.ts";

export type NameKind =
  "namespace" | "work spec" | "work unit" | "worker" | "queue" | "label" | "action" | "partition" | "limit";

/** Fewest and most bytes a name may have. The empty namespace is the default one. */
export const nameLimits: Readonly<Record<NameKind, { readonly min: number; readonly max: number }>> = {
  namespace: { min: 0, max: 1024 },
  "work spec": { min: 1, max: 1024 },
  "work unit": { min: 0, max: 4096 },
  worker: { min: 0, max: 1024 },
  queue: { min: 1, max: 1024 },
  label: { min: 1, max: 256 },
  partition: { min: 0, max: 256 },
  limit: { min: 1, max: 256 },
  action: { min: 1, max: 1024 },
};

const anySurrogate = /[\ud800-\udfff]/;
const unitsOutOfByteOrder = /[\ud800-\uffff]/;

/**
 * The canonical form of a name of this kind. Throws `bad_name` for what is not a name and `too_large` for what is
 * too long; what was given is not kept.
 */
export function checkName(kind: NameKind, name: unknown): string {
  // A hot path, taken for every work unit: a UTF-16 unit is at most three bytes, so short names need no counting.
  if (typeof name === "string") {
    const { min, max } = nameLimits[kind];
    if (name.length >= min && name.length * 3 <= max && !anySurrogate.test(name)) return name;
  }
  return checkUnusualName(kind, name);
}

function checkUnusualName(kind: NameKind, name: unknown): string {
  if (typeof name !== "string")
    throw new CoordinateError("bad_name", `${kind}: expected a string, got ${describeValue(name)}`);
  const { min, max } = nameLimits[kind];
  const length = nameByteLength(name);
  if (length > max)
    throw new CoordinateError("too_large", `${kind} name of ${length} bytes, the limit is ${max}`);
  if (length < min) throw new CoordinateError("bad_name", `${kind}: expected 1 to ${max} bytes, got ""`);
  return canonicalName(name);
}

/** Every sequence of bytes is a name; the result is canonical. */
export function nameFromBytes(bytes: Uint8Array): string {
  const buffer = asBuffer(bytes);
  if (isUtf8(buffer)) return buffer.toString("utf8");
  let name = "";
  let textStart = 0;
  let at = 0;
  while (at < buffer.length) {
    const length = utf8SequenceLength(buffer, at);
    if (length > 0) {
      at += length;
      continue;
    }
    name += buffer.toString("utf8", textStart, at) + String.fromCharCode(0xdc00 + (buffer[at] ?? 0));
    at += 1;
    textStart = at;
  }
  return name + buffer.toString("utf8", textStart);
}

/** The bytes of a name, canonical or not. Throws `bad_name` for a lone surrogate that stands for no byte. */
export function nameToBytes(name: string): Buffer {
  if (!anySurrogate.test(name)) return Buffer.from(name, "utf8");
  const pieces: Buffer[] = [];
  let textStart = 0;
  for (let at = 0; at < name.length; at++) {
    const unit = name.charCodeAt(at);
    if (unit < 0xd800 || unit > 0xdfff) continue;
    if (isPair(name, at)) {
      at += 1;
      continue;
    }
    pieces.push(Buffer.from(name.slice(textStart, at), "utf8"), Buffer.of(escapedByte(unit, at)));
    textStart = at + 1;
  }
  pieces.push(Buffer.from(name.slice(textStart), "utf8"));
  return Buffer.concat(pieces);
}

/** `nameToBytes(name).length`, without making the bytes. */
export function nameByteLength(name: string): number {
  // Buffer.byteLength counts a lone surrogate as the three bytes of U+FFFD; an escape is one byte.
  let length = Buffer.byteLength(name, "utf8");
  if (length === name.length || !anySurrogate.test(name)) return length;
  for (let at = 0; at < name.length; at++) {
    const unit = name.charCodeAt(at);
    if (unit < 0xd800 || unit > 0xdfff) continue;
    if (isPair(name, at)) at += 1;
    else {
      escapedByte(unit, at);
      length -= 2;
    }
  }
  return length;
}

/** The one spelling of the bytes of `name`: `"\udcc3\udca9"` and `"é"` are both `"é"`. Throws as `nameToBytes`. */
export function canonicalName(name: string): string {
  return anySurrogate.test(name) ? nameFromBytes(nameToBytes(name)) : name;
}

/** Whether JavaScript's `<` orders this name by bytes, compared with other plain names. */
export function isPlainName(name: string): boolean {
  return !unitsOutOfByteOrder.test(name);
}

/** The order of every listing: by UTF-8 bytes. Negative, zero or positive, as `Array.prototype.sort` wants it. */
export function compareNames(a: string, b: string): number {
  const shorter = Math.min(a.length, b.length);
  let at = 0;
  while (at < shorter && a.charCodeAt(at) === b.charCodeAt(at)) at += 1;
  if (at === shorter) return a.length - b.length;
  const left = a.charCodeAt(at);
  const right = b.charCodeAt(at);
  if (left < 0xd800 && right < 0xd800) return left - right;
  const insidePair = at > 0 && isHigh(a.charCodeAt(at - 1));
  if (insidePair) return left - right;
  // An escape is a bare byte: it may equal the first byte of the other's character and differ after that.
  if (isLow(left) || isLow(right)) return Buffer.compare(nameToBytes(a.slice(at)), nameToBytes(b.slice(at)));
  return byteRank(left) - byteRank(right);
}

/** UTF-16 puts astral characters (D800..DFFF) before U+E000..U+FFFF, UTF-8 after them. */
function byteRank(unit: number): number {
  if (unit < 0xd800) return unit;
  return unit < 0xe000 ? unit + 0x2000 : unit - 0x800;
}

/** Whether the bytes of `name` start with the bytes of `prefix`. */
export function nameHasPrefix(name: string, prefix: string): boolean {
  if (name.startsWith(prefix)) return true;
  // The prefix may end inside a character of the name ("\udcc3" and "é"); only a prefix with escapes can.
  if (!anySurrogate.test(prefix)) return false;
  const start = nameToBytes(prefix);
  return start.equals(nameToBytes(name).subarray(0, start.length));
}

/**
 * The smallest byte string greater than every name with this prefix: `bytes >= prefix and bytes < prefixEnd(prefix)`
 * is the range of a prefix query. Null when there is no upper end (the empty prefix, or nothing but bytes 0xFF).
 */
export function prefixEnd(prefix: string): Buffer | null {
  const bytes = nameToBytes(prefix);
  let length = bytes.length;
  while (length > 0 && bytes[length - 1] === 0xff) length -= 1;
  if (length === 0) return null;
  const end = Buffer.from(bytes.subarray(0, length));
  end[length - 1] = (end[length - 1] ?? 0) + 1;
  return end;
}

function asBuffer(bytes: Uint8Array): Buffer {
  return Buffer.isBuffer(bytes) ? bytes : Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
}

function isHigh(unit: number): boolean {
  return unit >= 0xd800 && unit <= 0xdbff;
}

function isLow(unit: number): boolean {
  return unit >= 0xdc00 && unit <= 0xdfff;
}

function isPair(text: string, at: number): boolean {
  return isHigh(text.charCodeAt(at)) && isLow(text.charCodeAt(at + 1));
}

function escapedByte(unit: number, at: number): number {
  if (unit >= 0xdc80 && unit <= 0xdcff) return unit - 0xdc00;
  const code = unit.toString(16).toUpperCase();
  throw new CoordinateError(
    "bad_name",
    `lone surrogate U+${code} at position ${at}; only U+DC80 to U+DCFF stand for a byte`,
  );
}

/** How many bytes the character that starts here has; 0 when these bytes are not valid UTF-8 (RFC 3629, table 3-7). */
function utf8SequenceLength(bytes: Uint8Array, at: number): number {
  const first = bytes[at] ?? 0;
  if (first < 0x80) return 1;
  if (first < 0xc2 || first > 0xf4) return 0;
  const second = bytes[at + 1] ?? 0;
  // The second byte rules out overlong forms, surrogates and what lies beyond U+10FFFF.
  const low = first === 0xe0 ? 0xa0 : first === 0xf0 ? 0x90 : 0x80;
  const high = first === 0xed ? 0x9f : first === 0xf4 ? 0x8f : 0xbf;
  if (second < low || second > high) return 0;
  if (first < 0xe0) return 2;
  if (!isContinuation(bytes[at + 2])) return 0;
  if (first < 0xf0) return 3;
  return isContinuation(bytes[at + 3]) ? 4 : 0;
}

function isContinuation(byte: number | undefined): boolean {
  return byte !== undefined && byte >= 0x80 && byte <= 0xbf;
}

/** Two names as one key. Names may hold any character, so no separator is safe: the length says where the first one ends. */
export const pairKey = (first: string, second: string): string => `${first.length} ${first}${second}`;
