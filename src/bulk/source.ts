/**
 * The source of bulk input: a file or standard input, plain or compressed with gzip or zstd. Bytes are read only on demand:
 * unread input stays on the disk.
 */
import { spawn } from "node:child_process";
import { createReadStream, statSync } from "node:fs";
import { pipeline, type Duplex, type Readable } from "node:stream";
import zlib from "node:zlib";
import { reasonOf } from "../config/index.ts";
import { BulkError } from "./bulk-error.ts";

export interface Source {
  /** For messages. */
  readonly name: string;
  /** The size on disk in bytes; null when it is not known in advance. */
  readonly size: number | null;
  /** How many of these bytes were read. */
  bytesRead(): number;
  /** The first bytes, decompressed, without consuming them; empty for an empty input. */
  peek(): Promise<Buffer>;
  /** All bytes, decompressed. Throws a `BulkError` when they cannot be read or are damaged. Can be called only once. */
  chunks(): AsyncGenerator<Buffer>;
  close(): void;
}

/** The name of the source that reads `stdin`. */
export const standardInput = "standard input";

/** Opens a file, or `stdin` for `-`. Throws a `BulkError` when the file cannot be opened. */
export function openSource(file: string, stdin: Readable): Source {
  if (file === "-") return new Input(standardInput, null, stdin, "");
  let size: number | null;
  try {
    const stat = statSync(file);
    if (stat.isDirectory()) throw new BulkError(`${file}: is a directory`);
    // a pipe reports a size of 0: its real size is not known
    size = stat.isFile() ? stat.size : null;
  } catch (error) {
    throw error instanceof BulkError ? error : new BulkError(`${file}: ${reasonOf(error)}`);
  }
  return new Input(file, size, createReadStream(file, { highWaterMark: 65_536 }), file);
}

type Compression = "gzip" | "zstd";

const endings: readonly (readonly [RegExp, Compression])[] = [
  [/\.(gz|gzip)$/i, "gzip"],
  [/\.(zst|zstd)$/i, "zstd"],
];

function compressionOf(first: Buffer): Compression | null {
  if (first[0] === 0x1f && first[1] === 0x8b) return "gzip";
  return first.subarray(0, 4).equals(Buffer.of(0x28, 0xb5, 0x2f, 0xfd)) ? "zstd" : null;
}

class Input implements Source {
  readonly name: string;
  readonly size: number | null;
  readonly #raw: Readable;
  readonly #expected: Compression | null;
  #read = 0;
  #first: Buffer[] = [];
  #bytes: AsyncIterator<Buffer> | null = null;

  constructor(name: string, size: number | null, raw: Readable, file: string) {
    this.name = name;
    this.size = size;
    this.#raw = raw;
    this.#expected = endings.find(([ending]) => ending.test(file))?.[1] ?? null;
  }

  bytesRead(): number {
    return this.#read;
  }

  async peek(): Promise<Buffer> {
    const bytes = await this.#open();
    while (Buffer.concat(this.#first).length < 4096) {
      const next = await this.#next(bytes);
      if (next === null) break;
      this.#first.push(next);
    }
    return Buffer.concat(this.#first);
  }

  async *chunks(): AsyncGenerator<Buffer> {
    const bytes = await this.#open();
    yield* this.#first;
    this.#first = [];
    for (let next = await this.#next(bytes); next !== null; next = await this.#next(bytes)) yield next;
  }

  close(): void {
    this.#raw.destroy();
  }

  async #next(bytes: AsyncIterator<Buffer>): Promise<Buffer | null> {
    try {
      const next = await bytes.next();
      return next.done === true ? null : next.value;
    } catch (error) {
      throw this.#failed(error);
    }
  }

  #failed(error: unknown): BulkError {
    if (error instanceof BulkError) return error;
    const code = error instanceof Error && "code" in error ? String(error.code) : "";
    const damaged = code.startsWith("Z_") || code.startsWith("ZSTD");
    const message = damaged
      ? `the compressed data is damaged or cut off: ${error instanceof Error ? error.message : ""}`
      : reasonOf(error);
    return new BulkError(`${this.name}: ${message}`);
  }

  async #open(): Promise<AsyncIterator<Buffer>> {
    if (this.#bytes !== null) return this.#bytes;
    const raw = this.#raw[Symbol.asyncIterator]() as AsyncIterator<Buffer>;
    // compression is detected by the first bytes: a file name may be wrong, and a pipe has none
    const heads: Buffer[] = [];
    while (Buffer.concat(heads).length < 4) {
      const next = await this.#next(raw);
      if (next === null) break;
      this.#read += next.length;
      heads.push(Buffer.from(next));
    }
    const head = Buffer.concat(heads);
    const found = compressionOf(head);
    if (this.#expected !== null && found !== this.#expected && head.length > 0)
      throw new BulkError(
        `${this.name}: the file name says ${this.#expected}, but the content is not ${this.#expected}`,
      );
    const counted = this.#counted(head, raw);
    return (this.#bytes = found === null ? counted : this.#decompressed(counted, found));
  }

  async *#counted(head: Buffer, rest: AsyncIterator<Buffer>): AsyncGenerator<Buffer> {
    if (head.length > 0) yield head;
    for (let next = await rest.next(); next.done !== true; next = await rest.next()) {
      this.#read += next.value.length;
      yield Buffer.from(next.value);
    }
  }

  #decompressed(bytes: AsyncGenerator<Buffer>, compression: Compression): AsyncIterator<Buffer> {
    const createZstd = (zlib as { createZstdDecompress?: () => Duplex }).createZstdDecompress;
    // Node supports zstd from 22.15 on; before that the program zstd does it
    if (compression === "zstd" && createZstd === undefined) return this.#withProgram("zstd", ["-dcq"], bytes);
    const decompress =
      compression === "gzip" || createZstd === undefined
        ? zlib.createGunzip({ chunkSize: 262_144 })
        : createZstd();
    // pipeline passes errors on to the stream that is read
    pipeline(bytes, decompress, () => undefined);
    return decompress[Symbol.asyncIterator]() as AsyncIterator<Buffer>;
  }

  async *#withProgram(program: string, args: string[], bytes: AsyncIterable<Buffer>): AsyncGenerator<Buffer> {
    const child = spawn(program, args, { stdio: "pipe" });
    let said = "";
    child.stderr.setEncoding("utf8").on("data", (text: string) => (said += text));
    const ended = new Promise<number | Error | null>((resolve) => {
      child.once("error", resolve);
      child.once("close", resolve);
    });
    let failure: unknown = null;
    // EPIPE is no error: a program that ends early closes its input, and its exit code tells why
    pipeline(bytes, child.stdin, (error) => (failure = error?.code === "EPIPE" ? null : error));
    try {
      yield* child.stdout as AsyncIterable<Buffer>;
      const code = await ended;
      if (code instanceof Error)
        throw new BulkError(
          `${this.name}: reading zstd files needs Node 22.15 or later, or the program zstd`,
        );
      if (failure instanceof Error) throw failure;
      if (code !== 0) {
        const why = said.trim().replace(/^zstd: (\S+ : )?/, "");
        throw new BulkError(`${this.name}: the compressed data is damaged or cut off: ${why}`);
      }
    } finally {
      child.kill();
    }
  }
}
