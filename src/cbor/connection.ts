/**
 * One connection: requests in, answers out.
 *
 * Python's methods are served one after the other, in the order they came, as they always were. The verbs beside
 * them may wait for work, so each of these runs by itself and is answered when it is done. Nothing is read while the
 * peer does not take its answers, or while as many verbs run as one connection may have.
 */
import { Buffer } from "node:buffer";
import type { Socket } from "node:net";
import {
  checkArguments,
  CoordinateError,
  isVerb,
  serveVerb,
  signatures,
  type Caller,
} from "../core/index.ts";
import { RpcError, type Call, type Result } from "./call.ts";
import { FrameReader, type FrameBudget } from "./frame.ts";
import { Item } from "./item.ts";
import { methods } from "./methods.ts";
import { badArgument, itemEnd, MalformedError, refusedItemEnd, scanWhole } from "./scan.ts";
import { cancelMethod, readValue, Reading, verbPrefix, writeValue } from "./verbs.ts";
import { Writer } from "./write.ts";

export interface ConnectionLimits {
  /** The longest message that is taken, and that is sent. */
  readonly maxFrameBytes: number;
  /** Verbs that run at once. */
  readonly maxConcurrent: number;
  /** The longest silence within a message. */
  readonly stallMs: number;
}

export interface ConnectionOptions {
  readonly limits: ConnectionLimits;
  readonly budget: FrameBudget;
  readonly serveVerbs: boolean;
  /** A failure that nobody expected; the peer is told no more than that. */
  readonly onBug: (error: unknown, method: string) => void;
  /** The peer sent what is no request. */
  readonly onMalformed: (error: MalformedError) => void;
  /** Ends the connection without a word: how, the server knows. */
  readonly reset: () => void;
}

interface Request {
  /** As it came, to be given back so. */
  id: Buffer;
  method: string | null;
  params: Item | undefined;
}

const absent = Buffer.of(0xf6);

/** How long a peer that sent what is no request may take to read the answers to what it sent before. */
const farewellMs = 1000;

export class Connection {
  readonly #socket: Socket;
  readonly #call: Call;
  readonly #options: ConnectionOptions;
  readonly #reader: FrameReader;
  readonly #chunks: Buffer[] = [];
  readonly #gone = new AbortController();
  /** Requests that may be waiting, by id: these can be cancelled. */
  readonly #waits = new Map<string, AbortController>();
  #busy = false;
  #corked = false;
  #running = 0;
  /** Resolves what waits for a verb to end, for the peer to read, or for the connection to end. */
  #wake: () => void = () => undefined;
  #stopping = false;
  #idle: () => void = () => undefined;

  constructor(socket: Socket, call: Omit<Call, "gone">, options: ConnectionOptions) {
    this.#socket = socket;
    this.#call = { ...call, gone: this.#gone.signal };
    this.#options = options;
    this.#reader = new FrameReader(options.limits.maxFrameBytes, options.budget);
    socket.on("data", (chunk: Buffer) => this.#take(chunk));
    socket.on("drain", () => this.#wake());
    // a connection that breaks is an ordinary thing: what it asked for is carried out or given back
    socket.on("error", () => undefined);
    socket.on("timeout", () => this.#malformed(new MalformedError("nothing came within a message")));
    socket.on("close", () => this.#closed());
  }

  /** Takes no more requests; resolves when those that were taken are answered. Waits for work end with none. */
  async stop(): Promise<void> {
    this.#stopping = true;
    this.#socket.pause();
    for (const wait of this.#waits.values()) wait.abort();
    await this.settledDown();
  }

  /** Resolves when everything that was taken is answered. */
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

  #take(chunk: Buffer): void {
    this.#chunks.push(chunk);
    if (this.#busy) this.#socket.pause();
    else void this.#run();
  }

  /** Never rejects: what a request does wrong is answered, and what cannot be answered ends the connection. */
  async #run(): Promise<void> {
    this.#busy = true;
    try {
      while (!this.#stopping && !this.#gone.signal.aborted) {
        const frame = this.#reader.next();
        if (frame !== null) {
          await this.#serve(frame);
          if (this.#socket.writableNeedDrain || this.#running >= this.#options.limits.maxConcurrent)
            await this.#room();
          continue;
        }
        const chunk = this.#chunks.shift();
        if (chunk === undefined) break;
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
    this.#socket.setTimeout(this.#reader.partial ? this.#options.limits.stallMs : 0);
    this.#socket.resume();
  }

  async #room(): Promise<void> {
    while (
      !this.#gone.signal.aborted &&
      (this.#socket.writableNeedDrain || this.#running >= this.#options.limits.maxConcurrent)
    ) {
      await new Promise<void>((resolve) => (this.#wake = resolve));
    }
  }

  #settled(): void {
    if (!this.#busy && this.#running === 0) this.#idle();
  }

  /** Answers to what came before it go out first, unless the peer does not take them. */
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
    const { request, refusal } = readRequest(frame);
    const { method } = request;
    if (refusal === null && method?.startsWith(verbPrefix) === true && this.#options.serveVerbs) {
      if (method === cancelMethod) this.#cancel(request);
      else void this.#serveVerb(request, method, frame.length);
      return;
    }
    try {
      if (refusal !== null) throw badArgument(refusal);
      this.#answer(request, await this.#callMethod(request));
    } catch (error) {
      this.#refuse(request, error, false);
    }
  }

  async #callMethod({ method, params }: Request): Promise<Result> {
    if (method === null) throw new RpcError("no method");
    const found = methods.get(method);
    if (found === undefined) throw new RpcError(`no such method ${camelCase(method)}`);
    return found.run(this.#call, readParams(params, found.params));
  }

  // ---- verbs

  async #serveVerb(request: Request, method: string, frameBytes: number): Promise<void> {
    this.#running += 1;
    const caller = new VerbCaller(this.#waits, request.id, this.#gone.signal, () => this.#stopping);
    try {
      const verb = method.slice(verbPrefix.length);
      if (!isVerb(verb)) throw new RpcError(`no such method ${method}`);
      const { counts } = signatures[verb];
      const reading = new Reading(this.#call.settings.dataLimits, frameBytes);
      const args = readParams(request.params, counts).map((item) => readValue(item, reading));
      // what is left out at the end may be null on the wire
      while (args.length > counts[0] && args.at(-1) === null) args.pop();
      checkArguments(verb, args);
      const value = await serveVerb(this.#call.coordinate, verb, args, caller);
      this.#answer(request, (to) => writeValue(to, value));
    } catch (error) {
      if (!this.#gone.signal.aborted) this.#refuse(request, error, true);
    } finally {
      caller.done();
      this.#running -= 1;
      this.#wake();
      this.#settled();
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

  /** Answers of one turn leave together: a write for each of a hundred pipelined requests costs more than the request. */
  #send(frame: Buffer): void {
    if (!this.#corked) {
      this.#corked = true;
      this.#socket.cork();
      // after what else is done in this turn; requests that wait for a store end the turn, and hold nothing up
      process.nextTick(() => {
        this.#corked = false;
        this.#socket.uncork();
      });
    }
    this.#socket.write(frame);
  }

  /** The code of the error goes to callers of verbs; the old protocol has the message alone. */
  #refuse({ id, method }: Request, error: unknown, isVerb: boolean): void {
    const known = error instanceof CoordinateError ? error : null;
    if (known === null && !(error instanceof RpcError)) this.#options.onBug(error, method ?? "");
    const message = error instanceof RpcError || known !== null ? (error as Error).message : "Internal error";
    const to = new Writer();
    to.map(2).nameBytes("id").raw(id).nameBytes("error");
    to.map(isVerb ? 3 : 1);
    to.text("message").text(message);
    if (isVerb) {
      to.text("code").text(known?.code ?? (error instanceof RpcError ? "bad_argument" : "internal"));
      to.text("value").text(known?.value ?? message);
    }
    this.#send(to.frame());
  }
}

/** The peer, as one of its requests knows it: a wait can be cancelled by the request's id. */
class VerbCaller implements Caller {
  readonly #waits: Map<string, AbortController>;
  readonly #id: string;
  readonly #gone: AbortSignal;
  readonly isStopping: () => boolean;
  #wait: AbortController | undefined;

  constructor(waits: Map<string, AbortController>, id: Buffer, gone: AbortSignal, isStopping: () => boolean) {
    this.#waits = waits;
    this.#id = id.toString("latin1");
    this.#gone = gone;
    this.isStopping = isStopping;
  }

  waiting(): AbortSignal {
    this.#wait = new AbortController();
    this.#waits.set(this.#id, this.#wait);
    if (this.hasHungUp() || this.isStopping()) this.#wait.abort();
    return this.#wait.signal;
  }

  hasHungUp(): boolean {
    return this.#gone.aborted;
  }

  /** The request is answered; another that came with the same id goes on. */
  done(): void {
    if (this.#wait !== undefined && this.#waits.get(this.#id) === this.#wait) this.#waits.delete(this.#id);
  }
}

/** Keys of an envelope, of which three mean something. */
const mostKeys = 1000;

/** The envelope. A message that is no map cannot be answered. */
function readRequest(frame: Buffer): { request: Request; refusal: string | null } {
  const { refusal } = scanWhole(frame);
  const envelope = new Item(frame, 0);
  const request: Request = { id: absent, method: null, params: undefined };
  if (envelope.kind !== "map") throw new MalformedError("not a map");
  let key: Item | null = null;
  let count = 0;
  envelope.each(
    (item) => {
      if (key === null) {
        key = item;
        if (++count > mostKeys) throw new MalformedError(`more than ${mostKeys} keys`);
        return true;
      }
      if (key.isKey("id")) request.id = readId(item);
      else if (key.isKey("method")) request.method = readMethod(item);
      else if (key.isKey("params")) request.params = item;
      key = null;
      return true;
    },
    refusal === null ? itemEnd : refusedItemEnd,
  );
  return { request, refusal };
}

/** Given back as it came, if that is something that the peer could read again. */
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

function readParams(params: Item | undefined, [least, most]: readonly [number, number]): Item[] {
  if (params?.kind !== "list")
    throw new RpcError(
      `don't understand params: ${params === undefined || params.isNull ? "None" : params.describe()}`,
    );
  const items = params.some(most);
  if (items.length < least || items.length > most) throw new RpcError("wrong number of parameters");
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
