/**
 * A runtime runs the units of work specs: in this process, in child processes or as commands. A worker claims work for each of its
 * runtimes and gets the task from the runtime.
 */
import type { Task, TaskSpec } from "./task.ts";

export interface Runtime {
  /** Values of the `runtime` key that it serves, at least one; "" serves work specs without the key. */
  readonly names: readonly string[];
  /**
   * Names of its tasks, or patterns of names (`"resize-*"`, `"*"`). The worker then claims only from work specs whose task is among them
   * and that have no `module`. Without it, the worker claims from every work spec of the runtime.
   */
  readonly taskNames?: readonly string[];
  /** Whether it runs modules: of work specs without a `runtime`, the worker then claims from those that have a `module`. */
  readonly modules?: boolean;
  /** How many runs it can execute at once; the worker's concurrency when absent. Read before every claim. */
  readonly capacity?: number;
  /** Most attempts in one claim; the worker's `maxAttempts` when absent, and never more than that. Read once. */
  readonly maxAttempts?: number;
  /** Attempts that the first claim asks for; when absent its `maxAttempts`, else one for each free slot. Later claims adapt. */
  readonly firstAttempts?: number;
  /** How many runs a slot may start before the first has ended, for a runtime that executes them one after the other; 1 when absent. */
  readonly runsPerSlot?: number;
  /** The `traceback` of attempts whose lease ran out; "timed out" when absent. */
  readonly timedOut?: string;
  /**
   * Returns the task for a claim of this work spec. Called for every claim: keep it cheap. Null when it has no such task: the worker
   * tries the next runtime of the same name, and when none has the task, the attempts end in an error that says so. When it throws or
   * rejects, the attempts end in that error.
   */
  task(workSpec: TaskSpec): Task | Promise<Task> | null;
  /**
   * Called once when the worker stops: when all tasks have ended, with the rest of the grace time; or with 0 by a second `stop()`, while
   * tasks may still run. `task` is not called after that. Must not reject because of a task.
   */
  close(graceMs: number): Promise<void>;
}

/** Tasks that run in the worker's process, by the name of the task or by a pattern of names. The most specific key wins. */
export type Tasks = Readonly<Record<string, Task>>;

/** The values of the `runtime` key that a worker's own tasks serve by default. */
export const taskRuntimeNames: readonly string[] = ["", "node"];

/** A runtime for functions of this process: runs the task that the work spec's `task` key names, else the task of the work spec's name. */
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
