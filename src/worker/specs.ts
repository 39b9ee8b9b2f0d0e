/** A cache of the work specs whose units a worker has claimed, refreshed while in use. */
import { decodeData, specTryLimit, type Clock, type Coordinate } from "../core/index.ts";
import type { TaskSpec } from "./task.ts";

/** Cached work specs are valid this long, so a task may see outdated data. A read for every claim would double the requests. */
const freshMs = 1000;
/** Older entries are refreshed in the background when used, so that the units of a busy worker do not wait for the read. */
const renewMs = 500;

export interface KnownSpec extends TaskSpec {
  readonly runtime: string;
  /** 0 is unlimited. */
  readonly maxGetwork: number;
  /** The try limit of units without their own limit; 0 is unlimited. */
  readonly tryLimit: number;
}

interface Known {
  readonly readAt: number;
  readonly spec: Promise<KnownSpec | null>;
  /** A background read that will replace this entry is pending. */
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

  /** Null when the work spec was deleted; `fresh` bypasses the cache. Rejects as the verb does; errors are not cached. */
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

  /** Refreshes an entry in the background. Errors are ignored: once the entry is too old, the next `get` reads again and rejects. */
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
