/**
 * A runtime runs work specs: in this process, in child processes, as commands. A worker asks the coordinator for the work of each of its
 * runtimes, and asks the runtime for the task.
 */
import type { Task, TaskSpec } from "./task.ts";

export interface Runtime {
  /** Values of the `runtime` key that it serves; "" serves work specs without one. At least one. */
  readonly names: readonly string[];
  /**
   * Names of the tasks that it has, or patterns of them (`"resize-*"`, `"*"`). The worker then asks only for work specs whose task is among them
   * and that have no `module`. Without it, the worker asks for every work spec of the runtime.
   */
  readonly taskNames?: readonly string[];
  /** It runs modules: of work specs without a `runtime`, the worker asks for those that have a `module`. */
  readonly modules?: boolean;
  /** How many runs it can do at once; the worker's concurrency when absent. Read before every claim. */
  readonly capacity?: number;
  /** How many attempts a claim may have; the worker's `maxAttempts` when absent, and never more than that. Read once. */
  readonly maxAttempts?: number;
  /** How many attempts the first claim asks for; its `maxAttempts`, else one for each free slot, when absent. Later claims adapt. */
  readonly firstAttempts?: number;
  /** How many runs a slot may begin before the first of them has ended, where the runtime does them one after the other; 1 when absent. */
  readonly inARow?: number;
  /** The `traceback` of attempts whose time is up; "timed out" when absent. */
  readonly timedOut?: string;
  /**
   * The task for a claim of this work spec. Called for every claim: keep it cheap. Null when it has none: the next runtime of the same name is
   * asked, and when none has the task, the attempts fail with a `traceback` that says so. When it throws or rejects, they fail with that error.
   */
  task(workSpec: TaskSpec): Task | Promise<Task> | null;
  /**
   * The worker stops, and asks for no more tasks. Called once when all tasks have ended, with the rest of the grace time; or at once with 0
   * when the worker is told to stop a second time, while tasks may still run. Must not reject for what a task does.
   */
  close(graceMs: number): Promise<void>;
}

/** The tasks of a worker in its own process: by the name of the task, or by a pattern of names. The most exact one wins. */
export type Tasks = Readonly<Record<string, Task>>;

/** The values of the `runtime` key for which a worker's own tasks are. */
export const taskRuntimeNames: readonly string[] = ["", "node"];

/** Runs functions of this process: the one that the work spec's `task` key names, else the one of the work spec's name. */
export function tasksRuntime(tasks: Tasks, names: readonly string[] = taskRuntimeNames): Runtime {
  const taskNames = Object.keys(tasks);
  const min = Object.values(tasks).map((task) => (typeof task === "function" ? 0 : task.atLeast));
  return {
    names,
    taskNames,
    ...(Math.max(0, ...min) > 0 && { firstAttempts: Math.max(...min) }),
    task: (workSpec) => {
      const found = findTaskName(taskNames, taskName(workSpec));
      return found === null ? null : (tasks[found] ?? null);
    },
    close: () => Promise.resolve(),
  };
}

/** The `task` key of a work spec, else its name. */
export function taskName({ name, data }: TaskSpec): string {
  const task = Object.hasOwn(data, "task") ? data.task : undefined;
  return typeof task === "string" && task !== "" ? task : name;
}

/** The name or pattern for a task: its exact name, else the pattern with the longest fixed part. Null when none matches. */
export function findTaskName(names: readonly string[], wanted: string): string | null {
  let found: string | null = null;
  for (const name of names) {
    if (name === wanted) return name;
    if (name.endsWith("*") && wanted.startsWith(name.slice(0, -1)) && name.length > (found?.length ?? 0))
      found = name;
  }
  return found;
}
