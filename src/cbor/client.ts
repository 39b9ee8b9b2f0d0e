/**
 * Coordinate over the port of the old protocol. A program that has one does not know that it is not an engine: the
 * same verbs, the same rows, the same errors. One connection carries any number of requests at once. When it breaks,
 * it is made anew, and requests are sent again where that is safe (`verbs.ts` says which); where it is not, the
 * error is `unknown_outcome`.
 */
import { randomUUID } from "node:crypto";
import { createConnection, type Socket } from "node:net";
import { connect as connectTls, type ConnectionOptions as TlsConnectionOptions } from "node:tls";
import {
  CoordinateError,
  isErrorCode,
  type AttemptRequest,
  type AttemptRow,
  type Coordinate,
  type QueueMessage,
  type RequestOptions,
  type TakeOptions,
  type WaitOptions,
  type WorkUnitInput,
  type WorkUnitRow,
  type WorkSpecRef,
  type AddedWorkUnit,
} from "../core/index.ts";
import { FrameReader } from "./frame.ts";
import { Item } from "./item.ts";
import { scanWhole } from "./scan.ts";
import { cancelMethod, readValue, Reading, verbPrefix, verbs, writeValue, type Verb } from "./verbs.ts";
import { Writer } from "./write.ts";

export interface CborClientOptions {
  /** With it the connection is secured; `cert` and `key` show who the client is. */
  tls?: TlsConnectionOptions;
  /** To connect; 10 s. */
  connectMs?: number;
  /** How often a request is sent again, where that is safe; 4. */
  retries?: number;
  /** Before the second time; doubled each time, at most 5 s. 50 ms. */
  backoffMs?: number;
  /** The longest answer that is taken; 1 GiB. */
  maxFrameBytes?: number;
}

/** Connects to `host:port` or `unix:/path`. Fails with `unavailable` when nobody answers there. */
export async function connectCbor(address: string, options: CborClientOptions = {}): Promise<Coordinate> {
  const client = new CborClient(address, options);
  await client.connect();
  return client.coordinate;
}

interface Waiting {
  readonly resolve: (value: unknown) => void;
  readonly reject: (error: unknown) => void;
}

/** The connection broke before the answer came. */
class BrokenError extends Error {
  override readonly name = "BrokenError";
  /** Whether the request may have arrived. */
  readonly sent: boolean;

  constructor(message: string, sent: boolean) {
    super(message);
    this.sent = sent;
  }
}

const trusted = { maxBytes: Infinity, maxDepth: 1024 };

class CborClient {
  readonly #at: ReturnType<typeof readAddress>;
  readonly #options: CborClientOptions;
  readonly #waiting = new Map<number, Waiting>();
  #socket: Promise<Socket> | null = null;
  #id = 0;
  #closed = false;
  /** The verbs: those of which there is nothing to say are made from the table. */
  readonly coordinate: Coordinate;

  constructor(address: string, options: CborClientOptions) {
    this.#at = readAddress(address);
    this.#options = options;
    const plain = Object.fromEntries(
      (Object.keys(verbs) as Verb[]).map((verb) => [verb, (...args: unknown[]) => this.#ask(verb, args)]),
    ) as unknown as Coordinate;
    this.coordinate = {
      ...plain,
      deleteNamespace: async (ns) => {
        await this.#ask("deleteNamespace", [ns]);
      },
      clearLocks: async (ns, path) => {
        await this.#ask("clearLocks", [ns, path]);
      },
      addWorkUnits: (ns, ref, units, given) => this.#addWorkUnits(ns, ref, units, given),
      requestAttempts: (ns, request) => this.#requestAttempts(ns, request),
      awaitWorkUnits: (ns, ref, names, given) => this.#awaitWorkUnits(ns, ref, names, given),
      takeMessages: (ns, queue, given) => this.#takeMessages(ns, queue, given),
      close: () => this.#close(),
    };
  }

  async connect(): Promise<void> {
    await this.#connected().catch((error: unknown) => {
      throw new CoordinateError("unavailable", messageOf(error), { cause: error });
    });
  }

  #addWorkUnits(
    ns: string,
    ref: WorkSpecRef,
    units: readonly WorkUnitInput[],
    options: RequestOptions = {},
  ): Promise<AddedWorkUnit[]> {
    return this.#ask("addWorkUnits", [ns, ref, units, named(options)]) as Promise<AddedWorkUnit[]>;
  }

  async #requestAttempts(ns: string, request: AttemptRequest): Promise<AttemptRow[]> {
    const { signal, ...plain } = request;
    if (signal?.aborted === true) return [];
    return (await this.#ask("requestAttempts", [ns, named(plain)], signal)) as AttemptRow[];
  }

  async #awaitWorkUnits(
    ns: string,
    ref: WorkSpecRef,
    names: readonly string[],
    { signal, ...plain }: WaitOptions = {},
  ): Promise<(WorkUnitRow | null)[]> {
    type Rows = (WorkUnitRow | null)[];
    const given = signal?.aborted === true ? {} : plain;
    const rows = (await this.#ask("awaitWorkUnits", [ns, ref, names, given], signal)) as Rows;
    // the connection broke after the wait was ended: they are looked at once more
    if (rows.length === names.length || signal?.aborted !== true) return rows;
    return (await this.#ask("awaitWorkUnits", [ns, ref, names])) as Rows;
  }

  async #takeMessages(
    ns: string,
    queue: string,
    { signal, ...plain }: TakeOptions = {},
  ): Promise<QueueMessage[]> {
    const given = named(plain);
    const messages = (await this.#ask("takeMessages", [ns, queue, given], signal)) as QueueMessage[];
    if (messages.length > 0 || signal?.aborted !== true) return messages;
    // what was taken before the wait was ended, and not heard of, is told to who asks with the same id
    return (await this.#ask("takeMessages", [ns, queue, { ...given, waitMs: 0 }])) as QueueMessage[];
  }

  async #close(): Promise<void> {
    if (this.#closed) return;
    this.#closed = true;
    const socket = await this.#socket?.catch(() => null);
    this.#fail(new CoordinateError("closed"));
    socket?.destroy();
  }

  // ---- asking

  async #ask(verb: Verb, args: readonly unknown[], signal?: AbortSignal): Promise<unknown> {
    const { repeat } = verbs[verb];
    const retries = this.#options.retries ?? 4;
    for (let tries = 0; ; tries++) {
      if (this.#closed) throw new CoordinateError("closed");
      try {
        return await this.#once(verbPrefix + verb, args, signal);
      } catch (error) {
        if (!(error instanceof BrokenError)) throw error;
        if (this.#isClosed()) throw new CoordinateError("closed");
        if (error.sent && repeat === "never")
          throw new CoordinateError("unknown_outcome", error.message, { cause: error });
        if (signal?.aborted === true) return [];
        if (tries >= retries) throw new CoordinateError("unavailable", error.message, { cause: error });
        await new Promise((resolve) =>
          setTimeout(resolve, Math.min(5000, (this.#options.backoffMs ?? 50) * 2 ** tries)),
        );
      }
    }
  }

  /** Closing may happen during any await. */
  #isClosed(): boolean {
    return this.#closed;
  }

  async #once(method: string, args: readonly unknown[], signal?: AbortSignal): Promise<unknown> {
    const id = ++this.#id;
    const frame = writeRequest(id, method, args);
    const socket = await this.#connected().catch((error: unknown) => {
      throw new BrokenError(messageOf(error), false);
    });
    // what a wait has found by the time it is cancelled is still answered: no attempt is lost on the way
    const cancel = (): void => void this.#once(cancelMethod, [id]).catch(() => undefined);
    const answer = new Promise<unknown>((resolve, reject) => this.#waiting.set(id, { resolve, reject }));
    socket.write(frame);
    signal?.addEventListener("abort", cancel, { once: true });
    if (signal?.aborted === true) cancel();
    try {
      return await answer;
    } finally {
      signal?.removeEventListener("abort", cancel);
    }
  }

  // ---- the connection

  #connected(): Promise<Socket> {
    if (this.#closed) return Promise.reject(new CoordinateError("closed"));
    return (this.#socket ??= this.#open());
  }

  async #open(): Promise<Socket> {
    const { tls, connectMs = 10_000, maxFrameBytes = 1024 * 1024 * 1024 } = this.#options;
    const socket = tls === undefined ? createConnection(this.#at) : connectTls({ ...this.#at, ...tls });
    const broken = (error: Error | null): void => {
      this.#socket = null;
      this.#fail(new BrokenError(error?.message ?? "the connection was closed", true));
    };
    let failure: Error | null = null;
    try {
      await new Promise<void>((resolve, reject) => {
        const timer = setTimeout(
          () => socket.destroy(new Error(`no connection within ${connectMs} ms`)),
          connectMs,
        );
        socket.once(tls === undefined ? "connect" : "secureConnect", () => {
          clearTimeout(timer);
          resolve();
        });
        socket.on("error", (error: Error) => {
          clearTimeout(timer);
          failure = error;
          reject(error);
        });
      });
    } catch (error) {
      this.#socket = null;
      throw error;
    }
    socket.setNoDelay(true);
    const reader = new FrameReader(maxFrameBytes);
    socket.on("data", (chunk: Buffer) => {
      try {
        reader.push(chunk);
        for (let frame = reader.next(); frame !== null; frame = reader.next()) this.#answered(frame);
      } catch (error) {
        socket.destroy(error as Error);
      }
    });
    socket.on("close", () => broken(failure));
    return socket;
  }

  #fail(error: Error): void {
    const all = [...this.#waiting.values()];
    this.#waiting.clear();
    for (const { reject } of all) reject(error);
  }

  #answered(frame: Buffer): void {
    scanWhole(frame);
    const envelope = new Item(frame, 0);
    const id = envelope.get("id")?.number("id") ?? 0;
    const waiting = this.#waiting.get(id);
    if (waiting === undefined) return;
    this.#waiting.delete(id);
    try {
      const error = envelope.get("error");
      if (error !== undefined) throw readError(error);
      const result = envelope.get("result");
      waiting.resolve(result === undefined ? null : readValue(result, new Reading(trusted, null)));
    } catch (error) {
      waiting.reject(error);
    }
  }
}

function writeRequest(id: number, method: string, args: readonly unknown[]): Buffer {
  const to = new Writer();
  to.map(3).nameBytes("id").number(id).nameBytes("method").nameBytes(method).nameBytes("params");
  writeValue(to, args);
  return to.frame();
}

function readError(item: Item): Error {
  const message = item.get("message")?.text("message") ?? "no message";
  const code = item.get("code")?.text("code") ?? "";
  if (isErrorCode(code)) return new CoordinateError(code, item.get("value")?.text("value") ?? "");
  return new CoordinateError("not_supported", message);
}

/** So that it may be sent twice and is done once. */
function named<Options extends RequestOptions>(options: Options): Options {
  return options.requestId === undefined ? { ...options, requestId: randomUUID() } : options;
}

function readAddress(address: string): { path: string } | { host: string; port: number } {
  if (address.startsWith("unix:") && address.length > 5) return { path: address.slice(5) };
  const match = /^(?:\[([^\]]+)\]|([^:]+)):(\d{1,5})$/.exec(address);
  if (match === null)
    throw new CoordinateError("bad_argument", `address: expected host:port or unix:/path, got ${address}`);
  return { host: match[1] ?? match[2] ?? "", port: Number(match[3]) };
}

const messageOf = (error: unknown): string => (error instanceof Error ? error.message : String(error));
