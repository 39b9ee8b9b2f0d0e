/** Opens backends by address. The only file that knows every store; each is loaded only if it is used. */
import path from "node:path";
import {
  Engine,
  systemClock,
  type Clock,
  type Coordinate,
  type ManualClock,
  type Store,
} from "../core/index.ts";
import { ConfigError } from "./config-error.ts";
import type { Config } from "./config.ts";
import { makeDirectory } from "./make-directory.ts";

export interface Backend {
  /** memory, sqlite, postgres, or http for a daemon in front of another. */
  kind: string;
  coordinate: Coordinate;
  /** Null for a daemon in front of another, which does its own housekeeping. */
  engine: Engine | null;
  clock: Clock;
  /** Whether the store writes to disk, so that merging requests into batches pays. */
  durable: boolean;
  /** Call about once a minute. */
  upkeep?: () => Promise<void>;
}

/** The settings that a backend needs. */
export type BackendConfig = Pick<Config, "backend" | "dataDir" | "maxDataBytes" | "maxItems"> &
  Partial<Pick<Config, "inlineJobs" | "statistics">>;

/** The runtime of work specs whose units contain code. A daemon refuses it unless the setting `inlineJobs` is on. */
const inlineRuntime = "jobs-inline";

/** `clock` null: the clock of the backend if it has one, else of this machine. */
type Open = (
  address: string,
  config: BackendConfig,
  clock: ManualClock | null,
) => Promise<Omit<Backend, "kind">>;

function overStore(
  store: Store,
  clock: Clock,
  { maxDataBytes, maxItems, inlineJobs = true, statistics = true }: BackendConfig,
  durable: boolean,
): Omit<Backend, "kind"> {
  const refusedRuntimes = inlineJobs ? [] : [inlineRuntime];
  const engine = new Engine(store, { clock, maxDataBytes, maxItems, refusedRuntimes, history: statistics });
  return { coordinate: engine, engine, clock, durable };
}

const openMemory: Open = async (_address, config, clock) => {
  const { MemoryStore } = await import("../memory/index.ts");
  return overStore(new MemoryStore(), clock ?? systemClock(), config, false);
};

const openSqlite: Open = async (address, config, clock) => {
  const file = address.slice("sqlite:".length);
  makeDirectory(path.dirname(path.resolve(file)));
  const sqlite = await import("../sqlite/index.ts");
  return overStore(await sqlite.openSqlite(file, { reserveLog: true }), clock ?? systemClock(), config, true);
};

const openPostgres: Open = async (address, config, clock) => {
  const postgres = await import("../postgres/index.ts");
  // a daemon may be started together with its database
  const store = await postgres.openPostgres({ url: address, openPatienceMs: 10_000 });
  // daemons that share a database use its clock for leases, so that differences between their own clocks do not matter
  const shared = await store.clock();
  return { ...overStore(store, clock ?? shared, config, true), upkeep: () => shared.sync() };
};

const openDaemon: Open = async (address) => {
  const { RestClient } = await import("../rest/client.ts");
  const url = new URL(address);
  const token = decodeURIComponent(url.password || url.username);
  url.username = url.password = "";
  const client = new RestClient(url.href, token === "" ? {} : { token });
  // like the Go daemon: without its backend it does not start
  await client.listNamespaces();
  return { coordinate: client, engine: null, clock: systemClock(), durable: false };
};

const backends: Readonly<Record<string, Open>> = {
  "memory:": openMemory,
  "sqlite:": openSqlite,
  "postgres:": openPostgres,
  "postgresql:": openPostgres,
  "http:": openDaemon,
  "https:": openDaemon,
};

export async function openBackend(config: BackendConfig, clock: ManualClock | null): Promise<Backend> {
  const address =
    config.backend === "" ? `sqlite:${path.join(config.dataDir, "coordinate.sqlite")}` : config.backend;
  const scheme = /^[a-z]+:/.exec(address)?.[0] ?? "memory:";
  const open = address === "memory" ? openMemory : backends[scheme];
  if (open === undefined) {
    throw new ConfigError(
      `--backend ${scheme}…: unknown store; expected one of ${Object.keys(backends).join(", ")}`,
    );
  }
  const kind = address === "memory" ? "memory" : scheme.replace(/(?:(?<=postgres)ql|(?<=http)s)?:$/, "");
  return { ...(await open(address, config, clock)), kind };
}
