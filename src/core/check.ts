/** Checks values from outside. Each check throws a `CoordinateError` that names the field and the value. */
import { dataByteLength, type Data } from "./data.ts";
import { describeValue } from "./describe-value.ts";
import { CoordinateError } from "./errors.ts";

/** The largest time that a JavaScript date can be. */
export const latestTime = 8.64e15;

/** The longest span that is accepted where it is not known yet when it begins: half the range of dates. */
export const longestSpanMs = latestTime / 2;

/** By how much the clock of a daemon may be ahead of others: a stored time that is ahead by more does not hold. */
export const longestSkewMs = 60_000;

const bad = (field: string, want: string, value: unknown): CoordinateError =>
  new CoordinateError("bad_argument", `${field}: expected ${want}, got ${describeValue(value)}`);

export function checkNumber(field: string, value: unknown): number {
  if (value === undefined) return 0;
  if (typeof value !== "number" || !Number.isFinite(value)) throw bad(field, "a finite number", value);
  return value;
}

/** The largest priority, weight and the like: bounded, so that sums, products and many adjustments of them are never infinite. */
export const largestNumber = 1e100;

export function checkPriority(value: unknown): number {
  if (typeof value !== "number" || !(Math.abs(value) <= largestNumber))
    throw bad("priority", "a finite number", value);
  return value;
}

export function checkBoolean(field: string, value: unknown): boolean {
  if (typeof value !== "boolean") throw bad(field, "a boolean", value);
  return value;
}

/** A count: an integer of `min` or more. */
export function checkCount(field: string, value: unknown, otherwise: number, min = 0): number {
  if (value === undefined) return otherwise;
  if (typeof value !== "number" || !Number.isSafeInteger(value) || value < min)
    throw bad(field, `an integer of ${min} or more`, value);
  return value;
}

/** A point in time; 0 is none. */
export function checkTime(field: string, value: unknown): number {
  if (value === undefined) return 0;
  if (typeof value !== "number" || !(value >= 0 && value <= latestTime))
    throw bad(field, "a time in milliseconds since 1970", value);
  return Math.round(value);
}

/** A span in milliseconds from `now`; spans below 0 are allowed only where they mean something. */
export function checkSpan(field: string, value: unknown, now: number, otherwise = 0, min = 0): number {
  if (value === undefined) return otherwise;
  if (typeof value !== "number" || !(value >= min && now + value <= latestTime))
    throw bad(field, min === 0 ? "milliseconds, 0 or more" : "milliseconds", value);
  return Math.round(value);
}

export function checkData(field: string, value: unknown, maxBytes: number): Data | null {
  if (value === undefined || value === null) return null;
  if (typeof value !== "string" && !(value instanceof Uint8Array))
    throw new CoordinateError(
      "bad_data",
      `${field}: expected encoded data (see encodeData), got ${describeValue(value)}`,
    );
  const data = value as Data;
  // data that was not made by `encodeData` and the like must at least look like an object
  if (typeof value === "string" ? !/^\s*\{/.test(value) : value[0] === undefined || value[0] >> 5 !== 5)
    throw new CoordinateError("bad_data", `${field}: expected an object`);
  // UTF-8 takes at most three bytes for each UTF-16 unit
  if (value.length * 3 > maxBytes && dataByteLength(data) > maxBytes)
    throw new CoordinateError("too_large", `${field}: ${dataByteLength(data)} bytes, at most ${maxBytes}`);
  return data;
}

export function checkOneOf<Value extends string>(
  field: string,
  value: unknown,
  allowed: readonly Value[],
): Value {
  const found = allowed.find((one) => one === value);
  if (found === undefined) throw bad(field, `one of ${allowed.join(", ")}`, value);
  return found;
}

export function checkList<Item>(field: string, items: readonly Item[], max: number): readonly Item[] {
  const value: unknown = items;
  if (!Array.isArray(value)) throw bad(field, "a list", value);
  if (items.length > max)
    throw new CoordinateError("too_large", `${field}: ${items.length} items, at most ${max}`);
  return items;
}

/** An object to read fields from; anything else would crash at the first field. */
export function checkObject<Value extends object>(field: string, given: Value): Value {
  const value: unknown = given;
  if (typeof value !== "object" || value === null) throw bad(field, "an object", value);
  return given;
}

export function checkText(field: string, value: unknown): string {
  if (typeof value !== "string") throw bad(field, "a string", value);
  return value;
}

/** Refuses unknown fields: `rest` is the object without its known fields. */
export function refuseOthers(field: string, rest: object): void {
  const [other] = Object.keys(rest);
  if (other !== undefined) throw new CoordinateError("bad_argument", `${field}.${other}: unknown field`);
}
