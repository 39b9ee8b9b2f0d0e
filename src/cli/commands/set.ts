/** `coordinate set`: shows and changes the scheduling settings of a work spec without setting the spec again. */
import {
  metaFields,
  settableFields,
  type FieldKind,
  type MetaField,
  type WorkSpecMeta,
  type WorkSpecMetaChange,
} from "../../core/index.ts";
import { didYouMean } from "../../config/did-you-mean.ts";
import { command } from "../command.ts";
import { quote } from "../escape.ts";
import { exit, UsageError } from "../failure.ts";
import { requireWorkSpec } from "../naming.ts";
import { readCount, readDuration, readNumber, time } from "../units.ts";

/** Parses a value from the command line, by kind of field. */
const readers: Readonly<Record<FieldKind, (text: string, name: string) => unknown>> = {
  number: readNumber,
  amount: readAmount,
  share: readAmount,
  count: (text, name) => readCount(text, name),
  boolean: readFlag,
  text: (text) => text,
  object: readJson,
  arguments: readJson,
  duration: readDuration,
  time: readTime,
  times: readJson,
  names: readJson,
  weights: readJson,
  choice: (text) => text,
};

/** As in the keys of a work spec: durations in seconds; times as ISO dates. */
export function show({ kind, field }: MetaField, meta: WorkSpecMeta): unknown {
  const value = meta[field];
  if (kind === "duration") return Number(value) / 1000;
  return kind === "time" && value !== 0 ? new Date(Number(value)).toISOString() : value;
}

/** The current metadata. */
export const shownMeta = (
  meta: WorkSpecMeta,
  fields: readonly MetaField[] = metaFields,
): Record<string, unknown> => Object.fromEntries(fields.map((row) => [row.name, show(row, meta)]));

export const settingNames = settableFields.map(({ name }) => name);

export default command({
  define: (it) => {
    it.argument("<work-spec>", "the work spec")
      .argument("[key=value...]", `settings to change: ${settingNames.join(", ")}`)
      .addHelpText(
        "after",
        "\nWithout a key, shows the current settings. Durations are seconds, or 5m, 12h; times are now or a date." +
          "\nChanges apply until the work spec is set again by load or flow without --keep-meta.",
      );
  },
  run: async (context, { args: [name = "", ...pairs] }) => {
    const change = readPairs(pairs);
    const row = await requireWorkSpec(context, name);
    const { coordinate, ns } = await context.work();
    const meta = pairs.length === 0 ? row.meta : await coordinate.setWorkSpecMeta(ns, name, change);
    const { out } = context;
    if (out.json) out.printJson(shownMeta(meta, settableFields));
    else {
      const rows = pairs.length === 0 ? settableFields : pairs.map(fieldOf);
      for (const row of rows) out.line(`${row.name}=${line(row, meta)}`);
    }
    if (change.continuous === true && !meta.continuous)
      out.remark(
        `${quote(name)} cannot be continuous because its data does not allow it. Set the work spec again with continuous: true.`,
      );
    return exit.done;
  },
});

/** The field that KEY=VALUE sets, by its name, its key in the data, or an alias. */
function fieldOf(pair: string): MetaField {
  const at = pair.indexOf("=");
  if (at < 1) throw new UsageError(`expected KEY=VALUE, got ${pair}`);
  const given = pair.slice(0, at).replaceAll("-", "_");
  const row = settableFields.find(
    ({ name, key, aliases }) => name === given || key === given || aliases?.includes(given) === true,
  );
  if (row !== undefined) return row;
  throw new UsageError(
    `${given} is not a setting; expected one of ${settingNames.join(", ")}${didYouMean(given, settingNames)}`,
  );
}

function line(row: MetaField, meta: WorkSpecMeta): string {
  const value = String(show(row, meta));
  const at = meta[row.field];
  return row.kind === "time" && at !== 0 ? `${value} (${time(Number(at), 0)} local time)` : value;
}

/** Parses all pairs before any is applied. */
const readPairs = (pairs: readonly string[]): WorkSpecMetaChange =>
  Object.fromEntries(
    pairs.map((pair) => {
      const { field, name, kind } = fieldOf(pair);
      return [field, readers[kind](pair.slice(pair.indexOf("=") + 1), name)];
    }),
  );

function readFlag(text: string, key: string): boolean {
  if (/^(true|yes|on|1)$/i.test(text)) return true;
  if (/^(false|no|off|0)$/i.test(text)) return false;
  throw new UsageError(`${key}: expected true or false, got ${text}`);
}

function readAmount(text: string, key: string): number {
  const value = readNumber(text, key);
  if (value < 0) throw new UsageError(`${key}: expected 0 or more, got ${text}`);
  return value;
}

/** `now`, 0, a date, or seconds since 1970. */
function readTime(text: string, key: string): number {
  if (text === "now" || text === "0") return 0;
  const at = /^\d+(\.\d+)?$/.test(text) ? Number(text) * 1000 : Date.parse(text);
  if (!Number.isFinite(at) || at < 0) throw new UsageError(`${key}: expected now or a date, got ${text}`);
  return Math.round(at);
}

function readJson(text: string, key: string): unknown {
  try {
    return JSON.parse(text) as unknown;
  } catch {
    throw new UsageError(`${key}: expected JSON, got ${text}`);
  }
}
