/** `coordinate top`: a live full-screen view: what every work spec does, how fast, the time left, and the workers. */
import type { TallyRow, WorkerRow } from "../../core/index.ts";
import { command } from "../command.ts";
import type { Context } from "../context.ts";
import { Rates, totals } from "../counts.ts";
import { show } from "../escape.ts";
import { every } from "../every.ts";
import { exit, UsageError } from "../failure.ts";
import { Screen } from "../screen.ts";
import { cut, pad, tableBlocks, width, type Cell, type Column } from "../table.ts";
import { count, counted, duration, rate, readDuration, relative, time } from "../units.ts";
import { listWorkers } from "../worker-list.ts";

interface Options {
  interval?: string;
}

/** The data of one refresh. */
interface Look {
  at: number;
  tally: readonly TallyRow[];
  /** Ended units per second, by work spec; null before it is known. */
  rates: ReadonlyMap<string, number | null>;
  paused: ReadonlySet<string>;
  workers: readonly WorkerRow[];
  moreWorkers: boolean;
}

const sorts = ["name", "done/s", "left", "failed"] as const;
type Sort = (typeof sorts)[number];

interface View {
  where: string;
  ns: string;
  frozen: boolean;
  sort: Sort;
  error: string;
  look: Look | null;
}

export default command<Options>({
  define: (it) => {
    it.option("-i, --interval <time>", "time between updates (default: 1s)").addHelpText(
      "after",
      "\nKeys: q quits, p pauses and resumes the view, s changes the order.",
    );
  },
  run: async (context, { options }) => {
    const { stdin, stdout } = context.session.streams;
    if (!stdout.isTTY || !stdin.isTTY)
      throw new UsageError("top needs a terminal; coordinate summary --watch works in a pipe");
    const ms = Math.max(100, readDuration(options.interval ?? "1", "--interval"));
    // load the data once before switching to the full screen: an error then stays readable
    const { where } = await context.opened();
    const rates = new Rates();
    const view: View = {
      where,
      ns: await context.namespace(),
      frozen: false,
      sort: "name",
      error: "",
      look: null,
    };
    view.look = await look(context, rates);
    const quit = new AbortController();
    const signal = AbortSignal.any([context.signal, quit.signal]);
    const screen = new Screen({ stdin, stdout }, (key) => {
      if (key === "q" || key === "Q" || key === "\x03" || key === "\x04") quit.abort();
      else if (key === "p" || key === " ") view.frozen = !view.frozen;
      else if (key === "s") view.sort = sorts[(sorts.indexOf(view.sort) + 1) % sorts.length] ?? "name";
      if (!quit.signal.aborted) draw();
    });
    const draw = (): void => screen.draw(lines(context, view));
    const hangup = (): void => quit.abort();
    process.once("SIGHUP", hangup);
    stdout.on("resize", draw);
    try {
      await every(ms, Infinity, signal, async () => {
        if (view.frozen) return;
        try {
          view.look = await look(context, rates);
          view.error = "";
        } catch (error) {
          // keep the last data and retry: the daemon may be restarting
          view.error = error instanceof Error ? error.message : String(error);
        }
        draw();
      });
    } finally {
      process.off("SIGHUP", hangup);
      stdout.off("resize", draw);
      screen.close();
    }
    return exit.done;
  },
});

async function look(context: Context, rates: Rates): Promise<Look> {
  const { coordinate, ns } = await context.work();
  const [tally, specs, workers] = await Promise.all([
    coordinate.tally(ns),
    coordinate.listWorkSpecs(ns, { limit: 1000 }),
    listWorkers(coordinate, ns, { active: true }, 200),
  ]);
  const at = Date.now();
  return {
    at,
    tally,
    rates: new Map(tally.map((row) => [row.workSpec, rates.look(row, at)])),
    paused: new Set(specs.rows.filter(({ meta }) => meta.paused).map(({ name }) => name)),
    workers: workers.rows,
    moreWorkers: workers.more,
  };
}

/** Units that are still to be done. */
function left(row: TallyRow): number {
  const { available, delayed, blocked, pending } = row.counts;
  return available + delayed + blocked + pending;
}

const leftTime = (units: number, perSecond: number | null): string => {
  if (units === 0) return "done";
  return perSecond === null || perSecond === 0 ? "—" : duration((units / perSecond) * 1000);
};

export function lines(context: Context, view: View): string[] {
  const { out } = context;
  const columns = Number.isFinite(out.columns) ? out.columns : 80;
  const { look: seen } = view;
  if (seen === null) return [];
  const bottom = ["", foot(context, view, columns)];
  const head = [...heading(context, view, seen, columns), ""];
  const workers = workerLines(context, seen, columns);
  // the work specs get the space first; the workers keep their head and three lines
  const room = out.rows - head.length - bottom.length;
  const specBlocks = specLines(context, view, seen, columns);
  const forWorkers = Math.min(workers.flat().length, Math.max(4, room - specBlocks.flat().length - 2));
  const specs = cropped(specBlocks, room - forWorkers - 1, "work specs");
  const filler = room - specs.length - forWorkers - 1;
  return [
    ...head,
    ...specs,
    "",
    ...cropped(workers, forWorkers, "workers"),
    ...Array<string>(Math.max(0, filler)).fill(""),
    ...bottom,
  ];
}

function heading({ out }: Context, view: View, seen: Look, columns: number): string[] {
  const clock = time(seen.at, seen.at);
  const place = `Coordinate  ${show(view.where)}  namespace ${view.ns === "" ? "(default)" : show(view.ns)}`;
  const first = cut(place, columns - clock.length - 2);
  const sums = seen.tally.map(totals);
  const sum = (key: "total" | "pending" | "failed"): number => sums.reduce((all, one) => all + one[key], 0);
  const perSecond = [...seen.rates.values()].reduce<number>((all, one) => all + (one ?? 0), 0);
  const todo = seen.tally.reduce((all, row) => all + left(row), 0);
  // the time left of the slowest work spec; those without progress have no estimate
  const longest = seen.tally.reduce((all, row) => {
    const own = seen.rates.get(row.workSpec) ?? 0;
    return own > 0 ? Math.max(all, (left(row) / own) * 1000) : all;
  }, 0);
  const facts = [
    counted(seen.tally.length, "work spec"),
    counted(sum("total"), "unit"),
    `${count(sum("pending"))} pending`,
    `${count(sum("failed"))} failed`,
    rate(perSecond),
    todo === 0 ? "all done" : longest === 0 ? "" : `${duration(longest)} left`,
  ];
  return [
    out.paint("bold", first) + " ".repeat(Math.max(2, columns - width(first) - clock.length)) + clock,
    cut(facts.join("  "), columns),
  ];
}

function sorted(view: View, seen: Look): TallyRow[] {
  const rank: Record<Sort, (row: TallyRow) => number> = {
    name: () => 0,
    "done/s": (row) => seen.rates.get(row.workSpec) ?? 0,
    left,
    failed: ({ counts }) => counts.failed,
  };
  return [...seen.tally].sort((a, b) => rank[view.sort](b) - rank[view.sort](a));
}

function specLines({ out }: Context, view: View, seen: Look, columns: number): string[][] {
  if (seen.tally.length === 0) return [["There are no work specs in this namespace."]];
  const wide = columns >= 100;
  const heads: Column[] = [
    { head: "Work spec", min: 10 },
    { head: "Waiting", align: "right" },
    { head: "Pending", align: "right" },
    { head: "Failed", align: "right" },
    { head: "Finished", align: "right" },
    { head: "Done/s", align: "right" },
    { head: "Time left", align: "right" },
    ...(wide ? [{ head: "Progress" }] : []),
  ];
  const rows = sorted(view, seen).map((row): (string | Cell)[] => {
    const sums = totals(row);
    const paused = seen.paused.has(row.workSpec);
    const perSecond = seen.rates.get(row.workSpec) ?? null;
    const waiting = sums.available + sums.delayed + sums.blocked;
    return [
      { text: paused ? `${row.workSpec} (paused)` : row.workSpec, style: paused ? "yellow" : undefined },
      count(waiting),
      { text: count(sums.pending), style: sums.pending > 0 ? "cyan" : "dim" },
      { text: count(sums.failed), style: sums.failed > 0 ? "red" : "dim" },
      count(sums.finished),
      perSecond === null ? "" : rate(perSecond).replace("/s", ""),
      leftTime(left(row), perSecond),
      ...(wide ? [bar(sums.finished + sums.failed, sums.total, Math.min(40, columns - 92))] : []),
    ];
  });
  return tableBlocks(heads, rows, columns, out.paint);
}

function bar(done: number, total: number, size: number): string {
  if (total === 0) return "";
  const part = done / total;
  const full = Math.floor(part * size);
  return `${"█".repeat(full)}${"░".repeat(Math.max(0, size - full))} ${pad(`${Math.floor(part * 100)} %`, 5, "right")}`;
}

function workerLines({ out }: Context, seen: Look, columns: number): string[][] {
  const { workers } = seen;
  if (workers.length === 0) return [["No worker is active."]];
  return tableBlocks(
    [
      { head: `${seen.moreWorkers ? "More than " : ""}${counted(workers.length, "worker")}`, min: 16 },
      { head: "Mode", min: 8 },
      { head: "Parent", min: 6 },
      { head: "Last seen" },
      { head: "Desired" },
    ],
    workers.map((row) => [
      row.name,
      row.mode,
      row.parent ?? "",
      relative(row.lastUpdate, seen.at),
      { text: row.desired, style: row.desired === "run" ? undefined : "yellow" },
    ]),
    columns,
    out.paint,
  );
}

/** The last visible line says how many are hidden. */
function cropped(all: readonly string[][], room: number, what: string): string[] {
  if (all.flat().length <= room) return all.flat();
  const lines: string[] = [];
  let shown = 0;
  for (; lines.length + (all[shown]?.length ?? room) < room; shown++) lines.push(...(all[shown] ?? []));
  return [...lines, `… and ${count(all.length - shown)} more ${what}`];
}

function foot({ out }: Context, view: View, columns: number): string {
  if (view.error !== "") return out.paint("red", cut(show(`No answer: ${view.error}`), columns));
  const held = view.frozen ? "paused, p resumes" : "p pauses";
  return out.paint("dim", cut(`q quits  ${held}  s order: ${view.sort}`, columns));
}
