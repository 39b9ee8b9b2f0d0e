/**
 * A real PgBouncer for the tests, if the program is installed. It runs in transaction mode and uses server sessions in turn, so
 * that successive transactions run in different sessions. It does not support named statements, as before version 1.21, or
 * since then with `max_prepared_statements = 0`.
 */
import { execFile, spawn } from "node:child_process";
import { chownSync, existsSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { promisify } from "node:util";
import { freePort, query, serverUser } from "./server.ts";

export interface Bouncer {
  /** The URL of the same database through the pooler. */
  url: string;
  stop(): Promise<void>;
}

/** The path of the program, or null if it is not installed. Debian installs it in a directory that is only in root's PATH. */
export function findPgBouncer(): string | null {
  const places = [...(process.env.PATH ?? "").split(path.delimiter), "/usr/sbin", "/usr/local/sbin"];
  return places.map((place) => path.join(place, "pgbouncer")).find((file) => existsSync(file)) ?? null;
}

/** Version 1.21 and later know the setting. Earlier versions refuse to start with an unknown setting. */
async function knowsNamedStatements(program: string): Promise<boolean> {
  const { stdout } = await promisify(execFile)(program, ["--version"]);
  const [, major = "0", minor = "0"] = /(\d+)\.(\d+)/.exec(stdout) ?? [];
  return Number(major) > 1 || Number(minor) >= 21;
}

export async function startPgBouncer(program: string, url: string): Promise<Bouncer> {
  const target = new URL(url);
  const user = await serverUser();
  const directory = mkdtempSync(path.join(tmpdir(), "coordinate-pgbouncer-"));
  const port = await freePort();
  const file = path.join(directory, "pgbouncer.ini");
  const password = target.password === "" ? "" : ` password=${quoted(target.password)}`;
  writeFileSync(
    file,
    [
      "[databases]",
      `* = host=${target.hostname} port=${target.port === "" ? "5432" : target.port} user=${quoted(target.username)}${password}`,
      "[pgbouncer]",
      "listen_addr = 127.0.0.1",
      `listen_port = ${port}`,
      "unix_socket_dir =",
      // accept all clients, as the user above
      "auth_type = any",
      "pool_mode = transaction",
      "server_round_robin = 1",
      "default_pool_size = 5",
      ...((await knowsNamedStatements(program)) ? ["max_prepared_statements = 0"] : []),
      "",
    ].join("\n"),
  );
  if (user !== undefined) for (const owned of [directory, file]) chownSync(owned, user.uid, user.gid);
  // PgBouncer refuses to run as root, as PostgreSQL does
  const child = spawn(program, [file], { ...user, cwd: directory, stdio: ["ignore", "ignore", "pipe"] });
  let log = "";
  child.stderr.on("data", (chunk: Buffer) => (log = (log + chunk.toString()).slice(-10_000)));
  const ended = new Promise((resolve) => child.once("exit", resolve));
  const stop = async (): Promise<void> => {
    child.kill("SIGINT");
    const late = setTimeout(() => child.kill("SIGKILL"), 5000);
    await ended;
    clearTimeout(late);
    rmSync(directory, { recursive: true, force: true });
  };
  const through = new URL(url);
  through.host = `127.0.0.1:${port}`;
  for (let tries = 0; ; tries++) {
    if (child.exitCode !== null || tries > 200) {
      await stop();
      throw new Error(`PgBouncer did not start:\n${log}`);
    }
    if ((await query(through.href, "SELECT 1").catch(() => null)) !== null) break;
    await delay(50);
  }
  return { url: through.href, stop };
}

const quoted = (text: string): string => `'${decodeURIComponent(text).replaceAll("'", "''")}'`;
