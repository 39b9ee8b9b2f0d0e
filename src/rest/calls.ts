/**
 * Many requests over one connection. The bodies of `POST /v1/calls` and of its answer stay open, and data flows both ways. A request
 * is a line, `7 /v1/namespace/n/tally 2`, followed by a body of two bytes; its answer is a line, `7 200 83`, followed by a document
 * of 83 bytes. Paths, bodies, statuses and documents are those of the REST interface. Answers are sent as soon as they are
 * ready, in any order. A line with only a number cancels the wait of that request. The server's first line is `ready`.
 *
 * This saves the overhead of HTTP, which was most of the time between adding a unit and the start of its task. Each request is
 * authorised separately: a token that is revoked stops working at once.
 */
import { Readable } from "node:stream";
import type { FastifyReply, FastifyRequest } from "fastify";
import type { Caller, Coordinate } from "../core/index.ts";
import { limiterOf, longAnswer, type LargeRequests } from "../traffic/index.ts";
import { authorise, type Access, type Asking, type Identity } from "./access.ts";
import {
  callsPath,
  FrameReader,
  maxCallBytes,
  ready,
  writeChunk,
  writeFrame,
  type Frame,
} from "./call-frames.ts";
import { cut, errorAnswer, HttpError, internalAnswer } from "./errors.ts";
import { inTurn } from "./in-turn.ts";
import { endless } from "./listen.ts";
import { callsType } from "./media.ts";
import type { Answered, Call, Route } from "./route.ts";
import { verbRoutes } from "./verb-routes.ts";
import { invalid, type Violation } from "./violation.ts";
import { readWire, type WireLimits } from "./wire.ts";

/** How many requests of a connection run at once, not counting those that wait for something; and how many may wait. */
const maxConcurrent = 128;
const maxWaits = 1024;

export interface CallsOptions {
  coordinate: Coordinate;
  access: Access;
  limits: WireLimits;
  large: LargeRequests;
  stopping?: AbortSignal;
  onAnswer?: (answered: Answered) => void;
  onBug?: (error: unknown, request: FastifyRequest) => void;
}

export function callsRoute(options: CallsOptions): Route {
  const open = new Set<Calls>();
  options.stopping?.addEventListener("abort", () => {
    for (const calls of open) calls.stop();
  });
  return {
    id: "calls",
    method: "POST",
    path: callsPath,
    // each request on the connection is authorised separately
    scope: "open",
    family: "stream",
    summary:
      "Sends many requests over one connection: both bodies stay open, and each answer is sent when it is ready.",
    bodyType: callsType,
    answerType: callsType,
    handle: async ({ request, reply }) => {
      const { body } = request;
      if (!(body instanceof Readable))
        throw new HttpError("unsupported_media_type", `Expected content type ${callsType}`);
      if (options.stopping?.aborted === true) throw new HttpError("stopping", "The daemon is stopping");
      reply.hijack();
      const calls = new Calls(request, body, reply, options);
      open.add(calls);
      reply.raw.once("close", () => open.delete(calls));
      return undefined;
    },
  };
}

const routesByPath = new Map(verbRoutes.map((route) => [route.path, route]));

/** The route of a path, and the decoded path segment of the namespace. */
function findRoute(path: string): { route: Route; segment: string | undefined } {
  const [, version, kind, segment, verb, ...more] = path.split("/");
  const isNamespaced = kind === "namespace" && verb !== undefined && more.length === 0;
  const route = routesByPath.get(isNamespaced ? `/${version}/namespace/{namespace}/${verb}` : path);
  if (route === undefined) throw new HttpError("not_found", `No such path: POST ${cut(path)}`);
  return { route, segment: isNamespaced && segment !== undefined ? decoded(segment) : undefined };
}

function decoded(segment: string): string {
  try {
    return segment.includes("%") ? decodeURIComponent(segment) : segment;
  } catch {
    throw new HttpError("bad_request", `Invalid path segment: ${cut(segment)}`);
  }
}

/** One connection. */
class Calls {
  readonly #request: FastifyRequest;
  readonly #body: Readable;
  readonly #reply: FastifyReply;
  readonly #options: CallsOptions;
  readonly #reader = new FrameReader(maxCallBytes);
  /** Requests that are being served, by number: each with what ends its wait, if it waits for something. */
  readonly #running = new Map<string, AbortController | null>();
  /** Requests that were received but not started. */
  readonly #queue: Frame[] = [];
  #waiting = 0;
  /** The number of long answers that the caller has not read yet. */
  #held = 0;
  #out = "";
  #scheduled = false;
  #isOver = false;

  constructor(request: FastifyRequest, body: Readable, reply: FastifyReply, options: CallsOptions) {
    this.#request = request;
    this.#body = body;
    this.#reply = reply;
    this.#options = options;
    const { raw } = reply;
    endless.add(request.raw);
    raw.writeHead(200, {
      "content-type": callsType,
      "cache-control": "no-store",
      "x-content-type-options": "nosniff",
    });
    const { socket } = request.raw;
    const onDrain = (): void => this.#next();
    raw.on("drain", onDrain);
    socket.on("drain", onDrain);
    raw.once("close", () => {
      socket.off("drain", onDrain);
      this.#isOver = true;
      for (const wait of this.#running.values()) wait?.abort();
    });
    body.on("data", (chunk: Buffer) => this.#take(chunk));
    body.once("end", () => {
      this.#isOver = true;
      if (this.#running.size === 0) this.#end();
    });
    // ignored: a broken connection is normal
    body.once("error", () => undefined);
    raw.write(`${ready}\n`);
    this.#markIdle();
  }

  /** Ends waits, lets running requests finish, and starts no more. */
  stop(): void {
    for (const wait of this.#running.values()) wait?.abort();
    if (this.#running.size === 0) this.#end();
  }

  #end(): void {
    this.#flush();
    this.#reply.raw.end();
  }

  #take(chunk: Buffer): void {
    try {
      this.#queue.push(...this.#reader.push(chunk));
      this.#next();
    } catch {
      // nothing that follows a malformed frame can be understood
      this.#reply.raw.destroy();
    }
  }

  /** Stops reading while the caller does not read its answers, or the limits of a connection are reached. */
  #next(): void {
    while (this.#queue.length > 0 && !this.#isFull) void this.#serve(this.#queue.shift()!);
    if (this.#isFull) this.#body.pause();
    else this.#body.resume();
  }

  get #isFull(): boolean {
    return (
      this.#reply.raw.writableNeedDrain ||
      this.#request.raw.socket.writableNeedDrain ||
      this.#waiting >= maxWaits ||
      this.#running.size - this.#waiting >= maxConcurrent
    );
  }

  /** Never rejects: errors are answered. */
  async #serve({ words, text }: Frame): Promise<void> {
    if (!this.#isOpen) return;
    const [number = "", path] = words;
    if (!/^\d{1,15}$/.test(number)) {
      this.#reply.raw.destroy();
      return;
    }
    if (path === undefined) {
      this.#running.get(number)?.abort();
      return;
    }
    // its answers could not be told apart, and only one of two waits could be ended
    if (this.#running.has(number)) {
      this.#reply.raw.destroy();
      return;
    }
    const { large, onAnswer } = this.#options;
    const { socket } = this.#request.raw;
    const began = performance.now();
    if (this.#running.size === 0) limiterOf.get(socket)?.busy(socket);
    this.#running.set(number, null);
    const asking: Asking = { ns: "", identity: null };
    let answer: { status: number; text: string };
    let route: Route | null = null;
    let waited = false;
    try {
      if (this.#options.stopping?.aborted === true) throw new HttpError("stopping", "The daemon is stopping");
      const found = findRoute(path);
      route = found.route;
      authorise(this.#options.access, route, this.#request, found.segment, asking);
      answer = { status: 200, text: await this.#ask(route, number, asking, text) };
    } catch (error) {
      const known = errorAnswer(error);
      if (known === null) this.#options.onBug?.(error, this.#request);
      answer = known ?? internalAnswer(this.#request.id);
    } finally {
      waited = this.#running.get(number) !== null;
      if (waited) this.#waiting -= 1;
      this.#running.delete(number);
      if (this.#running.size === 0) this.#markIdle();
    }
    const frame = writeFrame(`${number} ${answer.status}`, answer.text);
    if (frame.length > longAnswer) {
      large.charge(socket, frame.length);
      this.#flush();
      this.#hold(frame);
    } else this.#send(frame, waited);
    onAnswer?.({
      id: this.#request.id,
      method: "POST",
      path,
      route,
      ...asking,
      presented: this.#request.headers.authorization !== undefined,
      address: this.#request.ip,
      status: answer.status,
      ms: performance.now() - began,
    });
    this.#next();
    if (this.#running.size === 0 && (this.#isOver || this.#options.stopping?.aborted === true)) this.#end();
  }

  async #ask(route: Route, number: string, { ns, identity }: Asking, text: string): Promise<string> {
    const body = readWire(text, this.#options.limits);
    if (body === null || typeof body !== "object") throw new HttpError("bad_request", "Invalid input format");
    const check = this.#request.compileValidationSchema(route.body ?? {});
    if (!check(body)) throw invalid((check.errors ?? []) as unknown as readonly Violation[]);
    const asked = body as Readonly<Record<string, unknown>>;
    const turn = this.#options.large.turnOf(this.#request.raw.socket);
    const call = new FramedCall(this.#options, this.#request, this.#reply, ns, identity, asked, {
      waiting: () => this.#wait(number),
      turn: (rows) => turn.take(rows, 0),
      hasHungUp: () => this.#request.raw.socket.destroyed,
      isStopping: () => this.#options.stopping?.aborted === true,
    });
    return (await inTurn(route, call, turn)) ?? "null";
  }

  #wait(number: string): AbortSignal {
    const wait = new AbortController();
    this.#waiting += 1;
    this.#running.set(number, wait);
    if (this.#request.raw.socket.destroyed || this.#options.stopping?.aborted === true) wait.abort();
    return wait.signal;
  }

  /** While no request runs, the connection counts as idle and may be closed to make room for others. */
  #markIdle(): void {
    const { socket } = this.#request.raw;
    limiterOf.get(socket)?.idle(socket);
  }

  /**
   * Answers of one turn of the event loop are sent together, at the end of the turn. But the first answer to a waiting request is
   * sent at once: a worker begins its task before the caller that added the unit is answered.
   */
  #send(frame: string, waited: boolean): void {
    this.#out += frame;
    if (this.#scheduled) return;
    this.#scheduled = true;
    if (waited) this.#flush();
    process.nextTick(() => {
      this.#scheduled = false;
      this.#flush();
    });
  }

  #flush(): void {
    const out = this.#out;
    this.#out = "";
    if (out !== "" && this.#isOpen) this.#writeOut(out);
  }

  /** Writes to the socket directly: through Node's response and the next tick, a single answer left 0.1 ms later. */
  #writeOut(out: string): void {
    const { raw } = this.#reply;
    if (raw.chunkedEncoding) this.#request.raw.socket.write(writeChunk(out));
    else raw.write(out);
  }

  /** Counts a long answer until the caller has read it. The socket's time-out applies only that long. */
  #hold(frame: string): void {
    if (!this.#isOpen) return;
    const { socket } = this.#request.raw;
    const taken = this.#options.large.hold(socket, frame.length);
    this.#held += 1;
    this.#reply.raw.write(frame, () => {
      taken();
      if (--this.#held === 0) socket.setTimeout(0);
    });
  }

  get #isOpen(): boolean {
    const { raw } = this.#reply;
    // between the end of its socket and `close`, a response drops what is written and never calls back
    return !raw.destroyed && !raw.writableEnded && !this.#request.raw.socket.destroyed;
  }
}

/** A request that came in a frame, in the form that the handlers of verbs expect. */
class FramedCall implements Call {
  readonly coordinate: Coordinate;
  readonly large: LargeRequests;
  readonly request: FastifyRequest;
  readonly reply: FastifyReply;
  readonly ns: string;
  readonly identity: Identity;
  readonly body: Readonly<Record<string, unknown>>;
  readonly caller: Caller;

  constructor(
    { coordinate, large }: CallsOptions,
    request: FastifyRequest,
    reply: FastifyReply,
    ns: string,
    identity: Identity | null,
    body: Readonly<Record<string, unknown>>,
    caller: Caller,
  ) {
    if (identity === null) throw new Error("verbs have a scope");
    this.coordinate = coordinate;
    this.large = large;
    this.request = request;
    this.reply = reply;
    this.ns = ns;
    this.identity = identity;
    this.body = body;
    this.caller = caller;
  }

  param(): string {
    return "";
  }

  query(): string[] {
    return [];
  }

  gone(): AbortSignal {
    return this.caller.waiting();
  }
}
