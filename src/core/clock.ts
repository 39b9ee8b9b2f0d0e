/**
 * Time and randomness, as arguments.
 *
 * The core never reads a clock, sets a timer or draws a random number by itself: the code that creates an engine passes
 * these in. Tests pass a clock that they move and a random source with a known seed, and so are deterministic.
 */
export interface Clock {
  /** Milliseconds since the Unix epoch. Never goes back. */
  now(): number;
  /** Resolves when `now()` has reached `time`, or at once when `signal` aborts. Never rejects. */
  waitUntil(time: number, signal?: AbortSignal): Promise<void>;
  /** Calls `ring` when `now()` has reached `time`, unless the returned function is called before. See `alarm`. */
  at?(time: number, ring: () => void): () => void;
}

/**
 * The clock's `at`, or the same by `waitUntil` if it has none. For timers that are nearly always cancelled: an AbortSignal for each
 * would cost more than all the rest.
 */
export function alarm(clock: Clock, time: number, ring: () => void): () => void {
  if (clock.at !== undefined) return clock.at(time, ring);
  const cancel = new AbortController();
  void clock.waitUntil(time, cancel.signal).then(() => {
    if (!cancel.signal.aborted) ring();
  });
  return () => cancel.abort("cancelled");
}

/** Waits until `work` has ended, at most `ms`. Returns whether it has. Never rejects. */
export async function endsWithin(clock: Clock, ms: number, work: Promise<unknown>): Promise<boolean> {
  const ended = new AbortController();
  const end = (): void => ended.abort();
  work.then(end, end);
  await clock.waitUntil(clock.now() + ms, ended.signal);
  return ended.signal.aborted;
}

/** A number from 0 (inclusive) to 1 (exclusive), as Math.random gives. */
export type Random = () => number;

/** Yields to the event loop: long work awaits this between its slices. */
export const nextTurn = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));

/** setTimeout takes at most 2^31-1 ms and fires at once above that; far times are waited for in steps. */
const longestTimer = 0x7fffffff;

/** How fast time passes while the clock is ahead of the wall clock. Timers and leases then last a ninth longer. */
const catchUpRate = 0.9;

/**
 * The machine's clock. When the wall clock steps back, time goes on a little slower, by the monotonic clock, until the wall clock has
 * caught up: if it stood still, all waits would take as much longer as the step was wide. The arguments are for tests.
 */
export function systemClock(
  wall: () => number = () => Date.now(),
  monotonic: () => number = () => performance.now(),
): Clock {
  let latest = 0;
  let wallThen = 0;
  let monotonicThen = 0;
  const now = (): number => {
    const time = wall();
    // most reads of a busy process end here: reading the monotonic clock, too, would double the cost
    if (time === wallThen) return Math.floor(latest);
    const elapsed = monotonic() - monotonicThen;
    latest = Math.max(time, latest + elapsed * catchUpRate);
    wallThen = time;
    monotonicThen += elapsed;
    return Math.floor(latest);
  };
  const waitUntil = async (time: number, signal?: AbortSignal): Promise<void> => {
    while (signal?.aborted !== true) {
      const left = time - now();
      if (left <= 0) return;
      await new Promise<void>((resolve) => {
        const done = (): void => {
          clearTimeout(timer);
          signal?.removeEventListener("abort", done);
          resolve();
        };
        const timer = setTimeout(done, Math.min(left, longestTimer));
        signal?.addEventListener("abort", done, { once: true });
      });
    }
  };
  const at = (time: number, ring: () => void): (() => void) => {
    const left = (): number => Math.max(0, Math.min(time - now(), longestTimer));
    const look = (): void => {
      if (now() >= time) ring();
      else timer = setTimeout(look, left());
    };
    let timer = setTimeout(look, left());
    return () => clearTimeout(timer);
  };
  return { now, waitUntil, at };
}

export const systemRandom: Random = Math.random;

/** A clock that moves only when a test moves it. `waitUntil` resolves when the time it waits for has been set. */
export class ManualClock implements Clock {
  #now: number;
  readonly #waits = new Set<{ time: number; wake: () => void }>();

  constructor(now = Date.UTC(2020, 0, 1)) {
    this.#now = now;
  }

  now(): number {
    return this.#now;
  }

  advance(ms: number): void {
    this.set(this.#now + ms);
  }

  set(time: number): void {
    this.#now = Math.max(this.#now, time);
    for (const wait of [...this.#waits]) if (wait.time <= this.#now) wait.wake();
  }

  /** How many callers wait for time to pass: tells a test that a long poll has begun to wait. */
  get waiting(): number {
    return this.#waits.size;
  }

  async waitUntil(time: number, signal?: AbortSignal): Promise<void> {
    if (time <= this.#now || signal?.aborted === true) return;
    await new Promise<void>((resolve) => {
      const wait = {
        time,
        wake: () => {
          this.#waits.delete(wait);
          signal?.removeEventListener("abort", wait.wake);
          resolve();
        },
      };
      this.#waits.add(wait);
      signal?.addEventListener("abort", wait.wake, { once: true });
    });
  }
}

/** A small seeded generator (mulberry32): the same seed draws the same numbers, on every machine. */
export function seededRandom(seed: number): Random {
  let state = seed >>> 0;
  return () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let t = state;
    t = Math.imul(t ^ (t >>> 15), t | 1);
    t ^= t + Math.imul(t ^ (t >>> 7), t | 61);
    return ((t ^ (t >>> 14)) >>> 0) / 4294967296;
  };
}
