/**
 * Large requests take turns. A page of a thousand units keeps the event loop for 10 ms, and its answer is half a
 * megabyte: a few hundred of those at once would hold everybody up for seconds, and fill the memory. So only a few run at a
 * time, and none while too many bytes of answers wait for their callers to read them. Those who wait go in the order of
 * what their connection has cost lately, so that a caller with one large request does not queue behind one
 * with a thousand. Small requests never wait.
 */
import type { Socket } from "node:net";
import { HeldBytes } from "./held-bytes.ts";

export interface LargeRequestOptions {
  /** Large requests that run at once; 2. */
  atOnce?: number;
  /** Bytes of answers that callers have not taken yet, over all connections; 128 MiB. */
  maxAnswerBytes?: number;
  now?: () => number;
}

/** A request is large from so many rows on, or so many bytes, or when its caller has cost so much lately. */
const largeRows = 100;
const largeBytes = 256 * 1024;
const costlyBytes = 4 * 1024 * 1024;

/** What the sockets of the operating system take at once is not counted: answers from this length on are. */
export const longAnswer = 16 * 1024;

/** What a connection has cost counts half after this time. */
const halfLifeMs = 5000;
/** A connection that is new may be anybody's. */
const newcomerCost = 256 * 1024;

/** The longest that a caller may take nothing of its answer; and the same while others wait for the memory. */
const stallMs = 30_000;
const stallUnderPressureMs = 1000;

/** Turns of the event loop, of about 0.1 ms, that a large request waits for connections to be accepted. */
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

  /** Waits for a turn. Whoever got it calls `leave`. */
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

  /** A connection was accepted. */
  connected(): void {
    this.#connected = true;
  }

  /**
   * Node accepts one connection in each turn of the event loop, and a large request makes a turn long: a thousand that
   * wait to be accepted would wait for as many large requests. So those are accepted first, a while of short turns.
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

  /** The turn of `enter`, around one piece of work. */
  async turn<Answer>(caller: object, work: () => Promise<Answer>): Promise<Answer> {
    await this.enter(caller);
    try {
      return await work();
    } finally {
      this.leave();
    }
  }

  /** The caller has sent or is sent so many bytes. */
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
   * An answer is on its way over this socket; the function returned says that it has been taken. A caller that
   * takes nothing of it is cut off: after half a minute, and after a second while others wait for the memory.
   */
  hold(socket: Socket, bytes: number): () => void {
    // an answer that is there has to be sent: it is counted even where it does not fit
    this.#answers.give(-bytes);
    this.#holders.add(socket);
    // a socket's own timer is reset whenever the peer takes something
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

function decayed({ bytes, at }: Cost, now: number): number {
  return bytes * 0.5 ** ((now - at) / halfLifeMs);
}
