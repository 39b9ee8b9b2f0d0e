/**
 * Limits the number of connections, in total and per address. Beyond the limit, the connection that has been silent for
 * longest is closed, so that many silent connections do not block active clients: first one that has never sent a
 * request, then one that is idle between requests. If no connection is silent, the new one is refused.
 */
import type { Server, Socket } from "node:net";
import { Server as TlsServer } from "node:tls";

export interface ConnectionCaps {
  /** In total. Default 4,096. */
  maxConnections?: number;
  /** Per address; 0 is no limit. Default 1,024. */
  maxConnectionsPerAddress?: number;
}

export interface ConnectionHooks {
  /** Closes a connection, in the way of the server's protocol. */
  drop?: (socket: Socket) => void;
  onConnection?: () => void;
}

export interface ConnectionLimiter {
  /** A request has arrived on this connection. */
  busy(socket: Socket): void;
  /** The request is answered. */
  idle(socket: Socket): void;
}

/** The limiter of each connection: a request that stays open uses it to mark the connection as idle or busy. */
export const limiterOf = new WeakMap<Socket, ConnectionLimiter>();

/** Silent connections, the one that has been silent for longest first. */
type Queue = Set<Socket>;

interface Group {
  size: number;
  newcomers: Queue;
  idle: Queue;
}

const group = (): Group => ({ size: 0, newcomers: new Set(), idle: new Set() });

export function limitConnections(
  server: Server,
  caps: ConnectionCaps,
  { drop = (socket) => void socket.destroy(), onConnection }: ConnectionHooks = {},
): ConnectionLimiter {
  const { maxConnections = 4096, maxConnectionsPerAddress = 1024 } = caps;
  const all = group();
  const addresses = new Map<string, Group>();
  const groupsOf = new Map<Socket, readonly Group[]>();
  /** Raw sockets below TLS, by peer: Node does not tell the raw socket of a TLS socket, but both have the same peer. */
  const raws = new Map<string, Socket>();

  const forget = (socket: Socket): void => {
    const groups = groupsOf.get(socket);
    if (groups === undefined) return;
    groupsOf.delete(socket);
    for (const one of groups) {
      one.size -= 1;
      one.newcomers.delete(socket);
      one.idle.delete(socket);
    }
  };
  /** Makes room for one more connection; false if none is silent. */
  const makeRoom = (full: Group): boolean => {
    const [silent] = full.newcomers.size > 0 ? full.newcomers : full.idle;
    if (silent === undefined) return false;
    // uncounted at once, since its `close` event comes later
    forget(silent);
    drop(silent);
    return true;
  };

  server.on("connection", (socket: Socket) => {
    onConnection?.();
    const address = socket.remoteAddress ?? "";
    const own = addresses.get(address) ?? group();
    // a Unix socket has no address, and only the user of this process may open it
    const isLimited = maxConnectionsPerAddress > 0 && address !== "";
    const fits =
      (!isLimited || own.size < maxConnectionsPerAddress || makeRoom(own)) &&
      (all.size < maxConnections || makeRoom(all));
    if (!fits) {
      drop(socket);
      return;
    }
    addresses.set(address, own);
    const groups = [all, own];
    groupsOf.set(socket, groups);
    for (const one of groups) {
      one.size += 1;
      one.newcomers.add(socket);
    }
    const peer = peerOf(socket);
    if (server instanceof TlsServer) raws.set(peer, socket);
    socket.once("close", () => {
      forget(socket);
      if (raws.get(peer) === socket) raws.delete(peer);
      if (own.size === 0 && addresses.get(address) === own) addresses.delete(address);
    });
  });
  const rawOf = (socket: Socket): Socket => (raws.size === 0 ? socket : (raws.get(peerOf(socket)) ?? socket));
  const limiter: ConnectionLimiter = {
    busy: (given) => {
      const socket = rawOf(given);
      for (const one of groupsOf.get(socket) ?? []) {
        one.newcomers.delete(socket);
        one.idle.delete(socket);
      }
    },
    idle: (given) => {
      const socket = rawOf(given);
      for (const one of groupsOf.get(socket) ?? []) one.idle.add(socket);
    },
  };
  const mark = (socket: Socket): void => void limiterOf.set(socket, limiter);
  server.on("connection", mark).on("secureConnection", mark);
  return limiter;
}

const peerOf = (socket: Socket): string => `${socket.remoteAddress ?? ""} ${socket.remotePort ?? 0}`;
