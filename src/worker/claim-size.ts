/**
 * How many units a claim asks for. Units are claimed in batches because a request costs more than a short task; but a worker should
 * hold only units that begin soon, or other workers are idle while it holds the work.
 *
 * A claim that was full and settled quickly doubles the next one. A claim whose units did not all begin soon enough shrinks the next
 * one in proportion. Both thresholds are fractions of `holdMs`. Claims do not grow beyond the data of one request. Reads no clock: times
 * are arguments.
 */
import { maxRequestLength } from "../core/index.ts";

export interface Pace {
  /** A claim that is settled within this time makes the next one larger. */
  readonly quickMs: number;
  /** A claim whose units take longer than this to begin makes the next one smaller, so that it takes about `aimMs`. */
  readonly slowMs: number;
  readonly aimMs: number;
  /** Claimed units that have not begun are held at most this long. */
  readonly holdMs: number;
}

/** With the default `holdMs` of 800: 60, 400 and 250 ms. */
export const paceOf = (holdMs: number): Pace => ({
  quickMs: holdMs * 0.075,
  slowMs: holdMs / 2,
  aimMs: (holdMs * 5) / 16,
  holdMs,
});

/** A work spec influences the size of claims until this long after its last claim. */
const memoryMs = 10_000;

interface SpecSize {
  size: number;
  /** How many units like the last ones fit into one request: claims do not grow beyond this. Free slots may ask for more. */
  maxSize: number;
  atLeast: number;
  seenAt: number;
}

export class ClaimSizes {
  readonly #max: number;
  readonly #first: number;
  readonly #pace: Pace;
  readonly #specs = new Map<string, SpecSize>();
  #latest: SpecSize | null = null;

  constructor(max: number, pace: Pace, first = 1) {
    this.#max = max;
    this.#pace = pace;
    this.#first = first;
  }

  /**
   * The number of units to ask for; `free` runs could begin right now. Which work spec the answer will be of is not known, so the
   * smallest size of the recently claimed ones is used: a size that suits quick units would be too many slow ones.
   */
  number(now: number, free: number): number {
    let min = Infinity;
    for (const [name, spec] of this.#specs) {
      if (spec === this.#latest || now - spec.seenAt < memoryMs)
        min = Math.min(min, Math.max(spec.size, spec.atLeast));
      else this.#specs.delete(name);
    }
    const wanted = min === Infinity ? this.#first : min;
    return Math.min(this.#max, Math.max(1, free, wanted));
  }

  /** Records a claim of this work spec: of so many units, with data of this length. */
  claimed(spec: string, atLeast: number, now: number, count: number, length: number): void {
    const known = this.#specs.get(spec) ?? { size: this.#first, maxSize: Infinity, atLeast, seenAt: now };
    known.maxSize = Math.max(1, Math.floor((maxRequestLength * count) / length));
    known.size = Math.min(known.size, known.maxSize);
    known.atLeast = atLeast;
    known.seenAt = now;
    this.#specs.set(spec, known);
    this.#latest = known;
  }

  /** Records that the last unit of a claim began, or was released, this long after the claim. */
  begun(spec: string, ms: number): void {
    const known = this.#specs.get(spec);
    const { slowMs, aimMs } = this.#pace;
    if (known !== undefined && ms > slowMs) known.size = Math.max(1, Math.floor((known.size * aimMs) / ms));
  }

  /** Records that all units of a claim were settled, this long after the first began. `full`: the claim got as many as it asked for. */
  settled(spec: string, count: number, full: boolean, ms: number): void {
    const known = this.#specs.get(spec);
    if (known !== undefined && full && ms < this.#pace.quickMs)
      known.size = Math.min(this.#max, known.maxSize, Math.max(known.size, count) * 2);
  }
}
