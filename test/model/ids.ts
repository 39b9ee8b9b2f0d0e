/**
 * Which id of one store is which of another. Ids are opaque: a store may leave numbers out, as one does that takes them by
 * the block. So the answers of two stores are compared by learning, at each place where an id stands, which two belong
 * together; from then on they must stay together. Names of attempts are the id of their unit and a number.
 */
export class Ids {
  readonly #units = new Pairing();
  readonly #specs = new Pairing();

  /** The other store's answer with the ids that the memory store has for the same things. */
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

  /** The other store's name for an attempt. What was never seen is the same for both. */
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

/** By where it stands, not by its look: a unit may be named like an attempt. */
function namesAttempt(key: string, value: string, of: Record<string, unknown>): boolean {
  if (["id", "attempt", "origin"].includes(key)) return true;
  // of a page of attempts, the last one
  return (
    key === "next" && Array.isArray(of.rows) && (of.rows.at(-1) as { id?: unknown } | undefined)?.id === value
  );
}

const isPlain = (value: unknown): value is Record<string, unknown> =>
  typeof value === "object" &&
  value !== null &&
  !Array.isArray(value) &&
  Object.getPrototypeOf(value) === Object.prototype;

/** Pairs of numbers, each of which is in one pair only. */
class Pairing {
  readonly #memory = new Map<number, number>();
  readonly #other = new Map<number, number>();

  /** The partner of the other store's id; a new one finds its partner here. */
  learn(other: number, memory: number): number {
    if (!this.#memory.has(other) && !this.#other.has(memory)) {
      this.#memory.set(other, memory);
      this.#other.set(memory, other);
    }
    // one whose partner is somebody else's must not look right by chance
    return this.#memory.get(other) ?? NaN;
  }

  otherOf(memory: number): number | undefined {
    return this.#other.get(memory);
  }
}
