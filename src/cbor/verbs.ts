/**
 * The verbs of Coordinate beside the Python methods: `coordinate.requestAttempts` and so on, with the arguments of the
 * verb as parameters. Values are what they are; objects are maps with text keys; names that are not UTF-8 are byte
 * strings; a member called `data` is a data dictionary, as text when it is JSON and as bytes when it is CBOR.
 *
 * What comes in is decoded here and its types are checked by field, because a field has one type wherever it occurs;
 * what the values mean is checked by the engine.
 */
import {
  cborData,
  CoordinateError,
  jsonData,
  type Coordinate,
  type Data,
  type DataLimits,
} from "../core/index.ts";
import type { Item } from "./item.ts";
import { badArgument } from "./scan.ts";
import type { Writer } from "./write.ts";

export type Verb = Exclude<keyof Coordinate, "close">;

export interface VerbRow {
  /** Fewest and most arguments. */
  readonly args: readonly [least: number, most: number];
  /**
   * `same`: doing it twice is doing it once. `id`: it is when both carry one request id. `never`: the second would
   * do more, or answer something else.
   */
  readonly repeat: "same" | "id" | "never";
  /** Which argument may say `waitMs`. */
  readonly waits?: number;
  /** What the arguments must be, where the engine does not look before it reads from them. */
  readonly kinds: readonly ArgumentKind[];
}

type ArgumentKind = "any" | "object" | "ref" | "refs";

const row = (least: number, most: number, repeat: VerbRow["repeat"], ...kinds: ArgumentKind[]): VerbRow => ({
  args: [least, most],
  repeat,
  kinds: ["any", ...kinds],
});

export const verbs: Readonly<Record<Verb, VerbRow>> = {
  listNamespaces: row(0, 0, "same"),
  getNamespace: row(1, 1, "same"),
  setNamespace: row(2, 2, "same", "object"),
  deleteNamespace: row(1, 1, "same"),

  setWorkSpecs: row(2, 3, "same", "any", "object"),
  getWorkSpecs: row(2, 2, "same", "refs"),
  listWorkSpecs: row(1, 2, "same", "object"),
  setWorkSpecMeta: row(3, 3, "same", "ref", "object"),
  deleteWorkSpecs: row(2, 2, "never", "refs"),

  addWorkUnits: row(3, 4, "id", "ref", "any", "object"),
  getWorkUnits: row(3, 3, "same", "ref"),
  listWorkUnits: row(2, 3, "same", "ref", "object"),
  countWorkUnits: row(3, 3, "same", "ref", "object"),
  awaitWorkUnits: { ...row(3, 4, "same", "ref", "any", "object"), waits: 3 },
  setWorkUnitPriorities: row(4, 4, "never", "ref", "object", "object"),
  setWorkUnitDelays: row(4, 4, "same", "ref", "object"),
  resetWorkUnits: row(3, 3, "never", "ref", "object"),
  deleteWorkUnits: row(3, 3, "never", "ref", "object"),

  requestAttempts: { ...row(2, 2, "id", "object"), waits: 1 },
  makeAttempts: row(2, 2, "never"),
  settleAttempts: row(2, 2, "same"),
  getAttempts: row(2, 2, "same"),
  listUnitAttempts: row(3, 3, "same", "ref"),
  listWorkerAttempts: row(3, 3, "same", "any", "object"),

  updateWorkers: row(2, 2, "same"),
  getWorkers: row(2, 2, "same"),
  listWorkers: row(1, 2, "same", "object"),

  takeMessages: { ...row(2, 3, "id", "any", "object"), waits: 2 },
  countMessages: row(2, 2, "same"),
  listQueues: row(1, 2, "same", "object"),
  clearQueue: row(2, 2, "never"),

  putActions: row(2, 2, "same"),
  getActions: row(2, 2, "same"),
  listActions: row(1, 2, "same", "object"),
  deleteActions: row(2, 2, "never"),

  tally: row(0, 1, "same"),
  waitingSince: row(0, 1, "same"),
  explain: row(2, 2, "same", "object"),

  lock: row(2, 2, "never", "object"),
  lockSome: row(2, 2, "never", "object"),
  renewLocks: row(2, 2, "same", "object"),
  unlock: row(2, 2, "never", "object"),
  readLocks: row(2, 2, "same"),
  clearLocks: row(2, 2, "same"),
};

export const verbPrefix = "coordinate.";
/** Ends the wait of an earlier request of the same connection: its only parameter is that request's id. */
export const cancelMethod = "coordinate.cancel";

/** Objects and lists inside one another; no argument of a verb is deeper than six. */
const deepest = 16;

/** Throws `bad_argument` for an argument that the engine would stumble over. */
export function checkArguments(verb: Verb, args: readonly unknown[]): void {
  args.forEach((value, i) => {
    const kind = verbs[verb].kinds[i] ?? "any";
    if (kind === "object" && !isObject(value)) throw badArgument(`argument ${i + 1}: expected an object`);
    if (kind === "ref") checkRef(value);
    if (kind === "refs" && Array.isArray(value)) value.forEach(checkRef);
  });
}

/** Whether the call may take as long as it says. */
export function isWait(verb: Verb, args: readonly unknown[]): boolean {
  const { waits } = verbs[verb];
  const given = waits === undefined ? null : (args[waits] as { waitMs?: unknown } | null | undefined);
  return typeof given?.waitMs === "number" && given.waitMs > 0;
}

const isObject = (value: unknown): boolean =>
  typeof value === "object" && value !== null && !Array.isArray(value);

function checkRef(value: unknown): void {
  if (value === null) throw new CoordinateError("bad_name", "of a work spec: not a string but null");
}

type FieldKind = "string" | "number" | "boolean" | "list" | "objects" | "nullable string";

/** Fields that stores read as they are given; the engine checks all others itself. */
const fieldKinds: ReadonlyMap<string, FieldKind> = new Map<string, FieldKind>([
  ["prefix", "string"],
  ["previous", "string"],
  ["active", "boolean"],
  ["root", "boolean"],
  ["all", "boolean"],
  ["keepMeta", "boolean"],
  ["parent", "nullable string"],
  ["id", "number"],
  ["names", "list"],
  ["statuses", "list"],
  ["dependencies", "objects"],
]);

/** How values are read: what came from a client is checked, what came from the server is believed. */
export class Reading {
  readonly limits: DataLimits;
  readonly checked: boolean;
  /** A JavaScript value costs many times the byte that it may come in: a short request must not become a long list. */
  #left: number;

  constructor(limits: DataLimits, frameBytes: number | null) {
    this.limits = limits;
    this.checked = frameBytes !== null;
    this.#left = frameBytes === null ? Infinity : 1_000_000 + frameBytes / 8;
  }

  spend(weight: number): void {
    this.#left -= weight;
    if (this.#left < 0) throw new CoordinateError("too_large", "more values than one request may have");
  }
}

/** A value as JavaScript has it. */
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
      throw badArgument("a value that no verb takes");
  }
}

function readList(item: Item, reading: Reading, depthLeft: number): unknown[] {
  const values: unknown[] = [];
  for (const one of item.items()) values.push(readValue(one, reading, depthLeft));
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
    const value = key === "data" ? readData(one, reading.limits) : readValue(one, reading, depthLeft);
    if (reading.checked) checkField(key, value);
    // `__proto__` is a key like any other, and never the object's prototype
    if (key === "__proto__")
      Object.defineProperty(object, key, { value, enumerable: true, configurable: true });
    else object[key] = value;
    key = null;
  }
  return object;
}

const fieldFits: Readonly<Record<FieldKind, (value: unknown) => boolean>> = {
  string: (value) => typeof value === "string",
  number: (value) => typeof value === "number",
  boolean: (value) => typeof value === "boolean",
  list: Array.isArray,
  objects: (value) => Array.isArray(value) && value.every(isObject),
  "nullable string": (value) => value === null || typeof value === "string",
};

/** A field that is null is given all the same: only `parent` may be. */
function checkField(key: string, value: unknown): void {
  const kind = fieldKinds.get(key);
  if (kind === undefined) return;
  const fits = fieldFits[kind](value);
  if (!fits) throw badArgument(`${key}: expected ${kind}`);
}

function readData(item: Item, limits: DataLimits): Data | null {
  if (item.isNull) return null;
  if (item.kind !== "string") throw new CoordinateError("bad_data", "data: expected JSON text or CBOR bytes");
  return item.isBytes
    ? cborData(new Uint8Array(item.content()), limits)
    : jsonData(item.text("data"), limits);
}

/** Writes a value; members of undefined value are left out. */
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
      throw badArgument(`a ${typeof value} has no form`);
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
