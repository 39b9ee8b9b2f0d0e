/**
 * A work spec describes a family of jobs. Its data is the user's; its metadata is what the scheduler looks at,
 * derived from the data's special keys and then adjustable on its own.
 */
import { closed, hasBreaker, isTripped } from "./breaker.ts";
import { describeValue } from "./describe-value.ts";
import { decodeData, type Data } from "./data.ts";
import { CoordinateError } from "./errors.ts";
import { checkName } from "./names.ts";
import { hasSchedule, scheduleProblems } from "./schedule.ts";
import { isRequirement, maxWorkerLabels } from "./worker-labels.ts";
import {
  checkKind,
  defaultMeta,
  misfits,
  pathText,
  readField,
  settableFields,
  textOf,
  wantedMeta,
  workSpecKeys,
  type WorkSpecField,
  type WorkSpecMeta,
  type WorkSpecMetaChange,
  type WorkSpecProblem,
} from "./work-spec-fields.ts";

export type { Retention, RetentionLimit, WorkSpecMeta, WorkSpecMetaChange } from "./work-spec-fields.ts";

export interface WorkSpecRow {
  /** A spec that was deleted and made again has another id. */
  id: number;
  name: string;
  data: Data;
  meta: WorkSpecMeta;
}

/** A work spec by name. With the id that was read before, a spec that has been deleted since is `gone`, even if a new one has its name. */
export type WorkSpecRef = string | { name: string; id: number };

export const workSpecName = (ref: WorkSpecRef): string => (typeof ref === "string" ? ref : ref.name);

/** The error for a spec that was not found: `gone` if it was referred to by id, else `no_such_work_spec`. */
export function missingWorkSpec(ref: WorkSpecRef): CoordinateError {
  return typeof ref === "string"
    ? new CoordinateError("no_such_work_spec", ref)
    : new CoordinateError("gone", ref.name);
}

/**
 * Reads the name of a work spec and the metadata that the special keys of its data derive. Errors name the key. With `lenient`, a
 * newer key that is not of its kind is skipped: it is user data of a client that does not know the key.
 */
export function readWorkSpec(data: Data, lenient = false): { name: string; meta: WorkSpecMeta } {
  const spec = decodeData(data);
  const has = Object.hasOwn(spec, "name");
  const called = has ? textOf(spec.name) : undefined;
  if (!has || called === "" || spec.name === null) throw new CoordinateError("no_work_spec_name");
  if (called === undefined) throw new CoordinateError("bad_work_spec_name");
  const name = checkName("work spec", called);
  const given = readFields(spec, workSpecKeys, lenient) as Partial<WorkSpecMeta>;
  for (const { path, problem } of problemsIn(given, spec)) {
    if (!lenient) throw new CoordinateError("bad_work_spec", `${pathText(path)}: ${problem}`);
    if (path[0] === "requires") delete given.requires;
    else delete given.schedule;
  }
  const meta = {
    ...defaultMeta,
    ...given,
    canBeContinuous: given.continuous ?? false,
    ...taskOf(spec, name),
  };
  const { nice } = spec;
  if (given.weight === undefined && nice !== undefined && nice !== null)
    meta.weight = Math.max(1, defaultMeta.weight - Number(nice));
  return { name, meta };
}

/** The problems of a work spec whose values are all of their kinds: an impossible cron expression, for example. */
export const workSpecProblems = (spec: Readonly<Record<string, unknown>>): WorkSpecProblem[] =>
  problemsIn(readFields(spec, workSpecKeys, true), spec);

function problemsIn(
  given: Partial<WorkSpecMeta>,
  written: Readonly<Record<string, unknown>>,
): WorkSpecProblem[] {
  const { schedule, continuous = false, requires = [] } = given;
  const problems: WorkSpecProblem[] = [];
  if (schedule !== undefined && hasSchedule(schedule)) {
    problems.push(...scheduleProblems(schedule));
    if (continuous) problems.push({ path: ["schedule"], problem: "not allowed in a continuous work spec" });
  } else if (schedule !== undefined && Object.keys(written.schedule as object).length > 0)
    problems.push({ path: ["schedule"], problem: "expected one of cron, every and at" });
  requires.forEach((one, i) => {
    const problem = `expected a condition such as gpu, zone=eu or version>=2.3, got ${describeValue(one)}`;
    if (!isRequirement(one)) problems.push({ path: ["requires", i], problem });
  });
  if (requires.length > maxWorkerLabels)
    problems.push({
      path: ["requires"],
      problem: `${requires.length} conditions, at most ${maxWorkerLabels}`,
    });
  return problems;
}

/** The metadata of the keys `task` and `module`. */
export const taskOf = (
  spec: Readonly<Record<string, unknown>>,
  name: string,
): Pick<WorkSpecMeta, "taskName" | "runsModule"> => ({
  taskName: ownText(spec, "task") || name,
  runsModule: ownText(spec, "module") !== "",
});

/** The text of a key that workers read. Other types are for the workers to check. */
const ownText = (spec: Readonly<Record<string, unknown>>, key: string): string =>
  (Object.hasOwn(spec, key) ? textOf(spec[key]) : undefined) ?? "";

/** Whether the metadata has a task: work specs stored by an earlier version have none. */
export const knowsTask = ({ taskName }: WorkSpecMeta): boolean => taskName !== "";

/**
 * What a work spec's metadata becomes when its data is set again. Setting resets everything to what the data
 * derives; `keepMeta` keeps what an operator may have set by hand.
 */
export function resetMeta(old: WorkSpecMeta | null, derived: WorkSpecMeta, keepMeta: boolean): WorkSpecMeta {
  if (old === null) return derived;
  // without a breaker nothing would close it, and it would be tripped when the work spec has one again
  const breakerState = keepMeta && hasBreaker(derived) ? old.breakerState : closed(old.breakerState);
  return { ...(keepMeta ? changeMeta(derived, settableMeta(old)) : derived), breakerState };
}

/** The settable part of metadata. */
export const settableMeta = (meta: Partial<WorkSpecMeta>): WorkSpecMetaChange =>
  Object.fromEntries(
    settableFields.filter(({ field }) => field in meta).map(({ field }) => [field, meta[field]]),
  );

/** Checks a change of metadata: all of it, before any of it is applied. Throws `bad_argument` naming the field. */
export function checkMetaChange(change: WorkSpecMetaChange): WorkSpecMetaChange {
  for (const [field, value] of Object.entries(change)) {
    const row = settableFields.find((one) => one.field === field);
    if (row === undefined)
      throw new CoordinateError("bad_argument", `${field}: cannot be set in a work spec's metadata`);
    if (typeof value === "bigint" || checkKind(row.kind, value) === undefined)
      throw new CoordinateError(
        "bad_argument",
        `${field}: expected ${wantedMeta(row)}, got ${describeValue(value)}`,
      );
  }
  return change;
}

/** Turning `continuous` on for a spec that cannot be continuous has no effect. Resuming a spec closes its breaker. */
export function changeMeta(old: WorkSpecMeta, change: WorkSpecMetaChange): WorkSpecMeta {
  const meta = { ...old, ...change };
  meta.continuous = meta.continuous && meta.canBeContinuous;
  if (change.paused === false && isTripped(old)) meta.breakerState = closed(old.breakerState);
  return meta;
}

/** Reads the fields from the known keys of an object. Null counts as absent; an error for a wrong type names key and types. */
function readFields(
  object: Readonly<Record<string, unknown>>,
  keys: Readonly<Record<string, WorkSpecField>>,
  lenient: boolean,
  path = "",
): Record<string, unknown> {
  const fields: Record<string, unknown> = {};
  for (const [key, row] of Object.entries(keys)) {
    const { field, keys: inner, forWorkers, newer } = row;
    const value = Object.hasOwn(object, key) ? object[key] : undefined;
    if (value === undefined || value === null || forWorkers === true) continue;
    const read = readField(row, value);
    if (read === undefined && lenient && newer === true) continue;
    const [misfit] = read === undefined ? misfits(row, value) : [];
    if (misfit !== undefined)
      throw new CoordinateError(
        "bad_work_spec",
        `${pathText([`${path}${key}`, ...misfit.path])}: ${misfit.problem}`,
      );
    if (field === undefined) continue;
    try {
      fields[field] =
        inner === undefined
          ? read
          : readFields(read as Record<string, unknown>, inner, lenient, `${path}${key}.`);
    } catch (error) {
      if (!lenient || newer !== true) throw error;
    }
  }
  return fields;
}
