/** `coordinate config`: the configuration that commands, daemon and workers would use, and where it comes from. */
import { writeFileSync } from "node:fs";
import {
  configurationSchema,
  dumpConfiguration,
  dumpWords,
  reasonOf,
  shownConfiguration,
  type Configuration,
  type DumpWord,
} from "../../config/index.ts";
import { command } from "../command.ts";
import type { Context } from "../context.ts";
import { show } from "../escape.ts";
import { CommandError, exit, UsageError } from "../failure.ts";

interface Options {
  output?: string;
  sources?: boolean;
  check?: boolean;
  schema?: boolean;
  daemon?: boolean;
}

/** Prints the configuration and returns the exit code. */
export async function printConfiguration(
  context: Context,
  word: string | undefined,
  what: string,
): Promise<number> {
  const dump = readDumpWord(word, what);
  context.out.stream.write(dumpConfiguration(await context.configuration(), dump));
  return exit.done;
}

function readDumpWord(word: string | undefined, what: string): DumpWord {
  const found = dumpWords.find((one) => one === (word ?? "effective"));
  if (found === undefined)
    throw new UsageError(`${what}: expected one of ${dumpWords.join(", ")}, got ${word ?? ""}`);
  return found;
}

export default command<Options>({
  define: (it) => {
    it.argument(
      "[what]",
      "full, effective (only what differs from the defaults) or default (default: effective)",
    )
      .option("-o, --output <file>", "write to a file")
      .option("--sources", "print where each setting comes from, except defaults")
      .option("--check", "only check the configuration")
      .option("--daemon", "print the settings of the running daemon as JSON; needs a token with scope admin")
      .option("--schema", "print the JSON Schema of configuration files, for an editor");
  },
  run: async (context, { args, options }) => {
    const { out } = context;
    if (options.schema === true) {
      out.printJson(configurationSchema());
      return exit.done;
    }
    if (options.daemon === true) return printDaemon(context);
    const word = readDumpWord(args[0], "config");
    const configuration = await context.configuration();
    for (const warning of configuration.warnings) out.remark(show(warning));
    if (options.check === true) {
      if (out.json) out.printJson({ file: configuration.file, valid: true });
      else out.line(`${show(configuration.file ?? "no file")}: valid`);
      return exit.done;
    }
    const text = (out.json ? jsonOf : textOf)(configuration, word, options.sources === true);
    if (options.output === undefined) out.stream.write(text);
    else {
      try {
        writeFileSync(options.output, text, { mode: 0o600 });
      } catch (error) {
        throw new CommandError(`${options.output}: ${reasonOf(error)}`);
      }
    }
    return exit.done;
  },
});

async function printDaemon(context: Context): Promise<number> {
  const { rest, where } = await context.opened();
  if (rest === null) throw new CommandError(`${where}: a daemon shows its settings only over HTTP`);
  context.out.printJson(await rest.daemonConfig());
  return exit.done;
}

function textOf(configuration: Configuration, word: DumpWord, withSources: boolean): string {
  return withSources ? sources(configuration) : dumpConfiguration(configuration, word);
}

function jsonOf(configuration: Configuration, word: DumpWord, withSources: boolean): string {
  const shown = withSources
    ? Object.fromEntries(configuration.sources)
    : shownConfiguration(configuration, word);
  return `${JSON.stringify(shown, null, 2)}\n`;
}

function sources({ file, sources: given }: Configuration): string {
  const lines = [...given].map(([name, from]) => `${name}: ${from}\n`).sort();
  return `${file === null ? "# no file\n" : `# file: ${file}\n`}${lines.join("")}`;
}
