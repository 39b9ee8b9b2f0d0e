/** `coordinate addwork`: adds units to a work spec, from a file of any length. */
import path from "node:path";
import { readEntries, syncUnits, type SyncResult } from "../../bulk/index.ts";
import {
  BadLines,
  defineBulk,
  openInput,
  quoteSource,
  requireWritable,
  runLoad,
  stateFile,
  type BulkOptions,
} from "../bulk-options.ts";
import { command } from "../command.ts";
import type { Context } from "../context.ts";
import { CommandError, exit, UsageError } from "../failure.ts";
import { defineNaming, readOneSpec, requireWorkSpec, type NamingOptions } from "../naming.ts";
import { Progress } from "../progress.ts";
import { count, counted } from "../units.ts";

interface Options extends BulkOptions, NamingOptions {
  sync?: boolean;
  prune?: boolean;
  dryRun?: boolean;
  manifest?: string;
  yes?: boolean;
}

export default command<Options>({
  define: (it) => {
    defineBulk(defineNaming(it))
      .option("--sync", "treat the input as the full list: add new and changed units, leave the others alone")
      .option("--prune", "with --sync: delete units that are not in the list")
      .option("--dry-run", "with --sync: print what would change, and change nothing")
      .option(
        "--manifest <file>",
        "with --sync: file that records the last list (default: in the user's state directory)",
      )
      .option("-y, --yes", "with --prune: delete all units when the list is empty")
      .addHelpText("after", forms);
  },
  run: async (context, { args, options }) => {
    const workSpec = await readOneSpec(args, options);
    if (options.sync !== true && (options.prune === true || options.dryRun === true))
      throw new UsageError("--prune and --dry-run need --sync");
    await requireWorkSpec(context, workSpec);
    if (options.sync === true) return runSync(context, workSpec, options);
    const { bad, complete } = await runLoad(context, workSpec, options);
    return bad > 0 || !complete ? exit.failed : exit.done;
  },
});

const forms = `
A line of JSON has one of these forms:
  {"name": "u1", "data": {"url": "…"}, "priority": 5, "delay": 60,
   "partition": "tenant-1"}
  {"u1": {"url": "…"}, "u2": {}}                  several units by name
  ["u1", {"url": "…"}, {"priority": 5}]
  "u1"
Empty lines and lines that begin with # are skipped. Adding a unit that exists replaces its data; one that was
finished or failed becomes available again. --on-conflict changes this: replace also takes a running unit from
its worker, data keeps priority and delay, ignore leaves the unit alone, refuse treats the line as bad.`;

async function runSync(context: Context, workSpec: string, options: Options): Promise<number> {
  if (options.resume === true || options.restart === true)
    throw new UsageError(
      "--resume and --restart do not apply to --sync: a second run adds only what is missing",
    );
  if (options.onConflict !== undefined)
    throw new UsageError("--on-conflict does not apply to --sync, which compares existing units itself");
  if (options.inBatch !== undefined || options.label !== undefined)
    throw new UsageError("--in-batch and --label do not apply to --sync, which leaves unchanged units alone");
  const { coordinate, ns } = await context.work();
  const { where } = await context.opened();
  const manifest =
    options.manifest ?? stateFile(context.env, "manifests", JSON.stringify([where, ns, workSpec]));
  if (options.dryRun !== true) requireWritable(manifest, "use --manifest FILE to record the list elsewhere");
  const input = await openInput(context, options);
  const { source, format, formatOptions } = input;
  let listed = 0;
  const progress = new Progress(
    context,
    path.basename(source.name),
    () => ({ value: source.bytesRead(), total: source.size, units: listed }),
    options.quiet === true || context.quiet,
  );
  try {
    const result = await syncUnits({ coordinate, ns, workSpec }, readEntries(source, format, formatOptions), {
      name: source.name,
      manifest,
      prune: options.prune === true,
      allowEmpty: options.yes === true,
      dryRun: options.dryRun === true,
      keepGoing: options.keepGoing === true,
      onBad: new BadLines(context, source.name).add,
      onProgress: (made) => (listed = made.listed),
      signal: context.signal,
    });
    progress.stop();
    reportSync(context, source.name, result, options);
    return result.bad > 0 ? exit.failed : exit.done;
  } catch (error) {
    progress.stop();
    if (context.signal.aborted)
      throw new CommandError("interrupted", "run the command again to add what is missing");
    throw error;
  } finally {
    source.close();
  }
}

function reportSync(context: Context, name: string, result: SyncResult, { dryRun, prune }: Options): void {
  const { out } = context;
  if (out.json) {
    out.printJson(result);
    return;
  }
  const { listed, added, changed, same, uncompared, vanished, deleted, bad } = result;
  const would = dryRun === true ? "would be " : "";
  const parts = [
    `${count(added)} ${would}added`,
    `${count(changed)} changed`,
    `${count(same)} unchanged`,
    ...(uncompared > 0 ? [`${count(uncompared)} not compared because workers changed them`] : []),
    prune === true
      ? `${count(dryRun === true ? vanished : deleted)} ${would}deleted`
      : `${count(vanished)} stored but not in the list`,
    ...(bad > 0 ? [counted(bad, "bad line")] : []),
  ];
  out.line(`${counted(listed, "unit")} in ${quoteSource(name)}: ${parts.join(", ")}`);
}
