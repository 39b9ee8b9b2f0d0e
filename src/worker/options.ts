/** The options of a worker and their defaults. They are checked when the worker is created. */
import { hostname } from "node:os";
import {
  checkOptions,
  CoordinateError,
  defaultLifetimeMs,
  describeValue,
  isWorkerLabel,
  systemClock,
  systemRandom,
  type Clock,
  type Random,
} from "../core/index.ts";
import { isDefined, type DefinedTask } from "./define-task.ts";
import { missingMethod, stderrLogger, withChild, type Logger, type PlainLogger } from "./log.ts";
import { taskRuntimeNames, tasksRuntime, type Runtime, type Tasks } from "./runtime.ts";
import { isTask, type Task } from "./task.ts";

export interface WorkerOptions {
  /**
   * Functions of this process, by the name of the task or of the work spec, or by a pattern of names (`"resize-*"`, `"*"`). The worker
   * claims only units of work specs that have one of these tasks. Tasks of `defineTask` may be given as a list.
   */
  tasks?: Tasks | readonly DefinedTask[];
  /** The values of the `runtime` key that `tasks` serve; ["", "node"] by default. "" stands for work specs without the key. */
  taskRuntimes?: readonly string[];
  /** Other runtimes. Of several with one name, the first that has the task runs it; `tasks` come first. */
  runtimes?: readonly Runtime[];

  /** Unique among running workers; by default made of the host, the process id and a random part. */
  name?: string;
  /** The worker that manages this one, if any. */
  parent?: string;
  /** How many units run at once: the number of slots, each a child worker; 10 by default. A call of a bulk task takes one slot. */
  concurrency?: number;
  /** Most attempts in one claim; 1,000 by default. Claims adapt to how long tasks take; a work spec's `max_getwork` limits them too. */
  maxAttempts?: number;
  /** The lease time of claims; 15 minutes by default. */
  lifetimeMs?: number;
  /** The worker renews leases automatically until a task has run this long; 0 by default: never. */
  renewForMs?: number;
  /** Claims only units of these work specs. */
  workSpecs?: readonly string[];
  /** Claims no units of work specs that need more memory. */
  availableGb?: number;
  /** Labels of this worker, which work specs may require: `gpu`, `zone=eu`, `version=2.3.1`. */
  labels?: readonly string[];
  /** Whether the next claim may be requested while a short one runs; true by default. */
  ahead?: boolean;
  /** Claimed units that have not begun after this time are released; 800 ms by default. Claims are sized to begin well before. */
  holdMs?: number;
  /** While more runs are about to end, a settlement waits up to this long to be sent with others; 0 by default: it does not wait. */
  gatherMs?: number;

  /** How long one request waits at the coordinator for work; 30 s by default. */
  waitMs?: number;
  /** Poll interval where the coordinator does not support waiting for work; 1 s by default. */
  pollMs?: number;
  /** Interval of check-ins, whose answers have the worker's desired state; 15 s by default. */
  heartbeatMs?: number;
  /** After `stop()`, tasks may run this long before their signal is aborted; 10 s by default. */
  graceMs?: number;

  /** For example a pino logger, or `console`. */
  log?: Logger | PlainLogger;
  /** More data to send with every check-in, besides that of host and process. */
  environment?: object;
  /** Unhandled rejections in tasks: "log" logs them (default); "leave" leaves them to Node, which ends the process. */
  unhandledRejections?: "log" | "leave";
  /** The machine's by default. */
  clock?: Clock;
  /** Numbers from 0 to 1, for random delays; `Math.random` by default. */
  random?: Random;
}

export interface WorkerSettings {
  name: string;
  parent: string | null;
  runtimes: readonly Runtime[];
  concurrency: number;
  maxAttempts: number;
  lifetimeMs: number;
  renewForMs: number;
  workSpecs: readonly string[];
  availableGb: number;
  labels: readonly string[];
  ahead: boolean;
  holdMs: number;
  gatherMs: number;
  waitMs: number;
  pollMs: number;
  heartbeatMs: number;
  graceMs: number;
  log: Logger;
  environment: object;
  unhandledRejections: "log" | "leave";
  clock: Clock;
  random: Random;
}

/** More than one, because most tasks wait for I/O: a mail server, a database, a disk. */
export const defaultConcurrency = 10;

const known = [
  "tasks",
  "taskRuntimes",
  "runtimes",
  "name",
  "parent",
  "concurrency",
  "maxAttempts",
  "lifetimeMs",
  "renewForMs",
  "workSpecs",
  "availableGb",
  "labels",
  "ahead",
  "holdMs",
  "gatherMs",
  "waitMs",
  "pollMs",
  "heartbeatMs",
  "graceMs",
  "log",
  "environment",
  "unhandledRejections",
  "clock",
  "random",
] as const satisfies readonly (keyof WorkerOptions)[];

function readLabels(labels: readonly string[]): readonly string[] {
  for (const label of labels)
    if (typeof label !== "string" || !isWorkerLabel(label))
      throw bad("labels", `expected name or name=value, got ${describeValue(label)}`);
  return [...labels];
}

/** Throws `bad_argument` with the name of the option. */
export function readOptions(options: WorkerOptions): WorkerSettings {
  // a JavaScript caller may pass anything
  if (typeof options !== "object" || (options as object | null) === null)
    throw bad("options", `expected an object such as { tasks: { … } }, got ${describeValue(options)}`);
  checkOptions("a worker", options, known);
  const random = options.random ?? systemRandom;
  return {
    name: options.name ?? `${hostname()}-${process.pid}-${random().toString(36).slice(2, 8)}`,
    parent: options.parent ?? null,
    runtimes: readRuntimes(options),
    concurrency: count("concurrency", options.concurrency, defaultConcurrency, 1),
    maxAttempts: count("maxAttempts", options.maxAttempts, 1000, 1),
    lifetimeMs: span("lifetimeMs", options.lifetimeMs, defaultLifetimeMs, 1),
    renewForMs: span("renewForMs", options.renewForMs, 0, 0),
    workSpecs: list("workSpecs", options.workSpecs, "names of work specs"),
    availableGb: span("availableGb", options.availableGb, 0, 0),
    labels: readLabels(list("labels", options.labels, "labels")),
    ahead: options.ahead ?? true,
    holdMs: span("holdMs", options.holdMs, 800, 1),
    gatherMs: span("gatherMs", options.gatherMs, 0, 0),
    waitMs: span("waitMs", options.waitMs, 30_000, 0),
    pollMs: span("pollMs", options.pollMs, 1000, 1),
    heartbeatMs: span("heartbeatMs", options.heartbeatMs, 15_000, 1),
    graceMs: span("graceMs", options.graceMs, 10_000, 0),
    log: readLog(options.log ?? stderrLogger),
    environment: options.environment ?? {},
    unhandledRejections: options.unhandledRejections ?? "log",
    clock: options.clock ?? systemClock(),
    random,
  };
}

function readLog(log: Logger | PlainLogger): Logger {
  if (typeof log !== "object" && typeof log !== "function")
    throw bad("log", `expected a logger such as console, got ${describeValue(log)}`);
  const missing = missingMethod(log);
  if (missing !== null) throw bad("log", `expected debug, info, warn and error; ${missing} is missing`);
  return withChild(log);
}

/** Checks that a JavaScript caller gave a list, and not, for example, a single name. */
function list<Item>(option: string, given: readonly Item[] | undefined, what: string): readonly Item[] {
  const items: unknown = given ?? [];
  if (!Array.isArray(items)) throw bad(option, `expected a list of ${what}, got ${describeValue(items)}`);
  return items as Item[];
}

function readRuntimes(options: WorkerOptions): readonly Runtime[] {
  const { tasks: given } = options;
  const runtimes = list("runtimes", options.runtimes, "runtimes");
  const taskRuntimes = options.taskRuntimes && list("taskRuntimes", options.taskRuntimes, "names");
  const tasks = given === undefined ? undefined : tasksByName(given);
  const isEmpty = tasks === undefined || Object.keys(tasks).length === 0;
  if (isEmpty && runtimes.length === 0)
    throw bad(
      "tasks",
      "a worker needs at least one task, such as tasks: { mail: (unit) => … }, or a runtime",
    );
  if (tasks === undefined && taskRuntimes !== undefined) throw bad("taskRuntimes", "allowed only with tasks");
  for (const [name, task] of Object.entries(tasks ?? {}))
    if (!isTask(task)) throw bad(`tasks.${name}`, "expected a function or bulk(function)");
  const own = tasks === undefined ? [] : [tasksRuntime(tasks, taskRuntimes ?? taskRuntimeNames)];
  const all = [...own, ...runtimes];
  all.forEach(({ names, capacity, maxAttempts, taskNames = [] }, i) => {
    if (!Array.isArray(names) || names.length === 0)
      throw bad(`runtimes[${i}].names`, "expected at least one name");
    count(`runtimes[${i}].capacity`, capacity, 1, 0);
    count(`runtimes[${i}].maxAttempts`, maxAttempts, 1, 1);
    for (const name of taskNames)
      if (name === "" || name.slice(0, -1).includes("*"))
        throw bad(`tasks[${JSON.stringify(name)}]`, 'expected a name, or a pattern with "*" at its end only');
  });
  return all;
}

function tasksByName(tasks: Tasks | readonly DefinedTask[]): Tasks {
  if (typeof tasks !== "object" || (tasks as object | null) === null)
    throw bad(
      "tasks",
      `expected functions by name, such as { mail: (unit) => … }, got ${describeValue(tasks)}`,
    );
  if (!isList(tasks)) return tasks;
  const byName: Record<string, Task> = {};
  tasks.forEach((task, i) => {
    if (!isDefined(task))
      throw bad(`tasks[${i}]`, "expected a task from defineTask; put other tasks into an object, by name");
    if (Object.hasOwn(byName, task.taskName))
      throw bad(`tasks[${i}]`, `duplicate task ${JSON.stringify(task.taskName)}`);
    byName[task.taskName] = task;
  });
  return byName;
}

// Array.isArray alone does not narrow a readonly list
const isList = (tasks: Tasks | readonly DefinedTask[]): tasks is readonly DefinedTask[] =>
  Array.isArray(tasks);

const bad = (option: string, what: string): CoordinateError =>
  new CoordinateError("bad_argument", `${option}: ${what}`);

function count(option: string, value: number | undefined, otherwise: number, min: number): number {
  const given = value ?? otherwise;
  if (!Number.isSafeInteger(given) || given < min)
    throw bad(option, `expected an integer of ${min} or more, got ${describeValue(given)}`);
  return given;
}

function span(option: string, value: number | undefined, otherwise: number, min: number): number {
  const given = value ?? otherwise;
  if (typeof given !== "number" || !(given >= min))
    throw bad(option, `expected a number of ${min} or more, got ${describeValue(given)}`);
  return given;
}
