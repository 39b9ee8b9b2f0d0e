/**
 * Work units as people and programs write them, a line of JSON each. One line may hold
 *
 *   {"name": "a", "data": {…}, "priority": 5, "delay": 60}   one unit; `delay`, `deadline` and `expires` are seconds from now;
 *                                                            `setField` has the other fields
 *   {"a": {…}, "b": {…}}                                     several, by name, as the Python tool takes them
 *   ["a", {…}, {"priority": 5, "delay": 60}]                 one unit, in the form of a job's output, with any of these fields
 *   "a"                                                      one unit without data
 *   ["a", "b"] or a list of any of these                     several
 *
 * Data keeps the text of the line: 1.0 stays 1.0, and keys keep their order.
 */
import { describeValue } from "./describe-value.ts";
import { jsonData, type Data, type DataLimits } from "./data.ts";
import { CoordinateError } from "./errors.ts";
import { checkName } from "./names.ts";
import {
  rawData,
  rawEntries,
  rawItems,
  rawKind,
  rawNumber,
  rawText,
  type RawKind,
  type RawValue,
} from "./raw-value.ts";
import type { DependencyInput, WorkUnitInput } from "./work-unit.ts";

/** The units of one line. Throws `bad_data` or `bad_argument`, without the number of the line, which only the caller knows. */
export function readUnitLine(text: string, limits?: DataLimits): WorkUnitInput[] {
  const line = text.trim();
  if (line.startsWith("{")) return readObject({ data: jsonData(line, limits), start: 0, end: line.length });
  if (!/^["[]/.test(line))
    throw bad(`expected an object, a list or a name in quotes, got ${describeValue(line)}`);
  const data = inObject(line, limits);
  for (const { value } of rawEntries({ data, start: 0, end: data.length })) return readAny(value, true);
  return [];
}

/** Data must be an object: other values are wrapped in one, and positions in errors are corrected. */
function inObject(line: string, limits: DataLimits | undefined): Data {
  const before = '{"_":';
  try {
    return jsonData(`${before}${line}}`, limits);
  } catch (error) {
    if (!(error instanceof CoordinateError) || error.code !== "bad_data") throw error;
    const value = error.value.replace(/(?<=character )\d+/, (at) =>
      String(Math.min(line.length, Number(at) - before.length)),
    );
    throw new CoordinateError("bad_data", value);
  }
}

function readAny(value: RawValue, top: boolean): WorkUnitInput[] {
  switch (rawKind(value)) {
    case "string":
      return [{ name: nameOf(value) }];
    case "object":
      return readObject(value);
    case "array":
      return readArray(value, top);
    default:
      throw bad(`expected an object, a list or a name, got ${shown(value)}`);
  }
}

function readObject(value: RawValue): WorkUnitInput[] {
  const entries = [...rawEntries(value)];
  const name = entries.findLast(({ key }) => key === "name")?.value;
  if (name !== undefined && rawKind(name) === "string") return [readFields(entries)];
  return entries.map(({ key, value: data }) => {
    const kind = rawKind(data);
    if (kind !== "object" && kind !== "null") {
      const hint = entries.some(({ key: one }) => one === "data") ? "; is the name missing?" : "";
      throw bad(`${JSON.stringify(cut(key))}: expected the data of a unit, got ${shown(data)}${hint}`);
    }
    return { name: checkName("work unit", key), data: rawData(data) };
  });
}

function readFields(entries: readonly { key: string; value: RawValue }[]): WorkUnitInput {
  const unit: WorkUnitInput = { name: "" };
  for (const { key, value } of entries) {
    if (key === "name") unit.name = nameOf(value);
    else if (rawKind(value) === "null") continue;
    else if (key === "data") unit.data = rawData(value) ?? wrong(key, "an object", value);
    else setField(unit, key, value);
  }
  return unit;
}

/** Sets a field besides name and data. */
function setField(unit: WorkUnitInput, key: string, value: RawValue): void {
  if (key === "priority" || key === "delayMs" || key === "notBefore" || key === "maxRetries")
    unit[key] = numberOf(key, value);
  else if (key === "delay" || key === "deadline" || key === "expires")
    unit[`${key}Ms`] = numberOf(key, value) * 1000;
  else if (key === "dependencies") unit.dependencies = dependenciesOf(value);
  else if (key === "partition" || key === "batch")
    unit[key] = rawText(value) ?? wrong(key, "a string", value);
  else if (key === "labels" || key === "queues") unit[key] = textsOf(key, value);
  else throw bad(`${JSON.stringify(cut(key))}: unknown field of a work unit; put your own keys into data`);
}

const textsOf = (key: string, value: RawValue): string[] =>
  rawKind(value) === "array"
    ? [...rawItems(value)].map((item) => rawText(item) ?? wrong(key, "strings", item))
    : wrong(key, "a list of strings", value);

function readArray(value: RawValue, top: boolean): WorkUnitInput[] {
  const items = [...rawItems(value)];
  const kinds = items.map(rawKind);
  const isOne = (at: number, ...allowed: RawKind[]): boolean => {
    const kind = kinds[at];
    return kind === undefined || kind === "null" || allowed.includes(kind);
  };
  const single = kinds[0] === "string" && isOne(1, "object") && isOne(2, "object") && isOne(3, "number");
  if (single && items.length <= 4) return [readTuple(items)];
  if (!top) throw bad("a list in a list: expected [name, data, metadata, priority]");
  return items.flatMap((item) => readAny(item, false));
}

function readTuple([name, data, metadata, priority]: readonly RawValue[]): WorkUnitInput {
  const unit: WorkUnitInput = { name: name === undefined ? "" : nameOf(name) };
  if (data !== undefined && rawKind(data) === "object") unit.data = rawData(data);
  if (metadata !== undefined && rawKind(metadata) === "object")
    for (const { key, value } of rawEntries(metadata))
      if (rawKind(value) !== "null") setField(unit, key, value);
  if (priority !== undefined && rawKind(priority) === "number")
    unit.priority = numberOf("priority", priority);
  return unit;
}

function dependenciesOf(value: RawValue): DependencyInput[] {
  if (rawKind(value) !== "array") return wrong("dependencies", "a list", value);
  return [...rawItems(value)].map((item) => {
    if (rawKind(item) === "string") return { workUnit: nameOf(item) };
    if (rawKind(item) !== "object") return wrong("dependencies", "names or objects", item);
    const fields = new Map([...rawEntries(item)].map(({ key, value: field }) => [key, rawText(field)]));
    const workUnit = fields.get("workUnit") ?? null;
    const kind = fields.get("kind") ?? "hard";
    const workSpec = fields.get("workSpec") ?? null;
    if (workUnit === null) throw bad("dependencies: expected workUnit");
    if (kind !== "hard" && kind !== "soft")
      throw bad(`dependencies: kind: expected hard or soft, got ${kind}`);
    return { workUnit, kind, ...(workSpec !== null && { workSpec }) };
  });
}

function nameOf(value: RawValue): string {
  return checkName("work unit", rawText(value) ?? wrong("name", "a string", value));
}

function numberOf(key: string, value: RawValue): number {
  const number = rawNumber(value) ?? wrong(key, "a number", value);
  return Number.isFinite(number) ? number : wrong(key, "a finite number", value);
}

function wrong(key: string, expected: string, value: RawValue): never {
  throw bad(`${key}: expected ${expected}, got ${shown(value)}`);
}

const bad = (message: string): CoordinateError => new CoordinateError("bad_argument", message);

const cut = (text: string): string => (text.length > 40 ? `${text.slice(0, 40)}…` : text);

function shown(value: RawValue): string {
  const kind = rawKind(value);
  if (kind === "object") return "an object";
  if (kind === "array") return "a list";
  const { data, start, end } = value;
  return typeof data === "string" && end - start < 1000
    ? describeValue(JSON.parse(data.slice(start, end)))
    : `a ${kind}`;
}
