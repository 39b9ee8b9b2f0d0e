/**
 * Reads units from CSV, one per record. Columns are found by their names in the first record, or by number if there is no such
 * record; a mapping tells what each column is used for.
 */
import { Readable } from "node:stream";
import { crc32 } from "node:zlib";
import { CsvError, parse, type Info } from "csv-parse";
import { checkName, CoordinateError, encodeData, jsonData, type WorkUnitInput } from "../core/index.ts";
import { didYouMean, setOwn } from "../config/index.ts";
import { BulkError } from "./bulk-error.ts";
import type { Entries, Entry } from "./entry.ts";

export interface CsvOptions {
  /** A comma when absent. */
  delimiter?: string;
  /** Whether the first record names the columns; true when absent. */
  header?: boolean;
  /**
   * What the columns are used for; see `readMapping`. When absent: `name` (or `key`), `priority`, `delay`, `deadline`, `expires` and
   * `partition` are fields of the unit, and the rest is data.
   */
  mapping?: readonly ColumnMapping[];
}

const types = ["text", "number", "boolean", "json"] as const;
type ColumnType = (typeof types)[number];

const numbers = ["priority", "delay", "deadline", "expires"] as const;
type NumberTarget = (typeof numbers)[number];
const fieldTargets: readonly string[] = ["name", ...numbers, "partition"];
const isField = (target: string): boolean => fieldTargets.includes(target);

/** What a column may be used for, for messages. */
export const columnTargets = `${fieldTargets.join(", ")} or data.KEY`;

export interface ColumnMapping {
  /** One of `columnTargets`. */
  target: string;
  /** The name of a column, or its number from 1. */
  column: string;
  type: ColumnType;
}

/** Parses `data.size=bytes:number`: the target, the column, and its type; text when absent. */
export function readMapping(text: string): ColumnMapping {
  const [, target = "", column = "", type = "text"] =
    /^([^=]+)=(.+?)(?::(text|number|boolean|json))?$/.exec(text) ?? [];
  if (!isField(target) && !/^data\../s.test(target))
    throw new BulkError(
      `${text}: expected TARGET=COLUMN[:TYPE], where the target is ${columnTargets} and the type is one of ${types.join(", ")}`,
    );
  return { target, column, type: type as ColumnType };
}

interface Field {
  readonly index: number;
  readonly column: string;
  readonly target: string;
  readonly type: ColumnType;
}

interface Parsed {
  info: Info;
  record: string[];
}

export async function* csv(name: string, chunks: AsyncIterable<Buffer>, options: CsvOptions = {}): Entries {
  const { delimiter = ",", header = true } = options;
  const parser = parse({
    delimiter,
    bom: true,
    info: true,
    skip_empty_lines: true,
    relax_column_count: true,
    max_record_size: 64 * 1024 * 1024,
  });
  const input = Readable.from(chunks);
  input.once("error", (error) => parser.destroy(error));
  input.pipe(parser);
  let fields: readonly Field[] | null = null;
  let width = 0;
  let checksum = 0;
  let entries: Entry[] = [];
  let lines = 0;
  let position = 0;
  try {
    for await (const parsed of parser) {
      const { record, info } = parsed as Parsed;
      // the parser reports where a record ends; it begins on the line after the record before it
      const line = lines + 1;
      lines = info.lines;
      if (fields === null) {
        width = record.length;
        fields = fieldsOf(name, header ? record : record.map((_, i) => String(i + 1)), options);
        if (header) continue;
      }
      const text = record.join("\u0000");
      checksum = crc32(text, checksum);
      entries.push(
        entryOf(record, fields, width, { line, position: (position += 1), size: text.length, checksum }),
      );
      if (entries.length < 500) continue;
      yield entries;
      entries = [];
    }
  } catch (error) {
    if (entries.length > 0) yield entries;
    entries = [];
    if (!(error instanceof CsvError)) throw error;
    throw new BulkError(`${name}:${lines + 1}: ${error.message}`);
  } finally {
    input.destroy();
  }
  if (entries.length > 0) yield entries;
}

function fieldsOf(name: string, columns: readonly string[], { mapping }: CsvOptions): Field[] {
  const find = (column: string): number =>
    columns.includes(column) ? columns.indexOf(column) : /^\d+$/.test(column) ? Number(column) - 1 : -1;
  const fields: Field[] =
    mapping === undefined
      ? columns.map((column, index) => ({
          index,
          column,
          type: "text",
          target: usualTarget(column, index, columns),
        }))
      : mapping.map(({ column, target, type }) => {
          const index = find(column);
          if (columns.lastIndexOf(column) > index)
            throw new BulkError(`${name}: two columns are called ${column}; use the number of one`);
          if (index < 0 || index >= columns.length)
            throw new BulkError(`${name}: no such column ${column}${didYouMean(column, columns)}`);
          return { index, column, target, type };
        });
  // spreadsheets write empty columns without a name
  const targets = fields.map(({ target }) => target).filter((target) => target !== "data.");
  const twice = targets.find((target, i) => targets.indexOf(target) < i);
  if (twice !== undefined)
    throw new BulkError(
      `${name}: two columns for ${twice}; choose the columns with --column TARGET=COLUMN, by name or number`,
    );
  if (!fields.some(({ target }) => target === "name"))
    throw new BulkError(
      `${name}: no column for the name; choose one of ${columns.slice(0, 20).join(", ")} with --column name=COLUMN`,
    );
  return fields;
}

function usualTarget(column: string, index: number, columns: readonly string[]): string {
  const isNumbered = columns.every((one, i) => one === String(i + 1));
  if (isNumbered) return index === 0 ? "name" : `data.${column}`;
  if (isField(column)) return column;
  return column === "key" && !columns.includes("name") ? "name" : `data.${column}`;
}

function entryOf(
  record: readonly string[],
  fields: readonly Field[],
  width: number,
  at: Omit<Entry, "units" | "problem">,
): Entry {
  try {
    if (record.length !== width)
      throw new CoordinateError(
        "bad_data",
        `expected ${width} columns as in the first record, got ${record.length}`,
      );
    return { ...at, units: [unitOf(record, fields)], problem: "" };
  } catch (error) {
    if (!(error instanceof CoordinateError)) throw error;
    return { ...at, units: [], problem: error.value === "" ? error.message : error.value };
  }
}

function unitOf(record: readonly string[], fields: readonly Field[]): WorkUnitInput {
  const unit: WorkUnitInput = { name: "" };
  const data: Record<string, unknown> = {};
  let hasData = false;
  for (const { index, column, target, type } of fields) {
    const text = record[index] ?? "";
    if (target === "name") {
      if (text === "") throw new CoordinateError("bad_data", `${column}: the name of the unit is empty`);
      unit.name = checkName("work unit", text);
    } else if (isNumber(target)) {
      if (text === "") continue;
      setNumber(unit, target, Number(valueOf(text, "number", column)));
    } else if (target === "partition") unit.partition = checkName("partition", text);
    else {
      hasData = true;
      setOwn(data, target.slice("data.".length), valueOf(text, type, column));
    }
  }
  return hasData ? { ...unit, data: encodeData(data) } : unit;
}

export const isNumber = (target: string): target is NumberTarget =>
  (numbers as readonly string[]).includes(target);

/** Sets the priority, or a time in seconds from now. */
export function setNumber(unit: WorkUnitInput, target: NumberTarget, number: number): void {
  if (target === "priority") unit.priority = number;
  else unit[`${target}Ms`] = number * 1000;
}

/** An empty field of any type but text is null. */
function valueOf(text: string, type: ColumnType, column: string): unknown {
  const bad = (): never => {
    const shown = JSON.stringify(text.length > 40 ? `${text.slice(0, 40)}…` : text);
    throw new CoordinateError(
      "bad_data",
      `${column}: expected ${type === "json" ? "JSON" : `a ${type}`}, got ${shown}`,
    );
  };
  if (type === "text") return text;
  if (text.trim() === "") return null;
  switch (type) {
    case "number": {
      const number = Number(text);
      return Number.isFinite(number) ? number : bad();
    }
    case "boolean":
      if (/^(true|yes|1)$/i.test(text.trim())) return true;
      return /^(false|no|0)$/i.test(text.trim()) ? false : bad();
    case "json":
      try {
        // `jsonData` also checks the depth
        jsonData(`{"_":${text}}`);
        return JSON.parse(text);
      } catch {
        return bad();
      }
  }
}
