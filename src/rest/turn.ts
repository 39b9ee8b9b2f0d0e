/**
 * Answers of one turn of the event loop leave together. A write to a socket is a call of the system that wakes its reader: where many requests
 * arrive at once, answering each before the next is read took half of the processor, and callers got their answers, and sent their next requests,
 * one by one. The first request of a turn is answered at once, so that a lone caller never waits.
 */
export class Turn {
  #arrived = 0;
  #end: Promise<void> | null = null;

  /** A request has arrived. */
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
