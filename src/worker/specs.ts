/** The work specs that a worker has met: their data for its tasks, read again now and then. */
import { decodeData, specTryLimit, type Clock, type Coordinate } from "../core/index.ts";
import type { TaskSpec } from "./task.ts";

/** A task may see the data of its work spec this long after it was changed. A read for every claim would double the requests. */
const freshMs = 1000;
/** What was read longer ago is read again while it is used, so that the units of a busy worker do not wait for it. */
const renewMs = 500;

export interface KnownSpec extends TaskSpec {
  readonly runtime: string;
  /** 0 is unlimited. */
  readonly maxGetwork: number;
  /** Tries of a unit that says nothing of its own; 0 is unlimited. */
  readonly tryLimit: number;
}

interface Known {
  readonly readAt: number;
  readonly spec: Promise<KnownSpec | null>;
  /** A read that will replace it is under way. */
  isRenewed: boolean;
}

export class Specs {
  readonly #verbs: Coordinate;
  readonly #ns: string;
  readonly #clock: Clock;
  readonly #known = new Map<string, Known>();

  constructor(verbs: Coordinate, ns: string, clock: Clock) {
    this.#verbs = verbs;
    this.#ns = ns;
    this.#clock = clock;
  }

  /** Null when there is no such spec any more; `fresh` reads it now. Rejects as the verb does, and reads again the next time. */
  async get(name: string, fresh = false): Promise<KnownSpec | null> {
    const now = this.#clock.now();
    const known = this.#known.get(name);
    if (!fresh && known !== undefined && now - known.readAt < freshMs) {
      if (now - known.readAt >= renewMs && !known.isRenewed) this.#renew(name, known);
      return known.spec;
    }
    const spec = this.#read(name);
    this.#known.set(name, { readAt: now, spec, isRenewed: false });
    try {
      return await spec;
    } catch (error) {
      if (this.#known.get(name)?.spec === spec) this.#known.delete(name);
      throw error;
    }
  }

  /** What fails here is read, and reported, by the next that needs it. */
  #renew(name: string, known: Known): void {
    known.isRenewed = true;
    const readAt = this.#clock.now();
    this.#read(name).then(
      (spec) => {
        if (this.#known.get(name) === known)
          this.#known.set(name, { readAt, spec: Promise.resolve(spec), isRenewed: false });
      },
      () => undefined,
    );
  }

  async #read(name: string): Promise<KnownSpec | null> {
    const [row] = await this.#verbs.getWorkSpecs(this.#ns, [name]);
    if (row === undefined || row === null) return null;
    const { runtime, maxGetwork } = row.meta;
    return { name, data: decodeData(row.data), runtime, maxGetwork, tryLimit: specTryLimit(row.meta) };
  }
}
