/** `coordinate failures`: lists failed units, grouped by error. */
import { command } from "../command.ts";
import { show } from "../escape.ts";
import { exit } from "../failure.ts";
import { requireWorkSpec } from "../naming.ts";
import { count, counted, relative } from "../units.ts";

export default command({
  define: (it) => {
    it.argument("[work-spec]", "only this work spec").addHelpText(
      "after",
      "\nThe first column is the group for --error of retry, clear, prioritize and export. Errors that differ only in numbers," +
        "\nids, paths or quoted values form one group. Example and Tries show one unit of the group.",
    );
  },
  run: async (context, { args: [name] }) => {
    if (name !== undefined) await requireWorkSpec(context, name);
    const { coordinate, ns } = await context.work();
    const rows = await coordinate.listFailures(ns, name === undefined ? {} : { workSpec: name });
    const { out } = context;
    if (out.json) {
      out.printJson(rows);
      return rows.length === 0 ? exit.nothing : exit.done;
    }
    if (rows.length === 0) {
      out.line("Nothing has failed.");
      return exit.nothing;
    }
    const now = Date.now();
    out.table(
      [
        { head: "Group" },
        ...(name === undefined ? [{ head: "Work spec", min: 8 }] : []),
        { head: "Units", align: "right" as const },
        { head: "Tries", align: "right" as const },
        { head: "First" },
        { head: "Last" },
        { head: "Example", min: 8 },
        { head: "Error", min: 20 },
      ],
      rows.map((row) => [
        row.fingerprint,
        ...(name === undefined ? [row.workSpec] : []),
        count(row.count),
        count(row.tries),
        relative(row.firstTime, now),
        relative(row.lastTime, now),
        row.example,
        show(row.error),
      ]),
    );
    const total = rows.reduce((sum, row) => sum + row.count, 0);
    out.line(`${counted(total, "failed unit")} in ${counted(rows.length, "group")}.`);
    return exit.done;
  },
});
