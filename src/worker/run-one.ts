/**
 * A worker that claims once, or until a limit, and stops. It is an ordinary worker over a wrapped coordinator that limits the
 * claims; units run and are settled as usual.
 */
import type { AttemptRequest, AttemptRow, Clock, Coordinate } from "../core/index.ts";
import { systemClock } from "../core/index.ts";
import { Namespace } from "../objects/index.ts";
import { readOptions, type WorkerOptions } from "./options.ts";
import { Worker } from "./worker.ts";

export interface RunOneLimits {
  /** The most fetches that find work. With neither limit there is one fetch. */
  readonly count?: number;
  /** No fetch after this long. */
  readonly ms?: number;
}

export interface RunOneOutcome {
  /** Whether the last fetch found work, for any of the runtimes. */
  readonly hadWork: boolean;
  readonly fetches: number;
}

export async function runOne(
  namespace: Namespace,
  options: WorkerOptions,
  limits: RunOneLimits = {},
): Promise<RunOneOutcome> {
  const clock = options.clock ?? systemClock();
  const fetches = new Fetches(limits, clock, readOptions(options).runtimes.length);
  const limited = new Namespace(fetches.limit(namespace.verbs), namespace.name);
  const worker = new Worker(limited, { ...options, concurrency: 1, ahead: false, pollMs: 1 });
  fetches.onEnd = () => void worker.stop();
  await worker.run();
  return { hadWork: fetches.hadWork, fetches: fetches.found };
}

/**
 * Limits the requests of a worker with one slot. The worker makes a request for each runtime while its slot is free. Together they
 * are one fetch: they are sent one after another until one finds work, and the fetch is empty when all were empty. Requests that
 * found nothing are answered only when the next fetch begins, or when they are aborted.
 */
class Fetches {
  readonly #limits: RunOneLimits;
  readonly #clock: Clock;
  readonly #began: number;
  readonly #runtimes: number;
  found = 0;
  hadWork = false;
  onEnd: () => void = () => undefined;
  /** Of the current fetch: the ids of its requests, whether one found work, and how many were empty. */
  readonly #ids = new Set<string | undefined>();
  #hasFound = false;
  #empty = 0;
  #waiting: (() => void)[] = [];
  #last: Promise<unknown> = Promise.resolve();

  constructor(limits: RunOneLimits, clock: Clock, runtimes: number) {
    this.#limits = limits;
    this.#clock = clock;
    this.#began = clock.now();
    this.#runtimes = runtimes;
  }

  /** Wraps the coordinator: requests for work do not wait for it and stop at the limits. */
  limit(verbs: Coordinate): Coordinate {
    const request = (ns: string, asked: AttemptRequest): Promise<AttemptRow[]> =>
      this.#request(verbs, ns, asked);
    return new Proxy(verbs, {
      get: (target, verb) => {
        if (verb === "requestAttempts") return request;
        const value: unknown = Reflect.get(target, verb);
        return typeof value === "function" ? (value as () => unknown).bind(target) : value;
      },
    });
  }

  async #request(
    verbs: Coordinate,
    ns: string,
    { waitMs: _waitMs, ...asked }: AttemptRequest,
  ): Promise<AttemptRow[]> {
    const { signal, requestId } = asked;
    // a new request says that the slot is free again, because what the fetch found has ended; a repeated one does not
    if (this.#hasFound && !this.#ids.has(requestId)) this.#next();
    for (;;) {
      const sent = this.#last.then(() => this.#send(verbs, ns, asked));
      // the worker repeats a failed request
      this.#last = sent.catch(() => undefined);
      const rows = await sent;
      if (rows.length > 0 || signal?.aborted === true) return rows;
      await this.#nextFetch(signal);
    }
  }

  async #send(verbs: Coordinate, ns: string, asked: AttemptRequest): Promise<AttemptRow[]> {
    this.#ids.add(asked.requestId);
    if (this.#hasFound || asked.signal?.aborted === true) return [];
    if (!this.#mayFetch()) {
      this.onEnd();
      return [];
    }
    const rows = await verbs.requestAttempts(ns, asked);
    if (rows.length > 0) {
      this.#hasFound = this.hadWork = true;
      this.found += 1;
    } else if (++this.#empty === this.#runtimes) {
      this.hadWork = false;
      this.onEnd();
    }
    return rows;
  }

  #next(): void {
    this.#ids.clear();
    this.#hasFound = false;
    this.#empty = 0;
    for (const resume of this.#waiting.splice(0)) resume();
  }

  /** Resolves when the next fetch begins or the signal aborts. */
  #nextFetch(signal: AbortSignal | undefined): Promise<void> {
    return new Promise((resolve) => {
      this.#waiting.push(resolve);
      signal?.addEventListener("abort", () => resolve(), { once: true });
    });
  }

  #mayFetch(): boolean {
    const { count, ms } = this.#limits;
    if (count === undefined && ms === undefined) return this.found < 1;
    return this.found < (count ?? Infinity) && this.#clock.now() - this.#began < (ms ?? Infinity);
  }
}
