/**
 * What many ask at the same moment is asked once. While as many calls as allowed are under way, others gather, and the next
 * call carries all of them: one statement and one commit instead of many. Nobody waits who need not, and whoever is
 * answered is answered by a call that began after theirs.
 */
export class Merge<Item, Answer> {
  readonly #call: (items: readonly Item[]) => Promise<readonly Answer[]>;
  readonly #max: number;
  readonly #atOnce: number;
  readonly #waiting: { item: Item; resolve: (answer: Answer) => void; reject: (error: unknown) => void }[] =
    [];
  #running = 0;

  /** `call` answers each item in its place. */
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
