/** `coordinate work_unit`: everything about units: every attempt, the errors, where the unit came from. */
import {
  dataByteLength,
  dataGetText,
  dataToJson,
  decodeData,
  jsonData,
  type AttemptProgress,
  type AttemptRow,
  type Coordinate,
  type WorkerRow,
  type WorkUnitRow,
} from "../../core/index.ts";
import { command } from "../command.ts";
import type { Context } from "../context.ts";
import { quote, show, showJson, showText } from "../escape.ts";
import { CommandError, exit, UsageError } from "../failure.ts";
import { writeJson } from "../json.ts";
import { defineNaming, listed, readNaming, requireWorkSpec, type NamingOptions } from "../naming.ts";
import { cut, type Cell, type Style } from "../table.ts";
import { count, counted, duration, relative, time } from "../units.ts";
import { environment } from "./workers.ts";

interface Options extends NamingOptions {
  data?: boolean;
  all?: boolean;
}

/** How many attempts of a unit are shown without `--all`. */
const few = 20;
/** How many generations of a lineage are followed: a loop of work specs has no first one. */
const deepest = 20;

interface Ancestor {
  attempt: string;
  workSpec: string;
  workUnit: string;
  status: string;
  worker: string;
}

interface Record_ {
  unit: WorkUnitRow;
  attempts: AttemptRow[];
  /** The attempt that created the unit, then the attempt that created that attempt's unit, and so on. */
  lineage: Ancestor[];
}

export default command<Options>({
  define: (it) => {
    defineNaming(it, "some")
      .option("--data", "print the data in full")
      .option("--all", `all attempts and their tracebacks, not only the last ${few}`);
  },
  run: async (context, { args, options }) => {
    const { workSpec, units } = await readNaming(args, options);
    if (units.length === 0) throw new UsageError("expected the name of a work unit");
    await requireWorkSpec(context, workSpec);
    const { coordinate, ns } = await context.work();
    const rows = await coordinate.getWorkUnits(ns, workSpec, units);
    const missing = units.filter((_name, i) => (rows[i] ?? null) === null);
    const found = rows.filter((row) => row !== null);
    if (context.compat && !context.out.json) {
      const now = Date.now();
      for (const row of found) await printAsPython(context, row, now);
      if (missing.length > 0) throw new CommandError(`No such work unit ${listed(missing)}`);
      return exit.done;
    }
    const records: Record_[] = [];
    for (const unit of found) {
      const attempts = await coordinate.listUnitAttempts(ns, workSpec, unit.name);
      records.push({ unit, attempts, lineage: await lineageOf(coordinate, ns, unit) });
    }
    if (context.out.json) context.out.printJson(records.map(({ unit, ...rest }) => ({ ...unit, ...rest })));
    else
      records.forEach((record, i) => {
        if (i > 0) context.out.line();
        print(context, record, options);
      });
    if (missing.length > 0)
      throw new CommandError(
        `No such work unit ${listed(missing)} in ${quote(workSpec)}`,
        "coordinate work_units lists them; names with control characters need --escaped",
      );
    return exit.done;
  },
});

/** The status numbers of the Python tool, for which a delayed unit is available. */
const pythonStatus = { available: 1, delayed: 1, blocked: 2, pending: 3, finished: 4, failed: 5 } as const;

/** The layout of the Python tool: status number, end of the lease, holder, traceback. */
async function printAsPython(context: Context, unit: WorkUnitRow, now: number): Promise<void> {
  const { out } = context;
  const { coordinate, ns } = await context.work();
  out.line(`${show(unit.name)} (${pythonStatus[unit.status]})`);
  const holder = unit.status === "available" || unit.status === "delayed" ? null : unit.activeAttempt;
  // for an ended attempt, its end time
  out.line(`  Expires: ${ctime(holder === null ? now : holder.endTime || holder.expirationTime)}`);
  if (holder !== null) {
    const [worker] = await coordinate.getWorkers(ns, [holder.worker]);
    out.line(`  Worker: ${show(holder.worker)} (${show(whereabouts(worker ?? null))})`);
  }
  const traceback = unit.data === null ? null : dataGetText(unit.data, "traceback");
  if (traceback !== null) out.line(`  Traceback:\n${showText(traceback)}`);
}

/** "host on addresses", as far as the worker reported them. */
function whereabouts(worker: WorkerRow | null): string {
  const told = new Map(worker === null ? [] : environment(worker));
  const host = told.get("fqdn") ?? told.get("hostname") ?? told.get("host") ?? "";
  const addresses = (told.get("ipaddrs") ?? told.get("ip") ?? "")
    .replace(/[[\]"]/g, "")
    .replaceAll(",", ", ");
  return [host, addresses].filter((part) => part !== "").join(" on ") || "No information";
}

/** Like ctime of C: "Thu Jan  1 00:00:00 1970". */
function ctime(at: number): string {
  const date = new Date(at);
  const day = String(date.getDate()).padStart(2, " ");
  const [name = "", month = ""] = date.toDateString().split(" ");
  return `${name} ${month} ${day} ${date.toTimeString().slice(0, 8)} ${date.getFullYear()}`;
}

async function lineageOf(coordinate: Coordinate, ns: string, unit: WorkUnitRow): Promise<Ancestor[]> {
  const lineage: Ancestor[] = [];
  for (let origin = unit.origin; origin !== null && lineage.length < deepest;) {
    const [attempt] = await coordinate.getAttempts(ns, [origin]);
    if (attempt === null || attempt === undefined) {
      lineage.push({ attempt: origin, workSpec: "", workUnit: "", status: "deleted", worker: "" });
      break;
    }
    const { workSpec, workUnit, status, worker } = attempt;
    lineage.push({ attempt: origin, workSpec, workUnit, status, worker });
    const [parent] = await coordinate.getWorkUnits(ns, workSpec, [workUnit]);
    origin = parent?.origin ?? null;
  }
  return lineage;
}

const styles: Readonly<Record<string, Style>> = {
  failed: "red",
  finished: "green",
  pending: "cyan",
  expired: "yellow",
  retryable: "yellow",
};

function print(context: Context, { unit, attempts, lineage }: Record_, options: Options): void {
  const { out } = context;
  const now = Date.now();
  const why = unit.reason === null || unit.reason === "error" ? "" : ` (${unit.reason})`;
  const status = out.paint(styles[unit.status], unit.status + why);
  out.line(`${out.paint("bold", show(unit.name))}  ${status}`);
  const facts: [label: string, text: string][] = [
    ["Work spec", show(unit.workSpec)],
    ["Priority", unit.priority === 0 ? "" : String(unit.priority)],
    ["Deadline", unit.deadline === undefined ? "" : whenText(unit.deadline, now)],
    ["Expires", unit.expires === undefined ? "" : whenText(unit.expires, now)],
    ["Partition", unit.partition === "" ? "" : show(unit.partition)],
    ["Created", `${time(unit.createdTime, now)}, ${relative(unit.createdTime, now)}`],
    [
      "Runs",
      unit.status === "delayed"
        ? `not before ${time(unit.notBefore, now)}, ${relative(unit.notBefore, now)}`
        : "",
    ],
    ...unit.dependencies.map((one): [string, string] => [
      unit.status === "blocked" ? "Waits for" : "Waited for",
      `${show(one.workSpec)} / ${show(one.workUnit)} (${one.status ?? "deleted"}${one.kind === "soft" ? ", either way" : ""})`,
    ]),
    ...lineage.map((one, i): [string, string] => [
      i === 0 ? "Made by" : "",
      one.workSpec === ""
        ? `${i === 0 ? "" : "← "}attempt ${one.attempt}, deleted`
        : `${i === 0 ? "" : "← "}${show(one.workSpec)} / ${show(one.workUnit)}, attempt ${one.attempt} (${one.status})`,
    ]),
    ["Data", dataLine(context, unit, options.data === true)],
  ];
  for (const [label, text] of facts) {
    if (text === "") continue;
    const [first = "", ...rest] = text.split("\n");
    out.line(`  ${(label === "" ? "" : `${label}:`).padEnd(11)} ${cut(first, out.columns - 14)}`);
    for (const line of rest) out.line(`  ${cut(line, out.columns - 2)}`);
  }
  printAttempts(context, attempts, options.all === true, now);
}

const whenText = (at: number, now: number): string => `${time(at, now)}, ${relative(at, now)}`;

/** The data in one line, cut to the window. The traceback is printed below, with its attempt. */
function dataLine({ out }: Context, { data }: WorkUnitRow, full: boolean): string {
  if (data === null) return "none";
  const { text } = dataToJson(data);
  if (!full) {
    const room = out.columns - 14;
    const {
      traceback: _below,
      last_error: _last,
      ...rest
    } = decodeData(jsonData(text, { maxBytes: Infinity }));
    const line = showJson(writeJson(rest));
    if (line.length <= room) return line;
    const size = ` (${count(dataByteLength(data))} bytes; --data shows everything)`;
    return cut(line, Math.max(20, room - size.length)) + size;
  }
  return `\n${showJson(text)}`;
}

function printAttempts(context: Context, attempts: readonly AttemptRow[], all: boolean, now: number): void {
  const { out } = context;
  if (attempts.length === 0) {
    out.line("  No attempts yet.");
    return;
  }
  const shown = all ? attempts : attempts.slice(-few);
  if (shown.length < attempts.length)
    out.line(
      `  ${counted(attempts.length, "attempt")}; showing the last ${shown.length}, use --all to see all of them:`,
    );
  out.line();
  out.table(
    [
      { head: "Attempt", align: "right" },
      { head: "Status" },
      { head: "Worker", min: 8 },
      { head: "Started" },
      { head: "Took", align: "right" },
      ...(shown.some((row) => remarks(row, now) !== "") ? [{ head: "Remarks", min: 8 }] : []),
    ],
    shown.map((row): (string | Cell)[] => [
      String(row.number),
      { text: row.status, style: styles[row.status] },
      row.worker,
      time(row.startTime, now),
      duration((row.endTime === 0 ? now : row.endTime) - row.startTime),
      remarks(row, now),
    ]),
  );
  const told = shown.filter(({ data }) => data !== null && dataGetText(data, "traceback") !== null);
  for (const row of all ? told : told.slice(-1)) {
    out.line();
    out.line(`Traceback of attempt ${row.number}:`);
    const traceback = row.data === null ? "" : (dataGetText(row.data, "traceback") ?? "");
    for (const line of showText(traceback).trimEnd().split("\n")) out.line(`  ${line}`);
    const last = row.data === null ? null : dataGetText(row.data, "last_error");
    if (last === null) continue;
    out.line(`Last error:`);
    for (const line of showText(last).trimEnd().split("\n")) out.line(`  ${line}`);
  }
}

const progressText = ({ done, note }: AttemptProgress): string =>
  `${Math.floor(done * 100)} %${note === "" ? "" : ` (${note})`}`;

function remarks(row: AttemptRow, now: number): string {
  return [
    row.progress !== null && progressText(row.progress),
    row.status === "pending" && `lease ends ${relative(row.expirationTime, now)}`,
    row.late && "settled late",
    row.chainingErrors.length > 0 && `output: ${row.chainingErrors.join("; ")}`,
  ]
    .filter((remark) => remark !== false)
    .join(", ");
}
