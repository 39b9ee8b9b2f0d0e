/** Describes an error as the text that is stored with a failed unit. */
import { inspect } from "node:util";

/** An error that is shown without its stack: where in the worker it was thrown does not help. */
export class PlainError extends Error {
  override readonly name = "PlainError";
}

/** Most characters of a traceback. Longer ones do not help, and a million failed units may each store one. */
const longest = 64 * 1024;

/** Returns the stack, followed by those of the causes. A thrown value that is not an error is printed. */
export function traceback(error: unknown): string {
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
