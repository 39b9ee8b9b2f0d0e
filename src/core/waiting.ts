/**
 * Waiting for work. A thousand idle workers must cost nothing, and one new unit must not wake them all. Callers with the same
 * request stand in one line, and only the first of a line polls. When it finds work, or gives up, the next one polls.
 */
import type { Clock } from "./clock.ts";
import { Sleeper } from "./sleeper.ts";

export interface Wait<Found> {
  /** A change wakes the first of every line in the group. */
  group: string;
  line: string;
  deadline: number;
  signal: AbortSignal | undefined;
  /** Subscribes the group to changes; called when its first caller begins to wait, and undone after its last. */
  watch: (wake: () => void) => () => void;
  /** `again` is when to look again if nothing changes until then. */
  look: () => Promise<{ found: Found | null; again: number }>;
}

export class Waiting {
  readonly #clock: Clock;
  readonly #groups = new Map<string, Group>();
  #stopped = false;

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** Ends all waits: every caller gets null. */
  stop(): void {
    this.#stopped = true;
    for (const { lines } of this.#groups.values())
      for (const line of lines.values()) for (const place of line) place.wake();
  }

  get size(): number {
    let size = 0;
    for (const { lines } of this.#groups.values()) for (const line of lines.values()) size += line.length;
    return size;
  }

  /** Calls `look` again and again while first in line, until it finds something or the deadline has passed. */
  async wait<Found>(wait: Wait<Found>): Promise<Found | null> {
    const { deadline, signal, look } = wait;
    const group = this.#join(wait);
    const { lines } = group;
    const line = lines.get(wait.line) ?? [];
    lines.set(wait.line, line);
    const place = new Sleeper(this.#clock);
    line.push(place);
    const giveUp = (): void => place.wake();
    const over = (): boolean => this.#stopped || signal?.aborted === true;
    signal?.addEventListener("abort", giveUp);
    try {
      for (;;) {
        let until = deadline;
        if (line[0] === place) {
          const { version } = group;
          const { found, again } = await look();
          if (found !== null) return found;
          if (group.version !== version && this.#clock.now() < deadline && !over()) continue;
          until = Math.min(deadline, again);
        }
        if (this.#clock.now() >= deadline || over()) return null;
        await place.sleep(until);
        if (over()) return null;
      }
    } catch (error) {
      // the store may have been closed during a look
      if (this.#stopped) return null;
      throw error;
    } finally {
      signal?.removeEventListener("abort", giveUp);
      line.splice(line.indexOf(place), 1);
      line[0]?.wake();
      if (line.length === 0) lines.delete(wait.line);
      if (lines.size === 0) {
        this.#groups.delete(wait.group);
        group.unwatch();
      }
    }
  }

  #join<Found>({ group: name, watch }: Wait<Found>): Group {
    const known = this.#groups.get(name);
    if (known !== undefined) return known;
    const group: Group = { lines: new Map(), version: 0, unwatch: () => undefined };
    this.#groups.set(name, group);
    group.unwatch = watch(() => {
      group.version++;
      for (const line of group.lines.values()) line[0]?.wake();
    });
    return group;
  }
}

interface Group {
  lines: Map<string, Line>;
  /** Rises with every change: a `look` that began before may be stale. */
  version: number;
  unwatch: () => void;
}

/** The waiting callers, in the order they came. */
type Line = Sleeper[];
