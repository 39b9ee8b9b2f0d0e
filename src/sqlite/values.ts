/** How names and data stand in columns. */
import { nameFromBytes, nameToBytes, storedData, type AttemptProgress, type Data } from "../core/index.ts";
import type { Value } from "./driver.ts";

/** Names that not every driver writes and reads as they are, because of a zero byte or an escaped one. */
const unusual = /[\0\ud800-\udfff]/;

export const isUsualName = (name: string): boolean => !unusual.test(name);

/** A unit's name for a statement, which must cast it to TEXT. */
export const nameValue = (name: string): Value => (unusual.test(name) ? nameToBytes(name) : name);

/** No partition is null. */
export const partitionValue = (partition: string): Value =>
  partition === "" ? null : nameToBytes(partition);

export const readPartition = (value: Value | undefined): string =>
  value instanceof Uint8Array ? nameFromBytes(value) : "";

const loneSurrogate = /[\ud800-\udbff](?![\udc00-\udfff])|(?<![\ud800-\udbff])[\udc00-\udfff]/;
const anySurrogate = /[\ud800-\udfff]/;

/**
 * JSON is TEXT, CBOR a BLOB. JSON text with half a surrogate pair has no UTF-8: it is a BLOB of UTF-16 after a zero byte, with
 * which no CBOR map starts.
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
