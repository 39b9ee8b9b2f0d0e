/**
 * Imports what `export` wrote, in constant memory.
 *
 * During the import the work specs are paused, have no `then` and generate no units: no worker claims a unit before the other
 * units are there, and finishing imported units makes no new work. At the end the work specs get their real settings. After an
 * interruption they stay paused; importing the same file again completes the import.
 *
 * Waiting units wait again. Pending units become available, because their leases belonged to another server. Ended units are
 * ended again, by an attempt of the worker that had ended them; older attempts are not imported. Dependencies are kept for units
 * that still wait for them, and queues for units that have not ended, whose messages were not written.
 *
 * A batch that had ended is sealed while it is empty and has no `then`: it ends at once, and no unit that joins it makes it end
 * again. The other batches get their settings after all units are there.
 */
import { closeSync, createReadStream, mkdtempSync, openSync, rmSync, writeSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { isDeepStrictEqual } from "node:util";
import {
  decodeData,
  encodeData,
  endsNow,
  givenReasons,
  newBatch,
  readLines,
  readWorkSpec,
  settableMeta,
  type BatchInput,
  type BatchThen,
  type Coordinate,
  type Data,
  type DependencyInput,
  type GivenReason,
  type NamespaceSettings,
  type SharedLimitInput,
  type WorkSpecMeta,
  type WorkUnitInput,
  type WorkUnitStatus,
  workUnitStatuses,
  CoordinateError,
} from "../core/index.ts";
import { isMapping } from "../config/index.ts";
import { readWire, writeLine } from "../rest/wire.ts";
import { BulkError } from "./bulk-error.ts";
import { exportVersion, type ExportCounts } from "./export.ts";

export interface ImportOptions {
  /** For messages: the name of the input. */
  name: string;
  /** Allows work specs that already exist: they are replaced, and the units are added to the existing ones. */
  merge?: boolean;
  onProgress?: (counts: ExportCounts) => void;
  signal?: AbortSignal;
}

interface SpecLine {
  name: string;
  data: Data;
  meta: Partial<WorkSpecMeta>;
}

interface BatchLine {
  name: string;
  sealed: boolean;
  total: number;
  /** When it ended; 0 if it had not. */
  done: number;
  then: BatchThen | null;
  parent: string | null;
}

export interface ImportResult extends ExportCounts {
  /** What the file has and the import did not restore: a sentence each. */
  leftOut: string[];
}

interface UnitLine {
  spec: string;
  input: WorkUnitInput;
  /** The status that the unit must get. */
  status: WorkUnitStatus;
  reason: GivenReason;
  worker: string;
  line: number;
}

const unlimited = { maxBytes: Infinity, maxDepth: 1024 };
const chunkUnits = 1000;
const chunkBytes = 1024 * 1024;

/** Returns the counts of what was imported. Throws a `BulkError` that names the line. */
export async function importLines(
  coordinate: Coordinate,
  ns: string,
  chunks: AsyncIterable<Buffer>,
  options: ImportOptions,
): Promise<ImportResult> {
  return new Import(coordinate, ns, options).run(chunks);
}

class Import {
  readonly #coordinate: Coordinate;
  readonly #ns: string;
  readonly #options: ImportOptions;
  readonly #specs = new Map<string, SpecLine>();
  readonly #counts: ExportCounts = { specs: 0, units: 0, attempts: 0 };
  readonly #batches = new Map<string, BatchLine>();
  /** Batches whose lines were read last, not begun yet. */
  #newBatches: BatchLine[] = [];
  readonly #left = { attempts: 0, queues: 0, reasons: 0, members: 0 };
  readonly #notes: string[] = [];
  #begun = false;
  #ended = false;
  #chunk: UnitLine[] = [];
  #size = 0;
  /** Units with dependencies. They are spooled to disk, and added after all other units. */
  readonly #waiting = new Spool();

  constructor(coordinate: Coordinate, ns: string, options: ImportOptions) {
    this.#coordinate = coordinate;
    this.#ns = ns;
    this.#options = options;
  }

  async run(chunks: AsyncIterable<Buffer>): Promise<ImportResult> {
    try {
      return await this.#read(chunks);
    } finally {
      this.#waiting.close();
    }
  }

  async #read(chunks: AsyncIterable<Buffer>): Promise<ImportResult> {
    for await (const lines of readLines(chunks))
      for (const { text, number } of lines) {
        this.#options.signal?.throwIfAborted();
        if (text.trim() !== "") await this.#line(text, number);
      }
    if (!this.#begun)
      throw new BulkError(`${this.#options.name}: the input is empty; expected a file written by export`);
    if (!this.#ended)
      throw new BulkError(
        `${this.#options.name}: the input is incomplete, its last line is missing; what was read is stored, and its work specs are paused`,
      );
    return { ...this.#counts, leftOut: this.#leftOut() };
  }

  #leftOut(): string[] {
    const { attempts, queues, reasons, members } = this.#left;
    return [
      ...(attempts > 0 ? [`older attempts, which no longer count as tries: ${attempts}`] : []),
      ...(queues > 0 ? [`queues of units that had ended: ${queues}`] : []),
      ...(reasons > 0 ? [`reasons of failed units, now error: ${reasons}`] : []),
      ...(members > 0 ? [`members of batches that had been deleted: ${members}`] : []),
      ...this.#notes,
    ];
  }

  async #line(text: string, number: number): Promise<void> {
    const where = `${this.#options.name}:${number}`;
    let line: unknown;
    try {
      line = readWire(text, unlimited);
    } catch (error) {
      const reason = error instanceof Error ? error.message : String(error);
      throw new BulkError(`${where}: ${this.#begun ? reason : "expected a file written by export"}`);
    }
    if (!isMapping(line)) throw new BulkError(`${where}: expected an object`);
    const { kind } = line;
    if (!this.#begun) {
      if (kind !== "export") throw new BulkError(`${where}: expected a file written by export`);
      if (line.version !== exportVersion)
        throw new BulkError(`${where}: unknown version ${String(line.version)}; expected ${exportVersion}`);
      this.#begun = true;
    } else if (this.#ended) throw new BulkError(`${where}: unexpected line after the end of the export`);
    else if (kind === "batch") this.#batch(line, where);
    else await this.#other(line, where, number);
  }

  async #other(line: Record<string, unknown>, where: string, number: number): Promise<void> {
    const { kind } = line;
    await this.#beginBatches();
    if (kind === "namespace") await this.#namespace(line, where);
    else if (kind === "limit") await this.#limit(line, where);
    else if (kind === "spec") await this.#spec(line, where);
    else if (kind === "unit") await this.#unit(line, where, number);
    else if (kind === "end") await this.#end(line, where);
    else if (kind !== "attempt") throw new BulkError(`${where}: unknown kind ${String(kind)}`);
  }

  async #namespace({ policy, share }: Record<string, unknown>, where: string): Promise<void> {
    const { settings } = await this.#coordinate.getNamespace(this.#ns);
    if (settings.policy === policy && settings.share === share) return;
    const { rows } = await this.#coordinate.listWorkSpecs(this.#ns, { limit: 1 });
    if (rows.length > 0 && this.#options.merge !== true)
      this.#notes.push("policy and share of the namespace, which has work specs already; --merge sets them");
    else
      await atLine(where, () =>
        this.#coordinate.setNamespace(this.#ns, { policy, share } as Partial<NamespaceSettings>),
      );
  }

  async #limit({ kind: _kind, ...limit }: Record<string, unknown>, where: string): Promise<void> {
    const { name, maxRunning, rate } = limit as unknown as Required<SharedLimitInput>;
    const stored = (await this.#coordinate.listLimits(this.#ns)).find((one) => one.name === name);
    const isSame = stored?.maxRunning === maxRunning && isDeepStrictEqual(stored.rate, rate);
    if (stored !== undefined && !isSame && this.#options.merge !== true)
      throw new BulkError(`${where}: limit ${name} already exists; use --merge to replace it`);
    if (!isSame)
      await atLine(where, () => this.#coordinate.setLimits(this.#ns, [{ name, maxRunning, rate }]));
  }

  #batch(line: Record<string, unknown>, where: string): void {
    const { name, sealed, total, done, then = null, parent = null } = line as Partial<BatchLine>;
    if (
      typeof name !== "string" ||
      typeof sealed !== "boolean" ||
      typeof total !== "number" ||
      typeof done !== "number"
    )
      throw new BulkError(`${where}: expected name, sealed, total and done of a batch`);
    this.#newBatches.push({ name, sealed, total, done, then, parent });
  }

  /** Creates the batches that had ended. The others are created by their first unit. */
  async #beginBatches(): Promise<void> {
    const batches = this.#newBatches;
    this.#newBatches = [];
    for (const some of slices(batches)) {
      const stored = await this.#coordinate.getBatches(this.#ns, some.map(nameOf));
      const ended: BatchInput[] = [];
      some.forEach((batch, i) => {
        const row = stored[i] ?? null;
        if (row !== null && this.#options.merge !== true)
          throw new BulkError(
            `${this.#options.name}: batch ${batch.name} already exists; use --merge to add units to it`,
          );
        if (row !== null && batch.done > 0 && row.doneTime === 0)
          this.#notes.push(`batch ${batch.name}: it exists and has not ended; its settings were kept`);
        else {
          this.#batches.set(batch.name, batch);
          if (row === null && batch.done > 0) ended.push({ name: batch.name, sealed: true });
        }
      });
      if (ended.length > 0) await this.#coordinate.setBatches(this.#ns, ended);
    }
  }

  /** Gives the batches their settings. A batch that had not ended is left open if sealing it would end it now. */
  async #endBatches(): Promise<void> {
    const batches = [...this.#batches.values()];
    for (const some of slices(batches.filter(({ parent }) => parent !== null)))
      await this.#coordinate.setBatches(
        this.#ns,
        some.map(({ name, parent }) => ({ name, ...(parent !== null && { parent }) })),
      );
    for (const some of slices(batches)) {
      const stored = await this.#coordinate.getBatches(this.#ns, some.map(nameOf));
      const inputs = some.map(({ name, sealed, total, done, then }, i) => {
        const row = stored[i] ?? newBatch(name, 0);
        const tooEarly = done === 0 && endsNow({ ...row, sealed, then });
        if (tooEarly)
          this.#notes.push(`batch ${name}: not sealed, because all its units in the file have ended`);
        this.#left.members += Math.max(0, total - row.total);
        return { name, then, sealed: tooEarly ? row.sealed : sealed };
      });
      await this.#coordinate.setBatches(this.#ns, inputs);
    }
  }

  async #spec(line: Record<string, unknown>, where: string): Promise<void> {
    const { name, data, meta } = line;
    if (typeof name !== "string" || !isData(data) || !isMapping(meta))
      throw new BulkError(`${where}: expected name, data and meta of a work spec`);
    const [stored = null] = await this.#coordinate.getWorkSpecs(this.#ns, [name]);
    if (stored !== null && this.#options.merge !== true)
      throw new BulkError(
        `${where}: work spec ${name} already exists; use --merge to replace it and add the units`,
      );
    this.#specs.set(name, { name, data, meta });
    const {
      then: _then,
      continuous: _continuous,
      // all units of the file are added, and their failures are not those of this time
      max_waiting: _max,
      breaker: _breaker,
      ...rest
    } = decodeData(data, { precise: true });
    await this.#coordinate.setWorkSpecs(this.#ns, [{ name, data: encodeData({ ...rest, disabled: true }) }], {
      lenient: true,
    });
  }

  async #unit(line: Record<string, unknown>, where: string, number: number): Promise<void> {
    const { spec, name, status, data, priority, notBefore, worker, dependencies, partition } = line;
    const { deadline, expires, attempts, reason, labels, queues, maxRetries, retry } = line;
    const isStatus = workUnitStatuses.find((one) => one === status);
    if (
      typeof spec !== "string" ||
      typeof name !== "string" ||
      isStatus === undefined ||
      !(data === null || isData(data))
    )
      throw new BulkError(`${where}: expected spec, name, status and data of a unit`);
    if (!this.#specs.has(spec))
      throw new BulkError(`${where}: the line of the work spec ${spec} must come before its units`);
    const hasEnded = isStatus === "finished" || isStatus === "failed";
    const isKnown = givenReasons.find((one) => one === reason);
    if (typeof attempts === "number") this.#left.attempts += attempts - (hasEnded ? 1 : 0);
    if (hasEnded && queues !== undefined) this.#left.queues += 1;
    if (reason !== undefined && isKnown === undefined) this.#left.reasons += 1;
    const unit: UnitLine = {
      spec,
      status: isStatus,
      reason: isKnown ?? "error",
      // the attempt of a unit that never ran has no worker
      worker: typeof worker === "string" && worker !== "" ? worker : "import",
      line: number,
      input: {
        name,
        data,
        ...(typeof priority === "number" && { priority }),
        ...(typeof notBefore === "number" && { notBefore }),
        ...(typeof partition === "string" && { partition }),
        ...(typeof deadline === "number" && { deadline }),
        // an ended unit gets no `expires`: it might expire and fail before it is settled
        ...(typeof expires === "number" && !hasEnded && { expires }),
        ...(Array.isArray(labels) && { labels: labels as string[] }),
        // the message of an ended unit was written when it ended
        ...(Array.isArray(queues) && !hasEnded && { queues: queues as string[] }),
        ...(typeof maxRetries === "number" && { maxRetries }),
        ...(isMapping(retry) && { retry }),
      },
    };
    if (isStatus === "blocked" && Array.isArray(dependencies)) {
      unit.input.dependencies = (dependencies as Required<DependencyInput>[]).map(
        ({ workSpec, workUnit, kind }) => ({ workSpec, workUnit, kind }),
      );
      this.#waiting.add(unit);
      return;
    }
    if (this.#chunk[0] !== undefined && this.#chunk[0].spec !== spec) await this.#flush();
    this.#chunk.push(unit);
    this.#size += data?.length ?? 0;
    if (this.#chunk.length >= chunkUnits || this.#size >= chunkBytes) await this.#flush();
  }

  async #flush(): Promise<void> {
    const units = this.#chunk;
    this.#chunk = [];
    this.#size = 0;
    const first = units[0];
    if (first === undefined) return;
    await this.#add(first.spec, units);
    this.#counts.units += units.length;
    this.#options.onProgress?.({ ...this.#counts });
  }

  async #add(spec: string, units: readonly UnitLine[]): Promise<void> {
    const inputs = units.map(({ input }) => input);
    await atLine(`${this.#options.name}: lines ${units[0]?.line ?? 0} to ${units.at(-1)?.line ?? 0}`, () =>
      this.#coordinate.addWorkUnits(this.#ns, spec, inputs),
    );
    const ended = units.filter(({ status }) => status === "finished" || status === "failed");
    if (ended.length === 0) return;
    const workers = [...new Set(ended.map(({ worker }) => worker))];
    const known = await this.#coordinate.getWorkers(this.#ns, workers);
    const attempts = await this.#coordinate.makeAttempts(
      this.#ns,
      ended.map(({ input, worker }) => ({ workSpec: spec, workUnit: input.name, worker })),
    );
    await this.#coordinate.settleAttempts(
      this.#ns,
      attempts.map(({ id }, i) =>
        ended[i]?.status === "failed"
          ? { attempt: id, action: "fail", reason: ended[i].reason }
          : { attempt: id, action: "finish" },
      ),
    );
    // an attempt registers its worker as active; these do not run here
    const made = workers.filter((_, i) => (known[i] ?? null) === null);
    if (made.length > 0)
      await this.#coordinate.updateWorkers(
        this.#ns,
        made.map((name) => ({ name, active: false })),
      );
    this.#counts.attempts += attempts.length;
  }

  /** Adds the units with dependencies in rounds: each round adds the units whose dependencies exist by now. */
  async #addWaiting(): Promise<void> {
    for (let left = this.#waiting.count; left > 0; left = this.#waiting.count) {
      let stuck: UnitLine | null = null;
      for await (const unit of this.#waiting.takeAll()) {
        try {
          await this.#coordinate.addWorkUnits(this.#ns, unit.spec, [unit.input]);
          this.#counts.units += 1;
        } catch (error) {
          if (!(error instanceof CoordinateError) || error.code !== "bad_dependency") throw error;
          this.#waiting.add(unit);
          stuck ??= unit;
        }
      }
      if (stuck !== null && this.#waiting.count === left)
        throw new BulkError(
          `${this.#options.name}:${stuck.line}: ${stuck.input.name} depends on a unit that does not exist`,
        );
    }
  }

  /**
   * Completes the import: gives the work specs their real data, then their metadata. In between they stay paused, so that no unit is
   * claimed from a work spec that was paused or limited by hand.
   */
  async #end(line: Record<string, unknown>, where: string): Promise<void> {
    await this.#flush();
    await this.#addWaiting();
    this.#ended = true;
    if (line.units !== this.#counts.units)
      throw new BulkError(`${where}: expected ${String(line.units)} units, got ${this.#counts.units}`);
    await this.#endBatches();
    const specs = [...this.#specs.values()];
    if (specs.length > 0)
      await this.#coordinate.setWorkSpecs(
        this.#ns,
        specs.map(({ name, data }) => ({ name, data })),
        { lenient: true, keepMeta: true },
      );
    for (const { name, data, meta } of specs) {
      const real = { ...readWorkSpec(data, true).meta, ...meta };
      await this.#coordinate.setWorkSpecMeta(this.#ns, name, settableMeta(real));
      this.#counts.specs += 1;
    }
  }
}

const nameOf = ({ name }: { name: string }): string => name;

function* slices<Item>(items: readonly Item[]): Generator<Item[]> {
  for (let at = 0; at < items.length; at += chunkUnits) yield items.slice(at, at + chunkUnits);
}

/** Says where in the file the server found an error. */
async function atLine<Answer>(where: string, call: () => Promise<Answer>): Promise<Answer> {
  try {
    return await call();
  } catch (error) {
    if (!(error instanceof CoordinateError) || error.status >= 500) throw error;
    throw new BulkError(`${where}: ${error.message}`, { cause: error });
  }
}

/** Units that are spooled to disk, in the order in which they were added. */
class Spool {
  count = 0;
  #directory: string | null = null;
  #fd: number | null = null;
  #files = 0;

  add(unit: UnitLine): void {
    this.#directory ??= mkdtempSync(path.join(tmpdir(), "coordinate-import-"));
    this.#fd ??= openSync(this.#file(), "w", 0o600);
    // data is written verbatim in a member called `data`
    const { data, ...input } = unit.input;
    writeSync(this.#fd, writeLine({ ...unit, input, data }));
    this.count += 1;
  }

  /** Yields the units that were added so far. Units that are added meanwhile are left for the next call. */
  async *takeAll(): AsyncGenerator<UnitLine> {
    if (this.#fd === null) return;
    const file = this.#file();
    closeSync(this.#fd);
    this.#fd = null;
    this.#files += 1;
    this.count = 0;
    for await (const lines of readLines(createReadStream(file)))
      for (const { text } of lines) {
        if (text === "") continue;
        const { data, ...unit } = readWire(text, unlimited) as UnitLine & { data: Data | null };
        yield { ...unit, input: { ...unit.input, data } };
      }
    rmSync(file);
  }

  close(): void {
    if (this.#fd !== null) closeSync(this.#fd);
    this.#fd = null;
    if (this.#directory !== null) rmSync(this.#directory, { recursive: true, force: true });
  }

  #file(): string {
    return path.join(this.#directory ?? "", `${this.#files}.jsonl`);
  }
}

const isData = (value: unknown): value is Data => typeof value === "string" || value instanceof Uint8Array;
