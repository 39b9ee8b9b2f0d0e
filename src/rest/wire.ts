/**
 * JSON on the complete wire: plain values, with one exception. A member called `data` is a data dictionary and is
 * never looked into: JSON data travels as the text it is (1.0 stays 1.0, keys keep their order and may repeat), CBOR
 * data as a string of base64. A dictionary is always an object, so the two cannot be confused.
 *
 * The reader is written by hand because JSON.parse cannot leave a part alone, and because a long body is read in pieces. It takes
 * untrusted text: depth is counted, and keys such as `__proto__` are keys.
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

/** Objects and lists of the envelope inside one another; nothing on the wire is deeper than six. */
const deepest = 32;

/**
 * Values of one envelope. A value costs many times the three characters that it may come in; a batch of 10,000 units has
 * a tenth of these.
 */
const maxValues = 1_000_000;

/** Characters that are read before others get a turn: a few milliseconds. */
const atOnce = 256 * 1024;

export interface WireLimits extends DataLimits {
  /** Items of one list. */
  readonly maxItems?: number;
}

/** Reads one JSON text. Throws `bad_argument` for what is malformed and `bad_data` for data that is. */
export function readWire(text: string, limits?: WireLimits): unknown {
  const reader = new WireReader(text, limits);
  reader.read(Infinity);
  return reader.value;
}

/** The same, of a text that may be long: the event loop turns meanwhile. */
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

/** An object or list that is being read; `key` is the member that comes next, null in a list. */
interface Open {
  readonly value: Record<string, unknown> | unknown[];
  key: string | null;
}

const opened = Symbol("opened");

/** Keeps what is open on a stack of its own, so that it can stop anywhere and go on later. */
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

  /** Reads on, about so many characters; true when the text has been read to its end. */
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

  /** The value that starts here, or `opened` for an object or list with something in it. */
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
    // whoever looked at the first one must not have looked at another than is used
    if (Object.hasOwn(container, name))
      throw new CoordinateError("bad_argument", `${name.slice(0, 100)}: there twice`);
    jsonText.setOwn(container, name, value);
  }

  /** The member that the innermost list belongs to. */
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
      // an integer of 400 digits is a number in JSON and none here; taken for Infinity it would pass for a very long time
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
      throw new CoordinateError("bad_data", "that is neither an object nor base64 of CBOR");
  }
}

const base64Text = /^(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?$/;

export function base64Data(text: string, limits?: DataLimits): Data {
  if (!base64Text.test(text)) throw new CoordinateError("bad_data", "that is illegal base64");
  // a copy of its own: Buffer hands out small slices of one large pool, which a single unit would keep alive
  return cborData(new Uint8Array(Buffer.from(text, "base64")), limits);
}

function skipSpace(cursor: Cursor): void {
  cursor.at = jsonText.skipSpace(cursor.text, cursor.at);
}

function malformed({ at, text }: Cursor): CoordinateError {
  const what = at >= text.length ? "ends too early" : `is malformed at character ${at}`;
  return new CoordinateError("bad_argument", `JSON: ${what}`);
}

/** The one JSON text of a value; members of undefined value are left out. Names with bytes come out as `\udcXX`. */
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

export function writeData(data: Data | null): string {
  if (data === null) return "null";
  if (typeof data === "string") return data;
  // a client's caller may have given an object where encoded data was wanted
  if (!((data as unknown) instanceof Uint8Array))
    throw new CoordinateError("bad_data", "data: expected encoded data (see encodeData)");
  return `"${Buffer.from(data.buffer, data.byteOffset, data.byteLength).toString("base64")}"`;
}

/** A line of NDJSON: line ends in JSON text are white space between tokens, and become blanks. */
export function writeLine(value: unknown): string {
  const text = writeWire(value);
  return (text.includes("\n") || text.includes("\r") ? text.replace(/[\n\r]/g, " ") : text) + "\n";
}

const quotedKeys = new Map<string, string>();

/** Keys are field names, a few dozen in all; the bound is for a caller who puts something else there. */
function quotedKey(key: string): string {
  let quoted = quotedKeys.get(key);
  if (quoted === undefined) {
    quoted = JSON.stringify(key);
    if (quotedKeys.size < 500) quotedKeys.set(key, quoted);
  }
  return quoted;
}
