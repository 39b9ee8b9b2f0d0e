/** Lines of JSON, and plain lines that are names. Empty lines are skipped; so are comments (`#`) in lines of JSON. */
import { crc32 } from "node:zlib";
import {
  checkName,
  CoordinateError,
  longestLine,
  readLines,
  readUnitLine,
  type Line,
  type WorkUnitInput,
} from "../core/index.ts";
import type { Entries, Entry } from "./entry.ts";

type Read = (text: string, line: Line) => WorkUnitInput[];

export interface LineOptions {
  /** In bytes; a longer line is bad. */
  longest?: number;
  /** Lines before this one are not looked into, and it comes without units: they were loaded before. */
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
        if (line.tooLong) throw new CoordinateError("too_large", `a line of more than ${longest} bytes`);
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

export const jsonLines = (chunks: AsyncIterable<Buffer>, options: LineOptions = {}): Entries =>
  entriesOf(
    chunks,
    (text, { isText }) => {
      const first = /\S/.exec(text)?.[0];
      if (first === undefined || first === "#") return [];
      if (!isText) throw new CoordinateError("bad_data", "this is no UTF-8");
      return readUnitLine(text, { maxBytes: options.longest ?? longestLine });
    },
    options,
  );

/** Every line is a name, to the byte. */
export const plainLines = (chunks: AsyncIterable<Buffer>, options: LineOptions = {}): Entries =>
  entriesOf(chunks, (text) => (text === "" ? [] : [{ name: checkName("work unit", text) }]), options);
