/**
 * The server of the old protocol, which has no user names and no passwords: every client that can connect may do everything. So
 * it listens only on this machine, unless the network is declared to be trusted or clients must show a certificate. Newer clients
 * can send a token; if one is required, old clients are refused.
 *
 * Connections are always reset, never closed gracefully. After a graceful close a Python client waits ten seconds at full speed
 * and then fails; after a reset it reconnects and sends its request again.
 */
import { chmodSync, rmSync } from "node:fs";
import { BlockList, createServer, isIP, type Server, type Socket } from "node:net";
import { createServer as createTlsServer, Server as TlsServer, type TlsOptions } from "node:tls";
import {
  CoordinateError,
  defaultDataLimits,
  encodeData,
  systemClock,
  type Clock,
  type Coordinate,
  type Data,
} from "../core/index.ts";
import {
  clearSocket,
  keepAlive,
  LargeRequests,
  limitConnections,
  type ConnectionCaps,
} from "../traffic/index.ts";
import type { Call } from "./call.ts";
import { Connection, type ConnectionLimits } from "./connection.ts";
import { Fencing, type LegacyFencing } from "./fencing.ts";
import { badArgument, type MalformedError } from "./scan.ts";

export const defaultPort = 5932;

export interface CborRpcLimits extends Partial<ConnectionLimits>, ConnectionCaps {
  /** The data of one unit; 16 MiB by default. */
  maxDataBytes?: number;
  /** Units of one call of a verb, the limit of the engine; longer lists are added in pieces. 100,000 by default. */
  maxItems?: number;
  /** Memory for incomplete messages, all connections together; 128 MiB by default. */
  maxUnfinishedBytes?: number;
}

export interface CborRpcOptions {
  /** A host and port, or the path of a socket; 127.0.0.1:5932 when absent. Port 0 picks a free one. */
  at?: { host?: string; port?: number } | { path: string };
  /**
   * The options of Node's tls.createServer. With `ca` and `requestCert` clients must show a certificate, and the listener may
   * serve other machines.
   */
  tls?: TlsOptions;
  /** Serves other machines although every client may do everything. */
  insecure?: boolean;
  /** Addresses that may connect, as `10.0.0.5` or `10.0.0.0/8`; any when empty. Others are reset at once. */
  allow?: readonly string[];
  limits?: CborRpcLimits;
  /** The queue of large requests, shared with other servers of this process. */
  large?: LargeRequests;
  /** Whether a worker may still finish a unit after another worker took its lease; `strict` (the default) refuses it. */
  legacyFencing?: LegacyFencing;
  /** The answer of `get_config`; without it the method refuses. */
  config?: Readonly<Record<string, unknown>>;
  clock?: Clock;
  /** The namespace of the Python methods; the empty one by default. */
  namespace?: string;
  /** Also serves the verbs of Coordinate, in every namespace, as `connectCbor` needs. True by default. */
  verbs?: boolean;
  /** Called by the method `archive`. */
  archive?: () => Promise<unknown>;
  tokens?: RpcTokens;
  /** Wraps the coordinate of a connection, to watch its calls; gets the address of the client and the id of its token. */
  watch?: (coordinate: Coordinate, address: string, tokenId: string | null) => Coordinate;
  /** How long accepted requests may take when the listener is closed; 5 s by default. */
  graceMs?: number;
  /** Called for each call that is refused because its connection has sent no valid token. */
  onRefused?: (method: string, address: string) => void;
  onBug?: (error: unknown, method: string) => void;
  onMalformed?: (error: MalformedError) => void;
}

/** Checks the tokens of callers; without it every caller may do everything. */
export interface RpcTokens {
  /** Whether calls without a token are refused now. */
  wanted(): boolean;
  /**
   * Returns `coordinate`, limited to the rights of the token, and the token's id, which is no secret. Throws `bad_argument` for
   * an unknown token.
   */
  admit(coordinate: Coordinate, token: string, address: string): { coordinate: Coordinate; id: string };
}

export interface CborRpcListener {
  /** As `connectCbor` takes it: `host:port` or `unix:/path`. */
  address: string;
  /** 0 for the path of a socket. */
  port: number;
  /** The number of open connections. */
  readonly connections: number;
  /** Uses these certificates for new connections; without TLS, does nothing. */
  renew(tls: TlsOptions): void;
  /** Accepts no more requests, answers the accepted ones, and resets all connections. Idempotent. */
  close(): Promise<void>;
}

const defaults = {
  maxFrameBytes: 64 * 1024 * 1024,
  maxConcurrent: 128,
  maxWaits: 1024,
  stallMs: 30_000,
  maxItems: 100_000,
  maxUnfinishedBytes: 128 * 1024 * 1024,
} as const;

/** Serves `coordinate`, which stays open when the listener is closed. */
export async function listenCborRpc(
  coordinate: Coordinate,
  options: CborRpcOptions = {},
): Promise<CborRpcListener> {
  const at = options.at ?? {};
  checkExposure(at, options);
  const limits = { ...defaults, ...options.limits };
  const clock = options.clock ?? systemClock();
  const config: Data | null = options.config === undefined ? null : encodeData(options.config);
  const settings: Call["settings"] = {
    dataLimits: {
      ...defaultDataLimits,
      ...(limits.maxDataBytes !== undefined && { maxBytes: limits.maxDataBytes }),
    },
    maxItems: limits.maxItems,
    maxAnswerBytes: limits.maxFrameBytes,
    config,
    archive: options.archive ?? null,
  };
  const large = options.large ?? new LargeRequests();
  const budget = { used: 0, max: limits.maxUnfinishedBytes };
  /** By raw socket: with TLS, only the raw socket below it can be reset. */
  const open = new Map<Socket, Connection | null>();

  const serve = (socket: Socket, raw: Socket): void => {
    socket.setNoDelay(true);
    const { tokens } = options;
    const address = raw.remoteAddress ?? "";
    const watched = (asked: Coordinate, tokenId: string | null): Coordinate =>
      options.watch?.(asked, address, tokenId) ?? asked;
    const call: Omit<Call, "gone"> = {
      coordinate: watched(coordinate, null),
      ns: options.namespace ?? "",
      clock,
      fencing: new Fencing(options.legacyFencing ?? "strict"),
      settings,
    };
    const connection = new Connection(socket, call, {
      limits,
      budget,
      serveVerbs: options.verbs ?? true,
      wantsToken: () => tokens?.wanted() ?? false,
      admit: (token) => {
        if (tokens === undefined) return watched(coordinate, null);
        const admitted = tokens.admit(coordinate, token, address);
        return watched(admitted.coordinate, admitted.id);
      },
      large,
      onBusy: () => limiter.busy(raw),
      onIdle: () => limiter.idle(raw),
      onRefused: (method) => options.onRefused?.(method, address),
      onBug: options.onBug ?? (() => undefined),
      onMalformed: options.onMalformed ?? (() => undefined),
      reset: () => reset(raw),
    });
    open.set(raw, connection);
  };
  const inList = allowList(options.allow ?? []);
  // The mode of its file decides who may open a Unix socket. A TCP connection without an address was reset before it was
  // accepted, but its requests can still be read.
  const isAllowed = ({ remoteAddress }: Socket): boolean =>
    "path" in at || (remoteAddress !== undefined && inList(remoteAddress));
  const server = makeServer(options.tls, serve);
  server.on("connection", (raw: Socket) => {
    if (!isAllowed(raw)) reset(raw);
  });
  const limiter = limitConnections(server, limits, {
    drop: reset,
    onConnection: () => large.connected(),
  });
  server.on("connection", (raw: Socket) => {
    if (!open.has(raw)) open.set(raw, null);
    raw.on("error", () => undefined);
    raw.on("close", () => open.delete(raw));
  });
  await startListening(server, at);

  let closed: Promise<void> | undefined;
  const close = async (): Promise<void> => {
    const ended = new Promise<void>((resolve) => server.close(() => resolve()));
    const answered = Promise.all([...open.values()].map(async (connection) => connection?.stop()));
    await Promise.race([answered, realDelay(options.graceMs ?? 5000)]);
    // lets written answers go out; a client that has not read its answer by then sends the request again
    await new Promise((resolve) => setImmediate(resolve));
    for (const raw of open.keys()) reset(raw);
    await ended;
    if ("path" in at) rmSync(at.path, { force: true });
  };
  return {
    ...describe(server, at),
    get connections() {
      return open.size;
    },
    renew: (tls) => {
      if (server instanceof TlsServer) server.setSecureContext({ ...oldestTls, ...tls });
    },
    close: () => (closed ??= close()),
  };
}

const oldestTls = { minVersion: "TLSv1.2" } as const;

function makeServer(tls: TlsOptions | undefined, serve: (socket: Socket, raw: Socket) => void): Server {
  if (tls === undefined)
    return createServer({ allowHalfOpen: false, ...keepAlive }, (socket) => serve(socket, socket));
  const server = createTlsServer({ ...oldestTls, ...tls, ...keepAlive });
  // Node does not tell which raw socket a TLS socket uses; both have the same peer
  const raws = new Map<string, Socket>();
  const keyOf = (socket: Socket): string => `${socket.remoteAddress ?? ""} ${socket.remotePort ?? 0}`;
  server.on("connection", (raw: Socket) => {
    const key = keyOf(raw);
    raws.set(key, raw);
    raw.on("close", () => raws.delete(key));
  });
  server.on("secureConnection", (socket) => serve(socket, raws.get(keyOf(socket)) ?? socket));
  // a client without a certificate, or one that does not speak TLS
  server.on("tlsClientError", (_error, socket) => socket.destroy());
  return server;
}

/** Whether an address may connect: any may if there are no entries. */
function allowList(entries: readonly string[]): (address: string) => boolean {
  if (entries.length === 0) return () => true;
  const list = new BlockList();
  for (const entry of entries) {
    const [address = "", bits, extra] = entry.split("/");
    const family = isIP(address);
    const length =
      bits === undefined ? (family === 4 ? 32 : 128) : /^\d{1,3}$/.test(bits) ? Number(bits) : NaN;
    if (family === 0 || extra !== undefined || !(length <= (family === 4 ? 32 : 128)))
      throw badArgument(`allow: expected an address or a network such as 10.0.0.0/8, got ${entry}`);
    list.addSubnet(address, length, family === 4 ? "ipv4" : "ipv6");
  }
  return (given) => {
    // an IPv6 socket shows a caller over IPv4 as ::ffff:10.0.0.5
    const address = given.replace(/^::ffff:(?=\d+\.)/, "");
    return list.check(address, isIP(address) === 4 ? "ipv4" : "ipv6");
  };
}

function reset(raw: Socket): void {
  try {
    raw.resetAndDestroy();
  } catch {
    // a Unix socket cannot be reset
    raw.destroy();
  }
}

function checkExposure(
  at: NonNullable<CborRpcOptions["at"]>,
  { tls, insecure, tokens }: CborRpcOptions,
): void {
  if ("path" in at || insecure === true) return;
  const host = at.host ?? "127.0.0.1";
  const loopback = host === "localhost" || host === "::1" || (isIP(host) === 4 && host.startsWith("127."));
  const certified = tls?.requestCert === true && tls.rejectUnauthorized !== false;
  if (loopback || certified || (tls !== undefined && tokens?.wanted() === true)) return;
  throw new CoordinateError(
    "bad_argument",
    `host: CBOR-RPC has no authentication by default; to serve it on ${host}, require client certificates (tls with ca and requestCert) or tokens (with tls), or set insecure`,
  );
}

async function startListening(server: Server, at: NonNullable<CborRpcOptions["at"]>): Promise<void> {
  if ("path" in at) await clearSocket(at.path);
  await new Promise<void>((resolve, reject) => {
    server.once("error", reject);
    const listening = (): void => {
      server.off("error", reject);
      resolve();
    };
    if ("path" in at) server.listen({ path: at.path }, listening);
    else
      server.listen({ host: at.host ?? "127.0.0.1", port: at.port ?? defaultPort, backlog: 4096 }, listening);
  });
  if ("path" in at) chmodSync(at.path, 0o600);
}

function describe(server: Server, at: NonNullable<CborRpcOptions["at"]>): { address: string; port: number } {
  const address = server.address();
  if ("path" in at) return { address: `unix:${at.path}`, port: 0 };
  if (address === null || typeof address === "string") throw new Error("not listening on a port");
  const host = at.host ?? "127.0.0.1";
  return { address: `${host.includes(":") ? `[${host}]` : host}:${address.port}`, port: address.port };
}

/** Waits in real time, even if tests move the clock by hand: a close must not wait for a clock that stands still. */
function realDelay(ms: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, ms).unref());
}
