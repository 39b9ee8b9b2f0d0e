/** Bytes that all connections together hold in memory. */
export class HeldBytes {
  readonly most: number;
  #used = 0;

  constructor(most: number) {
    this.most = most;
  }

  get used(): number {
    return this.#used;
  }

  /** Counts bytes, before they are allocated where that is possible. False: they do not fit, and are not counted. */
  take(bytes: number): boolean {
    if (this.#used + bytes > this.most) return false;
    this.#used += bytes;
    return true;
  }

  give(bytes: number): void {
    this.#used -= bytes;
  }
}
