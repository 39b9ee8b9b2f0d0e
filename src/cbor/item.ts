/**
 * The position of one item in a message, not decoded. Items are read lazily from the bytes of the message, so a list of a million
 * keys costs nothing until it is iterated, and a data map is passed on as a slice. Only for messages that passed the scanner
 * without a refusal.
 */
import { Buffer, isUtf8 } from "node:buffer";
import { cborData, nameFromBytes, type Data, type DataLimits } from "../core/index.ts";
import {
  argument,
  badArgument,
  breakByte,
  halfFloat,
  headEnd,
  indefinite,
  itemEnd,
  major,
  tags,
} from "./scan.ts";

export type ItemKind = "null" | "boolean" | "number" | "string" | "list" | "map" | "other";

export class Item {
  readonly bytes: Buffer;
  readonly at: number;

  constructor(bytes: Buffer, at: number) {
    this.bytes = bytes;
    this.at = at;
  }

  get kind(): ItemKind {
    const first = this.bytes[this.at]!;
    switch (first >> 5) {
      case major.unsigned:
      case major.negative:
        return "number";
      case major.bytes:
      case major.text:
        return "string";
      case major.array:
        return "list";
      case major.map:
        return "map";
      case major.tag:
        return this.#taggedKind();
      default:
        return first === 0xf4 || first === 0xf5 ? "boolean" : first >= 0xf9 ? "number" : "null";
    }
  }

  /** A tuple is a list, a long integer a number. */
  #taggedKind(): ItemKind {
    const number = argument(this.bytes, this.at);
    const inner = this.bytes[headEnd(this.bytes, this.at)]! >> 5;
    if (number === tags.tuple && inner === major.array) return "list";
    const isBig = number === tags.bigPositive || number === tags.bigNegative;
    return isBig && inner === major.bytes ? "number" : "other";
  }

  get isNull(): boolean {
    return this.kind === "null";
  }

  get isBytes(): boolean {
    return this.bytes[this.at]! >> 5 === major.bytes;
  }

  /** The encoded bytes of the item. */
  slice(): Buffer {
    return this.bytes.subarray(this.at, itemEnd(this.bytes, this.at));
  }

  /** Text unchanged, bytes decoded by the rule of names: Python sends both for the same thing. */
  text(what: string): string {
    if (this.kind !== "string") throw badArgument(`${what}: expected a string, got ${this.describe()}`);
    const content = this.content();
    if (this.isBytes) return nameFromBytes(content);
    if (!isUtf8(content)) throw badArgument(`${what}: text is not UTF-8`);
    return content.toString("utf8");
  }

  /** The content of a string. */
  content(): Buffer {
    const start = headEnd(this.bytes, this.at);
    if ((this.bytes[this.at]! & 31) !== indefinite)
      return this.bytes.subarray(start, start + argument(this.bytes, this.at));
    const parts: Buffer[] = [];
    for (let at = start; this.bytes[at] !== breakByte; at = itemEnd(this.bytes, at))
      parts.push(new Item(this.bytes, at).content());
    return Buffer.concat(parts);
  }

  /** The nearest JavaScript number; NaN and infinities are numbers. */
  number(what: string): number {
    const { bytes, at } = this;
    const first = bytes[at]!;
    switch (first >> 5) {
      case major.unsigned:
        return argument(bytes, at);
      case major.negative:
        return -1 - argument(bytes, at);
      case major.tag:
        if (this.kind === "number") return this.#bigInteger();
        break;
      case major.simple:
        if (first === 0xfb) return bytes.readDoubleBE(at + 1);
        if (first === 0xfa) return bytes.readFloatBE(at + 1);
        if (first === 0xf9) return halfFloat(bytes.readUInt16BE(at + 1));
    }
    throw badArgument(`${what}: expected a number, got ${this.describe()}`);
  }

  #bigInteger(): number {
    const content = new Item(this.bytes, headEnd(this.bytes, this.at)).content();
    let value = 0;
    for (const byte of content) value = value * 256 + byte;
    return argument(this.bytes, this.at) === tags.bigNegative ? -1 - value : value;
  }

  boolean(what: string): boolean {
    const first = this.bytes[this.at]!;
    if (first === 0xf4 || first === 0xf5) return first === 0xf5;
    // Python's True is an integer, and flags are sent as 0 and 1 too
    if (this.kind === "number") return this.number(what) !== 0;
    throw badArgument(`${what}: expected a boolean, got ${this.describe()}`);
  }

  /** The items of a list or tuple; of a map, keys and values alternate. */
  *items(): Generator<Item> {
    const { bytes } = this;
    const sequence = bytes[this.at]! >> 5 === major.tag ? headEnd(bytes, this.at) : this.at;
    let at = headEnd(bytes, sequence);
    const endless = (bytes[sequence]! & 31) === indefinite;
    let left = argument(bytes, sequence) * (bytes[sequence]! >> 5 === major.map ? 2 : 1);
    while (endless ? bytes[at] !== breakByte : left-- > 0) {
      const end = itemEnd(bytes, at);
      yield new Item(bytes, at);
      at = end;
    }
  }

  /** The first `max` items of a list, and one more if there are more. */
  some(max: number): Item[] {
    const found: Item[] = [];
    this.each((item) => found.push(item) <= max);
    return found;
  }

  /** As `items`, until `visit` returns false; without a generator, which costs more than a short request. */
  each(visit: (item: Item) => boolean, endOf = itemEnd): void {
    const { bytes } = this;
    const sequence = bytes[this.at]! >> 5 === major.tag ? headEnd(bytes, this.at) : this.at;
    const endless = (bytes[sequence]! & 31) === indefinite;
    let left = argument(bytes, sequence) * (bytes[sequence]! >> 5 === major.map ? 2 : 1);
    for (let at = headEnd(bytes, sequence); endless ? bytes[at] !== breakByte : left-- > 0;) {
      const end = endOf(bytes, at);
      if (!visit(new Item(bytes, at))) return;
      at = end;
    }
  }

  /** Whether a map has more than this many entries. */
  isLongerThan(entries: number): boolean {
    if ((this.bytes[this.at]! & 31) !== indefinite) return argument(this.bytes, this.at) > entries;
    return this.some(2 * entries).length > 2 * entries;
  }

  /** The value of a key, text or bytes, of a map; the last one where it is repeated. Null counts as absent. */
  get(key: string): Item | undefined {
    const { bytes } = this;
    const endless = (bytes[this.at]! & 31) === indefinite;
    let left = argument(bytes, this.at);
    let found = -1;
    for (let at = headEnd(bytes, this.at); endless ? bytes[at] !== breakByte : left-- > 0;) {
      const value = itemEnd(bytes, at);
      if (isKeyAt(bytes, at, key)) found = value;
      at = itemEnd(bytes, value);
    }
    if (found < 0 || bytes[found] === 0xf6 || bytes[found] === 0xf7) return undefined;
    return new Item(bytes, found);
  }

  isKey(key: string): boolean {
    return isKeyAt(this.bytes, this.at, key);
  }

  /** A copy of a data map: a view would keep the whole message in memory. Null stays null. */
  data(what: string, limits: DataLimits): Data | null {
    if (this.isNull) return null;
    if (this.kind !== "map") throw badArgument(`${what}: expected a map, got ${this.describe()}`);
    return cborData(new Uint8Array(this.slice()), limits);
  }

  describe(): string {
    switch (this.kind) {
      case "null":
        return "null";
      case "boolean":
        return this.boolean("") ? "true" : "false";
      case "number":
        return String(this.number(""));
      case "string":
        return this.isBytes ? "bytes" : "text";
      case "list":
        return "a list";
      case "map":
        return "a map";
      case "other":
        return "something else";
    }
  }
}

function isKeyAt(bytes: Buffer, at: number, key: string): boolean {
  const first = bytes[at]!;
  if (first >> 5 !== major.bytes && first >> 5 !== major.text) return false;
  if ((first & 31) === indefinite) return new Item(bytes, at).content().toString("latin1") === key;
  // compared in place: this runs for every key of every request
  if (argument(bytes, at) !== key.length) return false;
  const start = headEnd(bytes, at);
  for (let i = 0; i < key.length; i++) if (bytes[start + i] !== key.charCodeAt(i)) return false;
  return true;
}
