/** Reads a command line, loads the command that it names, runs it, and answers the exit code. */
import { fileURLToPath } from "node:url";
import { Command, CommanderError, Help, Option } from "commander";
import { didYouMean } from "../config/did-you-mean.ts";
import { version } from "../daemon/version.ts";
import { commands, groups, type CommandEntry } from "./commands.ts";
import { Context, type GlobalOptions, type Session } from "./context.ts";
import { exit, UsageError } from "./failure.ts";
import { printError } from "./print-error.ts";

const examples = `
Examples:
  coordinate serve                              run a daemon on this machine
  coordinate summary --watch                    counts, every two seconds
  coordinate work_units crawl -s failed         which units of crawl failed
  coordinate work_unit crawl UNIT               what happened to one of them
  coordinate retry crawl --all                  have all that failed done again
  coordinate explain                            why is nothing running?
  coordinate --backend sqlite:FILE summary      a store, without a daemon

Without a command on a terminal: an interactive shell. The daemon is at
--address, else COORDINATE_ADDRESS, else what the configuration says, else
http://127.0.0.1:5980.
Exit codes: 0 done, 1 failed, 2 nothing to do or wrong use.
Documentation: ${fileURLToPath(new URL("../../docs/README.md", import.meta.url))}`;

/** The options of every command. A fresh list each time: commander keeps state in them. */
export function globalOptions(): Option[] {
  return [
    new Option(
      "--address <url>",
      "the daemon: http://HOST:PORT, https://…, unix:/PATH or cborrpc://HOST:PORT",
    ),
    new Option("--backend <store>", "a store instead of a daemon: memory:, sqlite:PATH or postgres://…"),
    new Option("--namespace <name>", "the namespace; the default one has the empty name"),
    new Option("--token <token>", "access token, or @FILE that has it; better: COORDINATE_TOKEN"),
    new Option("-c, --config <file>", "configuration file, YAML"),
    new Option("--json", "print JSON"),
    new Option("--compat", "answer as the Python tool did: what is not there is no error"),
    new Option("--no-color", "no colours; NO_COLOR does the same"),
    new Option("-v, --verbose", "tell more when something fails"),
    new Option("-q, --quiet", "results and failures alone, no remarks"),
    new Option("--debug <logger>", "as the Python tool has it; the same as -v").hideHelp(),
  ];
}

/** Runs one command line; never throws and never ends the process. */
export async function runLine(session: Session, argv: readonly string[]): Promise<number> {
  let code: number = exit.done;
  const program = makeProgram(session, (answered) => (code = answered));
  try {
    await program.parseAsync(askingForHelp(argv), { from: "user" });
    return code;
  } catch (error) {
    // commander has printed what there is to say
    if (error instanceof CommanderError) return error.exitCode === 0 ? exit.done : exit.usage;
    return printError(session, { ...session.defaults, ...program.opts<GlobalOptions>() }, error);
  }
}

/** `help COMMAND` is `COMMAND --help`: that loads the command, whose help is not known before. */
function askingForHelp(argv: readonly string[]): string[] {
  const [first, word] = argv;
  return first === "help" && word !== undefined && !word.startsWith("-") ? [word, "--help"] : [...argv];
}

function makeProgram(session: Session, onCode: (code: number) => void): Command {
  const { stdout, stderr } = session.streams;
  const program = new Command("coordinate")
    .description("Job coordination: stores work units, hands them to workers, remembers every attempt.")
    .usage("[options] COMMAND [options] [arguments]")
    .version(version, "--version", "print the version")
    .helpOption("-h, --help", "print this; coordinate COMMAND --help tells of one command")
    .enablePositionalOptions()
    .exitOverride()
    .configureOutput({
      writeOut: (text) => stdout.write(text),
      writeErr: (text) => stderr.write(text),
      outputError: (text, write) => write(text.replace(/^error: /, "coordinate: ")),
      getOutHelpWidth: () => Math.min(stdout.isTTY ? stdout.columns || 80 : 100, 120),
      getErrHelpWidth: () => Math.min(stderr.isTTY ? stderr.columns || 80 : 100, 120),
      getOutHasColors: () => false,
      getErrHasColors: () => false,
    })
    .configureHelp({ subcommandTerm: (command) => command.name(), formatHelp: commandsFirst })
    .addHelpText("after", examples)
    .addHelpCommand(helpCommand())
    .argument("[command]")
    .action(async (word: string | undefined) => {
      if (word !== undefined)
        throw new UsageError(`no such command ${word}${didYouMean(word, commandWords())}`);
      if (!(await dumpConfig(session, program, onCode))) onCode(await runWithoutCommand(session, program));
    });
  for (const option of globalOptions()) program.addOption(option);
  program.option("--dump-config [what]", "print the configuration and stop: full, effective or default");
  for (const group of Object.keys(groups)) {
    for (const entry of commands) {
      if (entry.group === group) addStub(program, entry);
    }
  }
  // a command is loaded when its name was read, and before what follows the name is
  program.hook("preSubcommand", async (_program, command) => {
    // whatever command follows, as the Python tool has it
    if (await dumpConfig(session, program, onCode)) throw new CommanderError(0, "coordinate.dumpConfig", "");
    const entry = commands.find(({ name }) => name === command.name());
    if (entry !== undefined) await fill(session, program, command, entry, onCode);
  });
  return program;
}

/** False when it was not asked for. */
async function dumpConfig(
  session: Session,
  program: Command,
  onCode: (code: number) => void,
): Promise<boolean> {
  const { dumpConfig: what } = program.opts<{ dumpConfig?: string | true }>();
  if (what === undefined) return false;
  const { printConfiguration } = await import("./commands/config.ts");
  const context = new Context(session, onlyGiven(program), "read");
  onCode(await printConfiguration(context, what === true ? undefined : what, "--dump-config"));
  return true;
}

const commandWords = (): string[] => [
  ...commands.filter(({ hidden }) => hidden !== true).map(({ name }) => name),
  "help",
];

const helpCommand = (): Command =>
  new Command("help")
    .argument("[command]")
    .summary("print this, or what there is to know of a command")
    .helpGroup(groups.administration);

/** The page of all commands: what there is to do comes before how it can be bent. */
function commandsFirst(command: Command, helper: Help): string {
  const page = Help.prototype.formatHelp.call(helper, command, helper);
  if (command.parent !== null) return page;
  const [usage = "", description = "", options = "", ...rest] = page.trimEnd().split("\n\n");
  return `${[usage, description, ...rest, options].join("\n\n")}\n`;
}

function addStub(program: Command, { name, aliases = [], summary, group, hidden }: CommandEntry): void {
  const command = program
    .command(name, { hidden: hidden ?? false })
    .summary(summary)
    .description(`${summary[0]?.toUpperCase() ?? ""}${summary.slice(1)}.`)
    .helpGroup(groups[group]);
  for (const other of [
    name.replaceAll("_", "-"),
    ...aliases.flatMap((one) => [one, one.replaceAll("_", "-")]),
  ])
    if (other !== name && !command.aliases().includes(other)) command.alias(other);
}

async function fill(
  session: Session,
  program: Command,
  command: Command,
  entry: CommandEntry,
  onCode: (code: number) => void,
): Promise<void> {
  const { default: module } = await entry.load();
  if (entry.raw === true) command.allowUnknownOption().allowExcessArguments().helpOption(false);
  else {
    // an argument does not show on the help page of all commands, nor do other names on that of one
    command.configureHelp({ commandUsage: usageOf });
    command.helpOption("-h, --help", "print this");
  }
  module.define(command);
  // what a command declares itself is its own affair: `--config` of one may be another file than that of all
  const shared = new Set<string>();
  if (entry.raw !== true) {
    const taken = new Set(command.options.flatMap(({ short, long }) => [short, long]));
    for (const option of globalOptions()) {
      if (taken.has(option.long)) continue;
      // -c of a command of its own leaves --config to everybody, and the help says so
      if (taken.has(option.short)) {
        delete option.short;
        option.flags = option.flags.replace(/^-\w, /, "");
      }
      command.addOption(option.helpGroup("Options of every command:"));
      shared.add(option.attributeName());
    }
  }
  command.action(async () => {
    const own = command.opts<GlobalOptions>();
    const given = { ...onlyGiven(program), ...onlyGiven(command, shared) };
    const context = new Context(session, given, entry.store);
    try {
      onCode(await module.run(context, { args: command.args, options: own, command }));
    } catch (error) {
      const { explainConnection } = await import("./explain-connection.ts");
      const told = await explainConnection(error, session.target);
      onCode(printError(session, context.options, told, entry.name));
    } finally {
      context.end();
    }
  });
}

/** What was said, without defaults: a value before the command holds unless it is said again after it. */
function onlyGiven(command: Command, known = globalNames()): GlobalOptions {
  return Object.fromEntries(
    Object.entries(command.opts()).filter(
      ([key]) => known.has(key) && command.getOptionValueSource(key) !== "default",
    ),
  );
}

const globalNames = (): ReadonlySet<string> =>
  new Set(globalOptions().map((option) => option.attributeName()));

function usageOf(command: Command): string {
  return `coordinate ${command.name()} ${command.usage()}`;
}

/** A person at a terminal gets a shell; lines that are piped in are run; a script that forgot the command is told. */
async function runWithoutCommand(session: Session, program: Command): Promise<number> {
  const { stdin, stdout } = session.streams;
  if (session.inShell) return exit.done;
  session.defaults = onlyGiven(program);
  const { runLines, runShell } = await import("./shell.ts");
  if (stdin.isTTY && stdout.isTTY) return runShell(session);
  const code = stdin.isTTY ? null : await runLines(session);
  if (code !== null) return code;
  program.outputHelp({ error: true });
  return exit.usage;
}
