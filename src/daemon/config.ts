/**
 * The daemon's configuration: one table of settings, each of which may stand on the command line, in the environment
 * or in a file, in this order of precedence. All that is wrong is told at once, and what is not known is compared
 * with what is.
 */
import { readFileSync } from "node:fs";
import { homedir } from "node:os";
import path from "node:path";
import { parse as parseYaml } from "yaml";
import { ConfigError } from "./config-error.ts";
import { didYouMean } from "./did-you-mean.ts";

export { ConfigError } from "./config-error.ts";

interface Setting {
  type: "text" | "list" | "count" | "flag";
  help: string;
  default: string | readonly string[] | number | boolean;
  /** The values that there are. */
  oneOf?: readonly string[];
  /** Shown as it is given, never printed: a secret. */
  secret?: boolean;
}

const dataHome = process.env.XDG_DATA_HOME ?? path.join(homedir(), ".local", "share");

export const settings = {
  backend: {
    type: "text",
    default: "",
    help: "where the work is kept: memory:, sqlite:PATH, postgres://…, or http://… for a daemon in front of a daemon; a sqlite file in the data directory if not given",
  },
  dataDir: {
    type: "text",
    default: path.join(dataHome, "coordinate"),
    help: "for the store, the tokens and the audit log; made with mode 0700",
  },
  http: {
    type: "list",
    default: ["127.0.0.1:5980"],
    help: "addresses to serve REST on, HOST:PORT; empty for none",
  },
  socket: { type: "text", default: "", help: "a Unix socket to serve REST on, mode 0600" },
  cborrpc: {
    type: "text",
    default: "",
    help: "address to serve CBOR-RPC on for Python clients, HOST:PORT (usually 127.0.0.1:5932); it knows no tokens, so other machines need --insecure or --cborrpc-tls with --tls-client-ca",
  },
  cborrpcTls: {
    type: "flag",
    default: false,
    help: "CBOR-RPC over TLS, with the certificate of --tls-cert and, if given, client certificates",
  },
  legacyFencing: {
    type: "text",
    default: "strict",
    oneOf: ["strict", "lenient"],
    help: "whether a Python worker that lost its lease may still finish the unit; lenient is as the old daemons were",
  },
  tokens: {
    type: "text",
    default: "",
    help: "file of access tokens; tokens.json in the data directory if not given",
  },
  insecure: {
    type: "flag",
    default: false,
    help: "allow addresses that are not this machine's own without tokens and TLS",
  },
  tlsCert: { type: "text", default: "", help: "certificate chain, PEM file; with it REST is HTTPS" },
  tlsKey: { type: "text", default: "", help: "its key, PEM file" },
  tlsClientCa: {
    type: "text",
    default: "",
    help: "clients must have a certificate of this authority, PEM file",
  },
  allowHost: {
    type: "list",
    default: [],
    help: "names, besides localhost, under which browsers may reach this daemon",
  },
  maxBodyBytes: {
    type: "count",
    default: 64 * 1024 * 1024,
    help: "one request body at most; loads by NDJSON have no limit",
  },
  maxDataBytes: { type: "count", default: 16 * 1024 * 1024, help: "one unit's data at most" },
  maxBatch: { type: "count", default: 100_000, help: "items of one request at most" },
  maxConnections: { type: "count", default: 4096, help: "connections at most, per address served" },
  maxConnectionsPerAddress: {
    type: "count",
    default: 0,
    help: "connections of one caller's address at most; 0 is no limit",
  },
  requestsPerSecond: {
    type: "count",
    default: 0,
    help: "of one token or address, with bursts of twice that; 0 is no limit",
  },
  coalesce: {
    type: "text",
    default: "auto",
    oneOf: ["auto", "on", "off"],
    help: "make one batch of requests that arrive together; auto is on for stores that write to disk",
  },
  audit: {
    type: "text",
    default: "changes",
    oneOf: ["off", "changes", "all"],
    help: "what audit.log in the data directory tells, once there are tokens: changes of specs, units and namespaces with all refusals; or claims and settles too",
  },
  metrics: { type: "flag", default: true, help: "serve /metrics for Prometheus" },
  traces: {
    type: "flag",
    default: false,
    help: "make spans for OpenTelemetry; load its SDK with node --import",
  },
  page: { type: "flag", default: true, help: "serve the page for browsers at /" },
  clock: {
    type: "text",
    default: "system",
    oneOf: ["system", "manual"],
    help: "manual: time stands still until POST /clock moves it; for tests of workers",
  },
  tidyMs: { type: "count", default: 1000, help: "how often expired leases and the like are tidied up" },
  graceMs: { type: "count", default: 10_000, help: "how long a stop waits for requests to be answered" },
  logLevel: {
    type: "text",
    default: "info",
    oneOf: ["debug", "info", "warn", "error", "silent"],
    help: "what to log",
  },
  logFormat: { type: "text", default: "json", oneOf: ["json", "text"], help: "for machines or for people" },
  logRequests: { type: "flag", default: false, help: "log every request" },
  config: { type: "text", default: "", help: "a file of settings, YAML or JSON" },
} as const satisfies Record<string, Setting>;

type Settings = typeof settings;
type ValueOf<S extends Setting> = S["type"] extends "text"
  ? string
  : S["type"] extends "list"
    ? readonly string[]
    : S["type"] extends "count"
      ? number
      : boolean;

export type Config = { readonly [Key in keyof Settings]: ValueOf<Settings[Key]> };

type Key = keyof Settings;
const keys = Object.keys(settings) as readonly Key[];

export type CommandLine = { kind: "run"; config: Config } | { kind: "print"; text: string };

export const flagOf = (key: string): string =>
  "--" + key.replace(/[A-Z]/g, (letter) => "-" + letter.toLowerCase());
const envOf = (key: string): string =>
  "COORDINATE_" + key.replace(/[A-Z]/g, (letter) => "_" + letter).toUpperCase();

type Given = Partial<Record<Key, unknown>>;

/** Reads flags, environment, file and defaults. Throws a `ConfigError` that lists all that is wrong. */
export function readConfig(
  argv: readonly string[],
  env: Readonly<Record<string, string | undefined>>,
): CommandLine {
  const wrong: string[] = [];
  const { given: flags, words } = readFlags(argv, wrong);
  if (words.has("help")) return { kind: "print", text: help() };
  const environment = readEnvironment(env, wrong);
  const file = flags.config ?? environment.config;
  const fromFile = typeof file === "string" && file !== "" ? readFile(file, wrong) : {};
  const config: Record<string, unknown> = {};
  for (const key of keys) {
    const found = [
      { from: flagOf(key), value: flags[key] },
      { from: envOf(key), value: environment[key] },
      { from: `${String(file)}: ${key}`, value: fromFile[key] },
    ].find(({ value }) => value !== undefined);
    config[key] = found === undefined ? settings[key].default : check(key, found.value, found.from, wrong);
  }
  if (wrong.length > 0) throw new ConfigError(wrong.join("\n"));
  const checked = config as unknown as Config;
  return words.has("dump-config") ? { kind: "print", text: dump(checked) } : { kind: "run", config: checked };
}

/** The defaults, with what a caller says otherwise: for daemons that are started by programs. */
export function configOf(given: Partial<Config>): Config {
  const wrong: string[] = [];
  const config: Record<string, unknown> = {};
  for (const key of keys) {
    config[key] = given[key] === undefined ? settings[key].default : check(key, given[key], key, wrong);
  }
  if (wrong.length > 0) throw new ConfigError(wrong.join("\n"));
  return config as unknown as Config;
}

function readFlags(argv: readonly string[], wrong: string[]): { given: Given; words: Set<string> } {
  const given: Given = {};
  const words = new Set<string>();
  const byFlag = new Map(keys.map((key) => [flagOf(key), key]));
  for (let i = 0; i < argv.length; i++) {
    const [flag = "", ...rest] = (argv[i] ?? "").split("=");
    const inline = rest.length > 0 ? rest.join("=") : undefined;
    if (flag === "--help" || flag === "-h" || flag === "--dump-config") {
      words.add(flag === "--dump-config" ? "dump-config" : "help");
      continue;
    }
    const no = flag.startsWith("--no-") ? byFlag.get("--" + flag.slice(5)) : undefined;
    const key = byFlag.get(flag) ?? no;
    if (key === undefined) {
      wrong.push(
        `${flag}: there is no such option${didYouMean(flag, [...byFlag.keys(), "--help", "--dump-config"])}`,
      );
      continue;
    }
    if (settings[key].type === "flag") {
      given[key] = no === undefined ? (inline ?? "true") : "false";
      continue;
    }
    const value = inline ?? argv[(i += 1)];
    if (value === undefined) wrong.push(`${flag}: a value must follow`);
    else if (settings[key].type === "list")
      given[key] = [...((given[key] as string[] | undefined) ?? []), value];
    else given[key] = value;
  }
  return { given, words };
}

/** The clients' own variables: they mean nothing to a daemon, and are no mistake. */
const clientVariables: readonly string[] = [
  "COORDINATE_ADDRESS",
  "COORDINATE_URL",
  "COORDINATE_TOKEN",
  "COORDINATE_NAMESPACE",
  "COORDINATE_HISTORY",
];

function readEnvironment(env: Readonly<Record<string, string | undefined>>, wrong: string[]): Given {
  const given: Given = {};
  const byEnv = new Map(keys.map((key) => [envOf(key), key]));
  for (const [name, value] of Object.entries(env)) {
    if (!name.startsWith("COORDINATE_") || value === undefined) continue;
    const key = byEnv.get(name);
    if (key === undefined && !clientVariables.includes(name)) {
      wrong.push(`${name}: there is no such setting${didYouMean(name, [...byEnv.keys()])}`);
    } else if (key !== undefined)
      given[key] = settings[key].type === "list" ? value.split(",").filter((one) => one !== "") : value;
  }
  return given;
}

function readFile(file: string, wrong: string[]): Given {
  let document: unknown;
  try {
    document = parseYaml(readFileSync(file, "utf8"), { maxAliasCount: 100 });
  } catch (error) {
    wrong.push(`${file}: ${error instanceof Error ? error.message : String(error)}`);
    return {};
  }
  if (document === null || document === undefined) return {};
  if (typeof document !== "object" || Array.isArray(document)) {
    wrong.push(`${file}: expected settings and their values`);
    return {};
  }
  const given: Given = {};
  for (const [name, value] of Object.entries(document)) {
    const key = keys.find((one) => one === name || flagOf(one) === "--" + name);
    if (key === undefined) wrong.push(`${file}: ${name}: there is no such setting${didYouMean(name, keys)}`);
    else given[key] = typeof value === "string" && settings[key].type === "list" ? [value] : value;
  }
  return given;
}

function check(key: Key, value: unknown, from: string, wrong: string[]): unknown {
  const setting: Setting = settings[key];
  const checked = valueOf(setting, value);
  if (checked === null) wrong.push(`${from}: expected ${wanted[setting.type]}, got ${JSON.stringify(value)}`);
  else if (setting.oneOf?.includes(checked as string) === false) {
    const known = setting.oneOf.join(", ");
    wrong.push(
      `${from}: expected one of ${known}, got ${String(value)}${didYouMean(String(value), setting.oneOf)}`,
    );
  }
  return checked;
}

const wanted = {
  text: "text",
  list: "a list of texts",
  count: "a number of 0 or more",
  flag: "true or false",
};

/** The value as its type has it; null when it is none of that type. */
function valueOf({ type }: Setting, value: unknown): string | string[] | number | boolean | null {
  switch (type) {
    case "text":
      return typeof value === "string" ? value : null;
    case "list":
      if (!Array.isArray(value) || value.some((item) => typeof item !== "string")) return null;
      // `--http ""` is how one says "none"
      return (value as string[]).filter((item) => item !== "");
    case "count": {
      const number = typeof value === "string" && /^\d+$/.test(value) ? Number(value) : value;
      return typeof number === "number" && Number.isSafeInteger(number) && number >= 0 ? number : null;
    }
    case "flag":
      if (value === true || value === "true" || value === "1" || value === "yes") return true;
      return value === false || value === "false" || value === "0" || value === "no" ? false : null;
  }
}

/** As a file that `--config` takes. A password in the address of a database is not printed. */
export function dump(config: Config): string {
  const shown = { ...config, backend: redactUrl(config.backend) };
  return Object.entries(shown)
    .filter(([key]) => key !== "config")
    .map(([key, value]) => `${key}: ${JSON.stringify(value)}`)
    .join("\n");
}

export const redactUrl = (url: string): string => url.replace(/(:\/\/[^/@:]*):[^@/]*@/, "$1:***@");

export function help(): string {
  const lines = keys.map((key) => {
    const setting: Setting = settings[key];
    const flag = flagOf(key) + (setting.type === "flag" ? "" : setting.type === "count" ? " N" : " TEXT");
    const values = setting.oneOf === undefined ? "" : ` (${setting.oneOf.join(", ")})`;
    const otherwise =
      setting.default === "" || setting.default === false ? "" : ` [${String(setting.default)}]`;
    return `  ${flag.padEnd(34)} ${setting.help}${values}${otherwise}`;
  });
  return `coordinated: serves work units to workers.

Usage: coordinated [options], or: coordinate serve [options]

Every option may also stand in the environment (--log-level is ${envOf("logLevel")}) or in the file that --config
names (logLevel: info). The command line goes before the environment, the environment before the file.
A list is given by repeating its option, by commas in the environment. --no-page switches a flag off.

Options
${lines.join("\n")}
  --dump-config                      print the settings that would be used, and stop
  --help                             print this, and stop

Without tokens the daemon serves this machine only. Signals TERM and INT stop it when all requests are answered;
a second one stops it at once.`;
}
