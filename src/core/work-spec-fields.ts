/**
 * The fields of a work spec: one table of the keys that its data may have and of the metadata that the scheduler reads.
 *
 * Reading, checking and resetting work specs, the schemas of REST and of flow files, `coordinate set`, import and the
 * tables of docs/work-specs.md go by it. A new field is a row here, a member of `WorkSpecMeta`, and the rule that reads it.
 */
import { breakerActions, breakerScopes, type Breaker, type BreakerState } from "./breaker.ts";
import { largestNumber, latestTime, longestSpanMs } from "./check.ts";
import { describeValue } from "./describe-value.ts";
import { nameFromBytes } from "./names.ts";
import type { Rate } from "./partitions.ts";
import { backoffKinds, type RetryPolicy } from "./retry.ts";
import { overlapPolicies, type Schedule } from "./schedule.ts";

/** The metadata that the scheduler reads. Derived from the data when a work spec is set; some fields may then be set on their own. */
export interface WorkSpecMeta {
  /** Higher always goes first. */
  priority: number;
  /** Share among specs of equal priority; zero or less is never scheduled. */
  weight: number;
  paused: boolean;
  /** No unit is handed out before this time; 0 is "at once". */
  notBefore: number;
  continuous: boolean;
  /** The `continuous` key of the data; only then may `continuous` be switched on. */
  canBeContinuous: boolean;
  minGb: number;
  intervalMs: number;
  /** No generated unit before this time; 0 is "at once". */
  nextContinuous: number;
  /** 0 is unlimited, here and below. */
  maxRunning: number;
  maxGetwork: number;
  maxRetries: number;
  /** Running units of one partition; 0 is unlimited. */
  maxRunningPerPartition: number;
  rate: Rate;
  ratePerPartition: Rate;
  /** "partition": the next unit of a partition only when the one before has ended. */
  order: "" | "partition";
  /** "partition": partitions take turns, whatever the priorities of their units. */
  fair: "" | "partition";
  /** Priority that a unit gains in a minute of waiting. */
  aging: number;
  /** What units had gained when `aging` was last changed, and when that was: see timing.ts. */
  agedPoints: number;
  agedSince: number;
  /** With `fair`, the units in a turn of a partition; 1 for partitions that are not named. */
  partitionWeights: Readonly<Record<string, number>>;
  /** The shared limits of the namespace that apply to its units. */
  limits: readonly string[];
  /** What happens to a unit whose task ends in an error; empty is no policy. */
  retry: RetryPolicy;
  /** When it pauses itself because too many attempts fail; empty is never. */
  breaker: Breaker;
  /** The state of the breaker; see `breaker.ts`. */
  breakerState: BreakerState;
  /** The most units that may wait; adding more is refused. */
  maxWaiting: number;
  /** The `then` key; empty is none. */
  nextWorkSpecName: string;
  thenPreempts: boolean;
  runtime: string;
  /** What it requires of workers: see `worker-labels.ts`. */
  requires: readonly string[];
  /** The task that a worker needs to run it: the `task` key, else the name. Empty in a work spec that an earlier version stored. */
  taskName: string;
  /** It has a `module`, and runs a function of it instead of a task. */
  runsModule: boolean;
  retention: Retention;
  schedule: Schedule;
  /** When the schedule makes its next unit; 0 is never. */
  nextRun: number;
  /** The time of the last unit that it made; 0 is none. */
  lastRun: number;
}

/** How long ended units are kept, by status; an absent limit keeps them for ever. */
export interface Retention {
  finished?: RetentionLimit;
  failed?: RetentionLimit;
}

export interface RetentionLimit {
  maxAgeMs?: number;
  maxCount?: number;
}

/**
 * What a value is. In data, a `duration` is in seconds, up to half the range of dates, and a `time` is in seconds since 1970 or a
 * date in RFC 3339; in metadata both are in milliseconds. An `amount` is a number of 0 or more, a `share` one from 0 to 1, a `count`
 * an integer of 0 or more, `arguments` are a list or an object, `times` a list of times, `names` a list of strings, `weights` an
 * object of integers of 1 or more, and a `choice` is one of the words of its row.
 */
export type FieldKind =
  | "number"
  | "amount"
  | "share"
  | "count"
  | "boolean"
  | "text"
  | "object"
  | "arguments"
  | "duration"
  | "time"
  | "times"
  | "names"
  | "weights"
  | "choice";

export interface WorkSpecField {
  readonly kind: FieldKind;
  /** One sentence for people: in schemas, in editors, in the docs. */
  readonly help: string;
  /** The member of the metadata that holds it; a key without one is not read by the scheduler. */
  readonly field?: string;
  /** The metadata's value where the data has no such key. */
  readonly default?: unknown;
  /** `setWorkSpecMeta` may change it; `keepMeta` then keeps what was set. */
  readonly settable?: true;
  /** Metadata only: in data, this key is the user's own. */
  readonly metaOnly?: true;
  /** Its name in `coordinate set` and `--meta`, where that is not the key. */
  readonly shownAs?: string;
  /** Other names that `coordinate set` takes. */
  readonly aliases?: readonly string[];
  /** Newer than the clients of the old protocols, whose work specs may use the key for something else. */
  readonly newer?: true;
  /** What a number counts, where its kind does not say so. */
  readonly unit?: string;
  /** Of a choice: the words. Of a count: words that may stand for a number. */
  readonly words?: readonly string[] | Readonly<Record<string, number>>;
  /** The fields of an object whose keys are known. */
  readonly keys?: Readonly<Record<string, WorkSpecField>>;
  /** Stored for workers, which read it; the engine accepts any value. */
  readonly forWorkers?: true;
}

const retentionLimit = {
  max_age: {
    kind: "duration",
    field: "maxAgeMs",
    help: "Seconds to keep a unit after it has ended",
  },
  max_count: { kind: "count", field: "maxCount", help: "How many of the newest units to keep" },
} as const satisfies Record<string, WorkSpecField>;

/** Nothing, or by partition. */
const partitionWords = ["", "partition"] as const;

const rate = {
  limit: { kind: "amount", field: "limit", help: "Units that may start in one period; 0 is unlimited" },
  period: { kind: "duration", field: "periodMs", help: "Length of the period in seconds; 1 if not given" },
  burst: {
    kind: "count",
    field: "burst",
    help: "Units that may start at the same time after a quiet period; 1 if not given, which spaces starts evenly",
  },
} as const satisfies Record<string, WorkSpecField>;

const backoff = {
  kind: {
    kind: "choice",
    field: "kind",
    words: backoffKinds,
    help: "exponential (the default) doubles the wait after each try, linear adds delay after each try, fixed always waits delay",
  },
  delay: { kind: "duration", field: "delayMs", help: "Seconds to wait after the first try; 1 if not given" },
  max: { kind: "duration", field: "maxMs", help: "Longest wait, in seconds; 3600 if not given" },
  jitter: {
    kind: "share",
    field: "jitter",
    help: "Random share of the wait, from 0 to 1: 0.5 waits between half of the time and all of it; 0 if not given",
  },
} as const satisfies Record<string, WorkSpecField>;

const breakerKeys = {
  failures: {
    kind: "share",
    field: "failures",
    help: "The share of failed attempts in the window that trips the breaker; 0 turns it off",
  },
  min: {
    kind: "count",
    field: "min",
    help: "The breaker trips only after this many attempts in the window; 10 if not given",
  },
  window: {
    kind: "duration",
    field: "windowMs",
    help: "Seconds over which attempts are counted; 60 if not given",
  },
  pause: {
    kind: "duration",
    field: "pauseMs",
    help: "Seconds before the first probes, and between rounds of probes; 60 if not given",
  },
  probes: {
    kind: "count",
    field: "probes",
    help: "Units to try in each round, and how many must finish in a row to close the breaker; 1 if not given",
  },
  by: {
    kind: "choice",
    field: "by",
    words: breakerScopes,
    help: "work_spec (the default) counts all failures together; error counts each error separately",
  },
  action: {
    kind: "choice",
    field: "action",
    words: breakerActions,
    help: "pause (the default) waits before the first probes; slow starts them at once",
  },
} as const satisfies Record<string, WorkSpecField & { field: keyof Breaker }>;

const breakerStateKeys = {
  since: { kind: "time", field: "since", help: "When the breaker tripped; absent while it is closed" },
  until: { kind: "time", field: "until", help: "When the next round of probes may start" },
  left: { kind: "count", field: "left", help: "Probes that may still start before until" },
  good: { kind: "count", field: "good", help: "Probes that have finished since the last one failed" },
  failed: { kind: "count", field: "failed", help: "Failed attempts in the window when it tripped" },
  ended: { kind: "count", field: "ended", help: "Ended attempts in the window when it tripped" },
  error: { kind: "text", field: "error", help: "Error of the last failed attempt" },
  from: { kind: "time", field: "from", help: "Attempts that ended before this time are not counted" },
} as const satisfies Record<string, WorkSpecField & { field: keyof BreakerState }>;

const scheduleKeys = {
  cron: {
    kind: "text",
    field: "cron",
    help: "A cron expression with five fields, or with six, the first for seconds",
  },
  timezone: {
    kind: "text",
    field: "timezone",
    help: "The time zone of cron, such as Europe/Brussels; UTC if not given",
  },
  every: {
    kind: "duration",
    field: "everyMs",
    help: "Seconds from one unit to the next, counted from start, or from 1970 without a start",
  },
  at: { kind: "times", field: "at", help: "A unit at each of these times" },
  start: { kind: "time", field: "start", help: "No run before this time" },
  end: { kind: "time", field: "end", help: "No run after this time" },
  jitter: {
    kind: "duration",
    field: "jitterMs",
    help: "Delays each unit by up to this many seconds",
  },
  catch_up: {
    kind: "count",
    field: "catchUp",
    words: { skip: 0, one: 1 },
    help: "How many of the latest missed runs to make up after an outage: skip, one (the default), or a number",
  },
  overlap: {
    kind: "choice",
    field: "overlap",
    words: overlapPolicies,
    help: "What to do while the unit of the previous run has not ended: allow (the default) makes the next unit, skip makes none, wait makes one that starts when the previous has ended",
  },
} as const satisfies Record<string, WorkSpecField & { field: keyof Schedule }>;

/** By key, in the order in which metadata is written. */
export const workSpecFields = {
  name: { kind: "text", help: "The name of the work spec: 1 to 1,024 bytes. It cannot be changed" },
  desc: { kind: "text", help: "A description for people", forWorkers: true },
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
    help: "The configuration of the jobs. A flow file merges it into the configuration in effect; null deletes a key",
    forWorkers: true,
  },
  priority: {
    kind: "number",
    field: "priority",
    default: 0,
    settable: true,
    help: "Work specs of higher priority always go first",
  },
  weight: {
    kind: "number",
    field: "weight",
    default: 20,
    settable: true,
    help: "The share among work specs of equal priority. Zero or less is never scheduled",
  },
  nice: {
    kind: "number",
    help: "Another way to set the weight: 20 - nice, at least 1. Ignored if weight is given",
  },
  disabled: {
    kind: "boolean",
    field: "paused",
    default: false,
    settable: true,
    shownAs: "paused",
    help: "Paused: no new attempts start; running ones continue",
  },
  not_before: {
    kind: "time",
    field: "notBefore",
    default: 0,
    settable: true,
    newer: true,
    help: "No unit is handed out before this time; 0 is no delay",
  },
  continuous: {
    kind: "boolean",
    field: "continuous",
    default: false,
    settable: true,
    help: "Generates a unit when none is available or running. Can be turned on only if the data has continuous: true",
  },
  can_be_continuous: {
    kind: "boolean",
    field: "canBeContinuous",
    default: false,
    metaOnly: true,
    help: "Whether the data has continuous: true",
  },
  min_gb: {
    kind: "amount",
    field: "minGb",
    default: 0,
    settable: true,
    unit: "GB",
    aliases: ["min_memory_gb"],
    help: "Memory that a job needs. A request with availableGb gets no units of work specs that need more",
  },
  interval: {
    kind: "duration",
    field: "intervalMs",
    default: 0,
    settable: true,
    help: "The minimum time between two generated units",
  },
  next_continuous: {
    kind: "time",
    field: "nextContinuous",
    default: 0,
    settable: true,
    metaOnly: true,
    help: "No unit is generated before this time; 0 is no delay",
  },
  max_running: {
    kind: "count",
    field: "maxRunning",
    default: 0,
    settable: true,
    help: "Maximum number of pending units, enforced exactly; 0 is unlimited",
  },
  max_getwork: {
    kind: "count",
    field: "maxGetwork",
    default: 0,
    settable: true,
    aliases: ["max_attempts_returned"],
    help: "Maximum number of attempts that one request gets; 0 is unlimited",
  },
  max_retries: {
    kind: "count",
    field: "maxRetries",
    default: 0,
    settable: true,
    help: "Attempts after which a unit fails instead of being handed out again; 0 is unlimited",
  },
  max_running_per_partition: {
    kind: "count",
    field: "maxRunningPerPartition",
    default: 0,
    settable: true,
    newer: true,
    help: "Maximum number of pending units of one partition, enforced exactly; 0 is unlimited",
  },
  rate: {
    kind: "object",
    field: "rate",
    default: {},
    newer: true,
    help: "How many units may start per period",
    keys: rate,
  },
  rate_per_partition: {
    kind: "object",
    field: "ratePerPartition",
    default: {},
    newer: true,
    help: "How many units of one partition may start per period",
    keys: rate,
  },
  order: {
    kind: "choice",
    field: "order",
    default: "",
    newer: true,
    words: partitionWords,
    help: "With partition, a unit starts only when the previous unit of its partition has finished or failed",
  },
  fair: {
    kind: "choice",
    field: "fair",
    default: "",
    newer: true,
    words: partitionWords,
    help: "With partition, partitions take turns, one unit each, regardless of the number and priority of their units",
  },
  aging: {
    kind: "amount",
    field: "aging",
    default: 0,
    settable: true,
    newer: true,
    help: "Priority that a unit gains per minute of waiting, so that none waits for ever; 0 is none",
  },
  aged_points: {
    kind: "number",
    field: "agedPoints",
    default: 0,
    metaOnly: true,
    help: "Priority gained by aging until it was last changed",
  },
  aged_since: {
    kind: "time",
    field: "agedSince",
    default: 0,
    metaOnly: true,
    help: "When aging was last changed; 0 is never",
  },
  partition_weights: {
    kind: "weights",
    field: "partitionWeights",
    default: {},
    newer: true,
    help: "With fair, the number of units in a turn of a partition, by partition name; 1 for partitions that are not named",
  },
  limits: {
    kind: "names",
    field: "limits",
    default: [],
    newer: true,
    help: "Names of shared limits of the namespace that apply to its units",
  },
  retry: {
    kind: "object",
    field: "retry",
    default: {},
    newer: true,
    help: "What happens to a unit whose task ends in an error. Without retry and max_retries, the unit fails",
    keys: {
      attempts: {
        kind: "count",
        field: "attempts",
        help: "Tries after which a unit fails; 0 is unlimited. If max_retries is given too, the smaller number applies",
      },
      backoff: {
        kind: "object",
        field: "backoff",
        help: "How long a unit waits before its next try",
        keys: backoff,
      },
    },
  },
  breaker: {
    kind: "object",
    field: "breaker",
    default: {},
    newer: true,
    help: "Pauses or slows the work spec when too many of its attempts fail",
    keys: breakerKeys,
  },
  breaker_state: {
    kind: "object",
    field: "breakerState",
    default: {},
    metaOnly: true,
    help: "The state of the breaker; empty if it has never tripped",
    keys: breakerStateKeys,
  },
  max_waiting: {
    kind: "count",
    field: "maxWaiting",
    default: 0,
    settable: true,
    newer: true,
    help: "Maximum number of waiting units; adding more is refused with queue_full. 0 is unlimited",
  },
  then: {
    kind: "text",
    field: "nextWorkSpecName",
    default: "",
    help: "The full name of the work spec that gets the outputs",
  },
  then_preempts: {
    kind: "boolean",
    field: "thenPreempts",
    default: true,
    help: "Under the python policy: units of the next work spec go first",
  },
  runtime: {
    kind: "text",
    field: "runtime",
    default: "",
    help: "The runtime of the jobs. A request that lists runtimes gets only units of work specs whose runtime is in the list",
  },
  requires: {
    kind: "names",
    field: "requires",
    default: [],
    newer: true,
    help: "Conditions on the labels of workers, such as gpu, zone=eu, zone!=us or version>=2.3; also >, <= and <",
  },
  task_name: {
    kind: "text",
    field: "taskName",
    default: "",
    metaOnly: true,
    help: "The task to run: the key task, or the name of the work spec. A request that lists tasks gets only units of work specs whose task is in the list",
  },
  runs_module: {
    kind: "boolean",
    field: "runsModule",
    default: false,
    metaOnly: true,
    help: "Whether it has the key module and runs a function of that module instead of a task",
  },
  retention: {
    kind: "object",
    field: "retention",
    default: {},
    help: "How long ended units are kept; for ever if not given",
    keys: {
      finished: {
        kind: "object",
        field: "finished",
        help: "Limits for finished units",
        keys: retentionLimit,
      },
      failed: { kind: "object", field: "failed", help: "Limits for failed units", keys: retentionLimit },
    },
  },
  schedule: {
    kind: "object",
    field: "schedule",
    default: {},
    newer: true,
    help: "The times at which it makes units, by cron, every or at",
    keys: scheduleKeys,
  },
  next_run: {
    kind: "time",
    field: "nextRun",
    default: 0,
    metaOnly: true,
    help: "When the schedule makes its next unit; 0 is never",
  },
  last_run: {
    kind: "time",
    field: "lastRun",
    default: 0,
    metaOnly: true,
    help: "The time of the last unit that the schedule made; 0 is none",
  },
} as const satisfies Record<string, WorkSpecField & { field?: keyof WorkSpecMeta }>;

type Rows = typeof workSpecFields;
type FieldsOf<Row> = Row extends { field: infer Field } ? Field : never;
type Settable = FieldsOf<Extract<Rows[keyof Rows], { settable: true }>>;

/** What an operator may change without setting the work spec again. */
export type WorkSpecMetaChange = Partial<Pick<WorkSpecMeta, Settable>>;

/** The rows that are metadata, each with its key and the name by which people set it. */
export interface MetaField extends WorkSpecField {
  readonly key: string;
  readonly name: string;
  readonly field: keyof WorkSpecMeta;
}

const rows: readonly (readonly [key: string, row: WorkSpecField])[] = Object.entries(workSpecFields);

export const metaFields: readonly MetaField[] = rows.flatMap(([key, row]) =>
  row.field === undefined
    ? []
    : [{ ...row, key, name: row.shownAs ?? key, field: row.field as keyof WorkSpecMeta }],
);

export const settableFields = metaFields.filter(
  (row): row is MetaField & { field: Settable } => row.settable === true,
);

/** The keys that data may have. */
export const workSpecKeys: Readonly<Record<string, WorkSpecField>> = Object.fromEntries(
  rows.filter(([, { metaOnly }]) => metaOnly !== true),
);

// Fails to compile when a member of the metadata has no row.
const _everyFieldHasARow: Exclude<keyof WorkSpecMeta, FieldsOf<Rows[keyof Rows]>> extends never
  ? true
  : false = true;

/** The metadata of a work spec whose data has no key but its name. */
export const defaultMeta = Object.freeze(
  Object.fromEntries(metaFields.map((row) => [row.field, row.default])),
) as unknown as Readonly<WorkSpecMeta>;

/** Parses stored metadata; fields that it lacks get their defaults. */
export const readStoredMeta = (text: string): WorkSpecMeta => ({
  ...defaultMeta,
  ...(JSON.parse(text) as WorkSpecMeta),
});

const wanted: Readonly<Record<FieldKind, string>> = {
  number: "a number",
  amount: "a number of 0 or more",
  share: "a number from 0 to 1",
  count: "an integer of 0 or more",
  boolean: "a boolean",
  text: "a string",
  object: "an object",
  arguments: "a list or an object",
  duration: `a number from 0 to ${(longestSpanMs / 1000).toLocaleString("en")}`,
  time: "a time",
  times: "a list of times",
  names: "a list of strings",
  weights: "an object of integers from 1 to 1,000,000, at most 1,000 of them",
  choice: "a word",
};

/** Describes the values that the field accepts. */
export function wantedKind({ kind, words }: Pick<WorkSpecField, "kind" | "words">): string {
  if (words === undefined) return wanted[kind];
  const known = wordsOf(words)
    .filter((word) => word !== "")
    .join(", ");
  return kind === "choice" ? `one of ${known}` : `${wanted[kind]}, or one of ${known}`;
}

/** A wrong part of a work spec's data: the path of its key, and a sentence that says why. */
export interface WorkSpecProblem {
  readonly path: readonly (string | number)[];
  readonly problem: string;
}

/** The path as people write it: `schedule.at[0]`. */
export const pathText = (path: WorkSpecProblem["path"]): string =>
  path.reduce<string>(
    (text, key) => (typeof key === "number" ? `${text}[${key}]` : text === "" ? key : `${text}.${key}`),
    "",
  );

/** What does not fit in a value of data that `readField` refused: items of a list, members of an object, or all of it. */
export function misfits(row: WorkSpecField, value: unknown, describe = describeValue): WorkSpecProblem[] {
  const form = itemForms[row.kind];
  const items: [string | number, unknown][] =
    row.kind === "weights"
      ? Object.entries(objectOf(value) ?? {})
      : Array.isArray(value)
        ? [...(value as unknown[]).entries()]
        : [];
  const problems = items.flatMap(([key, item]) =>
    form === undefined || form.read(item) !== undefined
      ? []
      : [{ path: [key], problem: `expected ${form.wanted}, got ${describe(item)}` }],
  );
  if (problems.length > 0) return problems;
  const expected = row.kind === "time" ? writtenTime : wantedKind(row);
  return [{ path: [], problem: `expected ${expected}, got ${describe(value)}` }];
}

const wordsOf = (words: NonNullable<WorkSpecField["words"]>): readonly string[] =>
  Array.isArray(words) ? (words as readonly string[]) : Object.keys(words);

/** Converts a value of data to metadata; undefined when it is of another kind. */
export const readKind = (kind: FieldKind, value: unknown): unknown => dataReaders[kind](value);

/** The same for a field, which may also accept words. */
export function readField({ kind, words }: WorkSpecField, value: unknown): unknown {
  if (words === undefined) return readKind(kind, value);
  const word = textOf(value);
  if (word === undefined || !wordsOf(words).includes(word))
    return kind === "choice" ? undefined : readKind(kind, value);
  return Array.isArray(words) ? word : (words as Readonly<Record<string, number>>)[word];
}

/** Checks a value of metadata, where durations and times are in milliseconds already. */
export const checkKind = (kind: FieldKind, value: unknown): unknown =>
  kind === "duration" || kind === "time"
    ? between(0, value, kind === "time" ? latestTime : longestSpanMs)
    : readKind(kind, value);

/** Describes the values that `checkKind` accepts. */
export const wantedMeta = (row: WorkSpecField): string =>
  row.kind === "duration" ? `milliseconds from 0 to ${longestSpanMs.toLocaleString("en")}` : wantedKind(row);

const objectOf = (value: unknown): object | undefined =>
  typeof value === "object" && value !== null && !Array.isArray(value) && !(value instanceof Uint8Array)
    ? value
    : undefined;

const timeOf = (value: unknown): unknown => {
  const text = textOf(value);
  if (text === undefined) return inMilliseconds(between(0, value, latestTime / 1000));
  // a date without an offset would mean another time on every machine
  return /^\d{4}-\d\d-\d\dT.*(Z|[-+]\d\d:\d\d)$/.test(text)
    ? between(0, Date.parse(text), latestTime)
    : undefined;
};

const writtenTime = "a time with an offset, such as 2026-02-01T00:00:00Z, or seconds since 1970";

const weightOf = (value: unknown): number | undefined => {
  const weight = between(1, value, 1_000_000);
  return Number.isSafeInteger(weight) ? weight : undefined;
};

/** The items of a list and the members of an object. */
const itemForms: Readonly<Partial<Record<FieldKind, { read: (value: unknown) => unknown; wanted: string }>>> =
  {
    times: { read: timeOf, wanted: writtenTime },
    names: { read: textOf, wanted: wanted.text },
    weights: { read: weightOf, wanted: "an integer from 1 to 1,000,000" },
  };

const dataReaders: Readonly<Record<FieldKind, (value: unknown) => unknown>> = {
  number: (value) => between(-largestNumber, value, largestNumber),
  amount: (value) => between(0, value, largestNumber),
  share: (value) => between(0, value, 1),
  count: (value) => {
    const number = between(0, value);
    return Number.isSafeInteger(number) ? number : undefined;
  },
  boolean: (value) => (typeof value === "boolean" ? value : undefined),
  text: textOf,
  object: objectOf,
  arguments: (value) => (Array.isArray(value) ? value : objectOf(value)),
  duration: (value) => inMilliseconds(between(0, value, longestSpanMs / 1000)),
  time: timeOf,
  times: (value) => {
    const times = Array.isArray(value) ? value.map(timeOf) : [undefined];
    return times.includes(undefined) ? undefined : times;
  },
  names: (value) => {
    const names = Array.isArray(value) ? value.map(textOf) : [undefined];
    return names.includes(undefined) ? undefined : names;
  },
  weights: (value) => {
    const weights = Object.entries(objectOf(value) ?? { "": 0 });
    const read = weights.map(([name, weight]) => [name, weightOf(weight)] as const);
    const isFit = weights.length <= 1000 && read.every(([, weight]) => weight !== undefined);
    return isFit ? Object.fromEntries(read) : undefined;
  },
  choice: textOf,
};

function between(min: number, value: unknown, max = Infinity): number | undefined {
  const number = typeof value === "bigint" ? Number(value) : value;
  if (typeof number !== "number" || !Number.isFinite(number)) return undefined;
  return number >= min && number <= max ? number : undefined;
}

const inMilliseconds = (seconds: number | undefined): number | undefined =>
  seconds === undefined ? undefined : Math.round(seconds * 1000);

/** Python sends most strings as bytes; for a special key both forms are text. */
export function textOf(value: unknown): string | undefined {
  if (typeof value === "string") return value;
  return value instanceof Uint8Array ? nameFromBytes(value) : undefined;
}
