/**
 * A cache of looks: what a daemon last read of the candidates of a namespace. A claim soon after a look is chosen from it,
 * without another one: the statement of the claim checks that the look still leads to the same choice, and otherwise claims
 * nothing.
 */
import type { Candidates } from "../core/index.ts";
import type { Seen } from "./claims.ts";

/** How long a look is used; and how long none is cached after one turned out to be outdated, since units are being added then. */
const usableMs = 1000;
const pauseMs = 100;
const maxNamespaces = 1000;

export interface Look {
  readonly number: number;
  /** What the claim checks. */
  readonly only: Seen;
  readonly answer: Candidates;
}

interface Kept {
  /** Null after a claim found it outdated. */
  readonly look: Look | null;
  /** Until when the look is used, or none is cached, by the process's monotonic clock. */
  readonly until: number;
}

export class LookCache {
  readonly #kept = new Map<string, Kept>();
  #count = 0;

  /** The look to choose from, if there is one. */
  usable(ns: string): Look | null {
    const kept = this.#kept.get(ns);
    return kept === undefined || kept.until < performance.now() ? null : kept.look;
  }

  /** The look with this number, if it is still cached and was not found outdated; a claim checks the rest. */
  find(ns: string, number: number): Look | null {
    const look = this.#kept.get(ns)?.look ?? null;
    return look?.number === number ? look : null;
  }

  remember(ns: string, only: Seen | null, answer: Candidates): void {
    const kept = this.#kept.get(ns);
    if (kept?.look === null && kept.until > performance.now()) return;
    if (only === null) {
      this.#kept.delete(ns);
      return;
    }
    if (this.#kept.size > maxNamespaces) this.#kept.clear();
    const look = { number: ++this.#count, only, answer };
    this.#kept.set(ns, { look, until: performance.now() + usableMs });
  }

  /** Drops a look that a claim found outdated. */
  refute(ns: string, number: number): void {
    if (this.find(ns, number) !== null)
      this.#kept.set(ns, { look: null, until: performance.now() + pauseMs });
  }

  delete(ns: string): void {
    this.#kept.delete(ns);
  }
}
