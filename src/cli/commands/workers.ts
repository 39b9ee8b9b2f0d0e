/** `coordinate workers`: lists the workers, as a tree of parents and children. */
import { dataToJson, decodeData, jsonData, type WorkerRow } from "../../core/index.ts";
import { command } from "../command.ts";
import type { Context } from "../context.ts";
import { show } from "../escape.ts";
import { exit } from "../failure.ts";
import { count, readCount, relative } from "../units.ts";
import { listWorkers, tree } from "../worker-list.ts";

interface Options {
  all?: boolean;
  details?: boolean;
  limit?: string;
}

export default command<Options>({
  define: (it) => {
    it.option("--all", "include workers that are no longer active")
      .option("--details", "show the environment that each worker reported")
      .option("-n, --limit <n>", "maximum number of workers (default: 1000)");
  },
  run: async (context, { options }) => {
    const { out } = context;
    const { coordinate, ns } = await context.work();
    const max = readCount(options.limit ?? "1000", "--limit", 1);
    const query = options.all === true ? {} : { active: true };
    const { rows: all, more } = await listWorkers(coordinate, ns, query, max);
    const rows = context.compat ? all.filter(isRegistered) : all;
    if (out.json) out.printJson(rows);
    else if (rows.length === 0)
      out.remark(
        options.all === true ? "There are no workers." : "No worker is active; --all shows earlier ones.",
      );
    else if (context.compat) for (const row of rows) printPlain(context, row, options.details === true);
    else if (options.details === true) for (const { row } of tree(rows)) printPlain(context, row, true);
    else printTree(context, rows);
    if (more) out.remark(`… and more; -n N shows more than ${count(max)}`);
    return exit.done;
  },
});

/** As in the Python daemon: a worker that only requested work, or was only named as a parent, is not registered. */
export const isRegistered = ({ mode, data }: WorkerRow): boolean => mode !== "" || data !== null;

function printTree({ out }: Context, rows: readonly WorkerRow[]): void {
  const now = Date.now();
  out.table(
    [{ head: "Worker", min: 16 }, { head: "Mode", min: 8 }, { head: "Last seen" }, { head: "Desired" }],
    tree(rows).map(({ row, lead }) => [
      { text: lead + row.name, style: row.active ? undefined : "dim" },
      row.active ? row.mode : `gone (${row.mode})`,
      row.lastUpdate === 0 ? "never" : relative(row.lastUpdate, now),
      { text: row.desired, style: row.desired === "run" ? undefined : "yellow" },
    ]),
  );
}

/** As in the Python tool: the id and the mode, then a line for each entry of the environment. */
function printPlain({ out }: Context, row: WorkerRow, details: boolean): void {
  out.line(`${show(row.name)} (${show(row.active ? row.mode : "gone")})`);
  if (!details) return;
  for (const [key, value] of environment(row)) out.line(`  ${show(key)}: ${show(value)}`);
}

export function environment({ data }: WorkerRow): [key: string, value: string][] {
  if (data === null) return [];
  // through JSON, which turns bytes written by Python 2 into text
  const shown = decodeData(jsonData(dataToJson(data).text, { maxBytes: Infinity }));
  return Object.entries(shown).map(([key, value]) => [
    key,
    typeof value === "string"
      ? value
      : JSON.stringify(value, (_key, one: unknown) => (typeof one === "bigint" ? String(one) : one)),
  ]);
}
