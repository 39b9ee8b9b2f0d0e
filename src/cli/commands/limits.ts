/** `coordinate limits`: lists the limits that work specs share and what runs under them; defines, changes and deletes limits. */
import type { Rate, SharedLimitRow } from "../../core/index.ts";
import { command } from "../command.ts";
import { quote } from "../escape.ts";
import { CommandError, exit, UsageError } from "../failure.ts";
import { count, readCount, readDuration, readNumber, unitsIn } from "../units.ts";

interface Options {
  delete?: boolean;
}

const keys = ["max_running", "rate", "period", "burst"] as const;

export default command<Options>({
  define: (it) =>
    it
      .argument("[limit]", "name of a limit (default: all)")
      .argument("[key=value...]", `change the limit: ${keys.join(", ")}`)
      .option("--delete", "delete the limit; work specs that use it are no longer held back")
      .addHelpText(
        "after",
        `
coordinate limits api.example max_running=5 rate=100 period=60 burst=10
lets 5 units run at once and 100 start in 60 seconds, across all work specs that list api.example under limits.
Keys that are not given stay unchanged; 0 is unlimited.`,
      ),
  run: async (context, { args: [name, ...changes], options }) => {
    const { out } = context;
    const { coordinate, ns } = await context.work();
    if (options.delete === true) {
      if (name === undefined || changes.length > 0)
        throw new UsageError("--delete takes the name of one limit and no settings");
      const [was] = await coordinate.deleteLimits(ns, [name]);
      if (was !== true) throw new CommandError(`no such limit ${quote(name)}`);
      if (out.json) out.printJson({ deleted: name });
      else out.line(`Deleted ${quote(name)}.`);
      return exit.done;
    }
    let rows = await coordinate.listLimits(ns);
    if (name !== undefined) {
      const old = rows.find((row) => row.name === name);
      if (changes.length > 0) rows = await coordinate.setLimits(ns, [{ name, ...changed(old, changes) }]);
      else if (old === undefined) throw new CommandError(`no such limit ${quote(name)}`);
      else rows = [old];
    }
    if (out.json) out.printJson(rows);
    else if (rows.length === 0) out.remark("There are no limits.");
    else
      out.table(
        [
          { head: "Limit", min: 12 },
          { head: "Running", align: "right" },
          { head: "Max", align: "right" },
          { head: "Rate" },
          { head: "Work specs", min: 12 },
        ],
        rows.map(({ name: limit, running, maxRunning, rate, workSpecs }) => [
          limit,
          count(running),
          maxRunning === 0 ? "" : count(maxRunning),
          (rate.limit ?? 0) > 0 ? unitsIn(rate) : "",
          workSpecs.join(", "),
        ]),
      );
    return exit.done;
  },
});

function changed(
  old: SharedLimitRow | undefined,
  changes: readonly string[],
): { maxRunning: number; rate: Rate } {
  let maxRunning = old?.maxRunning ?? 0;
  const rate = { ...old?.rate };
  for (const change of changes) {
    const [, key = "", text = ""] = /^([^=]*)=(.*)$/.exec(change) ?? [];
    if (key === "max_running") maxRunning = readCount(text, key);
    else if (key === "rate") rate.limit = readNumber(text, key);
    else if (key === "period") rate.periodMs = readDuration(text, key);
    else if (key === "burst") rate.burst = readCount(text, key);
    else throw new UsageError(`expected ${keys.join("=…, ")}=…, got ${change}`);
  }
  return { maxRunning, rate };
}
