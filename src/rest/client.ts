/**
 * Coordinate over HTTP. A program that has one does not know that it is not an engine: the same verbs, the same rows,
 * the same errors. Requests whose answer was lost are sent again where that is safe (`verbs.ts` says which are), to
 * the next address if there are several; where it is not, the error is `unknown_outcome`.
 */
import {
  CoordinateError,
  isErrorCode,
  type ActionInput,
  type ActionRow,
  type AddedWorkUnit,
  type AttemptChange,
  type AttemptChanged,
  type AttemptMake,
  type AttemptRequest,
  type AttemptRow,
  type Coordinate,
  type Explained,
  type LockPath,
  type LockRefusal,
  type LockRequest,
  type NamespaceRow,
  type NamespaceSettings,
  type Page,
  type PriorityChange,
  type QueueMessage,
  type QueueRow,
  type RequestOptions,
  type ScheduleRequest,
  type SetWorkSpecOptions,
  type TakeOptions,
  type Tally,
  type TallyRow,
  type WaitingSinceRow,
  type WaitOptions,
  type WorkerAttemptQuery,
  type WorkerChange,
  type WorkerQuery,
  type WorkerRow,
  type WorkSpecInput,
  type WorkSpecMeta,
  type WorkSpecMetaChange,
  type WorkSpecRef,
  type WorkSpecRow,
  type WorkUnitInput,
  type WorkUnitQuery,
  type WorkUnitRow,
  type WorkUnitSelection,
} from "../core/index.ts";
import type { StreamedEvent } from "./events-text.ts";
import { readEvents } from "./events-text.ts";
import { readLines } from "./lines.ts";
import type { NodeTransportOptions } from "./node-transport.ts";
import { TransportError, type Transport, type TransportAnswer, type TransportRequest } from "./transport.ts";
import { nameToUrl } from "./url-name.ts";
import { kebab, verbBody, verbs, type Verb, type VerbRow } from "./verbs.ts";
import { readWire, writeLine, writeWire } from "./wire.ts";

export type { StreamedEvent } from "./events-text.ts";
export { fetchTransport } from "./fetch-transport.ts";
export { TransportError, type Transport, type TransportAnswer, type TransportRequest } from "./transport.ts";
export { nameFromUrl, nameToUrl } from "./url-name.ts";

/** How much longer than others a request may take that goes through a whole work spec. */
const slowTimes = 40;

export interface RestClientOptions extends NodeTransportOptions {
  /** A bearer token, where the server wants one. */
  token?: string;
  /** To answer, besides the time that a request asks to wait; 30 s. */
  timeoutMs?: number;
  /** How often a request is sent again, where that is safe; 4. */
  retries?: number;
  /** Before the second time; doubled each time, at most 5 s, with chance. 50 ms. */
  backoffMs?: number;
  /** Waits longer than this are asked for in pieces; 10 minutes. */
  longestWaitMs?: number;
  random?: () => number;
  /** In place of Node's own, by address. */
  transport?: (address: string) => Transport;
}

/** An answer of the server that is not about Coordinate: no token, wrong token, too many requests. */
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
  /** Lines that were stored. */
  units: number;
  /** Of those, units that had not been there. */
  created: number;
}

const data = { maxBytes: Infinity, maxDepth: 1024 };

export class RestClient implements Coordinate {
  readonly #addresses: readonly string[];
  readonly #options: RestClientOptions;
  readonly #headers: Readonly<Record<string, string>>;
  readonly #transports: Promise<Transport>[] = [];
  readonly #closing = new AbortController();
  readonly #random: () => number;
  #at = 0;

  /** One address or several of daemons that share a store: `http://host:5980/`, `https://…`, `unix:/path`. */
  constructor(addresses: string | readonly string[], options: RestClientOptions = {}) {
    this.#addresses = typeof addresses === "string" ? [addresses] : [...addresses];
    if (this.#addresses.length === 0 || this.#addresses.includes("")) {
      throw new CoordinateError("bad_argument", "address: empty");
    }
    for (const address of this.#addresses) {
      if (!/^(https?:\/\/|unix:)./.test(address))
        throw new CoordinateError("bad_argument", `address: ${address}`);
    }
    this.#options = options;
    this.#random = options.random ?? Math.random;
    this.#headers = options.token === undefined ? {} : { authorization: `Bearer ${options.token}` };
  }

  // ---- namespaces

  listNamespaces(): Promise<NamespaceRow[]> {
    return this.#post("listNamespaces", "/v1/list-namespaces", {});
  }

  getNamespace(ns: string): Promise<NamespaceRow> {
    return this.#ask("getNamespace", ns);
  }

  setNamespace(ns: string, settings: Partial<NamespaceSettings>): Promise<NamespaceRow> {
    return this.#ask("setNamespace", ns, settings);
  }

  async deleteNamespace(ns: string): Promise<void> {
    await this.#ask("deleteNamespace", ns);
  }

  // ---- work specs

  setWorkSpecs(
    ns: string,
    specs: readonly WorkSpecInput[],
    options: SetWorkSpecOptions = {},
  ): Promise<WorkSpecRow[]> {
    return this.#ask("setWorkSpecs", ns, specs, options);
  }

  getWorkSpecs(ns: string, refs: readonly WorkSpecRef[]): Promise<(WorkSpecRow | null)[]> {
    return this.#ask("getWorkSpecs", ns, refs);
  }

  listWorkSpecs(ns: string, query: { previous?: string; limit?: number } = {}): Promise<Page<WorkSpecRow>> {
    return this.#ask("listWorkSpecs", ns, query);
  }

  setWorkSpecMeta(ns: string, ref: WorkSpecRef, change: WorkSpecMetaChange): Promise<WorkSpecMeta> {
    return this.#ask("setWorkSpecMeta", ns, ref, change);
  }

  deleteWorkSpecs(ns: string, refs: readonly WorkSpecRef[]): Promise<boolean[]> {
    return this.#ask("deleteWorkSpecs", ns, refs);
  }

  // ---- work units

  addWorkUnits(
    ns: string,
    ref: WorkSpecRef,
    units: readonly WorkUnitInput[],
    options: RequestOptions = {},
  ): Promise<AddedWorkUnit[]> {
    return this.#ask("addWorkUnits", ns, ref, units, this.#named(options));
  }

  getWorkUnits(ns: string, ref: WorkSpecRef, names: readonly string[]): Promise<(WorkUnitRow | null)[]> {
    return this.#ask("getWorkUnits", ns, ref, names);
  }

  listWorkUnits(ns: string, ref: WorkSpecRef, query: WorkUnitQuery = {}): Promise<Page<WorkUnitRow>> {
    return this.#ask("listWorkUnits", ns, ref, query);
  }

  countWorkUnits(ns: string, ref: WorkSpecRef, selection: WorkUnitSelection): Promise<Tally> {
    return this.#ask("countWorkUnits", ns, ref, selection);
  }

  async awaitWorkUnits(
    ns: string,
    ref: WorkSpecRef,
    names: readonly string[],
    options: WaitOptions = {},
  ): Promise<(WorkUnitRow | null)[]> {
    const { signal, ...asked } = options;
    const longest = this.#options.longestWaitMs ?? 600_000;
    let left = asked.waitMs ?? 0;
    for (;;) {
      const waitMs = typeof left === "number" && left > longest ? longest : left;
      const wait =
        signal?.aborted === true ? {} : { ...asked, ...(asked.waitMs !== undefined && { waitMs }) };
      const body = verbBody("awaitWorkUnits", [ref, names, wait]);
      const rows = await this.#askFor<(WorkUnitRow | null)[] | null>(
        "awaitWorkUnits",
        ns,
        body,
        signal?.aborted === true ? undefined : signal,
        waitMs,
      );
      // a wait that was ended has no answer: they are looked at once more
      if (rows === null) continue;
      left -= waitMs;
      const open = rows.some((row) => row !== null && row.status !== "finished" && row.status !== "failed");
      if (!open || !(left > 0) || signal?.aborted === true) return rows;
    }
  }

  setWorkUnitPriorities(
    ns: string,
    ref: WorkSpecRef,
    selection: WorkUnitSelection,
    change: PriorityChange,
  ): Promise<number> {
    return this.#ask("setWorkUnitPriorities", ns, ref, selection, change);
  }

  setWorkUnitDelays(
    ns: string,
    ref: WorkSpecRef,
    selection: WorkUnitSelection,
    notBefore: number,
  ): Promise<number> {
    return this.#ask("setWorkUnitDelays", ns, ref, selection, notBefore);
  }

  resetWorkUnits(ns: string, ref: WorkSpecRef, selection: WorkUnitSelection): Promise<number> {
    return this.#ask("resetWorkUnits", ns, ref, selection);
  }

  deleteWorkUnits(ns: string, ref: WorkSpecRef, selection: WorkUnitSelection): Promise<number> {
    return this.#ask("deleteWorkUnits", ns, ref, selection);
  }

  /**
   * Adds any number of units in one request, in the order they come, in constant memory here and there. Stops at the
   * first that is refused; those before it stay. Not sent again by itself: with a `requestId`, calling it once more
   * with the same units within ten minutes goes over what was stored without doing it twice.
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
      headers: this.#typed("application/x-ndjson"),
      timeoutMs: 0,
    };
    return readAnswer(await this.#once(request)) as LoadAnswer;
  }

  /** All units that match, in name order, in constant memory. Pages behind each other: no snapshot. */
  async *exportWorkUnits(
    ns: string,
    workSpec: string,
    query: Omit<WorkUnitQuery, "names" | "limit"> = {},
  ): AsyncGenerator<WorkUnitRow> {
    const params = new URLSearchParams();
    for (const status of query.statuses ?? []) params.append("status", status);
    if (query.prefix !== undefined) params.set("prefix", nameToUrl(query.prefix));
    if (query.label !== undefined) params.set("label", nameToUrl(query.label));
    if (query.previous !== undefined) params.set("previous", nameToUrl(query.previous));
    const path = `/v1/namespace/${nameToUrl(ns)}/work-spec/${nameToUrl(workSpec)}/work-units?${params.toString()}`;
    const answer = await this.#once({
      method: "GET",
      path,
      headers: this.#headers,
      timeoutMs: 0,
      stream: true,
    });
    if (answer.status !== 200) readAnswer(answer);
    for await (const { text } of readLines(answer.chunks)) yield readWire(text, data) as WorkUnitRow;
  }

  /**
   * What happens in a namespace, from now on or after the event of id `after`. Ends when the signal aborts or the
   * server stops; the id of the last event is where to go on. An event of type `reset` says that some were missed.
   * `onOpen` is called once the server has begun to answer: from then on nothing is missed.
   */
  async *events(
    ns: string,
    options: { after?: string; signal?: AbortSignal; onOpen?: () => void } = {},
  ): AsyncGenerator<StreamedEvent> {
    const { after, signal, onOpen } = options;
    const headers = {
      ...this.#headers,
      accept: "text/event-stream",
      ...(after !== undefined && { "last-event-id": after }),
    };
    const path = `/v1/namespace/${nameToUrl(ns)}/events`;
    const answer = await this.#once({ method: "GET", path, headers, timeoutMs: 0, stream: true, signal });
    if (answer.status !== 200) readAnswer(answer);
    onOpen?.();
    try {
      yield* readEvents(answer.chunks);
    } catch (error) {
      if (signal?.aborted !== true && !this.#closing.signal.aborted) throw error;
    }
  }

  // ---- attempts

  async requestAttempts(ns: string, request: AttemptRequest): Promise<AttemptRow[]> {
    const { signal, ...asked } = request;
    const longest = this.#options.longestWaitMs ?? 600_000;
    let left = asked.waitMs ?? 0;
    for (;;) {
      const waitMs = typeof left === "number" && left > longest ? longest : left;
      const body = this.#named({ ...asked, ...(asked.waitMs !== undefined && { waitMs }) });
      // should the server have found some when a wait was ended, it takes them back
      const attempts =
        (await this.#askFor<AttemptRow[] | null>("requestAttempts", ns, body, signal, waitMs)) ?? [];
      left -= waitMs;
      if (attempts.length > 0 || !(left > 0) || signal?.aborted === true) return attempts;
    }
  }

  makeAttempts(ns: string, requests: readonly AttemptMake[]): Promise<AttemptRow[]> {
    return this.#ask("makeAttempts", ns, requests);
  }

  settleAttempts(ns: string, changes: readonly AttemptChange[]): Promise<AttemptChanged[]> {
    return this.#ask("settleAttempts", ns, changes);
  }

  getAttempts(ns: string, ids: readonly string[]): Promise<(AttemptRow | null)[]> {
    return this.#ask("getAttempts", ns, ids);
  }

  listUnitAttempts(ns: string, ref: WorkSpecRef, unit: string): Promise<AttemptRow[]> {
    return this.#ask("listUnitAttempts", ns, ref, unit);
  }

  listWorkerAttempts(ns: string, worker: string, query: WorkerAttemptQuery): Promise<Page<AttemptRow>> {
    return this.#ask("listWorkerAttempts", ns, worker, query);
  }

  // ---- workers

  updateWorkers(ns: string, changes: readonly WorkerChange[]): Promise<WorkerRow[]> {
    return this.#ask("updateWorkers", ns, changes);
  }

  getWorkers(ns: string, names: readonly string[]): Promise<(WorkerRow | null)[]> {
    return this.#ask("getWorkers", ns, names);
  }

  listWorkers(ns: string, query: WorkerQuery = {}): Promise<Page<WorkerRow>> {
    return this.#ask("listWorkers", ns, query);
  }

  // ---- queues of outcomes

  async takeMessages(ns: string, queue: string, options: TakeOptions = {}): Promise<QueueMessage[]> {
    const { signal, ...asked } = options;
    const longest = this.#options.longestWaitMs ?? 600_000;
    let left = asked.waitMs ?? 0;
    for (;;) {
      const waitMs = typeof left === "number" && left > longest ? longest : left;
      const named = this.#named({ ...asked, ...(asked.waitMs !== undefined && { waitMs }) });
      const body = verbBody("takeMessages", [queue, named]);
      const messages =
        (await this.#askFor<QueueMessage[] | null>("takeMessages", ns, body, signal, waitMs)) ??
        // the wait was ended, and what was taken meanwhile was not heard: it is told to who asks with the same id
        (await this.#askFor<QueueMessage[]>("takeMessages", ns, { ...body, waitMs: 0 }));
      left -= waitMs;
      if (messages.length > 0 || !(left > 0) || signal?.aborted === true) return messages;
    }
  }

  countMessages(ns: string, queues: readonly string[]): Promise<number[]> {
    return this.#ask("countMessages", ns, queues);
  }

  listQueues(ns: string, query: { previous?: string; limit?: number } = {}): Promise<Page<QueueRow>> {
    return this.#ask("listQueues", ns, query);
  }

  clearQueue(ns: string, queue: string): Promise<number> {
    return this.#ask("clearQueue", ns, queue);
  }

  // ---- actions

  putActions(ns: string, actions: readonly ActionInput[]): Promise<boolean[]> {
    return this.#ask("putActions", ns, actions);
  }

  getActions(ns: string, keys: readonly string[]): Promise<(ActionRow | null)[]> {
    return this.#ask("getActions", ns, keys);
  }

  listActions(ns: string, query: { previous?: string; limit?: number } = {}): Promise<Page<ActionRow>> {
    return this.#ask("listActions", ns, query);
  }

  deleteActions(ns: string, keys: readonly string[]): Promise<boolean[]> {
    return this.#ask("deleteActions", ns, keys);
  }

  // ---- looking in

  tally(ns?: string): Promise<TallyRow[]> {
    return ns === undefined ? this.#post("tally", "/v1/tally", {}) : this.#ask("tally", ns);
  }

  waitingSince(ns?: string): Promise<WaitingSinceRow[]> {
    return ns === undefined
      ? this.#post("waitingSince", "/v1/waiting-since", {})
      : this.#ask("waitingSince", ns);
  }

  explain(ns: string, request: ScheduleRequest): Promise<Explained[]> {
    return this.#ask("explain", ns, request);
  }

  // ---- locks

  lock(ns: string, request: LockRequest): Promise<LockRefusal | null> {
    return this.#ask("lock", ns, request);
  }

  lockSome(ns: string, request: LockRequest): Promise<boolean[]> {
    return this.#ask("lockSome", ns, request);
  }

  renewLocks(ns: string, request: LockRequest): Promise<LockRefusal | null> {
    return this.#ask("renewLocks", ns, request);
  }

  unlock(ns: string, request: Pick<LockRequest, "owner" | "paths">): Promise<LockRefusal | null> {
    return this.#ask("unlock", ns, request);
  }

  readLocks(ns: string, paths: readonly LockPath[]): Promise<(string | null)[]> {
    return this.#ask("readLocks", ns, paths);
  }

  async clearLocks(ns: string, path: LockPath): Promise<void> {
    await this.#ask("clearLocks", ns, path);
  }

  async close(): Promise<void> {
    if (this.#closing.signal.aborted) return;
    this.#closing.abort();
    for (const transport of this.#transports) (await transport).close();
  }

  // ---- how

  /** `args` are those of the verb after the namespace. */
  async #ask<Result>(verb: Verb, ns: string, ...args: unknown[]): Promise<Result> {
    return this.#askFor(verb, ns, verbBody(verb, args));
  }

  /** A wait that was ended by its signal is answered null. */
  async #askFor<Result>(
    verb: Verb,
    ns: string,
    body: Record<string, unknown>,
    signal?: AbortSignal,
    waitMs = 0,
  ): Promise<Result> {
    if (typeof ns !== "string") throw new CoordinateError("bad_name", "of a namespace: not a string");
    return this.#post(verb, `/v1/namespace/${nameToUrl(ns)}/${kebab(verb)}`, body, signal, waitMs);
  }

  /** So that it may be sent twice and is done once. */
  #named<Options extends RequestOptions>(options: Options): Options {
    return options.requestId === undefined ? { ...options, requestId: crypto.randomUUID() } : options;
  }

  async #post<Result>(
    verb: Verb,
    path: string,
    body: Record<string, unknown>,
    signal?: AbortSignal,
    waitMs = 0,
  ): Promise<Result> {
    const { repeat, slow }: VerbRow = verbs[verb];
    const request: TransportRequest = {
      method: "POST",
      path,
      body: writeWire(body),
      headers: this.#typed("application/json"),
      timeoutMs: (this.#options.timeoutMs ?? 30_000) * (slow === true ? slowTimes : 1) + waitMs,
      signal,
    };
    const retries = this.#options.retries ?? 4;
    for (let tries = 0; ; tries++) {
      const from = this.#at;
      try {
        const answer = await this.#once(request);
        if (answer.status === 503 && tries < retries && this.#mayRepeat(answer, repeat))
          throw new TransportError("503", false);
        return readAnswer(answer) as Result;
      } catch (error) {
        if (!(error instanceof TransportError)) throw error;
        if (signal?.aborted === true) return null as Result;
        if (this.#closing.signal.aborted) throw new CoordinateError("closed");
        if (error.sent && repeat === "never")
          throw new CoordinateError("unknown_outcome", error.message, { cause: error });
        if (tries >= retries) throw new CoordinateError("unavailable", error.message, { cause: error });
        // another caller may have moved on to the next address already
        if (this.#at === from) this.#at = (this.#at + 1) % this.#addresses.length;
        await this.#pause(tries);
      }
    }
  }

  /** A server that is about to stop has done nothing; of any other failure of a store that is not known. */
  #mayRepeat(answer: TransportAnswer, repeat: "same" | "id" | "never"): boolean {
    const { code } = readError(answer);
    return code === "stopping" || code === "closed" || (code === "unavailable" && repeat !== "never");
  }

  async #once(request: TransportRequest): Promise<TransportAnswer> {
    if (this.#closing.signal.aborted) throw new CoordinateError("closed");
    const transport = await (this.#transports[this.#at] ??= this.#connect(this.#addresses[this.#at] ?? ""));
    return transport.send(request);
  }

  async #connect(address: string): Promise<Transport> {
    if (this.#options.transport !== undefined) return this.#options.transport(address);
    // loaded when needed: a browser has no node:http, and brings a transport of its own
    const { nodeTransport } = await import("./node-transport.ts");
    return nodeTransport(address, this.#options);
  }

  async #pause(tries: number): Promise<void> {
    const ms = Math.min(5000, (this.#options.backoffMs ?? 50) * 2 ** tries) * (0.5 + this.#random() / 2);
    await new Promise((resolve) => setTimeout(resolve, ms));
  }

  #typed(type: string): Readonly<Record<string, string>> {
    return { ...this.#headers, "content-type": type };
  }
}

/** About 64 kB a piece: a write for every unit would cost more than the unit. */
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
  if (answer.status >= 200 && answer.status < 300)
    return answer.text === "" ? null : readWire(answer.text, data);
  const { code, message, value } = readError(answer);
  if (isErrorCode(code)) throw new CoordinateError(code, value);
  throw new RestError(answer.status, code, message);
}

interface ErrorDocument {
  code: string;
  message: string;
  value: string;
}

function readError({ status, text }: TransportAnswer): ErrorDocument {
  const otherwise = { code: "not_coordinate", message: `HTTP status ${status}`, value: "" };
  try {
    const document = JSON.parse(text) as Partial<ErrorDocument> | null;
    return { ...otherwise, ...document };
  } catch {
    return otherwise;
  }
}
