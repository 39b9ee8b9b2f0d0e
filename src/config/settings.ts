/**
 * All settings in one table: name, type, default and meaning. Files, environment, command line, help, dumps and the JSON Schema
 * are all derived from it.
 *
 * The worker's settings have the names and meanings of the Python worker's.
 */
import { homedir } from "node:os";
import path from "node:path";

export interface Setting {
  type: "text" | "list" | "count" | "number" | "flag";
  help: string;
  default: string | readonly string[] | number | boolean;
  /** The allowed values. */
  oneOf?: readonly string[];
  /** Never printed, and never stored with a work spec. */
  secret?: boolean;
  /** Other names in files and the environment; a proper name of another setting wins. */
  aliases?: readonly string[];
}

const dataHome = process.env.XDG_DATA_HOME ?? path.join(homedir(), ".local", "share");

export const daemonSettings = {
  backend: {
    type: "text",
    default: "",
    help: "the store: memory:, sqlite:PATH, postgres://…, or http://… to forward to another daemon; if empty, an SQLite file in the data directory",
  },
  dataDir: {
    type: "text",
    default: path.join(dataHome, "coordinate"),
    help: "directory of the store, the tokens and the audit log; created with mode 0700",
  },
  http: {
    type: "list",
    default: ["127.0.0.1:5980"],
    help: "addresses that serve REST, HOST:PORT; empty for none",
  },
  socket: { type: "text", default: "", help: "Unix socket that serves REST, created with mode 0600" },
  cborrpc: {
    type: "text",
    default: "",
    help: "address that serves CBOR-RPC for Python clients, HOST:PORT (usually 127.0.0.1:5932); for other machines it needs --cborrpc-tls with --tls-client-ca or --cborrpc-tokens, or --insecure, because old clients have no tokens",
  },
  cborrpcAllow: {
    type: "list",
    default: [],
    help: "client addresses that may connect to CBOR-RPC, such as 10.0.0.5 or 10.0.0.0/8; if empty, all",
  },
  cborrpcNamespace: {
    type: "text",
    default: "",
    help: "the namespace of the Python methods; the default namespace has an empty name",
  },
  cborrpcConfig: {
    type: "text",
    default: "",
    help: "YAML or JSON file that get_config returns to Python clients, without values that look like secrets",
  },
  cborrpcTls: {
    type: "flag",
    default: false,
    help: "serve CBOR-RPC over TLS, with --tls-cert and, if given, --tls-client-ca",
  },
  cborrpcTokens: {
    type: "flag",
    default: false,
    help: "require a token for CBOR-RPC, as for REST, once tokens exist; clients of the Python 2 package cannot send one and are refused",
  },
  legacyFencing: {
    type: "text",
    default: "strict",
    oneOf: ["strict", "lenient"],
    help: "whether a Python worker that lost its lease may still finish the unit: no (strict), or yes (lenient), as with the Python daemon",
  },
  pid: { type: "text", default: "", help: "file for the process id; deleted on exit" },
  tokens: {
    type: "text",
    default: "",
    help: "file of access tokens; if empty, tokens.json in the data directory",
  },
  insecure: {
    type: "flag",
    default: false,
    help: "allow access from other machines without tokens and TLS",
  },
  tlsCert: {
    type: "text",
    default: "",
    help: "PEM file of the certificate chain; REST is then served over HTTPS",
  },
  tlsKey: { type: "text", default: "", help: "PEM file of the private key" },
  tlsClientCa: {
    type: "text",
    default: "",
    help: "PEM file of the authority that must have signed client certificates",
  },
  allowHost: {
    type: "list",
    default: [],
    help: "host names, besides localhost, that browsers may use for this daemon",
  },
  maxBodyBytes: {
    type: "count",
    default: 32 * 1024 * 1024,
    help: "maximum size of a request body; NDJSON loads have no limit",
  },
  maxDataBytes: { type: "count", default: 16 * 1024 * 1024, help: "maximum size of the data of a unit" },
  maxItems: {
    type: "count",
    default: 10_000,
    aliases: ["maxBatch"],
    help: "maximum number of items in a request",
  },
  maxConnections: { type: "count", default: 4096, help: "maximum number of connections per address served" },
  maxConnectionsPerAddress: {
    type: "count",
    default: 1024,
    help: "maximum number of connections per client address, 0 for no limit; above it, the connection that was idle longest is closed",
  },
  requestsPerSecond: {
    type: "count",
    default: 0,
    help: "maximum rate per token or client address, with bursts of twice as many; 0 for no limit",
  },
  coalesce: {
    type: "text",
    default: "auto",
    oneOf: ["auto", "on", "off"],
    help: "combine requests that arrive together into one batch; auto: only for stores that write to disk",
  },
  audit: {
    type: "text",
    default: "changes",
    oneOf: ["off", "changes", "all"],
    help: "what to write to audit.log in the data directory, once tokens exist: changes of work specs, units and namespaces, and all refusals (changes); claims and settlements, too (all)",
  },
  metrics: { type: "flag", default: true, help: "serve /metrics for Prometheus" },
  statistics: {
    type: "flag",
    default: true,
    help: "record statistics of each work spec over time, for the dashboard and coordinate history",
  },
  traces: {
    type: "flag",
    default: false,
    help: "create OpenTelemetry spans; load the SDK with node --import",
  },
  page: { type: "flag", default: true, help: "serve the dashboard at /" },
  inlineJobs: {
    type: "flag",
    default: false,
    help: "let namespaces allow inline jobs, which contain the source of their function; workers must allow them, too",
  },
  clock: {
    type: "text",
    default: "system",
    oneOf: ["system", "manual"],
    help: "manual: time stands still until POST /clock advances it, for tests of workers",
  },
  sweepMs: {
    type: "count",
    default: 1000,
    help: "interval of housekeeping, which handles expired leases and similar",
  },
  graceMs: { type: "count", default: 10_000, help: "how long to wait for open requests on shutdown" },
  logLevel: {
    type: "text",
    default: "info",
    oneOf: ["debug", "info", "warn", "error", "silent"],
    help: "minimum level of log messages",
  },
  logFormat: {
    type: "text",
    default: "json",
    oneOf: ["json", "text"],
    help: "format of the log: json for programs, text for people",
  },
  logRequests: { type: "flag", default: false, help: "log every request" },
} as const satisfies Record<string, Setting>;

const clientSettings = {
  addresses: {
    type: "list",
    default: ["http://127.0.0.1:5980"],
    aliases: ["url", "address"],
    help: "addresses of daemons that share a store: http://HOST:PORT, https://…, unix:PATH or cborrpc://HOST:PORT; if one does not answer, the next is used",
  },
  store: {
    type: "text",
    default: "",
    aliases: ["backend"],
    help: "a store to open directly instead of a daemon: memory:, sqlite:PATH or postgres://…",
  },
  namespace: { type: "text", default: "", help: "the namespace; the default namespace has an empty name" },
  token: { type: "text", default: "", secret: true, help: "access token, if the daemon requires one" },
} as const satisfies Record<string, Setting>;

const workerSettings = {
  worker_job_fetch: { type: "count", default: 1, help: "work units per claim" },
  default_lifetime: { type: "number", default: 900, help: "duration of leases, in seconds" },
  num_workers: {
    type: "count",
    default: 0,
    help: "maximum number of child processes; 0: see num_workers_per_core",
  },
  num_workers_per_core: {
    type: "number",
    default: 1,
    help: "child processes per core, if num_workers is 0",
  },
  poll_interval: {
    type: "number",
    default: 1,
    help: "seconds between claims while there is no work",
  },
  spawn_interval: { type: "number", default: 0.1, help: "seconds between the starts of two child processes" },
  heartbeat_interval: {
    type: "number",
    default: 15,
    help: "seconds between check-ins, and between checks for overdue child processes",
  },
  child_lifetime: {
    type: "number",
    default: 10,
    help: "seconds after which a child process takes no more work and is replaced",
  },
  stop_jobs_early: {
    type: "number",
    default: 15,
    help: "a job that is still running is stopped this many seconds before its lease ends",
  },
  available_gb: {
    type: "number",
    default: 0,
    help: "memory of the worker in GB: it takes no work specs with a larger min_gb; 0: not limited",
  },
} as const satisfies Record<string, Setting>;

const jobsSettings = {
  workers_nr_min: { type: "count", default: 1, help: "minimum number of worker processes" },
  workers_nr_max: {
    type: "count",
    default: 0,
    help: "maximum number of worker processes; 0: one per core",
  },
} as const satisfies Record<string, Setting>;

/** The sections of a file, in display order. */
export const sections = {
  daemon: daemonSettings,
  client: clientSettings,
  worker: workerSettings,
  jobs: jobsSettings,
} as const satisfies Record<string, Readonly<Record<string, Setting>>>;

export type SectionName = keyof typeof sections;
export const sectionNames = Object.keys(sections) as readonly SectionName[];

type ValueOf<S extends Setting> = S["type"] extends "text"
  ? string
  : S["type"] extends "list"
    ? readonly string[]
    : S["type"] extends "flag"
      ? boolean
      : number;

type ValuesOf<Table extends Readonly<Record<string, Setting>>> = {
  readonly [Key in keyof Table]: ValueOf<Table[Key]>;
};

export type DaemonConfig = ValuesOf<typeof daemonSettings>;
export type ClientConfig = ValuesOf<typeof clientSettings>;
export type WorkerConfig = ValuesOf<typeof workerSettings>;
export type JobsConfig = ValuesOf<typeof jobsSettings>;

export const settingsOf = (section: SectionName): Readonly<Record<string, Setting>> => sections[section];

export const flagOf = (key: string): string =>
  "--" + key.replace(/[A-Z]/g, (letter) => "-" + letter.toLowerCase()).replaceAll("_", "-");

export const variableOf = (key: string): string =>
  "COORDINATE_" + key.replace(/[A-Z]/g, (letter) => "_" + letter).toUpperCase();

const wanted: Readonly<Record<Setting["type"], string>> = {
  text: "text",
  list: "text or a list of text",
  count: "an integer of 0 or more",
  number: "a number of 0 or more",
  flag: "true or false",
};

export const wantedBy = ({ type, oneOf }: Setting): string =>
  oneOf === undefined ? wanted[type] : `one of ${oneOf.join(", ")}`;

/** Converts a value to the type of its setting, also from text; null when it does not fit the type. */
export function readValue(
  setting: Setting,
  value: unknown,
): string | readonly string[] | number | boolean | null {
  switch (setting.type) {
    case "text":
      return typeof value === "string" && setting.oneOf?.includes(value) !== false ? value : null;
    case "list": {
      const items: unknown[] = Array.isArray(value) ? value : [value];
      if (items.some((item) => typeof item !== "string")) return null;
      // `--http ""` means none
      return (items as string[]).filter((item) => item !== "");
    }
    case "count":
    case "number": {
      const number = typeof value === "string" && /^\d+(\.\d+)?$/.test(value) ? Number(value) : value;
      if (typeof number !== "number" || !Number.isFinite(number) || number < 0) return null;
      return setting.type === "number" || Number.isSafeInteger(number) ? number : null;
    }
    case "flag":
      if (value === true || value === "true" || value === "1" || value === "yes") return true;
      return value === false || value === "false" || value === "0" || value === "no" ? false : null;
  }
}
