/**
 * Listening: TCP, TLS or a socket in the file system, with limits on what a connection may cost, and a stop that
 * loses nothing. A stop closes the door first; whoever is inside is answered and told that the connection ends; who
 * says nothing more is shown out.
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
import type { FastifyInstance } from "fastify";
import {
  clearSocket,
  limitConnections,
  type ConnectionCaps,
  type ConnectionLimiter,
} from "../traffic/index.ts";
import { HttpError, errorAnswer } from "./errors.ts";

/**
 * Connections that the system keeps until this process accepts them. Those beyond are dropped by it, and a caller tries again
 * after a second: a crowd that connects at once must not fill it.
 */
const backlog = 4096;

export interface ListenOptions extends ConnectionCaps {
  /** Where: a host and port, or a path. */
  at: { host: string; port: number } | { path: string };
  tls?: TlsOptions;
  /** For every connection that is accepted. */
  onConnection?: () => void;
  /** To send all headers; 10 s. */
  headersMs?: number;
  /** The longest that a body may come at less than 1 kB/s; 30 s. */
  bodyMs?: number;
}

export interface Listener {
  /** As it is written in a URL. */
  url: string;
  port: number;
  /** Stops accepting at once; resolves when the last request is answered, or `graceMs` have passed. Idempotent. */
  stop(graceMs: number): Promise<void>;
}

export async function listen(app: FastifyInstance, options: ListenOptions): Promise<Listener> {
  await app.ready();
  const { at, tls, headersMs = 10_000, bodyMs = 30_000 } = options;
  const limits = {
    headersTimeout: headersMs,
    // Node looks every half minute by itself, and 10 s become 40
    connectionsCheckingInterval: Math.max(50, Math.min(1000, headersMs / 4)),
    // it would end long bulk loads too; `watchBodies` knows the difference
    requestTimeout: 0,
    keepAliveTimeout: 60_000,
    maxHeaderSize: 16 * 1024,
  };
  const server: Server =
    tls === undefined
      ? createHttpServer(limits)
      : createTlsServer({ minVersion: "TLSv1.2", ...tls, ...limits });
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
  // whoever may open the file may ask anything that nobody needs a token for
  if ("path" in at) chmodSync(at.path, 0o600);

  let stopped: Promise<void> | undefined;
  return {
    ...describe(server, at, tls !== undefined),
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

/** How long a connection may be silent before it is taken for idle: the next request of a busy caller comes sooner. */
const quietMs = 2000;

async function stop(server: Server, graceMs: number): Promise<void> {
  const closed = new Promise<void>((resolve) => {
    server.once("close", resolve);
    // not http's own close, which also cuts connections that are idle at this instant: a request may be on its way
    NetServer.prototype.close.call(server);
  });
  const wait = (ms: number): Promise<boolean> => {
    const { promise, cancel } = after(ms);
    return Promise.race([closed.then(() => true), promise]).finally(cancel);
  };
  const deadline = Date.now() + graceMs;
  if (!(await wait(Math.min(quietMs, graceMs)))) {
    while (Date.now() < deadline) {
      // When this process was held up, timers fire before it has read what came in meanwhile: read that first, or a
      // connection with a request in it passes for idle.
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

/** What is not HTTP at all is answered as far as it can be. */
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

/** Requests of one connection that wait for those before them. No client that is known sends more without an answer. */
const maxPipelined = 64;

type Listening = (request: IncomingMessage, response: ServerResponse) => void;

/**
 * One request of a connection at a time. Answers leave in the order of the requests, so the answers to all but the first
 * would be kept in memory; and a request that has not started is forgotten when its connection closes. A connection
 * that sends more than a few in advance is closed.
 */
function inTurn(start: Listening, limiter: ConnectionLimiter): Listening {
  const queues = new WeakMap<Socket, { request: IncomingMessage; begin: () => void }[]>();
  return (request, response) => {
    const { socket } = request;
    // of a connection that was closed here, what else the parser found in the same piece
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
      // one by one and first: Node would make an error with a stack for each of them, which takes 0.1 ms
      for (const waiting of queue) waiting.request.destroy();
      request.destroy();
    }
  };
}

/** Requests whose body comes as long as the connection lasts. */
export const endless = new WeakSet<IncomingMessage>();

interface Receiving {
  request: IncomingMessage;
  since: number;
  bytes: number;
}

/** Slower than this, in bytes a second, is not slow but stuck. */
const minRate = 1024;

/**
 * Ends requests whose body does not come. Kept by connection, so that a request costs one assignment, and looked at
 * now and then. A body that waits for us and not for its sender is left alone.
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
