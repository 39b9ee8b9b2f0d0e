/** `coordinate export`: a namespace or some work specs as lines of JSON. */
import { createWriteStream, renameSync, rmSync } from "node:fs";
import type { Writable } from "node:stream";
import { createGzip } from "node:zlib";
import { exportLines } from "../../bulk/index.ts";
import { reasonOf } from "../../config/index.ts";
import { workUnitStatuses, type WorkUnitStatus } from "../../core/index.ts";
import { command, repeated } from "../command.ts";
import type { Context } from "../context.ts";
import { quote } from "../escape.ts";
import { CommandError, exit, UsageError } from "../failure.ts";
import { Progress } from "../progress.ts";
import { defineSelecting, readSelecting, showCount, type SelectingOptions } from "../selecting.ts";
import { counted } from "../units.ts";

interface Options extends SelectingOptions {
  workSpecName?: string[];
  output?: string;
  status?: string[];
  attempts?: boolean;
  specsOnly?: boolean;
  quiet?: boolean;
}

export default command<Options>({
  define: (it) => {
    defineSelecting(it)
      .option("-W, --work-spec-name <name>", "only this work spec; may be repeated", repeated)
      .option(
        "-o, --output <file>",
        "write to this file, - for standard output; compressed if it ends in .gz",
      )
      .option(
        "-s, --status <status>",
        `only units with this status: ${workUnitStatuses.join(", ")}; may be repeated`,
        repeated,
      )
      .option("--attempts", "include all attempts of each unit")
      .option("--specs-only", "export work specs without their units")
      .option("-q, --quiet", "show no progress");
  },
  run: async (context, { options }) => {
    const { coordinate, ns } = await context.work();
    const statuses = options.status?.map(readStatus);
    const selected = readSelecting(options);
    const total = (await coordinate.tally(ns))
      .filter(({ workSpec }) => options.workSpecName?.includes(workSpec) ?? true)
      .flatMap(({ counts }) => Object.entries(counts))
      .filter(([status]) => statuses?.includes(status as WorkUnitStatus) ?? true)
      .reduce((sum, [, one]) => sum + one, 0);
    if (Object.keys(selected).length > 0)
      for (const name of options.workSpecName ?? [])
        await showCount(context, name, { ...selected, ...(statuses && { statuses }) });
    let units = 0;
    const lines = exportLines(coordinate, ns, {
      ...(options.workSpecName !== undefined && { workSpecs: options.workSpecName }),
      query: {
        ...(statuses !== undefined && { statuses }),
        ...selected,
      },
      attempts: options.attempts === true,
      specsOnly: options.specsOnly === true,
      now: Date.now(),
      onProgress: (counts) => (units = counts.units),
    });
    if (options.output === undefined || options.output === "-") {
      await writeAll(lines, context.out.stream, context);
      return exit.done;
    }
    const state = () => ({ value: units, total, units });
    const progress = new Progress(context, options.output, state, options.quiet === true);
    try {
      await writeFile(options.output, lines, context);
    } finally {
      progress.stop();
    }
    if (context.out.json) context.out.printJson({ units });
    else context.out.line(`${counted(units, "unit")} in ${quote(options.output)}`);
    return exit.done;
  },
});

function readStatus(text: string): WorkUnitStatus {
  const status = workUnitStatuses.find((one) => one === text);
  if (status === undefined)
    throw new UsageError(`--status: expected one of ${workUnitStatuses.join(", ")}, got ${text}`);
  return status;
}

/** Writes to a temporary file and renames it, so that a file with this name is always complete. */
async function writeFile(file: string, lines: AsyncIterable<string>, context: Context): Promise<void> {
  const next = `${file}.new`;
  const stream = createWriteStream(next, { mode: 0o600 });
  // a stream emits `error` before `close`
  const failed = new Promise<never>((_, reject) => {
    stream.once("error", (error) => reject(new CommandError(`${file}: ${reasonOf(error)}`)));
  });
  const closed = new Promise<void>((resolve) => {
    stream.once("close", () => resolve());
  });
  // awaited below; a failure before that must not end the process
  failed.catch(() => undefined);
  try {
    let to: Writable = stream;
    if (/\.gz$/i.test(file)) {
      const gzip = createGzip();
      gzip.pipe(stream);
      to = gzip;
    }
    await Promise.race([writeAll(lines, to, context), failed]);
    to.end();
    await Promise.race([failed, closed]);
    renameSync(next, file);
  } catch (error) {
    stream.destroy();
    rmSync(next, { force: true });
    throw error;
  }
}

async function writeAll(lines: AsyncIterable<string>, to: Writable, context: Context): Promise<void> {
  for await (const text of lines) {
    if (context.signal.aborted) throw new CommandError("interrupted");
    if (!to.write(text)) await drained(to);
  }
}

const drained = (to: Writable): Promise<void> =>
  new Promise((resolve) => {
    to.once("drain", () => resolve());
  });
