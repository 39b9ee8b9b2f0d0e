/** `coordinate work_specs`: lists the names, or with `--details` the settings of each. */
import {
  defaultMeta,
  eachRow,
  hasBreaker,
  hasRate,
  hasSchedule,
  isTripped,
  metaFields,
  type Coordinate,
  type WorkSpecMeta,
  type WorkSpecRow,
} from "../../core/index.ts";
import { command } from "../command.ts";
import { show as showName } from "../escape.ts";
import { exit } from "../failure.ts";
import { aboutEmptyNamespace } from "../naming.ts";
import { counted, duration, unitsIn } from "../units.ts";
import { show } from "./set.ts";

/** All work specs, page by page: usually dozens, but thousands are never in memory at once. */
export const allWorkSpecs = (coordinate: Coordinate, ns: string): AsyncGenerator<WorkSpecRow> =>
  eachRow((from) => coordinate.listWorkSpecs(ns, { limit: 1000, ...from }));

/** Fields without a note of their own: they have a column, or a combined note. */
const notNoted: ReadonlySet<string> = new Set<keyof WorkSpecMeta>([
  "priority",
  "weight",
  "nextWorkSpecName",
  "continuous",
  "intervalMs",
  "retention",
  "retry",
  "schedule",
  "rate",
  "ratePerPartition",
  "breaker",
  "partitionWeights",
  "limits",
  "requires",
]);

/** The settings that differ from the defaults, in a few words. */
function notes({ meta }: WorkSpecRow): string {
  const every = meta.intervalMs > 0 ? ` every ${duration(meta.intervalMs)}` : "";
  const unusual = metaFields.filter(
    ({ field, metaOnly }) => metaOnly !== true && !notNoted.has(field) && meta[field] !== defaultMeta[field],
  );
  return [
    hasSchedule(meta.schedule) && "scheduled",
    meta.retry.attempts !== undefined && `${meta.retry.attempts} tries`,
    hasRate(meta.rate) && `rate ${unitsIn(meta.rate)}`,
    hasRate(meta.ratePerPartition) && `rate_per_partition ${unitsIn(meta.ratePerPartition)}`,
    isTripped(meta) ? "breaker tripped" : hasBreaker(meta) && "breaker",
    Object.keys(meta.partitionWeights).length > 0 &&
      `weights of ${counted(Object.keys(meta.partitionWeights).length, "partition")}`,
    meta.limits.length > 0 && `limits ${meta.limits.map(showName).join(", ")}`,
    meta.requires.length > 0 && `requires ${meta.requires.map(showName).join(", ")}`,
    meta.canBeContinuous && (meta.continuous ? `continuous${every}` : "continuous is off"),
    ...unusual.map((row) => (meta[row.field] === true ? row.name : `${row.name} ${String(show(row, meta))}`)),
  ]
    .filter((note) => note !== false)
    .join(", ");
}

export default command<{ details?: boolean }>({
  define: (it) => it.option("--details", "show weight, priority and other settings"),
  run: async (context, { options }) => {
    const { out } = context;
    const { coordinate, ns } = await context.work();
    const rows: WorkSpecRow[] = [];
    for await (const row of allWorkSpecs(coordinate, ns)) rows.push(row);
    if (rows.length === 0) out.remark(`Nothing to show: ${await aboutEmptyNamespace(coordinate, ns)}`);
    if (out.json) out.printJson(options.details === true ? rows : rows.map(({ name }) => name));
    else if (options.details !== true) for (const { name } of rows) out.line(showName(name));
    else
      out.table(
        [
          { head: "Work spec", min: 12 },
          { head: "Weight", align: "right" },
          { head: "Priority", align: "right" },
          { head: "Then", min: 8 },
          { head: "Notes", min: 10 },
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
