/** `coordinate prioritize`: changes which units of a work spec go first. */
import { workUnitStatuses, type PriorityChange, type WorkUnitSelection } from "../../core/index.ts";
import { command, repeatedWords } from "../command.ts";
import { exit, UsageError } from "../failure.ts";
import {
  defineNaming,
  hasWorkSpec,
  readNaming,
  requireUnits,
  requireWorkSpec,
  type NamingOptions,
} from "../naming.ts";
import { defineSelecting, readSelecting, showCount, type SelectingOptions } from "../selecting.ts";
import { counted, readNumber } from "../units.ts";
import { readStatuses } from "./work-units.ts";

interface Options extends NamingOptions, SelectingOptions {
  priority?: string;
  adjust?: string;
  status?: string[];
  all?: boolean;
}

export default command<Options>({
  define: (it) => {
    defineSelecting(defineNaming(it, "some"))
      .option("-p, --priority <n>", "the new priority (default: 1)")
      .option("--adjust <n>", "add this number to the priority; may be negative")
      .option(
        "-s, --status <status>",
        `only units with this status: ${workUnitStatuses.join(", ")}; may be repeated`,
        repeatedWords,
      )
      .option("-a, --all", "all units of the work spec");
  },
  run: async (context, { args, options }) => {
    const { workSpec, units } = await readNaming(args, options);
    const change = readChange(options);
    const statuses = readStatuses(options.status ?? []);
    const selected = readSelecting(options);
    const isSelecting = Object.keys(selected).length > 0;
    if (units.length === 0 && statuses.length === 0 && !isSelecting && options.all !== true)
      throw new UsageError(
        "no units given: use their names, --status, --prefix, --label, --error, --since or --all",
      );
    if (units.length > 0 && options.all === true)
      throw new UsageError("--all and names of units: use only one of them");
    const { coordinate, ns } = await context.work();
    if (context.compat && !(await hasWorkSpec(context, workSpec))) return exit.done;
    await requireWorkSpec(context, workSpec);
    if (units.length > 0 && !context.compat)
      await requireUnits(context, workSpec, units, "nothing was changed");
    const conditions = {
      ...(units.length > 0 && { names: units }),
      ...(statuses.length > 0 && { statuses }),
      ...selected,
    };
    const selection: WorkUnitSelection = Object.keys(conditions).length === 0 ? { all: true } : conditions;
    if (isSelecting) await showCount(context, workSpec, selection);
    const changed = await coordinate.setWorkUnitPriorities(ns, workSpec, selection, change);
    if (context.out.json) context.out.printJson({ changed });
    else if (!context.compat) context.out.line(`Changed the priority of ${counted(changed, "work unit")}.`);
    return changed === 0 && !context.compat ? exit.nothing : exit.done;
  },
});

function readChange({ priority, adjust }: Options): PriorityChange {
  if (priority !== undefined && adjust !== undefined)
    throw new UsageError("--priority and --adjust: use only one of them");
  return adjust === undefined
    ? { set: readNumber(priority ?? "1", "--priority") }
    : { adjust: readNumber(adjust, "--adjust") };
}
