/** The table of commands: what `--help` shows, and the module of each command. Only the requested command is loaded. */
import type { CommandModule } from "./command.ts";
import type { StoreUse } from "./open.ts";

/** In the order of the help page. */
export const groups = {
  work: "Work:",
  looking: "Inspect:",
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
  /** How the command uses a store that `--backend` opens directly. Only `create` creates a missing file. */
  store: StoreUse;
  /** The command parses its own arguments: it gets everything after its name unchanged, `--help` included. */
  raw?: boolean;
  hidden?: boolean;
  /** What the first argument is, for completion: a kind of name in the store, or one of these words. */
  args?: "work_spec" | "worker" | "verb" | readonly string[];
  load: () => Promise<{ default: CommandModule }>;
}

export const commands: readonly CommandEntry[] = [
  // ---- work
  {
    name: "flow",
    group: "work",
    summary: "create or update the work specs of a flow file",
    store: "create",
    load: () => import("./commands/flow.ts"),
  },
  {
    name: "load",
    group: "work",
    summary: "create or update a work spec from a file, and add units from another",
    store: "create",
    load: () => import("./commands/load.ts"),
  },
  {
    name: "addwork",
    group: "work",
    summary: "add units from a file of any size",
    store: "write",
    args: "work_spec",
    load: () => import("./commands/addwork.ts"),
  },
  {
    name: "retry",
    group: "work",
    summary: "run failed units again, or units by name",
    store: "write",
    args: "work_spec",
    load: () => import("./commands/retry.ts"),
  },
  {
    name: "replay",
    group: "work",
    summary: "rerun ended units in a copy of their work spec; compare and accept the results",
    store: "write",
    args: "work_spec",
    load: () => import("./commands/replay.ts"),
  },
  {
    name: "cancel",
    group: "work",
    summary: "cancel waiting and running units; running tasks are asked to stop",
    store: "write",
    args: "work_spec",
    load: () => import("./commands/cancel.ts"),
  },
  {
    name: "clear",
    group: "work",
    summary: "delete units of a work spec",
    store: "write",
    args: "work_spec",
    load: () => import("./commands/clear.ts"),
  },
  {
    name: "pause",
    group: "work",
    summary: "stop handing out units of a work spec",
    store: "write",
    args: "work_spec",
    load: () => import("./commands/pause.ts"),
  },
  {
    name: "resume",
    group: "work",
    summary: "undo pause",
    store: "write",
    args: "work_spec",
    load: () => import("./commands/resume.ts"),
  },
  {
    name: "prioritize",
    group: "work",
    summary: "change the priority of units",
    store: "write",
    args: "work_spec",
    load: () => import("./commands/prioritize.ts"),
  },
  {
    name: "set",
    group: "work",
    summary: "change settings of a work spec: weight, priority, max_running and others",
    store: "write",
    args: "work_spec",
    load: () => import("./commands/set.ts"),
  },
  {
    name: "delete",
    group: "work",
    summary: "delete work specs, or everything in the namespace",
    store: "write",
    args: "work_spec",
    load: () => import("./commands/delete.ts"),
  },

  {
    name: "job",
    group: "work",
    summary: "show one job; run, wait for or cancel jobs",
    store: "read",
    args: ["run", "wait", "cancel"],
    load: () => import("./commands/job.ts"),
  },

  // ---- looking in
  {
    name: "jobs",
    group: "looking",
    summary: "list jobs: what they run, their state and outcome",
    store: "read",
    load: () => import("./commands/jobs.ts"),
  },
  {
    name: "summary",
    group: "looking",
    summary: "unit counts of all work specs",
    store: "read",
    load: () => import("./commands/summary.ts"),
  },
  {
    name: "status",
    group: "looking",
    summary: "unit counts of one work spec",
    store: "read",
    args: "work_spec",
    load: () => import("./commands/status.ts"),
  },
  {
    name: "batches",
    group: "looking",
    summary: "progress of batches; cancel one, or retry its failed units",
    store: "write",
    load: () => import("./commands/batches.ts"),
  },
  {
    name: "limits",
    group: "looking",
    summary: "show, set or delete the limits that work specs share",
    store: "write",
    load: () => import("./commands/limits.ts"),
  },
  {
    name: "partitions",
    group: "looking",
    summary: "waiting and running units of each partition, and why it is held back",
    store: "read",
    args: "work_spec",
    load: () => import("./commands/partitions.ts"),
  },
  {
    name: "schedules",
    group: "looking",
    summary: "work specs with a schedule, and their next runs",
    store: "read",
    args: "work_spec",
    load: () => import("./commands/schedules.ts"),
  },
  {
    name: "explain",
    group: "looking",
    summary: "why units run or do not run, as the scheduler sees it",
    store: "read",
    args: "work_spec",
    load: () => import("./commands/explain.ts"),
  },
  {
    name: "work_specs",
    group: "looking",
    summary: "list the work specs",
    store: "read",
    load: () => import("./commands/work-specs.ts"),
  },
  {
    name: "work_spec",
    group: "looking",
    summary: "print the data of a work spec",
    store: "read",
    args: "work_spec",
    load: () => import("./commands/work-spec.ts"),
  },
  {
    name: "work_units",
    group: "looking",
    summary: "list the units of a work spec",
    store: "read",
    args: "work_spec",
    load: () => import("./commands/work-units.ts"),
  },
  {
    name: "work_unit",
    group: "looking",
    summary: "everything about a unit: attempts, traceback, where it came from",
    store: "read",
    args: "work_spec",
    load: () => import("./commands/work-unit.ts"),
  },
  {
    name: "logs",
    group: "looking",
    summary: "log output of a unit's task, also while it runs",
    store: "read",
    args: "work_spec",
    load: () => import("./commands/logs.ts"),
  },
  {
    name: "failures",
    group: "looking",
    summary: "failed units, grouped by their error",
    store: "write",
    args: "work_spec",
    load: () => import("./commands/failures.ts"),
  },
  {
    name: "history",
    group: "looking",
    summary: "rates, failures, durations and waiting times over time",
    store: "read",
    args: "work_spec",
    load: () => import("./commands/history.ts"),
  },
  {
    name: "top",
    group: "looking",
    summary: "live full-screen view",
    store: "read",
    load: () => import("./commands/top.ts"),
  },
  {
    name: "tail",
    group: "looking",
    summary: "print events as they happen",
    store: "read",
    load: () => import("./commands/tail.ts"),
  },
  {
    name: "namespaces",
    group: "looking",
    summary: "list the namespaces",
    store: "read",
    load: () => import("./commands/namespaces.ts"),
  },

  // ---- workers
  {
    name: "workers",
    group: "workers",
    summary: "list the workers",
    store: "read",
    load: () => import("./commands/workers.ts"),
  },
  {
    name: "worker",
    group: "workers",
    summary: "run a worker; with a name, show that worker",
    store: "read",
    args: "worker",
    load: () => import("./commands/worker.ts"),
  },
  {
    name: "run_one",
    group: "workers",
    summary: "fetch work once, run it and exit",
    store: "write",
    load: () => import("./commands/run-one.ts"),
  },
  {
    name: "mode",
    group: "workers",
    summary: "show or set what workers should do: run, idle or terminate",
    store: "write",
    args: ["run", "idle", "terminate"],
    load: () => import("./commands/mode.ts"),
  },
  {
    name: "policy",
    group: "workers",
    summary: "show or set how the scheduler chooses work: weighted or python",
    store: "write",
    args: ["weighted", "python"],
    load: () => import("./commands/policy.ts"),
  },
  {
    name: "worker_stats",
    group: "workers",
    summary: "how many workers there are",
    store: "read",
    hidden: true,
    load: () => import("./commands/worker-stats.ts"),
  },

  // ---- administration
  {
    name: "config",
    group: "administration",
    summary: "show the configuration in effect, and where it comes from",
    store: "read",
    load: () => import("./commands/config.ts"),
  },
  {
    name: "export",
    group: "administration",
    summary: "write a namespace or work specs as lines of JSON",
    store: "read",
    load: () => import("./commands/export.ts"),
  },
  {
    name: "import",
    group: "administration",
    summary: "read a file written by export",
    store: "create",
    load: () => import("./commands/import.ts"),
  },
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
    group: "administration",
    summary: "create, list and revoke tokens for the daemon",
    store: "read",
    aliases: ["tokens"],
    args: ["create", "list", "revoke"],
    load: () => import("./commands/token.ts"),
  },
  {
    name: "doctor",
    group: "administration",
    summary: "check daemon, store and workers; say what is wrong and how to fix it",
    store: "read",
    load: () => import("./commands/doctor.ts"),
  },
  {
    name: "lock",
    group: "administration",
    summary: "show, take and break locks",
    store: "write",
    args: ["show", "take", "renew", "release", "clear"],
    load: () => import("./commands/lock.ts"),
  },
  {
    name: "backup",
    group: "administration",
    summary: "copy an SQLite store, also while it is in use",
    store: "read",
    load: () => import("./commands/backup.ts"),
  },
  {
    name: "prune",
    group: "administration",
    summary: "delete old finished or failed units",
    store: "write",
    args: "work_spec",
    load: () => import("./commands/prune.ts"),
  },
  {
    name: "bench",
    group: "administration",
    summary: "measure how fast units are added and finished",
    store: "create",
    args: ["add", "do", "clear"],
    load: () => import("./commands/bench.ts"),
  },
  {
    name: "rpc",
    group: "administration",
    summary: "call any verb with JSON arguments",
    store: "write",
    args: "verb",
    load: () => import("./commands/rpc.ts"),
  },
  {
    name: "completion",
    group: "administration",
    summary: "print a completion script for bash, zsh or fish",
    store: "read",
    args: ["bash", "zsh", "fish"],
    load: () => import("./commands/completion.ts"),
  },
  {
    name: "complete_words",
    group: "administration",
    summary: "completion candidates for a command line",
    store: "read",
    raw: true,
    hidden: true,
    load: () => import("./commands/complete-words.ts"),
  },
];

/** Finds a command by its name or an alias; dashes and underscores are equivalent. */
export function findCommand(word: string): CommandEntry | undefined {
  const name = word.replaceAll("-", "_");
  return commands.find((entry) => entry.name === name || entry.aliases?.includes(name) === true);
}
