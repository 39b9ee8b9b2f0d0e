/** The items of one request: small enough that no request is long, large enough that the round trip does not matter. */
import { maxRequestLength } from "../core/index.ts";

const maxItems = 1000;

export class Chunk<Item> {
  readonly items: Item[] = [];
  #length = 0;

  /** Whether an item with data of this length fits. The first always does: longer data goes alone. */
  fits(length: number): boolean {
    if (this.items.length === 0) return true;
    return this.items.length < maxItems && this.#length + length <= maxRequestLength;
  }

  push(item: Item, length: number): void {
    this.items.push(item);
    this.#length += length;
  }

  get isFull(): boolean {
    return this.items.length === maxItems;
  }
}
