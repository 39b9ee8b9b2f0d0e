/** The table of commands: what `--help` shows, and where each is found. Only the one that is asked for is loaded. */
import type { CommandModule } from "./command.ts";
import type { StoreUse } from "./open.ts";

/** In the order of the help page. */
export const groups = {
  work: "Work:",
  looking: "Looking in:",
  workers: "Workers:",
  administration: "Administration:",
} as const;

export interface CommandEntry {
  /** As the Python tool spells it; dashes for underscores work too. */
  name: string;
  /** Other names, not shown. */
  aliases?: readonly string[];
  group: keyof typeof groups;
  /** One line of the help page, without a full stop. */
  summary: string;
  /** What it does with a store that `--backend` opens directly; a file that is not there is made by `create` only. */
  store: StoreUse;
  /** It reads its own words: all that follows the name is handed to it as it is, `--help` included. */
  raw?: boolean;
  hidden?: boolean;
  load: () => Promise<{ default: CommandModule }>;
}

export const commands: readonly CommandEntry[] = [
  // ---- work

  // ---- looking in
  {
    name: "summary",
    group: "looking",
    summary: "counts of every work spec",
    store: "read",
    load: () => import("./commands/summary.ts"),
  },
  {
    name: "work_specs",
    group: "looking",
    summary: "names of the work specs",
    store: "read",
    load: () => import("./commands/work-specs.ts"),
  },

  // ---- workers

  // ---- administration
  {
    name: "serve",
    group: "administration",
    summary: "run the daemon; the same as coordinated",
    store: "create",
    raw: true,
    load: () => import("./commands/serve.ts"),
  },
  {
    name: "token",
    aliases: ["tokens"],
    group: "administration",
    summary: "make, list and revoke tokens for the daemon",
    store: "read",
    load: () => import("./commands/token.ts"),
  },
];

/** By its name or another; dashes and underscores are the same. */
export function findCommand(word: string): CommandEntry | undefined {
  const name = word.replaceAll("-", "_");
  return commands.find((entry) => entry.name === name || entry.aliases?.includes(name) === true);
}
