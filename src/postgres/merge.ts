/**
 * Merges concurrent requests into one call. While `atOnce` calls are running, new requests are collected, and the next call
 * carries all of them: one statement and one commit instead of many. No request waits without need, and every request is answered
 * by a call that began after it.
 */
export class Merge<Item, Answer> {
  readonly #call: (items: readonly Item[]) => Promise<readonly Answer[]>;
  readonly #max: number;
  readonly #atOnce: number;
  readonly #waiting: { item: Item; resolve: (answer: Answer) => void; reject: (error: unknown) => void }[] =
    [];
  #running = 0;

  /** `call` returns the answers in the order of the items; a call has at most `max` items. */
  constructor(call: (items: readonly Item[]) => Promise<readonly Answer[]>, atOnce: number, max: number) {
    this.#call = call;
    this.#atOnce = atOnce;
    this.#max = max;
  }

  ask(item: Item): Promise<Answer> {
    return new Promise((resolve, reject) => {
      this.#waiting.push({ item, resolve, reject });
      if (this.#running < this.#atOnce) void this.#next();
    });
  }

  async #next(): Promise<void> {
    this.#running++;
    while (this.#waiting.length > 0) {
      const batch = this.#waiting.splice(0, this.#max);
      try {
        const answers = await this.#call(batch.map(({ item }) => item));
        batch.forEach(({ resolve }, i) => resolve(answers[i]!));
      } catch (error) {
        for (const { reject } of batch) reject(error);
      }
    }
    this.#running--;
  }
}

/** Claims and settles of more than this are not merged with others, so that several sessions share the work. */
export const few = 20;

/** A merge for each key, created on first use. All are dropped when there are too many; then only some requests are not merged. */
export class Merges<Item, Answer> {
  readonly #max: number;
  readonly #merges = new Map<string, Merge<Item, Answer>>();

  constructor(max: number) {
    this.#max = max;
  }

  /** Requests with the same key share calls: `call` must not depend on anything else. */
  ask(
    key: string,
    item: Item,
    call: (items: readonly Item[]) => Promise<readonly Answer[]>,
  ): Promise<Answer> {
    let merge = this.#merges.get(key);
    if (merge === undefined) {
      if (this.#merges.size > 1000) this.#merges.clear();
      this.#merges.set(key, (merge = new Merge(call, 1, this.#max)));
    }
    return merge.ask(item);
  }
}
