/** What went wrong, as a text for the person who looks at a failed unit. */
import { inspect } from "node:util";

/** An error whose message says it all: where in the worker it was thrown is of no use to anybody. */
export class PlainError extends Error {
  override readonly name = "PlainError";
}

/** Longer ones help nobody and are stored a million times. */
const longest = 64 * 1024;

/** The stack, with the causes beneath it. Anything can be thrown; what is no error is shown as it is. */
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
