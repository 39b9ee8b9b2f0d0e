/** What may be said when a job is scheduled, and the check of all of it before anything is stored. */
import { checkName, CoordinateError, maxLabels, maxQueues, type DependencyKind } from "../core/index.ts";
import type { ActionContent } from "./action.ts";
import { contentOf, type AnyJobFunction } from "./function.ts";
import { isJobId } from "./job-id.ts";
import { jsonValue, NotJsonError } from "./json.ts";

/** A job that must have ended before: its id, its name, or its handle. */
export type DependencyRef = string | { readonly id: string; readonly kind?: DependencyKind };

export interface ScheduleOptions<Args extends readonly unknown[] = readonly unknown[]> {
  /** JSON. */
  args?: Args;
  /** One object that comes after the args; absent or empty: none does. JSON. */
  kwargs?: Readonly<Record<string, unknown>>;
  /** The job's id, from `newId()`: for one who must know it before the job is stored. Made when absent. */
  id?: string;
  /** Unique in the queue; the job's id when absent. */
  name?: string;
  /** When a job of this name is there: `reject`, with `name_exists`; `replace` it; or `return` it, and schedule nothing. */
  onConflict?: "reject" | "replace" | "return";
  /** A word to find it by. */
  category?: string;
  /** How long it may run; 0: the worker's limit holds. */
  timeoutMs?: number;
  /** Jobs that must have ended before. With a `hard` one (the default) it fails too; a `soft` one may end either way. */
  dependencies?: readonly DependencyRef[];
  /** Queues that its outcome is put into, in the write that ends it. */
  returnQueues?: readonly string[];
  /** Empties these queues first. */
  resetReturnQueues?: boolean;
  /** How many times it is tried again after it failed, crashed, was out of time or lost its worker; 0. */
  retries?: number;
  retryDelayMs?: number;
  /** Higher ones first; 0. Jobs of one priority run in the order they were scheduled. */
  priority?: number;
  /** Not before this long from now. */
  delayMs?: number;
}

export interface ScheduleItem extends ScheduleOptions {
  fn: AnyJobFunction;
}

/** The same, checked. */
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

/** Labels have 256 bytes, and a word before the value. */
const longestWord = 240;

/** Throws `bad_argument`, naming the option. */
export function readItem(item: ScheduleItem, inlineAllowed: boolean): ReadItem {
  for (const key of Object.keys(item)) if (!known.has(key)) throw bad(key, "not an option of schedule");
  const { args = [], kwargs = {}, onConflict = "reject", returnQueues = [], dependencies = [] } = item;
  if (!Array.isArray(args)) throw bad("args", "expected an array");
  if (typeof kwargs !== "object" || Array.isArray(kwargs)) throw bad("kwargs", "expected an object");
  if (!["reject", "replace", "return"].includes(onConflict))
    throw bad("onConflict", "expected reject, replace or return");
  if (!Array.isArray(returnQueues) || returnQueues.length > maxQueues)
    throw bad("returnQueues", `expected an array of at most ${maxQueues} names`);
  if (!Array.isArray(dependencies)) throw bad("dependencies", "expected an array");
  if (item.id !== undefined && !isJobId(item.id)) throw bad("id", "expected one that newId() made");
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

/** The words by which a job is found; never more than a unit may have. */
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
  if (typeof value !== "string" || value.length < min) throw bad(option, "expected a text");
  if (Buffer.byteLength(value, "utf8") > longestWord) throw bad(option, `longer than ${longestWord} bytes`);
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

export function readSpan(option: string, value: number | undefined): number {
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
