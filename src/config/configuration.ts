/**
 * The configuration in effect: defaults, overridden by a file, the environment and the command line, in this order. All mistakes
 * are reported at once, with file and line, and with a suggestion for an unknown name.
 */
import { stringify } from "yaml";
import { ConfigError, type Mistake } from "./config-error.ts";
import { didYouMean } from "./did-you-mean.ts";
import { readFileSettings, shown, type GivenSettings } from "./file.ts";
import { findFile, type Environment } from "./find-file.ts";
import { starred, withoutSecrets } from "./secret.ts";
import {
  flagOf,
  readValue,
  sectionNames,
  settingsOf,
  variableOf,
  wantedBy,
  type ClientConfig,
  type DaemonConfig,
  type JobsConfig,
  type SectionName,
  type Setting,
  type WorkerConfig,
} from "./settings.ts";

export interface Configuration {
  readonly daemon: DaemonConfig;
  readonly client: ClientConfig;
  readonly worker: WorkerConfig;
  readonly jobs: JobsConfig;
  /** Blocks of the file for the programs that do the work. */
  readonly application: Readonly<Record<string, unknown>>;
  /** The file that was read; null without a file. */
  readonly file: string | null;
  /** The source of each setting that was given: `client.token` from `COORDINATE_TOKEN`. */
  readonly sources: ReadonlyMap<string, string>;
  /** Oddities that are no mistakes. */
  readonly warnings: readonly string[];
}

/** Settings by section, as a command line or a program gives them. */
export type Overrides = Readonly<Partial<Record<SectionName, Readonly<Record<string, unknown>>>>>;

export interface ConfigurationRequest {
  env: Environment;
  /** The file that `--config` names. */
  file?: string | undefined;
  flags?: Overrides;
  /** Where `./coordinate.yaml` is looked for. */
  directory?: string;
  /** Whether unknown `COORDINATE_` variables are mistakes, or only warnings. */
  strictEnvironment?: boolean;
}

/** Variables that are no settings: the configuration file, and the history file of the interactive shell. */
const otherVariables = ["COORDINATE_CONFIG", "COORDINATE_HISTORY"];

/** Throws a `ConfigError` that lists all mistakes. */
export function readConfiguration(request: ConfigurationRequest): Configuration {
  const { env, flags = {}, directory = process.cwd() } = request;
  const wrong: Mistake[] = [];
  const warnings: string[] = [];
  const file = findFile(request.file, env, directory);
  const given: GivenSettings = new Map();
  let application: Record<string, unknown> = {};
  if (file !== null) {
    const read = attempt(() => readFileSettings(file, env), wrong);
    if (read !== null) {
      for (const [name, one] of read.given) given.set(name, one);
      wrong.push(...read.wrong);
      warnings.push(...read.warnings);
      application = read.application;
    }
  }
  const unknown = readEnvironment(env, given, wrong);
  if (request.strictEnvironment === true) wrong.push(...unknown.map((text) => ({ unknown: text })));
  else warnings.push(...unknown);
  readFlags(flags, given, wrong);
  if (wrong.length > 0) throw new ConfigError(wrong);
  return {
    ...valuesOf(given),
    application,
    file,
    sources: new Map([...given].map(([name, { from }]) => [name, from])),
    warnings,
  };
}

/** Only the defaults. */
export function defaultConfiguration(): Configuration {
  return { ...valuesOf(new Map()), application: {}, file: null, sources: new Map(), warnings: [] };
}

function attempt<Answer>(read: () => Answer, wrong: Mistake[]): Answer | null {
  try {
    return read();
  } catch (error) {
    if (!(error instanceof ConfigError)) throw error;
    wrong.push(...error.mistakes);
    return null;
  }
}

type Values = Pick<Configuration, SectionName>;

function valuesOf(given: GivenSettings): Values {
  const values: Record<string, Record<string, unknown>> = {};
  for (const section of sectionNames) {
    const inside: Record<string, unknown> = {};
    for (const [key, setting] of Object.entries(settingsOf(section)))
      inside[key] = given.get(`${section}.${key}`)?.value ?? setting.default;
    values[section] = inside;
  }
  return values as unknown as Values;
}

/** The names of settings in the environment. Aliases come first, so that a proper name overrides them. */
function variables(): Map<string, { section: SectionName; key: string; setting: Setting }> {
  const all = sectionNames.flatMap((section) =>
    Object.entries(settingsOf(section)).map(([key, setting]) => ({ section, key, setting })),
  );
  const names = new Map<string, { section: SectionName; key: string; setting: Setting }>();
  const proper = new Set(all.map(({ key }) => variableOf(key)));
  for (const one of all)
    for (const alias of one.setting.aliases ?? [])
      if (!proper.has(variableOf(alias))) names.set(variableOf(alias), one);
  for (const one of all) names.set(variableOf(one.key), one);
  return names;
}

/** Returns a text for each variable that is no setting. */
function readEnvironment(env: Environment, given: GivenSettings, wrong: Mistake[]): string[] {
  const names = variables();
  for (const [name, { section, key, setting }] of names) {
    const text = env[name];
    if (text === undefined) continue;
    const value = readValue(setting, setting.type === "list" ? text.split(",") : text);
    if (value !== null) given.set(`${section}.${key}`, { value, from: name });
    else wrong.push(`${name}: expected ${wantedBy(setting)}, got ${shown(text)}`);
  }
  const known = [...names.keys(), ...otherVariables];
  return Object.keys(env)
    .filter((name) => name.startsWith("COORDINATE_") && !known.includes(name))
    .map((name) => `${name}: no such setting${didYouMean(name, known)}`);
}

function readFlags(flags: Overrides, given: GivenSettings, wrong: Mistake[]): void {
  for (const section of sectionNames)
    for (const [key, value] of Object.entries(flags[section] ?? {})) {
      const setting = settingsOf(section)[key];
      if (setting === undefined) throw new ConfigError(`${section}.${key}: no such setting`);
      if (value === undefined) continue;
      const read = readValue(setting, value);
      if (read !== null) given.set(`${section}.${key}`, { value: read, from: flagOf(key) });
      else {
        const hint =
          setting.oneOf === undefined
            ? ""
            : didYouMean(typeof value === "string" ? value : "", setting.oneOf);
        wrong.push(`${flagOf(key)}: expected ${wantedBy(setting)}, got ${shown(value)}${hint}`);
      }
    }
}

// ---- showing it

export const dumpWords = ["default", "effective", "full"] as const;
export type DumpWord = (typeof dumpWords)[number];

/**
 * Prints the configuration as a file that `--config` takes. `full` is everything, `default` the defaults, and `effective` only
 * what differs from the defaults. Secrets are replaced by stars.
 */
export function dumpConfiguration(configuration: Configuration, what: DumpWord): string {
  const values = shownConfiguration(configuration, what);
  return Object.keys(values).length === 0 ? "{}\n" : stringify(values, { lineWidth: 0 });
}

/** The values of a dump. Secrets are stars. */
export function shownConfiguration(configuration: Configuration, what: DumpWord): Record<string, unknown> {
  const defaults = defaultConfiguration();
  const from = what === "default" ? defaults : configuration;
  const shownSections: Record<string, unknown> = {};
  for (const section of sectionNames) {
    const inside: Record<string, unknown> = {};
    const values = from[section] as Readonly<Record<string, unknown>>;
    const otherwise = defaults[section] as Readonly<Record<string, unknown>>;
    for (const [key, setting] of Object.entries(settingsOf(section))) {
      const same = JSON.stringify(values[key]) === JSON.stringify(otherwise[key]);
      if (what === "effective" && same) continue;
      inside[key] = setting.secret === true && values[key] !== "" ? "***" : starred(values[key]);
    }
    if (Object.keys(inside).length > 0) shownSections[section] = inside;
  }
  return { ...shownSections, ...(starred(from.application) as object) };
}

/**
 * The configuration for the job of a work spec: the blocks of the application, and a block `coordinate` with the addresses of the
 * daemons and the worker settings, in the shape that the Python client and worker read. Everybody can read a work spec, so
 * secrets are left out; `left` names them. Throws a `ConfigError` for a name in `keep` that is not the name of a secret.
 */
export function jobConfiguration(
  configuration: Configuration,
  keep: readonly string[] = [],
): {
  config: Record<string, unknown>;
  left: string[];
} {
  const { client, worker, application } = configuration;
  const { worker_job_fetch, default_lifetime, ...forkWorker } = worker;
  const whole = {
    coordinate: {
      ...jobAddresses(client.addresses),
      namespace: client.namespace,
      worker_job_fetch,
      default_lifetime,
      fork_worker: forkWorker,
    },
    ...application,
  };
  const secrets = withoutSecrets(whole).left;
  for (const name of keep)
    if (!secrets.includes(name))
      throw new ConfigError(
        `${name}: no such secret${secrets.length === 0 ? "" : `; expected one of ${secrets.join(", ")}`}${didYouMean(name, secrets)}`,
      );
  const { value, left } = withoutSecrets(whole, new Set(keep));
  return { config: value as Record<string, unknown>, left };
}

/**
 * The Python client resolves HOST:PORT and no URL: when there are CBOR-RPC addresses, only these are given, and a single one as
 * `address` too. Otherwise the job gets the URLs of the daemons, which other clients can use.
 */
function jobAddresses(all: readonly string[]): { address?: string; addresses: readonly string[] } {
  const python = all.flatMap((one) => /^cbor-?rpc:(?:\/\/)?([^/]+)\/?$/.exec(one)?.[1] ?? []);
  const [first] = python;
  if (first === undefined) return { addresses: all };
  return { ...(python.length === 1 && { address: first }), addresses: python };
}
