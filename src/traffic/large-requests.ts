/**
 * Large requests take turns. A page of a thousand units blocks the event loop for 10 ms, and its answer is half a
 * megabyte: a few hundred of those at once would block all callers for seconds and fill the memory. So only a few run at
 * a time, and none while too many bytes of answers have not been read by their callers. Waiting requests are ordered by the
 * recent cost of their connection, so that a caller with one large request does not queue behind one with a thousand.
 * Small requests never wait. A request that waits for something takes its turn when it has its answer: two long polls
 * with a turn would block the large requests of all callers.
 */
import type { Socket } from "node:net";
import { HeldBytes } from "./held-bytes.ts";

export interface LargeRequestOptions {
  /** Large requests that run at once. Default 2. */
  atOnce?: number;
  /** Bytes of answers that callers have not read yet, over all connections. Default 128 MiB. */
  maxAnswerBytes?: number;
  now?: () => number;
}

/** A request is large above this many rows, or this many bytes, or if the recent cost of its caller is above this. */
const largeRows = 100;
const largeBytes = 256 * 1024;
const costlyBytes = 4 * 1024 * 1024;

/** Answers longer than this are counted. Shorter ones fit into the socket buffers of the operating system. */
export const longAnswer = 16 * 1024;

/** The cost of a connection halves in this time. */
const halfLifeMs = 5000;
/** The cost of a new connection, of which nothing is known. */
const newcomerCost = 256 * 1024;

/** How long a caller may read nothing of its answer, and how long while requests wait for memory. */
const stallMs = 30_000;
const stallUnderPressureMs = 1000;

/** The most turns of the event loop, of about 0.1 ms each, that a large request waits for connections to be accepted. */
const maxShortTurns = 500;

interface Cost {
  bytes: number;
  at: number;
}

interface Waiting {
  cost: number;
  start: () => void;
}

export class LargeRequests {
  readonly #atOnce: number;
  readonly #answers: HeldBytes;
  readonly #now: () => number;
  readonly #costs = new WeakMap<object, Cost>();
  readonly #waiting: Waiting[] = [];
  readonly #holders = new Set<Socket>();
  #running = 0;
  #connected = false;

  constructor(options: LargeRequestOptions = {}) {
    this.#atOnce = options.atOnce ?? 2;
    this.#answers = new HeldBytes(options.maxAnswerBytes ?? 128 * 1024 * 1024);
    this.#now = options.now ?? (() => performance.now());
  }

  isLarge(caller: object, rows: number, bytes: number): boolean {
    return rows > largeRows || bytes > largeBytes || this.#costOf(caller, 0) > costlyBytes;
  }

  /** Waits for a turn. The caller must call `leave` afterwards. */
  async enter(caller: object): Promise<void> {
    if (this.#waiting.length === 0 && this.#hasRoom()) this.#running += 1;
    else {
      const cost = this.#costOf(caller, newcomerCost);
      await new Promise<void>((start) => {
        const at = this.#waiting.findIndex((other) => other.cost > cost);
        this.#waiting.splice(at < 0 ? this.#waiting.length : at, 0, { cost, start });
        this.#relieve();
      });
    }
    await this.#untilAccepted();
  }

  /** Call when a connection was accepted. */
  connected(): void {
    this.#connected = true;
  }

  /**
   * Waits until no more connections are being accepted. Node accepts one connection per turn of the event loop, and a large
   * request makes a turn long: a thousand connections would wait for a thousand large requests.
   */
  async #untilAccepted(): Promise<void> {
    for (let turn = 0; this.#connected && turn < maxShortTurns; turn++) {
      this.#connected = false;
      await new Promise((resolve) => setImmediate(resolve));
    }
  }

  leave(): void {
    this.#running -= 1;
    this.#next();
  }

  /** The turn of a request that may be large. */
  turnOf(caller: object): RequestTurn {
    return new RequestTurn(this, caller);
  }

  /** Runs `work` between `enter` and `leave`. */
  async turn<Answer>(caller: object, work: () => Promise<Answer>): Promise<Answer> {
    await this.enter(caller);
    try {
      return await work();
    } finally {
      this.leave();
    }
  }

  /** Adds bytes that the caller sent or receives to its cost. */
  charge(caller: object, bytes: number): void {
    const now = this.#now();
    const cost = this.#costs.get(caller);
    if (cost === undefined) this.#costs.set(caller, { bytes, at: now });
    else {
      cost.bytes = decayed(cost, now) + bytes;
      cost.at = now;
    }
  }

  /**
   * Counts an answer that is being sent over this socket; call the returned function when it has been read. A caller that
   * reads nothing is disconnected after half a minute, or after a second while requests wait for memory.
   */
  hold(socket: Socket, bytes: number): () => void {
    // the answer exists and must be sent: it is counted even if it does not fit
    this.#answers.give(-bytes);
    this.#holders.add(socket);
    // the socket's timeout restarts whenever the peer reads something
    socket.setTimeout(this.#pressed ? stallUnderPressureMs : stallMs);
    let held = true;
    return () => {
      if (!held) return;
      held = false;
      this.#answers.give(bytes);
      this.#holders.delete(socket);
      this.#next();
    };
  }

  get #pressed(): boolean {
    return this.#answers.used >= this.#answers.max;
  }

  #hasRoom(): boolean {
    return this.#running < this.#atOnce && !this.#pressed;
  }

  #relieve(): void {
    if (!this.#pressed) return;
    for (const socket of this.#holders) socket.setTimeout(stallUnderPressureMs);
  }

  #next(): void {
    while (this.#waiting.length > 0 && this.#hasRoom()) {
      this.#running += 1;
      this.#waiting.shift()!.start();
    }
  }

  #costOf(caller: object, otherwise: number): number {
    const cost = this.#costs.get(caller);
    return cost === undefined ? otherwise : decayed(cost, this.#now());
  }
}

/** The turn of one request. A small request needs none. */
export class RequestTurn {
  readonly #large: LargeRequests;
  readonly #caller: object;
  #taken = false;

  constructor(large: LargeRequests, caller: object) {
    this.#large = large;
    this.#caller = caller;
  }

  /** Waits for the turn if so many rows or bytes make the request large. Undefined if there is nothing to wait for. */
  take(rows: number, bytes: number): Promise<void> | undefined {
    if (this.#taken || !this.#large.isLarge(this.#caller, rows, bytes)) return undefined;
    return this.#large.enter(this.#caller).then(() => void (this.#taken = true));
  }

  end(): void {
    if (!this.#taken) return;
    this.#taken = false;
    this.#large.leave();
  }
}

function decayed({ bytes, at }: Cost, now: number): number {
  return bytes * 0.5 ** ((now - at) / halfLifeMs);
}
