/** `coordinate work_units`: lists the units of a work spec; millions only on request. */
import { Buffer } from "node:buffer";
import {
  dataGetText,
  firstPages,
  nameToBytes,
  workUnitStatuses,
  type WorkUnitQuery,
  type WorkUnitRow,
  type WorkUnitStatus,
} from "../../core/index.ts";
import { command, repeatedWords } from "../command.ts";
import type { Context } from "../context.ts";
import { show, showJson, showText } from "../escape.ts";
import { exit, UsageError } from "../failure.ts";
import { rawData, withData, writeJson } from "../json.ts";
import { defineNaming, hasWorkSpec, readOneSpec, requireWorkSpec, type NamingOptions } from "../naming.ts";
import { count, readCount } from "../units.ts";

interface Options extends NamingOptions {
  status?: string[];
  limit?: string;
  prefix?: string;
  label?: string;
  details?: boolean;
  all?: boolean;
  print0?: boolean;
}

/** Default limits: what a person can read, and what the Python daemon returned to a script. */
const fewForPeople = 100;
const fewForScripts = 1000;

export default command<Options>({
  define: (it) => {
    defineNaming(it)
      .option(
        "-s, --status <status>",
        `only units with this status: ${workUnitStatuses.join(", ")}; may be repeated`,
        repeatedWords,
      )
      .option("-n, --limit <n>", "maximum number of units (default: 100 on a terminal, else 1000)")
      .option("--all", "list all units")
      .option("--prefix <text>", "only units whose names begin with this text")
      .option("--label <label>", "only units with this label")
      .option("--details", "show status, data and traceback")
      .option("-0, --print0", "print unescaped names, each followed by a zero byte");
  },
  run: async (context, { args, options }) => {
    const workSpec = await readOneSpec(args, options);
    const statuses = readStatuses(options.status ?? []);
    if (options.all === true && options.limit !== undefined)
      throw new UsageError("--all and --limit: use only one of them");
    const few = context.out.isTerminal ? fewForPeople : fewForScripts;
    const limit = options.all === true ? Infinity : readCount(options.limit ?? String(few), "--limit");
    if (context.compat && !(await hasWorkSpec(context, workSpec))) return exit.done;
    await requireWorkSpec(context, workSpec);
    const query = {
      ...(statuses.length > 0 && { statuses }),
      ...(options.prefix !== undefined && { prefix: options.prefix }),
      ...(options.label !== undefined && { label: options.label }),
    };
    const { shown, more } = await print(context, workSpec, query, limit, options);
    if (more) await tellMore(context, workSpec, query, shown);
    return exit.done;
  },
});

export function readStatuses(words: readonly string[]): WorkUnitStatus[] {
  return words.map((word) => {
    const found = workUnitStatuses.find((status) => status === word);
    if (found === undefined)
      throw new UsageError(`--status: expected one of ${workUnitStatuses.join(", ")}, got ${word}`);
    return found;
  });
}

type Where = Pick<WorkUnitQuery, "statuses" | "prefix" | "label">;

/** Prints each page before it fetches the next. */
async function print(
  context: Context,
  workSpec: string,
  where: Where,
  limit: number,
  options: Options,
): Promise<{ shown: number; more: boolean }> {
  const { coordinate, ns } = await context.work();
  const { out } = context;
  let shown = 0;
  let more = false;
  if (out.json) out.stream.write("[");
  const pages = firstPages(limit, (page) => coordinate.listWorkUnits(ns, workSpec, { ...where, ...page }));
  for await (const page of pages) {
    // one write per page: a million small writes would take longer than the queries
    const pieces: Uint8Array[] = [];
    for (const row of page.rows) {
      if (out.json) pieces.push(Buffer.from(`${shown === 0 ? "" : ","}\n  ${jsonOf(row, options)}`));
      else if (options.print0 === true) pieces.push(nameToBytes(row.name), Buffer.of(0));
      else if (options.details === true) printDetails(context, row);
      else pieces.push(Buffer.from(`${show(row.name)}\n`));
      shown += 1;
    }
    out.stream.write(Buffer.concat(pieces));
    more = page.next !== null;
    // wait for a slow reader: millions of names must not pile up in memory
    if (out.stream.writableNeedDrain) await new Promise((resolve) => out.stream.once("drain", resolve));
  }
  if (out.json) out.line(shown === 0 ? "]" : "\n]");
  return { shown, more };
}

function jsonOf(row: WorkUnitRow, { details }: Options): string {
  const { name, status, priority, partition, notBefore, createdTime, attempts } = row;
  const brief = { name, status, priority, ...(partition !== "" && { partition }) };
  const value = details === true ? withData(row) : { ...brief, notBefore, createdTime, attempts };
  return showJson(writeJson(value));
}

function printDetails({ out }: Context, row: WorkUnitRow): void {
  const facts = [
    row.priority !== 0 && `priority ${row.priority}`,
    row.partition !== "" && `partition ${show(row.partition)}`,
    row.attempts > 0 && attempted(row),
  ];
  const after = facts.filter((fact) => fact !== false).join(", ");
  out.line(`${out.paint("bold", show(row.name))} (${row.status}${after === "" ? "" : `; ${after}`})`);
  const traceback = row.data === null ? null : dataGetText(row.data, "traceback");
  if (row.data === null) out.line("  no data");
  else {
    const lines = showJson(writeJson(rawData(row.data), 2))
      .split("\n")
      .filter((line) => traceback === null || !/^ {2}"traceback": /.test(line));
    // when the traceback was the last member, the member before it loses its comma
    lines.forEach((line, i) => out.line(`  ${i === lines.length - 2 ? line.replace(/,$/, "") : line}`));
  }
  if (traceback === null) return;
  out.line("  Traceback:");
  for (const line of showText(traceback).trimEnd().split("\n")) out.line(`    ${line}`);
}

const attempted = ({ attempts }: WorkUnitRow): string => `${attempts} attempt${attempts === 1 ? "" : "s"}`;

/** The tally tells how many units are not shown; with a prefix or a label they would have to be counted. */
async function tellMore(context: Context, workSpec: string, where: Where, shown: number): Promise<void> {
  const { coordinate, ns } = await context.work();
  let left = "more";
  if (where.prefix === undefined && where.label === undefined) {
    const row = (await coordinate.tally(ns)).find((one) => one.workSpec === workSpec);
    const counts: Partial<Record<WorkUnitStatus, number>> = row?.counts ?? {};
    const total = (where.statuses ?? workUnitStatuses).reduce(
      (sum, status) => sum + (counts[status] ?? 0),
      0,
    );
    if (total > shown) left = `${count(total - shown)} more`;
  }
  context.out.remark(`… and ${left}; -n N shows more, --all everything`);
}
