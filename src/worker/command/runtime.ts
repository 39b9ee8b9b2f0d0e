/**
 * Runs programs: a work spec with `runtime: command` and `command: [program, argument...]`, one process for each unit.
 *
 * The program gets the unit's data as JSON on its standard input. When it exits with 0, the unit is finished: a JSON object on its
 * standard output becomes the unit's data, so that its `output` creates further units; any other output is added to the data as the
 * text `stdout`. Any other exit ends the attempt in an error with the reason and the end of standard error. Standard error is also the
 * log of the attempt. Exit code, time, memory and standard error are recorded as `command` in the data.
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
  /** How many programs run at once; one for each core when absent. */
  readonly processes?: number;
  /** Values of the `runtime` key that it serves; `["command"]` when absent. */
  readonly names?: readonly string[];
  /** Most attempts in one claim; 1 when absent. */
  readonly maxAttempts?: number;
  /** Bytes of standard output that are kept; 8 MiB when absent. */
  readonly maxOutput?: number;
  /** A program that uses more bytes of memory is killed; needs procfs. */
  readonly memoryLimit?: number;
  /** Time between SIGTERM and SIGKILL; 5 seconds when absent. */
  readonly graceMs?: number;
  /** Added to the environment of this process; a work spec's `env` overrides both. */
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
    // units of a claim run one after the other within one lease: with one unit, its program has the whole lease
    maxAttempts: options.maxAttempts ?? 1,
    task: ({ data }) => {
      const spec = readCommandSpec(data);
      return bulk((attempts, context) => runUnits(attempts, context, spec, options), { atLeast: 1 });
    },
    // nothing to do: tasks stop their processes when their signals are aborted
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
  // the worker has reported refusals
  await Promise.allSettled(settles);
}

/** Runs one program and returns how to settle its attempt, so that the next program can run while the result is stored. */
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
    // omitted when the name cannot be the value of an environment variable, rather than truncated
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
  // standard error is the log of the attempt, also when the program succeeds
  const keepLine = (text: string): void => attempt.log(text, { time: clock.now() });
  const result = await runCommand(program, input, limits, { signal, expired }, keepLine);
  if (result.exit.code === 0 && result.exit.cause === "exited")
    return () => orFail(attempt, attempt.finish(finishedData(attempt, result)));
  if (result.exit.cause === "stopped") return () => attempt.release();
  const reason = result.exit.cause === "expired" ? ({ reason: "expired" } as const) : {};
  const data = failedData(attempt, result, spec.command[0]);
  // no retry: it would exceed the memory limit again
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

/** Standard output as data, for output that is not a result; empty when nothing was printed. */
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

/** Returns the text as data when it is one JSON object, else null. */
function objectOf(text: string): Data | null {
  const trimmed = text.trim();
  if (!trimmed.startsWith("{")) return null;
  try {
    return jsonData(trimmed, { maxBytes: Infinity });
  } catch {
    return null; // text that only begins like an object
  }
}

/** Appends members to data. JSON text is not reformatted; when a key is repeated, the last one counts. */
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
