/**
 * How commands name work specs and units: `-W NAME` as in the Python tool, `-w FILE` for the spec in a file, or simply as the
 * first word. With `--escaped`, names are read in the escaped form that commands print.
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
        ? "the work spec, unless given by -W or -w"
        : "the work spec, unless given by -W or -w; then units",
    )
    .option("-W, --work-spec-name <name>", "name of the work spec")
    .option("-w, --work-spec <file>", "YAML or JSON file of the work spec");
  return command.option(
    "-e, --escaped",
    "names contain escapes, as they are printed: \\n, \\x1b, \\u{202e}, \\\\",
  );
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
    throw new UsageError("-W and -w both name the work spec: use only one of them");
  if (workSpecName !== undefined) return { workSpec: read(workSpecName), units: args.map(read) };
  if (workSpec !== undefined) return { workSpec: await nameInFile(workSpec), units: args.map(read) };
  const [first, ...rest] = args;
  if (first === undefined) throw new UsageError("no work spec given: use its name, -W NAME or -w FILE");
  return { workSpec: read(first), units: rest.map(read) };
}

/** For a command that takes one work spec and no units: refuses further words instead of ignoring them silently. */
export async function readOneSpec(args: readonly string[], options: NamingOptions): Promise<string> {
  const { workSpec, units } = await readNaming(args, options);
  if (units.length > 0)
    throw new UsageError(`expected one work spec; unexpected argument ${quote(units[0] ?? "")}`);
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
  if (typeof name !== "string") throw new CommandError(`${file}: the file has no name of a work spec`);
  return name;
}

const messageOf = (error: unknown): string => (error instanceof Error ? error.message : String(error));

export async function hasWorkSpec(context: Context, name: string): Promise<boolean> {
  const { coordinate, ns } = await context.work();
  const [row] = await coordinate.getWorkSpecs(ns, [name]);
  return row !== null && row !== undefined;
}

/** Returns the work spec, or throws an error that suggests the nearest name. */
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

const namespaceText = (ns: string): string => (ns === "" ? "(default)" : quote(ns));

/**
 * Describes a namespace without work specs: which others have some, or the one that was probably meant. Returns a clause, not a
 * sentence, so that it can follow another.
 */
export async function aboutEmptyNamespace(coordinate: Coordinate, ns: string): Promise<string> {
  // fails with a token that allows only this namespace
  const counts = await coordinate.tally().catch(() => []);
  const others = [...new Set(counts.map(({ namespace }) => namespace))].filter((one) => one !== ns);
  const meant = ns === "" ? null : nearest(ns, others);
  const none = `namespace ${namespaceText(ns)} has no work specs`;
  if (meant !== null) return `${none}; did you mean ${quote(meant)}?`;
  const [only] = others;
  if (only === undefined) return none;
  if (others.length === 1) return `${none}; ${namespaceText(only)} has some: --namespace ${quote(only)}`;
  const more = others.length > 5 ? ` and ${others.length - 5} more` : "";
  return `${none}; these namespaces have some: ${others.slice(0, 5).map(namespaceText).join(", ")}${more}`;
}

/** Throws an error that lists the units that do not exist. `hint` says what was not done. */
export async function requireUnits(
  context: Context,
  workSpec: string,
  names: readonly string[],
  hint: string,
): Promise<void> {
  const { coordinate, ns } = await context.work();
  const rows = await coordinate.getWorkUnits(ns, workSpec, names);
  const missing = names.filter((_name, i) => (rows[i] ?? null) === null);
  if (missing.length > 0)
    throw new CommandError(`No such work unit ${listed(missing)} in ${quote(workSpec)}`, hint);
}

/** At most `max` names, for a sentence. */
export function listed(names: readonly string[], max = 5): string {
  const shown = names.slice(0, max).map(quote).join(", ");
  return names.length > max ? `${shown} and ${names.length - max} more` : shown;
}
