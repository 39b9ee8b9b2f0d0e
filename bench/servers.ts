/** The servers that subjects connect to, each private to this run: PostgreSQL, Redis and the daemon. */
import { execFileSync, spawn, type ChildProcess } from "node:child_process";
import { createConnection } from "node:net";
import path from "node:path";
import { freePort, startServer, type OwnServer } from "../test/postgres/server.ts";
import { ended, here, scratch, sleep, sourceFlags, subjectNode, terminate } from "./machine.ts";

/** The reason why a system cannot be measured here. */
export class Unavailable extends Error {}

export interface Redis {
  readonly port: number;
  readonly process: ChildProcess;
  readonly directory: string;
}

/** When Redis syncs its append-only file; null: it has none. With `everysec`, which BullMQ recommends, the last second may be lost. */
export type RedisSync = "everysec" | "always" | null;

export async function withRedis<Answer>(
  sync: RedisSync,
  work: (redis: Redis) => Promise<Answer>,
): Promise<Answer> {
  try {
    execFileSync("redis-server", ["--version"], { stdio: "ignore" });
  } catch {
    throw new Unavailable("redis-server is not installed");
  }
  return scratch(async (directory) => {
    const port = await freePort();
    const settings = sync === null ? [] : ["--appendonly", "yes", "--appendfsync", sync];
    const args = [
      "--port",
      String(port),
      "--bind",
      "127.0.0.1",
      "--dir",
      directory,
      "--save",
      "",
      ...settings,
    ];
    const redis = spawn("redis-server", args, { stdio: "ignore" });
    try {
      while (!(await answers(port))) await sleep(20);
      return await work({ port, process: redis, directory });
    } finally {
      await terminate(redis);
    }
  });
}

function answers(port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = createConnection(port, "127.0.0.1");
    socket.once("connect", () => {
      socket.destroy();
      resolve(true);
    });
    socket.once("error", () => resolve(false));
  });
}

/** PostgreSQL with default durability (fsync and synchronous commit): one server for the whole run, one database per subject. */
export class Postgres {
  #server: Promise<OwnServer> | null = null;

  get server(): Promise<OwnServer> {
    return (this.#server ??= startServer({ settings: ["max_connections = 200"] }));
  }

  async createDatabase(): Promise<string> {
    return (await this.server).createDatabase();
  }

  async stop(): Promise<void> {
    if (this.#server !== null) await (await this.#server).stop();
  }
}

export interface Daemon {
  readonly url: string;
  readonly process: ChildProcess;
  readonly directory: string;
}

/** `backend`: `memory:`, `sqlite` (a new file), or the URL of a database. */
export async function withDaemon<Answer>(
  backend: string,
  work: (daemon: Daemon) => Promise<Answer>,
): Promise<Answer> {
  return scratch(async (directory) => {
    const main = path.join(here, "../src/cli/coordinated.ts");
    const at = backend === "sqlite" ? `sqlite:${path.join(directory, "store.sqlite")}` : backend;
    const daemon = spawn(
      subjectNode(),
      [...sourceFlags, main, "--backend", at, "--http", "127.0.0.1:0", "--data-dir", directory],
      { stdio: ["ignore", "pipe", "pipe"] },
    );
    let log = "";
    daemon.stderr.setEncoding("utf8").on("data", (chunk: string) => (log = (log + chunk).slice(-4000)));
    const url = await new Promise<string>((resolve, reject) => {
      let output = "";
      daemon.stdout.setEncoding("utf8").on("data", (chunk: string) => {
        output += chunk;
        const match = /serves (\S+)/.exec(output);
        if (match?.[1] !== undefined) resolve(match[1]);
      });
      void ended(daemon).then(() => reject(new Error(`the daemon did not start:\n${log}`)));
    });
    try {
      return await work({ url, process: daemon, directory });
    } finally {
      await terminate(daemon);
    }
  });
}
