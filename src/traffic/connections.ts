/**
 * How many connections there may be, in all and of one address. Beyond that the connection that has been silent for
 * longest goes, so that a crowd of silent ones does not keep out those who have something to ask: first among those
 * that never asked anything, then among those that wait between two requests. Where none is silent the
 * new one is refused.
 */
import type { Server, Socket } from "node:net";
import { Server as TlsServer } from "node:tls";

export interface ConnectionCaps {
  /** In all; 4,096. */
  maxConnections?: number;
  /** Of one address; 1,024. 0 is no limit. */
  maxConnectionsPerAddress?: number;
}

export interface ConnectionHooks {
  /** Ends a connection; how, the server knows. */
  drop?: (socket: Socket) => void;
  onConnection?: () => void;
}

export interface ConnectionLimiter {
  /** A request has come over this connection. */
  busy(socket: Socket): void;
  /** It is answered. */
  idle(socket: Socket): void;
}

/** Who counts a connection: for a request that stays open while nothing is asked through it. */
export const limiterOf = new WeakMap<Socket, ConnectionLimiter>();

/** Connections of one kind, the one that has been so for longest first. */
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
  /** Below TLS: Node does not say which raw connection a secure one came over; both have the same peer. */
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
  /** Makes room for one more; false when nobody is silent. */
  const makeRoom = (full: Group): boolean => {
    const [silent] = full.newcomers.size > 0 ? full.newcomers : full.idle;
    if (silent === undefined) return false;
    // out of the books at once: its `close` comes later
    forget(silent);
    drop(silent);
    return true;
  };

  server.on("connection", (socket: Socket) => {
    onConnection?.();
    const address = socket.remoteAddress ?? "";
    const own = addresses.get(address) ?? group();
    // a socket in the file system has no address, and only this machine's user may open it
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
