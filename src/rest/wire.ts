/**
 * JSON of the REST interface: plain values, with one exception. A member called `data` is a data dictionary and is not
 * parsed: JSON data keeps its exact text (1.0 stays 1.0, keys keep their order and may repeat), CBOR data is a string of
 * base64. A dictionary is always an object, so the two cannot be confused.
 *
 * The reader is written by hand because JSON.parse cannot skip a part, and because a long body is read in pieces. It reads untrusted
 * text: depth is limited, and keys such as `__proto__` are ordinary keys.
 */
import { Buffer } from "node:buffer";
import {
  cborData,
  CoordinateError,
  jsonDataAt,
  jsonText,
  nextTurn,
  type Data,
  type DataLimits,
} from "../core/index.ts";

/** The maximum depth of nested objects and lists outside of `data`. No valid message is deeper than six. */
const deepest = 32;

/**
 * The maximum number of values in one text, outside of `data`. In memory a value costs many times the three characters that it
 * may take in the text. A batch of 10,000 units has a tenth of these.
 */
const maxValues = 1_000_000;

/** Characters that are read in one turn of the event loop: a few milliseconds. */
const atOnce = 256 * 1024;

export interface WireLimits extends DataLimits {
  /** The maximum number of items in one list. */
  readonly maxItems?: number;
}

/** Reads one JSON text. Throws `bad_argument` if it is malformed and `bad_data` if data in it is. */
export function readWire(text: string, limits?: WireLimits): unknown {
  const reader = new WireReader(text, limits);
  reader.read(Infinity);
  return reader.value;
}

/** The same for a text that may be long: yields to the event loop between pieces. */
export async function readLongWire(text: string, limits?: WireLimits): Promise<unknown> {
  const reader = new WireReader(text, limits);
  while (!reader.read(atOnce)) await nextTurn();
  return reader.value;
}

interface Cursor {
  readonly text: string;
  readonly limits: DataLimits | undefined;
  at: number;
}

/** An object or list that is being read; `key` is the key of the next member, null in a list. */
interface Open {
  readonly value: Record<string, unknown> | unknown[];
  key: string | null;
}

const opened = Symbol("opened");

/** Keeps open objects and lists on an explicit stack, so that it can pause anywhere and resume later. */
class WireReader {
  readonly #cursor: Cursor;
  readonly #open: Open[] = [];
  readonly #maxItems: number;
  #valuesLeft = maxValues;
  value: unknown = undefined;

  constructor(text: string, limits: WireLimits | undefined) {
    this.#cursor = { text, at: 0, limits };
    this.#maxItems = limits?.maxItems ?? Infinity;
    skipSpace(this.#cursor);
  }

  /** Reads about so many more characters. Returns true at the end of the text. */
  read(characters: number): boolean {
    const cursor = this.#cursor;
    const until = cursor.at + characters;
    for (;;) {
      let value = this.#start();
      while (value !== opened) {
        const top = this.#open.at(-1);
        if (top === undefined) {
          this.value = value;
          skipSpace(cursor);
          if (cursor.at < cursor.text.length) throw malformed(cursor);
          return true;
        }
        this.#put(top, value);
        skipSpace(cursor);
        const unit = cursor.text.charCodeAt(cursor.at);
        const end = top.key === null ? 0x5d : 0x7d;
        if (unit !== 0x2c && unit !== end) throw malformed(cursor);
        cursor.at += 1;
        if (unit === end) {
          this.#open.pop();
          value = top.value;
          continue;
        }
        skipSpace(cursor);
        if (top.key !== null) top.key = readKey(cursor);
        value = opened;
      }
      if (cursor.at > until) return false;
    }
  }

  /** The value that starts here, or `opened` for an object or list that is not empty. */
  #start(): unknown {
    const cursor = this.#cursor;
    this.#valuesLeft -= 1;
    if (this.#valuesLeft < 0)
      throw new CoordinateError("too_large", `JSON: more than ${maxValues} values in one request`);
    if (this.#open.at(-1)?.key === "data") return readData(cursor);
    switch (cursor.text.charCodeAt(cursor.at)) {
      case 0x7b: // {
        return this.#enter({}, 0x7d);
      case 0x5b: // [
        return this.#enter([], 0x5d);
      default:
        return readScalar(cursor);
    }
  }

  #enter(value: Open["value"], end: number): unknown {
    const cursor = this.#cursor;
    if (this.#open.length === deepest)
      throw new CoordinateError("bad_argument", `JSON: nested too deep at character ${cursor.at}`);
    cursor.at += 1;
    skipSpace(cursor);
    if (cursor.text.charCodeAt(cursor.at) === end) {
      cursor.at += 1;
      return value;
    }
    this.#open.push({ value, key: Array.isArray(value) ? null : readKey(cursor) });
    return opened;
  }

  #put({ value: container, key }: Open, value: unknown): void {
    if (Array.isArray(container)) {
      if (container.length === this.#maxItems)
        throw new CoordinateError("too_large", `${this.#where()}: more than ${this.#maxItems} items`);
      container.push(value);
      return;
    }
    const name = key ?? "";
    // refused: else a check might see the first value, and the code use the second
    if (Object.hasOwn(container, name))
      throw new CoordinateError("bad_argument", `${name.slice(0, 100)}: repeated key`);
    jsonText.setOwn(container, name, value);
  }

  /** The key of the member that the innermost list belongs to. */
  #where(): string {
    const member = this.#open.findLast(({ key }) => key !== null);
    return member?.key?.slice(0, 100) ?? "list";
  }
}

function readKey(cursor: Cursor): string {
  const { text } = cursor;
  if (text.charCodeAt(cursor.at) !== 0x22) throw malformed(cursor);
  const key = readScalar(cursor) as string;
  skipSpace(cursor);
  if (text.charCodeAt(cursor.at) !== 0x3a) throw malformed(cursor);
  cursor.at += 1;
  skipSpace(cursor);
  return key;
}

/** A string, number, `true`, `false` or `null`. */
function readScalar(cursor: Cursor): unknown {
  const { text, at: start } = cursor;
  try {
    cursor.at = jsonText.checkScalar(text, start);
  } catch {
    throw malformed(cursor);
  }
  switch (text.charCodeAt(start)) {
    case 0x22: // "
      return jsonText.readString(text, start, cursor.at);
    case 0x74: // t
      return true;
    case 0x66: // f
      return false;
    case 0x6e: // n
      return null;
    default: {
      const number = Number(text.slice(start, cursor.at));
      // an integer of 400 digits is valid JSON, but would become Infinity here and pass as a very long time
      if (Number.isFinite(number)) return number;
      throw new CoordinateError("bad_argument", `JSON: number out of range at character ${start}`);
    }
  }
}

function readData(cursor: Cursor): Data | null {
  const { text, at: start, limits } = cursor;
  switch (text.charCodeAt(start)) {
    case 0x7b: {
      const data = jsonDataAt(text, start, limits);
      cursor.at += data.length;
      return data;
    }
    case 0x22: // "
      return base64Data(readScalar(cursor) as string, limits);
    case 0x6e: // n
      return readScalar(cursor) as null;
    default:
      throw new CoordinateError("bad_data", "expected an object, or a CBOR map in base64");
  }
}

/** Together with a length that is a multiple of four. A repeated group instead would overflow the stack on 4 MiB of data. */
const base64Text = /^[A-Za-z0-9+/]*={0,2}$/;

function base64Data(text: string, limits?: DataLimits): Data {
  if (text.length % 4 !== 0 || !base64Text.test(text))
    throw new CoordinateError("bad_data", "illegal base64");
  // a copy: Buffer returns small slices of one large pool, and a single unit would keep the pool alive
  return cborData(new Uint8Array(Buffer.from(text, "base64")), limits);
}

function skipSpace(cursor: Cursor): void {
  cursor.at = jsonText.skipSpace(cursor.text, cursor.at);
}

function malformed({ at, text }: Cursor): CoordinateError {
  const what = at >= text.length ? "ends unexpectedly" : `is malformed at character ${at}`;
  return new CoordinateError("bad_argument", `JSON: ${what}`);
}

/** The JSON text of a value. Members that are undefined are omitted. Bytes in names that are not UTF-8 are written as `\udcXX`. */
export function writeWire(value: unknown): string {
  switch (typeof value) {
    case "string":
      return JSON.stringify(value);
    case "number":
      return Number.isFinite(value) ? String(value) : "null";
    case "boolean":
      return value ? "true" : "false";
    case "object":
      if (value === null) return "null";
      return Array.isArray(value) ? writeArray(value) : writeObject(value as Record<string, unknown>);
    default:
      return "null";
  }
}

function writeArray(array: readonly unknown[]): string {
  if (array.length === 0) return "[]";
  let text = "[" + writeWire(array[0]);
  for (let i = 1; i < array.length; i++) text += "," + writeWire(array[i]);
  return text + "]";
}

function writeObject(object: Readonly<Record<string, unknown>>): string {
  let text = "";
  for (const key in object) {
    const value = object[key];
    if (value === undefined) continue;
    text += `${text === "" ? "{" : ","}${quotedKey(key)}:${key === "data" ? writeData(value as Data | null) : writeWire(value)}`;
  }
  return text === "" ? "{}" : text + "}";
}

function writeData(data: Data | null): string {
  if (data === null) return "null";
  if (typeof data === "string") return data;
  // the caller of a client may have passed an object instead of encoded data
  if (!((data as unknown) instanceof Uint8Array))
    throw new CoordinateError("bad_data", "data: expected encoded data (see encodeData)");
  return `"${Buffer.from(data.buffer, data.byteOffset, data.byteLength).toString("base64")}"`;
}

/** A line of NDJSON. Line breaks in JSON text are white space between tokens, and become blanks. */
export function writeLine(value: unknown): string {
  const text = writeWire(value);
  return (text.includes("\n") || text.includes("\r") ? text.replace(/[\n\r]/g, " ") : text) + "\n";
}

const quotedKeys = new Map<string, string>();

/** Caches quoted keys. Keys are a few dozen field names; the size limit is for callers that pass other keys. */
function quotedKey(key: string): string {
  let quoted = quotedKeys.get(key);
  if (quoted === undefined) {
    quoted = JSON.stringify(key);
    if (quotedKeys.size < 500) quotedKeys.set(key, quoted);
  }
  return quoted;
}
