/**
 * The known keys of a work spec's data: the one table that the engine reads by, that files are checked against before
 * anything is sent, and that editors complete from.
 */
import { nameFromBytes } from "./names.ts";

/** `amount` is a number of 0 or more, `count` an integer of 0 or more, `arguments` a list or an object. */
export type WorkSpecKeyKind = "number" | "amount" | "count" | "boolean" | "text" | "object" | "arguments";

export interface WorkSpecKey {
  readonly kind: WorkSpecKeyKind;
  readonly help: string;
  /** Of an object whose keys are known too. */
  readonly keys?: Readonly<Record<string, WorkSpecKey>>;
  /** Stored and handed to workers; the engine takes whatever stands there. */
  readonly forWorkers?: true;
}

const retentionLimit = {
  max_age: { kind: "amount", help: "Seconds since the unit ended for which it is kept" },
  max_count: { kind: "count", help: "How many units are kept, the newest" },
} as const satisfies Record<string, WorkSpecKey>;

export const workSpecKeys = {
  name: { kind: "text", help: "The name of the work spec" },
  desc: { kind: "text", help: "A description for people", forWorkers: true },
  min_gb: { kind: "amount", help: "Memory that a job needs, in GB" },
  runtime: { kind: "text", help: "What the jobs run in; workers ask for the runtimes that they have" },
  task: { kind: "text", help: "The task to run; the name of the work spec if not given", forWorkers: true },
  module: { kind: "text", help: "The module that has the function to run", forWorkers: true },
  run_function: { kind: "text", help: "The function to call for each work unit", forWorkers: true },
  terminate_function: {
    kind: "text",
    help: "The function to call before a job is stopped by force",
    forWorkers: true,
  },
  run_params: {
    kind: "arguments",
    help: "Further arguments of the function: a list, or keywords and their values",
    forWorkers: true,
  },
  config: {
    kind: "object",
    help: "The configuration of the jobs; in a flow it is laid over the configuration in effect, and null deletes a key",
    forWorkers: true,
  },
  priority: { kind: "number", help: "Work specs of higher priority always go first; 0 if not given" },
  weight: { kind: "number", help: "The share among work specs of equal priority; 20 if not given" },
  nice: { kind: "number", help: "Another way to say the weight: 20 - nice" },
  disabled: { kind: "boolean", help: "Starts paused" },
  max_running: { kind: "count", help: "Units that may be pending at once; 0 is unlimited" },
  max_getwork: { kind: "count", help: "Units that one request is given at most; 0 is unlimited" },
  max_retries: { kind: "count", help: "Attempts after which a unit fails; 0 is unlimited" },
  continuous: { kind: "boolean", help: "Makes units of its own when it has none" },
  interval: { kind: "amount", help: "Seconds at least between two units that it makes" },
  then: { kind: "text", help: "The full name of the work spec that gets the outputs" },
  then_preempts: { kind: "boolean", help: "Under the python policy: units of the next work spec go first" },
  retention: {
    kind: "object",
    help: "How long ended units are kept",
    keys: {
      finished: { kind: "object", help: "Of finished units", keys: retentionLimit },
      failed: { kind: "object", help: "Of failed units", keys: retentionLimit },
    },
  },
} as const satisfies Record<string, WorkSpecKey>;

const wanted: Readonly<Record<WorkSpecKeyKind, string>> = {
  number: "a number",
  amount: "a number of 0 or more",
  count: "an integer of 0 or more",
  boolean: "a boolean",
  text: "a string",
  object: "an object",
  arguments: "a list or an object",
};

export const wantedKind = (kind: WorkSpecKeyKind): string => wanted[kind];

interface KindValue {
  number: number;
  amount: number;
  count: number;
  boolean: boolean;
  text: string;
  object: Record<string, unknown>;
  arguments: readonly unknown[] | Record<string, unknown>;
}

/** The value as its kind has it; undefined when it is of another. */
export function readKind<Kind extends WorkSpecKeyKind>(
  kind: Kind,
  value: unknown,
): KindValue[Kind] | undefined {
  return readers[kind](value);
}

const readers: { readonly [Kind in WorkSpecKeyKind]: (value: unknown) => KindValue[Kind] | undefined } = {
  number: (value) => atLeast(-Infinity, value),
  amount: (value) => atLeast(0, value),
  count: (value) => {
    const number = atLeast(0, value);
    return Number.isSafeInteger(number) ? number : undefined;
  },
  boolean: (value) => (typeof value === "boolean" ? value : undefined),
  text: textOf,
  object: objectOf,
  arguments: (value) => (Array.isArray(value) ? (value as readonly unknown[]) : objectOf(value)),
};

function objectOf(value: unknown): Record<string, unknown> | undefined {
  return typeof value === "object" &&
    value !== null &&
    !Array.isArray(value) &&
    !(value instanceof Uint8Array)
    ? (value as Record<string, unknown>)
    : undefined;
}

function atLeast(least: number, value: unknown): number | undefined {
  const number = typeof value === "bigint" ? Number(value) : value;
  return typeof number === "number" && Number.isFinite(number) && number >= least ? number : undefined;
}

/** Python sends most strings as bytes; for a special key both forms are text. */
export function textOf(value: unknown): string | undefined {
  if (typeof value === "string") return value;
  return value instanceof Uint8Array ? nameFromBytes(value) : undefined;
}
