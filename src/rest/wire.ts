/**
 * JSON on the complete wire: plain values, with one exception. A member called `data` is a data dictionary and is
 * never looked into: JSON data travels as the text it is (1.0 stays 1.0, keys keep their order and may repeat), CBOR
 * data as a string of base64. A dictionary is always an object, so the two cannot be confused.
 *
 * The reader is written by hand because JSON.parse cannot leave a part alone. It takes untrusted text: depth is
 * counted, nothing recurses into data, and keys such as `__proto__` are keys.
 */
import { Buffer } from "node:buffer";
import { cborData, CoordinateError, jsonData, nextTurn, type Data, type DataLimits } from "../core/index.ts";

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
      case 0x22: // "
        return readString(cursor);
      case 0x7b: // {
        return this.#enter({}, 0x7d);
      case 0x5b: // [
        return this.#enter([], 0x5d);
      case 0x74: // t
        return readWord(cursor, "true", true);
      case 0x66: // f
        return readWord(cursor, "false", false);
      case 0x6e: // n
        return readWord(cursor, "null", null);
      default:
        return readNumber(cursor);
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
    if (name === "__proto__") Object.defineProperty(container, name, { value, enumerable: true });
    else container[name] = value;
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
  const key = readString(cursor);
  skipSpace(cursor);
  if (text.charCodeAt(cursor.at) !== 0x3a) throw malformed(cursor);
  cursor.at += 1;
  skipSpace(cursor);
  return key;
}

/** Sticky: it starts at `lastIndex` and does not search. */
const stringUnits = /[^"\\\u0000-\u001f]*/y;

function readString(cursor: Cursor): string {
  const { text, at: start } = cursor;
  let escaped = false;
  let at = start + 1;
  for (;;) {
    stringUnits.lastIndex = at;
    stringUnits.test(text);
    at = stringUnits.lastIndex;
    const unit = text.charCodeAt(at);
    if (unit === 0x22) break;
    if (unit !== 0x5c || at + 1 >= text.length) throw malformed({ ...cursor, at });
    escaped = true;
    at += 2;
  }
  cursor.at = at + 1;
  if (!escaped) return text.slice(start + 1, at);
  try {
    return JSON.parse(text.slice(start, cursor.at)) as string;
  } catch {
    throw malformed({ ...cursor, at: start });
  }
}

const numberText = /-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?/y;

function readNumber(cursor: Cursor): number {
  numberText.lastIndex = cursor.at;
  if (!numberText.test(cursor.text)) throw malformed(cursor);
  const number = Number(cursor.text.slice(cursor.at, numberText.lastIndex));
  // 1e400 is a number in JSON and none here; taken for Infinity it would pass for a very long time
  if (!Number.isFinite(number))
    throw new CoordinateError("bad_argument", `JSON: number out of range at character ${cursor.at}`);
  cursor.at = numberText.lastIndex;
  return number;
}

function readWord<Value>(cursor: Cursor, word: string, value: Value): Value {
  if (!cursor.text.startsWith(word, cursor.at)) throw malformed(cursor);
  cursor.at += word.length;
  return value;
}

function readData(cursor: Cursor): Data | null {
  const start = cursor.at;
  switch (cursor.text.charCodeAt(start)) {
    case 0x7b: // {
      skipObject(cursor);
      return jsonData(cursor.text.slice(start, cursor.at), cursor.limits);
    case 0x22: // "
      return base64Data(readString(cursor), cursor.limits);
    case 0x6e: // n
      return readWord(cursor, "null", null);
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

/** To the end of an object that may be malformed: what lies between is checked by whoever takes the slice. */
function skipObject(cursor: Cursor): void {
  const { text } = cursor;
  let open = 0;
  for (let at = cursor.at; at < text.length; at++) {
    const unit = text.charCodeAt(at);
    if (unit === 0x22) {
      cursor.at = at;
      at = stringEnd(cursor);
    } else if (unit === 0x7b || unit === 0x5b) open += 1;
    else if (unit === 0x7d || unit === 0x5d) {
      open -= 1;
      if (open === 0) {
        cursor.at = at + 1;
        return;
      }
    }
  }
  throw malformed({ ...cursor, at: text.length });
}

/** The position of the quote that ends the string which starts at the cursor. */
function stringEnd(cursor: Cursor): number {
  const { text } = cursor;
  for (let at = cursor.at; ;) {
    at = text.indexOf('"', at + 1);
    if (at < 0) throw malformed({ ...cursor, at: text.length });
    let before = at - 1;
    while (text.charCodeAt(before) === 0x5c) before -= 1;
    if ((at - before) % 2 === 1) return at;
  }
}

function skipSpace(cursor: Cursor): void {
  const { text } = cursor;
  for (;;) {
    const unit = text.charCodeAt(cursor.at);
    // one comparison for nearly every character; past the end the unit is NaN
    if (!(unit <= 0x20)) return;
    if (unit !== 0x20 && unit !== 0x0a && unit !== 0x0d && unit !== 0x09) return;
    cursor.at += 1;
  }
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
