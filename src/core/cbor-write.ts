/**
 * Writes JavaScript values as CBOR items; `encodeData` describes the mapping. Unsupported values throw `bad_data`, which names them.
 */
import { Buffer } from "node:buffer";
import { major, tag } from "./cbor-head.ts";
import { Float, Tuple, Uuid } from "./data-value.ts";
import { describeValue } from "./describe-value.ts";
import { CoordinateError } from "./errors.ts";
import { nameToBytes } from "./names.ts";

const loneSurrogate = /\p{Surrogate}/u;

/** The value as one CBOR item, within the limits. See `encodeData` for the mapping. */
export function writeCbor(value: unknown, limits: { maxBytes: number; maxDepth: number }): Uint8Array {
  const writer = new CborWriter(limits.maxBytes);
  writer.value(value, "", limits.maxDepth);
  return writer.finish();
}

/** One text or number as a CBOR item. */
export function cborScalar(value: string | number): Uint8Array {
  return writeCbor(value, { maxBytes: Infinity, maxDepth: 0 });
}

/** The head of a map with this many entries. */
export function cborMapHead(entries: number): Uint8Array {
  const writer = new CborWriter(Infinity);
  writer.head(major.map, entries);
  return writer.finish();
}

const maxUint64 = 0xffff_ffff_ffff_ffffn;

class CborWriter {
  #bytes = Buffer.allocUnsafe(128);
  #end = 0;
  readonly #maxBytes: number;

  constructor(maxBytes: number) {
    this.#maxBytes = maxBytes;
  }

  finish(): Uint8Array {
    return new Uint8Array(this.#bytes.subarray(0, this.#end));
  }

  /** `key` is where the value was found, for error messages. */
  value(value: unknown, key: string, depthLeft: number): void {
    switch (typeof value) {
      case "string":
        return this.#text(value);
      case "number":
        return Number.isSafeInteger(value) && !Object.is(value, -0)
          ? this.#integer(value)
          : this.#float(value);
      case "bigint":
        return this.#bigint(value);
      case "boolean":
        return this.#byte(value ? 0xf5 : 0xf4);
      case "undefined":
        return this.#byte(0xf6);
      case "object":
        return value === null ? this.#byte(0xf6) : this.#object(value, key, depthLeft);
      default:
        throw unsupported(key, `a ${typeof value}`);
    }
  }

  #object(value: object, key: string, depthLeft: number): void {
    if (value instanceof Float) return this.#float(value.value);
    if (value instanceof Uuid) return this.#tagged(tag.uuid, value.bytes);
    // before the check for toJSON, which Buffer has
    if (value instanceof Uint8Array) return this.#string(major.bytes, value);
    if (depthLeft === 0) throw new CoordinateError("bad_data", "nested too deeply, or contains itself");
    if (hasToJson(value)) return this.value(value.toJSON(key), key, depthLeft - 1);
    if (Array.isArray(value)) return this.#array(value, depthLeft);
    if (value instanceof Map) return this.#map([...value], depthLeft);
    if (value instanceof Number || value instanceof String || value instanceof Boolean) {
      return this.value(value.valueOf(), key, depthLeft);
    }
    if (value instanceof Set || ArrayBuffer.isView(value) || value instanceof ArrayBuffer) {
      throw unsupported(
        key,
        `${/^[AEIOU]/.test(value.constructor.name) ? "an" : "a"} ${value.constructor.name}`,
      );
    }
    if (isUnfinished(value))
      throw unsupported(
        key,
        value instanceof Promise ? "a promise (a missing await?)" : "an iterator or a generator",
      );
    return this.#map(Object.entries(value), depthLeft);
  }

  #array(items: readonly unknown[], depthLeft: number): void {
    if (items instanceof Tuple) this.head(major.tag, tag.tuple);
    this.head(major.array, items.length);
    for (let index = 0; index < items.length; index++) this.value(items[index], String(index), depthLeft - 1);
  }

  #map(entries: readonly (readonly [key: unknown, value: unknown])[], depthLeft: number): void {
    const present = entries.filter(([, value]) => value !== undefined);
    this.head(major.map, present.length);
    for (const [key, value] of present) {
      this.#key(key);
      this.value(value, String(key), depthLeft - 1);
    }
  }

  #key(key: unknown): void {
    const simple = key === null || (typeof key !== "object" && key !== undefined);
    if (!simple && !(key instanceof Uint8Array)) throw unsupported("", `a key that is ${describeValue(key)}`);
    this.value(key, "", 0);
  }

  /**
   * CBOR text is UTF-8, so a string with escaped bytes is written as those bytes. A string with other lone surrogates is written
   * as bytes, each surrogate as the three bytes that UTF-8 would give it.
   */
  #text(text: string): void {
    if (loneSurrogate.test(text))
      return this.#string(major.bytes, bytesOfEscaped(text) ?? generalBytes(text));
    const length = Buffer.byteLength(text, "utf8");
    this.head(major.text, length);
    this.#room(length);
    this.#bytes.write(text, this.#end, "utf8");
    this.#end += length;
  }

  #string(kind: number, content: Uint8Array): void {
    this.head(kind, content.length);
    this.#room(content.length);
    this.#bytes.set(content, this.#end);
    this.#end += content.length;
  }

  #integer(value: number): void {
    if (value < 0) this.head(major.negative, -1 - value);
    else this.head(major.unsigned, value);
  }

  #bigint(value: bigint): void {
    const negative = value < 0n;
    const magnitude = negative ? -1n - value : value;
    if (magnitude <= BigInt(Number.MAX_SAFE_INTEGER)) return this.head(Number(negative), Number(magnitude));
    if (magnitude <= maxUint64) {
      this.#byte((Number(negative) << 5) | 27);
      this.#room(8);
      this.#end = this.#bytes.writeBigUInt64BE(magnitude, this.#end);
      return;
    }
    const hex = magnitude.toString(16);
    const bytes = Buffer.from(hex.length % 2 === 0 ? hex : `0${hex}`, "hex");
    return this.#tagged(negative ? tag.bigNegative : tag.bigPositive, bytes);
  }

  #tagged(number: number, content: Uint8Array): void {
    this.head(major.tag, number);
    this.#string(major.bytes, content);
  }

  #float(value: number): void {
    this.#byte(0xfb);
    this.#room(8);
    this.#end = this.#bytes.writeDoubleBE(value, this.#end);
  }

  head(kind: number, argument: number): void {
    const top = kind << 5;
    if (argument < 24) return this.#byte(top | argument);
    this.#room(9);
    const bytes = this.#bytes;
    const at = this.#end + 1;
    if (argument < 0x100) {
      bytes[at - 1] = top | 24;
      this.#end = bytes.writeUInt8(argument, at);
    } else if (argument < 0x1_0000) {
      bytes[at - 1] = top | 25;
      this.#end = bytes.writeUInt16BE(argument, at);
    } else if (argument < 0x1_0000_0000) {
      bytes[at - 1] = top | 26;
      this.#end = bytes.writeUInt32BE(argument, at);
    } else {
      bytes[at - 1] = top | 27;
      this.#end = bytes.writeBigUInt64BE(BigInt(argument), at);
    }
  }

  #byte(byte: number): void {
    this.#room(1);
    this.#bytes[this.#end] = byte;
    this.#end += 1;
  }

  #room(more: number): void {
    const needed = this.#end + more;
    if (needed <= this.#bytes.length) return;
    // refuse while growing: an array that holds one long string a thousand times must never be built in full
    if (this.#end > this.#maxBytes) {
      throw new CoordinateError("too_large", `data of more than ${this.#maxBytes} bytes`);
    }
    const grown = Buffer.allocUnsafe(Math.max(needed, this.#bytes.length * 2));
    this.#bytes.copy(grown, 0, 0, this.#end);
    this.#bytes = grown;
  }
}

function bytesOfEscaped(text: string): Buffer | null {
  try {
    return nameToBytes(text);
  } catch (error) {
    if (error instanceof CoordinateError) return null;
    throw error;
  }
}

function generalBytes(text: string): Uint8Array {
  return Buffer.concat(
    Array.from(text, (character) => {
      const code = character.codePointAt(0) ?? 0;
      return loneSurrogate.test(character)
        ? Buffer.of(0xe0 | (code >> 12), 0x80 | ((code >> 6) & 0x3f), 0x80 | (code & 0x3f))
        : Buffer.from(character);
    }),
  );
}

export function hasToJson(value: object): value is { toJSON(key: string): unknown } {
  return typeof (value as { toJSON?: unknown }).toJSON === "function";
}

function unsupported(key: string, what: string): CoordinateError {
  return new CoordinateError(
    "bad_data",
    `${what}${key === "" ? "" : ` in ${JSON.stringify(key)}`} cannot be stored`,
  );
}

/** Promises and iterators have no data of their own, and would be stored as `{}`. */
export const isUnfinished = (value: object): boolean =>
  value instanceof Promise ||
  ((Symbol.iterator in value || Symbol.asyncIterator in value) &&
    "next" in value &&
    typeof value.next === "function");
