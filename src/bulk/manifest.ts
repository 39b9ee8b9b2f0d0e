/**
 * The manifest of a synchronised list: a hash of each unit's content at the last sync, in name order. A worker may overwrite the
 * data of a unit that it claims; then only the manifest knows the data from the list.
 */
import { createHash } from "node:crypto";
import {
  createReadStream,
  createWriteStream,
  existsSync,
  mkdirSync,
  renameSync,
  rmSync,
  type WriteStream,
} from "node:fs";
import { once } from "node:events";
import path from "node:path";
import { decodeData, readLines, type Data } from "../core/index.ts";
import { isMapping } from "../config/index.ts";

export interface ManifestRow {
  name: string;
  hash: string;
}

/** Equal for equivalent data: the order of keys and white space do not count. */
export function contentHash(data: Data | null): string {
  const value = data === null ? {} : decodeData(data);
  return createHash("sha256").update(canonical(value)).digest("base64url").slice(0, 22);
}

function canonical(value: unknown): string {
  if (Array.isArray(value)) return `[${value.map(canonical).join(",")}]`;
  if (value instanceof Uint8Array) return `b${Buffer.from(value).toString("base64")}`;
  if (typeof value === "bigint") return String(value);
  if (!isMapping(value) || Object.getPrototypeOf(value) !== Object.prototype)
    return value === undefined ? "null" : JSON.stringify(value);
  const members = Object.keys(value)
    .sort()
    .map((key) => `${JSON.stringify(key)}:${canonical(value[key])}`);
  return `{${members.join(",")}}`;
}

/** The rows of the last sync, in name order; none if there was no sync before. */
export async function* readManifest(file: string): AsyncGenerator<ManifestRow> {
  if (!existsSync(file)) return;
  for await (const lines of readLines(createReadStream(file))) {
    for (const { text } of lines) {
      const tab = text.indexOf("\t");
      if (tab > 0) yield { hash: text.slice(0, tab), name: JSON.parse(text.slice(tab + 1)) as string };
    }
  }
}

/** Writes a temporary file and renames it in `commit`, so that the old manifest stays until all is done. */
export class ManifestWriter {
  readonly #file: string;
  readonly #stream: WriteStream;

  constructor(file: string) {
    this.#file = file;
    mkdirSync(path.dirname(path.resolve(file)), { recursive: true, mode: 0o700 });
    this.#stream = createWriteStream(`${file}.new`, { mode: 0o600 });
  }

  async write({ name, hash }: ManifestRow): Promise<void> {
    if (!this.#stream.write(`${hash}\t${JSON.stringify(name)}\n`)) await once(this.#stream, "drain");
  }

  async commit(): Promise<void> {
    this.#stream.end();
    await once(this.#stream, "finish");
    renameSync(`${this.#file}.new`, this.#file);
  }

  discard(): void {
    this.#stream.destroy();
    rmSync(`${this.#file}.new`, { force: true });
  }
}
