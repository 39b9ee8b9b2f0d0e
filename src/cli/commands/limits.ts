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
      .argument("[limit]", "only this one; without one, all")
      .argument("[key=value...]", `what it allows: ${keys.join(", ")}`)
      .option("--delete", "delete it; work specs that refer to it are no longer held back")
      .addHelpText(
        "after",
        `
coordinate limits api.example max_running=5 rate=100 period=60 burst=10
lets 5 units run at once and 100 begin in 60 seconds, over all work specs whose key limits names api.example.
What is not given stays as it is; 0 is unlimited.`,
      ),
  run: async (context, { args: [name, ...changes], options }) => {
    const { out } = context;
    const { coordinate, ns } = await context.work();
    if (options.delete === true) {
      if (name === undefined || changes.length > 0) throw new UsageError("--delete: name the limit alone");
      const [was] = await coordinate.deleteLimits(ns, [name]);
      if (was !== true) throw new CommandError(`there is no limit ${quote(name)}`);
      out.line(`Deleted ${quote(name)}.`);
      return exit.done;
    }
    let rows = await coordinate.listLimits(ns);
    if (name !== undefined) {
      const old = rows.find((row) => row.name === name);
      if (changes.length > 0) rows = await coordinate.setLimits(ns, [{ name, ...changed(old, changes) }]);
      else if (old === undefined) throw new CommandError(`there is no limit ${quote(name)}`);
      else rows = [old];
    }
    if (out.json) out.printJson(rows);
    else if (rows.length === 0) out.remark("There are no limits.");
    else
      out.table(
        [
          { head: "Limit", min: 12 },
          { head: "Running", align: "right" },
          { head: "At most", align: "right" },
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
