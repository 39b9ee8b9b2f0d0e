/**
 * Adds the units of an input of any length in constant memory: in chunks, several of them in flight at once.
 *
 * Units of the same name are added in the order of the input: a chunk waits while one of its names is in flight. With a journal,
 * an interrupted load resumes where it stopped and carries out nothing twice: adding a unit again that has finished meanwhile
 * would make it available once more.
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
  /** The limits of one request; 1,000 units and 1 MiB of text by default. */
  batchUnits?: number;
  batchBytes?: number;
  /** Requests in flight at once; 4 by default. */
  inFlight?: number;
  /** Reports bad entries to `onBad` and goes on. Otherwise the first bad entry ends the load. */
  keepGoing?: boolean;
  /** What happens to a unit that exists; `update` when absent. */
  onConflict?: ConflictPolicy;
  onBad?: (bad: BadEntry) => void;
  /** Returns how many bytes of the input were read, for the progress. */
  bytesRead?: () => number;
  /** Called after every chunk. */
  onProgress?: (progress: LoadStep) => void;
  journal?: Journal;
  /** The prefix of the request ids, if there is no journal. */
  load: string;
  clock: { now(): number };
  /** Ends the load in order: requests in flight are awaited. */
  signal?: AbortSignal;
}

export interface LoadProgress {
  /** Units that were acknowledged, including those of an earlier run. */
  units: number;
  /** How many of them did not exist before. */
  created: number;
  /** Entries that could not be added. */
  bad: number;
}

export interface LoadStep extends LoadProgress {
  /** Bytes of the input, up to about the end of the acknowledged units. */
  bytes: number;
}

export interface LoadResult extends LoadProgress {
  /** Units of an earlier run, which were not sent again. */
  resumed: number;
  /** False when the signal ended the load. */
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
  /** How many bytes of the input had been read when the chunk was complete. */
  bytes: number;
}

/** The server recognizes a repeated request id for ten minutes; one minute less, for clock differences and latency. */
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
      // the journal has every chunk that was sent; input that was read and not sent is read again
      return { ...this.#progress, resumed, complete: complete && signal?.aborted !== true };
    } catch (error) {
      // requests in flight are awaited, so that the journal records them
      await Promise.allSettled(this.#window);
      throw error;
    }
  }

  /** Returns false when the signal ended the load before the end of the input. */
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
      `${this.#options.name}: its first ${position} lines or records differ from those of the earlier load`,
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

  /** Sends the current chunk, as soon as fewer than `inFlight` requests are in flight, and begins the next one. */
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
      // the time of the first send is kept: its units may have ended before this one
      const at = uncertain?.at ?? clock.now();
      journal?.sent({ sent: chunk.number, at, checksum: chunk.checksum });
      const added = { units: 0, created: 0, bad: chunk.bad };
      try {
        await this.#add(chunk, uncertain, added);
      } catch (error) {
        // part of the chunk may be stored; the journal has only whole chunks
        this.#count(added.units, added.created, added.bad);
        onProgress?.({ ...this.#progress, bytes: this.#bytes });
        throw error;
      }
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

  /** Adds up in `result` what is stored, also when it fails. */
  async #add(chunk: Chunk, uncertain: ChunkSent | undefined, result: LoadProgress): Promise<void> {
    const { journal, load, clock } = this.#options;
    const id = `${journal?.header.load ?? load}.${chunk.number}.${chunk.checksum}`;
    let { units, lines } = chunk;
    const known = uncertain?.checksum === chunk.checksum && clock.now() - uncertain.at < knownForMs;
    if (uncertain !== undefined && !known) {
      const todo = await this.#stillToAdd(units, uncertain.at);
      units = todo.map((i) => chunk.units[i]!);
      lines = todo.map((i) => chunk.lines[i]!);
    }
    result.units += chunk.units.length - units.length;
    if (units.length > 0) await this.#addAll(units, lines, id, result);
  }

  /** Adds all units. If the server refuses them, adds each half separately, down to the unit that is to blame. */
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
   * For a chunk that was sent long ago and may have been carried out, finds the units that must be added: missing units; units
   * that wait or run, because adding them again changes only their data; and units that ended before the chunk was sent, because
   * they would not still be ended if the chunk had been carried out.
   */
  async #stillToAdd(units: readonly WorkUnitInput[], sentAt: number): Promise<number[]> {
    const { coordinate, ns, workSpec } = this.#target;
    const names = units.map(({ name }) => name);
    const rows = await coordinate.getWorkUnits(ns, workSpec, names);
    // with `refuse`, a unit that exists now may have been added by this chunk
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

/** Whether the server refused the content of the units: then some of them may be valid. A missing work spec is not about the units. */
const isAboutUnits = (error: unknown): error is CoordinateError =>
  error instanceof CoordinateError && error.status < 500 && error.status !== 404 && error.status !== 410;
