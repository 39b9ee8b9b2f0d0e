/** `coordinate prune`: deletes old ended units, and does the housekeeping of a store that is opened directly. */
import { eachPage, type Coordinate, type Engine, type WorkUnitRow } from "../../core/index.ts";
import { command, repeatedWords } from "../command.ts";
import { quote } from "../escape.ts";
import { exit, UsageError } from "../failure.ts";
import { requireWorkSpec } from "../naming.ts";
import { counted, readDuration } from "../units.ts";
import { readStatuses } from "./work-units.ts";
import { allWorkSpecs } from "./work-specs.ts";

interface Options {
  olderThan?: string;
  status?: string[];
  dryRun?: boolean;
}

export default command<Options>({
  define: (it) => {
    it.argument("[work-spec...]", "work specs to prune (default: all of the namespace)")
      .option("--older-than <time>", "delete units that ended longer ago than this, such as 90s, 12h, 7d")
      .option(
        "-s, --status <status>",
        "finished or failed; may be repeated (default: finished)",
        repeatedWords,
      )
      .option("--dry-run", "count the units and delete nothing")
      .addHelpText(
        "after",
        "\nThe key retention of a work spec does this automatically. With --backend, prune also expires leases, fails units" +
          "\nwith too many attempts and deletes old worker records, which a daemon does every second.",
      );
  },
  run: async (context, { args, options }) => {
    const { coordinate, ns } = await context.work();
    const { engine } = await context.opened();
    if (options.olderThan === undefined && engine === null)
      throw new UsageError("--older-than TIME is required: a daemon does its own housekeeping");
    const statuses = readStatuses(options.status ?? ["finished"]);
    const wrong = statuses.find((status) => status !== "finished" && status !== "failed");
    if (wrong !== undefined) throw new UsageError(`--status: expected finished or failed, got ${wrong}`);
    const ageMs =
      options.olderThan === undefined ? Infinity : readDuration(options.olderThan, "--older-than");
    const names: string[] = [];
    for (const name of args) names.push((await requireWorkSpec(context, name)).name);
    if (args.length === 0) for await (const { name } of allWorkSpecs(coordinate, ns)) names.push(name);
    const { out } = context;
    const swept = engine === null || options.dryRun === true ? null : await sweep(engine);
    const removed: Record<string, number> = {};
    for (const name of ageMs === Infinity ? [] : names) {
      const before = Date.now() - ageMs;
      removed[name] = await pruneSpec(coordinate, ns, name, statuses, before, options.dryRun === true);
    }
    const total = Object.values(removed).reduce((sum, one) => sum + one, 0);
    if (out.json) {
      out.printJson({ removed, dryRun: options.dryRun === true, swept });
      return exit.done;
    }
    for (const [name, count] of Object.entries(removed))
      if (count > 0) out.line(`${quote(name)}: ${counted(count, "work unit")}`);
    if (options.olderThan !== undefined)
      out.line(`${options.dryRun === true ? "Would remove" : "Removed"} ${counted(total, "work unit")}.`);
    if (swept !== null) out.line(sweptLine(swept));
    return exit.done;
  },
});

type Ended = readonly WorkUnitRow["status"][];

/** Reads one page at a time and deletes its old units, so that the full list is never in memory. */
async function pruneSpec(
  coordinate: Coordinate,
  ns: string,
  name: string,
  statuses: Ended,
  before: number,
  dryRun: boolean,
): Promise<number> {
  let removed = 0;
  const pages = eachPage((from) => coordinate.listWorkUnits(ns, name, { statuses, limit: 1000, ...from }));
  for await (const rows of pages) {
    const old = rows.filter(({ activeAttempt }) => (activeAttempt?.endTime ?? Infinity) <= before);
    // select by status too, so that a unit that was retried a moment ago stays
    if (old.length > 0)
      removed += dryRun
        ? old.length
        : await coordinate.deleteWorkUnits(ns, name, { names: old.map((row) => row.name), statuses });
  }
  return removed;
}

interface Swept {
  expired: number;
  due: number;
  exhausted: number;
  retired: number;
  workers: number;
}

async function sweep(engine: Engine): Promise<Swept> {
  const sum = { expired: 0, due: 0, exhausted: 0, retired: 0, workers: 0 };
  for (;;) {
    const { more, ...done } = await engine.sweep();
    for (const key of Object.keys(sum) as (keyof Swept)[]) sum[key] += done[key];
    if (!more) return sum;
  }
}

const sweptLine = ({ expired, exhausted, retired, workers }: Swept): string =>
  `Housekeeping: ${counted(expired, "lease")} expired, ${counted(exhausted, "unit")} failed after too many retries, ` +
  `${counted(retired, "unit")} removed by retention, ${counted(workers, "old worker")} deleted.`;
