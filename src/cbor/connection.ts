/**
 * One connection: reads requests and writes answers.
 *
 * Python's methods are served one after the other, in the order in which they arrived, as in the old daemons. Verbs may wait for
 * work, so they run at the same time, and each is answered when it is done. Nothing is read while the peer does not read its
 * answers, or while the maximum number of verbs runs.
 */
import { Buffer } from "node:buffer";
import type { Socket } from "node:net";
import {
  checkArguments,
  CoordinateError,
  isCoordinateError,
  isVerb,
  isWait,
  serveVerb,
  signatures,
  type Caller,
  type Coordinate,
} from "../core/index.ts";
import { longAnswer, rowsAsked, type LargeRequests, type RequestTurn } from "../traffic/index.ts";
import { RpcError, type Call, type Result } from "./call.ts";
import { FrameReader, type FrameBudget } from "./frame.ts";
import { Item } from "./item.ts";
import { methods } from "./methods.ts";
import { badArgument, itemEnd, MalformedError, refusedItemEnd, scanRequest, scanWhole } from "./scan.ts";
import { authenticateMethod, cancelMethod, readValue, Reading, verbPrefix, writeValue } from "./verbs.ts";
import { Writer } from "./write.ts";

export interface ConnectionLimits {
  /** The longest message that is accepted, and that is sent. */
  readonly maxFrameBytes: number;
  /** Verbs that run at once, not counting those that wait. */
  readonly maxConcurrent: number;
  /** Verbs that wait at once. */
  readonly maxWaits: number;
  /** The longest pause within a message, and the longest time that a message may arrive at less than 1 kB/s. */
  readonly stallMs: number;
}

export interface ConnectionOptions {
  readonly limits: ConnectionLimits;
  readonly budget: FrameBudget;
  readonly serveVerbs: boolean;
  /** Whether a peer must show a token before anything else. */
  readonly wantsToken: () => boolean;
  /** Returns the coordinate for a peer with this token; throws for an unknown token. */
  readonly admit: (token: string) => Coordinate;
  /** The queue of large requests, of all connections. */
  readonly large: LargeRequests;
  /** Called when requests are in progress, and when none are. */
  readonly onBusy: () => void;
  readonly onIdle: () => void;
  /** Called for each request that is refused because the peer has sent no valid token. */
  readonly onRefused: (method: string) => void;
  /** Called for an unexpected error, of which the peer gets no details. */
  readonly onBug: (error: unknown, method: string) => void;
  /** Called when the peer sent something that is not a request. */
  readonly onMalformed: (error: MalformedError) => void;
  /** Resets the connection. */
  readonly reset: () => void;
}

interface Request {
  /** In its original encoding, for the answer. */
  id: Buffer;
  method: string | null;
  params: Item | undefined;
}

const absent = Buffer.of(0xf6);

/** Messages from this length on are scanned in pieces and served one at a time. */
const longFrame = 256 * 1024;
/** Bytes per second: a slower message counts as stuck. */
const minRate = 1024;

/** Python's methods whose answers are lists, of a thousand items or more by default. */
const listMethods: ReadonlySet<string> = new Set([
  "get_work_units",
  "get_work_unit_status",
  "list_work_specs",
  "list_worker_modes",
  "get_child_work_units",
]);

/** After a malformed message, how long the peer may take to read the answers to its earlier requests. */
const farewellMs = 1000;

export class Connection {
  readonly #socket: Socket;
  #call: Call;
  /** Whether the peer has sent a valid token. */
  #admitted = false;
  readonly #options: ConnectionOptions;
  readonly #reader: FrameReader;
  readonly #chunks: Buffer[] = [];
  readonly #gone = new AbortController();
  /** Requests that may be waiting, by id: these can be cancelled. */
  readonly #waits = new Map<string, AbortController>();
  #busy = false;
  #corked = false;
  #running = 0;
  /** How many of the running verbs wait. */
  #waiting = 0;
  /** Wakes `#room`: a verb has ended, the peer has read, or the connection has ended. */
  #wake: () => void = () => undefined;
  #stopping = false;
  /** The incomplete message: when it began, and how many bytes have arrived. */
  #partialSince = 0;
  #partialBytes = 0;
  #idle: () => void = () => undefined;

  constructor(socket: Socket, call: Omit<Call, "gone">, options: ConnectionOptions) {
    this.#socket = socket;
    this.#call = { ...call, gone: this.#gone.signal };
    this.#options = options;
    this.#reader = new FrameReader(options.limits.maxFrameBytes, options.budget);
    socket.on("data", (chunk: Buffer) => this.#take(chunk));
    socket.on("drain", () => this.#wake());
    // broken connections are normal: their requests are carried out, or their claims are given back
    socket.on("error", () => undefined);
    socket.on("timeout", () => this.#timedOut());
    socket.on("close", () => this.#closed());
  }

  /** Accepts no more requests; resolves when the accepted ones are answered. Waits for work end with none. */
  async stop(): Promise<void> {
    this.#stopping = true;
    this.#socket.pause();
    for (const wait of this.#waits.values()) wait.abort();
    await this.settledDown();
  }

  /** Resolves when all accepted requests are answered. */
  async settledDown(): Promise<void> {
    if (!this.#busy && this.#running === 0) return;
    await new Promise<void>((resolve) => (this.#idle = resolve));
  }

  #closed(): void {
    this.#gone.abort();
    for (const wait of this.#waits.values()) wait.abort();
    this.#chunks.length = 0;
    this.#reader.close();
    this.#wake();
  }

  #timedOut(): void {
    if (this.#socket.writableLength > 0) this.#options.reset();
    else if (this.#reader.partial) this.#malformed(new MalformedError("timed out within a message"));
  }

  /** Refuses a message that arrives too slowly, such as a byte now and then. */
  #checkRate(bytes: number): void {
    if (!this.#reader.partial) {
      this.#partialSince = performance.now();
      this.#partialBytes = 0;
    }
    this.#partialBytes += bytes;
    const seconds = (performance.now() - this.#partialSince) / 1000;
    if (seconds * 1000 > this.#options.limits.stallMs && this.#partialBytes < seconds * minRate)
      throw new MalformedError("a message arrives too slowly");
  }

  #take(chunk: Buffer): void {
    this.#chunks.push(chunk);
    if (this.#busy) this.#socket.pause();
    else void this.#run();
  }

  /** Never rejects: errors of a request are answered; an error that cannot be answered ends the connection. */
  async #run(): Promise<void> {
    this.#busy = true;
    try {
      while (!this.#stopping && !this.#gone.signal.aborted) {
        const frame = this.#reader.next();
        if (frame !== null) {
          this.#options.onBusy();
          await this.#serve(frame);
          if (this.#isFull) await this.#room();
          // the rate of the next message counts from now, if a part of it has arrived
          this.#partialSince = performance.now();
          this.#partialBytes = 0;
          continue;
        }
        const chunk = this.#chunks.shift();
        if (chunk === undefined) break;
        this.#checkRate(chunk.length);
        this.#reader.push(chunk);
      }
    } catch (error) {
      if (error instanceof MalformedError) this.#malformed(error);
      else {
        this.#options.onBug(error, "");
        this.#options.reset();
      }
    } finally {
      this.#busy = false;
      this.#settled();
    }
    if (this.#stopping || this.#gone.signal.aborted) return;
    // while an answer is being sent, the timeout is for that answer
    if (this.#socket.writableLength === 0)
      this.#socket.setTimeout(this.#reader.partial ? this.#options.limits.stallMs : 0);
    this.#socket.resume();
  }

  async #room(): Promise<void> {
    while (!this.#gone.signal.aborted && this.#isFull)
      await new Promise<void>((resolve) => (this.#wake = resolve));
  }

  get #isFull(): boolean {
    const { maxConcurrent, maxWaits } = this.#options.limits;
    return (
      this.#socket.writableNeedDrain ||
      this.#waiting >= maxWaits ||
      this.#running - this.#waiting >= maxConcurrent
    );
  }

  #settled(): void {
    if (this.#busy || this.#running > 0) return;
    this.#options.onIdle();
    this.#idle();
  }

  /** Resets the connection. Answers to earlier requests are sent first, unless the peer does not read them. */
  #malformed(error: MalformedError): void {
    this.#stopping = true;
    this.#socket.pause();
    this.#options.onMalformed(error);
    const timer = setTimeout(() => this.#options.reset(), farewellMs);
    this.#socket.write(Buffer.alloc(0), () => {
      clearTimeout(timer);
      this.#options.reset();
    });
  }

  async #serve(frame: Buffer): Promise<void> {
    const isLong = frame.length > longFrame;
    const scanned = isLong ? await scanRequest(frame) : scanWhole(frame);
    const { request, refusal } = readRequest(frame, scanned.refusal);
    const { method } = request;
    const { large } = this.#options;
    if (isLong) large.charge(this.#socket, frame.length);
    if (refusal === null && method === authenticateMethod) {
      this.#authenticate(request);
      return;
    }
    if (!this.#admitted && this.#options.wantsToken()) {
      this.#options.onRefused(method ?? "");
      this.#refuse(request, needsToken(), method?.startsWith(verbPrefix) === true);
      return;
    }
    if (refusal === null && method?.startsWith(verbPrefix) === true && this.#options.serveVerbs) {
      if (method === cancelMethod) {
        this.#cancel(request);
        return;
      }
      const served = this.#serveVerb(request, method, frame);
      // the memory of long requests must not pile up, so the next message waits
      if (isLong) await served;
      return;
    }
    try {
      if (refusal !== null) throw badArgument(refusal);
      const rows = listMethods.has(method ?? "") ? Infinity : 0;
      await this.#inTurn(rows, frame, async () => this.#answer(request, await this.#callMethod(request)));
    } catch (error) {
      this.#refuse(request, error, false);
    }
  }

  /** A large request waits for its turn. Nothing is done for a peer that has disconnected meanwhile. */
  async #inTurn(rows: number, frame: Buffer, work: () => Promise<void>): Promise<void> {
    const { large } = this.#options;
    if (!large.isLarge(this.#socket, rows, frame.length)) return work();
    await large.turn(this.#socket, async () => {
      if (!this.#gone.signal.aborted) await work();
    });
  }

  async #callMethod({ method, params }: Request): Promise<Result> {
    if (method === null) throw new RpcError("no method");
    const found = methods.get(method);
    if (found === undefined) throw new RpcError(`no such method ${camelCase(method)}`);
    return found.run(this.#call, readParams(params, found.params));
  }

  // ---- verbs

  async #serveVerb(request: Request, method: string, frame: Buffer): Promise<void> {
    this.#running += 1;
    const turn = this.#options.large.turnOf(this.#socket);
    const caller = new VerbCaller(this.#waits, request.id, this.#gone.signal, () => this.#stopping, turn);
    try {
      const verb = method.slice(verbPrefix.length);
      if (!isVerb(verb)) throw new RpcError(`no such method ${method}`);
      const { counts, params } = signatures[verb];
      const { dataLimits, maxItems } = this.#call.settings;
      const reading = new Reading(dataLimits, maxItems);
      const args = readParams(request.params, counts).map((item, i) => {
        reading.field = params[i - 1] ?? `argument ${i + 1}`;
        return readValue(item, reading);
      });
      // omitted arguments at the end may be null on the wire
      while (args.length > counts[0] && args.at(-1) === null) args.pop();
      checkArguments(verb, args);
      const run = async (): Promise<void> => {
        const value = await serveVerb(this.#call.coordinate, verb, args, caller);
        this.#answer(request, (to) => writeValue(to, value));
      };
      // a wait takes its turn when it has its answer
      if (isWait(verb, args)) await this.#wait(run);
      else await this.#inTurn(rowsAsked(verb, args), frame, run);
    } catch (error) {
      if (!this.#gone.signal.aborted) this.#refuse(request, error, true);
    } finally {
      turn.end();
      caller.done();
      this.#running -= 1;
      this.#wake();
      this.#settled();
    }
  }

  async #wait(run: () => Promise<void>): Promise<void> {
    this.#waiting += 1;
    try {
      await run();
    } finally {
      this.#waiting -= 1;
    }
  }

  /** A server that requires no token accepts any. */
  #authenticate(request: Request): void {
    try {
      const [token] = readParams(request.params, [1, 1]);
      const text = token?.text("token") ?? "";
      if (this.#options.wantsToken()) {
        this.#call = { ...this.#call, coordinate: this.#options.admit(text) };
        this.#admitted = true;
      }
      this.#answer(request, (to) => to.null());
    } catch (error) {
      this.#options.onRefused(authenticateMethod);
      this.#refuse(request, error, true);
    }
  }

  #cancel(request: Request): void {
    try {
      const [id] = readParams(request.params, [1, 1]);
      this.#waits.get(id?.slice().toString("latin1") ?? "")?.abort();
      this.#answer(request, (to) => to.null());
    } catch (error) {
      this.#refuse(request, error, true);
    }
  }

  // ---- answers

  #answer({ id }: Request, result: Result): void {
    const to = new Writer(this.#options.limits.maxFrameBytes);
    to.map(2).nameBytes("id").raw(id).nameBytes("result");
    result(to);
    this.#send(to.frame());
  }

  /**
   * Writes the answers of one turn of the event loop together: a write for each of a hundred pipelined requests costs more
   * than the requests.
   */
  #send(frame: Buffer): void {
    if (!this.#corked) {
      this.#corked = true;
      this.#socket.cork();
      // flush at the end of this turn; a request that waits for a store ends the turn, and delays no answer
      process.nextTick(() => {
        this.#corked = false;
        this.#socket.uncork();
      });
    }
    if (frame.length <= longAnswer) this.#socket.write(frame);
    else {
      const { large } = this.#options;
      large.charge(this.#socket, frame.length);
      this.#socket.write(frame, large.hold(this.#socket, frame.length));
    }
  }

  /** Callers of verbs get the error code; the old protocol has only the message. */
  #refuse({ id, method }: Request, error: unknown, isVerb: boolean): void {
    const known = error instanceof CoordinateError ? error : null;
    if (known === null && !(error instanceof RpcError)) this.#options.onBug(error, method ?? "");
    const message = error instanceof RpcError || known !== null ? (error as Error).message : "Internal error";
    const to = new Writer();
    to.map(2).nameBytes("id").raw(id).nameBytes("error");
    to.map(isVerb ? 3 : 1);
    if (isVerb) {
      writeNaming(to.text("message"), message);
      to.text("code").text(known?.code ?? (error instanceof RpcError ? "bad_argument" : "internal"));
      writeNaming(to.text("value"), known?.value ?? message);
    } else to.text("message").text(message);
    this.#send(to.frame());
  }
}

const needsToken = (): CoordinateError =>
  badArgument(
    "token: required by this server; clients that cannot send one can use REST or another listener",
  );

/** Writes the text of an error. It may contain names of any bytes, so it is written like a name if that is possible. */
function writeNaming(to: Writer, text: string): void {
  try {
    to.name(text);
  } catch (error) {
    if (!isCoordinateError(error)) throw error;
    to.text(text);
  }
}

/** The caller of one request: its wait can be cancelled by the id of the request. */
class VerbCaller implements Caller {
  readonly #waits: Map<string, AbortController>;
  readonly #id: string;
  readonly #gone: AbortSignal;
  readonly isStopping: () => boolean;
  readonly #turn: RequestTurn;
  #wait: AbortController | undefined;

  constructor(
    waits: Map<string, AbortController>,
    id: Buffer,
    gone: AbortSignal,
    isStopping: () => boolean,
    turn: RequestTurn,
  ) {
    this.#waits = waits;
    this.#id = id.toString("latin1");
    this.#gone = gone;
    this.isStopping = isStopping;
    this.#turn = turn;
  }

  waiting(): AbortSignal {
    // it would replace the first one, which could then not be ended, not even with the connection
    if (this.#waits.has(this.#id)) throw badArgument("id: another request with this id is waiting");
    this.#wait = new AbortController();
    this.#waits.set(this.#id, this.#wait);
    if (this.hasHungUp() || this.isStopping()) this.#wait.abort();
    return this.#wait.signal;
  }

  turn(rows: number): Promise<void> | undefined {
    return this.#turn.take(rows, 0);
  }

  hasHungUp(): boolean {
    return this.#gone.aborted;
  }

  /** Called when the request is answered. The wait of another request with the same id goes on. */
  done(): void {
    if (this.#wait !== undefined) this.#waits.delete(this.#id);
  }
}

/** The maximum number of keys in an envelope; only three have a meaning. */
const maxKeys = 1000;
const envelopeKeys = ["id", "method", "params"] as const;

/** Reads the envelope. A message that is not a map cannot be answered and throws; any other problem is returned as `refusal`. */
function readRequest(frame: Buffer, refused: string | null): { request: Request; refusal: string | null } {
  let refusal = refused;
  const seen = new Set<string>();
  const envelope = new Item(frame, 0);
  const request: Request = { id: absent, method: null, params: undefined };
  if (envelope.kind !== "map") throw new MalformedError("not a map");
  let key: Item | null = null;
  let count = 0;
  envelope.each(
    (item) => {
      if (key === null) {
        key = item;
        if (++count > maxKeys) throw new MalformedError(`more than ${maxKeys} keys`);
        return true;
      }
      const name = envelopeKeys.find((one) => key?.isKey(one));
      key = null;
      if (name === undefined) return true;
      // a filter that checked the first one must not have let another one through
      if (seen.has(name)) refusal ??= `repeated key ${name}`;
      seen.add(name);
      if (name === "id") request.id = readId(item);
      else if (name === "method") request.method = readMethod(item);
      else request.params = item;
      return true;
    },
    refused === null ? itemEnd : refusedItemEnd,
  );
  return { request, refusal };
}

/** The id in its original encoding if the peer can read it, else null. */
function readId(item: Item): Buffer {
  const { kind } = item;
  if (kind === "string" && !item.isBytes && !isText(item)) return absent;
  return kind === "number" || kind === "string" || kind === "boolean" ? item.slice() : absent;
}

function isText(item: Item): boolean {
  try {
    item.text("id");
    return true;
  } catch {
    return false;
  }
}

function readMethod(item: Item): string | null {
  return item.kind === "string" ? item.content().toString("utf8") : null;
}

function readParams(params: Item | undefined, [min, max]: readonly [number, number]): Item[] {
  if (params?.kind !== "list")
    throw new RpcError(
      `don't understand params: ${params === undefined || params.isNull ? "None" : params.describe()}`,
    );
  const items = params.some(max);
  if (items.length < min || items.length > max) throw new RpcError("wrong number of parameters");
  return items;
}

/** As Go names methods: `get_work` is GetWork. */
function camelCase(name: string): string {
  const short = name.length > 200 ? `${name.slice(0, 200)}…` : name;
  return short
    .split("_")
    .map((part) => part.slice(0, 1).toUpperCase() + part.slice(1))
    .join("");
}
