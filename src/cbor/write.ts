/**
 * Writes messages. The old client rejects a whole message because of one unknown tag or one text that is not UTF-8. So this
 * writes only what that client understands: tags 24, 37, 128 (and 2 and 3 within data that arrived with them), and text only if
 * it is valid; other names are written as bytes.
 */
import { Buffer } from "node:buffer";
import { CoordinateError, nameToBytes } from "../core/index.ts";
import { major, tags } from "./scan.ts";

/** Room before the message for tag 24 and the longest head of a byte string. */
const wrapping = 11;

/** A string that is not well-formed UTF-16: in a name, an escaped byte. */
const loneSurrogate = /[\ud800-\udbff](?![\udc00-\udfff])|(?<![\ud800-\udbff])[\udc00-\udfff]/;

export class Writer {
  readonly #maxBytes: number;
  #bytes: Buffer;
  #end = wrapping;

  constructor(maxBytes = Infinity) {
    this.#maxBytes = maxBytes;
    this.#bytes = Buffer.allocUnsafe(512);
  }

  /** The wrapped message, in one buffer: a client must not have to wait between two parts of it. */
  frame(): Buffer {
    const end = this.#end;
    const length = end - wrapping;
    const head =
      length < 24 ? 1 : length < 0x100 ? 2 : length < 0x1_0000 ? 3 : length < 0x1_0000_0000 ? 5 : 9;
    const start = wrapping - head - 2;
    this.#end = start;
    this.head(major.tag, tags.encoded);
    this.head(major.bytes, length);
    this.#end = end;
    return this.#bytes.subarray(start, end);
  }

  /** What was written, without the wrapping. */
  content(): Buffer {
    return this.#bytes.subarray(wrapping, this.#end);
  }

  null(): this {
    return this.#byte(0xf6);
  }

  boolean(value: boolean): this {
    return this.#byte(value ? 0xf5 : 0xf4);
  }

  /** An integer if possible, else a 64-bit float. */
  number(value: number): this {
    if (!Number.isSafeInteger(value) || Object.is(value, -0)) return this.float(value);
    return value < 0 ? this.head(major.negative, -1 - value) : this.head(major.unsigned, value);
  }

  float(value: number): this {
    this.#byte(0xfb);
    this.#room(8);
    this.#end = this.#bytes.writeDoubleBE(value, this.#end);
    return this;
  }

  bytes(content: Uint8Array): this {
    this.head(major.bytes, content.length);
    return this.raw(content);
  }

  /** A name: text if it is valid UTF-8, otherwise bytes. Throws `bad_name` for a string that is no name. */
  name(name: string): this {
    return loneSurrogate.test(name) ? this.bytes(nameToBytes(name)) : this.text(name);
  }

  /** Text. Buffer writes what UTF-8 cannot represent as U+FFFD. */
  text(text: string): this {
    return this.#string(major.text, text);
  }

  /** The name of a unit: always bytes. */
  nameBytes(name: string): this {
    if (loneSurrogate.test(name)) return this.bytes(nameToBytes(name));
    return this.#string(major.bytes, name);
  }

  #string(kind: number, text: string): this {
    const length = Buffer.byteLength(text, "utf8");
    this.head(kind, length);
    this.#room(length);
    this.#bytes.write(text, this.#end, "utf8");
    this.#end += length;
    return this;
  }

  array(items: number): this {
    return this.head(major.array, items);
  }

  tuple(items: number): this {
    return this.head(major.tag, tags.tuple).head(major.array, items);
  }

  map(entries: number): this {
    return this.head(major.map, entries);
  }

  /** Items that are encoded already. */
  raw(items: Uint8Array): this {
    this.#room(items.length);
    this.#bytes.set(items, this.#end);
    this.#end += items.length;
    return this;
  }

  head(kind: number, value: number): this {
    const top = kind << 5;
    if (value < 24) return this.#byte(top | value);
    this.#room(9);
    const bytes = this.#bytes;
    const at = this.#end;
    if (value < 0x100) {
      bytes[at] = top | 24;
      this.#end = bytes.writeUInt8(value, at + 1);
    } else if (value < 0x1_0000) {
      bytes[at] = top | 25;
      this.#end = bytes.writeUInt16BE(value, at + 1);
    } else if (value < 0x1_0000_0000) {
      bytes[at] = top | 26;
      this.#end = bytes.writeUInt32BE(value, at + 1);
    } else {
      bytes[at] = top | 27;
      this.#end = bytes.writeBigUInt64BE(BigInt(value), at + 1);
    }
    return this;
  }

  #byte(byte: number): this {
    this.#room(1);
    this.#bytes[this.#end] = byte;
    this.#end += 1;
    return this;
  }

  #room(more: number): void {
    const needed = this.#end + more;
    if (needed <= this.#bytes.length) return;
    if (needed > this.#maxBytes)
      throw new CoordinateError("too_large", `an answer of more than ${this.#maxBytes} bytes`);
    const grown = Buffer.allocUnsafe(Math.max(needed, this.#bytes.length * 2));
    this.#bytes.copy(grown, 0, 0, this.#end);
    this.#bytes = grown;
  }
}
