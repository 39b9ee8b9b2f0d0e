/** The table of commands: what `--help` shows, and the module of each command. Only the requested command is loaded. */
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
    summary: "set the work specs of a flow file",
    store: "create",
    load: () => import("./commands/flow.ts"),
  },
  {
    name: "load",
    group: "work",
    summary: "set one work spec from a file, and add units from another",
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
    summary: "run units again: failed ones, or by name",
    store: "write",
    args: "work_spec",
    load: () => import("./commands/retry.ts"),
  },
  {
    name: "replay",
    group: "work",
    summary: "run ended units again beside their work spec, compare, accept",
    store: "write",
    args: "work_spec",
    load: () => import("./commands/replay.ts"),
  },
  {
    name: "cancel",
    group: "work",
    summary: "cancel units that wait or run; their tasks are told to stop",
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
    summary: "change weight, priority, max_running and so on of a work spec",
    store: "write",
    args: "work_spec",
    load: () => import("./commands/set.ts"),
  },
  {
    name: "delete",
    group: "work",
    summary: "delete the namespace, or work specs",
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
    summary: "counts of every work spec",
    store: "read",
    load: () => import("./commands/summary.ts"),
  },
  {
    name: "status",
    group: "looking",
    summary: "counts of one work spec",
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
    summary: "limits that work specs share, and what runs under them; set or delete one",
    store: "write",
    load: () => import("./commands/limits.ts"),
  },
  {
    name: "partitions",
    group: "looking",
    summary: "what waits and runs in each partition of a work spec, and what holds it back",
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
    summary: "why is nothing running? The scheduler's answer in words",
    store: "read",
    args: "work_spec",
    load: () => import("./commands/explain.ts"),
  },
  {
    name: "work_specs",
    group: "looking",
    summary: "names of the work specs",
    store: "read",
    load: () => import("./commands/work-specs.ts"),
  },
  {
    name: "work_spec",
    group: "looking",
    summary: "the data of a work spec",
    store: "read",
    args: "work_spec",
    load: () => import("./commands/work-spec.ts"),
  },
  {
    name: "work_units",
    group: "looking",
    summary: "names of units of a work spec",
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
    summary: "what the task of a unit wrote, also while it runs",
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
    summary: "what happened over time: rates, failures, durations and waits",
    store: "read",
    args: "work_spec",
    load: () => import("./commands/history.ts"),
  },
  {
    name: "top",
    group: "looking",
    summary: "a live view that fills the screen",
    store: "read",
    load: () => import("./commands/top.ts"),
  },
  {
    name: "tail",
    group: "looking",
    summary: "events as they happen",
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
    summary: "fetch work once, run it, and end",
    store: "write",
    load: () => import("./commands/run-one.ts"),
  },
  {
    name: "mode",
    group: "workers",
    summary: "what workers should do: run, idle or terminate",
    store: "write",
    args: ["run", "idle", "terminate"],
    load: () => import("./commands/mode.ts"),
  },
  {
    name: "policy",
    group: "workers",
    summary: "how the scheduler chooses: weighted or python; shares of choices or of time",
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
    summary: "the configuration in effect, and where it comes from",
    store: "read",
    load: () => import("./commands/config.ts"),
  },
  {
    name: "export",
    group: "administration",
    summary: "a namespace or work specs as lines of JSON",
    store: "read",
    load: () => import("./commands/export.ts"),
  },
  {
    name: "import",
    group: "administration",
    summary: "read what export wrote",
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
    summary: "make, list and revoke tokens for the daemon",
    store: "read",
    aliases: ["tokens"],
    args: ["create", "list", "revoke"],
    load: () => import("./commands/token.ts"),
  },
  {
    name: "doctor",
    group: "administration",
    summary: "is all well? What is wrong, and what to do about it",
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
    summary: "copy an SQLite store, also one that is in use",
    store: "read",
    load: () => import("./commands/backup.ts"),
  },
  {
    name: "prune",
    group: "administration",
    summary: "remove old units that ended",
    store: "write",
    args: "work_spec",
    load: () => import("./commands/prune.ts"),
  },
  {
    name: "bench",
    group: "administration",
    summary: "measure how fast units are added and done",
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
    summary: "completion for bash, zsh and fish",
    store: "read",
    args: ["bash", "zsh", "fish"],
    load: () => import("./commands/completion.ts"),
  },
  {
    name: "complete_words",
    group: "administration",
    summary: "what may follow, for completion",
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
