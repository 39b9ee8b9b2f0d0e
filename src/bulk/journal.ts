/**
 * The journal of a load: records what was sent and what was acknowledged, so that an interrupted load can resume. It has one line
 * when a chunk is sent and one when it is done; a line that was cut off by a crash is ignored.
 *
 *   {"load":"…","input":"units.jsonl.gz","target":"…","options":"…","batchUnits":1000,…}
 *   {"sent":0,"at":1700000000000,"checksum":123}
 *   {"done":0,"position":1000,"checksum":123,"units":1000,"created":1000,"bad":0}
 *
 * A chunk that was sent and is not done may or may not have been carried out. Its request has an id, which the server recognizes
 * for ten minutes.
 */
import {
  closeSync,
  existsSync,
  mkdirSync,
  openSync,
  readFileSync,
  renameSync,
  rmSync,
  writeSync,
} from "node:fs";
import path from "node:path";
import { reasonOf } from "../config/index.ts";
import { BulkError } from "./bulk-error.ts";

/** Identifies the load: it resumes only with the same input, read in the same way, for the same work spec. */
export interface JournalHeader {
  /** The prefix of the request ids of this load. */
  load: string;
  input: string;
  /** Server, namespace and work spec. */
  target: string;
  /** Format and mapping. */
  options: string;
  batchUnits: number;
  batchBytes: number;
  started: number;
}

export interface ChunkDone {
  done: number;
  /** The position of the last entry of the chunk. */
  position: number;
  checksum: number;
  units: number;
  created: number;
  bad: number;
}

export interface ChunkSent {
  sent: number;
  at: number;
  checksum: number;
}

/** A journal is compacted when it has grown to this size. */
const longest = 256 * 1024;

export class Journal {
  readonly file: string;
  readonly header: JournalHeader;
  readonly #done = new Map<number, ChunkDone>();
  readonly #sent = new Map<number, ChunkSent>();
  /** The sum of all chunks that are done without a gap; `done` is the last of them, -1 is none. */
  #mark: ChunkDone = { done: -1, position: 0, checksum: 0, units: 0, created: 0, bad: 0 };
  #fd: number | null = null;
  #bytes = 0;

  private constructor(file: string, header: JournalHeader) {
    this.file = file;
    this.header = header;
  }

  /** Starts a new journal. The file is written with the first chunk. */
  static begin(file: string, header: JournalHeader): Journal {
    return new Journal(file, header);
  }

  /** Reads the journal of an earlier load; null when there is none. Throws for a file that is not a journal. */
  static read(file: string): Journal | null {
    if (!existsSync(file)) return null;
    let text: string;
    try {
      text = readFileSync(file, "utf8");
    } catch (error) {
      throw new BulkError(`${file}: ${reasonOf(error)}`);
    }
    const [first = "", ...rest] = text.split("\n");
    const header = parse(first) as Partial<JournalHeader> | null;
    if (header?.load === undefined || header.target === undefined)
      throw new BulkError(`${file}: not a journal of a load`);
    const journal = new Journal(file, header as JournalHeader);
    for (const line of rest) {
      const record = parse(line);
      if (record === null) continue;
      if ("mark" in record) journal.#mark = record.mark as ChunkDone;
      else if ("done" in record) journal.#note(record as unknown as ChunkDone);
      else if ("sent" in record) journal.#sent.set(Number(record.sent), record as unknown as ChunkSent);
    }
    return journal;
  }

  /** The chunks that are done without a gap: a resumed load reads on after this position. */
  get mark(): Readonly<ChunkDone> {
    return this.#mark;
  }

  /** A chunk after the mark that is done. */
  doneAt(chunk: number): ChunkDone | undefined {
    return this.#done.get(chunk);
  }

  /** A chunk that an earlier run sent, with an unknown outcome. */
  sentAt(chunk: number): ChunkSent | undefined {
    return this.#done.has(chunk) ? undefined : this.#sent.get(chunk);
  }

  sent(record: ChunkSent): void {
    this.#sent.set(record.sent, record);
    this.#write(record);
  }

  done(record: ChunkDone): void {
    this.#note(record);
    this.#write(record);
    if (this.#bytes > longest) this.#shorten();
  }

  /** Deletes the journal of a load that is complete. */
  remove(): void {
    this.close();
    rmSync(this.file, { force: true });
  }

  close(): void {
    if (this.#fd !== null) closeSync(this.#fd);
    this.#fd = null;
  }

  #note(record: ChunkDone): void {
    this.#done.set(record.done, record);
    for (let next = this.#done.get(this.#mark.done + 1); next !== undefined;) {
      this.#mark = {
        ...next,
        units: this.#mark.units + next.units,
        created: this.#mark.created + next.created,
        bad: this.#mark.bad + next.bad,
      };
      this.#done.delete(next.done);
      this.#sent.delete(next.done);
      next = this.#done.get(this.#mark.done + 1);
    }
  }

  #write(record: object): void {
    try {
      if (this.#fd === null) this.#create();
      const line = `${JSON.stringify(record)}\n`;
      // one write per line: the line is complete or missing, even if the process is killed
      writeSync(this.#fd ?? 0, line);
      this.#bytes += line.length;
    } catch (error) {
      throw new BulkError(`${this.file}: ${reasonOf(error)}`);
    }
  }

  /** Writes the current state to a temporary file and renames it, so that it replaces the old file in one step. */
  #create(): void {
    mkdirSync(path.dirname(path.resolve(this.file)), { recursive: true, mode: 0o700 });
    const next = `${this.file}.new`;
    const fd = openSync(next, "w", 0o600);
    const records = [this.header, { mark: this.#mark }, ...this.#sent.values(), ...this.#done.values()];
    const text = records.map((record) => `${JSON.stringify(record)}\n`).join("");
    writeSync(fd, text);
    renameSync(next, this.file);
    this.close();
    this.#fd = fd;
    this.#bytes = text.length;
  }

  #shorten(): void {
    this.close();
    this.#create();
  }
}

function parse(line: string): Record<string, unknown> | null {
  try {
    return JSON.parse(line) as Record<string, unknown> | null;
  } catch {
    // cut off by a crash
    return null;
  }
}
