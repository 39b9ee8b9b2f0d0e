/**
 * Adds the units of an input, of any length, in constant memory: chunks of them, several on their way at once.
 *
 * Units of one name are added in the order of the input: a chunk that names what is on its way waits. With a journal,
 * a load that was interrupted goes on where it stood, and what was carried out is not done twice: adding a unit again
 * that has been finished in the meantime would make it available once more.
 */
import {
  CoordinateError,
  type AddedWorkUnit,
  type ConflictPolicy,
  type Coordinate,
  type WorkUnitInput,
  type WorkUnitRow,
} from "../core/index.ts";
import { BulkError } from "./bulk-error.ts";
import type { Entry } from "./entry.ts";
import type { ChunkSent, Journal } from "./journal.ts";

export interface LoadTarget {
  coordinate: Coordinate;
  ns: string;
  workSpec: string;
}

export interface BadEntry {
  line: number;
  problem: string;
}

export interface LoadOptions {
  /** For messages: the name of the input. */
  name: string;
  /** Of one request at most; 1,000 units and 1 MiB of text. */
  batchUnits?: number;
  batchBytes?: number;
  /** Requests on their way at once; 4. */
  inFlight?: number;
  /** Goes on after what is wrong with one entry, and tells. Otherwise the first one ends the load. */
  keepGoing?: boolean;
  /** What becomes of a unit that exists; `update` when absent. */
  onConflict?: ConflictPolicy;
  onBad?: (bad: BadEntry) => void;
  /** How many bytes of the input were read, where that is of interest. */
  bytesRead?: () => number;
  /** After every chunk. */
  onProgress?: (progress: LoadStep) => void;
  journal?: Journal;
  /** For the names of requests, where there is no journal. */
  load: string;
  clock: { now(): number };
  /** Ends the load in an orderly way: what is on its way is waited for. */
  signal?: AbortSignal;
}

export interface LoadProgress {
  /** Units that were acknowledged, those of an earlier run included. */
  units: number;
  /** Of these, units that had not been there. */
  created: number;
  /** Entries that could not be added. */
  bad: number;
}

export interface LoadStep extends LoadProgress {
  /** Of the input, up to about the end of what was acknowledged. */
  bytes: number;
}

export interface LoadResult extends LoadProgress {
  /** Units of an earlier run, which were not sent again. */
  resumed: number;
  /** False when the signal ended it. */
  complete: boolean;
}

interface Chunk {
  readonly number: number;
  readonly units: WorkUnitInput[];
  /** The line of each unit. */
  readonly lines: number[];
  size: number;
  bad: number;
  position: number;
  checksum: number;
  /** How far the input was read when the chunk was complete. */
  bytes: number;
}

/** How long the server knows a request again is ten minutes; a minute less for clocks and for the way. */
const knownForMs = 9 * 60 * 1000;

export async function loadUnits(
  target: LoadTarget,
  entries: AsyncIterable<readonly Entry[]>,
  options: LoadOptions,
): Promise<LoadResult> {
  return new Load(target, options).run(entries);
}

class Load {
  readonly #target: LoadTarget;
  readonly #options: LoadOptions;
  readonly #chunkUnits: number;
  readonly #chunkBytes: number;
  readonly #inFlight: number;
  readonly #progress: LoadProgress = { units: 0, created: 0, bad: 0 };
  readonly #window = new Set<Promise<void>>();
  readonly #names = new Set<string>();
  #chunk: Chunk;
  #bytes = 0;
  #failure: Error | null = null;

  constructor(target: LoadTarget, options: LoadOptions) {
    this.#target = target;
    this.#options = options;
    const header = options.journal?.header;
    this.#chunkUnits = header?.batchUnits ?? options.batchUnits ?? 1000;
    this.#chunkBytes = header?.batchBytes ?? options.batchBytes ?? 1024 * 1024;
    this.#inFlight = options.inFlight ?? 4;
    const mark = options.journal?.mark;
    if (mark !== undefined) {
      const { units, created, bad } = mark;
      this.#progress = { units, created, bad };
    }
    this.#chunk = this.#empty((mark?.done ?? -1) + 1, mark?.position ?? 0, mark?.checksum ?? 0);
  }

  async run(entries: AsyncIterable<readonly Entry[]>): Promise<LoadResult> {
    const { journal, signal } = this.#options;
    const resumed = journal?.mark.units ?? 0;
    let complete = false;
    try {
      complete = await this.#read(entries);
      if (complete) await this.#send();
      await this.#settled();
      // an orderly end is journalled chunk by chunk; what was read and not sent is read again
      return { ...this.#progress, resumed, complete: complete && signal?.aborted !== true };
    } catch (error) {
      // what is on its way is waited for, so that the journal knows of it
      await Promise.allSettled(this.#window);
      throw error;
    }
  }

  /** False when it was ended before the end of the input. */
  async #read(entries: AsyncIterable<readonly Entry[]>): Promise<boolean> {
    const { journal, signal, keepGoing = false, onBad, name } = this.#options;
    const mark = journal?.mark ?? { position: 0, checksum: 0 };
    const from = mark.position;
    let verified = from === 0;
    for await (const some of entries) {
      for (const entry of some) {
        if (signal?.aborted === true) return false;
        if (!verified && entry.position >= from) {
          if (entry.position !== from || entry.checksum !== mark.checksum) throw this.#changed(from);
          verified = true;
        }
        if (entry.position <= from) continue;
        if (entry.problem !== "") {
          if (!keepGoing) {
            await this.#send();
            throw new BulkError(`${name}:${entry.line}: ${entry.problem}`);
          }
          this.#chunk.bad += 1;
          onBad?.({ line: entry.line, problem: entry.problem });
        }
        this.#take(entry);
        if (this.#chunk.units.length >= this.#chunkUnits || this.#chunk.size >= this.#chunkBytes)
          await this.#send();
      }
    }
    if (!verified) throw this.#changed(from);
    return true;
  }

  #changed(position: number): BulkError {
    return new BulkError(
      `${this.#options.name}: its first ${position} lines or records are not those that were loaded before`,
    );
  }

  #take(entry: Entry): void {
    const chunk = this.#chunk;
    for (const unit of entry.units) {
      chunk.units.push(unit);
      chunk.lines.push(entry.line);
    }
    chunk.size += entry.size;
    chunk.position = entry.position;
    chunk.checksum = entry.checksum;
  }

  #empty(number: number, position: number, checksum: number): Chunk {
    return { number, units: [], lines: [], size: 0, bad: 0, position, checksum, bytes: 0 };
  }

  /** Sends the chunk that was gathered, when there is room for it on the way; begins the next. */
  async #send(): Promise<void> {
    const chunk = this.#chunk;
    if (chunk.units.length === 0 && chunk.bad === 0) return;
    chunk.bytes = this.#options.bytesRead?.() ?? 0;
    this.#chunk = this.#empty(chunk.number + 1, chunk.position, chunk.checksum);
    while (this.#window.size >= this.#inFlight) await Promise.race(this.#window);
    if (chunk.units.some(({ name }) => this.#names.has(name))) await Promise.all(this.#window);
    if (this.#failure !== null) throw this.#failure;
    for (const { name } of chunk.units) this.#names.add(name);
    const sending = this.#carryOut(chunk)
      .catch((error: unknown) => {
        this.#failure ??= error instanceof Error ? error : new Error(String(error));
      })
      .finally(() => {
        for (const { name } of chunk.units) this.#names.delete(name);
        this.#window.delete(sending);
      });
    this.#window.add(sending);
  }

  async #settled(): Promise<void> {
    await Promise.all(this.#window);
    if (this.#failure !== null) throw this.#failure;
  }

  async #carryOut(chunk: Chunk): Promise<void> {
    const { journal, clock, onProgress } = this.#options;
    const before = journal?.doneAt(chunk.number);
    if (before?.checksum === chunk.checksum && before.position === chunk.position) {
      this.#count(before.units, before.created, before.bad);
    } else {
      const uncertain = journal?.sentAt(chunk.number);
      journal?.sent({ sent: chunk.number, at: clock.now(), checksum: chunk.checksum });
      const added = await this.#add(chunk, uncertain);
      const done = { done: chunk.number, position: chunk.position, checksum: chunk.checksum, ...added };
      journal?.done(done);
      this.#count(added.units, added.created, added.bad);
    }
    this.#bytes = Math.max(this.#bytes, chunk.bytes);
    onProgress?.({ ...this.#progress, bytes: this.#bytes });
  }

  #count(units: number, created: number, bad: number): void {
    this.#progress.units += units;
    this.#progress.created += created;
    this.#progress.bad += bad;
  }

  async #add(chunk: Chunk, uncertain: ChunkSent | undefined): Promise<LoadProgress> {
    const { journal, load, clock } = this.#options;
    const id = `${journal?.header.load ?? load}.${chunk.number}.${chunk.checksum}`;
    let { units, lines } = chunk;
    const known = uncertain?.checksum === chunk.checksum && clock.now() - uncertain.at < knownForMs;
    if (uncertain !== undefined && !known) {
      const todo = await this.#stillToAdd(units, uncertain.at);
      units = todo.map((i) => chunk.units[i]!);
      lines = todo.map((i) => chunk.lines[i]!);
    }
    const result = { units: chunk.units.length - units.length, created: 0, bad: chunk.bad };
    if (units.length > 0) await this.#addAll(units, lines, id, result);
    return result;
  }

  /** All of them; where the server refuses, by halves down to the one that is to blame. */
  async #addAll(
    units: readonly WorkUnitInput[],
    lines: readonly number[],
    requestId: string,
    result: LoadProgress,
  ): Promise<void> {
    const { coordinate, ns, workSpec } = this.#target;
    const { onConflict } = this.#options;
    let added: AddedWorkUnit[];
    try {
      added = await coordinate.addWorkUnits(ns, workSpec, units, {
        requestId,
        ...(onConflict !== undefined && { onConflict }),
      });
    } catch (error) {
      if (!isAboutUnits(error)) throw error;
      if (units.length > 1) {
        const half = units.length >> 1;
        await this.#addAll(units.slice(0, half), lines.slice(0, half), `${requestId}a`, result);
        await this.#addAll(units.slice(half), lines.slice(half), `${requestId}b`, result);
        return;
      }
      const { keepGoing = false, onBad, name } = this.#options;
      const line = lines[0] ?? 0;
      const problem = error.message.replace(/^Bad (argument|data|name) /, "");
      if (!keepGoing) throw new BulkError(`${name}:${line}: ${problem}`);
      onBad?.({ line, problem });
      result.bad += 1;
      return;
    }
    result.units += added.length;
    for (const { created } of added) if (created) result.created += 1;
  }

  /**
   * Of a chunk that was sent long ago and may have been carried out, the units that must be added: those that are not
   * there; those that wait or run, because adding them once more changes nothing but their data; and those that had
   * ended before the chunk was sent, because they would not be ended now if it had been carried out.
   */
  async #stillToAdd(units: readonly WorkUnitInput[], sentAt: number): Promise<number[]> {
    const { coordinate, ns, workSpec } = this.#target;
    const names = units.map(({ name }) => name);
    const rows = await coordinate.getWorkUnits(ns, workSpec, names);
    // a unit that would be refused now may be one that the chunk has added
    const isMissing = (row: WorkUnitRow | null): boolean =>
      this.#options.onConflict === "refuse" ? row === null : mustBeAdded(row, sentAt);
    return names.flatMap((_, i) => (isMissing(rows[i] ?? null) ? [i] : []));
  }
}

export function mustBeAdded(row: WorkUnitRow | null, sentAt: number): boolean {
  if (row === null || (row.status !== "finished" && row.status !== "failed")) return true;
  const ended = row.activeAttempt?.endTime ?? 0;
  return row.createdTime < sentAt && ended > 0 && ended < sentAt;
}

/** The server refuses what the units say: a part of them may be right. A missing work spec is not about them. */
function isAboutUnits(error: unknown): error is Error {
  if (error instanceof CoordinateError)
    return error.status < 500 && error.status !== 404 && error.status !== 410;
  return error instanceof Error && "status" in error && error.status === 413;
}
