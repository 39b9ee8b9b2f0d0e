/**
 * Runs tasks in child processes: a task that blocks, leaks, crashes or runs too long affects only its own child.
 *
 * The worker's process claims, renews and settles; it never loads the tasks. A child loads the file of tasks and runs one claim at a
 * time.
 */
import { availableParallelism } from "node:os";
import path from "node:path";
import { fileURLToPath } from "node:url";
import { CoordinateError, encodeData, type Data } from "../../core/index.ts";
import type { Attempt } from "../../objects/index.ts";
import { stderrLogger, type Logger } from "../log.ts";
import { defaultConcurrency } from "../options.ts";
import { findTaskName, taskName, taskRuntimeNames, type Runtime } from "../runtime.ts";
import { bulk, type BulkContext, type TaskSpec } from "../task.ts";
import { checkTasksFile } from "../tasks-file.ts";
import { jobExpired, runInChildren, type ChildRunHost } from "./child-run.ts";
import type { Child, ChildProgram } from "./child.ts";
import type { Message } from "./frame.ts";
import { defaultGraceMs } from "./group.ts";
import { childEnvironment } from "./environment.ts";
import { readTaskNames, type RunHead, type UnitHead } from "./messages.ts";
import { ProcessPool, type PoolOptions } from "./pool.ts";

export interface ChildrenOptions extends Omit<PoolOptions, "size" | "program"> {
  /** Most children, and most claims at once; one for each core when absent. */
  readonly processes?: number;
  /** Values of the `runtime` key that it serves. */
  readonly names?: readonly string[];
  /** Most attempts in one claim; the worker's setting when absent. */
  readonly maxAttempts?: number;
  readonly log?: Logger;
  /** Added to the environment of this process. */
  readonly env?: Readonly<Record<string, string>>;
  readonly cwd?: string;
}

export interface ProcessRuntimeOptions extends ChildrenOptions {
  /** A file that exports tasks by name, or in an object as its default export. May be TypeScript where Node runs it. */
  readonly tasks: string;
  /** How many units of plain functions each child runs at once; 10 by default. */
  readonly concurrency?: number;
  /** Node options of the children; when absent those of this process, without its inspector. */
  readonly execArgv?: readonly string[];
}

/** A runtime that gives access to its pool of children. */
export interface ChildRuntime extends Runtime {
  readonly pool: ProcessPool;
}

/**
 * Resolves when the first child has loaded the tasks and sent their names. Throws `bad_argument` with the error of the child when it
 * cannot load them.
 */
export async function processRuntime(options: ProcessRuntimeOptions): Promise<ChildRuntime> {
  const { concurrency = defaultConcurrency } = options;
  if (!Number.isSafeInteger(concurrency) || concurrency < 1)
    throw new CoordinateError(
      "bad_argument",
      `concurrency: expected an integer of 1 or more, got ${concurrency}`,
    );
  const file = path.resolve(options.cwd ?? ".", options.tasks);
  checkTasksFile(file, options.execArgv);
  const execArgv =
    options.execArgv ?? process.execArgv.filter((argument) => !argument.startsWith("--inspect"));
  const program = (): ChildProgram => ({
    command: process.execPath,
    args: [...execArgv, childMain()],
    start: { head: { kind: "start", tasks: file, concurrency }, data: [] },
  });
  const host = childHost(options, program, { tellsBegin: false, endsWithWorker: false, stopEarlyMs: 0 });
  const { head } = await firstReady(host.pool, options.tasks);
  const taskNames = readTaskNames(head, "taskNames");
  const bulkNames = readTaskNames(head, "bulkNames");
  host.pool.prestart();
  return {
    names: options.names ?? taskRuntimeNames,
    taskNames,
    firstAttempts: concurrency,
    ...(options.maxAttempts !== undefined && { maxAttempts: options.maxAttempts }),
    timedOut: jobExpired,
    pool: host.pool,
    get capacity() {
      return host.pool.size;
    },
    task: (workSpec) => {
      const found = findTaskName(taskNames, taskName(workSpec));
      if (found === null) return null;
      const run = bulk((attempts, context) => runInChildren(attempts, context, host));
      // a child runs this many units of a plain function at once: smaller claims would not keep it busy
      return bulkNames.includes(found) ? run : { ...run, atLeast: concurrency };
    },
    close: (graceMs) => host.pool.close(Math.min(graceMs, host.graceMs)),
  };
}

/** In development this file is TypeScript, in the package JavaScript; `child-main` has the same extension. */
const childMain = (): string =>
  fileURLToPath(
    new URL(import.meta.url.endsWith(".ts") ? "./child-main.ts" : "./child-main.js", import.meta.url),
  );

/** Makes a pool that logs its events, and the settings for runs in its children. */
export function childHost(
  { processes = availableParallelism(), log = stderrLogger, env = {}, cwd, ...options }: ChildrenOptions,
  program: () => ChildProgram,
  kind: Pick<ChildRunHost, "tellsBegin" | "endsWithWorker" | "stopEarlyMs">,
): ChildRunHost {
  if (!Number.isSafeInteger(processes) || processes < 1)
    throw new CoordinateError(
      "bad_argument",
      `processes: expected an integer of 1 or more, got ${processes}`,
    );
  const pool = new ProcessPool({
    ...options,
    size: processes,
    program: () => ({
      ...program(),
      env: { ...childEnvironment(), ...env },
      ...(cwd !== undefined && { cwd }),
    }),
  });
  const logs = new Map<Child, Logger>();
  logPool(pool, log, (child) => logs.get(child));
  return {
    ...kind,
    pool,
    graceMs: options.graceMs ?? defaultGraceMs,
    message: runMessage,
    attach: (child, runLog) => {
      if (runLog === null) logs.delete(child);
      else logs.set(child, runLog);
    },
  };
}

function logPool(pool: ProcessPool, log: Logger, runLog: (child: Child) => Logger | undefined): void {
  pool.on("started", ({ pid }) => log.debug({ pid }, "a child process was started"));
  pool.on("line", (child, stream, line) => {
    (runLog(child) ?? log)[stream === "stdout" ? "info" : "warn"]({ pid: child.pid, stream }, line);
  });
  pool.on("exit", ({ pid }, { cause, text }) => {
    log[cause === "stopped" ? "debug" : "warn"]({ pid, cause }, `a child process ${text}`);
  });
  pool.on("delay", (delayMs, failures) => {
    log.error({ delayMs, failures }, "child processes exit at start; delaying the next one");
  });
}

function runMessage(attempts: readonly Attempt[], { workSpec, worker }: BulkContext): Message {
  const head: RunHead = {
    kind: "run",
    task: taskName(workSpec),
    workSpec: workSpec.name,
    worker,
    units: attempts.map(unitHead),
  };
  return { head, data: [encodedSpec(workSpec), ...attempts.map(({ rawData }) => rawData)] };
}

const unitHead = (attempt: Attempt): UnitHead => ({
  id: attempt.id,
  workUnit: attempt.workUnitName,
  worker: attempt.workerName,
  number: attempt.number,
  status: attempt.status,
  active: attempt.active,
  startTime: attempt.startTime,
  endTime: attempt.endTime,
  expirationTime: attempt.expirationTime,
  late: attempt.late,
  chainingErrors: attempt.chainingErrors,
  progress: null,
});

/** Cached, because every claim of a work spec has the same data. */
const encodedSpecs = new WeakMap<object, Data>();

function encodedSpec({ data }: TaskSpec): Data {
  const known = encodedSpecs.get(data);
  if (known !== undefined) return known;
  const encoded = encodeData(data, { maxBytes: Infinity });
  encodedSpecs.set(data, encoded);
  return encoded;
}

/** Starts one child and waits until it is ready. When it dies before that, closes the pool: other children would die too. */
export async function firstReady(pool: ProcessPool, what: string): Promise<Message> {
  const ready = new Promise<Message>((resolve, reject) => {
    pool.once("started", (child) => child.once("ready", resolve));
    pool.once("exit", (_child, { text, errorTail }) => {
      const tail = errorTail.trim();
      reject(
        new CoordinateError(
          "bad_argument",
          `${what}: a child process ${text}${tail === "" ? "" : `\n${tail}`}`,
        ),
      );
    });
  });
  pool.prestart(1);
  try {
    return await ready;
  } catch (error) {
    await pool.close(0);
    throw error;
  }
}
