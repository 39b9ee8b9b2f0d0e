/**
 * Who waits for work, for units to end or for messages to come, in one process. A store that has one says what happened once it is
 * so for everybody; while nobody waits, that is a look at a number.
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

  /** Whether anybody waits for a unit, or for a message. */
  get hasUnits(): boolean {
    return this.#units.size > 0;
  }

  get hasQueues(): boolean {
    return this.#queues.size > 0;
  }

  isWatched(unit: number): boolean {
    return this.#units.has(unit);
  }

  /** What is waited for, in the order it was asked for. */
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
   * Work may have become available; a unit ended or is gone; a message came. Saying it once too often costs a look. Answers whether
   * anybody waits for work there.
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

  /** Units that nobody names are gone, with their work spec: everybody looks. */
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
