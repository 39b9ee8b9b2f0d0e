/**
 * A sorted list: insert, remove, first and ranges in O(log n), and little memory (about 11 bytes an item).
 *
 * Items are kept in chunks of up to 512, each sorted, the chunks in order. Finding is a binary search over the
 * chunks, then within one; a change moves at most one chunk's items. Both ends are tried first, because queues
 * are mostly worked on there: drained at the front, filled at the back.
 */
const most = 512;

export class SortedList<Item> {
  readonly #compare: (a: Item, b: Item) => number;
  #chunks: Item[][] = [];
  #size = 0;

  /** `compare` must be a total order: two items are the same exactly when it answers 0. */
  constructor(compare: (a: Item, b: Item) => number) {
    this.#compare = compare;
  }

  get size(): number {
    return this.#size;
  }

  first(): Item | undefined {
    return this.#chunks[0]?.[0];
  }

  /** Adding what is there already changes nothing. */
  add(item: Item): void {
    const chunks = this.#chunks;
    const last = chunks.at(-1);
    if (last === undefined) {
      chunks.push([item]);
      this.#size++;
      return;
    }
    if (this.#compare(item, last.at(-1) as Item) > 0) {
      // a full chunk at the end stays full: units mostly arrive in order
      if (last.length < most) last.push(item);
      else chunks.push([item]);
      this.#size++;
      return;
    }
    const at = this.#chunkOf(item);
    const chunk = chunks[at]!;
    const index = this.#indexIn(chunk, item);
    if (index < chunk.length && this.#compare(chunk[index] as Item, item) === 0) return;
    chunk.splice(index, 0, item);
    this.#size++;
    if (chunk.length > most) chunks.splice(at + 1, 0, chunk.splice(most / 2));
  }

  /** Removes an item; false when it is not there. */
  remove(item: Item): boolean {
    const chunks = this.#chunks;
    const first = chunks[0];
    if (first === undefined) return false;
    let at = 0;
    let index = 0;
    if (this.#compare(first[0] as Item, item) !== 0) {
      at = this.#chunkOf(item);
      const chunk = chunks[at];
      if (chunk === undefined) return false;
      index = this.#indexIn(chunk, item);
      if (index === chunk.length || this.#compare(chunk[index] as Item, item) !== 0) return false;
    }
    const chunk = chunks[at]!;
    if (index === 0) chunk.shift();
    else if (index === chunk.length - 1) chunk.pop();
    else chunk.splice(index, 1);
    this.#size--;
    if (chunk.length === 0) {
      if (at === 0) chunks.shift();
      else chunks.splice(at, 1);
    } else if (chunk.length < most / 8) this.#merge(at);
    return true;
  }

  /** The items in order, from the first for which `after` is true on. `after` must be false, then true. */
  *from(after?: (item: Item) => boolean): Generator<Item> {
    const chunks = this.#chunks;
    let at = 0;
    let index = 0;
    if (after !== undefined) {
      at = lowest(chunks.length, (i) => after(chunks[i]!.at(-1) as Item));
      const chunk = chunks[at];
      if (chunk !== undefined) index = lowest(chunk.length, (i) => after(chunk[i] as Item));
    }
    for (; at < chunks.length; at++, index = 0) {
      const chunk = chunks[at]!;
      for (; index < chunk.length; index++) yield chunk[index] as Item;
    }
  }

  [Symbol.iterator](): Generator<Item> {
    return this.from();
  }

  /** The chunk that holds the item, or would; past the end when it is greater than all. */
  #chunkOf(item: Item): number {
    const chunks = this.#chunks;
    let low = 0;
    let high = chunks.length;
    while (low < high) {
      const middle = (low + high) >>> 1;
      const chunk = chunks[middle]!;
      if (this.#compare(chunk[chunk.length - 1] as Item, item) < 0) low = middle + 1;
      else high = middle;
    }
    return low;
  }

  #indexIn(chunk: Item[], item: Item): number {
    let low = 0;
    let high = chunk.length;
    while (low < high) {
      const middle = (low + high) >>> 1;
      if (this.#compare(chunk[middle] as Item, item) < 0) low = middle + 1;
      else high = middle;
    }
    return low;
  }

  /** Joins a chunk that became small with its neighbour, so that removing at random leaves no crumbs. */
  #merge(at: number): void {
    const left = at > 0 ? at - 1 : at;
    const a = this.#chunks[left];
    const b = this.#chunks[left + 1];
    if (a === undefined || b === undefined || a.length + b.length > most / 2) return;
    for (const item of b) a.push(item);
    this.#chunks.splice(left + 1, 1);
  }
}

/** The lowest index for which `test` is true, given that it is false, then true. */
function lowest(length: number, test: (index: number) => boolean): number {
  let low = 0;
  let high = length;
  while (low < high) {
    const middle = (low + high) >>> 1;
    if (test(middle)) high = middle;
    else low = middle + 1;
  }
  return low;
}
