/** A batch by its name: units of any work specs that belong together. */
import type { BatchInput, BatchRow } from "../core/index.ts";
import { only, type Scope } from "./scope.ts";

export type BatchOptions = Omit<BatchInput, "name">;

export class Batch {
  readonly name: string;
  readonly #scope: Scope;

  constructor(scope: Scope, name: string) {
    this.#scope = scope;
    this.name = name;
  }

  /** Makes the batch, or changes what is given: the unit that is made at its end, and the batch that it belongs to. */
  async set(options: BatchOptions = {}): Promise<BatchRow> {
    const { verbs, ns } = this.#scope;
    return only(await verbs.setBatches(ns, [{ ...options, name: this.name }]));
  }

  /** Says that nothing more will be added: from now on the batch may end. */
  async seal(): Promise<BatchRow> {
    return this.set({ sealed: true });
  }

  /** Its counts and how far it has come; null when there is no such batch. */
  async get(): Promise<BatchRow | null> {
    const { verbs, ns } = this.#scope;
    return only(await verbs.getBatches(ns, [this.name]));
  }

  /** Cancels the units that have not ended; answers how many. */
  async cancel(): Promise<number> {
    const { verbs, ns } = this.#scope;
    return verbs.changeBatch(ns, this.name, "cancel");
  }

  /** Has the units that failed done again; answers how many. */
  async retry(): Promise<number> {
    const { verbs, ns } = this.#scope;
    return verbs.changeBatch(ns, this.name, "retry");
  }

  /** Forgets the batch; its units stay. False when there was none. */
  async delete(): Promise<boolean> {
    const { verbs, ns } = this.#scope;
    return only(await verbs.deleteBatches(ns, [this.name]));
  }
}
