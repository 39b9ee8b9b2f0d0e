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
    help: "address to serve CBOR-RPC on for Python clients, HOST:PORT (usually 127.0.0.1:5932); its old clients have no tokens, so other machines need --cborrpc-tls with --tls-client-ca or --cborrpc-tokens, or --insecure",
  },
  cborrpcAllow: {
    type: "list",
    default: [],
    help: "addresses that may connect to CBOR-RPC, as 10.0.0.5 or 10.0.0.0/8; any if none is given",
  },
  cborrpcNamespace: {
    type: "text",
    default: "",
    help: "the namespace that the Python methods work in; the empty one is the default",
  },
  cborrpcConfig: {
    type: "text",
    default: "",
    help: "a YAML or JSON file that get_config answers Python clients with; what looks like a secret is left out",
  },
  cborrpcTls: {
    type: "flag",
    default: false,
    help: "CBOR-RPC over TLS, with the certificate of --tls-cert and, if given, client certificates",
  },
  cborrpcTokens: {
    type: "flag",
    default: false,
    help: "CBOR-RPC wants a token as REST does, once there are any; clients of the Python 2 package cannot send one and are refused",
  },
  legacyFencing: {
    type: "text",
    default: "strict",
    oneOf: ["strict", "lenient"],
    help: "whether a Python worker that lost its lease may still finish the unit; lenient is as the old daemons were",
  },
  pid: { type: "text", default: "", help: "file to write the process id to; removed at the end" },
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
    default: 32 * 1024 * 1024,
    help: "one request body at most; loads by NDJSON have no limit",
  },
  maxDataBytes: { type: "count", default: 16 * 1024 * 1024, help: "one unit's data at most" },
  maxItems: {
    type: "count",
    default: 10_000,
    aliases: ["maxBatch"],
    help: "items of one request at most",
  },
  maxConnections: { type: "count", default: 4096, help: "connections at most, per address served" },
  maxConnectionsPerAddress: {
    type: "count",
    default: 1024,
    help: "connections of one caller's address at most; 0 is no limit. Beyond it the one that has been silent for longest is dropped",
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
  statistics: {
    type: "flag",
    default: true,
    help: "keep records of what happens to each work spec over time, for the dashboard and coordinate history",
  },
  traces: {
    type: "flag",
    default: false,
    help: "make spans for OpenTelemetry; load its SDK with node --import",
  },
  page: { type: "flag", default: true, help: "serve the page for browsers at /" },
  inlineJobs: {
    type: "flag",
    default: false,
    help: "let namespaces allow jobs that bring their function along as source; workers must allow it too",
  },
  clock: {
    type: "text",
    default: "system",
    oneOf: ["system", "manual"],
    help: "manual: time stands still until POST /clock moves it; for tests of workers",
  },
  sweepMs: {
    type: "count",
    default: 1000,
    help: "how often housekeeping sweeps expired leases and the like",
  },
  graceMs: { type: "count", default: 10_000, help: "how long a stop waits for requests to be answered" },
  logLevel: {
    type: "text",
    default: "info",
    oneOf: ["debug", "info", "warn", "error", "silent"],
    help: "what to log",
  },
  logFormat: { type: "text", default: "json", oneOf: ["json", "text"], help: "for machines or for people" },
  logRequests: { type: "flag", default: false, help: "log every request" },
} as const satisfies Record<string, Setting>;

export const clientSettings = {
  addresses: {
    type: "list",
    default: ["http://127.0.0.1:5980"],
    aliases: ["url", "address"],
    help: "daemons to talk to, all of one store: http://HOST:PORT, https://…, unix:PATH or cborrpc://HOST:PORT; where one does not answer the next is asked",
  },
  store: {
    type: "text",
    default: "",
    aliases: ["backend"],
    help: "a store to open instead of asking a daemon: memory:, sqlite:PATH or postgres://…",
  },
  namespace: { type: "text", default: "", help: "the namespace to work in; the empty one is the default" },
  token: { type: "text", default: "", secret: true, help: "an access token, where the daemon wants one" },
} as const satisfies Record<string, Setting>;

export const workerSettings = {
  worker_job_fetch: { type: "count", default: 1, help: "work units asked for at a time" },
  default_lifetime: { type: "number", default: 900, help: "how long a lease is asked for, in seconds" },
  num_workers: {
    type: "count",
    default: 0,
    help: "child processes at most; 0 leaves it to num_workers_per_core",
  },
  num_workers_per_core: {
    type: "number",
    default: 1,
    help: "child processes for each core of the machine, where num_workers is 0",
  },
  poll_interval: {
    type: "number",
    default: 1,
    help: "seconds until work is asked for again when there was none",
  },
  spawn_interval: { type: "number", default: 0.1, help: "seconds between the starts of two child processes" },
  heartbeat_interval: {
    type: "number",
    default: 15,
    help: "seconds between two check-ins, and between two looks for overdue children",
  },
  child_lifetime: {
    type: "number",
    default: 10,
    help: "seconds after which a child process takes no further work and another one is started",
  },
  stop_jobs_early: {
    type: "number",
    default: 15,
    help: "seconds before the end of its lease at which a job that still runs is stopped",
  },
  available_gb: {
    type: "number",
    default: 0,
    help: "memory that the worker states: work specs with a larger min_gb are not for it; 0 states none",
  },
} as const satisfies Record<string, Setting>;

export const jobsSettings = {
  workers_nr_min: { type: "count", default: 1, help: "worker processes that are always there" },
  workers_nr_max: {
    type: "count",
    default: 0,
    help: "worker processes at most; 0 is one for each core of the machine",
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

export type ValuesOf<Table extends Readonly<Record<string, Setting>>> = {
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
  list: "text or a list of texts",
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
