/**
 * How values are written to PostgreSQL and read back.
 *
 * Arrays go over the wire in PostgreSQL's binary form: one buffer per column of a batch, no quoting, no hexadecimal
 * (a text array of 1,000 byte strings took four times as long to write here as the binary one). Names and data are
 * `bytea`: they may have zero bytes and bytes that are not UTF-8, which `text` refuses, and `bytea` is ordered by bytes.
 */
import { createHash } from "node:crypto";
import { nameFromBytes, nameToBytes, storedData, type Data } from "../core/index.ts";

const oid = { bool: 16, bytea: 17, int8: 20, int2: 21, int4: 23, text: 25, float8: 701 } as const;

/** The head of a one-dimensional array, and room for its items. */
function arrayBuffer(type: number, count: number, itemBytes: number, hasNull = 0): Buffer {
  if (count === 0) {
    const empty = Buffer.alloc(12);
    empty.writeInt32BE(type, 8);
    return empty;
  }
  const buffer = Buffer.allocUnsafe(20 + itemBytes);
  buffer.writeInt32BE(1, 0);
  buffer.writeInt32BE(hasNull, 4);
  buffer.writeInt32BE(type, 8);
  buffer.writeInt32BE(count, 12);
  buffer.writeInt32BE(1, 16);
  return buffer;
}

function fixedArray<Item>(
  type: number,
  size: number,
  items: readonly (Item | null)[],
  write: (buffer: Buffer, item: Item, at: number) => void,
): Buffer {
  let nulls = 0;
  for (const item of items) if (item === null) nulls++;
  const buffer = arrayBuffer(type, items.length, items.length * (4 + size) - nulls * size, nulls > 0 ? 1 : 0);
  let at = 20;
  for (const item of items) {
    if (item === null) {
      at = buffer.writeInt32BE(-1, at);
      continue;
    }
    at = buffer.writeInt32BE(size, at);
    write(buffer, item, at);
    at += size;
  }
  return buffer;
}

const writeInt8 = (buffer: Buffer, item: number, at: number): void => {
  buffer.writeInt32BE(Math.floor(item / 0x1_0000_0000), at);
  buffer.writeUInt32BE(item >>> 0, at + 4);
};

export const int8s = (items: readonly (number | null)[]): Buffer =>
  fixedArray(oid.int8, 8, items, (buffer, item, at) => writeInt8(buffer, lowBits(item), at));
export const int4s = (items: readonly (number | null)[]): Buffer =>
  fixedArray(oid.int4, 4, items, (buffer, item, at) => buffer.writeInt32BE(item, at));
export const int2s = (items: readonly (number | null)[]): Buffer =>
  fixedArray(oid.int2, 2, items, (buffer, item, at) => buffer.writeInt16BE(item, at));
export const float8s = (items: readonly (number | null)[]): Buffer =>
  fixedArray(oid.float8, 8, items, (buffer, item, at) => buffer.writeDoubleBE(item, at));
export const bools = (items: readonly (boolean | null)[]): Buffer =>
  fixedArray(oid.bool, 1, items, (buffer, item, at) => buffer.writeUInt8(item ? 1 : 0, at));

/** `>>> 0` takes the low 32 bits of integers up to 2^53 exactly; beyond that a number is no id. */
function lowBits(item: number): number {
  if (!Number.isSafeInteger(item)) throw new RangeError(`not an integer: ${item}`);
  return item;
}

function bytesArray(type: number, items: readonly (Uint8Array | null)[]): Buffer {
  let bytes = 0;
  let nulls = 0;
  for (const item of items) {
    if (item === null) nulls++;
    else bytes += item.length;
  }
  const buffer = arrayBuffer(type, items.length, items.length * 4 + bytes, nulls > 0 ? 1 : 0);
  let at = 20;
  for (const item of items) {
    if (item === null) {
      at = buffer.writeInt32BE(-1, at);
      continue;
    }
    at = buffer.writeInt32BE(item.length, at);
    buffer.set(item, at);
    at += item.length;
  }
  return buffer;
}

export const byteas = (items: readonly (Uint8Array | null)[]): Buffer => bytesArray(oid.bytea, items);
export const texts = (items: readonly (string | null)[]): Buffer =>
  bytesArray(
    oid.text,
    items.map((item) => (item === null ? null : Buffer.from(item, "utf8"))),
  );

// ---- rows of COPY in binary form

/**
 * Rows of a binary COPY, written one after the other into one buffer: a bulk add makes no object per field, and text is encoded
 * straight into the buffer that is sent.
 */
export class CopyRows {
  #buffer: Buffer;
  #at: number;

  constructor(rows: number) {
    this.#buffer = Buffer.allocUnsafe(copyHead.length + 64 + rows * 160);
    this.#at = copyHead.copy(this.#buffer);
  }

  /** Begins a row; exactly this many fields must follow. */
  row(fields: number): void {
    this.#room(2);
    this.#at = this.#buffer.writeInt16BE(fields, this.#at);
  }

  int8(value: number): void {
    this.#room(12);
    this.#at = this.#buffer.writeInt32BE(8, this.#at);
    writeInt8(this.#buffer, lowBits(value), this.#at);
    this.#at += 8;
  }

  int2(value: number): void {
    this.#room(6);
    this.#at = this.#buffer.writeInt16BE(value, this.#buffer.writeInt32BE(2, this.#at));
  }

  float8(value: number): void {
    this.#room(12);
    this.#at = this.#buffer.writeDoubleBE(value, this.#buffer.writeInt32BE(8, this.#at));
  }

  bytes(value: Buffer | null): void {
    this.#room(4 + (value?.length ?? 0));
    this.#at = this.#buffer.writeInt32BE(value?.length ?? -1, this.#at);
    if (value !== null) this.#at += value.copy(this.#buffer, this.#at);
  }

  data(value: Data | null): void {
    if (typeof value !== "string" || loneSurrogate.test(value)) {
      this.bytes(dataBytes(value));
      return;
    }
    this.#room(4 + value.length * 3);
    const length = this.#buffer.write(value, this.#at + 4, "utf8");
    this.#buffer.writeInt32BE(length, this.#at);
    this.#at += 4 + length;
  }

  /** Ends the COPY and returns all of it; nothing can be written after this. */
  end(): Buffer {
    this.#room(2);
    this.#at = this.#buffer.writeInt16BE(-1, this.#at);
    return this.#buffer.subarray(0, this.#at);
  }

  #room(bytes: number): void {
    if (this.#at + bytes <= this.#buffer.length) return;
    const grown = Buffer.allocUnsafe(Math.max(this.#buffer.length * 2, this.#at + bytes));
    this.#buffer.copy(grown, 0, 0, this.#at);
    this.#buffer = grown;
  }
}

const copyHead = Buffer.concat([Buffer.from("PGCOPY\n\xff\r\n\0", "latin1"), Buffer.alloc(8)]);

// ---- what comes back

type Parse = (text: string) => unknown;

/** Parses an array of integers digit by digit, without a string for each. */
const numbers: Parse = (text) => {
  const items: number[] = [];
  if (text === "{}") return items;
  let item = 0;
  let sign = 1;
  for (let at = 1; at < text.length; at++) {
    const code = text.charCodeAt(at);
    if (code >= 48 && code <= 57) item = item * 10 + (code - 48);
    else if (code === 45) sign = -1;
    else {
      items.push(sign * item);
      item = 0;
      sign = 1;
    }
  }
  return items;
};
const bytes: Parse = (text) => Buffer.from(text.slice(2), "hex");

/** Elements are in quotes, with the backslash of the hexadecimal form doubled. */
const bytesList: Parse = (text) =>
  text === "{}"
    ? []
    : text
        .slice(1, -1)
        .split(",")
        .map((item) => Buffer.from(item.replace(/^"?\\{1,2}x/, "").replace(/"$/, ""), "hex"));

const parsers = new Map<number, Parse>([
  [oid.bool, (text) => text === "t"],
  [oid.bytea, bytes],
  [oid.int8, Number],
  [oid.int2, Number],
  [oid.int4, Number],
  [oid.float8, Number],
  // arrays of smallint, integer and bigint
  [1005, numbers],
  [1007, numbers],
  [1016, numbers],
  [1001, bytesList],
]);

const asText: Parse = (text) => text;

/** The parsers that `pg` uses for columns: every bigint here is an id, a count or a time, and exact as a number. */
export const rowTypes = { getTypeParser: (type: number): Parse => parsers.get(type) ?? asText };

// ---- bytes as text

/** The bytes of a text that `encode(…, 'escape')` made, or of `\\x` and hexadecimal digits. */
export function unescape(text: string): Buffer {
  if (text.startsWith("\\x")) return Buffer.from(text.slice(2), "hex");
  const buffer = Buffer.allocUnsafe(text.length);
  let length = 0;
  for (let at = 0; at < text.length; at++) {
    const code = text.charCodeAt(at);
    if (code !== 92) buffer[length++] = code;
    else if (text.charCodeAt(at + 1) === 92) buffer[length++] = text.charCodeAt(++at);
    else {
      buffer[length++] = Number.parseInt(text.slice(at + 1, at + 4), 8);
      at += 3;
    }
  }
  return buffer.subarray(0, length);
}

/** Reads names or data that follow each other in such a text, one by one. Mostly the text is ASCII without a backslash. */
export class Pieces {
  readonly #text: string;
  /** Null where the text is plain. */
  readonly #bytes: Buffer | null;
  #at = 0;

  constructor(text: string) {
    this.#text = text;
    this.#bytes = text.includes("\\") ? unescape(text) : null;
  }

  name(length: number): string {
    const from = this.#at;
    this.#at += length;
    // a copy: a name may be kept for long, and a slice would keep the whole text in memory
    return this.#bytes === null
      ? Buffer.from(this.#text.slice(from, this.#at), "latin1").toString("latin1")
      : nameFromBytes(this.#bytes.subarray(from, this.#at));
  }

  data(length: number): Data | null {
    const from = this.#at;
    this.#at += length;
    return this.#bytes === null
      ? storedData(this.#text.slice(from, this.#at))
      : bytesData(this.#bytes.subarray(from, this.#at));
  }
}

// ---- names

/** Names up to this many bytes are their own keys; longer ones: see `long-names.ts`. */
export const longestKey = 2536;

/** The part of a name that its key begins with. It sorts at or before the key. */
export const keyPrefix = (name: Buffer): Buffer => name.subarray(0, longestKey);

/**
 * The lane of a partition: a long one is shortened to its first 16 bytes and a hash, so that it fits into an index entry with the
 * longest key. Then `long` is the whole partition.
 */
export function laneKey(partition: string): { lane: Buffer; long: Buffer | null } {
  const whole = nameToBytes(partition);
  if (whole.length <= 48) return { lane: whole, long: null };
  return {
    lane: Buffer.concat([whole.subarray(0, 16), createHash("sha256").update(whole).digest()]),
    long: whole,
  };
}

export const nameOf = (key: Buffer, long: Buffer | null): string => nameFromBytes(long ?? key);

/** Text that is only compared, and may have zero bytes or halves of surrogate pairs: any injective encoding will do. */
export const textKey = (text: string): Buffer => Buffer.from(text, "utf16le");
export const keyText = (key: Buffer): string => key.toString("utf16le");

// ---- data

/**
 * The first byte of data shows its encoding: JSON text begins with white space or `{`, a CBOR map with 0xA0 to 0xBF, and JSON
 * text that UTF-8 cannot represent (half of a surrogate pair in a string) is written in UTF-16 after a zero byte.
 */
export function dataBytes(data: Data | null): Buffer | null {
  if (data === null) return null;
  if (typeof data !== "string") return Buffer.from(data.buffer, data.byteOffset, data.byteLength);
  return loneSurrogate.test(data)
    ? Buffer.concat([Buffer.of(0), Buffer.from(data, "utf16le")])
    : Buffer.from(data, "utf8");
}

const loneSurrogate = /\p{Surrogate}/u;

export function bytesData(stored: Buffer | null): Data | null {
  if (stored === null) return null;
  const first = stored[0] ?? 0;
  if (first === 0) return storedData(stored.toString("utf16le", 1));
  return storedData(first >= 0x80 ? new Uint8Array(stored) : stored.toString("utf8"));
}
