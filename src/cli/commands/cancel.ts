/** `coordinate cancel`: fails waiting and running units, and tells the tasks of the running ones. */
import { userInfo } from "node:os";
import type { WorkUnitSelection } from "../../core/index.ts";
import { command, repeatedWords } from "../command.ts";
import { exit, UsageError } from "../failure.ts";
import { defineNaming, readNaming, requireUnits, requireWorkSpec, type NamingOptions } from "../naming.ts";
import { counted } from "../units.ts";
import { readStatuses } from "./work-units.ts";

interface Options extends NamingOptions {
  all?: boolean;
  status?: string[];
  prefix?: string;
  label?: string;
  why?: string;
  by?: string;
}

export default command<Options>({
  define: (it) => {
    defineNaming(it, "some")
      .option("-a, --all", "all units that have not ended yet")
      .option(
        "-s, --status <status>",
        "only units with this status: available, delayed, blocked, pending",
        repeatedWords,
      )
      .option("--prefix <text>", "only units whose names begin with this text")
      .option("--label <label>", "only units with this label")
      .option("--why <text>", "the reason, kept in the unit's traceback")
      .option("--by <name>", "who cancels (default: your user name)");
  },
  run: async (context, { args, options }) => {
    const { workSpec, units } = await readNaming(args, options);
    const { out } = context;
    const { coordinate, ns } = await context.work();
    const selection = select(units, options);
    await requireWorkSpec(context, workSpec);
    await requireUnits(context, workSpec, units, "nothing was cancelled");
    const why = options.why === undefined ? {} : { why: options.why };
    const by = options.by ?? userInfo().username;
    const cancelled = await coordinate.cancelWorkUnits(ns, workSpec, selection, { by, ...why });
    if (out.json) out.printJson({ cancelled });
    else if (cancelled === 0)
      out.line(
        `Nothing to do: ${units.length > 0 ? "these units have" : "no such unit, or all have"} already ended.`,
      );
    else out.line(`Cancelled ${counted(cancelled, "work unit")}.`);
    return cancelled === 0 ? exit.nothing : exit.done;
  },
});

function select(units: readonly string[], options: Options): WorkUnitSelection {
  const statuses = readStatuses(options.status ?? []);
  const selection: WorkUnitSelection = {
    ...(units.length > 0 && { names: units }),
    ...(statuses.length > 0 && { statuses }),
    ...(options.prefix !== undefined && { prefix: options.prefix }),
    ...(options.label !== undefined && { label: options.label }),
  };
  if (options.all === true && units.length > 0)
    throw new UsageError("--all and names of units: use only one of them");
  if (options.all !== true && Object.keys(selection).length === 0)
    throw new UsageError("no units given: use their names, --status, --prefix, --label or --all");
  return options.all === true ? { ...selection, all: true } : selection;
}
