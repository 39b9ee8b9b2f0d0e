/**
 * A Coordinate client over the port of the old protocol. It behaves like an engine: the same verbs, the same rows, the same
 * errors. One connection carries any number of requests at once. When it breaks, the client reconnects and repeats requests where
 * that is safe (see `core/verbs.ts`); where it is not, the error is `unknown_outcome`.
 */
import { randomUUID } from "node:crypto";
import { createConnection, type Socket } from "node:net";
import { connect as connectTls, type ConnectionOptions as TlsConnectionOptions } from "node:tls";
import {
  answerMs,
  CoordinateError,
  isCoordinateError,
  isErrorCode,
  isRefusal,
  NoAnswer,
  systemRandom,
  verbsOver,
  type Coordinate,
  type Link,
  type OutgoingCall,
} from "../core/index.ts";
import { FrameReader } from "./frame.ts";
import { Item } from "./item.ts";
import { scanWhole } from "./scan.ts";
import { authenticateMethod, cancelMethod, readValue, Reading, verbPrefix, writeValue } from "./verbs.ts";
import { Writer } from "./write.ts";

export interface CborClientOptions {
  /** Secures the connection with TLS; `cert` and `key` identify the client. */
  tls?: TlsConnectionOptions;
  /** Sent to the server each time the client connects. */
  token?: string;
  /** The connect timeout; 10 s by default. */
  connectMs?: number;
  /**
   * How long the server may send nothing while a request waits for its answer, in addition to the time that the request asks to wait;
   * 30 s by default. The client then connects again.
   */
  timeoutMs?: number;
  /** How often a request is sent again, where that is safe; 4 by default. */
  retries?: number;
  /** The delay before the first retry; doubles each time, up to 5 s. 50 ms by default. */
  backoffMs?: number;
  /** The longest answer that is accepted; 1 GiB by default. */
  maxFrameBytes?: number;
}

/** Connects to `host:port` or `unix:/path`. Fails with `unavailable` when no server answers. */
export async function connectCbor(address: string, options: CborClientOptions = {}): Promise<Coordinate> {
  const link = new CborLink(address, options);
  await link.connect();
  return { ...verbsOver(link), close: () => link.close() };
}

interface Waiting {
  readonly resolve: (value: unknown) => void;
  readonly reject: (error: unknown) => void;
  /** Ends the connection if the server sends nothing. */
  timer: NodeJS.Timeout;
}

const trusted = { maxBytes: Infinity, maxDepth: 1024 };

class CborLink implements Link {
  readonly random = systemRandom;
  readonly newId = randomUUID;
  readonly retries: number;
  readonly backoffMs: number;
  readonly longestWaitMs = 600_000;
  readonly #timeoutMs: number;
  readonly #at: ReturnType<typeof readAddress>;
  readonly #options: CborClientOptions;
  readonly #waiting = new Map<number, Waiting>();
  #socket: Promise<Socket> | null = null;
  /** When the server last sent anything. */
  #heard = 0;
  #id = 0;
  #closed = false;

  constructor(address: string, options: CborClientOptions) {
    this.#at = readAddress(address);
    this.#options = options;
    this.retries = options.retries ?? 4;
    this.backoffMs = options.backoffMs ?? 50;
    this.#timeoutMs = options.timeoutMs ?? 30_000;
  }

  async connect(): Promise<void> {
    await this.#connected().catch((error: unknown) => {
      if (isRefusal(error)) throw error;
      throw new CoordinateError("unavailable", messageOf(error), { cause: error });
    });
  }

  async close(): Promise<void> {
    if (this.#closed) return;
    this.#closed = true;
    const socket = await this.#socket?.catch(() => null);
    this.#fail(new CoordinateError("closed"));
    socket?.destroy();
  }

  // ---- asking

  send(call: OutgoingCall): Promise<unknown> {
    const { verb, args, signal } = call;
    return this.#once(verbPrefix + verb, args, answerMs(call, this.#timeoutMs), signal);
  }

  isClosed(): boolean {
    return this.#closed;
  }

  pause(ms: number): Promise<void> {
    return new Promise((resolve) => setTimeout(resolve, ms));
  }

  async #once(
    method: string,
    args: readonly unknown[],
    timeoutMs: number,
    signal?: AbortSignal,
  ): Promise<unknown> {
    const id = ++this.#id;
    const frame = writeRequest(id, method, args);
    const socket = await this.#connected().catch((error: unknown) => {
      if (isRefusal(error)) throw error;
      throw new NoAnswer(messageOf(error), false);
    });
    // a cancelled wait still answers with what it has found by then, so that no attempt is lost
    const cancel = (): void => void this.#once(cancelMethod, [id], this.#timeoutMs).catch(() => undefined);
    const answer = this.#ask(socket, id, frame, timeoutMs);
    signal?.addEventListener("abort", cancel, { once: true });
    if (signal?.aborted === true) cancel();
    try {
      return await answer;
    } finally {
      signal?.removeEventListener("abort", cancel);
    }
  }

  #ask(socket: Socket, id: number, frame: Buffer, timeoutMs: number): Promise<unknown> {
    const sent = performance.now();
    return new Promise<unknown>((resolve, reject) => {
      const look = (): void => {
        const left = timeoutMs - (performance.now() - Math.max(sent, this.#heard));
        if (left > 0) waiting.timer = setTimeout(look, left);
        else socket.destroy(new Error(`no answer within ${timeoutMs} ms`));
      };
      const waiting = { resolve, reject, timer: setTimeout(look, timeoutMs) };
      this.#waiting.set(id, waiting);
      socket.write(frame);
    });
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
      this.#fail(new NoAnswer(error?.message ?? "the connection was closed", true, { cause: error }));
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
      this.#heard = performance.now();
      try {
        reader.push(chunk);
        for (let frame = reader.next(); frame !== null; frame = reader.next()) this.#answered(frame);
      } catch (error) {
        socket.destroy(error as Error);
      }
    });
    socket.on("close", () => broken(failure));
    await this.#authenticate(socket);
    return socket;
  }

  async #authenticate(socket: Socket): Promise<void> {
    const { token } = this.#options;
    if (token === undefined) return;
    const id = ++this.#id;
    try {
      await this.#ask(socket, id, writeRequest(id, authenticateMethod, [token]), this.#timeoutMs);
    } catch (error) {
      // a server without this method requires no token
      if (isCoordinateError(error, "bad_argument") && error.value.startsWith("no such method")) return;
      socket.destroy();
      throw error;
    }
  }

  #fail(error: Error): void {
    const all = [...this.#waiting.values()];
    this.#waiting.clear();
    for (const { reject, timer } of all) {
      clearTimeout(timer);
      reject(error);
    }
  }

  #answered(frame: Buffer): void {
    scanWhole(frame);
    const envelope = new Item(frame, 0);
    const id = envelope.get("id")?.number("id") ?? 0;
    const waiting = this.#waiting.get(id);
    if (waiting === undefined) return;
    this.#waiting.delete(id);
    clearTimeout(waiting.timer);
    try {
      const error = envelope.get("error");
      if (error !== undefined) throw undone(readError(error));
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

/** A server that is about to stop refuses with `closed` and has done nothing: the call is sent again. */
const undone = (error: Error): Error =>
  isCoordinateError(error, "closed") ? new NoAnswer(error.message, false, { refusal: error }) : error;

function readAddress(address: string): { path: string } | { host: string; port: number } {
  if (address.startsWith("unix:") && address.length > 5) return { path: address.slice(5) };
  const match = /^(?:\[([^\]]+)\]|([^:]+)):(\d{1,5})$/.exec(address);
  if (match === null)
    throw new CoordinateError("bad_argument", `address: expected host:port or unix:/path, got ${address}`);
  return { host: match[1] ?? match[2] ?? "", port: Number(match[3]) };
}

const messageOf = (error: unknown): string => (error instanceof Error ? error.message : String(error));
