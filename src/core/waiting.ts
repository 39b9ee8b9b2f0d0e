/**
 * Waiting for work. A thousand idle workers must cost nothing, and one new unit must not wake them all: those who
 * ask for the same stand in one line, and only the first of a line looks. Who finds work, or gives up, lets the
 * next one look.
 */
import type { Clock } from "./clock.ts";

export class Waiting {
  readonly #clock: Clock;
  readonly #lines = new Map<string, Map<string, Line>>();
  readonly #versions = new Map<string, number>();
  #stopped = false;

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** Something may have become available: the first of every line in the namespace looks. */
  changed(ns: string): void {
    const lines = this.#lines.get(ns);
    if (lines === undefined) return;
    this.#versions.set(ns, this.version(ns) + 1);
    for (const line of lines.values()) line[0]?.abort();
  }

  /** Rises with every change while anybody waits: what was seen before it rose may be stale. */
  version(ns: string): number {
    return this.#versions.get(ns) ?? 0;
  }

  /** Nobody waits any longer: each is answered with nothing. */
  stop(): void {
    this.#stopped = true;
    for (const lines of this.#lines.values())
      for (const line of lines.values()) for (const place of [...line]) place.abort();
  }

  get size(): number {
    let size = 0;
    for (const lines of this.#lines.values()) for (const line of lines.values()) size += line.length;
    return size;
  }

  /** Calls `look` when its turn comes, again and again, until it finds something or the deadline has passed. */
  async line<Found>(
    ns: string,
    key: string,
    deadline: number,
    signal: AbortSignal | undefined,
    look: () => Promise<{ found: Found | null; again: number }>,
  ): Promise<Found | null> {
    const lines = this.#lines.get(ns) ?? new Map<string, Line>();
    this.#lines.set(ns, lines);
    const line = lines.get(key) ?? [];
    lines.set(key, line);
    let place = new AbortController();
    line.push(place);
    const giveUp = (): void => place.abort();
    const over = (): boolean => this.#stopped || signal?.aborted === true;
    signal?.addEventListener("abort", giveUp);
    try {
      for (;;) {
        let until = deadline;
        if (line[0] === place) {
          const version = this.version(ns);
          const { found, again } = await look();
          if (found !== null) return found;
          if (this.version(ns) !== version && this.#clock.now() < deadline && !over()) continue;
          until = Math.min(deadline, again);
        }
        if (this.#clock.now() >= deadline || over()) return null;
        await this.#clock.waitUntil(until, place.signal);
        if (over()) return null;
        if (place.signal.aborted) {
          const fresh = new AbortController();
          line[line.indexOf(place)] = fresh;
          place = fresh;
        }
      }
    } finally {
      signal?.removeEventListener("abort", giveUp);
      line.splice(line.indexOf(place), 1);
      line[0]?.abort();
      if (line.length === 0) lines.delete(key);
      if (lines.size === 0) {
        this.#lines.delete(ns);
        this.#versions.delete(ns);
      }
    }
  }
}

/** Who waits, in the order they came. To abort is to wake. */
type Line = AbortController[];
