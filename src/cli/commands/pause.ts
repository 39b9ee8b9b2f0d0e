/** `coordinate pause` and `coordinate resume`: stop and restart handing out units of work specs. */
import { isTripped } from "../../core/index.ts";
import { command, type CommandModule } from "../command.ts";
import { show } from "../escape.ts";
import { exit, UsageError } from "../failure.ts";
import { requireWorkSpec } from "../naming.ts";
import { counted } from "../units.ts";
import { allWorkSpecs } from "./work-specs.ts";

/** Both commands; they differ only in the value that they set. */
export const pausing = (paused: boolean): CommandModule =>
  command<{ all?: boolean }>({
    define: (it) => {
      it.argument("[work-spec...]", "names of work specs").option(
        "-a, --all",
        "all work specs of the namespace",
      );
      if (paused)
        it.addHelpText(
          "after",
          "\nRunning units continue; no new units are handed out until coordinate resume.",
        );
    },
    run: async (context, { args, options }) => {
      const { out } = context;
      if (args.length > 0 === (options.all === true))
        throw new UsageError("expected names of work specs, or --all");
      const { coordinate, ns } = await context.work();
      const names: string[] = [];
      if (options.all === true) for await (const { name } of allWorkSpecs(coordinate, ns)) names.push(name);
      else
        for (const name of args) {
          const [row] = await coordinate.getWorkSpecs(ns, [name]);
          if (context.compat && (row ?? null) === null) continue;
          // check all names before any work spec is changed
          names.push((await requireWorkSpec(context, name)).name);
        }
      let changed = 0;
      let pending = 0;
      const rows = await coordinate.getWorkSpecs(ns, names);
      for (const row of rows) {
        if (row === null) continue;
        // resuming closes a breaker as well
        if (row.meta.paused !== paused || (!paused && isTripped(row.meta))) changed += 1;
        await coordinate.setWorkSpecMeta(ns, row.name, { paused });
      }
      if (paused)
        for (const { workSpec, counts } of await coordinate.tally(ns))
          if (names.includes(workSpec)) pending += counts.pending;
      if (out.json) out.printJson({ paused, workSpecs: names, changed });
      else if (!context.compat) {
        const which = names.length > 3 ? counted(names.length, "work spec") : names.map(show).join(", ");
        const running = pending > 0 ? `; ${counted(pending, "work unit")} still running` : "";
        if (names.length > 0)
          out.line(
            `${paused ? "paused" : "resumed"} ${which}${changed === 0 ? " (no change)" : ""}${running}`,
          );
      }
      return names.length === 0 && !context.compat ? exit.nothing : exit.done;
    },
  });

export default pausing(true);
