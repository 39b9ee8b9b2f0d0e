/**
 * Work specs with types: what their keys are, and what the data and the results of their units are.
 *
 * The object that `defineSpec` takes has the known keys and no others, so that the compiler finds a misspelt one and says which
 * was meant. Keys of your own are the second argument.
 */
import {
  CoordinateError,
  slipOf,
  workSpecKeys,
  type DataObject,
  type workSpecFields,
} from "../core/index.ts";

/** The known keys of a work spec, in the words of `workSpecFields`. Times are seconds. */
export interface WorkSpecKeys {
  /** The name of the work spec, of 1 to 1,024 bytes. It cannot be changed */
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
  /** The configuration of the jobs; in a flow it is laid over the configuration in effect, and null deletes a key */
  config?: Readonly<Record<string, unknown>>;
  /** Work specs of higher priority always go first */
  priority?: number;
  /** The share among work specs of equal priority. Zero or less is never scheduled */
  weight?: number;
  /** Another way to say the weight: 20 - nice, at least 1. Ignored where there is a weight */
  nice?: number;
  /** Paused: no new attempts; those that run go on */
  disabled?: boolean;
  /** Makes units of its own when it has none. Can be set only where the data says so */
  continuous?: boolean;
  /** Memory that a job needs. A request that states availableGb is not given work specs that need more */
  min_gb?: number;
  /** The least time between two units that it makes */
  interval?: number;
  /** Units that may be pending at once, exactly; 0 is unlimited */
  max_running?: number;
  /** Attempts that one request is given at most; 0 is unlimited */
  max_getwork?: number;
  /** Attempts after which a unit fails instead of being handed out again; 0 is unlimited */
  max_retries?: number;
  /** What becomes of a unit whose task ends in an error. Without it and max_retries, the unit fails */
  retry?: {
    attempts?: number;
    backoff?: { kind?: "exponential" | "fixed" | "linear"; delay?: number; max?: number; jitter?: number };
  };
  /** The full name of the work spec that gets the outputs */
  then?: string;
  /** Under the python policy: units of the next work spec go first */
  then_preempts?: boolean;
  /** What the jobs run in. A request that lists runtimes is given only work specs of these, exactly */
  runtime?: string;
  /** No unit is handed out before this time; 0 is at once */
  not_before?: number | string;
  /** How long ended units are kept; for ever if not given */
  retention?: {
    finished?: { max_age?: number; max_count?: number };
    failed?: { max_age?: number; max_count?: number };
  };
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

/** A work spec, and the types of its units. `namespace.setWorkSpec` stores it. */
export class SpecDefinition<Data extends object = DataObject, Result extends object = DataObject> {
  readonly name: string;
  /** What is stored. */
  readonly spec: Readonly<Record<string, unknown>>;
  /** For the compiler: nothing is there when the program runs. */
  declare readonly types: { readonly data: Data; readonly result: Result };

  constructor(spec: WorkSpecKeys & Record<string, unknown>) {
    checkSlips(spec);
    this.name = spec.name;
    this.spec = spec;
  }
}

/**
 * A work spec whose units have `Data` and are finished with `Result`. Throws `bad_work_spec` for a key of `own` that is known, or
 * one slip away from a known one.
 */
export function defineSpec<Data extends object = DataObject, Result extends object = DataObject>(
  keys: WorkSpecKeys,
  own: Readonly<Record<string, unknown>> = {},
): SpecDefinition<Data, Result> {
  for (const key of Object.keys(own))
    if (Object.hasOwn(workSpecKeys, key))
      throw new CoordinateError("bad_work_spec", `${key}: a known key; it belongs into the first object`);
  return new SpecDefinition({ ...own, ...keys });
}

/** Throws `bad_work_spec` for a key that is one slip away from a known one: it would be stored and do nothing. */
export function checkSlips(spec: object): void {
  // a caller without types may hand over anything; what is no object is refused where it is encoded
  if (typeof spec !== "object" || (spec as object | null) === null) return;
  for (const key of Object.keys(spec)) {
    const meant = slipOf(key, Object.keys(workSpecKeys));
    if (meant !== null)
      throw new CoordinateError("bad_work_spec", `${key}: not a known key; did you mean ${meant}?`);
  }
}
