/** A command of the command line: one file below `commands/` each, and a row of the table in `commands.ts`. */
import type { Command } from "commander";
import type { Context } from "./context.ts";

export type { Command } from "commander";

export interface Call<Options> {
  /** The words that are not options, in order. */
  args: readonly string[];
  /** The command's own options, as commander names them: `--max-jobs` is `maxJobs`. */
  options: Options;
  /** For `command.error`, and for its help. */
  command: Command;
}

export interface CommandModule<Options = object> {
  /**
   * Declares arguments and options. The command has its name and summary already, and gets the global options
   * (`--address`, `--json` and so on) afterwards, but for those that it declares itself.
   */
  define(command: Command): void;
  /**
   * Does it, and answers the exit code: 0 done, 1 failed, 2 nothing to do. What it throws is printed in one line:
   * it never ends the process, because it may run inside the interactive shell.
   */
  run(context: Context, call: Call<Options>): Promise<number>;
}

/** Gives the options of a command their type; what it answers is a command as the table wants it. */
export const command = <Options extends object = object>(module: CommandModule<Options>): CommandModule =>
  module;

/** For an option that may be repeated. */
export const repeated = (value: string, before: string[] | undefined): string[] => [...(before ?? []), value];

/** For one whose values may also stand in one word, with commas between them. */
export const repeatedWords = (value: string, before: string[] | undefined): string[] => [
  ...(before ?? []),
  ...value.split(","),
];
