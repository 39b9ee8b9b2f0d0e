/**
 * Earlier looks of a daemon at a namespace's candidates. A claim that follows soon after one is chosen from it, without a
 * look of its own: its statement checks that the look still leads to the same choice, and else claims nothing.
 */
import type { Candidates } from "../core/index.ts";
import type { Seen } from "./claims.ts";

/** How long a look is used, and how long none is remembered after one turned out not to hold: somebody is adding then. */
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
  /** Null once it was found not to hold. */
  readonly look: Look | null;
  /** By the process's own clock: until when the look is used, or none is remembered. */
  readonly until: number;
}

export class Looks {
  readonly #kept = new Map<string, Kept>();
  #count = 0;

  /** The look to choose from, if there is one. */
  usable(ns: string): Look | null {
    const kept = this.#kept.get(ns);
    return kept === undefined || kept.until < performance.now() ? null : kept.look;
  }

  /** The look of this number, as long as nothing contradicted it; a claim checks the rest. */
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

  /** A claim found that it does not hold. */
  refute(ns: string, number: number): void {
    if (this.find(ns, number) !== null)
      this.#kept.set(ns, { look: null, until: performance.now() + pauseMs });
  }

  delete(ns: string): void {
    this.#kept.delete(ns);
  }
}
