/** Prints failures for people: one line with the problem and what to do; a stack only with `-v`. */
import { CoordinateError, InUseError } from "../core/index.ts";
import { isVerbose, type GlobalOptions, type Session } from "./context.ts";
import { show, showText } from "./escape.ts";
import { CommandError, exit, UsageError } from "./failure.ts";

/** What an operator can do about an error, by its code. */
const hints: Readonly<Record<string, string>> = {
  no_such_work_spec: "coordinate work_specs lists them",
  no_such_work_unit: "coordinate work_units lists them",
  no_such_worker: "coordinate workers --all lists them",
  not_supported: "upgrade the daemon to this version, or open the store directly with --backend",
  unauthorized: "set COORDINATE_TOKEN or --token; coordinate token create creates a token",
  forbidden: "the token lacks the rights; coordinate token list shows the scopes of each token",
  not_coordinate: "is that the address of a Coordinate daemon?",
};

function hintOf(error: Error, where: string): string {
  if (error instanceof CommandError) return error.hint;
  const code = "code" in error && typeof error.code === "string" ? error.code : "";
  if (error instanceof CoordinateError && error.code === "unavailable" && where.startsWith("daemon"))
    return `is a daemon running at ${where.slice("daemon ".length)}? coordinate serve starts one; coordinate doctor finds the problem`;
  if (error instanceof InUseError) return "connect to the daemon that has it open with --address";
  return hints[code] ?? "";
}

/** Prints the error and returns the exit code. */
export function printError(session: Session, options: GlobalOptions, error: unknown, command = ""): number {
  const { stderr } = session.streams;
  const name = command === "" ? "coordinate" : `coordinate ${command}`;
  if (error instanceof UsageError) {
    stderr.write(`${name}: ${show(error.message)}\nSee ${name} --help.\n`);
    return exit.usage;
  }
  const failure = error instanceof Error ? error : new Error(String(error));
  const hint = hintOf(failure, placeOf(session, options));
  const [first = "", ...rest] = showText(failure.message).split("\n");
  stderr.write(`${name}: ${[first, ...rest].join("\n  ")}${hint === "" ? "" : `; ${hint}`}\n`);
  if (isVerbose(options)) {
    for (let at: unknown = failure; at instanceof Error; at = at.cause)
      stderr.write(`${showText(at.stack ?? at.message)}\n`);
  } else if (isBug(failure))
    stderr.write("This error is unexpected; run the command again with -v to see where it happened.\n");
  return exit.failed;
}

/** Error types that the system never throws on purpose. */
const isBug = (error: Error): boolean =>
  error instanceof TypeError || error instanceof RangeError || error instanceof ReferenceError;

function placeOf(session: Session, { address, backend }: GlobalOptions): string {
  if (backend !== undefined) return "store";
  const asked = address ?? session.target?.address ?? session.streams.env.COORDINATE_ADDRESS;
  return `daemon ${show(asked ?? "http://127.0.0.1:5980")}`;
}
