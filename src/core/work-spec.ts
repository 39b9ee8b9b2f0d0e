/**
 * A work spec describes a family of jobs. Its data is the user's; its metadata is what the scheduler looks at,
 * derived from the data's special keys and then adjustable on its own.
 */
import { describeValue, latestTime } from "./check.ts";
import { decodeData, type Data } from "./data.ts";
import { CoordinateError } from "./errors.ts";
import { checkName } from "./names.ts";
import { readKind, textOf, wantedKind, workSpecKeys, type WorkSpecKey } from "./work-spec-keys.ts";

export interface WorkSpecMeta {
  /** Higher always goes first. */
  priority: number;
  /** Share among specs of equal priority; zero or less is never scheduled. */
  weight: number;
  paused: boolean;
  continuous: boolean;
  /** The `continuous` key of the data; only then may `continuous` be switched on. Cannot be set. */
  canBeContinuous: boolean;
  minGb: number;
  intervalMs: number;
  /** No generated unit before this time; 0 is "at once". */
  nextContinuous: number;
  /** 0 is unlimited, here and below. */
  maxRunning: number;
  maxGetwork: number;
  maxRetries: number;
  /** The `then` key; empty is none. Cannot be set. */
  nextWorkSpecName: string;
  thenPreempts: boolean;
  /** Cannot be set. */
  runtime: string;
  /** The task that a worker needs to run it: the `task` key, else the name; null for one that runs a `module`. Cannot be set. */
  task: string | null;
  retention: Retention;
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

/** What an operator may change without setting the work spec again. */
export type WorkSpecMetaChange = Partial<
  Pick<
    WorkSpecMeta,
    | "priority"
    | "weight"
    | "paused"
    | "continuous"
    | "minGb"
    | "intervalMs"
    | "nextContinuous"
    | "maxRunning"
    | "maxGetwork"
    | "maxRetries"
  >
>;

export interface WorkSpecRow {
  /** A spec that was deleted and made again has another id. */
  id: number;
  name: string;
  data: Data;
  meta: WorkSpecMeta;
}

/** A work spec by name; with the id of a spec that was seen before, one that was deleted since is `gone`. */
export type WorkSpecRef = string | { name: string; id: number };

export const workSpecName = (ref: WorkSpecRef): string => (typeof ref === "string" ? ref : ref.name);

const defaultWeight = 20;

/** The error for a spec that was not found: one that was seen before is gone, another was never there. */
export function missingWorkSpec(ref: WorkSpecRef): CoordinateError {
  return typeof ref === "string"
    ? new CoordinateError("no_such_work_spec", ref)
    : new CoordinateError("gone", ref.name);
}

/** Reads a work spec's data: its name and the metadata that the special keys derive. Throws, naming the key. */
export function readWorkSpec(data: Data): { name: string; meta: WorkSpecMeta } {
  const spec = decodeData(data);
  const has = Object.hasOwn(spec, "name");
  const given = has ? textOf(spec.name) : undefined;
  if (!has || given === "" || spec.name === null) throw new CoordinateError("no_work_spec_name");
  if (given === undefined) throw new CoordinateError("bad_work_spec_name");
  const name = checkName("work spec", given);
  const key = reader(spec, workSpecKeys);
  const weight = key("weight");
  const nice = key("nice");
  const continuous = key("continuous") ?? false;
  return {
    name,
    meta: {
      priority: key("priority") ?? 0,
      weight: weight ?? (nice === undefined ? defaultWeight : Math.max(1, defaultWeight - nice)),
      paused: key("disabled") ?? false,
      continuous,
      canBeContinuous: continuous,
      minGb: key("min_gb") ?? 0,
      intervalMs: seconds(key("interval")) ?? 0,
      nextContinuous: 0,
      maxRunning: key("max_running") ?? 0,
      maxGetwork: key("max_getwork") ?? 0,
      maxRetries: key("max_retries") ?? 0,
      nextWorkSpecName: key("then") ?? "",
      thenPreempts: key("then_preempts") ?? true,
      runtime: key("runtime") ?? "",
      task: taskOf(spec, name),
      retention: readRetention(key("retention")),
    },
  };
}

/** Work specs that were stored by a version that did not know of tasks lack it. */
export const knowsTask = (meta: WorkSpecMeta): boolean => "task" in meta;

/** Keys of workers: other types than text are theirs to judge. */
function taskOf(spec: Record<string, unknown>, name: string): string | null {
  const text = (key: "module" | "task"): string => (Object.hasOwn(spec, key) && textOf(spec[key])) || "";
  if (text("module") !== "") return null;
  return text("task") || name;
}

/**
 * What a work spec's metadata becomes when its data is set again. Setting resets everything to what the data
 * derives; `keepMeta` keeps what an operator may have set by hand.
 */
export function resetMeta(old: WorkSpecMeta | null, derived: WorkSpecMeta, keepMeta: boolean): WorkSpecMeta {
  if (old === null || !keepMeta) return derived;
  return {
    ...derived,
    priority: old.priority,
    weight: old.weight,
    paused: old.paused,
    continuous: old.continuous && derived.canBeContinuous,
    minGb: old.minGb,
    intervalMs: old.intervalMs,
    nextContinuous: old.nextContinuous,
    maxRunning: old.maxRunning,
    maxGetwork: old.maxGetwork,
    maxRetries: old.maxRetries,
  };
}

/** Checks a change of metadata: all of it, before any of it is applied. Throws `bad_argument` naming the field. */
export function checkMetaChange(change: WorkSpecMetaChange): WorkSpecMetaChange {
  const bad = (field: string, want: string, value: unknown): CoordinateError =>
    new CoordinateError("bad_argument", `${field}: expected ${want}, got ${describeValue(value)}`);
  for (const [field, value] of Object.entries(change)) {
    switch (field) {
      case "paused":
      case "continuous":
        if (typeof value !== "boolean") throw bad(field, "a boolean", value);
        break;
      case "priority":
      case "weight":
        if (!isFiniteNumber(value)) throw bad(field, "a finite number", value);
        break;
      case "minGb":
      case "intervalMs":
        if (!isFiniteNumber(value) || value < 0) throw bad(field, "a number of 0 or more", value);
        break;
      case "nextContinuous":
        if (!isFiniteNumber(value) || value < 0 || value > latestTime) throw bad(field, "a time", value);
        break;
      case "maxRunning":
      case "maxGetwork":
      case "maxRetries":
        if (!isFiniteNumber(value) || !Number.isInteger(value) || value < 0)
          throw bad(field, "an integer of 0 or more", value);
        break;
      default:
        throw new CoordinateError("bad_argument", `${field}: cannot be set in a work spec's metadata`);
    }
  }
  return change;
}

/** Turning `continuous` on for a spec that cannot be is no error and leaves it off. */
export function changeMeta(old: WorkSpecMeta, change: WorkSpecMetaChange): WorkSpecMeta {
  const meta = { ...old, ...change };
  meta.continuous = meta.continuous && meta.canBeContinuous;
  return meta;
}

const seconds = (value: number | undefined): number | undefined =>
  value === undefined ? undefined : Math.round(value * 1000);

const isFiniteNumber = (value: unknown): value is number =>
  typeof value === "number" && Number.isFinite(value);

/** Reads known keys of one object; null counts as absent, a wrong type names key and types. */
function reader<Keys extends Readonly<Record<string, WorkSpecKey>>>(
  object: Record<string, unknown>,
  keys: Keys,
  path = "",
) {
  return <Key extends keyof Keys & string>(key: Key) => {
    const value = Object.hasOwn(object, key) ? object[key] : undefined;
    if (value === undefined || value === null) return undefined;
    const kind: Keys[Key]["kind"] = keys[key]!.kind;
    const result = readKind(kind, value);
    if (result !== undefined) return result;
    throw new CoordinateError(
      "bad_work_spec",
      `${path}${key}: expected ${wantedKind(kind)}, got ${describeValue(value)}`,
    );
  };
}

/** `retention: { finished: { max_age: SECONDS, max_count: N }, failed: … }` */
function readRetention(object: Record<string, unknown> | undefined): Retention {
  if (object === undefined) return {};
  const limit = (status: "finished" | "failed"): RetentionLimit | undefined => {
    const given = reader(object, workSpecKeys.retention.keys, "retention.")(status);
    if (given === undefined) return undefined;
    const key = reader(given, workSpecKeys.retention.keys[status].keys, `retention.${status}.`);
    const maxAgeMs = seconds(key("max_age"));
    const maxCount = key("max_count");
    return { ...(maxAgeMs !== undefined && { maxAgeMs }), ...(maxCount !== undefined && { maxCount }) };
  };
  const finished = limit("finished");
  const failed = limit("failed");
  return { ...(finished && { finished }), ...(failed && { failed }) };
}
