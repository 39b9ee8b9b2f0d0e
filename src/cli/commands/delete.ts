/** `coordinate delete`: deletes a whole namespace, or some of its work specs, after the user has typed the name. */
import { command } from "../command.ts";
import { quote, show } from "../escape.ts";
import { CommandError, exit } from "../failure.ts";
import { listed } from "../naming.ts";
import { count, counted } from "../units.ts";

export default command<{ yes?: boolean }>({
  define: (it) => {
    it.argument("[work-spec...]", "work specs to delete (default: everything in the namespace)")
      .option("-y, --yes", "do not ask for confirmation")
      .addHelpText("after", "\nDeletes work specs with their units and attempts. This cannot be undone.");
  },
  run: async (context, { args: specs, options }) => {
    const { out } = context;
    const { coordinate, ns } = await context.work();
    const tally = await coordinate.tally(ns);
    const known = new Set(tally.map(({ workSpec }) => workSpec));
    const missing = specs.filter((name) => !known.has(name));
    if (missing.length > 0 && !context.compat)
      throw new CommandError(`No such work spec ${listed(missing)}`, "nothing was deleted");
    const meant = tally.filter(({ workSpec }) => specs.length === 0 || specs.includes(workSpec));
    const units = meant.reduce(
      (sum, { counts }) => sum + Object.values(counts).reduce((total, one) => total + one, 0),
      0,
    );
    const what =
      specs.length > 0
        ? `${listed(specs)} with ${counted(units, "work unit")}`
        : `namespace ${ns === "" ? "(default)" : quote(ns)} with ${counted(meant.length, "work spec")} and ${counted(units, "work unit")}`;
    if (options.yes !== true) {
      const word = specs.length > 0 ? (specs[0] ?? "") : ns === "" ? "default" : ns;
      const of = specs.length > 0 ? "the work spec" : "the namespace";
      const answer = await context.ask(
        `This deletes ${what}.\nType the name of ${of}, ${quote(word)}, to confirm: `,
      );
      if (answer?.trim() !== word && answer?.trim() !== show(word)) {
        out.line("not deleting anything");
        return answer === null ? exit.failed : exit.nothing;
      }
    }
    if (specs.length > 0) await coordinate.deleteWorkSpecs(ns, specs);
    else await coordinate.deleteNamespace(ns);
    if (out.json) out.printJson({ workSpecs: meant.length, workUnits: units });
    else
      out.line(
        specs.length > 0
          ? `deleted ${what}`
          : `deleting all: ${count(meant.length)} work specs, ${counted(units, "work unit")}`,
      );
    return exit.done;
  },
});
