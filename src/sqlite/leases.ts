/**
 * All leases in memory, a copy of table `lease`. One process owns the file, so the two cannot diverge. Settling then
 * needs no read, and finding expired leases or the leases of a worker needs no index that the hot path has to update.
 */
export interface Lease {
  readonly unit: number;
  readonly spec: number;
  readonly number: number;
  readonly worker: number;
  readonly start: number;
  readonly expiration: number;
  readonly late: boolean;
  /** The attempt has data of its own, which is in the table only. */
  readonly own: boolean;
  /** The unit's end sends a message to a queue, or counts in a batch. */
  readonly queued: boolean;
  /** The unit's partition. Undefined if it was claimed without partition rules, or the lease was loaded from the table. */
  readonly partition: string | undefined;
}

export class Leases {
  readonly #byUnit = new Map<number, Lease>();
  readonly #byWorker = new Map<number, Set<number>>();
  readonly #bySpec = new Map<number, Expirations>();

  get(unit: number): Lease | undefined {
    return this.#byUnit.get(unit);
  }

  /** Sets or removes the lease of a unit and returns the old one. A lease object is never changed, only replaced. */
  set(unit: number, lease: Lease | undefined): Lease | undefined {
    const old = this.#byUnit.get(unit);
    if (old !== undefined && old.worker !== lease?.worker) {
      const held = this.#byWorker.get(old.worker);
      held?.delete(unit);
      if (held?.size === 0) this.#byWorker.delete(old.worker);
    }
    // with its last lease the heap of a spec goes as well, so that nothing is kept of deleted specs
    if (old !== undefined && --this.#expirations(old.spec).live === 0) this.#bySpec.delete(old.spec);
    if (lease === undefined) {
      this.#byUnit.delete(unit);
      return old;
    }
    this.#byUnit.set(unit, lease);
    if (old?.worker !== lease.worker) {
      const held = this.#byWorker.get(lease.worker);
      if (held === undefined) this.#byWorker.set(lease.worker, new Set([unit]));
      else held.add(unit);
    }
    this.#expirations(lease.spec).add(lease);
    return old;
  }

  /** The units a worker holds, in no order. */
  heldBy(worker: number): ReadonlySet<number> {
    return this.#byWorker.get(worker) ?? none;
  }

  /** The lease of a spec that ends first. */
  first(spec: number): Lease | undefined {
    return this.#bySpec.get(spec)?.first((lease) => this.#byUnit.get(lease.unit) === lease);
  }

  /** The first leases of a spec that ended at or before `now`, in the order they ended. */
  ended(spec: number, now: number, limit: number): Lease[] {
    return this.#bySpec.get(spec)?.ended(now, limit, (lease) => this.#byUnit.get(lease.unit) === lease) ?? [];
  }

  clear(): void {
    this.#byUnit.clear();
    this.#byWorker.clear();
    this.#bySpec.clear();
  }

  get size(): number {
    return this.#byUnit.size;
  }

  values(): IterableIterator<Lease> {
    return this.#byUnit.values();
  }

  #expirations(spec: number): Expirations {
    let expirations = this.#bySpec.get(spec);
    if (expirations === undefined) this.#bySpec.set(spec, (expirations = new Expirations()));
    return expirations;
  }
}

const none: ReadonlySet<number> = new Set();

const before = (a: Lease, b: Lease): boolean =>
  a.expiration < b.expiration || (a.expiration === b.expiration && a.unit < b.unit);

type IsLive = (lease: Lease) => boolean;

/**
 * A binary heap with lazy deletion. A removed lease stays in the heap until it reaches the top, or until removed leases
 * are the majority. With leases of minutes for work of milliseconds, nearly all are removed long before they reach the top.
 */
class Expirations {
  live = 0;
  #heap: Lease[] = [];

  add(lease: Lease): void {
    this.live++;
    this.#push(lease);
  }

  first(isLive: IsLive): Lease | undefined {
    this.#clean(isLive);
    for (let lease = this.#heap[0]; lease !== undefined; lease = this.#heap[0]) {
      if (isLive(lease)) return lease;
      this.#pop();
    }
    return undefined;
  }

  ended(now: number, limit: number, isLive: IsLive): Lease[] {
    const found = new Set<Lease>();
    while (found.size < limit) {
      const lease = this.first(isLive);
      if (lease === undefined || lease.expiration > now) break;
      found.add(lease);
      this.#pop();
    }
    // put back: these leases are still live, and the heap drops a lease only after it was removed
    for (const lease of found) this.#push(lease);
    return [...found];
  }

  #clean(isLive: IsLive): void {
    if (this.#heap.length <= 2 * this.live + 1000) return;
    const live = [...new Set(this.#heap.filter(isLive))];
    live.sort((a, b) => a.expiration - b.expiration || a.unit - b.unit);
    this.#heap = live;
  }

  #push(lease: Lease): void {
    const heap = this.#heap;
    let at = heap.length;
    heap.push(lease);
    while (at > 0) {
      const parent = (at - 1) >> 1;
      const above = heap[parent]!;
      if (!before(lease, above)) break;
      heap[at] = above;
      at = parent;
    }
    heap[at] = lease;
  }

  #pop(): void {
    const heap = this.#heap;
    const last = heap.pop();
    if (last === undefined || heap.length === 0) return;
    let at = 0;
    for (;;) {
      let child = 2 * at + 1;
      if (child >= heap.length) break;
      if (child + 1 < heap.length && before(heap[child + 1]!, heap[child]!)) child++;
      if (!before(heap[child]!, last)) break;
      heap[at] = heap[child]!;
      at = child;
    }
    heap[at] = last;
  }
}
