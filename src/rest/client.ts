/**
 * Coordinate over HTTP, with the same verbs, rows and errors as a local engine. A request whose answer was lost is retried
 * if that is safe (see `core/verbs.ts`), at the next address if there are several. Otherwise the error is
 * `unknown_outcome`.
 */
import {
  answerMs,
  CoordinateError,
  describeValue,
  isErrorCode,
  NoAnswer,
  VerbClient,
  verbs,
  type Coordinate,
  type Link,
  type OutgoingCall,
  type RequestOptions,
  type WorkUnitInput,
  type WorkUnitQuery,
  type WorkUnitRow,
} from "../core/index.ts";
import type { StreamedEvent } from "./events-text.ts";
import { readEvents } from "./events-text.ts";
import { readLines } from "./lines.ts";
import type { NodeTransportOptions } from "./node-transport.ts";
import type { Transport, TransportAnswer, TransportRequest } from "./transport.ts";
import { nameToUrl } from "./url-name.ts";
import { verbBody, verbPath } from "./verbs.ts";
import { readWire, writeLine, writeWire } from "./wire.ts";

export type { StreamedEvent } from "./events-text.ts";
export { fetchTransport } from "./fetch-transport.ts";
export { TransportError, type Transport, type TransportAnswer, type TransportRequest } from "./transport.ts";
export { nameFromUrl, nameToUrl } from "./url-name.ts";

export interface RestClientOptions extends NodeTransportOptions {
  /** A bearer token, if the server requires one. */
  token?: string;
  /** The timeout of an answer, in addition to the time that the request asks to wait. Default 30 s. */
  timeoutMs?: number;
  /** How often a request is retried, if that is safe. Default 4. */
  retries?: number;
  /** The delay before the first retry. Doubles each time, up to 5 s, with jitter. Default 50 ms. */
  backoffMs?: number;
  /** Longer waits are split into several requests. Default 10 minutes; servers end a wait after an hour. */
  longestWaitMs?: number;
  random?: () => number;
  /** Sends short requests over one connection, if the server and all proxies support it. Default true. */
  oneConnection?: boolean;
  /** Makes the transport to an address, instead of Node's HTTP client. */
  transport?: (address: string) => Transport;
}

/** An HTTP error that is not an error of Coordinate: no token, wrong token, too many requests. */
export class RestError extends Error {
  override readonly name = "RestError";
  readonly status: number;
  readonly code: string;

  constructor(status: number, code: string, message: string) {
    super(message);
    this.status = status;
    this.code = code;
  }
}

export interface LoadAnswer {
  /** The number of units that were stored. */
  units: number;
  /** How many of those did not exist before. */
  created: number;
}

const data = { maxBytes: Infinity, maxDepth: 1024 };

export class RestClient extends VerbClient implements Coordinate {
  readonly #link: RestLink;

  /** The address of a daemon, or of several that share a store: `http://host:5980/`, `https://…`, `unix:/path`. */
  constructor(addresses: string | readonly string[], options: RestClientOptions = {}) {
    const link = new RestLink(typeof addresses === "string" ? [addresses] : [...addresses], options);
    super(link);
    this.#link = link;
  }

  /**
   * Adds any number of units in one request, in order, in constant memory of client and server. Stops at the first unit
   * that is refused; those before it stay. There are no automatic retries: with a `requestId`, another call with the same
   * units within ten minutes does not add units twice.
   */
  async loadWorkUnits(
    ns: string,
    workSpec: string,
    units: Iterable<WorkUnitInput> | AsyncIterable<WorkUnitInput>,
    options: RequestOptions = {},
  ): Promise<LoadAnswer> {
    const query =
      options.requestId === undefined ? "" : `?requestId=${encodeURIComponent(options.requestId)}`;
    const path = `/v1/namespace/${nameToUrl(ns)}/work-spec/${nameToUrl(workSpec)}/work-units${query}`;
    const request = {
      method: "POST",
      path,
      body: lines(units),
      headers: this.#link.headers("application/x-ndjson"),
      timeoutMs: 0,
    };
    return readAnswer(await this.#link.once(request)) as LoadAnswer;
  }

  /** The settings of the daemon, with secrets replaced by stars. The token needs scope admin in all namespaces. */
  async daemonConfig(): Promise<unknown> {
    const request = { method: "GET", path: "/config", headers: this.#link.headers(), timeoutMs: 30_000 };
    return readAnswer(await this.#link.once(request));
  }

  /** All matching units, in name order, in constant memory. Reads page after page: not a snapshot. */
  async *exportWorkUnits(
    ns: string,
    workSpec: string,
    query: Omit<WorkUnitQuery, "names" | "asAdded" | "limit"> = {},
  ): AsyncGenerator<WorkUnitRow> {
    const params = new URLSearchParams();
    for (const status of query.statuses ?? []) params.append("status", status);
    if (query.prefix !== undefined) params.set("prefix", nameToUrl(query.prefix));
    if (query.label !== undefined) params.set("label", nameToUrl(query.label));
    if (query.error !== undefined) params.set("error", query.error);
    if (query.endedSince !== undefined) params.set("endedSince", String(query.endedSince));
    if (query.previous !== undefined) params.set("previous", nameToUrl(query.previous));
    const path = `/v1/namespace/${nameToUrl(ns)}/work-spec/${nameToUrl(workSpec)}/work-units?${params.toString()}`;
    const answer = await this.#link.once({
      method: "GET",
      path,
      headers: this.#link.headers(),
      timeoutMs: 0,
      stream: true,
    });
    if (answer.status !== 200) readAnswer(answer);
    for await (const { text } of readLines(answer.chunks)) yield readWire(text, data) as WorkUnitRow;
  }

  /**
   * The events of a namespace, from now on or after the event with id `after`. Ends when the signal aborts or the server
   * stops; the id of the last event is the cursor to continue. An event of type `reset` means that some were missed.
   * `onOpen` is called once the server has begun to answer: from then on no event is missed.
   * With `gatherMs`, events have only a type and a count, each type comes at most once in that time, and there is no cursor. With
   * `tally` as well, an event of type `tally` follows each change of units: its items are the answer of that verb.
   */
  async *events(
    ns: string,
    options: {
      after?: string;
      gatherMs?: number;
      tally?: boolean;
      signal?: AbortSignal;
      onOpen?: () => void;
    } = {},
  ): AsyncGenerator<StreamedEvent> {
    const { after, gatherMs, tally = false, signal, onOpen } = options;
    const headers = {
      ...this.#link.headers(),
      accept: "text/event-stream",
      ...(after !== undefined && { "last-event-id": after }),
    };
    const query = gatherMs === undefined ? "" : `?gather=${gatherMs}${tally ? "&tally=true" : ""}`;
    const path = `/v1/namespace/${nameToUrl(ns)}/events${query}`;
    const answer = await this.#link.once({
      method: "GET",
      path,
      headers,
      timeoutMs: 0,
      stream: true,
      signal,
    });
    if (answer.status !== 200) readAnswer(answer);
    onOpen?.();
    try {
      yield* readEvents(answer.chunks);
    } catch (error) {
      if (signal?.aborted !== true && !this.#link.isClosed()) throw error;
    }
  }

  close(): Promise<void> {
    return this.#link.close();
  }
}

/** Sends requests to one of the addresses, and moves on to the next when it does not answer. */
class RestLink implements Link {
  readonly random: () => number;
  readonly retries: number;
  readonly backoffMs: number;
  readonly longestWaitMs: number;
  readonly #addresses: readonly string[];
  readonly #options: RestClientOptions;
  readonly #transports: Promise<Transport>[] = [];
  #closed = false;
  #at = 0;

  constructor(addresses: readonly string[], options: RestClientOptions) {
    if (addresses.length === 0) throw new CoordinateError("bad_argument", "address: expected at least one");
    for (const address of addresses) {
      if (!/^(https?:\/\/|unix:)./.test(address))
        throw new CoordinateError(
          "bad_argument",
          `address: expected http://HOST:PORT, https://… or unix:/PATH, got ${describeValue(address)}`,
        );
    }
    this.#addresses = addresses;
    this.#options = options;
    this.random = options.random ?? Math.random;
    this.retries = options.retries ?? 4;
    this.backoffMs = options.backoffMs ?? 50;
    this.longestWaitMs = options.longestWaitMs ?? 600_000;
  }

  async send(call: OutgoingCall): Promise<unknown> {
    const { verb, args, waitMs, signal } = call;
    const { repeat, namespace } = verbs[verb];
    const [ns, ...rest] = namespace === "none" ? [undefined, ...args] : args;
    const from = this.#at;
    try {
      const answer = await this.once({
        method: "POST",
        path: verbPath(verb, ns as string | undefined),
        body: writeWire(verbBody(verb, rest)),
        headers: this.headers("application/json"),
        timeoutMs: answerMs(call, this.#options.timeoutMs ?? 30_000),
        waits: waitMs > 0,
        signal,
      });
      if (outages.includes(answer.status)) throwUndone(answer, repeat);
      return readAnswer(answer);
    } catch (error) {
      // another caller may have moved on to the next address already
      if (error instanceof NoAnswer && signal?.aborted !== true && this.#at === from)
        this.#at = (from + 1) % this.#addresses.length;
      throw error;
    }
  }

  async once(request: TransportRequest): Promise<TransportAnswer> {
    if (this.#closed) throw new CoordinateError("closed");
    const transport = await (this.#transports[this.#at] ??= this.#connect(this.#addresses[this.#at] ?? ""));
    return transport.send(request);
  }

  headers(type?: string): Readonly<Record<string, string>> {
    const { token } = this.#options;
    return {
      ...(token !== undefined && { authorization: `Bearer ${token}` }),
      ...(type !== undefined && { "content-type": type }),
    };
  }

  isClosed(): boolean {
    return this.#closed;
  }

  newId(): string {
    // not randomUUID: browsers have it only on pages of HTTPS or localhost
    return crypto.getRandomValues(new Uint32Array(4)).join("-");
  }

  pause(ms: number): Promise<void> {
    return new Promise((resolve) => setTimeout(resolve, ms));
  }

  async close(): Promise<void> {
    if (this.#closed) return;
    this.#closed = true;
    for (const transport of this.#transports) (await transport).close();
  }

  async #connect(address: string): Promise<Transport> {
    if (this.#options.transport !== undefined) return this.#options.transport(address);
    // loaded when needed: a browser has no node:http, and passes its own transport
    const { endpointOf, nodeTransport } = await import("./node-transport.ts");
    const endpoint = endpointOf(address, this.#options);
    if (this.#options.oneConnection === false) return nodeTransport(endpoint);
    const { callTransport } = await import("./call-transport.ts");
    return callTransport(endpoint);
  }
}

/** HTTP statuses of an outage. Coordinate uses only 503; a proxy uses all of them while the server behind it restarts. */
const outages: readonly number[] = [502, 503, 504];

/** Makes an outage retryable. A stopping server has done nothing; after another failure, the outcome is unknown. */
function throwUndone(answer: TransportAnswer, repeat: "same" | "id" | "never"): void {
  const { status } = answer;
  const { code } = readError(answer);
  if (status !== 503 || code === notCoordinate)
    throw new NoAnswer(`a proxy answered with HTTP status ${status}`, true);
  const stopping = code === "stopping" || code === "closed";
  if (stopping || (code === "unavailable" && repeat !== "never"))
    throw new NoAnswer(
      "the server is stopping",
      !stopping,
      // after the last try a server that stops is `unavailable`, like one that has stopped; `closed` is for the client itself
      stopping ? {} : { refusal: refusalOf(answer) },
    );
}

/** Yields pieces of about 64 kB: a write for every unit would cost more than the unit. */
async function* lines(units: Iterable<WorkUnitInput> | AsyncIterable<WorkUnitInput>): AsyncGenerator<string> {
  let piece = "";
  for await (const unit of units) {
    piece += writeLine(unit);
    if (piece.length < 65_536) continue;
    yield piece;
    piece = "";
  }
  if (piece !== "") yield piece;
}

function readAnswer(answer: TransportAnswer): unknown {
  if (answer.status < 200 || answer.status >= 300) throw refusalOf(answer);
  return answer.text === "" ? null : readWire(answer.text, data);
}

function refusalOf(answer: TransportAnswer): Error {
  const { code, message, value } = readError(answer);
  if (isErrorCode(code)) return new CoordinateError(code, value);
  // a proxy may allow less than the server: callers split the request in the same way
  if (answer.status === 413)
    return new CoordinateError("too_large", "the request; a proxy refused it with HTTP status 413");
  return new RestError(answer.status, code, message);
}

/** The code of an error without a document of Coordinate. */
const notCoordinate = "not_coordinate";

interface ErrorDocument {
  code: string;
  message: string;
  value: string;
}

function readError({ status, text }: TransportAnswer): ErrorDocument {
  const otherwise = { code: notCoordinate, message: `HTTP status ${status}`, value: "" };
  try {
    const document = JSON.parse(text) as Partial<ErrorDocument> | null;
    return { ...otherwise, ...document };
  } catch {
    return otherwise;
  }
}
