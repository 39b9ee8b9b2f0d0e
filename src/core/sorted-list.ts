/**
 * A sorted list: insert, remove, first and ranges in O(log n), and little memory (about 11 bytes an item).
 *
 * Items are kept in chunks of up to 512, each sorted, the chunks in order. Finding is a binary search over the
 * chunks, then within one; a change moves at most one chunk's items. Both ends are tried first, because queues
 * are mostly worked on there: drained at the front, filled at the back.
 */
const max = 512;

/** A run of consecutive items. `note` is what the owner of the list tracks for each chunk. */
export interface Chunk<Item, Note> {
  items: Item[];
  note: Note;
}

/** Callbacks for lists that track their chunks. */
export interface ChunkKeeper<Item, Note> {
  /** The note of a chunk that holds exactly these items. */
  note(items: readonly Item[]): Note;
  added(item: Item, chunk: Chunk<Item, Note>): void;
  removed(item: Item, chunk: Chunk<Item, Note>): void;
  /** These items are in this chunk now, and its note was recomputed. */
  moved(items: readonly Item[], chunk: Chunk<Item, Note>): void;
}

export class SortedList<Item, Note = undefined> {
  readonly #compare: (a: Item, b: Item) => number;
  readonly #keeper: ChunkKeeper<Item, Note> | null;
  readonly #chunks: Chunk<Item, Note>[] = [];
  #size = 0;
  /** Where an item was found or removed last. Items mostly leave in the order they came, so the next one is often there. */
  #hintAt = 0;
  #hintIndex = 0;
  /** The chunk that an item was added to last: in a bulk add, the next item mostly goes there too. */
  #addedAt = 0;

  /** `compare` must be a total order: two items are the same exactly when it answers 0. */
  constructor(
    compare: (a: Item, b: Item) => number,
    ...keeper: Note extends undefined ? [] : [ChunkKeeper<Item, Note>]
  ) {
    this.#compare = compare;
    this.#keeper = keeper[0] ?? null;
  }

  get size(): number {
    return this.#size;
  }

  /** Only for lists without a keeper. */
  clear(): void {
    this.#chunks.length = 0;
    this.#size = 0;
  }

  first(): Item | undefined {
    return this.#chunks[0]?.items[0];
  }

  /** Adding an item that is in the list changes nothing. */
  add(item: Item): void {
    const chunks = this.#chunks;
    const last = chunks.at(-1);
    if (last === undefined || this.#compare(item, last.items.at(-1)!) > 0) {
      // a full chunk at the end stays full: items mostly arrive in order
      const chunk = last !== undefined && last.items.length < max ? last : this.#newChunk(chunks.length, []);
      chunk.items.push(item);
      this.#added(item, chunk);
      return;
    }
    const at = this.#isBetween(this.#addedAt, item) ? this.#addedAt : this.#chunkOf(item);
    const chunk = chunks[at]!;
    const { items } = chunk;
    const isLast = this.#compare(items[items.length - 1]!, item) < 0;
    const index = isLast ? items.length : this.#indexIn(items, item);
    if (!isLast && this.#compare(items[index]!, item) === 0) return;
    if (isLast) items.push(item);
    else items.splice(index, 0, item);
    this.#added(item, chunk);
    this.#addedAt = at;
    if (items.length <= max) return;
    // keep the chunk full if items arrive in order
    const from = isLast ? max : max / 2;
    const rest = this.#newChunk(at + 1, items.splice(from));
    if (index >= from) this.#addedAt++;
    this.#moved(chunk);
    this.#moved(rest);
  }

  /**
   * The item of a key; undefined when there is none. `order` is negative for items before the key, positive for items after it, and 0
   * for the one item of the key. Constant time for a key after all items, for one after the item added last, and for the next item.
   */
  find(order: (item: Item) => number): Item | undefined {
    if (this.#isBehindAdded(order)) return undefined;
    const next = this.#chunks[this.#hintAt]?.items[this.#hintIndex + 1];
    if (next !== undefined && order(next) === 0) {
      this.#hintIndex++;
      return next;
    }
    const item = this.firstFrom((one) => order(one) >= 0);
    if (item !== undefined && order(item) === 0) return item;
    // an item of this key is probably added now
    this.#addedAt = this.#hintAt;
    return undefined;
  }

  /** Whether a key is certainly new: it comes after all items, or between the chunk that was added to last and the next chunk. */
  #isBehindAdded(order: (item: Item) => number): boolean {
    const chunks = this.#chunks;
    const last = chunks.at(-1)?.items.at(-1);
    if (last === undefined || order(last) < 0) return true;
    const added = chunks[this.#addedAt]?.items.at(-1);
    const next = chunks[this.#addedAt + 1]?.items[0];
    return added !== undefined && next !== undefined && order(added) < 0 && order(next) > 0;
  }

  /** Whether the item belongs into this chunk, or between it and the next one. */
  #isBetween(at: number, item: Item): boolean {
    const chunk = this.#chunks[at];
    if (chunk === undefined || this.#compare(chunk.items[0]!, item) > 0) return false;
    const next = this.#chunks[at + 1];
    return next === undefined || this.#compare(item, next.items[0]!) < 0;
  }

  /** Removes an item; false when it is not there. */
  remove(item: Item): boolean {
    if (!this.#seek(item)) return false;
    const at = this.#hintAt;
    const index = this.#hintIndex;
    const chunk = this.#chunks[at]!;
    const { items } = chunk;
    if (index === 0) items.shift();
    else if (index < items.length - 128) items.splice(index, 1);
    else {
      // splice allocates an array for the removed item; for a short rest moving by hand is twice as fast
      for (let i = index + 1; i < items.length; i++) items[i - 1] = items[i]!;
      items.pop();
    }
    this.#size--;
    this.#keeper?.removed(item, chunk);
    if (items.length === 0) this.#chunks.splice(at, 1);
    else if (items.length < max / 8) this.#merge(at);
    return true;
  }

  /** The first and the last `count` items, in order; each once. */
  *ends(count: number): Generator<Item> {
    if (this.#size <= 2 * count) {
      yield* this.from();
      return;
    }
    let left = count;
    for (const item of this.from()) {
      if (left-- === 0) break;
      yield item;
    }
    const last: Item[] = [];
    for (let at = this.#chunks.length - 1; at >= 0 && last.length < count; at--)
      last.unshift(...this.#chunks[at]!.items.slice(-(count - last.length)));
    yield* last;
  }

  /** The first item for which `after` is true; `after` must be false, then true. */
  firstFrom(after: (item: Item) => boolean): Item | undefined {
    const chunks = this.#chunks;
    this.#hintAt = lowest(chunks.length, (i) => after(chunks[i]!.items.at(-1)!));
    const items = chunks[this.#hintAt]?.items ?? [];
    this.#hintIndex = lowest(items.length, (i) => after(items[i]!));
    return items[this.#hintIndex];
  }

  /** The item after this one; constant time for a walk from item to item. */
  next(item: Item): Item | undefined {
    if (!this.#seek(item)) return undefined;
    this.#hintIndex++;
    if (this.#hintIndex === this.#chunks[this.#hintAt]!.items.length) {
      this.#hintAt++;
      this.#hintIndex = 0;
    }
    return this.#chunks[this.#hintAt]?.items[this.#hintIndex];
  }

  /** Moves the hint to the item; false when it is not in the list. */
  #seek(item: Item): boolean {
    const near = this.#chunks[this.#hintAt]?.items;
    if (near?.[this.#hintIndex] === item) return true;
    if (this.#hintIndex > 0 && near?.[this.#hintIndex - 1] === item) {
      this.#hintIndex--;
      return true;
    }
    const at = this.#chunkOf(item);
    const items = this.#chunks[at]?.items;
    if (items === undefined) return false;
    const index = this.#indexIn(items, item);
    if (index === items.length || this.#compare(items[index]!, item) !== 0) return false;
    this.#hintAt = at;
    this.#hintIndex = index;
    return true;
  }

  /**
   * The items in order, from the first for which `after` is true on; `after` must be false, then true. Chunks for which `skip` is
   * true are passed over without looking at their items.
   */
  *from(after?: (item: Item) => boolean, skip?: (note: Note) => boolean): Generator<Item> {
    const chunks = this.#chunks;
    let at = 0;
    let index = 0;
    if (after !== undefined) {
      at = lowest(chunks.length, (i) => after(chunks[i]!.items.at(-1)!));
      const items = chunks[at]?.items;
      if (items !== undefined) index = lowest(items.length, (i) => after(items[i]!));
    }
    for (; at < chunks.length; at++, index = 0) {
      const { items, note } = chunks[at]!;
      if (skip?.(note) === true) continue;
      for (; index < items.length; index++) yield items[index]!;
    }
  }

  [Symbol.iterator](): Generator<Item> {
    return this.from();
  }

  #newChunk(at: number, items: Item[]): Chunk<Item, Note> {
    const chunk = { items, note: this.#keeper?.note(items) as Note };
    if (at === this.#chunks.length) this.#chunks.push(chunk);
    else this.#chunks.splice(at, 0, chunk);
    return chunk;
  }

  #added(item: Item, chunk: Chunk<Item, Note>): void {
    this.#size++;
    this.#keeper?.added(item, chunk);
  }

  #moved(chunk: Chunk<Item, Note>): void {
    if (this.#keeper === null) return;
    chunk.note = this.#keeper.note(chunk.items);
    this.#keeper.moved(chunk.items, chunk);
  }

  /** The chunk that holds the item, or would; past the end when it is greater than all. */
  #chunkOf(item: Item): number {
    const chunks = this.#chunks;
    let low = 0;
    let high = chunks.length;
    // try the last chunk first: leases end in the order they began, finished names rise
    const last = chunks[high - 1];
    if (last !== undefined && this.#compare(last.items[0]!, item) <= 0) low = high - 1;
    while (low < high) {
      const middle = (low + high) >>> 1;
      const { items } = chunks[middle]!;
      if (this.#compare(items[items.length - 1]!, item) < 0) low = middle + 1;
      else high = middle;
    }
    return low;
  }

  #indexIn(items: readonly Item[], item: Item): number {
    if (this.#compare(items[0]!, item) >= 0) return 0;
    let low = 1;
    let high = items.length;
    while (low < high) {
      const middle = (low + high) >>> 1;
      if (this.#compare(items[middle]!, item) < 0) low = middle + 1;
      else high = middle;
    }
    return low;
  }

  /** Merges a chunk that became small with its neighbour, so that random removals do not leave tiny chunks. */
  #merge(at: number): void {
    const left = at > 0 ? at - 1 : at;
    const a = this.#chunks[left];
    const b = this.#chunks[left + 1];
    if (a === undefined || b === undefined || a.items.length + b.items.length > max / 2) return;
    for (const item of b.items) a.items.push(item);
    this.#chunks.splice(left + 1, 1);
    this.#moved(a);
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
