/** The handle of a batch, by name: a group of units of any work specs. */
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

  /** Creates the batch, or changes the given fields: the unit that is made when it ends, and its parent batch. */
  async set(options: BatchOptions = {}): Promise<BatchRow> {
    const { verbs, ns } = this.#scope;
    return only(await verbs.setBatches(ns, [{ ...options, name: this.name }]));
  }

  /** Declares that no more units will be added: from now on the batch may end. */
  async seal(): Promise<BatchRow> {
    return this.set({ sealed: true });
  }

  /** The counts and the progress of the batch; null when it does not exist. */
  async get(): Promise<BatchRow | null> {
    const { verbs, ns } = this.#scope;
    return only(await verbs.getBatches(ns, [this.name]));
  }

  /** Cancels the units that have not ended; returns how many. */
  async cancel(): Promise<number> {
    const { verbs, ns } = this.#scope;
    return verbs.changeBatch(ns, this.name, "cancel");
  }

  /** Retries the failed units; returns how many. */
  async retry(): Promise<number> {
    const { verbs, ns } = this.#scope;
    return verbs.changeBatch(ns, this.name, "retry");
  }

  /** Deletes the batch but not its units. Returns false when there was none. */
  async delete(): Promise<boolean> {
    const { verbs, ns } = this.#scope;
    return only(await verbs.deleteBatches(ns, [this.name]));
  }
}
