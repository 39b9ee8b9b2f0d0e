/** `coordinate explain`: why is nothing running? The scheduler's own answer, in words, and what to do about it. */
import {
  processesOf,
  type Explained,
  type NamespaceRow,
  type ScheduleRequest,
  type TallyRow,
} from "../../core/index.ts";
import { ableWorkers, type AbleWorkers } from "../able-workers.ts";
import { command, repeated } from "../command.ts";
import type { Context } from "../context.ts";
import { quote, show } from "../escape.ts";
import { exit } from "../failure.ts";
import { aboutEmptyNamespace, listed, requireWorkSpec } from "../naming.ts";
import { cut, type Style } from "../table.ts";
import { count, counted, duration, readNumber } from "../units.ts";
import { listWorkers } from "../worker-list.ts";
import { readLabels } from "../worker-options.ts";

interface Options {
  runtime?: string[];
  gb?: string;
  labels?: string[];
}

export default command<Options>({
  define: (it) => {
    it.argument("[work-spec...]", "work specs to explain (default: all)")
      .option("--runtime <name>", "answer for a worker with this runtime; may be repeated", repeated)
      .option("--gb <n>", "answer for a worker with this much memory, in GB")
      .option("--labels <list>", "answer for a worker with these labels; may be repeated", repeated);
  },
  run: async (context, { args, options }) => {
    const { coordinate, ns } = await context.work();
    for (const name of args) await requireWorkSpec(context, name);
    const request: ScheduleRequest = {
      ...(options.runtime !== undefined && { runtimes: options.runtime }),
      ...(options.gb !== undefined && { availableGb: readNumber(options.gb, "--gb") }),
      ...(options.labels !== undefined && { labels: readLabels(options.labels) }),
    };
    const [explained, tally, namespace, workers] = await Promise.all([
      coordinate.explain(ns, request),
      coordinate.tally(ns),
      coordinate.getNamespace(ns),
      listWorkers(coordinate, ns, { active: true }, 1000),
    ]);
    const shown = explained.filter(({ workSpec }) => args.length === 0 || args.includes(workSpec));
    const able = await ableWorkers(coordinate, ns, workers.rows);
    if (context.out.json) {
      context.out.printJson({
        desired: namespace.settings.desired,
        activeWorkers: workers.rows.length,
        workSpecs: shown.map((one) => ({ ...one, workers: able(one.workSpec) })),
      });
      return exit.done;
    }
    if (explained.length === 0) {
      context.out.sentence(
        `Nothing can run: ${await aboutEmptyNamespace(coordinate, ns)}. Create work specs with coordinate load or coordinate flow.`,
      );
      return exit.done;
    }
    const stuck = stuckSpecs(explained, able);
    const active = processesOf(workers.rows);
    if (stuck.length > 0) tellStuck(context, stuck, active.length);
    else verdict(context, explained, tally);
    const idle = workers.rows.filter(({ desired }) => desired !== "run").length;
    const slots = workers.rows.length - active.length;
    aboutWorkers(context, namespace, { active: active.length, slots, idle, more: workers.more });
    const counts = new Map(tally.map((row) => [row.workSpec, row]));
    for (const one of order(shown)) {
      context.out.line();
      aboutSpec(context, one, counts.get(one.workSpec), able(one.workSpec));
    }
    return exit.done;
  },
});

/** Exclusions that only mean that other work has its turn first: such work still waits for a worker. */
const waitsForTurn: readonly (Explained["excluded"] | null)[] = [
  null,
  "lower_priority",
  "preempted",
  "enough_running",
];

/** Work specs with waiting units that no active worker could take. */
export const stuckSpecs = (
  explained: readonly Explained[],
  able: (workSpec: string) => AbleWorkers,
): Explained[] =>
  explained.filter(
    ({ workSpec, available, excluded }) =>
      available > 0 && waitsForTurn.includes(excluded) && able(workSpec).able.length === 0,
  );

/** "3 units of crawl, 1 unit of index", at most a few. */
export function stuckText(stuck: readonly Explained[]): string {
  const shown = stuck
    .slice(0, 3)
    .map(({ workSpec, available }) => `${counted(available, "unit")} of ${quote(workSpec)}`);
  return shown.join(", ") + (stuck.length > 3 ? ` and ${counted(stuck.length - 3, "more work spec")}` : "");
}

function tellStuck({ out }: Context, stuck: readonly Explained[], askers: number): void {
  const who = askers === 0 ? "no worker is active" : "no active worker can take it";
  out.sentence(`${out.paint("red", `Work is waiting and ${who}`)}: ${stuckText(stuck)}.`);
}

/** Work specs that may be chosen now come first, the likeliest before the others. */
const order = (all: readonly Explained[]): Explained[] =>
  [...all].sort((a, b) => b.chance - a.chance || Number(b.available > 0) - Number(a.available > 0));

function verdict({ out }: Context, explained: readonly Explained[], tally: readonly TallyRow[]): void {
  const open = explained.filter(({ excluded }) => excluded === null);
  const pending = tally.reduce((sum, { counts }) => sum + counts.pending, 0);
  const running =
    pending > 0 ? ` ${counted(pending, "work unit")} ${pending === 1 ? "is" : "are"} running.` : "";
  if (open.length > 0) {
    const [first] = open;
    const what =
      open.length === 1
        ? `from ${quote(first?.workSpec ?? "")}`
        : `from one of ${counted(open.length, "work spec")}`;
    out.sentence(`${out.paint("green", "A worker that claims now gets work")} ${what}.${running}`);
    return;
  }
  const waiting = tally.reduce((sum, { counts }) => sum + counts.available, 0);
  const why =
    waiting > 0
      ? `although ${counted(waiting, "work unit")} ${waiting === 1 ? "is" : "are"} available`
      : "because nothing is available";
  out.sentence(`${out.paint("yellow", "A worker that claims now gets nothing")}, ${why}.${running}`);
}

function aboutWorkers(
  { out }: Context,
  { settings }: NamespaceRow,
  { active, slots, idle, more }: { active: number; slots: number; idle: number; more: boolean },
): void {
  const number = more
    ? `More than ${count(active)} workers are`
    : active === 1
      ? "1 worker is"
      : `${count(active)} workers are`;
  if (settings.desired !== "run")
    out.sentence(
      `All workers of this namespace were told to ${settings.desired}; start them again with coordinate mode run.`,
    );
  if (active === 0) out.sentence("No worker is active. Start one with coordinate worker.");
  else if (active > 0)
    out.sentence(
      `${number} active${slots > 0 ? `, with ${counted(slots, "slot")}` : ""}${idle > 0 && settings.desired === "run" ? `; ${count(idle)} of them ${idle === 1 ? "was" : "were"} told not to run` : ""}.`,
    );
}

const advice: Partial<Record<NonNullable<Explained["excluded"]>, (name: string) => string>> = {
  paused: (name) => `Resume it with coordinate resume ${name}.`,
  not_before: (name) => `Start it now with coordinate set ${name} not_before=now.`,
  no_weight: (name) => `Give it a share with coordinate set ${name} weight=20.`,
  max_running: (name) =>
    `More units start when one of them ends. Raise the limit with coordinate set ${name} max_running=N.`,
  breaker: (name) =>
    `It resumes by itself when a probe finishes, or now with coordinate resume ${name}. coordinate failures ${name} shows the errors.`,
  rate: (name) =>
    `More units start then. The rate is set in the work spec; coordinate work_spec ${name} --meta shows it.`,
  limit: () =>
    "More units start when units under that limit end or its rate allows it; see coordinate limits.",
  partitions: () => "More units start when units of these partitions end or their rates allow it.",
  lower_priority: (name) =>
    `Its turn comes when those have no work. Raise its priority with coordinate set ${name} priority=N.`,
  enough_running: () => "Its turn comes when others have caught up, or when some of its units end.",
  schedule_not_due: () => "coordinate schedules shows the next runs.",
  continuous_not_due: (name) => `Make one now with coordinate set ${name} next_continuous=now.`,
};

/** A reason of the scheduler is either a predicate of the work spec ("has no work") or a sentence about others. */
function reasonSentence(reason: string): string {
  const shown = show(reason);
  if (/^(has|is|may|needs|requires|generates|makes|runs|starts) /.test(shown)) return `It ${shown}.`;
  return `${shown[0]?.toUpperCase() ?? ""}${shown.slice(1)}.`;
}

function aboutSpec(
  { out }: Context,
  one: Explained,
  row: TallyRow | undefined,
  { able, unable }: AbleWorkers,
): void {
  const chance = one.excluded === null ? `chance ${percent(one.chance)}` : "not now";
  const style: Style = one.excluded === null ? "green" : "yellow";
  const name = cut(show(one.workSpec), out.columns - chance.length - 2);
  out.line(`${out.paint("bold", name)}  ${out.paint(style, chance)}`);
  const { delayed = 0, blocked = 0, failed = 0, available = 0, pending = 0 } = row?.counts ?? {};
  const parts = [
    available > 0 && `${count(available)} available`,
    pending > 0 && `${count(pending)} pending`,
    delayed > 0 && `${count(delayed)} delayed`,
    blocked > 0 && `${count(blocked)} blocked`,
    failed > 0 && `${count(failed)} failed`,
  ].filter((part) => part !== false);
  out.sentence(
    `  ${reasonSentence(one.reason)} Weight ${one.weight}, priority ${one.priority}${parts.length > 0 ? `; ${parts.join(", ")}` : ""}.`,
    "  ",
  );
  const todo = one.excluded === null ? undefined : advice[one.excluded]?.(quote(one.workSpec));
  if (todo !== undefined) out.sentence(`  ${todo}`, "  ");
  if (one.targetShare > 0 && one.targetShare < 1) out.sentence(`  ${shareSentence(one)}`, "  ");
  if (unable.length > 0)
    out.sentence(
      able.length === 0
        ? "  No active worker can take it:"
        : `  ${listed(able, 3)} can take it; ${unable.length === 1 ? "not" : "but not"}:`,
      "  ",
    );
  for (const { reason, workers } of unable) out.sentence(`    ${listed(workers, 3)}: ${reason}`, "      ");
  if (able.length === 0 && unable.some(({ rule }) => rule === "needs_memory"))
    out.sentence(
      `  Start a worker with more memory, or remove the requirement with coordinate set ${quote(one.workSpec)} min_gb=0.`,
      "  ",
    );
  if (able.length === 0 && unable.some(({ rule }) => rule === "needs_labels"))
    out.sentence("  No worker has the required labels: start one with coordinate worker --labels.", "  ");
  if (one.excluded === "no_work") noWork(out, { delayed, blocked, failed }, quote(one.workSpec));
}

const percent = (share: number): string => `${(share * 100).toFixed(share < 0.1 ? 1 : 0)} %`;

/** "Share of choices: 25 % by its weight, 31 % measured." */
function shareSentence({ share, targetShare, measuredShare, meanMs }: Explained): string {
  const measured = measuredShare === null ? "" : `, ${percent(measuredShare)} measured`;
  const mean = share === "time" && meanMs !== null ? `; an attempt takes ${duration(meanMs)}` : "";
  const what = share === "time" ? "worker time" : "choices";
  return `Share of ${what}: ${percent(targetShare)} by its weight${measured}${mean}.`;
}

/** Explains where the units are when none is available. */
function noWork(
  out: Context["out"],
  { delayed, blocked, failed }: { delayed: number; blocked: number; failed: number },
  name: string,
): void {
  if (delayed > 0)
    out.sentence(
      `  ${counted(delayed, "unit")} ${delayed === 1 ? "is" : "are"} delayed: coordinate work_units ${name} -s delayed --details.`,
      "  ",
    );
  if (blocked > 0)
    out.sentence(
      `  ${counted(blocked, "unit")} wait${blocked === 1 ? "s" : ""} for other units: coordinate work_units ${name} -s blocked.`,
      "  ",
    );
  if (failed > 0)
    out.sentence(
      `  ${counted(failed, "unit")} failed: run them again with coordinate retry ${name} --all.`,
      "  ",
    );
}
