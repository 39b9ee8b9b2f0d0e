/**
 * Runs programs: a work spec with `runtime: command` and `command: [program, argument...]`, one process for each unit.
 *
 * The unit's data is its standard input, as JSON. When it exits with 0 the unit is finished: a JSON object on its standard output becomes the
 * unit's data, so that its `output` makes further units; anything else is kept as the text `stdout` beside the data. Any other end is an
 * error of the unit, with the reason and the end of its standard error, which is also the log of the attempt. How it went is recorded as `command` in the data.
 */
import { availableParallelism } from "node:os";
import {
  CoordinateError,
  dataToJson,
  encodeData,
  decodeData,
  jsonData,
  type Data,
} from "../../core/index.ts";
import type { Attempt } from "../../objects/index.ts";
import { jobExpired } from "../process/child-run.ts";
import { childEnvironment } from "../process/environment.ts";
import { defaultGraceMs } from "../process/group.ts";
import type { Runtime } from "../runtime.ts";
import { bulk, type BulkContext } from "../task.ts";
import { orFail } from "../unstorable.ts";
import { fillArguments, isText, readCommandSpec, type CommandSpec } from "./arguments.ts";
import { runCommand, type CommandLimits, type CommandResult } from "./run.ts";

export interface CommandRuntimeOptions {
  /** Programs at once; one for each core when absent. */
  readonly processes?: number;
  /** Values of the `runtime` key that are served; `["command"]` when absent. */
  readonly names?: readonly string[];
  /** Attempts of a claim at most; 1 when absent. */
  readonly maxAttempts?: number;
  /** Bytes of standard output that are kept; 8 MiB when absent. */
  readonly maxOutput?: number;
  /** A program that uses more is killed; needs procfs. */
  readonly memoryLimit?: number;
  /** Between SIGTERM and SIGKILL; 5 seconds when absent. */
  readonly graceMs?: number;
  /** Added to the environment of this process; a work spec's `env` comes on top. */
  readonly env?: Readonly<Record<string, string>>;
  readonly cwd?: string;
}

const maxErrors = 8 * 1024;

export function commandRuntime(options: CommandRuntimeOptions = {}): Runtime {
  const { processes = availableParallelism(), names = ["command"] } = options;
  if (!Number.isSafeInteger(processes) || processes < 1)
    throw new CoordinateError(
      "bad_argument",
      `processes: expected an integer of 1 or more, got ${processes}`,
    );
  return {
    names,
    timedOut: jobExpired,
    capacity: processes,
    // They run one after the other, and the lease is that of the whole claim: a program may take as long as it is.
    maxAttempts: options.maxAttempts ?? 1,
    task: ({ data }) => {
      const spec = readCommandSpec(data);
      return bulk((attempts, context) => runUnits(attempts, context, spec, options), { atLeast: 1 });
    },
    // The processes belong to their tasks, and end when those are told that it is over.
    close: () => Promise.resolve(),
  };
}

async function runUnits(
  attempts: readonly Attempt[],
  context: BulkContext,
  spec: CommandSpec,
  options: CommandRuntimeOptions,
): Promise<void> {
  const settles: Promise<unknown>[] = [];
  for (const attempt of attempts) {
    if (context.expired.aborted) break;
    if (context.signal.aborted) settles.push(attempt.release());
    else await runUnit(attempt, context, spec, options).then((settle) => settles.push(settle()));
  }
  // Those that were refused are known to the worker.
  await Promise.allSettled(settles);
}

/** Answers how to settle: the next program may run while this one's result is stored. */
async function runUnit(
  attempt: Attempt,
  { workSpec, worker, signal, expired, clock }: BulkContext,
  spec: CommandSpec,
  options: CommandRuntimeOptions,
): Promise<() => Promise<unknown>> {
  const name = attempt.workUnitName;
  let args: string[];
  try {
    args = fillArguments(spec, { name, spec: workSpec.name, attempt: attempt.number, data: attempt.data });
  } catch (error) {
    if (error instanceof CoordinateError) return () => attempt.failWith(error.message);
    throw error;
  }
  const env = {
    ...childEnvironment(),
    ...options.env,
    ...spec.env,
    COORDINATE_WORK_SPEC: workSpec.name,
    COORDINATE_ATTEMPT: attempt.id,
    COORDINATE_WORKER: worker,
    // a name that cannot be an environment variable is not cut short to one that can
    ...(isPassable(name) && { COORDINATE_WORK_UNIT: name }),
  };
  const cwd = spec.cwd ?? options.cwd;
  const limits: CommandLimits = {
    maxOutput: options.maxOutput ?? 8 * 1024 * 1024,
    maxErrors,
    memoryLimit: options.memoryLimit ?? null,
    timeoutMs: spec.timeoutMs,
    graceMs: options.graceMs ?? defaultGraceMs,
  };
  const input = attempt.rawData === null ? "{}" : dataToJson(attempt.rawData).text;
  const program = { command: spec.command[0], args, env, ...(cwd !== undefined && { cwd }) };
  // what a program writes there is its log, whether it fails or not
  const keepLine = (text: string): void => attempt.log(text, { time: clock.now() });
  const result = await runCommand(program, input, limits, { signal, expired }, keepLine);
  if (result.exit.code === 0 && result.exit.cause === "exited")
    return () => orFail(attempt, attempt.finish(finishedData(attempt, result)));
  if (result.exit.cause === "stopped") return () => attempt.expire();
  const reason = result.exit.cause === "expired" ? ({ reason: "expired" } as const) : {};
  const data = failedData(attempt, result, spec.command[0]);
  // too much memory once is too much again
  if (result.exit.cause === "memory") return () => orFail(attempt, attempt.fail(data));
  return () => orFail(attempt, attempt.error(undefined, { data, ...reason }));
}

const isPassable = (text: string): boolean => !text.includes("\0") && isText(text);

function finishedData(attempt: Attempt, result: CommandResult): Data {
  const { stdout, stdoutLeftOut } = result;
  const told = stdoutLeftOut === 0 ? objectOf(stdout) : null;
  return told === null
    ? withMembers(attempt.rawData, { ...outputOf(result), command: recordOf(result) })
    : withMembers(told, { command: recordOf(result) });
}

function failedData(attempt: Attempt, result: CommandResult, program: string): Data {
  const tail = result.stderr.trim();
  const traceback = `${program} ${result.exit.text}${tail === "" ? "" : `\n${tail}`}`;
  return withMembers(attempt.rawData, { ...outputOf(result), traceback, command: recordOf(result) });
}

/** What it printed, when that was no result; nothing when it printed nothing. */
function outputOf({ stdout, stdoutLeftOut }: CommandResult): object {
  if (stdout === "") return {};
  return { stdout, ...(stdoutLeftOut > 0 && { stdout_left_out: stdoutLeftOut }) };
}

function recordOf({ exit, stderr, ms, peak }: CommandResult): object {
  return {
    exit_code: exit.code,
    ...(exit.signal !== null && { signal: exit.signal }),
    seconds: Math.round(ms) / 1000,
    ...(peak !== null && { memory: peak }),
    ...(stderr !== "" && { stderr }),
  };
}

/** The text as data, when it is one JSON object. */
function objectOf(text: string): Data | null {
  const trimmed = text.trim();
  if (!trimmed.startsWith("{")) return null;
  try {
    return jsonData(trimmed, { maxBytes: Infinity });
  } catch {
    return null; // text that only begins like an object
  }
}

/** Data with these members at its end. JSON text stays as it was written; of a repeated key the last one counts. */
function withMembers(data: Data | null, members: object): Data {
  if (data !== null && typeof data !== "string")
    return encodeData({ ...decodeData(data, { precise: true }), ...members }, { maxBytes: Infinity });
  const added = JSON.stringify(members).slice(1);
  const text = data === null ? "{}" : data.trimEnd();
  const isEmpty = /^\s*\{\s*\}$/.test(text);
  return jsonData(`${text.slice(0, -1)}${isEmpty || added === "}" ? "" : ","}${added}`, {
    maxBytes: Infinity,
  });
}
