/**
 * Sends short requests over one shared connection, in the frames that calls.ts describes. Long requests, and all requests where the
 * server or a proxy does not support this, go by HTTP as usual.
 */
import type { ClientRequest, IncomingMessage } from "node:http";
import { callsPath, FrameReader, maxCallBytes, ready, writeChunk, writeFrame } from "./call-frames.ts";
import { callsType } from "./media.ts";
import { nodeTransport, wasSent, type Endpoint } from "./node-transport.ts";
import { TransportError, type Transport, type TransportAnswer, type TransportRequest } from "./transport.ts";

/** The timeout of the server's first line. It comes at once, or never if a proxy buffers request bodies until they are complete. */
const readyMs = 2000;

/**
 * When to try again after that timeout: the server may only have been busy. Four times as long after each further timeout, since
 * behind such a proxy every try delays requests.
 */
const firstRetryMs = 60_000;

/** Half of the server's limit, so that the server never stops reading, and other requests and cancellations get through. */
const maxWaits = 512;

export function callTransport(endpoint: Endpoint): Transport {
  const single = nodeTransport(endpoint);
  /** The shared connection, or null where it is not supported. */
  let opening: Promise<CallConnection | null> | null = null;
  let isClosed = false;
  let retryMs = firstRetryMs;

  const open = (headers: TransportRequest["headers"]): Promise<CallConnection | null> => {
    if (opening !== null) return opening;
    const forget = (): void => {
      if (opening === opened) opening = null;
    };
    const opened = openCalls(endpoint, headers, forget).then((connection) => {
      if (connection === "not now") forget();
      if (connection === "late") {
        setTimeout(forget, retryMs).unref();
        retryMs *= 4;
      }
      return connection instanceof CallConnection ? connection : null;
    });
    opening = opened;
    opened.catch(forget);
    return opened;
  };

  return {
    async send(asked) {
      if (!isShort(asked)) return single.send(asked);
      // A request that can be cancelled waits for something: the rest of this turn of the event loop goes first.
      if (asked.signal !== undefined) await new Promise(setImmediate);
      if (isClosed) throw new TransportError("the client is closed", false);
      const connection = await open(asked.headers);
      return connection?.takes(asked) === true ? connection.send(asked) : single.send(asked);
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

/** "never": it is not supported here. "not now": the server refused it this time. "late": it did not answer in time. */
function openCalls(
  { start, target, base }: Endpoint,
  headers: TransportRequest["headers"],
  onClose: () => void,
): Promise<CallConnection | "never" | "not now" | "late"> {
  return new Promise((resolve, reject) => {
    const request = start({
      ...target,
      method: "POST",
      path: base + callsPath,
      headers: { ...headers, "content-type": callsType },
    });
    const timer = setTimeout(() => {
      resolve("late");
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
      // the request that wanted the connection goes by HTTP, and its caller sees why the server refuses
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
  readonly #onClose: () => void;
  #waits = 0;
  /** A request timed out on it: no new ones are sent, and it is closed when the others are answered. */
  #isRetired = false;
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
    this.#onClose = onClose;
    let failure = "the connection was closed";
    const note = (error: Error): void => void (failure = error.message);
    request.on("error", note);
    response.on("error", note);
    response.on("data", (chunk: Buffer) => this.#take(chunk));
    // the server has closed its side: unanswered requests are retried on another connection
    response.once("end", () => request.destroy());
    request.once("close", () => {
      this.#isClosed = true;
      onClose();
      const left = [...this.#waiting.values()];
      this.#waiting.clear();
      for (const { reject } of left) reject(new TransportError(failure, true));
    });
    request.socket?.setNoDelay(true);
    request.socket?.unref();
  }

  takes({ waits = false }: TransportRequest): boolean {
    return !waits || this.#waits < maxWaits;
  }

  send({ path, body, timeoutMs, waits = false, signal }: TransportRequest): Promise<TransportAnswer> {
    if (this.#isClosed) return Promise.reject(new TransportError("the connection was closed", false));
    const number = ++this.#last;
    return new Promise((resolve, reject) => {
      // the server still answers a cancelled wait with what it has found until then: no attempt is lost
      const cancel = (): void => this.#write(`${number}\n`);
      const timer =
        timeoutMs > 0 ? setTimeout(() => this.#timedOut(number, timeoutMs), timeoutMs) : undefined;
      const done = (): void => {
        clearTimeout(timer);
        signal?.removeEventListener("abort", cancel);
        if (waits) this.#waits -= 1;
        if (this.#waiting.size > 0 || this.#isClosed) return;
        // an idle connection does not keep the process running
        if (this.#isRetired) this.close();
        else this.#request.socket?.unref();
      };
      if (this.#waiting.size === 0) this.#request.socket?.ref();
      if (waits) this.#waits += 1;
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

  /** Only this request fails; new ones go over another connection, in case this one is dead. */
  #timedOut(number: number, timeoutMs: number): void {
    this.#isRetired = true;
    this.#onClose();
    const waiting = this.#waiting.get(number);
    this.#waiting.delete(number);
    waiting?.reject(new TransportError(`no answer within ${timeoutMs} ms`, true));
  }

  close(): void {
    this.#request.destroy();
  }

  /** Sends the requests of one turn of the event loop together. */
  #write(frame: string): void {
    this.#out += frame;
    if (this.#scheduled) return;
    this.#scheduled = true;
    process.nextTick(() => {
      this.#scheduled = false;
      const out = this.#out;
      this.#out = "";
      if (!this.#isClosed) this.#request.socket?.write(writeChunk(out));
    });
  }

  #take(chunk: Buffer): void {
    try {
      for (const { words, text } of this.#reader.push(chunk)) {
        if (this.#onReady === null) this.#answered(words, text);
        else if (words[0] === ready) {
          this.#onReady(this);
          this.#onReady = null;
        } else throw new Error("the server sent an unexpected answer; is it a Coordinate daemon?");
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
