/**
 * Chooses between two forms of a statement, by key. The quick form fails as a whole when it meets a row that is not plain, and the
 * server logs the failure. The careful form checks its rows first. After a failure the careful form is used until it has met only plain
 * rows a number of times in a row; that number doubles with each failure, so that the log stays quiet.
 */
const maxWindow = 6400;

export class Caution<Key> {
  readonly #states = new Map<Key, { left: number; window: number }>();
  readonly #firstWindow: number;

  constructor(firstWindow = 50) {
    this.#firstWindow = firstWindow;
  }

  isNeeded(key: Key): boolean {
    return (this.#states.get(key)?.left ?? 0) > 0;
  }

  /** The quick form failed. */
  failed(key: Key): void {
    const window = Math.min(maxWindow, 2 * (this.#states.get(key)?.window ?? this.#firstWindow / 2));
    this.#states.set(key, { left: window, window });
  }

  /** The careful form was used. `odd`: it met a row on which the quick form would have failed. */
  used(key: Key, odd: boolean): void {
    const state = this.#states.get(key);
    if (state === undefined) {
      if (odd) this.#states.set(key, { left: this.#firstWindow, window: this.#firstWindow });
    } else state.left = odd ? state.window : Math.max(0, state.left - 1);
  }
}
