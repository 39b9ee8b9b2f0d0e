/** Checks of what comes in from outside. Each throws a `CoordinateError` that names the field and what was given. */
import { dataByteLength, type Data } from "./data.ts";
import { describeValue } from "./describe-value.ts";
import { CoordinateError } from "./errors.ts";

/** The largest time that a JavaScript date can be. */
export const latestTime = 8.64e15;

const bad = (field: string, want: string, value: unknown): CoordinateError =>
  new CoordinateError("bad_argument", `${field}: expected ${want}, got ${describeValue(value)}`);

export function checkNumber(field: string, value: unknown, otherwise = 0): number {
  if (value === undefined) return otherwise;
  if (typeof value !== "number" || !Number.isFinite(value)) throw bad(field, "a finite number", value);
  return value;
}

/** Priorities are bounded so far out that adding to them again and again never makes one infinite. */
export function checkPriority(value: unknown): number {
  if (typeof value !== "number" || !(Math.abs(value) <= 1e100))
    throw bad("priority", "a finite number", value);
  return value;
}

export function checkBoolean(field: string, value: unknown): boolean {
  if (typeof value !== "boolean") throw bad(field, "a boolean", value);
  return value;
}

/** A count: an integer of `least` or more. */
export function checkCount(field: string, value: unknown, otherwise: number, min = 0): number {
  if (value === undefined) return otherwise;
  if (typeof value !== "number" || !Number.isSafeInteger(value) || value < min)
    throw bad(field, `an integer of ${min} or more`, value);
  return value;
}

/** A point in time, or the end of a span that starts now; 0 is none. */
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
  // whoever makes data by other means than `encodeData` and its kind is at least stopped where it is no object
  if (typeof value === "string" ? !/^\s*\{/.test(value) : value[0] === undefined || value[0] >> 5 !== 5)
    throw new CoordinateError("bad_data", `${field}: expected an object`);
  // three bytes a character is the most that UTF-8 takes for one of JavaScript's
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

/** Refuses fields that an object does not have: `rest` is what is left once the known ones are taken out. */
export function refuseOthers(field: string, rest: object): void {
  const [other] = Object.keys(rest);
  if (other !== undefined)
    throw new CoordinateError("bad_argument", `${field}.${other}: there is no such field`);
}
