/** `coordinate retry`: makes units available again: by name, or all failed units. */
import type { Coordinate, WorkUnitSelection, WorkUnitStatus } from "../../core/index.ts";
import { command } from "../command.ts";
import type { Context } from "../context.ts";
import { quote, show } from "../escape.ts";
import { CommandError, exit, UsageError } from "../failure.ts";
import {
  defineNaming,
  hasWorkSpec,
  listed,
  readNaming,
  requireUnits,
  requireWorkSpec,
  type NamingOptions,
} from "../naming.ts";
import { defineSelecting, readSelecting, showCount, type SelectingOptions } from "../selecting.ts";
import { counted } from "../units.ts";
import { allWorkSpecs } from "./work-specs.ts";

interface Options extends NamingOptions, SelectingOptions {
  all?: boolean;
  force?: boolean;
}

const namesAtOnce = 10_000;

export default command<Options>({
  define: (it) => {
    defineSelecting(defineNaming(it, "some"))
      .option("-a, --all", "all failed units; with -W - those of all work specs")
      .option("--force", "also units that are running, which are taken from their workers")
      .addHelpText("after", "\nA delayed unit that is given by name becomes available at once.");
  },
  run: async (context, { args, options }) => {
    const { workSpec, units } = await readNaming(args, options);
    const selected = readSelecting(options);
    const isSelecting = Object.keys(selected).length > 0;
    if (isSelecting && (units.length > 0 || options.all === true || workSpec === "-"))
      throw new UsageError(
        "--prefix, --label, --error and --since cannot be combined with names, --all or -W -",
      );
    if (options.all === true && units.length > 0)
      throw new UsageError(`--all and names of units: use only one of them`);
    if (workSpec === "-" && options.all !== true) throw new UsageError("-W - needs --all");
    if (options.all !== true && units.length === 0 && !isSelecting)
      throw new UsageError(
        "no units given: use their names, --all for all failed units, or --prefix, --label, --error or --since for some of them",
      );
    const statuses: WorkUnitStatus[] = options.force === true ? ["failed", "pending"] : ["failed"];
    const count = isSelecting
      ? await retrySelected(context, workSpec, { ...selected, statuses })
      : options.all === true
        ? await retryAll(context, workSpec, statuses)
        : await retryNamed(context, workSpec, units, options);
    tell(context, count);
    return count === 0 && !context.compat ? exit.nothing : exit.done;
  },
});

function tell({ out }: Context, count: number): void {
  if (out.json) out.printJson({ retried: count });
  else out.line(count === 0 ? "Nothing to do." : `Retried ${counted(count, "work unit")}.`);
}

async function retryAll(
  context: Context,
  workSpec: string,
  statuses: readonly WorkUnitStatus[],
): Promise<number> {
  const { coordinate, ns } = await context.work();
  const names: string[] = [];
  if (workSpec !== "-") {
    if (!context.compat) await requireWorkSpec(context, workSpec);
    names.push(workSpec);
  } else {
    for await (const { name } of allWorkSpecs(coordinate, ns)) names.push(name);
    if (!context.out.json && names.length > 0) context.out.line(names.map(show).join(" "));
  }
  let count = 0;
  for (const name of names) count += await resetAll(coordinate, ns, name, statuses, context.compat);
  return count;
}

async function resetAll(
  coordinate: Coordinate,
  ns: string,
  name: string,
  statuses: readonly WorkUnitStatus[],
  compat: boolean,
): Promise<number> {
  try {
    return await coordinate.resetWorkUnits(ns, name, { statuses });
  } catch (error) {
    // with --compat a work spec that is missing, or was deleted after it was listed, is no error
    if (compat && (await coordinate.getWorkSpecs(ns, [name]))[0] === null) return 0;
    throw error;
  }
}

async function retrySelected(
  context: Context,
  workSpec: string,
  selection: WorkUnitSelection,
): Promise<number> {
  await requireWorkSpec(context, workSpec);
  const { coordinate, ns } = await context.work();
  if ((await showCount(context, workSpec, selection)) === 0) return 0;
  return coordinate.resetWorkUnits(ns, workSpec, selection);
}

async function retryNamed(
  context: Context,
  workSpec: string,
  units: readonly string[],
  { force }: Options,
): Promise<number> {
  const { coordinate, ns } = await context.work();
  if (context.compat && !(await hasWorkSpec(context, workSpec))) return units.length;
  await requireWorkSpec(context, workSpec);
  if (!context.compat) {
    await requireUnits(context, workSpec, units, "nothing was retried");
    if (force !== true) await refusePending(context, workSpec, units);
  }
  let count = 0;
  for (let at = 0; at < units.length; at += namesAtOnce) {
    const names = units.slice(at, at + namesAtOnce);
    count += await coordinate.resetWorkUnits(ns, workSpec, { names });
    if (!context.compat)
      count += await coordinate.setWorkUnitDelays(ns, workSpec, { names, statuses: ["delayed"] }, 0);
  }
  return count;
}

/** Refuses units that run now, because they would be done twice: `--force` allows it. */
async function refusePending(context: Context, workSpec: string, units: readonly string[]): Promise<void> {
  const { coordinate, ns } = await context.work();
  const rows = await coordinate.getWorkUnits(ns, workSpec, units);
  const pending = rows.filter((row) => row?.status === "pending");
  const [first] = pending;
  if (first === null || first === undefined) return;
  throw new CommandError(
    `${listed(pending.map((row) => row?.name ?? ""))}: running now, on ${quote(first.activeAttempt?.worker ?? "")}`,
    "nothing was retried; --force takes it from that worker",
  );
}
