/** A command of the command line: one file below `commands/` each, and a row of the table in `commands.ts`. */
import type { Command } from "commander";
import type { Context } from "./context.ts";

export type { Command } from "commander";

interface Call<Options> {
  /** The words that are not options, in order. */
  args: readonly string[];
  /** The command's own options, as commander names them: `--max-jobs` is `maxJobs`. */
  options: Options;
  /** For `command.error`, and for its help. */
  command: Command;
}

export interface CommandModule<Options = object> {
  /**
   * Declares arguments and options. The command already has its name and summary. The global options (`--address`, `--json` and
   * so on) are added afterwards, except those that the command declares itself.
   */
  define(command: Command): void;
  /**
   * Runs the command and returns the exit code: 0 done, 1 failed, 2 nothing to do. The caller prints a thrown error in one line.
   * Must not exit the process: the command may run inside the interactive shell.
   */
  run(context: Context, call: Call<Options>): Promise<number>;
}

/** Types the options of a command; returns the module with the type that the table of commands holds. */
export const command = <Options extends object = object>(module: CommandModule<Options>): CommandModule =>
  module;

/** For an option that may be repeated. */
export const repeated = (value: string, before: string[] | undefined): string[] => [...(before ?? []), value];

/** For an option that may be repeated, and that also takes several values separated by commas. */
export const repeatedWords = (value: string, before: string[] | undefined): string[] => [
  ...(before ?? []),
  ...value.split(","),
];
