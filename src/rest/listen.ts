/**
 * Listening on TCP, TLS or a Unix socket, with limits on what a connection may cost, and a graceful stop. A stop first
 * refuses new connections, then answers requests on open ones with `Connection: close`, and closes idle connections.
 */
import { chmodSync } from "node:fs";
import {
  createServer as createHttpServer,
  type IncomingMessage,
  type Server,
  type ServerResponse,
} from "node:http";
import { createServer as createTlsServer, type ServerOptions as TlsOptions } from "node:https";
import { Server as NetServer, type Socket } from "node:net";
import { Server as TlsServer } from "node:tls";
import type { FastifyInstance } from "fastify";
import {
  clearSocket,
  keepAlive,
  limitConnections,
  type ConnectionCaps,
  type ConnectionLimiter,
} from "../traffic/index.ts";
import { HttpError, errorAnswer } from "./errors.ts";

/**
 * Connections that the operating system queues until this process accepts them. It drops connections beyond that, and a client
 * retries after a second: many clients that connect at once must not fill the queue.
 */
const backlog = 4096;

const oldestTls = { minVersion: "TLSv1.2" } as const;

export interface ListenOptions extends ConnectionCaps {
  /** A host and port, or the path of a Unix socket. */
  at: { host: string; port: number } | { path: string };
  tls?: TlsOptions;
  /** Called for every accepted connection. */
  onConnection?: () => void;
  /** The time to receive all headers. Default 10 s. */
  headersMs?: number;
  /** The longest time that a body may arrive at less than 1 kB/s. Default 30 s. */
  bodyMs?: number;
}

export interface Listener {
  /** `http://`, `https://` or `unix:`. */
  url: string;
  port: number;
  /** Uses these certificates for new connections; without TLS, does nothing. */
  renew(tls: TlsOptions): void;
  /** Stops accepting at once; resolves when the last request is answered, or `graceMs` have passed. Idempotent. */
  stop(graceMs: number): Promise<void>;
}

export async function listen(app: FastifyInstance, options: ListenOptions): Promise<Listener> {
  await app.ready();
  const { at, tls, headersMs = 10_000, bodyMs = 30_000 } = options;
  const limits = {
    headersTimeout: headersMs,
    // Node's default is every 30 s, which would make 40 s of 10 s
    connectionsCheckingInterval: Math.max(50, Math.min(1000, headersMs / 4)),
    // off, since it would end long bulk loads too: `watchBodies` ends only stalled ones
    requestTimeout: 0,
    keepAliveTimeout: 60_000,
    maxHeaderSize: 16 * 1024,
    ...keepAlive,
  };
  const server: Server =
    tls === undefined ? createHttpServer(limits) : createTlsServer({ ...oldestTls, ...tls, ...limits });
  if ("path" in at) server.on("connection", (socket: Socket) => unixSockets.add(socket));
  const limiter = limitConnections(server, options, options);
  server.on(
    "request",
    inTurn((request, response) => app.routing(request, response), limiter),
  );
  server.on("clientError", refuse);
  const stopWatching = watchBodies(server, bodyMs);

  if ("path" in at) await clearSocket(at.path);
  await new Promise<void>((resolve, reject) => {
    server.once("error", reject);
    server.listen({ ...at, backlog }, () => {
      server.off("error", reject);
      resolve();
    });
  });
  // only this user may open the file: a caller needs no token if there are none
  if ("path" in at) chmodSync(at.path, 0o600);

  let stopped: Promise<void> | undefined;
  return {
    ...describe(server, at, tls !== undefined),
    renew: (renewed) => {
      if (server instanceof TlsServer) server.setSecureContext({ ...oldestTls, ...renewed });
    },
    stop: (graceMs) => (stopped ??= stop(server, graceMs).finally(stopWatching)),
  };
}

function describe(server: Server, at: ListenOptions["at"], secure: boolean): { url: string; port: number } {
  const address = server.address();
  if ("path" in at) return { url: `unix:${at.path}`, port: 0 };
  if (address === null || typeof address === "string") return { url: "", port: 0 };
  const host = at.host.includes(":") ? `[${at.host}]` : at.host;
  return { url: `${secure ? "https" : "http"}://${host}:${address.port}`, port: address.port };
}

/** How long a stop waits before it closes idle connections: the next request of a busy client comes sooner. */
const quietMs = 2000;

async function stop(server: Server, graceMs: number): Promise<void> {
  const closed = new Promise<void>((resolve) => {
    server.once("close", resolve);
    // not the `close` of http, which also closes connections that are idle now: a request may be in transit
    NetServer.prototype.close.call(server);
  });
  const wait = (ms: number): Promise<boolean> => {
    const { promise, cancel } = after(ms);
    return Promise.race([closed.then(() => true), promise]).finally(cancel);
  };
  const deadline = performance.now() + graceMs;
  if (!(await wait(Math.min(quietMs, graceMs)))) {
    while (performance.now() < deadline) {
      // After a blocked event loop, timers fire before pending input is read. Read the input first: otherwise a connection
      // with an unread request counts as idle.
      await new Promise((resolve) => setImmediate(() => setImmediate(resolve)));
      server.closeIdleConnections();
      if (await wait(100)) break;
    }
  }
  server.closeAllConnections();
  await closed;
}

function after(ms: number): { promise: Promise<false>; cancel: () => void } {
  let timer: NodeJS.Timeout | undefined;
  const promise = new Promise<false>((resolve) => (timer = setTimeout(() => resolve(false), ms)));
  return { promise, cancel: () => clearTimeout(timer) };
}

/** Answers bytes that are not HTTP with an error, if the connection still allows it. */
function refuse(error: NodeJS.ErrnoException, socket: Socket): void {
  if (error.code === "ECONNRESET" || !socket.writable) {
    socket.destroy();
    return;
  }
  const failure =
    error.code === "ERR_HTTP_REQUEST_TIMEOUT"
      ? new HttpError("timeout", "The request took too long to arrive")
      : error.code === "HPE_HEADER_OVERFLOW"
        ? new HttpError("bad_request", "The headers are too large")
        : new HttpError("bad_request", "This is not HTTP");
  const answer = errorAnswer(failure);
  const reason = failure.code === "timeout" ? "Request Timeout" : "Bad Request";
  socket.end(
    `HTTP/1.1 ${failure.status} ${reason}\r\nContent-Type: application/json\r\n` +
      `Content-Length: ${answer?.text.length ?? 0}\r\nConnection: close\r\n\r\n${answer?.text ?? ""}`,
  );
}

/** The most pipelined requests of one connection. No known client sends more without waiting for answers. */
const maxPipelined = 64;

type Listening = (request: IncomingMessage, response: ServerResponse) => void;

/**
 * Runs one request of a connection at a time. Answers are sent in the order of the requests, so all answers but the first would be
 * kept in memory; and a request that has not started is dropped when its connection closes. A connection that pipelines too many
 * requests is closed.
 */
function inTurn(start: Listening, limiter: ConnectionLimiter): Listening {
  const queues = new WeakMap<Socket, { request: IncomingMessage; begin: () => void }[]>();
  return (request, response) => {
    const { socket } = request;
    // the connection was closed here, but the parser found more requests in the same chunk
    if (socket.destroyed) {
      request.destroy();
      return;
    }
    const begin = (): void => {
      response.once("close", next);
      start(request, response);
    };
    const next = (): void => {
      if (socket.destroyed) return;
      const following = queue.shift();
      if (following !== undefined) following.begin();
      else {
        queues.delete(socket);
        limiter.idle(socket);
      }
    };
    const waiting = queues.get(socket);
    const queue = waiting ?? [];
    if (waiting === undefined) {
      queues.set(socket, queue);
      limiter.busy(socket);
      begin();
    } else if (queue.length < maxPipelined) queue.push({ request, begin });
    else {
      // destroyed one by one, before the connection: Node would make an error with a stack for each, which takes 0.1 ms
      for (const waiting of queue) waiting.request.destroy();
      request.destroy();
    }
  };
}

/**
 * Connections over a Unix socket, which no browser can make. A connection without an address need not be one: TCP connections that
 * were reset have none either.
 */
export const unixSockets = new WeakSet<Socket>();

/** Requests whose body stays open as long as the connection. */
export const endless = new WeakSet<IncomingMessage>();

interface Receiving {
  request: IncomingMessage;
  since: number;
  bytes: number;
}

/** In bytes per second. A slower body counts as stalled. */
const minRate = 1024;

/**
 * Closes connections whose request body has stalled. Tracks requests by connection, so that a request costs one assignment,
 * and checks them periodically. A body that waits for this server to read it is not stalled.
 */
function watchBodies(server: Server, bodyMs: number): () => void {
  const everyMs = Math.max(250, Math.min(5000, bodyMs / 4));
  const current = new Map<Socket, Receiving>();
  let tick = 0;
  server.on("request", (request: IncomingMessage) => {
    const { socket } = request;
    if (!current.has(socket)) socket.once("close", () => current.delete(socket));
    current.set(socket, { request, since: tick, bytes: socket.bytesRead });
  });
  const timer = setInterval(() => {
    tick += 1;
    for (const [socket, receiving] of current) {
      const { request } = receiving;
      if (request.complete || request.readableLength > 0 || endless.has(request)) continue;
      if (socket.bytesRead - receiving.bytes >= (minRate * everyMs) / 1000) receiving.since = tick;
      receiving.bytes = socket.bytesRead;
      if ((tick - receiving.since) * everyMs > bodyMs) socket.destroy();
    }
  }, everyMs);
  timer.unref();
  return () => clearInterval(timer);
}
