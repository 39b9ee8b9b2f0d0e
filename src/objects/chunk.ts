/** The items of one request: small enough that no request is long, large enough that the round trip does not matter. */
import { maxRequestLength, type Data } from "../core/index.ts";

const maxItems = 1000;

export class Chunk<Item> {
  readonly items: Item[] = [];
  #length = 0;

  /** A first item always fits: longer data than that goes alone. */
  fits(data: Data | null | undefined): boolean {
    if (this.items.length === 0) return true;
    return this.items.length < maxItems && this.#length + (data?.length ?? 0) <= maxRequestLength;
  }

  push(item: Item, data: Data | null | undefined): void {
    this.items.push(item);
    this.#length += data?.length ?? 0;
  }

  get isFull(): boolean {
    return this.items.length === maxItems;
  }
}
