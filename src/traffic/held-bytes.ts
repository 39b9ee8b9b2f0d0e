/** Counts the bytes that all connections together hold in memory. */
export class HeldBytes {
  readonly max: number;
  #used = 0;

  constructor(max: number) {
    this.max = max;
  }

  get used(): number {
    return this.#used;
  }

  /** Counts bytes; call before they are allocated, if possible. Returns false, without counting them, if they do not fit. */
  take(bytes: number): boolean {
    if (this.#used + bytes > this.max) return false;
    this.#used += bytes;
    return true;
  }

  give(bytes: number): void {
    this.#used -= bytes;
  }
}
