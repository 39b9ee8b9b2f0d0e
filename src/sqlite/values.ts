/** The column values of names and data. */
import { nameFromBytes, nameToBytes, storedData, type AttemptProgress, type Data } from "../core/index.ts";
import type { Value } from "./driver.ts";

/** Matches names that not every driver writes and reads unchanged: with a zero byte, or a surrogate, which may be an escaped byte. */
const unusual = /[\0\ud800-\udfff]/;

export const isUsualName = (name: string): boolean => !unusual.test(name);

/** A unit's name for a statement, which must cast it to TEXT. */
export const nameValue = (name: string): Value => (unusual.test(name) ? nameToBytes(name) : name);

/** Null means no partition. */
export const partitionValue = (partition: string): Value =>
  partition === "" ? null : nameToBytes(partition);

export const readPartition = (value: Value | undefined): string =>
  value instanceof Uint8Array ? nameFromBytes(value) : "";

const loneSurrogate = /[\ud800-\udbff](?![\udc00-\udfff])|(?<![\ud800-\udbff])[\udc00-\udfff]/;
const anySurrogate = /[\ud800-\udfff]/;

/**
 * JSON is stored as TEXT, CBOR as a BLOB. JSON text with a lone surrogate has no UTF-8 encoding: it is stored as a BLOB of a zero
 * byte, with which no CBOR map starts, and UTF-16.
 */
export function dataValue(data: Data | null): Value {
  if (typeof data !== "string" || !anySurrogate.test(data) || !loneSurrogate.test(data)) return data;
  return Buffer.concat([Buffer.of(0), Buffer.from(data, "utf16le")]);
}

export function readData(value: Value | undefined): Data | null {
  if (typeof value === "string") return storedData(value);
  if (!(value instanceof Uint8Array)) return null;
  if (value[0] !== 0) return storedData(value);
  return storedData(Buffer.from(value.buffer, value.byteOffset + 1, value.length - 1).toString("utf16le"));
}

export const readErrors = (value: Value | undefined): readonly string[] =>
  typeof value === "string" ? (JSON.parse(value) as string[]) : noErrors;
const noErrors: readonly string[] = [];

export const readProgress = (value: Value | undefined): AttemptProgress | null =>
  typeof value === "string" ? (JSON.parse(value) as AttemptProgress) : null;

export const progressValue = (progress: AttemptProgress | null): Value =>
  progress === null ? null : JSON.stringify(progress);

export const errorsValue = (errors: readonly string[]): Value =>
  errors.length === 0 ? null : JSON.stringify(errors);
