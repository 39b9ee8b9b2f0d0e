/** Backends by their address: the one place that knows every store. Each is loaded only when it is asked for. */
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
  /** Null for a daemon in front of a daemon, which tidies up itself. */
  engine: Engine | null;
  clock: Clock;
  /** Writes to disk: worth making batches for. */
  durable: boolean;
  /** To be called once a minute or so. */
  upkeep?: () => Promise<void>;
}

/** What a backend needs to know of the configuration. */
export type BackendConfig = Pick<Config, "backend" | "dataDir" | "maxDataBytes" | "maxItems"> &
  Partial<Pick<Config, "inlineJobs" | "statistics">>;

/** Of work specs whose units bring code along; a daemon has them only when it is told so. */
const inlineRuntime = "jobs-inline";

/** `clock` null: the backend's own where it has one, else this machine's. */
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
  const store = await postgres.openPostgres({ url: address });
  // daemons that share a database judge leases by its clock: how far theirs are apart does not matter then
  const shared = await store.clock();
  return { ...overStore(store, clock ?? shared, config, true), upkeep: () => shared.sync() };
};

const openDaemon: Open = async (address) => {
  const { RestClient } = await import("../rest/client.ts");
  const url = new URL(address);
  const token = decodeURIComponent(url.password || url.username);
  url.username = url.password = "";
  const client = new RestClient(url.href, token === "" ? {} : { token });
  // as the Go daemon: one that cannot reach its backend does not start
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
    throw new ConfigError(`--backend ${scheme}… is not known; there are ${Object.keys(backends).join(", ")}`);
  }
  const kind = address === "memory" ? "memory" : scheme.replace(/(?:(?<=postgres)ql|(?<=http)s)?:$/, "");
  return { ...(await open(address, config, clock)), kind };
}
