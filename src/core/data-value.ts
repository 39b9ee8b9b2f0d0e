/**
 * The types of data.
 *
 *   data        a dictionary that belongs to a work spec, work unit or attempt; opaque to everyone but its user
 *   JsonText    data as it arrived on a JSON wire: the text itself, so that 1.0 and long integers stay as written
 *   CborBytes   data as it arrived on a CBOR wire: the bytes themselves
 *   DataValue   decoded data: JSON's values, and the other types that Python sends
 *
 * `data.ts` makes the branded types: a `Data` is a well-formed object within the limits.
 */
import { Buffer } from "node:buffer";
import { CoordinateError } from "./errors.ts";

declare const json: unique symbol;
declare const cbor: unique symbol;

export type JsonText = string & { readonly [json]: true };
export type CborBytes = Uint8Array & { readonly [cbor]: true };
export type Data = JsonText | CborBytes;

/** A `Float` occurs only in data decoded with `precise`, or in values to be encoded. */
export type DataValue =
  null | boolean | number | bigint | string | Uint8Array | Float | Uuid | DataValue[] | DataObject;

/** Keys such as `__proto__` are own properties like any other. */
export interface DataObject {
  [key: string]: DataValue;
}

/** A number that is a float even if its value is integral: Python distinguishes 1.0 from 1. */
export class Float {
  readonly value: number;

  constructor(value: number) {
    this.value = value;
  }

  valueOf(): number {
    return this.value;
  }

  toString(): string {
    return String(this.value);
  }

  toJSON(): number {
    return this.value;
  }
}

/** A Python tuple. An array in every other respect. */
export class Tuple<Item = DataValue> extends Array<Item> {
  /** As Array.of, but items of different types need not be declared. */
  static override of<Items extends unknown[]>(...items: Items): Tuple<Items[number]> {
    const tuple = new Tuple<Items[number]>();
    for (const item of items) tuple.push(item);
    return tuple;
  }
}

const uuidText = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/i;

/** Any 16 bytes; variant and version are not checked, as in Python. */
export class Uuid {
  readonly bytes: Uint8Array;

  /** Copies the bytes. Throws `bad_data` when there are not 16 of them. */
  constructor(bytes: Uint8Array) {
    if (bytes.length !== 16) throw new CoordinateError("bad_data", `a UUID of ${bytes.length} bytes`);
    this.bytes = new Uint8Array(bytes);
  }

  /** From the usual text with four hyphens. Throws `bad_data` for any other. */
  static parse(text: string): Uuid {
    if (!uuidText.test(text)) throw new CoordinateError("bad_data", `not a UUID: ${text}`);
    return new Uuid(Buffer.from(text.replaceAll("-", ""), "hex"));
  }

  toString(): string {
    const hex = Buffer.from(this.bytes).toString("hex");
    return `${hex.slice(0, 8)}-${hex.slice(8, 12)}-${hex.slice(12, 16)}-${hex.slice(16, 20)}-${hex.slice(20)}`;
  }

  toJSON(): string {
    return this.toString();
  }
}
