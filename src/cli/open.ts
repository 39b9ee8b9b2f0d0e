/**
 * Opens the Coordinate that the command line names: a daemon by its address, or a store directly. Loads only the code that is
 * needed: a command that talks to a daemon loads no database driver, one that opens a store loads no HTTP client.
 */
import { existsSync } from "node:fs";
import type { Coordinate, Engine } from "../core/index.ts";
import type { RestClient } from "../rest/client.ts";
import type { SqliteStore } from "../sqlite/index.ts";
import { CommandError, UsageError } from "./failure.ts";

/** How a command uses a store: reads it, changes an existing one, or also creates a missing one. */
export type StoreUse = "read" | "write" | "create";

export interface Opened {
  coordinate: Coordinate;
  /** For people: the address without its secrets. */
  where: string;
  /** The client of a daemon behind REST, for its streams; otherwise null. */
  rest: RestClient | null;
  /** Set when a store was opened directly: this process then does the housekeeping. */
  engine: Engine | null;
  sqlite: SqliteStore | null;
}

/** What to open: an address or a backend. */
export interface Target {
  address: string | undefined;
  backend: string | undefined;
  token: string | undefined;
}

export const defaultAddress = "http://127.0.0.1:5980";

export async function open(target: Target, use: StoreUse): Promise<Opened> {
  if (target.backend !== undefined) return openStore(target.backend, use);
  return openAddress(target.address ?? defaultAddress, target.token);
}

/** Connects to the first address that answers. */
async function openRpc(addresses: readonly string[], token: string | undefined): Promise<Opened> {
  const { connectCbor } = await import("../cbor/index.ts");
  let failure: unknown;
  for (const address of addresses) {
    const rpc = /^cbor-?rpc:(?:\/\/)?(.+)$/.exec(address)?.[1];
    if (rpc === undefined)
      throw new UsageError(`--address ${address}: either all addresses are cborrpc: or none`);
    try {
      const coordinate = await connectCbor(rpc.replace(/\/$/, ""), {
        connectMs: 5000,
        ...(token !== undefined && { token }),
      });
      await mustAnswer(coordinate, address);
      return { coordinate, where: address, rest: null, engine: null, sqlite: null };
    } catch (error) {
      failure = error;
    }
  }
  throw failure;
}

/** Sends a first request: a server of another protocol may accept the connection and never answer. */
async function mustAnswer(coordinate: Coordinate, address: string): Promise<void> {
  const answer = coordinate.getNamespace("");
  answer.catch(() => undefined);
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<never>((_resolve, reject) => {
    timer = setTimeout(
      () =>
        reject(
          new CommandError(
            `${address} accepts connections but does not answer`,
            "is it a CBOR-RPC address? A daemon serves CBOR-RPC on its --cborrpc address, usually port 5932",
          ),
        ),
      5000,
    );
  });
  try {
    await Promise.race([answer, late]);
  } catch (error) {
    await coordinate.close();
    throw error;
  } finally {
    clearTimeout(timer);
  }
}

async function openAddress(address: string, token: string | undefined): Promise<Opened> {
  const nothing = { engine: null, sqlite: null };
  if (/^cbor-?rpc:/.test(address)) return openRpc(address.split(","), token);
  // several daemons that share a store: the client tries the next address when one does not answer
  const addresses = address.split(",").map((one) => {
    if (/^(https?:\/\/|unix:)./.test(one)) return one;
    if (/^(\[[^\]]+\]|[^/:[\]]+):\d+$/.test(one)) return `http://${one}`;
    throw new UsageError(
      `--address ${one}: expected http://HOST:PORT, https://…, unix:/PATH, cborrpc://HOST:PORT or HOST:PORT`,
    );
  });
  const { RestClient: Client } = await import("../rest/client.ts");
  const rest = new Client(addresses, { ...(token !== undefined && { token }), retries: 2 });
  return { ...nothing, coordinate: rest, where: addresses.join(","), rest };
}

/** The daemon's default limits, so that the command line and a daemon accept the same requests. */
const limits = { maxDataBytes: 16 * 1024 * 1024, maxItems: 100_000, dataDir: "" };

async function openStore(backend: string, use: StoreUse): Promise<Opened> {
  if (backend === "") throw new UsageError("--backend: empty; expected memory:, sqlite:PATH or postgres://…");
  if (/^https?:/.test(backend)) return openAddress(backend, undefined);
  const file = /^sqlite:(.+)$/.exec(backend)?.[1];
  if (file !== undefined && file !== ":memory:") return openSqliteFile(backend, file, use);
  const { openBackend } = await import("../daemon/backend.ts");
  const { coordinate, engine } = await openBackend({ ...limits, backend }, null);
  return { coordinate, where: withoutPassword(backend), rest: null, engine, sqlite: null };
}

/** With `read`, opens the file read-only: a daemon may own it, and nothing in it changes. */
async function openSqliteFile(backend: string, file: string, use: StoreUse): Promise<Opened> {
  if (use !== "create" && !existsSync(file))
    throw new CommandError(
      `no store at ${file}`,
      "a daemon creates one, and so do flow, load, import and bench",
    );
  const { openSqlite, openSqliteReader } = await import("../sqlite/index.ts");
  const { Engine: Rules, systemClock } = await import("../core/index.ts");
  const sqlite = use === "read" ? await openSqliteReader(file) : await openSqlite(file);
  const engine = new Rules(sqlite, { clock: systemClock(), ...limits });
  return { coordinate: engine, where: backend, rest: null, engine, sqlite };
}

const withoutPassword = (url: string): string => url.replace(/(:\/\/[^/@:]*):[^@/]*@/, "$1:***@");
