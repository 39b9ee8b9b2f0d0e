/**
 * Maps the ids of one store to those of another. Ids are opaque: a store that allocates them in blocks may skip numbers. So the
 * comparison of two responses learns, wherever an id occurs, which two ids belong together. From then on the pair must not
 * change. The name of an attempt is the id of its unit and a number.
 */
export class Ids {
  readonly #units = new Pairing();
  readonly #specs = new Pairing();

  /** The response of the other store, with the memory store's ids of the same objects. */
  translated(got: unknown, expected: unknown): unknown {
    if (Array.isArray(got) && Array.isArray(expected))
      return got.map((one: unknown, i) => this.translated(one, expected[i]));
    if (!isPlain(got) || !isPlain(expected)) return got;
    const answer: Record<string, unknown> = {};
    for (const [key, value] of Object.entries(got)) {
      const theirs = expected[key];
      if (key === "id" && typeof value === "number" && typeof theirs === "number")
        answer[key] = ("meta" in got ? this.#specs : this.#units).learn(value, theirs);
      else if (typeof value === "string" && typeof theirs === "string" && namesAttempt(key, value, got))
        answer[key] = this.#attempt(value, theirs);
      else answer[key] = this.translated(value, theirs);
    }
    return answer;
  }

  /** The other store's name of an attempt. Unknown ids are the same in both stores. */
  attempt(name: string): string {
    const [unit = "", number = ""] = name.split(".");
    return `${this.#units.otherOf(Number(unit)) ?? unit}.${number}`;
  }

  #attempt(got: string, expected: string): string {
    const [a, b] = [attemptName.exec(got), attemptName.exec(expected)];
    if (a === null || b === null) return got;
    return `${this.#units.learn(Number(a[1]), Number(b[1]))}.${a[2]}`;
  }
}

const attemptName = /^(\d+)\.(\d+)$/;

/** Whether a value is the name of an attempt. The key decides, not the form: a unit may have a name like an attempt's. */
function namesAttempt(key: string, value: string, of: Record<string, unknown>): boolean {
  if (["id", "attempt", "origin"].includes(key)) return true;
  // the cursor of a page of attempts is the last attempt
  return (
    key === "next" && Array.isArray(of.rows) && (of.rows.at(-1) as { id?: unknown } | undefined)?.id === value
  );
}

const isPlain = (value: unknown): value is Record<string, unknown> =>
  typeof value === "object" &&
  value !== null &&
  !Array.isArray(value) &&
  Object.getPrototypeOf(value) === Object.prototype;

/** Pairs of numbers; each number is in one pair only. */
class Pairing {
  readonly #memory = new Map<number, number>();
  readonly #other = new Map<number, number>();

  /** The memory store's id for an id of the other store. A new id is paired with `memory`. */
  learn(other: number, memory: number): number {
    if (!this.#memory.has(other) && !this.#other.has(memory)) {
      this.#memory.set(other, memory);
      this.#other.set(memory, other);
    }
    // NaN for an id whose partner is already in another pair, so that the comparison fails
    return this.#memory.get(other) ?? NaN;
  }

  otherOf(memory: number): number | undefined {
    return this.#other.get(memory);
  }
}
