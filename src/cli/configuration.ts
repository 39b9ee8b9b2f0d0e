/** What a configuration file says to the command line: where the work is, and as whom to ask. */
import { readFile } from "node:fs/promises";
import { CommandError } from "./failure.ts";

export interface Configuration {
  address?: string;
  backend?: string;
  namespace?: string;
  token?: string;
}

const keys = ["address", "backend", "namespace", "token"] as const;

/** The keys stand at the top of the file or below `coordinate`; those that are not the command line's are others'. */
export async function readConfiguration(file: string): Promise<Configuration> {
  const { parse } = await import("yaml");
  let document: unknown;
  try {
    document = parse(await readFile(file, "utf8"), { maxAliasCount: 100 });
  } catch (error) {
    throw new CommandError(`${file}: ${error instanceof Error ? error.message : String(error)}`);
  }
  if (document === null) return {};
  if (!isObject(document)) throw new CommandError(`${file}: expected settings and their values`);
  const below = isObject(document.coordinate) ? document.coordinate : {};
  const found: Configuration = {};
  for (const key of keys) {
    const value = below[key] ?? document[key];
    if (value === undefined || value === null) continue;
    if (typeof value !== "string") throw new CommandError(`${file}: ${key}: expected text`);
    found[key] = value;
  }
  return found;
}

const isObject = (value: unknown): value is Record<string, unknown> =>
  typeof value === "object" && value !== null && !Array.isArray(value);
