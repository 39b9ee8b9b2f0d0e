/**
 * Sends the answers of one turn of the event loop together. A write to a socket is a system call that wakes its reader. When many
 * requests arrived at once, answering each before the next was read took half of the CPU time, and callers got their answers, and
 * sent their next requests, one by one. If a turn has a single request, it is answered at once, so that a lone caller never waits.
 */
export class Turn {
  #arrived = 0;
  #end: Promise<void> | null = null;

  /** Counts a request that has arrived in this turn. */
  arrived(): void {
    if (this.#arrived++ === 0) setImmediate(() => (this.#arrived = 0));
  }

  /** When to send an answer that is ready now; undefined is at once. */
  end(): Promise<void> | undefined {
    if (this.#arrived < 2) return undefined;
    return (this.#end ??= new Promise((resolve) =>
      setImmediate(() => {
        this.#end = null;
        resolve();
      }),
    ));
  }
}
