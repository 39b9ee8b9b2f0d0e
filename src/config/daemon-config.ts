/** The command line of the daemon: each of its settings is an option. */
import { ConfigError, type Mistake } from "./config-error.ts";
import { dumpConfiguration, dumpWords, readConfiguration, type DumpWord } from "./configuration.ts";
import { didYouMean } from "./did-you-mean.ts";
import type { Environment } from "./find-file.ts";
import {
  daemonSettings,
  flagOf,
  readValue,
  variableOf,
  wantedBy,
  type DaemonConfig,
  type Setting,
} from "./settings.ts";

export type CommandLine =
  { kind: "run"; config: DaemonConfig; warnings: readonly string[] } | { kind: "print"; text: string };

const table: Readonly<Record<string, Setting>> = daemonSettings;
const keys = Object.keys(daemonSettings);
/** Options that are no settings. */
const configFlag = "--config";
const dumpFlag = "--dump-config";

/** Reads flags, environment, file and defaults. Throws a `ConfigError` that lists all mistakes. */
export function readConfig(argv: readonly string[], env: Environment): CommandLine {
  const { daemon, file, dump, help: asked, wrong, warnings } = readFlags(argv);
  if (asked) return { kind: "print", text: help() };
  let problems = wrong;
  try {
    const configuration = readConfiguration({ env, file, flags: { daemon }, strictEnvironment: true });
    if (wrong.length === 0) {
      return dump === null
        ? { kind: "run", config: configuration.daemon, warnings: [...warnings, ...configuration.warnings] }
        : { kind: "print", text: dumpConfiguration(configuration, dump).trimEnd() };
    }
  } catch (error) {
    if (!(error instanceof ConfigError)) throw error;
    problems = [...wrong, ...error.mistakes];
  }
  throw new ConfigError(problems);
}

/** The defaults with the overrides of a caller, for daemons that are started by programs. */
export function configOf(given: Partial<DaemonConfig>): DaemonConfig {
  const wrong: string[] = [];
  const config: Record<string, unknown> = {};
  for (const [key, setting] of Object.entries(table)) {
    const value: unknown = given[key as keyof DaemonConfig];
    const read = value === undefined ? setting.default : readValue(setting, value);
    if (read === null) wrong.push(`${key}: expected ${wantedBy(setting)}, got ${JSON.stringify(value)}`);
    config[key] = read;
  }
  if (wrong.length > 0) throw new ConfigError(wrong);
  return config as unknown as DaemonConfig;
}

interface Flags {
  daemon: Record<string, unknown>;
  file: string | undefined;
  dump: DumpWord | null;
  help: boolean;
  wrong: Mistake[];
  warnings: string[];
  /** The values of `--host` and `--port`, which the Python daemon used for CBOR-RPC. */
  host: string | undefined;
  port: string | undefined;
}

interface OtherFlag {
  /** False for an option without a value. */
  value: boolean;
  apply: (flags: Flags, value: string) => void;
}

const quieter: Readonly<Record<string, string>> = {
  debug: "info",
  info: "warn",
  warn: "error",
  error: "silent",
};

const verbose: OtherFlag = { value: false, apply: (flags) => (flags.daemon.logLevel = "debug") };
const quiet: OtherFlag = {
  value: false,
  apply: ({ daemon }) =>
    (daemon.logLevel = quieter[(daemon.logLevel as string | undefined) ?? "info"] ?? "silent"),
};
const port: OtherFlag = { value: true, apply: (flags, value) => (flags.port = value) };

/** Options of the Python daemon that are no settings here; each is translated to a setting or a warning. */
const pythonFlags: Readonly<Record<string, OtherFlag>> = {
  "--host": { value: true, apply: (flags, value) => (flags.host = value) },
  "--port": port,
  "-p": port,
  "--httpd": { value: true, apply: ({ daemon }, value) => (daemon.http = [value]) },
  "--snapshot-dir": {
    value: true,
    apply: ({ warnings }) =>
      warnings.push("--snapshot-dir: has no effect here; --backend sqlite:PATH keeps work across restarts"),
  },
  "-v": verbose,
  "--verbose": verbose,
  "-q": quiet,
  "--quiet": quiet,
  // the name of a logger is ignored: loggers have no names here
  "--debug": { value: true, apply: verbose.apply },
};

function readFlags(argv: readonly string[]): Flags {
  const flags: Flags = {
    daemon: {},
    file: undefined,
    dump: null,
    help: false,
    wrong: [],
    warnings: [],
    host: undefined,
    port: undefined,
  };
  const byFlag = new Map(
    keys.flatMap((key) => [key, ...(table[key]?.aliases ?? [])].map((name) => [flagOf(name), key] as const)),
  );
  const words = [...argv];
  for (let word = words.shift(); word !== undefined; word = words.shift()) {
    const [flag = "", ...rest] = word.split("=");
    const inline = rest.length > 0 ? rest.join("=") : undefined;
    if (flag === "--help" || flag === "-h") {
      flags.help = true;
      continue;
    }
    if (flag === dumpFlag) {
      flags.dump = readDumpWord(
        inline ?? (words[0]?.startsWith("-") === false ? words.shift() : "full"),
        flags,
      );
      continue;
    }
    const other = pythonFlags[flag];
    if (other !== undefined) {
      const value = other.value ? (inline ?? words.shift()) : "";
      if (value === undefined) flags.wrong.push(`${flag}: expected a value`);
      else other.apply(flags, value);
      continue;
    }
    const no = flag.startsWith("--no-") ? byFlag.get("--" + flag.slice(5)) : undefined;
    const key = byFlag.get(flag) ?? no;
    const setting = key === undefined ? undefined : table[key];
    const isConfig = flag === configFlag || flag === "-c";
    if (!isConfig && (key === undefined || setting === undefined)) {
      const hint = didYouMean(flag, [...byFlag.keys(), configFlag, dumpFlag, "--help"]);
      flags.wrong.push({ unknown: `${flag}: no such option${hint}` });
      continue;
    }
    if (key !== undefined && setting?.type === "flag") {
      flags.daemon[key] = no === undefined ? (inline ?? "true") : "false";
      continue;
    }
    const value = inline ?? words.shift();
    if (value === undefined) flags.wrong.push(`${flag}: expected a value`);
    else if (key === undefined) flags.file = value;
    else if (setting?.type === "list")
      flags.daemon[key] = [...((flags.daemon[key] as string[] | undefined) ?? []), value];
    else flags.daemon[key] = value;
  }
  if (flags.host === undefined && flags.port === undefined) return flags;
  if (flags.daemon.cborrpc !== undefined)
    flags.wrong.push("--host and --port set the address of CBOR-RPC, like --cborrpc: use only one of them");
  flags.daemon.cborrpc = `${flags.host ?? "127.0.0.1"}:${flags.port ?? "5932"}`;
  return flags;
}

function readDumpWord(word: string | undefined, flags: Flags): DumpWord {
  const found = dumpWords.find((one) => one === word);
  if (found === undefined)
    flags.wrong.push(`${dumpFlag}: expected one of ${dumpWords.join(", ")}, got ${JSON.stringify(word)}`);
  return found ?? "full";
}

/** A page of 80 columns. */
export function help(): string {
  const options = Object.entries(table).map(([key, setting]): [string, string] => {
    const words = { text: " TEXT", list: " TEXT", count: " N", number: " N", flag: "" };
    const values = setting.oneOf === undefined ? "" : ` (${setting.oneOf.join(", ")})`;
    const otherwise = String(setting.default);
    const shown = otherwise === "" || otherwise === "false" ? "" : ` [${otherwise}]`;
    return [flagOf(key) + words[setting.type], `${setting.help}${values}${shown}`];
  });
  options.push(
    ["--config FILE", "configuration file, YAML or JSON"],
    [
      "--dump-config [WHAT]",
      "print the settings and exit: full, effective (only what differs from the defaults) or default",
    ],
    ["--help", "print this help and exit"],
    ["-v, -q", "log more, or less"],
    ["--host HOST, --port N", "options of the Python daemon: the same as --cborrpc HOST:PORT"],
    ["--httpd HOST:PORT, --debug NAME", "options of the Python daemon: the same as --http and -v"],
  );
  return `coordinated: serves work units to workers.

Usage: coordinated [options], or: coordinate serve [options]

Every option can also be set in the environment (--log-level is
${variableOf("logLevel")}) or below daemon: in a file (logLevel: info): the file of
--config or COORDINATE_CONFIG, else ./coordinate.yaml, else
coordinate/coordinate.yaml in the user's configuration directory. The command
line overrides the environment, which overrides the file. Repeat an option to
give a list; in the environment, separate values by commas. --no-NAME turns a
flag off, as in --no-page.

Options
${options.map(([flag, text]) => `  ${flag.padEnd(33)}${wrapped(text, 44, 35)}`).join("\n")}

Without tokens, the daemon serves only this machine. SIGTERM and SIGINT stop it
after all requests are answered; a second signal stops it at once.`;
}

/** Broken between words into lines of at most `max` columns, all but the first indented. */
const wrapped = (text: string, max: number, indent: number): string =>
  `${text} `.replace(new RegExp(`(.{1,${max}}) `, "g"), `$1\n${" ".repeat(indent)}`).trimEnd();
