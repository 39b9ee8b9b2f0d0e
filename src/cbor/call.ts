/** The input and the result of a method, and the few shapes that all results have. */
import {
  CoordinateError,
  isCoordinateError,
  type Caller,
  type Clock,
  type Coordinate,
  type Data,
  type DataLimits,
} from "../core/index.ts";
import type { Fencing } from "./fencing.ts";
import type { Item } from "./item.ts";
import { badArgument } from "./scan.ts";
import type { Writer } from "./write.ts";

/** A refusal with the error message of the old daemons. */
export class RpcError extends Error {
  override readonly name = "RpcError";
}

export interface Call {
  readonly coordinate: Coordinate;
  /** The old protocol has no namespaces: all its calls use this one. */
  readonly ns: string;
  readonly clock: Clock;
  /** The attempts that this connection was given. */
  readonly fencing: Fencing;
  /** Aborts when the peer has disconnected and cannot get the answer. */
  readonly gone: AbortSignal;
  readonly settings: MethodSettings;
}

/** The caller of a method. Methods never wait. */
export const callerOf = ({ gone }: Call): Caller => ({
  waiting: () => gone,
  turn: () => undefined,
  hasHungUp: () => gone.aborted,
  isStopping: () => false,
});

interface MethodSettings {
  readonly dataLimits: DataLimits;
  /** The maximum number of items in one call of a verb; longer lists of units are added in pieces. */
  readonly maxItems: number;
  /** The maximum size of an answer. */
  readonly maxAnswerBytes: number;
  /** The answer of `get_config`; null when there is none. */
  readonly config: Data | null;
  readonly archive: (() => Promise<unknown>) | null;
}

/** Writes the `result` of an answer. Runs after the call has succeeded, and fails only if the answer is too large. */
export type Result = (to: Writer) => unknown;

export interface Method {
  /** The minimum and maximum number of parameters. */
  readonly params: readonly [min: number, max: number];
  readonly run: (call: Call, params: readonly Item[]) => Promise<Result>;
}

export function method(min: number, max: number, run: Method["run"]): Method {
  return { params: [min, max], run };
}

/** `[result, message]`; the message is null on success. */
export function pair(result: Result, message: string | null = null): Result {
  return (to) => {
    to.array(2);
    result(to);
    if (message === null) to.null();
    else to.text(message);
  };
}

export const nothing: Result = (to) => to.null();
export const yes: Result = pair((to) => to.boolean(true));
export const no = (message: string | null = null): Result => pair((to) => to.boolean(false), message);
export const number =
  (value: number): Result =>
  (to) =>
    to.number(value);
export const emptyList: Result = (to) => to.array(0);

/** Answers a missing work spec in band: a pair of `otherwise` and the error message. */
export async function inBand(otherwise: Result, run: () => Promise<Result>): Promise<Result> {
  try {
    return await run();
  } catch (error) {
    if (isCoordinateError(error, "no_such_work_spec", "gone")) return pair(otherwise, error.message);
    throw error;
  }
}

/** Reads the name of a work spec. No work spec has an empty name. */
export function specName(item: Item | undefined): string {
  const name = item?.text("work spec name") ?? "";
  if (name === "") throw new CoordinateError("no_such_work_spec", name);
  return name;
}

/** Reads a name that may be absent or null, which is the empty name. */
export function optionalName(item: Item | undefined, what: string): string {
  return item === undefined || item.isNull ? "" : item.text(what);
}

/** More than any method has. The limit is needed because each lookup of a key goes through all options. */
const maxOptions = 100;

/** An options map: unknown keys are ignored, null counts as absent, and null in place of the map as an empty one. */
export class Options {
  readonly #map: Item | null;

  constructor(item: Item | undefined) {
    if (item !== undefined && !item.isNull && item.kind !== "map")
      throw badArgument(`options: expected a map, got ${item.describe()}`);
    this.#map = item === undefined || item.isNull ? null : item;
    if (this.#map !== null && this.#map.isLongerThan(maxOptions))
      throw new CoordinateError("too_large", `more than ${maxOptions} options`);
    if (this.#map !== null) checkRepeated(this.#map);
  }

  /** The number of options, known or not. */
  get size(): number {
    return this.#map === null ? 0 : this.#map.some(2 * maxOptions).length / 2;
  }

  get(key: string): Item | undefined {
    return this.#map?.get(key);
  }

  text(key: string): string | undefined {
    return this.get(key)?.text(key);
  }

  boolean(key: string): boolean | undefined {
    return this.get(key)?.boolean(key);
  }

  /** A finite number. */
  number(key: string): number | undefined {
    const item = this.get(key);
    return item === undefined ? undefined : finite(item, key);
  }

  /** An integer, truncated as by Python's int(). */
  integer(key: string): number | undefined {
    const value = this.number(key);
    return value === undefined ? undefined : Math.trunc(value);
  }

  names(key: string, max: number): string[] | undefined {
    const item = this.get(key);
    return item === undefined ? undefined : names(item, key, max);
  }
}

/**
 * Refuses repeated keys, so that a filter in front of the server cannot have checked another value than the one that is used.
 * Text and bytes are the same key here.
 */
function checkRepeated(map: Item): void {
  const seen = new Set<string>();
  let isKey = true;
  map.each((item) => {
    if (isKey && item.kind === "string") {
      const key = item.content().toString("latin1");
      if (seen.has(key)) throw badArgument(`options: repeated key ${key.slice(0, 100)}`);
      seen.add(key);
    }
    isKey = !isKey;
    return true;
  });
}

export function finite(item: Item, what: string): number {
  const value = item.number(what);
  if (!Number.isFinite(value)) throw badArgument(`${what}: expected a finite number, got ${value}`);
  return value;
}

/** A list or tuple of names, text or bytes. */
export function names(item: Item | undefined, what: string, max: number): string[] {
  const found: string[] = [];
  for (const one of list(item, what)) {
    if (found.length === max) throw new CoordinateError("too_large", `${what}: more than ${max} items`);
    found.push(one.text(what));
  }
  return found;
}

export function list(item: Item | undefined, what: string): Generator<Item> {
  if (item?.kind !== "list")
    throw badArgument(`${what}: expected a list, got ${item === undefined ? "nothing" : item.describe()}`);
  return item.items();
}

/** Whole Unix seconds, as the old daemons sent them. */
export const unixSeconds = (ms: number): number => Math.floor(ms / 1000);

/** A string as Python's repr() shows it. */
export function repr(text: string): string {
  const escaped = text
    .replace(/[\\']/g, "\\$&")
    .replace(/[\udc80-\udcff]/g, (unit) => "\\x" + (unit.charCodeAt(0) - 0xdc00).toString(16));
  return `'${escaped}'`;
}
