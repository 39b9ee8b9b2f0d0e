/**
 * Units of one YAML or JSON document: a mapping from name to data, or a list. The whole document is held in memory, so its
 * size is limited.
 */
import { crc32 } from "node:zlib";
import { checkName, CoordinateError, encodeData, readUnitLine, type WorkUnitInput } from "../core/index.ts";
import { ConfigError, isMapping, parseDocumentText, type Environment } from "../config/index.ts";
import { BulkError } from "./bulk-error.ts";
import type { Entries, Entry } from "./entry.ts";

const largest = 16 * 1024 * 1024;

export async function* documentUnits(
  name: string,
  chunks: AsyncIterable<Buffer>,
  env: Environment = {},
): Entries {
  const pieces: Buffer[] = [];
  let bytes = 0;
  for await (const chunk of chunks) {
    pieces.push(chunk);
    bytes += chunk.length;
    if (bytes > largest)
      throw new BulkError(
        `${name}: larger than ${largest} bytes; convert it to lines of JSON, which can have any length`,
      );
  }
  let value: unknown;
  let line: (at: readonly (string | number)[]) => number;
  try {
    const document = parseDocumentText(Buffer.concat(pieces).toString("utf8"), name, { env });
    value = document.value;
    line = (at) => document.locate(at).line;
  } catch (error) {
    if (error instanceof ConfigError) throw new BulkError(error.message);
    throw error;
  }
  if (value === null) return;
  if (!isMapping(value) && !Array.isArray(value))
    throw new BulkError(`${name}: expected a mapping from names to data, or a list of units`);
  const members: [string | number, unknown][] = Array.isArray(value)
    ? value.map((item: unknown, i) => [i, item])
    : Object.entries(value);
  let checksum = 0;
  const entries = members.map(([key, inside], i): Entry => {
    const text = jsonOf(inside);
    checksum = crc32(`${key}\u0000${text}`, checksum);
    const entry = { line: line([key]), position: i + 1, units: [], size: text.length, checksum, problem: "" };
    try {
      return { ...entry, units: typeof key === "number" ? readUnitLine(text) : [memberOf(key, inside)] };
    } catch (error) {
      if (!(error instanceof CoordinateError)) throw error;
      return { ...entry, problem: error.value === "" ? error.message : error.value };
    }
  });
  yield entries;
}

function memberOf(key: string, data: unknown): WorkUnitInput {
  if (data !== null && !isMapping(data))
    throw new CoordinateError("bad_data", `${key}: expected a mapping with the data of a unit`);
  return { name: checkName("work unit", key), data: data === null ? null : encodeData(data) };
}

const jsonOf = (value: unknown): string =>
  JSON.stringify(value, (_key, one: unknown) => (typeof one === "bigint" ? String(one) : one));
