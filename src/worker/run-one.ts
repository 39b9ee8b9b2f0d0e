/**
 * A worker that claims once, or until a limit, and stops. It is an ordinary worker over a wrapped coordinator that limits the
 * claims; units run and are settled as usual.
 */
import type { AttemptRequest, AttemptRow, Clock, Coordinate } from "../core/index.ts";
import { systemClock } from "../core/index.ts";
import { Namespace } from "../objects/index.ts";
import type { WorkerOptions } from "./options.ts";
import { Worker } from "./worker.ts";

export interface RunOneLimits {
  /** The most fetches that find work. With neither limit there is one fetch. */
  readonly count?: number;
  /** No fetch after this long. */
  readonly ms?: number;
}

export interface RunOneOutcome {
  /** Whether the last fetch found work. */
  readonly hadWork: boolean;
  readonly fetches: number;
}

export async function runOne(
  namespace: Namespace,
  options: WorkerOptions,
  limits: RunOneLimits = {},
): Promise<RunOneOutcome> {
  const clock = options.clock ?? systemClock();
  const fetches = new Fetches(limits, clock);
  const limited = new Namespace(fetches.limit(namespace.verbs), namespace.name);
  const worker = new Worker(limited, { ...options, concurrency: 1, ahead: false, pollMs: 1 });
  fetches.onEnd = () => void worker.stop();
  await worker.run();
  return { hadWork: fetches.hadWork, fetches: fetches.found };
}

class Fetches {
  readonly #limits: RunOneLimits;
  readonly #clock: Clock;
  readonly #began: number;
  found = 0;
  hadWork = false;
  onEnd: () => void = () => undefined;

  constructor(limits: RunOneLimits, clock: Clock) {
    this.#limits = limits;
    this.#clock = clock;
    this.#began = clock.now();
  }

  /** Wraps the coordinator: requests for work do not wait and stop at the limits. */
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
    if (!this.#mayFetch()) {
      this.onEnd();
      return [];
    }
    const rows = await verbs.requestAttempts(ns, asked);
    this.hadWork = rows.length > 0;
    if (this.hadWork) this.found += 1;
    else this.onEnd();
    return rows;
  }

  #mayFetch(): boolean {
    const { count, ms } = this.#limits;
    if (count === undefined && ms === undefined) return this.found < 1;
    return this.found < (count ?? Infinity) && this.#clock.now() - this.#began < (ms ?? Infinity);
  }
}
