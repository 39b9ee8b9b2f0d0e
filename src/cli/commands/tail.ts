/** `coordinate tail`: prints events as they happen. */
import { setTimeout as wait } from "node:timers/promises";
import {
  backOffMs,
  dataGetText,
  errorLine,
  type AttemptRow,
  type BreakerState,
  type TallyRow,
} from "../../core/index.ts";
import type { StreamedEvent } from "../../rest/client.ts";
import { command, repeatedWords } from "../command.ts";
import type { Context } from "../context.ts";
import { totals } from "../counts.ts";
import { quote, show } from "../escape.ts";
import { every } from "../every.ts";
import { exit, UsageError } from "../failure.ts";
import { listed } from "../naming.ts";
import { cut } from "../table.ts";
import { counted, readCount, readDuration, time } from "../units.ts";

const types = ["workSpecs", "workUnits", "attempts", "workers", "namespace"] as const;

interface Options {
  count?: string;
  for?: string;
  type?: string[];
}

export default command<Options>({
  define: (it) => {
    it.option("-n, --count <n>", "stop after this many events")
      .option("--for <time>", "stop after this time")
      .option(
        "--type <type>",
        `only events of this type: ${types.join(", ")}; may be repeated`,
        repeatedWords,
      )
      .addHelpText(
        "after",
        "\nA daemon reports the events of its own requests. CBOR-RPC and --backend have no events: there, the counts are" +
          "\nread every second and differences are printed.",
      );
  },
  run: async (context, { options }) => {
    for (const type of options.type ?? [])
      if (!types.some((one) => one === type))
        throw new UsageError(`--type: expected one of ${types.join(", ")}, got ${type}`);
    const limits = new AbortController();
    const signal = AbortSignal.any([context.signal, limits.signal]);
    if (options.for !== undefined) {
      const ms = readDuration(options.for, "--for");
      void wait(ms, undefined, { signal, ref: false }).then(
        () => limits.abort(),
        () => undefined,
      );
    }
    const max = options.count === undefined ? Infinity : readCount(options.count, "--count", 1);
    let seen = 0;
    const tell = async (event: StreamedEvent): Promise<void> => {
      if (options.type !== undefined && !options.type.includes(event.type)) return;
      await print(context, event);
      seen += 1;
      if (seen >= max) limits.abort();
    };
    const { rest } = await context.opened();
    if (rest === null) await poll(context, signal, tell);
    else await follow(context, signal, tell);
    return exit.done;
  },
});

/** Reconnects after the last event when a daemon restarts or a proxy closes the connection. */
async function follow(
  context: Context,
  signal: AbortSignal,
  tell: (event: StreamedEvent) => Promise<void>,
): Promise<void> {
  const { rest } = await context.opened();
  const ns = await context.namespace();
  let after: string | undefined;
  let failures = 0;
  const stopped = (): boolean => signal.aborted;
  while (!stopped() && rest !== null) {
    try {
      // an unknown cursor: the next connection is told that events were missed
      const onOpen = (): void => void (after ??= "");
      for await (const event of rest.events(ns, { signal, onOpen, ...(after !== undefined && { after }) })) {
        after = event.id;
        failures = 0;
        await tell(event);
        if (stopped()) return;
      }
    } catch (error) {
      if (stopped()) return;
      failures += 1;
      // the first connection must succeed, so that a wrong address is reported at once
      if (after === undefined || failures > 20) throw error;
    }
    await wait(backOffMs(failures, 200, 5000), undefined, { signal }).catch(() => undefined);
  }
}

async function poll(
  context: Context,
  signal: AbortSignal,
  tell: (event: StreamedEvent) => Promise<void>,
): Promise<void> {
  const { coordinate, ns } = await context.work();
  let before: Map<string, TallyRow> | null = null;
  await every(1000, Infinity, signal, async () => {
    const rows = await coordinate.tally(ns);
    for (const row of rows) {
      const change = before === null ? null : changed(before.get(row.workSpec), row);
      if (change !== null && !signal.aborted)
        await tell({
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

/** The difference of each count; null when no count changed. */
function changed(before: TallyRow | undefined, now: TallyRow): Record<string, number> | null {
  const old = before === undefined ? null : totals(before);
  const change: Record<string, number> = {};
  for (const [status, value] of Object.entries(totals(now))) {
    const difference = value - (old?.[status as keyof typeof old] ?? 0);
    if (difference !== 0 && status !== "total") change[status] = difference;
  }
  return Object.keys(change).length === 0 ? null : change;
}

async function print(context: Context, event: StreamedEvent): Promise<void> {
  const { out } = context;
  if (out.json) {
    out.printJson(event, 0);
    return;
  }
  const at = out.paint("dim", time(event.time, Date.now()));
  const lines = event.verb === "settleAttempts" ? await settled(context, event) : [sentence(event)];
  for (const line of lines) out.line(cut(`${at}  ${line}`, out.columns));
}

/** How many errors of one event get a line each. */
const maxErrors = 5;

/** An event has only attempt ids: reads their names and errors. */
async function settled(context: Context, event: StreamedEvent): Promise<string[]> {
  const items = (event.items ?? []) as readonly Item[];
  const { coordinate, ns } = await context.work();
  const ids = items.flatMap(({ attempt }) => attempt ?? []);
  // without the right to read them, or after they were deleted, the rest is printed all the same
  const found = await coordinate.getAttempts(ns, ids).catch(() => []);
  const rows = new Map(found.flatMap((row) => (row === null ? [] : [[row.id, row] as const])));
  const [only] = items;
  if (event.count === 1 && only !== undefined) return [ofOne(only, rows.get(only.attempt ?? ""))];
  const names = new Map<string, string[]>();
  for (const { status, attempt } of items) {
    const word = status ?? "unknown";
    const row = rows.get(attempt ?? "");
    names.set(word, [...(names.get(word) ?? []), ...(row === undefined ? [] : [row.workUnit])]);
  }
  const groups = [...names].map(([status, units]) => {
    const count = items.filter((item) => (item.status ?? "unknown") === status).length;
    return `${count} ${show(status)}${units.length === 0 ? "" : ` (${listed(units)})`}`;
  });
  const wrong = items.filter(({ attempt }) => errorOf(rows.get(attempt ?? "")) !== "");
  return [
    `settled ${counted(event.count ?? items.length, "attempt")}: ${groups.join(", ")}`,
    ...wrong.slice(0, maxErrors).map((item) => ofOne(item, rows.get(item.attempt ?? ""))),
    ...(wrong.length > maxErrors ? [`and ${wrong.length - maxErrors} more with errors`] : []),
  ];
}

function ofOne({ attempt, status, progress }: Item, row: AttemptRow | undefined): string {
  const unit = row === undefined ? `attempt ${quote(attempt ?? "")}` : quote(row.workUnit);
  const spec = row === undefined ? "" : ` in ${quote(row.workSpec)}`;
  if (progress !== undefined) return `${unit}${spec}: ${percent(progress)}`;
  const error = errorOf(row);
  return `${unit}${spec}: ${show(status ?? "unknown")}${error === "" ? "" : `, attempt ${row?.number}: ${show(error)}`}`;
}

/** The error in one line; empty when there is none. */
function errorOf(row: AttemptRow | undefined): string {
  if (row?.status !== "failed" && row?.status !== "retryable") return "";
  const text =
    row.data === null ? null : (dataGetText(row.data, "last_error") ?? dataGetText(row.data, "traceback"));
  return text === null ? "" : errorLine(text);
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
    case "breaker":
      return `${quote(event.workSpec ?? "")}: ${breakerText(items[0])}`;
    case "tally":
    case "sweep":
      return `${event.verb === "sweep" ? "swept" : quote(event.workSpec ?? "")}: ${changes(items[0])}`;
    default:
      return event.type === "reset"
        ? "some events were missed"
        : `${words(event.verb)}${event.count === undefined ? "" : ` ${counted(event.count, "work unit")}`}${spec}`;
  }
}

const percent = ({ done, note }: { done: number; note: string }): string =>
  `${Math.floor(done * 100)} %${note === "" ? "" : ` (${show(note)})`}`;

/** A single item by its name, several by their number. */
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

function breakerText(item: unknown): string {
  const { since, failed = 0, ended = 0, error = "" } = (item ?? {}) as BreakerState;
  if (since === undefined) return "its breaker closed";
  return `its breaker tripped, ${failed} of ${ended} attempts failed${error === "" ? "" : `: ${show(error)}`}`;
}

function changes(item: unknown): string {
  if (typeof item !== "object" || item === null) return "";
  return Object.entries(item)
    .filter(([, value]) => value !== 0)
    .map(([key, value]) => `${key} ${Number(value) > 0 ? "+" : ""}${String(value)}`)
    .join(", ");
}
