/** `coordinate work_specs`: the names, or with `--details` how each is set. */
import type { Coordinate, WorkSpecRow } from "../../core/index.ts";
import { command } from "../command.ts";
import { show } from "../escape.ts";
import { exit } from "../failure.ts";
import { duration } from "../units.ts";

/** All of them, page after page: there are dozens, and where there are thousands nobody holds them all at once. */
export async function* allWorkSpecs(coordinate: Coordinate, ns: string): AsyncGenerator<WorkSpecRow> {
  let previous: string | undefined;
  do {
    const page = await coordinate.listWorkSpecs(ns, {
      limit: 1000,
      ...(previous !== undefined && { previous }),
    });
    yield* page.rows;
    previous = page.next ?? undefined;
  } while (previous !== undefined);
}

/** What is set otherwise than usual, in a few words. */
export function notes({ meta }: WorkSpecRow): string {
  return [
    meta.paused && "paused",
    meta.continuous && `continuous${meta.intervalMs > 0 ? ` every ${duration(meta.intervalMs)}` : ""}`,
    meta.canBeContinuous && !meta.continuous && "continuous is off",
    meta.maxRunning > 0 && `max_running ${meta.maxRunning}`,
    meta.maxGetwork > 0 && `max_getwork ${meta.maxGetwork}`,
    meta.maxRetries > 0 && `max_retries ${meta.maxRetries}`,
    meta.minGb > 0 && `min_gb ${meta.minGb}`,
    meta.runtime !== "" && `runtime ${meta.runtime}`,
  ]
    .filter((note) => note !== false)
    .join(", ");
}

export default command<{ details?: boolean }>({
  define: (it) => it.option("--details", "with weight, priority, and what else is set"),
  run: async (context, { options }) => {
    const { out } = context;
    const { coordinate, ns } = await context.work();
    const rows: WorkSpecRow[] = [];
    for await (const row of allWorkSpecs(coordinate, ns)) rows.push(row);
    if (out.json) out.printJson(options.details === true ? rows : rows.map(({ name }) => name));
    else if (options.details !== true) for (const { name } of rows) out.line(show(name));
    else
      out.table(
        [
          { head: "Work spec", least: 12 },
          { head: "Weight", align: "right" },
          { head: "Priority", align: "right" },
          { head: "Then", least: 8 },
          { head: "Notes", least: 10 },
        ],
        rows.map((row) => [
          row.name,
          String(row.meta.weight),
          String(row.meta.priority),
          row.meta.nextWorkSpecName,
          notes(row),
        ]),
      );
    return exit.done;
  },
});
