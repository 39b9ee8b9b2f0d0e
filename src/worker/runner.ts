/** Runs a worker as a program: opens the chosen runtimes and handles the signals of the process. Used by the command line. */
import { availableParallelism } from "node:os";
import { CoordinateError } from "../core/index.ts";
import type { Namespace } from "../objects/index.ts";
import { commandRuntime } from "./command/runtime.ts";
import { stderrLogger, type Logger } from "./log.ts";
import type { WorkerOptions } from "./options.ts";
import { processRuntime } from "./process/runtime.ts";
import { pythonRuntime } from "./python/runtime.ts";
import { tasksRuntime, type Runtime } from "./runtime.ts";
import { loadTasks } from "./tasks-file.ts";
import { Worker } from "./worker.ts";

export const runtimeNames = ["node", "python", "command"] as const;
export type RuntimeName = (typeof runtimeNames)[number];

export interface RuntimeChoice {
  /** A file of tasks for `node`. */
  readonly tasks?: string;
  /** The values of the `runtime` key that the tasks serve. */
  readonly taskRuntimes?: readonly string[];
  readonly runtimes: readonly RuntimeName[];
  /** Child processes of each runtime; one for each core when absent. 0 runs the tasks of `node` in this process. */
  readonly processes?: number;
  /** How many units of plain functions `node` runs at once, divided among the children; 10 in each child when absent. */
  readonly concurrency?: number;
  /** Most attempts in one claim. When absent, Python jobs and commands are claimed one at a time: the lease is for one. */
  readonly maxAttempts?: number;
  /** The Python interpreter. */
  readonly python?: string;
  /** Memory limit of a child in bytes. A child that uses more is killed. */
  readonly memoryLimit?: number;
  /** A child is replaced when it is older than this. */
  readonly childLifetimeMs?: number;
  /** Python: children are stopped this long before their lease ends, if that is earlier than the worker's own rule. */
  readonly stopEarlyMs?: number;
  /** The lease time that `work_unit.update()` asks for. */
  readonly lifetimeMs?: number;
  readonly log?: Logger;
}

/** Opens all runtimes or none: when one cannot be opened, closes the others and throws its error. */
export async function openRuntimes(choice: RuntimeChoice): Promise<Runtime[]> {
  if (choice.runtimes.length === 0)
    throw new CoordinateError("bad_argument", "runtimes: expected at least one");
  const opened: Runtime[] = [];
  try {
    for (const name of choice.runtimes) opened.push(await openRuntime(name, choice));
    return opened;
  } catch (error) {
    await Promise.all(opened.map((runtime) => runtime.close(0)));
    throw error;
  }
}

async function openRuntime(name: RuntimeName, choice: RuntimeChoice): Promise<Runtime> {
  const { tasks, taskRuntimes, processes, maxAttempts, python, memoryLimit } = choice;
  const { childLifetimeMs, stopEarlyMs, lifetimeMs } = choice;
  const children = {
    log: choice.log ?? stderrLogger,
    ...(processes !== undefined && processes > 0 && { processes }),
    ...(memoryLimit !== undefined && { memoryLimit }),
    ...(childLifetimeMs !== undefined && { lifetimeMs: childLifetimeMs }),
  };
  const ownSize = { maxAttempts: maxAttempts ?? 1 };
  switch (name) {
    case "node": {
      if (tasks === undefined)
        throw new CoordinateError("bad_argument", "tasks: the runtime node requires a file of tasks");
      if (processes === 0) return tasksRuntime(await loadTasks(tasks), taskRuntimes);
      return processRuntime({
        ...children,
        tasks,
        ...(taskRuntimes !== undefined && { names: taskRuntimes }),
        ...(choice.concurrency !== undefined && {
          concurrency: Math.ceil(choice.concurrency / (children.processes ?? availableParallelism())),
        }),
      });
    }
    case "python":
      return pythonRuntime({
        ...children,
        ...ownSize,
        ...(python !== undefined && { python }),
        ...(stopEarlyMs !== undefined && { stopEarlyMs }),
        ...(lifetimeMs !== undefined && { defaultLifetime: lifetimeMs / 1000 }),
      });
    case "command":
      return commandRuntime({ ...children, ...ownSize });
  }
}

/** A source of interrupts: SIGTERM and SIGINT of the process. */
export interface Interrupts {
  on(interrupt: () => void): void;
  off(interrupt: () => void): void;
}

export const processSignals: Interrupts = {
  on: (interrupt) => {
    process.on("SIGTERM", interrupt);
    process.on("SIGINT", interrupt);
  },
  off: (interrupt) => {
    process.off("SIGTERM", interrupt);
    process.off("SIGINT", interrupt);
  },
};

export type RunOutcome = "stopped" | "forced";

/**
 * Runs a worker until it is stopped. The first interrupt lets running tasks finish; the second stops at once and gives their units
 * back. Resolves with "forced" after a second interrupt, else with "stopped".
 */
export async function runWorker(
  namespace: Namespace,
  options: WorkerOptions,
  interrupts: Interrupts = processSignals,
): Promise<RunOutcome> {
  const worker = new Worker(namespace, options);
  const log = options.log ?? stderrLogger;
  let count = 0;
  const interrupt = (): void => {
    count += 1;
    if (count === 1)
      log.info("stopping: waiting for running tasks to finish; send the signal again to stop now");
    if (count === 2) log.warn("stopping now");
    if (count <= 2) void worker.stop();
  };
  interrupts.on(interrupt);
  try {
    await worker.run();
  } finally {
    interrupts.off(interrupt);
  }
  return count >= 2 ? "forced" : "stopped";
}
