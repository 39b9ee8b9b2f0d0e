/**
 * The verbs of Coordinate, served beside the Python methods: `coordinate.requestAttempts` and so on, with the arguments of the
 * verb as parameters. Plain values have their CBOR types; objects are maps with text keys; names that are not UTF-8 are byte
 * strings; a member called `data` is a data dictionary, as text when it is JSON and as bytes when it is CBOR.
 *
 * Values are decoded here. The table of verbs checks that they fit the verb, and the engine what they mean.
 */
import { cborData, CoordinateError, jsonData, type Data, type DataLimits } from "../core/index.ts";
import type { Item } from "./item.ts";
import { badArgument } from "./scan.ts";
import type { Writer } from "./write.ts";

export const verbPrefix = "coordinate.";
/** Ends the wait of an earlier request of the same connection: its only parameter is that request's id. */
export const cancelMethod = "coordinate.cancel";
/** Sends a token: the first call of a connection if the server requires one. */
export const authenticateMethod = "coordinate.authenticate";

/** The maximum depth of nested objects and lists; no argument of a verb is deeper than six. */
const deepest = 16;

/** The maximum number of values in one request; a batch of 10,000 units has a tenth of these. */
const maxValues = 1_000_000;

/** How values are read: values from a client are limited and checked, values from the server are trusted. */
export class Reading {
  readonly limits: DataLimits;
  readonly checked: boolean;
  /** The maximum number of items in one list. */
  readonly maxItems: number;
  /** The argument, or its member, that is being read: errors name it. */
  field = "list";
  /**
   * How many more values may be read. In memory a value costs many times the byte that it may take on the wire: a short request
   * must not become a huge list.
   */
  #left: number;

  /** `maxItems` is null for trusted values. */
  constructor(limits: DataLimits, maxItems: number | null) {
    this.limits = limits;
    this.checked = maxItems !== null;
    this.maxItems = maxItems ?? Infinity;
    this.#left = maxItems === null ? Infinity : maxValues;
  }

  spend(weight: number): void {
    this.#left -= weight;
    if (this.#left < 0) throw new CoordinateError("too_large", "too many values in one request");
  }
}

/** Decodes an item into a JavaScript value. */
export function readValue(item: Item, reading: Reading, depthLeft = deepest): unknown {
  const { kind } = item;
  // an empty list is about as large as four numbers
  reading.spend(kind === "list" || kind === "map" ? 4 : 1);
  switch (kind) {
    case "null":
      return null;
    case "boolean":
      return item.boolean("value");
    case "number":
      return item.number("value");
    case "string":
      return item.text("value");
    case "list":
      if (depthLeft === 0) throw badArgument("nested too deep");
      return readList(item, reading, depthLeft - 1);
    case "map":
      if (depthLeft === 0) throw badArgument("nested too deep");
      return readObject(item, reading, depthLeft - 1);
    case "other":
      throw badArgument("unsupported CBOR value");
  }
}

function readList(item: Item, reading: Reading, depthLeft: number): unknown[] {
  const values: unknown[] = [];
  for (const one of item.items()) {
    if (values.length === reading.maxItems)
      throw new CoordinateError("too_large", `${reading.field}: more than ${reading.maxItems} items`);
    values.push(readValue(one, reading, depthLeft));
  }
  return values;
}

function readObject(item: Item, reading: Reading, depthLeft: number): Record<string, unknown> {
  const object: Record<string, unknown> = {};
  let key: string | null = null;
  for (const one of item.items()) {
    if (key === null) {
      key = one.text("key");
      continue;
    }
    const outer = reading.field;
    reading.field = key;
    const value = key === "data" ? readData(one, reading.limits) : readValue(one, reading, depthLeft);
    reading.field = outer;
    if (reading.checked && Object.hasOwn(object, key))
      throw badArgument(`${key.slice(0, 100)}: repeated key`);
    // `__proto__` is a key like any other, and never the object's prototype
    if (key === "__proto__")
      Object.defineProperty(object, key, { value, enumerable: true, configurable: true });
    else object[key] = value;
    key = null;
  }
  return object;
}

function readData(item: Item, limits: DataLimits): Data | null {
  if (item.isNull) return null;
  if (item.kind !== "string") throw new CoordinateError("bad_data", "data: expected JSON text or CBOR bytes");
  return item.isBytes
    ? cborData(new Uint8Array(item.content()), limits)
    : jsonData(item.text("data"), limits);
}

/** Writes a value; undefined members are left out. */
export function writeValue(to: Writer, value: unknown): void {
  switch (typeof value) {
    case "string":
      to.name(value);
      return;
    case "number":
      to.number(value);
      return;
    case "boolean":
      to.boolean(value);
      return;
    case "undefined":
      to.null();
      return;
    case "object":
      if (value === null) to.null();
      else if (Array.isArray(value)) {
        to.array(value.length);
        for (const one of value) writeValue(to, one);
      } else writeObject(to, value as Readonly<Record<string, unknown>>);
      return;
    default:
      throw badArgument(`a ${typeof value} cannot be sent`);
  }
}

function writeObject(to: Writer, object: Readonly<Record<string, unknown>>): void {
  const keys = Object.keys(object).filter((key) => object[key] !== undefined);
  to.map(keys.length);
  for (const key of keys) {
    to.name(key);
    const value = object[key];
    if (key !== "data") writeValue(to, value);
    else if (typeof value === "string") to.text(value);
    else if (value instanceof Uint8Array) to.bytes(value);
    else if (value === null) to.null();
    else throw new CoordinateError("bad_data", "data: expected encoded data (see encodeData)");
  }
}
