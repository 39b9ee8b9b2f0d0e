/**
 * Chaining: reads the work units that the `output` of a finished one asks for.
 *
 * `output` is an object from name to data, or a list whose entries are names or lists of name, data, metadata and
 * priority; tuples are lists. An entry that cannot be read is skipped and reported, and the rest is created: a worker
 * that got one of a thousand outputs wrong has still done its work.
 */
import { longestSpanMs } from "./check.ts";
import type { Data } from "./data-value.ts";
import { isCoordinateError } from "./errors.ts";
import { checkName } from "./names.ts";
import {
  type RawValue,
  rawData,
  rawEntries,
  rawItems,
  rawKind,
  rawMember,
  rawNumber,
  rawText,
} from "./raw-value.ts";

export interface OutputUnit {
  readonly name: string;
  /** Exactly as in the output, in the same encoding; null when absent. */
  readonly data: Data | null;
  readonly priority: number;
  /** How long until it may be claimed; 0 for no delay. */
  readonly delayMs: number;
  /** Empty for none. */
  readonly partition: string;
  /** How long from now until it is late, and until it fails unless it has begun; absent is never. */
  readonly deadlineMs?: number;
  readonly expiresMs?: number;
}

export interface Outputs {
  /** Without repeated names: as when a unit is added twice, the last one counts. */
  readonly units: OutputUnit[];
  /** For the attempt's `chaining_errors`: at most 100, and one that says how many more there were. */
  readonly errors: string[];
}

const maxErrors = 100;
const longestError = 200;
const longestKeyShown = 60;

/** Reads the outputs in the data of a finished attempt. Never throws: problems are reported in `errors`. */
export function readOutputs(data: Data | null): Outputs {
  const output = data === null ? null : rawMember(data, "output");
  if (output === null) return { units: [], errors: [] };
  const units = new Map<string, OutputUnit>();
  const errors = new ErrorList();
  for (const entry of outputEntries(output)) {
    try {
      const unit = entry.read();
      units.set(unit.name, unit);
    } catch (error) {
      if (!(error instanceof Unreadable) && !isCoordinateError(error)) throw error;
      errors.add(`${entry.where()}: ${error.message}`);
    }
  }
  return { units: [...units.values()], errors: errors.texts() };
}

/** Why an entry is skipped. Thrown and caught in this file only. */
class Unreadable extends Error {}

interface OutputEntry {
  readonly where: () => string;
  /** Throws `Unreadable` or a CoordinateError, whose message is for the user who wrote the output. */
  readonly read: () => OutputUnit;
}

function* outputEntries(output: RawValue): Generator<OutputEntry> {
  switch (rawKind(output)) {
    case "null":
      return;
    case "object":
      for (const { key, isString, value } of rawEntries(output)) {
        yield { where: () => `output[${shown(key)}]`, read: () => readMember(isString ? key : null, value) };
      }
      return;
    case "array": {
      let index = 0;
      for (const item of rawItems(output)) {
        const position = index++;
        yield { where: () => `output[${position}]`, read: () => readItem(item) };
      }
      return;
    }
    default:
      if (rawText(output) === "") return;
      yield { where: () => "output", read: () => unreadable(`is ${aKind(output)}, not an object or a list`) };
  }
}

function readMember(key: string | null, value: RawValue): OutputUnit {
  if (key === null) throw new Unreadable("name is not a string");
  return { name: checkName("work unit", key), data: readUnitData(value), ...noMetadata };
}

function readItem(item: RawValue): OutputUnit {
  const kind = rawKind(item);
  if (kind === "string") return { name: readUnitName(item), data: null, ...noMetadata };
  if (kind !== "array") throw new Unreadable(`is ${aKind(item)}, not a name or a list`);
  const [name, data, metadata, priority] = firstItems(item, 4);
  if (name === undefined) throw new Unreadable("is an empty list");
  const fromMetadata = readMetadata(metadata);
  return {
    name: readUnitName(name),
    data: data === undefined ? null : readUnitData(data),
    ...fromMetadata,
    priority: readNumber("priority", priority) ?? fromMetadata.priority,
  };
}

function firstItems(list: RawValue, count: number): RawValue[] {
  const items: RawValue[] = [];
  for (const item of rawItems(list)) if (items.push(item) === count) break;
  return items;
}

function readUnitName(value: RawValue): string {
  return checkName("work unit", rawText(value) ?? unreadable(`name is ${aKind(value)}, not a string`));
}

function readUnitData(value: RawValue): Data | null {
  if (rawKind(value) === "null") return null;
  return rawData(value) ?? unreadable(`data is ${aKind(value)}, not an object`);
}

type Metadata = Pick<OutputUnit, "priority" | "delayMs" | "partition" | "deadlineMs" | "expiresMs">;

const noMetadata: Metadata = { priority: 0, delayMs: 0, partition: "" };

function readMetadata(metadata: RawValue | undefined): Metadata {
  let priority: RawValue | undefined;
  let delay: RawValue | undefined;
  let partition: RawValue | undefined;
  let deadline: RawValue | undefined;
  let expires: RawValue | undefined;
  if (metadata !== undefined && rawKind(metadata) !== "null") {
    if (rawKind(metadata) !== "object") throw new Unreadable(`metadata is ${aKind(metadata)}, not an object`);
    for (const { key, value } of rawEntries(metadata)) {
      if (key === "priority") priority = value;
      else if (key === "delay") delay = value;
      else if (key === "partition") partition = value;
      else if (key === "deadline") deadline = value;
      else if (key === "expires") expires = value;
    }
  }
  const [deadlineMs, expiresMs] = [secondsToMs("deadline", deadline), secondsToMs("expires", expires)];
  return {
    priority: readNumber("priority", priority) ?? 0,
    delayMs: secondsToMs("delay", delay),
    partition: readPartition(partition),
    ...(deadlineMs > 0 && { deadlineMs }),
    ...(expiresMs > 0 && { expiresMs }),
  };
}

function readPartition(value: RawValue | undefined): string {
  if (value === undefined || rawKind(value) === "null") return "";
  return checkName("partition", rawText(value) ?? unreadable(`partition is ${aKind(value)}, not a string`));
}

/** Null when the value is absent or null. */
function readNumber(what: string, value: RawValue | undefined): number | null {
  if (value === undefined || rawKind(value) === "null") return null;
  const number = rawNumber(value) ?? unreadable(`${what} is ${aKind(value)}, not a number`);
  if (!Number.isFinite(number)) throw new Unreadable(`${what} is ${number}`);
  return number;
}

/** Spans are in seconds, fractions allowed; zero or less is none. */
function secondsToMs(what: string, value: RawValue | undefined): number {
  const seconds = readNumber(what, value) ?? 0;
  const ms = Math.round(seconds * 1000);
  if (ms > longestSpanMs) throw new Unreadable(`${what} of ${seconds} seconds is too long`);
  return Math.max(ms, 0);
}

function unreadable(reason: string): never {
  throw new Unreadable(reason);
}

function aKind(value: RawValue): string {
  const kind = rawKind(value);
  if (kind === "null") return "null";
  if (kind === "other") return "a UUID";
  return kind === "object" || kind === "array" ? `an ${kind}` : `a ${kind}`;
}

function shown(key: string): string {
  return cut(JSON.stringify(key), longestKeyShown);
}

/** At most `length` UTF-16 units, never half a character. */
function cut(text: string, length: number): string {
  return text.length > length ? `${text.slice(0, length - 1).replace(/[\ud800-\udbff]$/, "")}…` : text;
}

class ErrorList {
  readonly #texts: string[] = [];
  #count = 0;

  add(text: string): void {
    this.#count += 1;
    if (this.#count > maxErrors) return;
    this.#texts.push(cut(text, longestError));
  }

  texts(): string[] {
    const more = this.#count - this.#texts.length;
    return more > 0 ? [...this.#texts, `and ${more} more`] : this.#texts;
  }
}
