/** Completion candidates for a command line: for the completion of system shells and for our interactive shell. */
import { Command } from "commander";
import { verbNames, workUnitStatuses } from "../core/index.ts";
import { commands, findCommand, type CommandEntry } from "./commands.ts";
import { Context, type GlobalOptions, type Session } from "./context.ts";
import { globalOptions } from "./program.ts";

/** Limits on fetching names from a store: how many, and for how long. */
const maxNames = 200;
const patienceMs = 1500;

/** Candidates for the last word, which may be empty; the words before it are complete. */
export async function complete(session: Session, words: readonly string[]): Promise<string[]> {
  const last = words.at(-1) ?? "";
  const before = words.slice(0, -1);
  const { entry, options, at } = readWords(before);
  const candidates =
    entry === null
      ? last.startsWith("-")
        ? globalOptions().map(({ long }) => long ?? "")
        : [...commands.filter(({ hidden }) => hidden !== true).map(({ name }) => name), "help"]
      : await ofCommand(session, entry, before.slice(at + 1), last, options);
  return candidates.filter((one) => one.startsWith(last)).sort();
}

/** Finds the command among the words, and the global options with a value, which may be at any position. */
function readWords(words: readonly string[]): {
  entry: CommandEntry | null;
  options: GlobalOptions;
  at: number;
} {
  const known = globalOptions();
  const options: Record<string, string> = {};
  let entry: CommandEntry | null = null;
  let at = -1;
  for (let i = 0; i < words.length; i++) {
    const word = words[i] ?? "";
    const [flag = "", inline] = word.split("=", 2);
    const option = known.find(({ long, short }) => long === flag || short === flag);
    if (option !== undefined && (option.required || option.optional)) {
      const value = inline ?? words[++i];
      if (value !== undefined) options[option.attributeName()] = value;
    } else if (entry === null && !word.startsWith("-")) {
      entry = word === "help" ? null : (findCommand(word) ?? null);
      at = i;
    }
  }
  return { entry, options, at };
}

async function ofCommand(
  session: Session,
  entry: CommandEntry,
  words: readonly string[],
  last: string,
  options: GlobalOptions,
): Promise<string[]> {
  const previous = words.at(-1) ?? "";
  if (previous === "-s" || previous === "--status") return [...workUnitStatuses];
  if (previous === "-W" || previous === "--work-spec-name") return names(session, options, "work_spec");
  if (previous === "--worker") return names(session, options, "worker");
  if (last.startsWith("-")) return flags(entry);
  const named = words.includes("-W") || words.includes("--work-spec-name");
  if (entry.args === undefined || words.some((word) => !word.startsWith("-")) || named) return [];
  if (entry.args === "verb") return [...verbNames];
  return typeof entry.args === "string" ? names(session, options, entry.args) : [...entry.args];
}

async function flags(entry: CommandEntry): Promise<string[]> {
  const command = new Command(entry.name);
  const { default: module } = await entry.load();
  module.define(command);
  return [...command.options, ...globalOptions()]
    .map(({ long, short }) => long ?? short ?? "")
    .concat("--help");
}

/** Returns no names on a failure or timeout: completion must not disturb the line that is being typed. */
async function names(
  session: Session,
  options: GlobalOptions,
  what: "work_spec" | "worker",
): Promise<string[]> {
  const ask = async (): Promise<string[]> => {
    const { coordinate, ns } = await new Context(session, options, "read").work();
    const page =
      what === "work_spec"
        ? await coordinate.listWorkSpecs(ns, { limit: maxNames })
        : await coordinate.listWorkers(ns, { active: true, limit: maxNames });
    return page.rows.map(({ name }) => name).filter((name) => /^[\w.:/@+-]+$/.test(name));
  };
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<string[]>((resolve) => {
    timer = setTimeout(() => resolve([]), patienceMs);
  });
  try {
    return await Promise.race([ask(), late]);
  } catch {
    return [];
  } finally {
    clearTimeout(timer);
  }
}
