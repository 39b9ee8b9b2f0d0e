/** The work specs that a worker has met: their data for its tasks, read again now and then. */
import { decodeData, specTryLimit, type Clock, type Coordinate } from "../core/index.ts";
import type { TaskSpec } from "./task.ts";

/** A task may see the data of its work spec this long after it was changed. A read for every batch would double the requests. */
const freshMs = 1000;

export interface KnownSpec extends TaskSpec {
  readonly runtime: string;
  /** 0 is unlimited. */
  readonly maxGetwork: number;
  /** Tries of a unit that says nothing of its own; 0 is unlimited. */
  readonly tryLimit: number;
}

export class Specs {
  readonly #verbs: Coordinate;
  readonly #ns: string;
  readonly #clock: Clock;
  readonly #known = new Map<string, { readAt: number; spec: Promise<KnownSpec | null> }>();

  constructor(verbs: Coordinate, ns: string, clock: Clock) {
    this.#verbs = verbs;
    this.#ns = ns;
    this.#clock = clock;
  }

  /** Null when there is no such spec any more; `fresh` reads it now. Rejects as the verb does, and reads again the next time. */
  async get(name: string, fresh = false): Promise<KnownSpec | null> {
    const now = this.#clock.now();
    const known = this.#known.get(name);
    if (!fresh && known !== undefined && now - known.readAt < freshMs) return known.spec;
    const spec = this.#read(name);
    this.#known.set(name, { readAt: now, spec });
    try {
      return await spec;
    } catch (error) {
      if (this.#known.get(name)?.spec === spec) this.#known.delete(name);
      throw error;
    }
  }

  async #read(name: string): Promise<KnownSpec | null> {
    const [row] = await this.#verbs.getWorkSpecs(this.#ns, [name]);
    if (row === undefined || row === null) return null;
    const { runtime, maxGetwork } = row.meta;
    return { name, data: decodeData(row.data), runtime, maxGetwork, tryLimit: specTryLimit(row.meta) };
  }
}
