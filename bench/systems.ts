/** The systems that are compared, with the durability that each guarantees for an acknowledged unit. */
import { Unavailable, withDaemon, withRedis, type Postgres, type RedisSync } from "./servers.ts";
import { scratch } from "./machine.ts";
import type { Driver } from "./systems/driver.ts";

export interface System {
  readonly name: string;
  readonly label: string;
  readonly isOurs: boolean;
  /** The data that survives a crash of the machine. */
  readonly durability: string;
  /** The package that a peer needs. */
  readonly needs?: string;
  open(address: string): Promise<Driver>;
  /** Starts the servers that the system needs, and passes its address to `work`. */
  with<Answer>(postgres: Postgres, work: (at: Place) => Promise<Answer>): Promise<Answer>;
}

/** The address of a system, and its server process, if it has a separate one. */
export interface Place {
  readonly address: string;
  readonly pid?: number | undefined;
  readonly directory?: string;
}

const coordinate = async (address: string): Promise<Driver> =>
  (await import("./systems/coordinate.ts")).coordinateDriver(address);
const bullmq = async (port: string): Promise<Driver> =>
  (await import("./systems/bullmq.ts")).bullmqDriver(port);

const inDaemon = (backend: string): System["with"] => {
  return (_postgres, work) =>
    withDaemon(backend, ({ url, process, directory }) => work({ address: url, pid: process.pid, directory }));
};
const onRedis = (sync: RedisSync): System["with"] => {
  return (_postgres, work) =>
    withRedis(sync, ({ port, process, directory }) =>
      work({ address: String(port), pid: process.pid, directory }),
    );
};
const onPostgres: System["with"] = async (postgres, work) =>
  work({ address: await postgres.createDatabase() });

const fsynced = "every answer is on the disk";

export const systems = [
  {
    name: "memory",
    label: "Coordinate, memory, in the process",
    isOurs: true,
    durability: "nothing",
    open: coordinate,
    with: (_postgres, work) => work({ address: "memory:" }),
  },
  {
    name: "sqlite",
    label: "Coordinate, SQLite, in the process",
    isOurs: true,
    durability: fsynced,
    open: coordinate,
    with: (_postgres, work) => scratch((directory) => work({ address: directory, directory })),
  },
  {
    name: "daemon_memory",
    label: "Coordinate, daemon on memory",
    isOurs: true,
    durability: "nothing",
    open: coordinate,
    with: inDaemon("memory:"),
  },
  {
    name: "daemon",
    label: "Coordinate, daemon on SQLite",
    isOurs: true,
    durability: fsynced,
    open: coordinate,
    with: inDaemon("sqlite"),
  },
  {
    name: "postgres",
    label: "Coordinate, PostgreSQL",
    isOurs: true,
    durability: fsynced,
    open: coordinate,
    with: onPostgres,
  },
  {
    name: "bullmq",
    label: "BullMQ",
    isOurs: false,
    durability: "nothing",
    needs: "bullmq",
    open: bullmq,
    with: onRedis(null),
  },
  {
    name: "bullmq_aof",
    label: "BullMQ with append-only file",
    isOurs: false,
    durability: "all but the last second",
    needs: "bullmq",
    open: bullmq,
    with: onRedis("everysec"),
  },
  {
    name: "bullmq_sync",
    label: "BullMQ, every write synced",
    isOurs: false,
    durability: fsynced,
    needs: "bullmq",
    open: bullmq,
    with: onRedis("always"),
  },
  {
    name: "graphile",
    label: "graphile-worker",
    isOurs: false,
    durability: fsynced,
    needs: "graphile-worker",
    open: async (url) => (await import("./systems/graphile.ts")).graphileDriver(url),
    with: onPostgres,
  },
  {
    name: "pg_boss",
    label: "pg-boss",
    isOurs: false,
    durability: fsynced,
    needs: "pg-boss",
    open: async (url) => (await import("./systems/pg-boss.ts")).pgBossDriver(url),
    with: onPostgres,
  },
  {
    name: "bare_table",
    label: "a bare table in PostgreSQL",
    isOurs: false,
    durability: fsynced,
    open: async (url) => (await import("./systems/bare-table.ts")).bareTableDriver(url),
    with: onPostgres,
  },
] as const satisfies readonly System[];

export type SystemName = (typeof systems)[number]["name"];

export function systemOf(name: string): System {
  const found = systems.find((system) => system.name === name);
  if (found === undefined) throw new Unavailable(`no system ${name}`);
  return found;
}
