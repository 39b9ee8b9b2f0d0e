/**
 * Typed work specs: the types of their keys, and of the data and the results of their units.
 *
 * The object that `defineSpec` takes has only the known keys, so that the compiler finds a misspelt one and says which was meant.
 * Your own keys go into the options, the second argument.
 */
import {
  CoordinateError,
  describeValue,
  sameWordAs,
  closestName,
  workSpecKeys,
  type DataObject,
  type WorkSpecField,
  type workSpecFields,
} from "../core/index.ts";
import type { StandardSchema } from "./standard-schema.ts";

/**
 * The known keys of a work spec, with the help texts of `workSpecFields`. Times are seconds. `then` may be a spec whose units
 * have the outputs of these results as data.
 */
export interface WorkSpecKeys<Result = DataObject> {
  /** The name of the work spec: 1 to 1,024 bytes. It cannot be changed */
  name: string;
  /** A description for people */
  desc?: string;
  /** The task to run; the name of the work spec if not given */
  task?: string;
  /** The module that has the function to run */
  module?: string;
  /** The function to call for each work unit */
  run_function?: string;
  /** The function to call before a job is stopped by force */
  terminate_function?: string;
  /** Further arguments of the function: a list, or keywords and their values */
  run_params?: readonly unknown[] | Readonly<Record<string, unknown>>;
  /** The configuration of the jobs. A flow file merges it into the configuration in effect; null deletes a key */
  config?: Readonly<Record<string, unknown>>;
  /** Work specs of higher priority always go first */
  priority?: number;
  /** The share among work specs of equal priority. Zero or less is never scheduled */
  weight?: number;
  /** Another way to set the weight: 20 - nice, at least 1. Ignored if weight is given */
  nice?: number;
  /** Paused: no new attempts start; running ones continue */
  disabled?: boolean;
  /** Generates a unit when none is available or running. Can be turned on only if the data has continuous: true */
  continuous?: boolean;
  /** Memory that a job needs. A request with availableGb gets no units of work specs that need more */
  min_gb?: number;
  /** The minimum time between two generated units */
  interval?: number;
  /** Maximum number of pending units, enforced exactly; 0 is unlimited */
  max_running?: number;
  /** Maximum number of attempts that one request gets; 0 is unlimited */
  max_getwork?: number;
  /** Attempts after which a unit fails instead of being handed out again; 0 is unlimited */
  max_retries?: number;
  /** Maximum number of pending units of one partition, enforced exactly; 0 is unlimited */
  max_running_per_partition?: number;
  /** How many units may start per period */
  rate?: RateKeys;
  /** How many units of one partition may start per period */
  rate_per_partition?: RateKeys;
  /** With partition, a unit starts only when the previous unit of its partition has finished or failed */
  order?: "partition" | "";
  /** With partition, partitions take turns, one unit each, regardless of the number and priority of their units */
  fair?: "partition" | "";
  /** Priority that a unit gains per minute of waiting, so that none waits for ever; 0 is none */
  aging?: number;
  /** With fair, the number of units in a turn of a partition, by partition name; 1 for partitions that are not named */
  partition_weights?: Readonly<Record<string, number>>;
  /** Names of shared limits of the namespace that apply to its units */
  limits?: readonly string[];
  /** What happens to a unit whose task ends in an error. Without retry and max_retries, the unit fails */
  retry?: {
    /** Tries after which a unit fails; 0 is unlimited. If max_retries is given too, the smaller number applies */
    attempts?: number;
    /** How long a unit waits before its next try */
    backoff?: {
      /** exponential (the default) doubles the wait after each try, linear adds delay after each try, fixed always waits delay */
      kind?: "exponential" | "fixed" | "linear";
      /** Seconds to wait after the first try; 1 if not given */
      delay?: number;
      /** Longest wait, in seconds; 3600 if not given */
      max?: number;
      /** Random share of the wait, from 0 to 1: 0.5 waits between half of the time and all of it; 0 if not given */
      jitter?: number;
    };
  };
  /** Pauses or slows the work spec when too many of its attempts fail */
  breaker?: {
    /** The share of failed attempts in the window that trips the breaker; 0 turns it off */
    failures: number;
    /** The breaker trips only after this many attempts in the window; 10 if not given */
    min?: number;
    /** Seconds over which attempts are counted; 60 if not given */
    window?: number;
    /** Seconds before the first probes, and between rounds of probes; 60 if not given */
    pause?: number;
    /** Units to try in each round, and how many must finish in a row to close the breaker; 1 if not given */
    probes?: number;
    /** work_spec (the default) counts all failures together; error counts each error separately */
    by?: "work_spec" | "error";
    /** pause (the default) waits before the first probes; slow starts them at once */
    action?: "pause" | "slow";
  };
  /** Maximum number of waiting units; adding more is refused with queue_full. 0 is unlimited */
  max_waiting?: number;
  /** The full name of the work spec that gets the outputs */
  then?: string | NextSpec<Result>;
  /** Under the python policy: units of the next work spec go first */
  then_preempts?: boolean;
  /** The runtime of the jobs. A request that lists runtimes gets only units of work specs whose runtime is in the list */
  runtime?: string;
  /** Conditions on the labels of workers, such as gpu, zone=eu, zone!=us or version>=2.3; also >, <= and < */
  requires?: readonly string[];
  /** No unit is handed out before this time; 0 is no delay */
  not_before?: number | string;
  /** How long ended units are kept; for ever if not given */
  retention?: {
    /** Limits for finished units */
    finished?: RetentionKeys;
    /** Limits for failed units */
    failed?: RetentionKeys;
  };
  /** The times at which it makes units, by cron, every or at */
  schedule?: (
    | {
        /** A cron expression with five fields, or with six, the first for seconds */
        cron: string;
        /** The time zone of cron, such as Europe/Brussels; UTC if not given */
        timezone?: string;
        every?: never;
        at?: never;
      }
    | {
        /** Seconds from one unit to the next, counted from start, or from 1970 without a start */
        every: number;
        cron?: never;
        timezone?: never;
        at?: never;
      }
    | {
        /** A unit at each of these times */
        at: readonly (number | string)[];
        cron?: never;
        timezone?: never;
        every?: never;
      }
  ) & {
    /** No run before this time */
    start?: number | string;
    /** No run after this time */
    end?: number | string;
    /** Delays each unit by up to this many seconds */
    jitter?: number;
    /** How many of the latest missed runs to make up after an outage: skip, one (the default), or a number */
    catch_up?: "skip" | "one" | number;
    /**
     * What to do while the unit of the previous run has not ended: allow (the default) makes the next unit, skip makes none, wait makes one
     * that starts when the previous has ended
     */
    overlap?: "allow" | "skip" | "wait";
  };
}

/** The keys of a retention. */
interface RetentionKeys {
  /** Seconds to keep a unit after it has ended */
  max_age?: number;
  /** How many of the newest units to keep */
  max_count?: number;
}

/** The keys of a rate. */
interface RateKeys {
  /** Units that may start in one period; 0 is unlimited */
  limit: number;
  /** Length of the period in seconds; 1 if not given */
  period?: number;
  /** Units that may start at the same time after a quiet period; 1 if not given, which spaces starts evenly */
  burst?: number;
}

type Rows = typeof workSpecFields;
type DataKeys = { [Key in keyof Rows]: Rows[Key] extends { metaOnly: true } ? never : Key }[keyof Rows];

// Fails to compile when a key of the table is missing above, or the other way round.
const _everyKeyIsTyped: [
  Exclude<DataKeys, keyof WorkSpecKeys>,
  Exclude<keyof WorkSpecKeys, DataKeys>,
] extends [never, never]
  ? true
  : false = true;

/** The data of the units that a result's `output` makes; empty for names without data, never for a result without `output`. */
export type OutputData<Result> = string extends keyof Result
  ? never
  : Result extends { readonly output?: infer Output }
    ? Entry<NonNullable<Output>>
    : never;
type Entry<Output> = Output extends readonly (infer Item)[]
  ? Item extends readonly [string, infer Data extends object, ...unknown[]]
    ? Data
    : Item extends string | readonly [string, null?, ...unknown[]]
      ? NoData
      : never
  : Output extends Readonly<Record<string, infer Data>>
    ? Data
    : never;

/** The data of a unit that has none. It fits data without required keys. */
// eslint-disable-next-line @typescript-eslint/no-generated-empty-object-type -- an interface would not fit `DataObject`
export type NoData = Record<never, never>;

/** The work spec that gets the outputs of these results. */
export type NextSpec<Result> = string extends keyof Result
  ? SpecAccepting<never>
  : [OutputData<Result>] extends [never]
    ? ResultWithoutOutput
    : SpecAccepting<OutputData<Result>>;

/** Named in the compiler's message: without an `output` in the result, `then` has no effect. */
interface ResultWithoutOutput {
  readonly name: string;
  readonly types: never;
}

/** A work spec whose units may have this data. */
export interface SpecAccepting<Data> {
  readonly name: string;
  readonly types: { readonly accepts: (data: Data) => void };
}

export interface DefineOptions<Data extends object, Result extends object> {
  /** Your own keys: any name that is not a known key, nor one typo away from one. */
  own?: Readonly<Record<string, unknown>>;
  /**
   * Schemas of any library that follows the Standard Schema: zod, valibot, arktype. They check the data of units when they are
   * added and when they are run, and the results of tasks. The given value is stored; a task gets the output of the schema.
   */
  data?: StandardSchema<Data>;
  result?: StandardSchema<Result>;
}

/** A work spec, and the types of its units. `namespace.setWorkSpec` stores it. */
export class SpecDefinition<Data extends object = DataObject, Result extends object = DataObject> {
  readonly name: string;
  /** The work spec as it is stored. */
  readonly spec: Readonly<Record<string, unknown>>;
  readonly schemas: { readonly data?: StandardSchema<Data>; readonly result?: StandardSchema<Result> };
  /** For the compiler only: does not exist at run time. */
  declare readonly types: {
    readonly data: Data;
    readonly result: Result;
    readonly accepts: (data: Data) => void;
  };

  constructor(
    spec: { readonly name: string } & Readonly<Record<string, unknown>>,
    schemas: { data?: StandardSchema<Data>; result?: StandardSchema<Result> } = {},
  ) {
    checkSlips(spec);
    this.name = spec.name;
    this.spec = spec;
    this.schemas = schemas;
  }
}

/**
 * Defines a work spec whose units have data of type `Data` and results of type `Result`. Throws `bad_work_spec` for a key of
 * `own` that is known, or one typo away from a known one.
 */
export function defineSpec<Data extends object = DataObject, Result extends object = DataObject>(
  { then, ...keys }: WorkSpecKeys<Result>,
  { own = {}, ...schemas }: DefineOptions<Data, Result> = {},
): SpecDefinition<Data, Result> {
  for (const key of Object.keys(own))
    if (Object.hasOwn(workSpecKeys, key))
      throw new CoordinateError("bad_work_spec", `${key}: a known key; put it into the first object`);
  const next = then === undefined ? {} : { then: typeof then === "string" ? then : then.name };
  return new SpecDefinition({ ...own, ...keys, ...next }, schemas);
}

/**
 * Throws `bad_work_spec` for a key that is one typo away from a known one, and for any unknown key inside a known
 * object: it would be stored and have no effect. Warns of an own key that differs from a known one only in case and
 * separators (`maxRetries`).
 */
export function checkSlips(spec: object): void {
  // callers without types may pass anything; text and bytes are data that is already encoded
  if (spec instanceof Uint8Array || typeof spec === "string") return;
  if (!isObject(spec))
    throw new CoordinateError(
      "bad_data",
      `work spec: expected an object with a name, got ${describeValue(spec)}`,
    );
  const known = Object.keys(workSpecKeys);
  for (const [key, value] of Object.entries(spec)) {
    const meant = closestName(key, known);
    if (meant !== null)
      throw new CoordinateError("bad_work_spec", `${key}: not a known key; did you mean ${meant}?`);
    const same = sameWordAs(key, known);
    if (same !== undefined)
      process.emitWarning(`work spec: ${key} is stored as a key of your own; did you mean ${same}?`);
    if (Object.hasOwn(workSpecKeys, key)) checkInside(key, value, workSpecKeys[key]?.keys);
  }
}

function checkInside(path: string, value: unknown, keys: WorkSpecField["keys"]): void {
  if (keys === undefined || !isObject(value)) return;
  for (const [key, inner] of Object.entries(value)) {
    const row = Object.hasOwn(keys, key) ? keys[key] : undefined;
    if (row !== undefined) {
      checkInside(`${path}.${key}`, inner, row.keys);
      continue;
    }
    const meant = closestName(key, Object.keys(keys));
    const hint = meant === null ? `expected ${Object.keys(keys).join(", ")}` : `did you mean ${meant}?`;
    throw new CoordinateError("bad_work_spec", `${path}.${key}: not a known key; ${hint}`);
  }
}

const isObject = (value: unknown): value is Readonly<Record<string, unknown>> =>
  typeof value === "object" && value !== null && !Array.isArray(value);
