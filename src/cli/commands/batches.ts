/** `coordinate batches`: shows the progress of batches, cancels one, or retries its failed units. */
import { eachRow, type BatchRow } from "../../core/index.ts";
import { command } from "../command.ts";
import { quote } from "../escape.ts";
import { CommandError, exit, UsageError } from "../failure.ts";
import { count, counted } from "../units.ts";

interface Options {
  cancel?: boolean;
  retry?: boolean;
}

export default command<Options>({
  define: (it) =>
    it
      .argument("[batch...]", "batches to show (default: all)")
      .option("--cancel", "cancel the unfinished units of these batches")
      .option("--retry", "run the failed units of these batches again"),
  run: async (context, { args, options }) => {
    const { out } = context;
    const { coordinate, ns } = await context.work();
    const change = options.cancel === true ? "cancel" : options.retry === true ? "retry" : null;
    if (options.cancel === true && options.retry === true)
      throw new UsageError("--cancel and --retry: use only one of them");
    if (change !== null && args.length === 0) throw new UsageError(`--${change} needs the names of batches`);
    const rows: BatchRow[] = [];
    if (args.length === 0)
      for await (const row of eachRow((from) => coordinate.listBatches(ns, from))) rows.push(row);
    for (const [i, row] of (args.length === 0 ? [] : await coordinate.getBatches(ns, args)).entries()) {
      if (row === null) throw new CommandError(`no such batch ${quote(args[i] ?? "")}`);
      rows.push(row);
    }
    if (change !== null) {
      let total = 0;
      for (const { name } of rows) total += await coordinate.changeBatch(ns, name, change);
      if (out.json) out.printJson(change === "cancel" ? { cancelled: total } : { retried: total });
      else out.line(`${change === "cancel" ? "Cancelled" : "Retried"} ${counted(total, "work unit")}.`);
      return exit.done;
    }
    if (out.json) out.printJson(rows);
    else if (rows.length === 0) out.remark("There are no batches.");
    else
      out.table(
        [
          { head: "Batch", min: 12 },
          { head: "Units", align: "right" },
          { head: "Finished", align: "right" },
          { head: "Failed", align: "right" },
          { head: "Then", min: 8 },
          { head: "State" },
        ],
        rows.map(({ name, total, finished, failed, then, sealed, doneTime }) => [
          name,
          count(total),
          count(finished),
          count(failed),
          then?.workSpec ?? "",
          doneTime > 0 ? "ended" : sealed ? "in progress" : "not sealed",
        ]),
      );
    return exit.done;
  },
});
