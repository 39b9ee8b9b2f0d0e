/**
 * The callers in this process that wait for work, for units to end or for messages. A store reports changes here once everybody can
 * see them. While no caller waits, that costs a look at a number.
 */
export class Watches {
  readonly #work = new Map<string, Set<() => void>>();
  readonly #units = new Map<number, Set<(unit: number) => void>>();
  readonly #queues = new Map<string, Set<() => void>>();

  watchWork(ns: string, wake: () => void): () => void {
    add(this.#work, ns, wake);
    return () => remove(this.#work, ns, wake);
  }

  watchEnds(units: readonly number[], wake: (unit: number) => void): () => void {
    for (const unit of units) add(this.#units, unit, wake);
    return () => {
      for (const unit of units) remove(this.#units, unit, wake);
    };
  }

  watchQueue(ns: string, queue: string, wake: () => void): () => void {
    const key = queueKey(ns, queue);
    add(this.#queues, key, wake);
    return () => remove(this.#queues, key, wake);
  }

  get isEmpty(): boolean {
    return this.#work.size + this.#units.size + this.#queues.size === 0;
  }

  /** Whether any caller waits for a unit; below, for a message. */
  get hasUnits(): boolean {
    return this.#units.size > 0;
  }

  get hasQueues(): boolean {
    return this.#queues.size > 0;
  }

  isWatched(unit: number): boolean {
    return this.#units.has(unit);
  }

  /** The watched units, in the order in which they were first watched. */
  units(): number[] {
    return [...this.#units.keys()];
  }

  queues(): { ns: string; queue: string }[] {
    return [...this.#queues.keys()].map((key) => {
      const [ns = "", queue = ""] = JSON.parse(key) as string[];
      return { ns, queue };
    });
  }

  /**
   * Reports that work may have become available; below, that a unit ended or was deleted, and that a message came. A needless
   * report only costs a look. Returns whether any caller waits for work in the namespace.
   */
  changed(ns: string): boolean {
    const waiting = this.#work.get(ns);
    if (waiting === undefined) return false;
    for (const wake of [...waiting]) wake();
    return true;
  }

  ended(unit: number): void {
    const waiting = this.#units.get(unit);
    if (waiting !== undefined) for (const wake of [...waiting]) wake(unit);
  }

  appended(ns: string, queue: string): void {
    const waiting = this.#queues.size === 0 ? undefined : this.#queues.get(queueKey(ns, queue));
    if (waiting !== undefined) for (const wake of [...waiting]) wake();
  }

  /** Units were deleted with their work spec, and which ones is not known: wakes all callers that wait for units. */
  allEnded(): void {
    for (const unit of this.units()) this.ended(unit);
  }
}

const queueKey = (ns: string, queue: string): string => JSON.stringify([ns, queue]);

function add<Key, Wake>(map: Map<Key, Set<Wake>>, key: Key, wake: Wake): void {
  const set = map.get(key);
  if (set === undefined) map.set(key, new Set([wake]));
  else set.add(wake);
}

function remove<Key, Wake>(map: Map<Key, Set<Wake>>, key: Key, wake: Wake): void {
  const set = map.get(key);
  set?.delete(wake);
  if (set?.size === 0) map.delete(key);
}
