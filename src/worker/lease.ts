/** The times at which a worker signals a task, gives it up and renews its lease, before the lease ends. Reads no clock. */

/** A task is asked to end this long before its lease ends, but not before half of the lease has passed. */
const signalLeadMs = 30_000;
/** A task is given up this long before its lease ends, or in the last quarter of a short lease. This leaves time to store the error. */
const giveUpLeadMs = 15_000;

export interface Lease {
  /** By the clock of this process. */
  readonly expiration: number;
  /** Its length, from the claim or the last renew. */
  readonly lifetimeMs: number;
}

export const signalTime = ({ expiration, lifetimeMs }: Lease): number =>
  expiration - Math.min(signalLeadMs, lifetimeMs / 2);

export const giveUpTime = ({ expiration, lifetimeMs }: Lease): number =>
  expiration - Math.min(giveUpLeadMs, lifetimeMs / 4);

/** When to renew automatically: early enough for further tries before the task is given up. */
export const renewTime = ({ expiration, lifetimeMs }: Lease): number => expiration - (lifetimeMs * 2) / 3;

/**
 * An estimate of the coordinator's clock. Leases are in the coordinator's time, which may differ from local time by minutes. Every
 * answer was made before it was received, so the largest difference seen is the most accurate; only the last answers count, because
 * clocks drift. It was also made after its request was sent: no difference can be larger than that. One that is was measured before
 * a clock was set.
 */
export class ServerTime {
  readonly #differences: number[] = [];
  #at = 0;
  #offset = 0;

  /** Records the coordinator's time `server` from an answer. `sent` is absent if an earlier request may have led to it. */
  sample(server: number, received: number, sent = -Infinity): void {
    this.#differences[this.#at] = server - received;
    this.#at = (this.#at + 1) % samples;
    const max = server - sent;
    this.#differences.forEach((one, i) => (this.#differences[i] = Math.min(one, max)));
    this.#offset = Math.max(...this.#differences);
  }

  /** Converts a coordinator time to local time. */
  toLocal(server: number): number {
    return server - this.#offset;
  }
}

const samples = 32;
