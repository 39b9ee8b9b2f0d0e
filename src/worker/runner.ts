/** A worker as a program: the runtimes that were asked for, and the signals of the process. The command line is a thin cover of it. */
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
  /** The values of the `runtime` key for which the tasks are. */
  readonly taskRuntimes?: readonly string[];
  readonly runtimes: readonly RuntimeName[];
  /** Children of each runtime; one for each core when absent. 0 runs the tasks of `node` in this process. */
  readonly processes?: number;
  /** Units at once of `node`, of tasks that are plain functions; shared out among the children. 10 in each child when absent. */
  readonly concurrency?: number;
  /** Attempts of a claim. A Python job or a command is claimed by itself when absent: the lease is for one. */
  readonly maxAttempts?: number;
  /** The interpreter. */
  readonly python?: string;
  /** Bytes of memory for a child; more kills it. */
  readonly memoryLimit?: number;
  /** A child is replaced when it is older than this. */
  readonly childLifetimeMs?: number;
  /** Python: children are ended this long before their lease is, where that is earlier than the worker's own rule. */
  readonly stopEarlyMs?: number;
  /** The lease that `work_unit.update()` asks for. */
  readonly lifetimeMs?: number;
  readonly log?: Logger;
}

/** All of them, or none: when one cannot be opened the others are closed, and its error is thrown. */
export async function openRuntimes(choice: RuntimeChoice): Promise<Runtime[]> {
  if (choice.runtimes.length === 0) throw new CoordinateError("bad_argument", "runtimes: none was asked for");
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
        throw new CoordinateError("bad_argument", "tasks: the runtime node needs a file of tasks");
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

/** What the process is told from outside: SIGTERM and SIGINT. */
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
 * Runs a worker until it is stopped: the first interrupt lets it finish what it holds, the second ends it now and gives that back. Resolves
 * with which of the two it was.
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
    if (count === 1) log.info("stopping: what runs may finish; once more to end it now");
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
