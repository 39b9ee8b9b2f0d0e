/**
 * A runtime runs the work specs that name it in their `runtime` key: in this process, in child processes, as commands.
 * A worker asks the coordinator for work of all its runtimes, and asks the runtime for the task.
 */
import type { Task, TaskSpec } from "./task.ts";

export interface Runtime {
  /** Values of the `runtime` key that it serves; "" serves work specs without one. At least one. */
  readonly names: readonly string[];
  /** Names of tasks that it has, to tell a person who asked for another. */
  readonly taskNames?: readonly string[];
  /** How many batches it can run at once; the worker's concurrency when absent. Looked at before every claim. */
  readonly capacity?: number;
  /** How many attempts a batch may have; the worker's `maxAttempts` when absent, and never more than that. Read once. */
  readonly maxAttempts?: number;
  /** The `traceback` of attempts whose time is up; "timed out" when absent. */
  readonly timedOut?: string;
  /**
   * The task for a batch of this work spec, asked for every batch: keep it cheap. Null when it has none, and the next runtime of the same name is asked;
   * when none has, the attempts fail with a `traceback` that says so. When it throws or rejects they fail with that error as their `traceback`.
   */
  task(workSpec: TaskSpec): Task | Promise<Task> | null;
  /**
   * The worker stops, and asks for no more tasks. Called once when all tasks have ended, with the rest of the grace time; or at once with 0
   * when the worker is told to stop a second time, while tasks may still run. Must not reject for what a task does.
   */
  close(graceMs: number): Promise<void>;
}

/** The tasks of a worker in its own process, by name. */
export type Tasks = Readonly<Record<string, Task>>;

/** Runs functions of this process: the one that the work spec's `task` key names, else the one of the work spec's name. */
export function tasksRuntime(tasks: Tasks, names: readonly string[] = ["node"]): Runtime {
  return {
    names,
    taskNames: Object.keys(tasks),
    task: (workSpec) => {
      const name = taskName(workSpec);
      return Object.hasOwn(tasks, name) ? (tasks[name] ?? null) : null;
    },
    close: () => Promise.resolve(),
  };
}

/** The `task` key of a work spec, else its name. */
export function taskName({ name, data }: TaskSpec): string {
  const task = Object.hasOwn(data, "task") ? data.task : undefined;
  return typeof task === "string" && task !== "" ? task : name;
}
