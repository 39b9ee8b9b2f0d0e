/** `coordinate summary`: counts the units of every work spec by status. */
import type { TallyRow } from "../../core/index.ts";
import { command } from "../command.ts";
import type { Context } from "../context.ts";
import { numbers, Rates, totals } from "../counts.ts";
import { show } from "../escape.ts";
import { every } from "../every.ts";
import { exit } from "../failure.ts";
import { aboutEmptyNamespace } from "../naming.ts";
import type { Output } from "../output.ts";
import { pad, type Cell, type Column } from "../table.ts";
import { count, rate, readCount, readDuration } from "../units.ts";

interface Options {
  text?: boolean;
  watch?: string | true;
  times?: string;
  allNamespaces?: boolean;
}

/** The columns after the name; a terminal shows a `rare` column only when it has a value. */
const columns = [
  { head: "Avail", status: "available", rare: false },
  { head: "Delayed", status: "delayed", rare: true },
  { head: "Blocked", status: "blocked", rare: true },
  { head: "Pending", status: "pending", rare: false },
  { head: "Failed", status: "failed", rare: false },
  { head: "Finished", status: "finished", rare: false },
  { head: "Total", status: "total", rare: false },
] as const;

export default command<Options>({
  define: (it) => {
    it.option("--text", "print the table, even with --json")
      .option(
        "--watch [seconds]",
        "repeat every so many seconds (default: 2); with --json print one line each time",
      )
      .option("--times <n>", "with --watch: stop after this many times")
      .option("-A, --all-namespaces", "show all namespaces");
  },
  run: async (context, { options }) => {
    if (options.watch === undefined && options.times === undefined) {
      await print(context, options, await tally(context, options), null);
      return exit.done;
    }
    const ms = readDuration(options.watch === true ? "2" : (options.watch ?? "2"), "--watch");
    const times = options.times === undefined ? Infinity : readCount(options.times, "--times", 1);
    const rates = new Rates();
    await every(ms, times, context.signal, async (n) => {
      const rows = await tally(context, options);
      if (context.out.isTerminal && !context.out.json) context.out.stream.write("\x1b[H\x1b[J");
      else if (n > 0 && !context.out.json) context.out.line();
      await print(context, options, rows, rates);
    });
    return exit.done;
  },
});

async function tally(context: Context, { allNamespaces }: Options): Promise<TallyRow[]> {
  const { coordinate, ns } = await context.work();
  return coordinate.tally(allNamespaces === true ? undefined : ns);
}

async function print(
  context: Context,
  options: Options,
  rows: readonly TallyRow[],
  rates: Rates | null,
): Promise<void> {
  const { out } = context;
  const all = options.allNamespaces === true;
  if (out.json) out.printJson(jsonOf(rows, all), 0);
  if (out.json && options.text !== true) return;
  if (context.compat) for (const line of pythonLines(rows)) out.line(line);
  else if (rows.length === 0) await tellNone(context, all);
  else printTable(out, rows, all, rates);
}

/** One line, as scripts parse it: a map from work spec to counts; for all namespaces a list. */
function jsonOf(rows: readonly TallyRow[], all: boolean): unknown {
  const now = Date.now() / 1000;
  if (all)
    return {
      specs: rows.map((row) => ({ namespace: row.namespace, work_spec: row.workSpec, ...numbers(row) })),
      _NOW: now,
    };
  return { ...Object.fromEntries(rows.map((row) => [row.workSpec, numbers(row)])), _NOW: now };
}

async function tellNone(context: Context, all: boolean): Promise<void> {
  if (all) {
    context.out.remark("There are no work specs.");
    return;
  }
  const { coordinate, ns } = await context.work();
  context.out.remark(`Nothing to show: ${await aboutEmptyNamespace(coordinate, ns)}`);
}

function printTable(out: Output, rows: readonly TallyRow[], all: boolean, rates: Rates | null): void {
  const sums = rows.map(totals);
  const shown = columns.filter(
    ({ rare, status }) => !rare || !out.isTerminal || sums.some((one) => one[status] > 0),
  );
  const now = Date.now();
  const heads: Column[] = [
    ...(all ? [{ head: "Namespace", min: 8 }] : []),
    { head: "Work spec", min: 12 },
    ...shown.map(({ head }) => ({ head, align: "right" as const })),
    ...(rates === null ? [] : [{ head: "Done/s", align: "right" as const }]),
  ];
  const cells = rows.map((row, i): (string | Cell)[] => [
    ...(all ? [row.namespace === "" ? "(default)" : row.namespace] : []),
    row.workSpec,
    ...shown.map(({ status }) => cell(status, sums[i]?.[status] ?? 0)),
    ...(rates === null ? [] : [speed(rates.look(row, now))]),
  ]);
  if (rows.length > 1 && out.isTerminal) {
    const sum = shown.map(({ status }) => count(sums.reduce((total, one) => total + one[status], 0)));
    cells.push([
      ...(all ? [""] : []),
      { text: "all", style: "bold" },
      ...sum.map((text) => ({ text, style: "bold" as const })),
    ]);
  }
  out.table(heads, cells);
}

const speed = (perSecond: number | null): string =>
  perSecond === null ? "" : rate(perSecond).replace(/\/s$/, "");

function cell(status: string, value: number): Cell {
  if (value === 0) return { text: "0", style: "dim" };
  const style = status === "failed" ? "red" : status === "pending" ? "cyan" : undefined;
  return { text: count(value), style };
}

/** The columns of the Python tool, separated by a space. As there, a number that is too wide shifts the others. */
function pythonLines(rows: readonly TallyRow[]): string[] {
  const heads = ["Avail", "Pending", "Failed", "Finished", "Total"];
  const right = (texts: readonly string[]): string[] => texts.map((text) => pad(text, 8, "right"));
  return [
    [pad("Work spec", 34), ...right(heads)].join(" "),
    ["=".repeat(34), ...heads.map(() => "=".repeat(8))].join(" "),
    ...rows.map((row) => {
      const { available, pending, failed, finished, total } = totals(row);
      return [
        pad(show(row.workSpec), 30),
        pad(String(available), 12, "right"),
        ...right([pending, failed, finished, total].map(String)),
      ].join(" ");
    }),
  ];
}
