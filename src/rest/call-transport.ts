/**
 * Short requests over one connection, as long as the server and whatever is between can do that; else, and for all others, requests
 * by themselves. See calls.ts for what travels.
 */
import type { ClientRequest, IncomingMessage } from "node:http";
import { callsPath, FrameReader, maxCallBytes, ready, writeFrame } from "./call-frames.ts";
import { callLines } from "./media.ts";
import { nodeTransport, wasSent, type Endpoint } from "./node-transport.ts";
import { TransportError, type Transport, type TransportAnswer, type TransportRequest } from "./transport.ts";

/** A server that can says so at once. A proxy that keeps back a body until it ends never would. */
const readyMs = 2000;

export function callTransport(endpoint: Endpoint): Transport {
  const single = nodeTransport(endpoint);
  /** The connection, or null where there cannot be one. */
  let opening: Promise<CallConnection | null> | null = null;
  let isClosed = false;

  const open = (headers: TransportRequest["headers"]): Promise<CallConnection | null> => {
    if (opening !== null) return opening;
    const forget = (): void => {
      if (opening === opened) opening = null;
    };
    const opened = openCalls(endpoint, headers, forget).then((connection) => {
      if (connection === "not now") forget();
      return connection instanceof CallConnection ? connection : null;
    });
    opening = opened;
    opened.catch(forget);
    return opened;
  };

  return {
    async send(asked) {
      if (!isShort(asked)) return single.send(asked);
      // A request that can be called off waits for something to come, and is not urgent: what else is to be done in this turn goes first.
      if (asked.signal !== undefined) await new Promise(setImmediate);
      if (isClosed) throw new TransportError("the client is closed", false);
      const connection = await open(asked.headers);
      return connection === null ? single.send(asked) : connection.send(asked);
    },
    close() {
      isClosed = true;
      opening?.then(
        (connection) => connection?.close(),
        () => undefined,
      );
      single.close();
    },
  };
}

const isShort = ({ method, body, stream }: TransportRequest): boolean =>
  method === "POST" && stream !== true && typeof body === "string" && body.length * 3 <= maxCallBytes;

/** "never" where the server does not know this, or something on the way keeps it from working. */
function openCalls(
  { start, target, base }: Endpoint,
  headers: TransportRequest["headers"],
  onClose: () => void,
): Promise<CallConnection | "never" | "not now"> {
  return new Promise((resolve, reject) => {
    const request = start({
      ...target,
      method: "POST",
      path: base + callsPath,
      headers: { ...headers, "content-type": callLines },
    });
    const timer = setTimeout(() => {
      resolve("never");
      request.destroy();
    }, readyMs);
    request.once("error", (error) => {
      clearTimeout(timer);
      reject(new TransportError(error.message, wasSent(request, error), { cause: error }));
    });
    request.once("response", (response) => {
      if (response.statusCode === 200) {
        const onReady = (connection: CallConnection): void => {
          clearTimeout(timer);
          resolve(connection);
        };
        new CallConnection(request, response, onReady, onClose);
        return;
      }
      clearTimeout(timer);
      // who may not, and when, is told to the request that was to be sent
      resolve([404, 405, 415, 501].includes(response.statusCode ?? 0) ? "never" : "not now");
      request.destroy();
    });
    request.flushHeaders();
  });
}

interface Waiting {
  readonly resolve: (answer: TransportAnswer) => void;
  readonly reject: (error: Error) => void;
}

class CallConnection {
  readonly #request: ClientRequest;
  readonly #reader = new FrameReader(Infinity);
  readonly #waiting = new Map<number, Waiting>();
  #onReady: ((connection: CallConnection) => void) | null;
  #last = 0;
  #out = "";
  #scheduled = false;
  #isClosed = false;

  constructor(
    request: ClientRequest,
    response: IncomingMessage,
    onReady: (connection: CallConnection) => void,
    onClose: () => void,
  ) {
    this.#request = request;
    this.#onReady = onReady;
    let failure = "the connection was closed";
    const note = (error: Error): void => void (failure = error.message);
    request.on("error", note);
    response.on("error", note);
    response.on("data", (chunk: Buffer) => this.#take(chunk));
    // the server says no more: what was not answered is asked again elsewhere
    response.once("end", () => request.destroy());
    request.once("close", () => {
      this.#isClosed = true;
      onClose();
      for (const { reject } of this.#waiting.values()) reject(new TransportError(failure, true));
      this.#waiting.clear();
    });
    request.socket?.setNoDelay(true);
    request.socket?.unref();
  }

  send({ path, body, timeoutMs, signal }: TransportRequest): Promise<TransportAnswer> {
    if (this.#isClosed) return Promise.reject(new TransportError("the connection was closed", false));
    const number = ++this.#last;
    return new Promise((resolve, reject) => {
      // what a wait has found by the time it is cancelled is still answered: no attempt is lost on the way
      const cancel = (): void => this.#write(`${number}\n`);
      const timer =
        timeoutMs > 0
          ? setTimeout(() => this.#request.destroy(new Error(`no answer within ${timeoutMs} ms`)), timeoutMs)
          : undefined;
      const done = (): void => {
        clearTimeout(timer);
        signal?.removeEventListener("abort", cancel);
        // an idle connection does not keep the process
        if (this.#waiting.size === 0) this.#request.socket?.unref();
      };
      if (this.#waiting.size === 0) this.#request.socket?.ref();
      this.#waiting.set(number, {
        resolve: (answer) => {
          done();
          resolve(answer);
        },
        reject: (error) => {
          done();
          reject(error);
        },
      });
      this.#write(writeFrame(`${number} ${path}`, typeof body === "string" ? body : ""));
      signal?.addEventListener("abort", cancel, { once: true });
      if (signal?.aborted === true) cancel();
    });
  }

  close(): void {
    this.#request.destroy();
  }

  /** Requests of one turn leave together. */
  #write(frame: string): void {
    this.#out += frame;
    if (this.#scheduled) return;
    this.#scheduled = true;
    process.nextTick(() => {
      this.#scheduled = false;
      const out = this.#out;
      this.#out = "";
      if (!this.#isClosed) this.#request.write(out);
    });
  }

  #take(chunk: Buffer): void {
    try {
      for (const { words, text } of this.#reader.push(chunk)) {
        if (this.#onReady === null) this.#answered(words, text);
        else if (words[0] === ready) {
          this.#onReady(this);
          this.#onReady = null;
        } else throw new Error("an answer that is none of Coordinate's");
      }
    } catch (error) {
      this.#request.destroy(error as Error);
    }
  }

  #answered([number, status]: readonly string[], text: string): void {
    const waiting = this.#waiting.get(Number(number));
    this.#waiting.delete(Number(number));
    waiting?.resolve(answerOf(Number(status), text));
  }
}

const answerOf = (status: number, text: string): TransportAnswer => ({
  status,
  header: () => undefined,
  text,
  chunks: nothing(),
});

async function* nothing(): AsyncGenerator<Uint8Array> {
  // the answer is in `text`
}
