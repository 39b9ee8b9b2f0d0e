/**
 * How commands name work specs and units: `-W NAME` as the Python tool has it, `-w FILE` for the spec in a file, or
 * simply as the first word. With `--escaped`, names are read as they are shown.
 */
import { readFile } from "node:fs/promises";
import { CoordinateError, type Coordinate, type WorkSpecRow } from "../core/index.ts";
import { nearest } from "../config/did-you-mean.ts";
import type { Command } from "./command.ts";
import type { Context } from "./context.ts";
import { quote, unescape } from "./escape.ts";
import { CommandError, UsageError } from "./failure.ts";

export interface NamingOptions {
  workSpecName?: string;
  workSpec?: string;
  escaped?: boolean;
}

/** Declares the ways to name a work spec; `units` says whether names of units follow. */
export function defineNaming(command: Command, units: "none" | "some" = "none"): Command {
  command
    .argument(
      units === "none" ? "[work-spec]" : "[names...]",
      units === "none"
        ? "the work spec, if not given by -W or -w"
        : "the work spec, if not given by -W or -w; then units",
    )
    .option("-W, --work-spec-name <name>", "the work spec by name")
    .option("-w, --work-spec <file>", "the work spec by the YAML or JSON file that describes it");
  return command.option("-e, --escaped", "names are given as they are shown: \\n, \\x1b, \\u{202e}, \\\\");
}

export interface Named {
  workSpec: string;
  units: string[];
}

/** The work spec and the units that a command line names. */
export async function readNaming(args: readonly string[], options: NamingOptions): Promise<Named> {
  const read = (name: string): string => (options.escaped === true ? unescape(name) : name);
  const { workSpecName, workSpec } = options;
  if (workSpecName !== undefined && workSpec !== undefined)
    throw new UsageError("-W and -w both name the work spec: give one of them");
  if (workSpecName !== undefined) return { workSpec: read(workSpecName), units: args.map(read) };
  if (workSpec !== undefined) return { workSpec: await nameInFile(workSpec), units: args.map(read) };
  const [first, ...rest] = args;
  if (first === undefined) throw new UsageError("which work spec? -W NAME, -w FILE, or its name");
  return { workSpec: read(first), units: rest.map(read) };
}

/** A command that takes a work spec and no units refuses what would otherwise be dropped silently. */
export async function readOneSpec(args: readonly string[], options: NamingOptions): Promise<string> {
  const { workSpec, units } = await readNaming(args, options);
  if (units.length > 0) throw new UsageError(`one work spec at a time; ${quote(units[0] ?? "")} is too many`);
  return workSpec;
}

async function nameInFile(file: string): Promise<string> {
  const { parse } = await import("yaml");
  let document: unknown;
  try {
    document = parse(await readFile(file, "utf8"), { maxAliasCount: 100 });
  } catch (error) {
    const missing = (error as NodeJS.ErrnoException).code === "ENOENT";
    const message = missing ? `${file}: no such file` : `${file}: ${messageOf(error)}`;
    if (missing) throw new UsageError(`-w ${message}`);
    throw new CommandError(message);
  }
  const name =
    typeof document === "object" && document !== null && "name" in document ? document.name : undefined;
  if (typeof name !== "string") throw new CommandError(`${file}: a work spec has a name; this has none`);
  return name;
}

const messageOf = (error: unknown): string => (error instanceof Error ? error.message : String(error));

export async function hasWorkSpec(context: Context, name: string): Promise<boolean> {
  const { coordinate, ns } = await context.work();
  const [row] = await coordinate.getWorkSpecs(ns, [name]);
  return row !== null && row !== undefined;
}

/** The work spec, or the error that it is not there, with the name that was probably meant. */
export async function requireWorkSpec(context: Context, name: string): Promise<WorkSpecRow> {
  const { coordinate, ns } = await context.work();
  const [row] = await coordinate.getWorkSpecs(ns, [name]);
  if (row !== null && row !== undefined) return row;
  throw await missingWorkSpec(coordinate, ns, name);
}

export async function missingWorkSpec(coordinate: Coordinate, ns: string, name: string): Promise<Error> {
  const { rows } = await coordinate.listWorkSpecs(ns, { limit: 1000 });
  const meant = nearest(
    name,
    rows.map((row) => row.name),
  );
  const missing = new CoordinateError("no_such_work_spec", quote(name));
  if (meant !== null) return new CommandError(missing.message, `did you mean ${quote(meant)}?`);
  if (rows.length > 0) return missing;
  return new CommandError(missing.message, await aboutEmptyNamespace(coordinate, ns));
}

export const namespaceText = (ns: string): string => (ns === "" ? "(default)" : quote(ns));

/**
 * Of a namespace without work specs: which others have some, and the one that was probably meant. Not a sentence, so that it
 * can follow another.
 */
export async function aboutEmptyNamespace(coordinate: Coordinate, ns: string): Promise<string> {
  // a token may open this namespace alone
  const counts = await coordinate.tally().catch(() => []);
  const others = [...new Set(counts.map(({ namespace }) => namespace))].filter((one) => one !== ns);
  const meant = ns === "" ? null : nearest(ns, others);
  const none = `namespace ${namespaceText(ns)} has no work specs`;
  if (meant !== null) return `${none}; did you mean ${quote(meant)}?`;
  const [only] = others;
  if (only === undefined) return none;
  if (others.length === 1) return `${none}; ${namespaceText(only)} has some: --namespace ${quote(only)}`;
  const more = others.length > 5 ? ` and ${others.length - 5} more` : "";
  return `${none}; these have: ${others.slice(0, 5).map(namespaceText).join(", ")}${more}`;
}

/** Of the names, those of units that are not there. */
export async function missingUnits(
  coordinate: Coordinate,
  ns: string,
  workSpec: string,
  names: readonly string[],
): Promise<string[]> {
  const rows = await coordinate.getWorkUnits(ns, workSpec, names);
  return names.filter((_name, i) => (rows[i] ?? null) === null);
}

/** Names for a sentence, not more than a few. */
export function listed(names: readonly string[], max = 5): string {
  const shown = names.slice(0, max).map(quote).join(", ");
  return names.length > max ? `${shown} and ${names.length - max} more` : shown;
}
