/** Parses a command line, loads and runs the command that it names, and returns the exit code. */
import { fileURLToPath } from "node:url";
import { Command, CommanderError, Help, Option } from "commander";
import { didYouMean } from "../config/did-you-mean.ts";
import { version } from "../daemon/version.ts";
import { commands, findCommand, groups, type CommandEntry } from "./commands.ts";
import { Context, type GlobalOptions, type Session } from "./context.ts";
import { exit, UsageError } from "./failure.ts";
import { printError } from "./print-error.ts";

const examples = `
Examples:
  coordinate serve                              run a daemon on this machine
  coordinate summary --watch                    counts, every two seconds
  coordinate work_units crawl -s failed         which units of crawl failed
  coordinate work_unit crawl UNIT               attempts and errors of a unit
  coordinate retry crawl --all                  run all failed units again
  coordinate explain                            why is nothing running?
  coordinate --backend sqlite:FILE summary      a store, without a daemon

Without a command, starts an interactive shell on a terminal. The daemon is at
--address, else COORDINATE_ADDRESS, else the address in the configuration, else
http://127.0.0.1:5980.
Exit codes: 0 success, 1 failure, 2 nothing to do or invalid usage.
Documentation: ${fileURLToPath(new URL("../../docs/README.md", import.meta.url))}`;

/** The options of every command. A fresh list each time: commander keeps state in them. */
export function globalOptions(): Option[] {
  return [
    new Option(
      "--address <url>",
      "the daemon: http://HOST:PORT, https://…, unix:/PATH or cborrpc://HOST:PORT",
    ),
    new Option("--backend <store>", "a store instead of a daemon: memory:, sqlite:PATH or postgres://…"),
    new Option("--namespace <name>", "the namespace; the default namespace has an empty name"),
    new Option("--token <token>", "access token, or @FILE to read it from a file; COORDINATE_TOKEN is safer"),
    new Option("-c, --config <file>", "YAML configuration file"),
    new Option("--json", "print JSON"),
    new Option("--compat", "behave like the Python tool: a missing object is not an error"),
    new Option("--no-color", "no colours; NO_COLOR does the same"),
    new Option("-v, --verbose", "print more details of failures"),
    new Option("-q, --quiet", "print only results and errors"),
    new Option("--debug <logger>", "an option of the Python tool; the same as -v").hideHelp(),
  ];
}

/** Runs one command line; never throws and never ends the process. */
export async function runLine(session: Session, argv: readonly string[]): Promise<number> {
  let code: number = exit.done;
  const program = makeProgram(session, (answered) => (code = answered));
  try {
    const words = askingForHelp(argv);
    refuseUnknownCommand(program, words);
    await program.parseAsync(words, { from: "user" });
    return code;
  } catch (error) {
    // commander has already printed the message
    if (error instanceof CommanderError) return error.exitCode === 0 ? exit.done : exit.usage;
    return printError(session, { ...session.defaults, ...program.opts<GlobalOptions>() }, error);
  }
}

/** Turns `help COMMAND` into `COMMAND --help`, which loads the command: its help is not known before. */
function askingForHelp(argv: readonly string[]): string[] {
  const [first, word] = argv;
  if (first !== "help" || word === undefined) return [...argv];
  if (word === "--help" || word === "-h") return ["--help"];
  // a word that is no command is refused: with --help, it would print the help of the program
  return findCommand(word) === undefined ? [word] : [word, "--help"];
}

/** Before the words after it are parsed: commander would take them for those of the program, and refuse them instead. */
function refuseUnknownCommand(program: Command, words: readonly string[]): void {
  const [word] = program.parseOptions([...words]).operands;
  if (word !== undefined && word !== "help" && findCommand(word) === undefined)
    throw new UsageError(`no such command ${word}${didYouMean(word, commandWords())}`);
}

function makeProgram(session: Session, onCode: (code: number) => void): Command {
  const { stdout, stderr } = session.streams;
  const program = new Command("coordinate")
    .description("Job coordination: stores work units, hands them to workers, remembers every attempt.")
    .usage("[options] COMMAND [options] [arguments]")
    .version(version, "--version", "print the version")
    .helpOption("-h, --help", "print this help; coordinate COMMAND --help prints the help of a command")
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
    .action(async () => {
      if (!(await dumpConfig(session, program, onCode))) onCode(await runWithoutCommand(session, program));
    });
  for (const option of globalOptions()) program.addOption(option);
  program.option("--dump-config [what]", "print the configuration and exit: full, effective or default");
  for (const group of Object.keys(groups)) {
    for (const entry of commands) {
      if (entry.group === group) addStub(program, entry);
    }
  }
  // load the command after its name is parsed and before its arguments are
  program.hook("preSubcommand", async (_program, command) => {
    // --dump-config applies whatever the command, as in the Python tool
    if (await dumpConfig(session, program, onCode)) throw new CommanderError(0, "coordinate.dumpConfig", "");
    const entry = commands.find(({ name }) => name === command.name());
    if (entry !== undefined) await fill(session, program, command, entry, onCode);
  });
  return program;
}

/** Handles `--dump-config`; false when the option was not given. */
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
    .summary("print this help, or the help of a command")
    .helpGroup(groups.administration);

/** The help page of all commands lists the commands before the options. */
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
    // the usage line of a command has its arguments and no aliases; the page of all commands has neither
    command.configureHelp({ commandUsage: usageOf });
    command.helpOption("-h, --help", "print this help");
    const name = `coordinate ${entry.name}`;
    command.showHelpAfterError(`See ${name} --help.`).configureOutput({
      outputError: (text, write) => write(text.replace(/^error: /, `${name}: `)),
    });
  }
  module.define(command);
  // an option that the command declares wins over the global one: its `--config` may mean another file
  const shared = new Set<string>();
  if (entry.raw !== true) {
    const taken = new Set(command.options.flatMap(({ short, long }) => [short, long]));
    for (const option of globalOptions()) {
      if (taken.has(option.long)) continue;
      // a command with its own -c still has the global --config, and its help shows it without -c
      if (taken.has(option.short)) {
        delete option.short;
        option.flags = option.flags.replace(/^-\w, /, "");
      }
      command.addOption(option.helpGroup("Global options:"));
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

/** The given options, without defaults: a value before the command applies unless it is repeated after it. */
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

/** Without a command: a terminal gets the shell, piped lines are run as commands, and otherwise the help is printed as an error. */
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
