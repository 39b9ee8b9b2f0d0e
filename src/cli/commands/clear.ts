/** `coordinate clear`: deletes units: all of a work spec, by status, or by name. */
import { workUnitStatuses, type WorkUnitSelection } from "../../core/index.ts";
import { command, repeatedWords } from "../command.ts";
import { quote } from "../escape.ts";
import { CommandError, exit } from "../failure.ts";
import { defineNaming, hasWorkSpec, readNaming, requireWorkSpec, type NamingOptions } from "../naming.ts";
import { defineSelecting, readSelecting, showCount, type SelectingOptions } from "../selecting.ts";
import { count as number, counted } from "../units.ts";
import { readStatuses } from "./work-units.ts";

interface Options extends NamingOptions, SelectingOptions {
  status?: string[];
  yes?: boolean;
}

export default command<Options>({
  define: (it) => {
    defineSelecting(defineNaming(it, "some"))
      .option(
        "-s, --status <status>",
        `only units with this status: ${workUnitStatuses.join(", ")}; may be repeated`,
        repeatedWords,
      )
      .option("-y, --yes", "do not ask for confirmation")
      .addHelpText(
        "after",
        "\nWithout names, a status or another condition, all units of the work spec are deleted.",
      );
  },
  run: async (context, { args, options }) => {
    const { workSpec, units } = await readNaming(args, options);
    const statuses = readStatuses(options.status ?? []);
    const { out } = context;
    const { coordinate, ns } = await context.work();
    if (context.compat && !(await hasWorkSpec(context, workSpec))) {
      out.line("Removed 0 work units.");
      return exit.done;
    }
    await requireWorkSpec(context, workSpec);
    const selected = readSelecting(options);
    const everything = statuses.length === 0 && units.length === 0 && Object.keys(selected).length === 0;
    // ask for confirmation only on a terminal: a script is taken at its word
    if (everything && options.yes !== true && context.session.streams.stdin.isTTY && out.isTerminal) {
      const tally = (await coordinate.tally(ns)).find((one) => one.workSpec === workSpec);
      const total = Object.values(tally?.counts ?? {}).reduce((sum, one) => sum + one, 0);
      const answer = await context.ask(`Delete all ${number(total)} units of ${quote(workSpec)}? (yes/no) `);
      if (!/^y(es)?$/i.test(answer?.trim() ?? "")) {
        out.line("Removed nothing.");
        return exit.nothing;
      }
    }
    const selection: WorkUnitSelection = everything
      ? { all: true }
      : { ...selected, ...(units.length > 0 && { names: units }), ...(statuses.length > 0 && { statuses }) };
    if (Object.keys(selected).length > 0) await showCount(context, workSpec, selection);
    const removed = await coordinate.deleteWorkUnits(ns, workSpec, selection);
    if (out.json) out.printJson({ removed });
    else out.line(`Removed ${counted(removed, "work unit")}.`);
    if (
      units.length > removed &&
      statuses.length === 0 &&
      Object.keys(selected).length === 0 &&
      !context.compat
    )
      throw new CommandError(`${counted(units.length - removed, "work unit")} did not exist`);
    return exit.done;
  },
});
