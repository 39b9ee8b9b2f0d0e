/**
 * The server: a table of routes behind Fastify. A request passes, in this order: guard, identity, scope, body, schema,
 * handler. An error of any of them is answered with a JSON document.
 */
import type { ServerResponse } from "node:http";
import { Socket } from "node:net";
import Fastify, {
  type FastifyInstance,
  type FastifyReply,
  type FastifyRequest,
  type preValidationHookHandler,
} from "fastify";
import type { Caller, Coordinate, DataLimits } from "../core/index.ts";
import { LargeRequests, longAnswer, type RequestTurn } from "../traffic/index.ts";
import { authorise, openAccess, type Access, type Identity } from "./access.ts";
import { Bodies } from "./body.ts";
import { callsRoute } from "./calls.ts";
import { cut, errorAnswer, HttpError, internalAnswer } from "./errors.ts";
import { guard } from "./guard.ts";
import { goRoutes } from "./go-routes.ts";
import { inTurn } from "./in-turn.ts";
import { callsType, jsonTypes, ndjson, negotiate, wantsPage } from "./media.ts";
import { unansweredStatus, type Answered, type Call, type Route } from "./route.ts";
import { Turn } from "./turn.ts";
import { nameFromUrl } from "./url-name.ts";
import { verbRoutes } from "./verb-routes.ts";
import { invalid, type Violation } from "./violation.ts";
import { whenAnswered } from "./when-answered.ts";

declare module "fastify" {
  interface FastifyRequest {
    identity: Identity | null;
    ns: string;
    /** The route that serves it; null for an unknown path. */
    served: Route | null;
    /** Node's response object for it. */
    response: ServerResponse;
    /** Its turn as a large request. */
    turn: RequestTurn;
  }
}

export interface RestServerOptions {
  coordinate: Coordinate;
  /** Authorises callers. By default every caller may do everything. */
  access?: Access;
  allowHosts?: readonly string[];
  /** Routes besides the two families: streams, events, metrics, the clock of a test. */
  routes?: readonly Route[];
  /** A page for browsers at `/`, where programs get the root document. */
  page?: string;
  /** The limit of a request body. Streams have none. Default 32 MiB. */
  maxBodyBytes?: number;
  /** The limit of all bodies that are being received or served. Default 128 MiB. */
  maxBodyBytesHeld?: number;
  /** The limit of items in one list of a body, the same as in the engine. Default 100,000. */
  maxItems?: number;
  /** The turns of large requests, shared with other servers of this process. */
  large?: LargeRequests;
  dataLimits?: DataLimits;
  /** Ends waits for work and streams of events. */
  stopping?: AbortSignal;
  newRequestId?: () => string;
  /** Called once for every request, when it has been answered or its caller has disconnected. */
  onAnswer?: (answered: Answered) => void;
  /** Called for an unexpected error, which is a bug. */
  onBug?: (error: unknown, request: FastifyRequest) => void;
}

export interface RestServer {
  app: FastifyInstance;
  /** All routes that are served, for OpenAPI and for tests. */
  routes: readonly Route[];
}

export function restServer(options: RestServerOptions): RestServer {
  const { access = openAccess, maxBodyBytes = 32 * 1024 * 1024, large = new LargeRequests(), page } = options;
  const calls = callsRoute({
    coordinate: options.coordinate,
    access,
    limits: { ...options.dataLimits, maxItems: options.maxItems ?? 100_000 },
    large,
    ...(options.stopping !== undefined && { stopping: options.stopping }),
    ...(options.onAnswer !== undefined && { onAnswer: options.onAnswer }),
    ...(options.onBug !== undefined && { onBug: options.onBug }),
  });
  const routes = [...goRoutes, ...verbRoutes, calls, ...(options.routes ?? [])];
  let serial = 0;
  const app = Fastify({
    logger: false,
    bodyLimit: maxBodyBytes,
    // the default of 100 characters would refuse long names
    routerOptions: { maxParamLength: 16_384 },
    genReqId: options.newRequestId ?? (() => (++serial).toString(36)),
    requestIdHeader: false,
    ajv: {
      customOptions: {
        coerceTypes: false,
        removeAdditional: false,
        useDefaults: false,
        allErrors: false,
        verbose: true,
        allowUnionTypes: true,
      },
    },
    exposeHeadRoutes: true,
    return503OnClosing: false,
    frameworkErrors: (error, request, reply) => sendError(error, request, reply as FastifyReply),
  });
  const check = guard({ allowHosts: options.allowHosts ?? [] });

  app.decorateRequest("identity", null);
  app.decorateRequest("ns", "");
  app.decorateRequest("served", null);
  // set for each request before anything reads them
  app.decorateRequest("response", null as unknown as ServerResponse);
  app.decorateRequest("turn", null as unknown as RequestTurn);
  const bodies = new Bodies({
    maxBytes: maxBodyBytes,
    maxBytesHeld: options.maxBodyBytesHeld ?? 128 * 1024 * 1024,
    limits: { ...options.dataLimits, maxItems: options.maxItems ?? 100_000 },
    large,
  });
  addParsers(app, bodies);

  const report = (request: FastifyRequest, reply: FastifyReply, began: number): void =>
    options.onAnswer?.({
      id: request.id,
      method: request.method,
      path: request.url,
      route: request.served,
      ns: request.ns,
      identity: request.identity,
      presented: request.headers.authorization !== undefined,
      address: request.ip,
      status: reply.raw.headersSent ? reply.statusCode : unansweredStatus,
      ms: performance.now() - began,
    });

  const sendError = (error: unknown, request: FastifyRequest, reply: FastifyReply): void => {
    const answer = errorAnswer(error) ?? errorAnswer(fromFastify(error)) ?? internalAnswer(request.id);
    if (answer.code === "internal") options.onBug?.(error, request);
    reply.serializer(asItIs);
    if (options.stopping?.aborted === true) reply.header("connection", "close");
    void reply
      .code(answer.status)
      .headers({ ...answer.headers, "content-type": errorType(request), "x-content-type-options": "nosniff" })
      .send(answer.text);
  };
  app.setErrorHandler((error, request, reply) => sendError(error, request, reply));
  app.addHook("onRequest", (request, reply, done) => {
    request.response = reply.raw;
    request.turn = large.turnOf(request.raw.socket);
    const began = performance.now();
    // not onResponse, which Fastify leaves out if the caller has disconnected: no change may be missing in the audit
    whenAnswered(reply.raw, () => report(request, reply, began));
    // refused before the body is read: anybody may send one to an unknown path
    if (!request.is404) done();
    else if (app.supportedMethods.includes(request.method))
      done(new HttpError("not_found", `No such path: ${request.method} ${cut(request.url)}`));
    else done(new HttpError("method_not_allowed", `Method ${cut(request.method)} not allowed`));
  });

  const callers = new Callers(options.stopping);
  const turn = new Turn();
  for (const route of routes) {
    app.route({
      method: route.method,
      url: fastifyPath(route.path),
      onRequest: (request, reply, done) => {
        turn.arrived();
        request.served = route;
        reply.serializer(asItIs);
        try {
          check(request, isPage(route, request));
          authorise(access, route, request, (request.params as Record<string, string>).namespace, request);
          done();
        } catch (error) {
          done(error as Error);
        }
      },
      exposeHeadRoute: route.family !== "stream",
      ...(route.body !== undefined &&
        route.bodyType === undefined && { preValidation: bodyCheck(route.body) }),
      handler: handler(route, options, callers, large, turn, page),
    });
  }
  refuseOtherMethods(app, routes);
  return { app, routes };
}

/**
 * Compiles the schema for its first request: for all routes this takes 0.25 s of processor time, a third of the start of a daemon.
 */
const bodyCheck =
  (schema: object): preValidationHookHandler =>
  (request, _reply, done) => {
    const validate = request.compileValidationSchema(schema);
    if (validate(request.body ?? null)) done();
    else done(invalid((validate.errors ?? []) as Violation[]));
  };

const isPage = (route: Route, request: FastifyRequest): boolean =>
  route.answerType?.startsWith("text/html") === true ||
  (route.path === "/" && wantsPage(request.headers.accept));

const asItIs = (payload: unknown): string => payload as string;
const fastifyPath = (path: string): string => path.replace(/\{(\w+)\}/g, ":$1");

const nobody: Identity = { id: "", may: () => false, somewhere: () => false };

class ServedCall implements Call {
  readonly coordinate: Coordinate;
  readonly request: FastifyRequest;
  readonly reply: FastifyReply;
  readonly large: LargeRequests;
  readonly #callers: Callers;
  #gone: AbortSignal | undefined;

  constructor(
    coordinate: Coordinate,
    request: FastifyRequest,
    reply: FastifyReply,
    callers: Callers,
    large: LargeRequests,
  ) {
    this.coordinate = coordinate;
    this.request = request;
    this.reply = reply;
    this.large = large;
    this.#callers = callers;
  }

  get identity(): Identity {
    return this.request.identity ?? nobody;
  }

  get ns(): string {
    return this.request.ns;
  }

  get body(): Readonly<Record<string, unknown>> {
    return (this.request.body ?? {}) as Record<string, unknown>;
  }

  param(name: string): string {
    return nameFromUrl((this.request.params as Record<string, string>)[name] ?? "");
  }

  query(name: string): string[] {
    const value = (this.request.query as Record<string, string | string[] | undefined>)[name];
    return value === undefined ? [] : Array.isArray(value) ? value : [value];
  }

  gone(): AbortSignal {
    return (this.#gone ??= this.#callers.watch(this.reply));
  }

  get caller(): Caller {
    return {
      waiting: () => this.gone(),
      turn: (rows) => this.request.turn.take(rows, 0),
      hasHungUp: () => this.request.raw.socket.destroyed,
      isStopping: () => this.#gone?.aborted === true,
    };
  }
}

/**
 * Aborts a waiting handler when its caller has disconnected or the server stops. Does not use AbortSignal.any: on Node 20
 * every signal it makes stays in memory as long as its longest-lived source, 1.2 kB for each long poll.
 */
class Callers {
  readonly #open = new Set<AbortController>();
  readonly #stopping: AbortSignal | undefined;

  constructor(stopping: AbortSignal | undefined) {
    this.#stopping = stopping;
    stopping?.addEventListener("abort", () => {
      for (const controller of this.#open) controller.abort();
    });
  }

  watch({ raw }: FastifyReply): AbortSignal {
    const controller = new AbortController();
    this.#open.add(controller);
    whenAnswered(raw, () => {
      this.#open.delete(controller);
      controller.abort();
    });
    if (this.#stopping?.aborted === true) controller.abort();
    return controller.signal;
  }
}

function handler(
  route: Route,
  options: RestServerOptions,
  callers: Callers,
  large: LargeRequests,
  turn: Turn,
  page: string | undefined,
) {
  const { coordinate, stopping } = options;
  const fixedType = route.answerType ?? "application/json";
  const isRoot = route.path === "/" && page !== undefined;
  const done = route.status ?? 200;
  return async (request: FastifyRequest, reply: FastifyReply): Promise<FastifyReply> => {
    if (isRoot && wantsPage(request.headers.accept)) {
      return reply.headers(pageHeaders).header("content-type", "text/html; charset=utf-8").send(page);
    }
    const type = route.family === "go" ? negotiate(request.headers.accept) : fixedType;
    const call = new ServedCall(coordinate, request, reply, callers, large);
    const { socket } = request.raw;
    const answer = await inTurn(route, call, request.turn);
    if (answer === undefined) return reply;
    const end = turn.end();
    if (end !== undefined) await end;
    // a request that a test injects has no connection to hold memory for
    if (answer !== null && answer.length > longAnswer && socket instanceof Socket) {
      large.charge(socket, answer.length);
      whenAnswered(reply.raw, large.hold(socket, answer.length));
    }
    if (stopping?.aborted === true) reply.header("connection", "close");
    reply.header("content-type", type);
    if (fixedType.startsWith("text/html")) reply.headers(pageHeaders);
    else reply.headers(dataHeaders);
    if (reply.statusCode === 200) reply.code(done);
    return reply.send(answer);
  };
}

/** A strict policy: our pages run only scripts from our own files, cannot be framed, and connect only to this server. */
const pageHeaders: Readonly<Record<string, string>> = {
  "content-security-policy":
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; base-uri 'none'; " +
    "form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'",
  "x-content-type-options": "nosniff",
  "referrer-policy": "no-referrer",
  "cross-origin-opener-policy": "same-origin",
  "cross-origin-resource-policy": "same-origin",
  "x-frame-options": "DENY",
  "permissions-policy": "camera=(), geolocation=(), microphone=()",
  "cache-control": "no-cache",
};

const dataHeaders = { "cache-control": "no-store", "x-content-type-options": "nosniff" };

function addParsers(app: FastifyInstance, bodies: Bodies): void {
  app.removeAllContentTypeParsers();
  app.addContentTypeParser([...jsonTypes], (request, payload, done) => {
    bodies.read(request, payload).then((value) => done(null, value), done);
  });
  // the handler reads the stream itself
  app.addContentTypeParser([ndjson, callsType], (_request, payload, done) => done(null, payload));
}

/** Answers other methods on known paths with 405 instead of 404. */
function refuseOtherMethods(app: FastifyInstance, routes: readonly Route[]): void {
  const methods = new Map<string, Set<string>>();
  for (const { path, method, family } of routes) {
    const known = methods.get(path) ?? new Set();
    methods.set(path, known.add(method));
    if (method === "GET" && family !== "stream") known.add("HEAD");
  }
  for (const [path, known] of methods) {
    const others = app.supportedMethods.filter((method) => !known.has(method));
    app.route({
      method: others,
      url: fastifyPath(path),
      exposeHeadRoute: false,
      // before the body is read: its content does not matter
      onRequest: (request, _reply, done) =>
        done(
          new HttpError("method_not_allowed", `Method ${request.method} not allowed`, {
            allow: [...known].join(", "),
          }),
        ),
      handler: async () => undefined,
    });
  }
}

/** Converts errors of Fastify. */
function fromFastify(error: unknown): unknown {
  if (!(error instanceof Error) || !("code" in error)) return error;
  const failed = error as Error & { code: string; statusCode?: number };
  switch (failed.code) {
    case "FST_ERR_CTP_INVALID_MEDIA_TYPE":
      return new HttpError("unsupported_media_type", "Unsupported media type");
    default:
      return (failed.statusCode ?? 500) < 500 ? new HttpError("bad_request", failed.message) : error;
  }
}

function errorType(request: FastifyRequest): string {
  if (request.served?.family !== "go") return "application/json";
  try {
    return negotiate(request.headers.accept);
  } catch {
    return jsonTypes[0];
  }
}
