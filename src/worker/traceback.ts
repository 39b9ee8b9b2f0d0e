/** Describes an error as the text that is stored with a failed unit. */
import { inspect } from "node:util";

/** An error that is shown without its stack: where in the worker it was thrown does not help. */
export class PlainError extends Error {
  override readonly name = "PlainError";
}

/** Most characters of a traceback. Longer ones do not help, and a million failed units may each store one. */
const longest = 64 * 1024;

/**
 * Returns the stack, followed by those of the causes. A thrown value that is not an error is printed. Never throws, although a thrown
 * value may have getters that do.
 */
export function traceback(error: unknown): string {
  try {
    return stacks(error);
  } catch {
    return unreadable;
  }
}

/** Returns the error itself, or one that can be read: code that reports an error may then read its fields. */
export function readable(error: unknown): unknown {
  try {
    if (!(error instanceof Error)) return error;
    const [name, message] = [error.name, error.message, error.stack, error.cause];
    if (typeof name === "string" && typeof message === "string") return error;
  } catch {
    // a getter that throws
  }
  return new PlainError(traceback(error));
}

/** The message of an error, or the text of another thrown value. Never throws. */
export function messageOf(error: unknown): string {
  const read = readable(error);
  return read instanceof Error ? read.message : traceback(read);
}

const unreadable = "the task threw an error that cannot be read";

function stacks(error: unknown): string {
  const lines: string[] = [];
  const seen = new Set<unknown>();
  let at: unknown = error;
  do {
    seen.add(at);
    lines.push((lines.length === 0 ? "" : "caused by: ") + describe(at));
    at = at instanceof Error ? at.cause : undefined;
  } while (at !== undefined && !seen.has(at) && seen.size < 10);
  const text = lines.join("\n");
  return text.length > longest ? `${text.slice(0, longest)}…` : text;
}

function describe(error: unknown): string {
  if (error instanceof PlainError) return error.message;
  if (typeof error === "string") return error === "" ? "the task threw an empty string" : error;
  if (!(error instanceof Error)) return `the task threw ${inspect(error, { depth: 3 })}`;
  // an error may carry any stack, or none at all
  return typeof error.stack === "string" && error.stack !== "" ? error.stack : String(error);
}
