/** `coordinate replay`: runs ended units again in a copy of their work spec, compares the results, and accepts them. */
import {
  acceptReplay,
  addToReplay,
  compareReplay,
  isBegun,
  prepareReplay,
  type Difference,
  type Replay,
} from "../../bulk/index.ts";
import type { DataObject, DataValue } from "../../core/index.ts";
import { command, repeated } from "../command.ts";
import type { Context } from "../context.ts";
import { quote, show } from "../escape.ts";
import { CommandError, exit, UsageError } from "../failure.ts";
import { requireWorkSpec } from "../naming.ts";
import { defineSelecting, readSelecting, showCount, type SelectingOptions } from "../selecting.ts";
import { Progress } from "../progress.ts";
import { count, counted, readCount } from "../units.ts";

interface Options extends SelectingOptions {
  as?: string;
  status?: string[];
  set?: string[];
  ignore?: string[];
  show?: string;
  compare?: boolean;
  accept?: boolean;
  drop?: boolean;
  quiet?: boolean;
}

const steps = ["compare", "accept", "drop"] as const;

export default command<Options>({
  define: (it) => {
    defineSelecting(
      it
        .argument("<work-spec>", "the work spec")
        .argument("[units...]", "names of units to rerun (default: all that have ended)"),
    )
      .option("--as <name>", "name of the copy that runs the units (default: WORK-SPEC-replay)")
      .option("-s, --status <status>", "only finished or only failed units; may be repeated", repeated)
      .option("--set <key=value>", "change a setting of the copy, as JSON or text; may be repeated", repeated)
      .option("--compare", "compare the new results with the old ones")
      .option("--ignore <key>", "ignore this key of the results, such as a time; may be repeated", repeated)
      .option("--show <n>", "number of differences to show (default: 10)")
      .option("--accept", "replace old results with new ones that differ")
      .option("--drop", "delete the copy")
      .option("-q, --quiet", "show no progress")
      .addHelpText(
        "after",
        "\nThe units run with their original data, in a copy of the work spec without a next work spec:" +
          "\n  coordinate replay resize --prefix 2026/ --set quality=90" +
          "\n  coordinate replay resize --compare" +
          "\n  coordinate replay resize --accept" +
          "\n  coordinate replay resize --drop" +
          "\nAn accepted result finishes its unit again and passes its output to the next work spec.",
      );
  },
  run: async (context, { args: [workSpec = "", ...units], options }) => {
    const given = steps.filter((step) => options[step] === true);
    if (given.length > 1) throw new UsageError(`--${given.join(" and --")}: use only one of them`);
    const [step] = given;
    const { coordinate, ns } = await context.work();
    const copy = options.as ?? `${workSpec}-replay`;
    if (copy === workSpec) throw new UsageError("--as: the copy needs a name other than the work spec's");
    await requireWorkSpec(context, workSpec);
    const replay: Replay = { coordinate, ns, workSpec, copy };
    if (step === undefined) return begin(context, replay, units, options);
    if (!(await isBegun(replay)))
      throw new CommandError(
        `No such replay ${quote(copy)} of ${quote(workSpec)}`,
        `start one with: coordinate replay ${show(workSpec)}`,
      );
    if (step === "compare") return compare(context, replay, options);
    if (step === "accept") return accept(context, replay, options);
    await coordinate.deleteWorkSpecs(ns, [copy]);
    if (context.out.json) context.out.printJson({ deleted: copy });
    else context.out.line(`Deleted ${quote(copy)}.`);
    return exit.done;
  },
});

async function begin(
  context: Context,
  replay: Replay,
  units: readonly string[],
  options: Options,
): Promise<number> {
  const statuses = (options.status ?? ["finished", "failed"]).map(readStatus);
  const query = {
    ...readSelecting(options),
    ...(units.length > 0 && { names: units }),
    statuses,
  };
  const changes = readChanges(options.set ?? []);
  const total = await showCount(context, replay.workSpec, query);
  if (total === 0) {
    if (context.out.json) context.out.printJson({ workSpec: replay.copy, added: 0 });
    return exit.nothing;
  }
  await prepareReplay(replay, changes);
  let added = 0;
  const state = () => ({ value: added, total, units: added });
  const progress = new Progress(context, replay.copy, state, options.quiet === true);
  try {
    await addToReplay(replay, query, (now) => (added = now));
  } finally {
    progress.stop();
  }
  if (context.out.json) context.out.printJson({ workSpec: replay.copy, added });
  else {
    context.out.line(`Added ${counted(added, "work unit")} to ${quote(replay.copy)}.`);
    context.out.remark(`When they have run: coordinate replay ${show(replay.workSpec)} --compare`);
  }
  return exit.done;
}

async function compare(context: Context, replay: Replay, options: Options): Promise<number> {
  const limit = readCount(options.show ?? "10", "--show");
  const shown: Difference[] = [];
  const { out } = context;
  const comparison = await compareReplay(replay, options.ignore ?? [], (difference) => {
    if (shown.length < limit) shown.push(difference);
  });
  if (out.json) {
    out.printJson({ ...comparison, differences: shown });
    return exit.done;
  }
  const { same, different, failed, stillFailed, open, gone } = comparison;
  const lines: [number, string][] = [
    [same, "the same"],
    [different, "different"],
    [failed, "failed, but had finished before"],
    [stillFailed, "failed again"],
    [open, "not ended yet"],
    [gone, `missing or not ended in ${quote(replay.workSpec)}`],
  ];
  for (const [number, what] of lines) if (number > 0) out.line(`${count(number).padStart(9)}  ${what}`);
  for (const { name, changed } of shown) {
    out.line(`\n${show(name)}`);
    for (const { key, before, after } of changed) {
      if (before !== undefined) out.line(`  - ${show(key)}: ${text(before)}`);
      if (after !== undefined) out.line(`  + ${show(key)}: ${text(after)}`);
    }
  }
  if (different > shown.length)
    out.remark(`… and ${count(different - shown.length)} more; raise --show to see them`);
  return exit.done;
}

async function accept(context: Context, replay: Replay, options: Options): Promise<number> {
  const { different: total } = await compareReplay(replay, options.ignore ?? []);
  let done = 0;
  const state = () => ({ value: done, total, units: done });
  const progress = new Progress(context, replay.workSpec, state, options.quiet === true);
  try {
    await acceptReplay(replay, options.ignore ?? [], {
      onProgress: (now) => (done = now),
      signal: context.signal,
    });
  } finally {
    progress.stop();
  }
  const complete = !context.signal.aborted;
  if (context.out.json) context.out.printJson({ accepted: done });
  else
    context.out.line(
      `${complete ? "" : "interrupted: "}Replaced the results of ${counted(done, "work unit")} of ${quote(replay.workSpec)}.`,
    );
  if (!complete) {
    context.out.remark("--accept continues from there");
    return exit.failed;
  }
  return done === 0 ? exit.nothing : exit.done;
}

const longestText = 200;

/** Shows data in one line and escaped: it is arbitrary text of workers. */
function text(value: unknown): string {
  const json = JSON.stringify(value, (_, one: unknown) => (typeof one === "bigint" ? String(one) : one));
  const shown = show(json);
  return shown.length > longestText ? `${shown.slice(0, longestText)}…` : shown;
}

function readStatus(text: string): "finished" | "failed" {
  if (text === "finished" || text === "failed") return text;
  throw new UsageError(`--status: expected finished or failed, got ${text}`);
}

function readChanges(pairs: readonly string[]): DataObject {
  return Object.fromEntries(
    pairs.map((pair) => {
      const at = pair.indexOf("=");
      if (at <= 0) throw new UsageError(`--set: expected KEY=VALUE, got ${pair}`);
      const [key, value] = [pair.slice(0, at), pair.slice(at + 1)];
      if (key === "name") throw new UsageError("--set: the copy is named by --as");
      if (key === "replay_of") throw new UsageError("--set: replay_of always names the work spec");
      try {
        return [key, JSON.parse(value) as DataValue];
      } catch {
        return [key, value];
      }
    }),
  );
}
