/** What `worker` and `run_one` have in common: which work to take, what to run it with, and where that is logged. */
import { createWriteStream } from "node:fs";
import { readFile } from "node:fs/promises";
import { handles, type Namespace } from "../objects/index.ts";
import {
  linesLogger,
  openRuntimes,
  readPythonSettings,
  runtimeNames,
  type Logger,
  type PythonSettings,
  type Runtime,
  type RuntimeName,
} from "../worker/index.ts";
import type { Command } from "./command.ts";
import type { Context } from "./context.ts";
import { CommandError, UsageError } from "./failure.ts";
import { readCount, readDuration } from "./units.ts";

export interface WorkerOptionTexts {
  tasks?: string;
  runtime?: string[];
  processes?: string;
  python?: string;
  memoryLimit?: string;
  childLifetime?: string;
  lease?: string;
  fromWorkSpec?: string[];
  logpath?: string;
}

const many = (value: string, before: string[] = []): string[] => [...before, value];

export function defineWorkerOptions(it: Command): void {
  it.option("--tasks <file>", "a file that exports tasks by name, for runtime node")
    .option(
      "--runtime <list>",
      "what to run: node, python, command; node with --tasks; may be repeated",
      many,
    )
    .option(
      "--processes <n>",
      "child processes of each runtime, one for each core; 0 runs tasks in this process",
    )
    .option("--from-work-spec <name>", "only this work spec; may be repeated", many)
    .option("--lease <time>", "how long a batch may take without a renew; 15m")
    .option("--memory-limit <size>", "kill a child that uses more, such as 512M")
    .option("--child-lifetime <time>", "replace a child that is older")
    .option("--python <program>", "the Python to run; python3")
    .option("--logpath <file>", "append the log to this file; without it, standard error");
}

export interface WorkerSetting extends PythonSettings {
  readonly tasks: string | undefined;
  readonly runtimes: readonly RuntimeName[];
  readonly python: string | undefined;
  readonly memoryLimit: number | undefined;
  readonly workSpecs: readonly string[];
}

/** Flags, else what the configuration file says under the names of the Python worker. */
export async function readWorkerSetting(
  context: Context,
  options: WorkerOptionTexts,
): Promise<WorkerSetting> {
  const configured = await readConfigured(context);
  const { tasks, python, processes, childLifetime, lease, memoryLimit, fromWorkSpec = [] } = options;
  return {
    ...configured,
    tasks,
    python,
    runtimes: readRuntimes(options),
    workSpecs: fromWorkSpec,
    memoryLimit: memoryLimit === undefined ? undefined : readSize(memoryLimit, "--memory-limit"),
    ...(processes !== undefined && { processes: readCount(processes, "--processes") }),
    ...(childLifetime !== undefined && { childLifetimeMs: readDuration(childLifetime, "--child-lifetime") }),
    ...(lease !== undefined && { lifetimeMs: readDuration(lease, "--lease") }),
  };
}

function readRuntimes({ runtime = [], tasks }: WorkerOptionTexts): RuntimeName[] {
  const words = runtime.flatMap((list) => list.split(",")).map((word) => word.trim());
  const found = words.map((word) => {
    const name = runtimeNames.find((known) => known === word);
    if (name === undefined) throw new UsageError(`--runtime ${word}: expected ${runtimeNames.join(", ")}`);
    return name;
  });
  if (tasks !== undefined && !found.includes("node")) found.unshift("node");
  if (found.length === 0)
    throw new UsageError("nothing to run: give --tasks FILE, or --runtime python or command");
  if (tasks === undefined && found.includes("node"))
    throw new UsageError("--runtime node needs --tasks FILE");
  return [...new Set(found)];
}

/** Opens what was asked for; the sizes of batches are the caller's. */
export async function openChosen(
  setting: WorkerSetting,
  maxAttempts: number | undefined,
  log: Logger,
  concurrency?: number,
): Promise<Runtime[]> {
  const { runtimes, tasks, processes, python, memoryLimit, childLifetimeMs, stopEarlyMs, lifetimeMs } =
    setting;
  return openRuntimes({
    runtimes,
    log,
    ...(tasks !== undefined && { tasks }),
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
 * Runs what works on a namespace. A worker changes the store, also where the command that shows one only looks; and a store
 * that is opened here, without a daemon, is tidied here.
 */
export async function atWork<Outcome>(
  context: Context,
  log: Logger,
  work: (namespace: Namespace) => Promise<Outcome>,
): Promise<Outcome> {
  const { coordinate, engine } = await context.opened("write");
  const { Housekeeping } = await import("../daemon/housekeeping.ts");
  const housekeeping = new Housekeeping(engine, 1000, {
    onTidied: () => undefined,
    onError: (error) => log.error({ err: error }, "the store could not be tidied"),
  });
  housekeeping.start();
  try {
    return await work(handles(coordinate).namespace(await context.namespace()));
  } finally {
    await housekeeping.stop();
  }
}

/** Lines with the time; with `-v` also what is of use to find a fault. A short command tells only what went wrong. */
export function openLog(context: Context, file: string | undefined, { brief = false } = {}): Logger {
  const stream =
    file === undefined ? context.session.streams.stderr : createWriteStream(file, { flags: "a" });
  stream.on("error", (error: Error) => {
    context.out.remark(`${file ?? "the log"}: ${error.message}`);
  });
  const write = (line: string): void => void stream.write(`${new Date().toISOString()} ${line}`);
  if (context.options.verbose === true) return linesLogger(write);
  return linesLogger(write, brief ? ["warn", "error"] : ["info", "warn", "error"]);
}

async function readConfigured(context: Context): Promise<PythonSettings> {
  const file = context.options.config ?? context.env.COORDINATE_CONFIG;
  if (file === undefined || file === "") return {};
  const { parse } = await import("yaml");
  try {
    const document: unknown = parse(await readFile(file, "utf8"), { maxAliasCount: 100 });
    const isObject = typeof document === "object" && document !== null;
    return readPythonSettings(isObject && "coordinate" in document ? document.coordinate : document);
  } catch (error) {
    throw new CommandError(`${file}: ${error instanceof Error ? error.message : String(error)}`);
  }
}

/** "512M", "2G", "1048576" as bytes. */
function readSize(text: string, what: string): number {
  const [, number, unit = ""] = /^(\d+(?:\.\d+)?)\s*([kmg]?)(?:i?b)?$/i.exec(text.trim()) ?? [];
  if (number === undefined) throw new UsageError(`${what}: expected a size such as 512M or 2G, got ${text}`);
  return Number(number) * 1024 ** ["", "k", "m", "g"].indexOf(unit.toLowerCase());
}
