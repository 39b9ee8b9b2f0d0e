/** `coordinate partitions`: what waits and runs in each partition of a work spec, and what holds it back. */
import { firstRows, hasLanes, maxCountedInPartition, type PartitionRow } from "../../core/index.ts";
import { command } from "../command.ts";
import { exit, UsageError } from "../failure.ts";
import { requireWorkSpec } from "../naming.ts";
import { count, counted, duration, readCount } from "../units.ts";

interface Options {
  limit?: string;
  after?: string;
  all?: boolean;
}

const defaultShown = 100;

export default command<Options>({
  define: (it) =>
    it
      .argument("<work-spec>", "the work spec")
      .option("-n, --limit <n>", `maximum number of partitions (default: ${defaultShown})`)
      .option("--after <partition>", "only partitions after this one, in order of name")
      .option("--all", "show all partitions")
      .addHelpText(
        "after",
        `
Shows the partitions with units that are waiting, running or to be retried. Units are counted up to ${count(maxCountedInPartition)}.`,
      ),
  run: async (context, { args: [name = ""], options }) => {
    const { out } = context;
    if (options.all === true && options.limit !== undefined)
      throw new UsageError("--all and --limit: use only one of them");
    const limit = options.limit === undefined ? defaultShown : readCount(options.limit, "--limit", 1);
    const { meta } = await requireWorkSpec(context, name);
    const { coordinate, ns } = await context.work();
    const { rows, more } = await firstRows(
      options.all === true ? Infinity : limit,
      (page) => coordinate.listPartitions(ns, name, page),
      options.after === undefined ? {} : { previous: options.after },
    );
    if (out.json) out.printJson(rows);
    else if (!hasLanes(meta))
      out.remark(
        `${name} has no settings for partitions: its units are handed out only by priority and name.`,
      );
    else if (rows.length === 0) out.remark("No units are waiting or running.");
    else {
      const now = Date.now();
      out.table(
        [
          { head: "Partition", min: 12 },
          { head: "Waiting", align: "right" },
          { head: "Running", align: "right" },
          { head: "First", min: 8 },
          { head: "State", min: 20 },
        ],
        rows.map((row) => [
          row.partition === "" ? "(none)" : row.partition,
          atLeast(row.waiting),
          atLeast(row.running),
          row.first ?? "",
          stateOf(row, now),
        ]),
      );
      if (more)
        out.remark(
          `The first ${counted(rows.length, "partition")}. There are more: use --all, or --after with the last one.`,
        );
    }
    return exit.done;
  },
});

const atLeast = (value: number): string =>
  value < maxCountedInPartition ? count(value) : `${count(value)}+`;

const stateOf = ({ held, until, reason }: PartitionRow, now: number): string => {
  if (held === null) return reason;
  return `held${until > now ? ` for ${duration(until - now)}` : ""}: ${reason} (${held})`;
};
