/** `coordinate tail`: what happens, as it happens. */
import { setTimeout as wait } from "node:timers/promises";
import { backOffMs, type TallyRow } from "../../core/index.ts";
import type { StreamedEvent } from "../../rest/client.ts";
import { command, repeatedWords } from "../command.ts";
import type { Context } from "../context.ts";
import { totals } from "../counts.ts";
import { quote, show } from "../escape.ts";
import { every } from "../every.ts";
import { exit } from "../failure.ts";
import { listed } from "../naming.ts";
import { cut } from "../table.ts";
import { counted, readCount, readDuration, time } from "../units.ts";

interface Options {
  count?: string;
  for?: string;
  type?: string[];
}

export default command<Options>({
  define: (it) => {
    it.option("-n, --count <n>", "stop after so many events")
      .option("--for <time>", "stop after this time")
      .option(
        "--type <type>",
        "only these: workSpecs, workUnits, attempts, workers, namespace; may be repeated",
        repeatedWords,
      )
      .addHelpText(
        "after",
        "\nA daemon tells of what went through it. Over CBOR-RPC and on a store itself there are no events: there the" +
          "\ncounts are looked at every second, and what changed is told.",
      );
  },
  run: async (context, { options }) => {
    const limits = new AbortController();
    const signal = AbortSignal.any([context.signal, limits.signal]);
    if (options.for !== undefined) {
      const ms = readDuration(options.for, "--for");
      void wait(ms, undefined, { signal, ref: false }).then(
        () => limits.abort(),
        () => undefined,
      );
    }
    const most = options.count === undefined ? Infinity : readCount(options.count, "--count", 1);
    let seen = 0;
    const tell = (event: StreamedEvent): void => {
      if (options.type !== undefined && !options.type.includes(event.type)) return;
      print(context, event);
      seen += 1;
      if (seen >= most) limits.abort();
    };
    const { rest } = await context.opened();
    if (rest === null) await poll(context, signal, tell);
    else await follow(context, signal, tell);
    return exit.done;
  },
});

/** A daemon that restarts, or a proxy that ends a long connection, is no end: on where we were. */
async function follow(
  context: Context,
  signal: AbortSignal,
  tell: (event: StreamedEvent) => void,
): Promise<void> {
  const { rest } = await context.opened();
  const ns = await context.namespace();
  let after: string | undefined;
  let failures = 0;
  const stopped = (): boolean => signal.aborted;
  while (!stopped() && rest !== null) {
    try {
      for await (const event of rest.events(ns, { signal, ...(after !== undefined && { after }) })) {
        after = event.id;
        failures = 0;
        tell(event);
        if (stopped()) return;
      }
    } catch (error) {
      if (stopped()) return;
      failures += 1;
      // the first look must succeed: an address that nobody serves is told at once
      if (after === undefined || failures > 20) throw error;
    }
    await wait(backOffMs(failures, 200, 5000), undefined, { signal }).catch(() => undefined);
  }
}

async function poll(
  context: Context,
  signal: AbortSignal,
  tell: (event: StreamedEvent) => void,
): Promise<void> {
  const { coordinate, ns } = await context.work();
  let before: Map<string, TallyRow> | null = null;
  await every(1000, Infinity, signal, async () => {
    const rows = await coordinate.tally(ns);
    for (const row of rows) {
      const change = before === null ? null : changed(before.get(row.workSpec), row);
      if (change !== null && !signal.aborted)
        tell({
          id: "",
          type: "workUnits",
          verb: "tally",
          time: Date.now(),
          workSpec: row.workSpec,
          items: [change],
        });
    }
    before = new Map(rows.map((row) => [row.workSpec, row]));
  });
}

/** By how much each count differs; null when none does. */
function changed(before: TallyRow | undefined, now: TallyRow): Record<string, number> | null {
  const old = before === undefined ? null : totals(before);
  const change: Record<string, number> = {};
  for (const [status, value] of Object.entries(totals(now))) {
    const difference = value - (old?.[status as keyof typeof old] ?? 0);
    if (difference !== 0 && status !== "total") change[status] = difference;
  }
  return Object.keys(change).length === 0 ? null : change;
}

function print({ out }: Context, event: StreamedEvent): void {
  if (out.json) {
    out.printJson(event, 0);
    return;
  }
  const at = time(event.time, Date.now());
  out.line(cut(`${out.paint("dim", at)}  ${sentence(event)}`, out.columns));
}

interface Item {
  name?: string;
  attempt?: string;
  workSpec?: string;
  workUnit?: string;
  worker?: string;
  status?: string | null;
  mode?: string;
  active?: boolean;
  progress?: { done: number; note: string };
}

function sentence(event: StreamedEvent): string {
  const items = (event.items ?? []) as readonly (Item | string)[];
  const objects = items.filter((item): item is Item => typeof item === "object");
  const number = event.count ?? items.length;
  const spec = event.workSpec === undefined ? "" : ` in ${quote(event.workSpec)}`;
  switch (event.verb) {
    case "addWorkUnits":
      return `added ${some(
        number,
        "work unit",
        objects.map(({ name }) => name ?? ""),
      )}${spec}`;
    case "requestAttempts":
    case "makeAttempts":
      return `${quote(objects[0]?.worker ?? "")} took ${some(
        number,
        "work unit",
        objects.map(({ workUnit }) => workUnit ?? ""),
      )} in ${quote(objects[0]?.workSpec ?? "")}`;
    case "settleAttempts": {
      const [only] = objects;
      if (number === 1 && only?.progress !== undefined)
        return `attempt ${quote(only.attempt ?? "")}: ${percent(only.progress)}`;
      return `settled ${counted(number, "attempt")}: ${tallyOf(objects.map(({ status }) => status ?? "unknown"))}`;
    }
    case "updateWorkers":
      return `${some(
        number,
        "worker",
        objects.map(({ name }) => name ?? ""),
      )}: ${tallyOf(objects.map(({ active, mode }) => (active === true ? (mode ?? "") : "gone")))}`;
    case "setWorkSpecs":
    case "setWorkSpecMeta":
    case "deleteWorkSpecs":
      return `${words(event.verb)} ${listed(items.filter((item) => typeof item === "string"))}`;
    case "tally":
    case "tidy":
      return `${event.verb === "tidy" ? "tidied up" : quote(event.workSpec ?? "")}: ${changes(items[0])}`;
    default:
      return event.type === "reset"
        ? "some events were missed"
        : `${words(event.verb)}${event.count === undefined ? "" : ` ${counted(event.count, "work unit")}`}${spec}`;
  }
}

const percent = ({ done, note }: { done: number; note: string }): string =>
  `${Math.floor(done * 100)} %${note === "" ? "" : ` (${show(note)})`}`;

/** One by its name, more by their number. */
const some = (number: number, noun: string, names: readonly string[]): string =>
  number === 1 ? quote(names[0] ?? "") : counted(number, noun);

const words = (verb: string): string => verb.replace(/[A-Z]/g, (letter) => ` ${letter.toLowerCase()}`);

function tallyOf(values: readonly string[]): string {
  const counts = new Map<string, number>();
  for (const value of values) counts.set(value, (counts.get(value) ?? 0) + 1);
  return [...counts]
    .map(([value, count]) => (values.length === 1 ? show(value) : `${count} ${show(value)}`))
    .join(", ");
}

function changes(item: unknown): string {
  if (typeof item !== "object" || item === null) return "";
  return Object.entries(item)
    .filter(([, value]) => value !== 0)
    .map(([key, value]) => `${key} ${Number(value) > 0 ? "+" : ""}${String(value)}`)
    .join(", ");
}
