/** The options of a scheduled job, and their validation before anything is stored. */
import { checkName, CoordinateError, maxLabels, maxQueues, type DependencyKind } from "../core/index.ts";
import type { ActionContent } from "./action.ts";
import { contentOf, type AnyJobFunction } from "./function.ts";
import { isJobId } from "./job-id.ts";
import { jsonValue, NotJsonError } from "./json.ts";

/** A job that must end first: its id, its name, or its handle. */
export type DependencyRef = string | { readonly id: string; readonly kind?: DependencyKind };

export interface ScheduleOptions<Args extends readonly unknown[] = readonly unknown[]> {
  /** JSON. */
  args?: Args;
  /** An object that is passed after the args; not passed when absent or empty. JSON. */
  kwargs?: Readonly<Record<string, unknown>>;
  /** The job's id, from `newId()`, for callers that must know it before the job is stored. Generated when absent. */
  id?: string;
  /** Unique in the queue; the job's id when absent. */
  name?: string;
  /** When a job of this name exists: `reject` the call with `name_exists`, `replace` the job, or `return` it and schedule nothing. */
  onConflict?: "reject" | "replace" | "return";
  /** A word to find the job by. */
  category?: string;
  /** How long the job may run; 0 (the default) applies the worker's limit. */
  timeoutMs?: number;
  /** Jobs that must end first. If a `hard` one (the default) fails, this job fails too; a `soft` one may end either way. */
  dependencies?: readonly DependencyRef[];
  /** Queues that receive the outcome, in the same write that ends the job. */
  returnQueues?: readonly string[];
  /** Empties the return queues before the job is scheduled. */
  resetReturnQueues?: boolean;
  /** How many times the job is retried after it failed, crashed, timed out or lost its worker; 0 by default. */
  retries?: number;
  retryDelayMs?: number;
  /** Higher priorities run first; 0 by default. Jobs of equal priority run in the order they were scheduled. */
  priority?: number;
  /** The job does not run before this delay has passed. */
  delayMs?: number;
}

export interface ScheduleItem extends ScheduleOptions {
  fn: AnyJobFunction;
}

/** A schedule item after validation. */
export interface ReadItem {
  readonly content: ActionContent;
  readonly args: readonly unknown[];
  readonly kwargs: Readonly<Record<string, unknown>>;
  readonly id: string | null;
  readonly name: string | null;
  readonly onConflict: "reject" | "replace" | "return";
  readonly category: string;
  readonly timeout: number;
  readonly dependencies: readonly { ref: string; kind: DependencyKind }[];
  readonly returnQueues: readonly string[];
  readonly resetReturnQueues: boolean;
  readonly retries: number;
  readonly retryDelay: number;
  readonly priority: number;
  readonly delayMs: number;
}

const known: ReadonlySet<string> = new Set<keyof ScheduleItem>([
  "fn",
  "args",
  "kwargs",
  "id",
  "name",
  "onConflict",
  "category",
  "timeoutMs",
  "dependencies",
  "returnQueues",
  "resetReturnQueues",
  "retries",
  "retryDelayMs",
  "priority",
  "delayMs",
]);

/** Labels are limited to 256 bytes, including the prefix before the value. */
const longestWord = 240;

/** Throws `bad_argument`, naming the option. */
export function readItem(item: ScheduleItem, inlineAllowed: boolean): ReadItem {
  for (const key of Object.keys(item)) if (!known.has(key)) throw bad(key, "unknown option of schedule");
  const { args = [], kwargs = {}, onConflict = "reject", returnQueues = [], dependencies = [] } = item;
  if (!Array.isArray(args)) throw bad("args", "expected an array");
  if (typeof kwargs !== "object" || Array.isArray(kwargs)) throw bad("kwargs", "expected an object");
  if (!["reject", "replace", "return"].includes(onConflict))
    throw bad("onConflict", "expected reject, replace or return");
  if (!Array.isArray(returnQueues) || returnQueues.length > maxQueues)
    throw bad("returnQueues", `expected an array of at most ${maxQueues} names`);
  if (!Array.isArray(dependencies)) throw bad("dependencies", "expected an array");
  if (item.id !== undefined && !isJobId(item.id)) throw bad("id", "expected an id from newId()");
  return {
    content: contentOf(item.fn, inlineAllowed),
    args: readJson(args, "args") as unknown[],
    kwargs: readJson(kwargs, "kwargs") as Record<string, unknown>,
    id: item.id ?? null,
    name: item.name === undefined ? null : readWord("name", item.name, 1),
    onConflict,
    category: item.category === undefined ? "" : readWord("category", item.category, 0),
    timeout: readSpan("timeoutMs", item.timeoutMs) / 1000,
    dependencies: dependencies.map(readDependency),
    returnQueues: returnQueues.map((queue) => checkName("queue", queue)),
    resetReturnQueues: item.resetReturnQueues ?? false,
    retries: readCount("retries", item.retries),
    retryDelay: readSpan("retryDelayMs", item.retryDelayMs) / 1000,
    priority: readNumber("priority", item.priority),
    delayMs: readSpan("delayMs", item.delayMs),
  };
}

/** The labels by which a job is found; never more than a unit may have. */
export function labelsOf(item: Pick<ReadItem, "name" | "category">, action: string): string[] {
  const labels = [`action:${action}`];
  if (item.category !== "") labels.push(`category:${item.category}`);
  if (item.name !== null) labels.push(`name:${item.name}`);
  return labels.slice(0, maxLabels);
}

const bad = (option: string, what: string): CoordinateError =>
  new CoordinateError("bad_argument", `${option}: ${what}`);

function readJson(value: unknown, what: string): unknown {
  try {
    return jsonValue(value, what);
  } catch (error) {
    if (error instanceof NotJsonError) throw new CoordinateError("bad_argument", error.message);
    throw error;
  }
}

function readWord(option: string, value: unknown, min: number): string {
  if (typeof value !== "string" || value.length < min)
    throw bad(option, min > 0 ? "expected a non-empty string" : "expected a string");
  if (Buffer.byteLength(value, "utf8") > longestWord)
    throw bad(option, `expected at most ${longestWord} bytes`);
  return value;
}

function readDependency(value: unknown): { ref: string; kind: DependencyKind } {
  if (typeof value === "string") return { ref: value, kind: "hard" };
  if (typeof value !== "object" || value === null || !("id" in value) || typeof value.id !== "string")
    throw bad("dependencies", "expected the id, the name or the handle of a job");
  const kind = "kind" in value ? value.kind : "hard";
  if (kind !== "hard" && kind !== "soft") throw bad("dependencies", "kind: expected hard or soft");
  return { ref: value.id, kind };
}

function readSpan(option: string, value: number | undefined): number {
  if (value === undefined) return 0;
  if (typeof value !== "number" || !Number.isFinite(value) || value < 0)
    throw bad(option, `expected milliseconds of 0 or more, got ${String(value)}`);
  return value;
}

function readCount(option: string, value: number | undefined): number {
  if (value === undefined) return 0;
  if (!Number.isSafeInteger(value) || value < 0)
    throw bad(option, `expected an integer of 0 or more, got ${String(value)}`);
  return value;
}

function readNumber(option: string, value: number | undefined): number {
  if (value === undefined) return 0;
  if (typeof value !== "number" || !Number.isFinite(value))
    throw bad(option, `expected a number, got ${String(value)}`);
  return value;
}
