/** `coordinate set`: what the scheduler looks at in a work spec, shown and changed without setting the spec again. */
import type { WorkSpecMeta, WorkSpecMetaChange } from "../../core/index.ts";
import { didYouMean } from "../../config/did-you-mean.ts";
import { command } from "../command.ts";
import { quote } from "../escape.ts";
import { exit, UsageError } from "../failure.ts";
import { requireWorkSpec } from "../naming.ts";
import { readCount, readDuration, readNumber, time } from "../units.ts";

interface Setting {
  read: (text: string, key: string) => WorkSpecMetaChange;
  show: (meta: WorkSpecMeta) => string | number | boolean;
}

/** In the words of the work spec's own keys; times in seconds, as there. */
const settings: Readonly<Record<string, Setting>> = {
  priority: { read: (text, key) => ({ priority: readNumber(text, key) }), show: (meta) => meta.priority },
  weight: { read: (text, key) => ({ weight: readNumber(text, key) }), show: (meta) => meta.weight },
  paused: { read: (text, key) => ({ paused: readFlag(text, key) }), show: (meta) => meta.paused },
  continuous: { read: (text, key) => ({ continuous: readFlag(text, key) }), show: (meta) => meta.continuous },
  interval: {
    read: (text, key) => ({ intervalMs: readDuration(text, key) }),
    show: (meta) => meta.intervalMs / 1000,
  },
  next_continuous: {
    read: (text, key) => ({ nextContinuous: readTime(text, key) }),
    show: (meta) => (meta.nextContinuous === 0 ? 0 : new Date(meta.nextContinuous).toISOString()),
  },
  max_running: {
    read: (text, key) => ({ maxRunning: readCount(text, key) }),
    show: (meta) => meta.maxRunning,
  },
  max_getwork: {
    read: (text, key) => ({ maxGetwork: readCount(text, key) }),
    show: (meta) => meta.maxGetwork,
  },
  max_retries: {
    read: (text, key) => ({ maxRetries: readCount(text, key) }),
    show: (meta) => meta.maxRetries,
  },
  min_gb: { read: (text, key) => ({ minGb: readAmount(text, key) }), show: (meta) => meta.minGb },
};

/** What can be set, as it is now. */
export const shownMeta = (meta: WorkSpecMeta): Record<string, string | number | boolean> =>
  Object.fromEntries(Object.entries(settings).map(([key, { show }]) => [key, show(meta)]));

export const settingNames = Object.keys(settings);

export default command({
  define: (it) => {
    it.argument("<work-spec>", "its name")
      .argument("[key=value...]", `what to set: ${settingNames.join(", ")}`)
      .addHelpText(
        "after",
        "\nWithout a key, shows what is set. interval is in seconds, or 5m, 12h; next_continuous is now or a date." +
          "\nWhat is set here holds until the work spec is set again (unless that is done with --keep-meta).",
      );
  },
  run: async (context, { args: [name = "", ...pairs] }) => {
    const change = readPairs(pairs);
    const row = await requireWorkSpec(context, name);
    const { coordinate, ns } = await context.work();
    const meta = pairs.length === 0 ? row.meta : await coordinate.setWorkSpecMeta(ns, name, change);
    const { out } = context;
    if (out.json) out.printJson(shownMeta(meta));
    else {
      const keys = pairs.length === 0 ? settingNames : pairs.map((pair) => keyOf(pair));
      for (const key of keys) out.line(`${key}=${line(key, meta)}`);
    }
    if (change.continuous === true && !meta.continuous)
      out.remark(
        `${quote(name)} cannot be continuous: its data does not say so, and continuous stays off. Set the work spec again with continuous: true.`,
      );
    return exit.done;
  },
});

const keyOf = (pair: string): string => pair.slice(0, pair.indexOf("=")).replaceAll("-", "_");

function line(key: string, meta: WorkSpecMeta): string {
  const value = String(settings[key]?.show(meta) ?? "");
  return key === "next_continuous" && meta.nextContinuous > 0
    ? `${value} (${time(meta.nextContinuous, 0)} here)`
    : value;
}

/** All of them are read before any is applied. */
function readPairs(pairs: readonly string[]): WorkSpecMetaChange {
  let change: WorkSpecMetaChange = {};
  for (const pair of pairs) {
    const at = pair.indexOf("=");
    const key = keyOf(pair);
    const setting = at < 1 ? undefined : settings[key];
    if (at < 1) throw new UsageError(`expected KEY=VALUE, got ${pair}`);
    if (setting === undefined)
      throw new UsageError(
        `${key} cannot be set; there are ${settingNames.join(", ")}${didYouMean(key, settingNames)}`,
      );
    change = { ...change, ...setting.read(pair.slice(at + 1), key) };
  }
  return change;
}

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
