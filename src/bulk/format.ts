/** The format of an input: given by the caller, else by the extension of its name, else by its first line. */
import type { Environment } from "../config/index.ts";
import { BulkError } from "./bulk-error.ts";
import { csv, type ColumnMapping, type CsvOptions } from "./csv.ts";
import { documentUnits } from "./document.ts";
import type { Entries } from "./entry.ts";
import { jsonLines, plainLines } from "./json-lines.ts";
import type { Source } from "./source.ts";

export const formats = ["jsonl", "csv", "tsv", "lines", "yaml", "json"] as const;
export type Format = (typeof formats)[number];

const endings: Readonly<Record<string, Format>> = {
  jsonl: "jsonl",
  ndjson: "jsonl",
  csv: "csv",
  tsv: "tsv",
  tab: "tsv",
  yaml: "yaml",
  yml: "yaml",
};

/** Returns `jsonl` for an empty input, for which any format would do. */
export async function findFormat(source: Source): Promise<Format> {
  const ending = /\.([a-z]+)(?:\.(?:gz|gzip|zst|zstd))?$/i.exec(source.name)?.[1]?.toLowerCase() ?? "";
  const known = endings[ending];
  if (known !== undefined) return known;
  const start = (await source.peek()).toString("utf8").replace(/^\ufeff/, "");
  const first = start.split("\n").find((line) => line.trim() !== "" && !line.startsWith("#")) ?? "";
  // a document spans several lines: its first line alone is not JSON
  if (ending === "json" && !isJson(first) && start.includes("\n")) return "json";
  return first === "" || /^\s*[[{"]/.test(first) ? "jsonl" : "lines";
}

function isJson(text: string): boolean {
  try {
    JSON.parse(text);
    return true;
  } catch {
    return false;
  }
}

export interface FormatOptions {
  /** The mapping also applies to JSON lines. */
  csv?: CsvOptions;
  env?: Environment;
  /** The position after which units are wanted: earlier input is only added to the checksum. */
  from?: number;
}

export function readEntries(source: Source, format: Format, options: FormatOptions = {}): Entries {
  const lines = options.from === undefined ? {} : { from: options.from };
  switch (format) {
    case "jsonl":
      return jsonLines(source.chunks(), {
        ...lines,
        ...(options.csv?.mapping !== undefined && { mapping: named(source.name, options.csv.mapping) }),
      });
    case "lines":
      return plainLines(source.chunks(), lines);
    case "csv":
      return csv(source.name, source.chunks(), options.csv);
    case "tsv":
      return csv(source.name, source.chunks(), { delimiter: "\t", ...options.csv });
    case "yaml":
    case "json":
      return documentUnits(source.name, source.chunks(), options.env);
  }
}

function named(name: string, mapping: readonly ColumnMapping[]): readonly ColumnMapping[] {
  if (mapping.some(({ target }) => target === "name")) return mapping;
  throw new BulkError(`${name}: no key for the name; use --column name=KEY`);
}
