/** `coordinate schedules`: lists the work specs that create units on a schedule, and their next runs. */
import { hasSchedule, nextRuns, runName, type Schedule, type WorkSpecRow } from "../../core/index.ts";
import { command } from "../command.ts";
import { exit } from "../failure.ts";
import { requireWorkSpec } from "../naming.ts";
import { duration, readCount } from "../units.ts";
import { allWorkSpecs } from "./work-specs.ts";

const defaultShown = 3;

export default command<{ next?: string }>({
  define: (it) =>
    it
      .argument("[work-spec...]", "work specs to show (default: all with a schedule)")
      .option("--next <n>", `number of runs to show for each (default: ${defaultShown})`),
  run: async (context, { args, options }) => {
    const { out } = context;
    const count = options.next === undefined ? defaultShown : readCount(options.next, "--next", 1);
    const { coordinate, ns } = await context.work();
    const rows: WorkSpecRow[] = [];
    if (args.length > 0) for (const name of args) rows.push(await requireWorkSpec(context, name));
    else
      for await (const row of allWorkSpecs(coordinate, ns))
        if (hasSchedule(row.meta.schedule)) rows.push(row);
    const shown = rows.map(({ name, meta }) => ({
      workSpec: name,
      schedule: meta.schedule,
      paused: meta.paused,
      lastRun: meta.lastRun === 0 ? null : runName(meta.lastRun),
      nextRuns: comingRuns(meta, count).map(runName),
    }));
    if (out.json) out.printJson(shown);
    else if (shown.length === 0) out.remark("No work spec has a schedule.");
    else
      out.table(
        [
          { head: "Work spec", min: 12 },
          { head: "Schedule", min: 12 },
          { head: "Last run", min: 10 },
          { head: "Next runs", min: 20 },
        ],
        shown.map(({ workSpec, schedule, paused, lastRun, nextRuns: next }) => [
          workSpec,
          describe(schedule),
          lastRun ?? "",
          paused ? "paused" : next.length === 0 ? "never" : next.join(", "),
        ]),
      );
    return exit.done;
  },
});

/** The next run is stored with the work spec; later runs follow from the schedule. */
const comingRuns = ({ schedule, nextRun }: WorkSpecRow["meta"], count: number): number[] =>
  nextRun === 0 ? [] : [nextRun, ...nextRuns(schedule, nextRun, count - 1)].slice(0, count);

/** "0 3 * * * Europe/Brussels, overlap skip". */
function describe({ cron, timezone, everyMs, at, end, jitterMs, catchUp, overlap }: Schedule): string {
  return [
    cron === undefined ? false : `${cron} ${timezone ?? "UTC"}`,
    everyMs !== undefined && `every ${duration(everyMs)}`,
    at !== undefined && `${at.length} ${at.length === 1 ? "date" : "dates"}`,
    overlap !== undefined && overlap !== "allow" && `overlap ${overlap}`,
    catchUp !== undefined && catchUp !== 1 && (catchUp === 0 ? "catch_up skip" : `catch_up ${catchUp}`),
    jitterMs !== undefined && jitterMs > 0 && `jitter ${duration(jitterMs)}`,
    end !== undefined && `until ${runName(end)}`,
  ]
    .filter((part) => part !== false)
    .join(", ");
}
