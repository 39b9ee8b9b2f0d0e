/** Counts how many random operations take effect, by kind: tests whose operations are mostly refused find nothing. */
import assert from "node:assert/strict";

export class Measure {
  readonly #counts = new Map<string, { asked: number; accepted: number }>();

  note(kind: string, accepted: number, asked: number): void {
    const count = this.#counts.get(kind) ?? { asked: 0, accepted: 0 };
    count.asked += asked;
    count.accepted += accepted;
    this.#counts.set(kind, count);
  }

  /**
   * Fails when the accepted share of a kind is below its floor by more than four standard deviations. Kinds with fewer than `min`
   * operations are not checked.
   */
  check(floors: ReadonlyMap<string, number>, min = 300): void {
    const low = [...floors].flatMap(([kind, floor]) => {
      const { asked, accepted } = this.#counts.get(kind) ?? { asked: 0, accepted: 0 };
      const chance = 4 * Math.sqrt(floor * (1 - floor) * asked);
      return asked >= min && accepted < floor * asked - chance
        ? [`${kind}: ${accepted} of ${asked} were accepted, ${floor * 100} % are expected`]
        : [];
    });
    assert.deepEqual(low, []);
  }

  toString(): string {
    return [...this.#counts]
      .map(
        ([kind, { asked, accepted }]) =>
          `${kind} ${accepted}/${asked} ${Math.round((100 * accepted) / asked)} %`,
      )
      .join("\n");
  }
}
