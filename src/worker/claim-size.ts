/**
 * How many units a claim asks for. Units travel together because a request costs more than a short task; but a worker should hold no more than
 * it begins soon, or other workers sit idle beside the units it holds.
 *
 * A claim that was filled and settled quickly doubles the next one. One whose units did not all begin soon enough makes it smaller in
 * proportion. What is quick and what is soon follows from how long units may be held. Pure: times are arguments.
 */
export interface Pace {
  /** A claim that is settled within this time makes the next one larger. */
  readonly quickMs: number;
  /** A claim whose units take longer than this to begin makes the next one smaller, so that it takes about `aimMs`. */
  readonly slowMs: number;
  readonly aimMs: number;
  /** What was claimed and has not begun is held this long at most. */
  readonly holdMs: number;
}

/** 60, 400 and 250 ms of the 800 that units are held by default. */
export const paceOf = (holdMs: number): Pace => ({
  quickMs: holdMs * 0.075,
  slowMs: holdMs / 2,
  aimMs: (holdMs * 5) / 16,
  holdMs,
});

/** A work spec counts for the size of claims this long after it was last claimed. */
const memoryMs = 10_000;

interface SpecSize {
  size: number;
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
   * The number to ask for; `free` runs could begin at once. Nobody knows which work spec the answer will be of: the slowest of those that were
   * claimed lately decides, so that a hundred units of it are not taken for a hundred quick ones.
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

  /** A claim of this work spec came. */
  claimed(spec: string, atLeast: number, now: number): void {
    const known = this.#specs.get(spec) ?? { size: this.#first, atLeast, seenAt: now };
    known.atLeast = atLeast;
    known.seenAt = now;
    this.#specs.set(spec, known);
    this.#latest = known;
  }

  /** Its last unit began, or was given back, this long after the claim. */
  begun(spec: string, ms: number): void {
    const known = this.#specs.get(spec);
    const { slowMs, aimMs } = this.#pace;
    if (known !== undefined && ms > slowMs) known.size = Math.max(1, Math.floor((known.size * aimMs) / ms));
  }

  /** All of its units are settled, this long after the first began. `full`: it had as many as were asked for. */
  settled(spec: string, count: number, full: boolean, ms: number): void {
    const known = this.#specs.get(spec);
    if (known !== undefined && full && ms < this.#pace.quickMs)
      known.size = Math.min(this.#max, Math.max(known.size, count) * 2);
  }
}
