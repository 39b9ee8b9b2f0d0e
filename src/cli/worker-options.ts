/** The options shared by `worker` and `run_one`: which work to take, how to run it, and where to log. */
import { createWriteStream } from "node:fs";
import { isWorkerLabel } from "../core/index.ts";
import { handles, type Namespace } from "../objects/index.ts";
import {
  linesLogger,
  openRuntimes,
  runtimeNames,
  type Logger,
  type Runtime,
  type RuntimeName,
} from "../worker/index.ts";
import { repeated, type Command } from "./command.ts";
import type { Context } from "./context.ts";
import { show } from "./escape.ts";
import { UsageError } from "./failure.ts";
import { readCount, readDuration, readNumber } from "./units.ts";
import { workerSettings, type WorkerSettings } from "./worker-settings.ts";

export interface WorkerOptionTexts {
  tasks?: string;
  runtime?: string[];
  processes?: string;
  python?: string;
  memoryLimit?: string;
  childLifetime?: string;
  lease?: string;
  fromWorkSpec?: string[];
  gb?: string;
  labels?: string[];
  logpath?: string;
}

export function defineWorkerOptions(it: Command): void {
  it.option("--tasks <file>", "module that exports tasks by name, for the runtime node")
    .option(
      "--runtime <list>",
      "runtimes to serve: python, command; with --tasks also node, or the runtime its tasks are for; may be repeated",
      repeated,
    )
    .option(
      "--processes <n>",
      "child processes per runtime (default: one per core); 0 runs tasks in this process",
    )
    .option("--from-work-spec <name>", "run only units of this work spec; may be repeated", repeated)
    .option("--gb <n>", "memory of this worker in GB: it takes no work specs with a larger min_gb")
    .option(
      "--labels <list>",
      "labels of this worker, which work specs can require: gpu,zone=eu,version=2.3.1; may be repeated",
      repeated,
    )
    .option("--lease <time>", "how long a batch may take without a renewal (default: 15m)")
    .option("--memory-limit <size>", "kill a child process that uses more memory, such as 512M")
    .option("--child-lifetime <time>", "replace a child process after this time")
    .option("--python <program>", "the Python interpreter (default: python3)")
    .option("--logpath <file>", "append the log to this file (default: standard error)");
}

export interface WorkerSetting extends WorkerSettings {
  readonly tasks: string | undefined;
  /** Values of the `runtime` key that the tasks serve; the usual values for tasks when absent. */
  readonly taskRuntimes?: readonly string[];
  readonly runtimes: readonly RuntimeName[];
  readonly python: string | undefined;
  readonly memoryLimit: number | undefined;
  readonly workSpecs: readonly string[];
  readonly labels: readonly string[];
}

/** Flags, else the configuration in effect, as `coordinate config` shows it. */
export async function readWorkerSetting(
  context: Context,
  options: WorkerOptionTexts,
): Promise<WorkerSetting> {
  const chosen = readRuntimes(options);
  const configuration = await context.configuration();
  for (const warning of configuration.warnings) context.out.remark(show(warning));
  const { tasks, python, processes, childLifetime, lease, memoryLimit, gb, fromWorkSpec = [] } = options;
  return {
    ...workerSettings(configuration),
    ...chosen,
    tasks,
    python,
    workSpecs: fromWorkSpec,
    labels: readLabels(options.labels),
    memoryLimit: memoryLimit === undefined ? undefined : readSize(memoryLimit, "--memory-limit"),
    ...(processes !== undefined && { processes: readCount(processes, "--processes") }),
    ...(childLifetime !== undefined && { childLifetimeMs: readDuration(childLifetime, "--child-lifetime") }),
    ...(lease !== undefined && { lifetimeMs: readDuration(lease, "--lease") }),
    ...(gb !== undefined && { availableGb: readNumber(gb, "--gb") }),
  };
}

/** "gpu,zone=eu", any number of times. */
export function readLabels(lists: readonly string[] = []): string[] {
  const labels = lists.flatMap((list) => list.split(",")).map((label) => label.trim());
  for (const label of labels)
    if (!isWorkerLabel(label))
      throw new UsageError(`--labels: expected name or name=value, got ${JSON.stringify(label)}`);
  return labels;
}

function readRuntimes({
  runtime = [],
  tasks,
}: WorkerOptionTexts): Pick<WorkerSetting, "runtimes" | "taskRuntimes"> {
  const words = [...new Set(runtime.flatMap((list) => list.split(",")).map((word) => word.trim()))];
  const runtimes = runtimeNames.filter((name) => words.includes(name));
  const others = words.filter((word) => !runtimes.some((name) => name === word));
  if (tasks === undefined && others.length > 0)
    throw new UsageError(
      `--runtime ${others.join(",")}: needs --tasks FILE with tasks for it; without --tasks, only python and command can run`,
    );
  if (tasks === undefined && runtimes.includes("node"))
    throw new UsageError("--runtime node needs --tasks FILE");
  if (tasks === undefined && runtimes.length === 0)
    throw new UsageError("nothing to run: give --tasks FILE, or --runtime python or command");
  if (tasks === undefined || runtimes.includes("node"))
    return { runtimes, ...(others.length > 0 && { taskRuntimes: ["node", ...others] }) };
  return { runtimes: ["node", ...runtimes], ...(others.length > 0 && { taskRuntimes: others }) };
}

/** Opens the chosen runtimes; the caller decides the batch size and the concurrency. */
export async function openChosen(
  setting: WorkerSetting,
  maxAttempts: number | undefined,
  log: Logger,
  concurrency?: number,
): Promise<Runtime[]> {
  const { runtimes, tasks, taskRuntimes, processes, python, memoryLimit, childLifetimeMs, stopEarlyMs } =
    setting;
  const { lifetimeMs } = setting;
  return openRuntimes({
    runtimes,
    log,
    ...(tasks !== undefined && { tasks }),
    ...(taskRuntimes !== undefined && { taskRuntimes }),
    ...(processes !== undefined && { processes }),
    ...(python !== undefined && { python }),
    ...(memoryLimit !== undefined && { memoryLimit }),
    ...(childLifetimeMs !== undefined && { childLifetimeMs }),
    ...(stopEarlyMs !== undefined && { stopEarlyMs }),
    ...(lifetimeMs !== undefined && { lifetimeMs }),
    ...(maxAttempts !== undefined && { maxAttempts }),
    ...(concurrency !== undefined && { concurrency }),
  });
}

/**
 * Runs a function that works on a namespace. Opens the store for writing, although the `worker` command is declared as `read`
 * because it can also show a record. A store that is opened here, without a daemon, gets its housekeeping from this process.
 */
export async function atWork<Outcome>(
  context: Context,
  log: Logger,
  work: (namespace: Namespace) => Promise<Outcome>,
): Promise<Outcome> {
  const { coordinate, engine } = await context.opened("write");
  const { Housekeeping } = await import("../daemon/housekeeping.ts");
  const housekeeping = new Housekeeping(engine, 1000, {
    onSwept: () => undefined,
    onError: (error) => log.error({ err: error }, "housekeeping failed"),
  });
  housekeeping.start();
  try {
    return await work(handles(coordinate).namespace(await context.namespace()));
  } finally {
    await housekeeping.stop();
  }
}

/** Log lines with a timestamp; `-v` adds debug lines. With `brief`, only warnings and errors. */
export function openLog(context: Context, file: string | undefined, { brief = false } = {}): Logger {
  const stream =
    file === undefined
      ? context.session.streams.stderr
      : createWriteStream(file, { flags: "a" }).on("error", (error) =>
          context.out.remark(`${file}: ${error.message}`),
        );
  const write = (line: string): void => void stream.write(`${new Date().toISOString()} ${line}`);
  if (context.verbose) return linesLogger(write);
  return linesLogger(write, brief || context.quiet ? ["warn", "error"] : ["info", "warn", "error"]);
}

/** "512M", "2G", "1048576" as bytes. */
function readSize(text: string, what: string): number {
  const [, number, unit = ""] = /^(\d+(?:\.\d+)?)\s*([kmg]?)(?:i?b)?$/i.exec(text.trim()) ?? [];
  if (number === undefined) throw new UsageError(`${what}: expected a size such as 512M or 2G, got ${text}`);
  return Number(number) * 1024 ** ["", "k", "m", "g"].indexOf(unit.toLowerCase());
}
