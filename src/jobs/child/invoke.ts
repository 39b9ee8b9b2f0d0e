/** Runs a function once: loads it, calls it and checks its result. Every error becomes an outcome; nothing is thrown. */
import { inspect } from "node:util";
import type { Action } from "../action.ts";
import { currentStorage, type CurrentJob, type FinishedDependency } from "../current.ts";
import type { JobError, JobErrorFrame, JobOutcome } from "../job.ts";
import { jsonValue, NotJsonError } from "../json.ts";
import { LoadError, type Loader } from "./load.ts";

/** The request to run a function. JSON. */
export interface RunRequest {
  readonly id: string;
  readonly name: string;
  readonly category: string;
  readonly attempt: number;
  readonly action: Action;
  readonly args: readonly unknown[];
  readonly kwargs: Readonly<Record<string, unknown>>;
  readonly dependencies: readonly FinishedDependency[];
}

export interface InvokeContext {
  readonly loader: Loader;
  readonly signal: AbortSignal;
  readonly onProgress: (value: unknown) => void;
}

export async function invoke(request: RunRequest, context: InvokeContext): Promise<JobOutcome> {
  let phase: NonNullable<JobError["phase"]> = "load";
  let codeVersion = "";
  try {
    const { fn, version } = await context.loader.load(request.action);
    codeVersion = version;
    phase = "execute";
    const { args, kwargs } = request;
    // JavaScript has no named arguments: they are passed as one object, after the others
    const given = Object.keys(kwargs).length === 0 ? args : [...args, kwargs];
    const value = await currentStorage.run(current(request, context), () => fn(...given));
    phase = "serialise";
    return { state: "OK", result: jsonValue(value, "the result"), codeVersion };
  } catch (thrown) {
    return { state: "ERROR", category: "ERROR", error: jobError(thrown, phase), codeVersion };
  }
}

function current(request: RunRequest, { signal, onProgress }: InvokeContext): CurrentJob {
  const { id, name, category, attempt, dependencies } = request;
  const progress = (value: unknown): void => onProgress(jsonValue(value, "the progress"));
  return { id, name, category, attempt, dependencies, signal, progress };
}

/** Longer messages and tracebacks are cut: they do not help, and many jobs may store the same one. */
const longest = 16 * 1024;
const maxFrames = 20;

const unreadable = "the function threw an error that cannot be read";

/** The error of a job, from any thrown value. Never throws, although a thrown value may have getters that do. */
function jobError(thrown: unknown, phase: NonNullable<JobError["phase"]>): JobError {
  try {
    return readError(thrown, phase);
  } catch {
    return { message: unreadable, traceback: unreadable, phase };
  }
}

/** The traceback of an Error has its stack and those of its causes. */
function readError(thrown: unknown, phase: NonNullable<JobError["phase"]>): JobError {
  const plain = thrown instanceof LoadError || thrown instanceof NotJsonError;
  const message =
    thrown instanceof Error ? textOf(thrown.message) : `${typeof thrown} thrown: ${show(thrown)}`;
  const frames = thrown instanceof Error && !plain ? framesOf(stackOf(thrown)) : [];
  return {
    message: cut(message === "" ? "error without a message" : message),
    traceback: cut(plain ? message : tracebackOf(thrown)),
    type: thrown instanceof Error ? textOf(thrown.name) : typeof thrown,
    phase,
    ...(frames.length > 0 && { frames }),
  };
}

/** A program may give an error a name and a message that are not strings. */
const textOf = (value: unknown): string => String(value);

function tracebackOf(thrown: unknown): string {
  const lines: string[] = [];
  const seen = new Set<unknown>();
  for (let at: unknown = thrown; at !== undefined && !seen.has(at) && seen.size < 10;) {
    seen.add(at);
    lines.push((lines.length === 0 ? "" : "caused by: ") + (at instanceof Error ? stackOf(at) : show(at)));
    at = at instanceof Error ? at.cause : undefined;
  }
  return lines.join("\n");
}

/** A program may give an error any stack, or none, or one that cannot be read. */
function stackOf(error: Error): string {
  try {
    return typeof error.stack === "string" && error.stack !== "" ? error.stack : String(error);
  } catch {
    return "an error that cannot be read";
  }
}

/** "    at name (file:line:column)" or "    at file:line:column". */
function framesOf(stack: string): JobErrorFrame[] {
  const found: JobErrorFrame[] = [];
  for (const line of stack.split("\n")) {
    const [, name, inside, bare, at] = /^\s+at (?:(.*?) \((.*?):|(.*?):)(\d+):\d+\)?$/.exec(line) ?? [];
    if (at === undefined) continue;
    found.push({ file: inside ?? bare ?? "", function: name ?? "", line: Number(at) });
    if (found.length === maxFrames) break;
  }
  return found;
}

const cut = (text: string): string => (text.length > longest ? `${text.slice(0, longest)}…` : text);

function show(value: unknown): string {
  try {
    return inspect(value, { depth: 2, breakLength: Infinity });
  } catch {
    return "a value that cannot be shown";
  }
}
