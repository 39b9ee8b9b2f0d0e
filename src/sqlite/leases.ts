/**
 * What runs, in memory as well as in the table of leases: one process owns the file, so the two cannot drift apart.
 * Settling then need not read, and neither expiry nor "what does this worker hold" costs the hot path an index.
 */
export interface Lease {
  readonly unit: number;
  readonly spec: number;
  readonly number: number;
  readonly worker: number;
  readonly start: number;
  readonly expiration: number;
  readonly late: boolean;
  /** Its data is not the unit's: it stands in the table only. */
  readonly own: boolean;
  /** A queue is to hear of its unit's end. */
  readonly queued: boolean;
  /** The unit's, where it is known: of units that were handed out by partition. */
  readonly partition: string | undefined;
}

export class Leases {
  readonly #byUnit = new Map<number, Lease>();
  readonly #byWorker = new Map<number, Set<number>>();
  readonly #bySpec = new Map<number, Expirations>();

  get(unit: number): Lease | undefined {
    return this.#byUnit.get(unit);
  }

  /** Writes or removes what a unit has, and returns what it had. A lease is never changed, only replaced. */
  set(unit: number, lease: Lease | undefined): Lease | undefined {
    const old = this.#byUnit.get(unit);
    if (old !== undefined && old.worker !== lease?.worker) {
      const held = this.#byWorker.get(old.worker);
      held?.delete(unit);
      if (held?.size === 0) this.#byWorker.delete(old.worker);
    }
    if (old !== undefined) this.#expirations(old.spec).live--;
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

  forgetSpec(spec: number): void {
    this.#bySpec.delete(spec);
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
 * A binary heap. A lease that was replaced stays in it until it comes up or until such leases are the greater part:
 * with leases of minutes for work of milliseconds, nearly all are gone long before they come up.
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
    // only who takes a lease away takes it out of the heap
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
