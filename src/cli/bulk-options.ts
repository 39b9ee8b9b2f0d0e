/** The shared options of commands that read units in bulk. */
import { createHash, randomUUID } from "node:crypto";
import { accessSync, constants, mkdirSync, realpathSync } from "node:fs";
import { homedir } from "node:os";
import path from "node:path";
import {
  columnTargets,
  findFormat,
  formats,
  Journal,
  loadUnits,
  openSource,
  readEntries,
  readMapping,
  standardInput,
  type BadEntry,
  type Entries,
  type Format,
  type FormatOptions,
  type LoadResult,
  type Source,
} from "../bulk/index.ts";
import { reasonOf } from "../config/index.ts";
import { conflictPolicies, type ConflictPolicy } from "../core/index.ts";
import { repeated, type Command } from "./command.ts";
import type { Context } from "./context.ts";
import { quote, show } from "./escape.ts";
import { CommandError, UsageError } from "./failure.ts";
import { Progress } from "./progress.ts";
import { count, counted, duration, rate, readCount } from "./units.ts";

export interface BulkOptions {
  workUnits?: string;
  format?: string;
  column?: string[];
  delimiter?: string;
  /** False: `--no-header`. */
  header?: boolean;
  batch?: string;
  inBatch?: string;
  label?: string[];
  inFlight?: string;
  keepGoing?: boolean;
  onConflict?: string;
  resume?: boolean;
  restart?: boolean;
  /** False: `--no-journal`. */
  journal?: string | boolean;
  quiet?: boolean;
}

export function defineBulk(command: Command): Command {
  return command
    .option("-u, --work-units <file>", "file of units, - for standard input; .gz and .zst are decompressed")
    .option("--format <format>", `${formats.join(", ")}; detected if not given`)
    .option(
      "--column <target=column>",
      `CSV and lines of JSON: ${columnTargets} = COLUMN[:TYPE]; may be repeated`,
      repeated,
    )
    .option("--delimiter <text>", "CSV: field separator, \\t for a tab (default: a comma)")
    .option("--no-header", "CSV: the first record is a unit, not a header; columns are numbered from 1")
    .option("--batch <n>", "units per request (default: 1000)")
    .option("--in-flight <n>", "concurrent requests (default: 4)")
    .option("--in-batch <name>", "put the units into this batch, unless their line names another")
    .option("--label <label>", "give the units this label; may be repeated", repeated)
    .option("--keep-going", "skip bad lines and report them")
    .option(
      "--on-conflict <policy>",
      `what to do with a unit that exists: ${conflictPolicies.join(", ")} (default: update)`,
    )
    .option("--resume", "continue where an earlier load of this input stopped")
    .option("--restart", "start over, although an earlier load of this input was interrupted")
    .option(
      "--journal <file>",
      "file that records the progress of the load (default: in the user's state directory)",
    )
    .option("--no-journal", "do not record progress; the load cannot be resumed")
    .option("-q, --quiet", "show no progress");
}

/** The path of a state file that is only a convenience for the user: a journal or a manifest. */
export function stateFile(env: Context["env"], kind: string, identity: string): string {
  const home = env.XDG_STATE_HOME ?? path.join(env.HOME ?? homedir(), ".local", "state");
  const hash = createHash("sha256").update(identity).digest("hex").slice(0, 24);
  return path.join(home, "coordinate", kind, hash);
}

/** Fails before anything is sent when a state file cannot be written, as in a container with a read-only file system. */
export function requireWritable(file: string, instead: string): string {
  const folder = path.dirname(path.resolve(file));
  try {
    mkdirSync(folder, { recursive: true, mode: 0o700 });
    accessSync(folder, constants.W_OK);
  } catch (error) {
    throw new CommandError(`${show(file)}: ${reasonOf(error)}`, instead);
  }
  return file;
}

export interface BulkInput {
  source: Source;
  format: Format;
  formatOptions: FormatOptions;
  /** Identifies the input: the same from any working directory. */
  identity: string;
}

export async function openInput(context: Context, options: BulkOptions): Promise<BulkInput> {
  const { workUnits: file } = options;
  if (file === undefined) throw new UsageError("no input given: use -u FILE, or -u - for standard input");
  const given = formats.find((one) => one === options.format);
  if (options.format !== undefined && given === undefined)
    throw new UsageError(`--format: expected one of ${formats.join(", ")}, got ${options.format}`);
  const { column, delimiter, header } = options;
  const source = openSource(file, context.session.streams.stdin);
  const csv = {
    ...(column !== undefined && { mapping: column.map(readMapping) }),
    ...(delimiter !== undefined && { delimiter: delimiter === "\\t" ? "\t" : delimiter }),
    ...(header === false && { header }),
  };
  return {
    source,
    format: given ?? (await findFormat(source)),
    formatOptions: { csv, env: context.env },
    identity: file === "-" ? "-" : realpathSync(file),
  };
}

/** The name of an input in a sentence. */
export const quoteSource = (name: string): string => (name === standardInput ? name : quote(name));

/** Counts bad lines and prints the first 20. */
export class BadLines {
  readonly #context: Context;
  readonly #name: string;
  #count = 0;

  constructor(context: Context, name: string) {
    this.#context = context;
    this.#name = name;
  }

  readonly add = ({ line, problem }: BadEntry): void => {
    this.#count += 1;
    if (this.#count <= 20) this.#context.out.remark(show(`${this.#name}:${line}: ${problem}`));
    else if (this.#count === 21) this.#context.out.remark("… and more");
  };
}

/** Loads units into an existing work spec, with a progress bar, a journal and a closing report. */
export async function runLoad(context: Context, workSpec: string, options: BulkOptions): Promise<LoadResult> {
  const onConflict = readConflict(options);
  const { coordinate, ns } = await context.work();
  const { where } = await context.opened();
  const input = await openInput(context, options);
  const { source, format, formatOptions } = input;
  try {
    const { inBatch, label = [] } = options;
    const settings = JSON.stringify([
      format,
      formatOptions.csv,
      ...(inBatch !== undefined || label.length > 0 ? [inBatch, label] : []),
    ]);
    const journal = openJournal(context, options, input, JSON.stringify([where, ns, workSpec]), settings);
    const from = journal?.mark.position ?? 0;
    let units = journal?.mark.units ?? 0;
    let bytes = 0;
    const progress = new Progress(
      context,
      path.basename(source.name),
      () => ({ value: bytes, total: source.size, units }),
      options.quiet === true || context.quiet,
    );
    const bad = new BadLines(context, source.name);
    let result: LoadResult;
    try {
      result = await loadUnits(
        { coordinate, ns, workSpec },
        withLabels(readEntries(source, format, { ...formatOptions, ...(from > 0 && { from }) }), options),
        {
          name: source.name,
          load: randomUUID(),
          clock: { now: () => Date.now() },
          signal: context.signal,
          keepGoing: options.keepGoing === true,
          onConflict,
          onBad: bad.add,
          bytesRead: () => source.bytesRead(),
          onProgress: (made) => {
            units = made.units;
            bytes = made.bytes;
          },
          ...(options.batch !== undefined && { batchUnits: readCount(options.batch, "--batch", 1) }),
          ...(options.inFlight !== undefined && { inFlight: readCount(options.inFlight, "--in-flight", 1) }),
          ...(journal !== null && { journal }),
        },
      );
    } catch (error) {
      progress.stop();
      journal?.close();
      throw journal === null ? error : resumable(error, units);
    }
    progress.stop();
    if (result.complete) journal?.remove();
    else journal?.close();
    report(context, source.name, result, onConflict, progress.seconds);
    return result;
  } finally {
    source.close();
  }
}

/** Adds the batch and the labels of the command line to the units. */
async function* withLabels(entries: Entries, { inBatch, label = [] }: BulkOptions): Entries {
  for await (const some of entries)
    yield some.map((entry) => ({
      ...entry,
      units: entry.units.map((unit) => ({
        ...(inBatch !== undefined && { batch: inBatch }),
        ...unit,
        ...(label.length > 0 && { labels: [...(unit.labels ?? []), ...label] }),
      })),
    }));
}

function openJournal(
  context: Context,
  options: BulkOptions,
  { source, identity }: BulkInput,
  target: string,
  settings: string,
): Journal | null {
  if (options.journal === false) {
    if (options.resume === true) throw new UsageError("--resume needs a journal: remove --no-journal");
    return null;
  }
  const file =
    typeof options.journal === "string"
      ? options.journal
      : stateFile(context.env, "loads", JSON.stringify([identity, target]));
  requireWritable(
    file,
    "use --journal FILE to record the progress elsewhere, or --no-journal to load without --resume",
  );
  const header = {
    load: randomUUID(),
    input: identity,
    target,
    options: settings,
    batchUnits: options.batch === undefined ? 1000 : readCount(options.batch, "--batch", 1),
    batchBytes: 1024 * 1024,
    started: Date.now(),
  };
  if (options.restart === true) return Journal.begin(file, header);
  const before = Journal.read(file);
  if (before === null) return Journal.begin(file, header);
  const units = counted(before.mark.units, "unit");
  if (options.resume !== true)
    throw new CommandError(
      `${show(source.name)}: an earlier load of this input stopped after ${units}`,
      "--resume continues from there; --restart starts over and makes finished units available again",
    );
  if (before.header.target !== target)
    throw new CommandError(`${file}: this journal belongs to a load into another work spec or server`);
  if (before.header.options !== settings)
    throw new CommandError(
      `${file}: the earlier load read its input with other options (--format, --column, --in-batch, --label)`,
    );
  context.out.remark(`${show(source.name)}: continuing after ${units}`);
  return before;
}

/** Adds a hint to use `--resume` when some units were stored. */
function resumable(error: unknown, units: number): unknown {
  if (units === 0 || !(error instanceof Error)) return error;
  return new CommandError(error.message, `${counted(units, "unit")} stored; --resume continues from there`, {
    cause: error,
  });
}

function readConflict({ onConflict = "update" }: BulkOptions): ConflictPolicy {
  const policy = conflictPolicies.find((one) => one === onConflict);
  if (policy === undefined)
    throw new UsageError(`--on-conflict: expected one of ${conflictPolicies.join(", ")}, got ${onConflict}`);
  return policy;
}

function report(
  context: Context,
  name: string,
  result: LoadResult,
  onConflict: ConflictPolicy,
  seconds: number,
): void {
  const { units, created, bad, resumed, complete } = result;
  const existed = units - created;
  const isLeft = onConflict === "ignore";
  const { out } = context;
  if (out.json) {
    out.printJson({
      units,
      created,
      replaced: isLeft ? 0 : existed,
      ignored: isLeft ? existed : 0,
      bad,
      resumed,
      complete,
      seconds: Math.round(seconds * 1000) / 1000,
    });
    return;
  }
  const parts = [
    `${count(created)} new`,
    ...(existed > 0 ? [`${count(existed)} ${isLeft ? "left unchanged" : "replaced"}`] : []),
    ...(bad > 0 ? [counted(bad, "bad line")] : []),
    ...(resumed > 0 ? [`${count(resumed)} loaded earlier`] : []),
  ];
  const speed = seconds > 0 && units > resumed ? `, ${rate((units - resumed) / seconds)}` : "";
  out.line(
    `${complete ? "" : "interrupted: "}${counted(units, "unit")} from ${quoteSource(name)}: ${parts.join(", ")}; ${duration(seconds * 1000)}${speed}`,
  );
  if (!complete) out.remark("--resume continues from there");
}
