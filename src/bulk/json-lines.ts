/** Lines of JSON, and plain lines that are names. Empty lines are skipped; so are comments (`#`) in lines of JSON. */
import { crc32 } from "node:zlib";
import {
  checkName,
  CoordinateError,
  decodeData,
  describeValue,
  encodeData,
  Float,
  isCoordinateError,
  jsonData,
  longestLine,
  readLines,
  readUnitLine,
  type DataLimits,
  type Line,
  type WorkUnitInput,
} from "../core/index.ts";
import { setOwn } from "../config/index.ts";
import { isNumber, setNumber, type ColumnMapping } from "./csv.ts";
import type { Entries, Entry } from "./entry.ts";

type Read = (text: string, line: Line) => WorkUnitInput[];

export interface LineOptions {
  /** The maximum length in bytes; a longer line is bad. */
  longest?: number;
  /** The last line that was already loaded: lines before it are not parsed, and its entry has no units. */
  from?: number;
}

async function* entriesOf(chunks: AsyncIterable<Buffer>, read: Read, options: LineOptions): Entries {
  const { longest = longestLine, from = 0 } = options;
  let checksum = 0;
  for await (const lines of readLines(chunks, longest)) {
    const entries: Entry[] = [];
    for (const line of lines) {
      const { text, number } = line;
      checksum = crc32(text, checksum);
      if (number < from) continue;
      const entry = { line: number, position: number, units: [], size: text.length, checksum, problem: "" };
      if (number === from) {
        entries.push(entry);
        continue;
      }
      try {
        if (line.tooLong) throw new CoordinateError("too_large", `the line is longer than ${longest} bytes`);
        const units = read(text, line);
        if (units.length > 0) entries.push({ ...entry, units });
      } catch (error) {
        if (!(error instanceof CoordinateError)) throw error;
        entries.push({ ...entry, problem: error.value === "" ? error.message : error.value });
      }
    }
    if (entries.length > 0) yield entries;
  }
}

/** The fields of a unit besides its name. */
const fields: ReadonlySet<string> = new Set([
  "data",
  "priority",
  "delay",
  "delayMs",
  "notBefore",
  "dependencies",
  "partition",
  "deadline",
  "expires",
  "labels",
  "queues",
  "batch",
  "maxRetries",
]);

const nameless =
  'the unit has no name: add "name" beside "data", or use --column name=KEY if another key is the name';

export const jsonLines = (
  chunks: AsyncIterable<Buffer>,
  options: LineOptions & { mapping?: readonly ColumnMapping[] } = {},
): Entries =>
  entriesOf(
    chunks,
    (text, { isText }) => {
      const first = /\S/.exec(text)?.[0];
      if (first === undefined || first === "#") return [];
      if (!isText) throw new CoordinateError("bad_data", "not valid UTF-8");
      const limits = { maxBytes: options.longest ?? longestLine };
      if (options.mapping !== undefined) return [readRecord(text, options.mapping, limits)];
      return withNames(text, first, limits);
    },
    options,
  );

/** Reads the units of a line. Refuses an object without a name, whose fields would be taken for the names of units. */
function withNames(text: string, first: string, limits: DataLimits): WorkUnitInput[] {
  let units: WorkUnitInput[];
  try {
    units = readUnitLine(text, limits);
  } catch (error) {
    // other codes are about the text of the line, or about a name
    if (isCoordinateError(error, "bad_argument") && first === "{" && isRecord(text, limits))
      throw new CoordinateError("bad_data", `${error.value}; ${nameless}`);
    throw error;
  }
  const isFields = first === "{" && units.some(({ name }) => name === "data");
  if (isFields && units.every(({ name }) => fields.has(name)))
    throw new CoordinateError("bad_data", `${nameless}; write a unit called data as ["data", {…}]`);
  return units;
}

/** Whether an object has neither a name nor the data of a unit: its name is under another key. */
function isRecord(text: string, limits: DataLimits): boolean {
  const object = decodeData(jsonData(text.trim(), limits));
  return typeof object.name !== "string" && !Object.values(object).some(isObject);
}

const isObject = (value: unknown): boolean =>
  typeof value === "object" && value !== null && !Array.isArray(value);

/**
 * Reads an object as a record: the mapping tells which key is the name. Without a `data.KEY` in the mapping, the whole object
 * is the data.
 */
function readRecord(text: string, mapping: readonly ColumnMapping[], limits: DataLimits): WorkUnitInput {
  const whole = jsonData(text.trim(), limits);
  const record = decodeData(whole, { precise: true });
  const unit: WorkUnitInput = { name: "" };
  const data: Record<string, unknown> = {};
  for (const { target, column } of mapping) {
    const value = Object.hasOwn(record, column) ? record[column] : null;
    if (target === "name") unit.name = nameOf(column, value);
    else if (isNumber(target)) {
      if (value === null || value === undefined) continue;
      const number = Number(value);
      if (!Number.isFinite(number))
        throw new CoordinateError("bad_data", `${column}: expected a number, got ${describeValue(value)}`);
      setNumber(unit, target, number);
    } else if (target === "partition") {
      if (value !== null && value !== undefined)
        unit.partition = checkName("partition", nameOf(column, value));
    } else setOwn(data, target.slice("data.".length), value);
  }
  const mapsData = mapping.some(({ target }) => target.startsWith("data."));
  return { ...unit, data: mapsData ? encodeData(data) : whole };
}

function nameOf(column: string, value: unknown): string {
  const isName = typeof value === "number" || typeof value === "bigint" || value instanceof Float;
  if (isName) return String(value instanceof Float ? value.value : value);
  if (typeof value === "string" && value !== "") return checkName("work unit", value);
  throw new CoordinateError(
    "bad_data",
    `${column}: expected the name of the unit, got ${describeValue(value)}`,
  );
}

/** Every line is a name, byte for byte. */
export const plainLines = (chunks: AsyncIterable<Buffer>, options: LineOptions = {}): Entries =>
  entriesOf(
    chunks,
    (text) => {
      if (text === "") return [];
      if (text.trim() === "")
        throw new CoordinateError("bad_data", "the name is empty: the line has only white space");
      return [{ name: checkName("work unit", text) }];
    },
    options,
  );
