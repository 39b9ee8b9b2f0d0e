/**
 * When a lease ends, seen from the one who works: the points at which a task is told, and at which it is given up.
 * Pure: times in, times out.
 */

/** A task is told to come to an end this long before its lease ends; of a short lease, half is left to it. */
export const signalLeadMs = 30_000;
/** It is given up this long before the end; of a short lease, in the last quarter. Leaves time to write that down. */
export const giveUpLeadMs = 15_000;

export interface Lease {
  /** In the time of this process's clock. */
  readonly expiration: number;
  /** How long it is, from the claim or the last renew. */
  readonly lifetimeMs: number;
}

export const signalTime = ({ expiration, lifetimeMs }: Lease): number =>
  expiration - Math.min(signalLeadMs, lifetimeMs / 2);

export const giveUpTime = ({ expiration, lifetimeMs }: Lease): number =>
  expiration - Math.min(giveUpLeadMs, lifetimeMs / 4);

/** Where leases are renewed by themselves: early enough for a second try before the task would be told. */
export const renewTime = ({ expiration, lifetimeMs }: Lease): number => expiration - (lifetimeMs * 2) / 3;

/**
 * The coordinator's clock, as far as this process can tell. Leases are given in its time, and the two may differ by
 * minutes. Every answer that tells its time was made before it was received, so the largest difference seen is the
 * nearest to the truth; it is taken over the last answers, because clocks drift.
 */
export class ServerTime {
  readonly #differences: number[] = [];
  #at = 0;
  #offset = 0;

  /** The coordinator said that it is `server`, in an answer received at `local`. */
  sample(server: number, local: number): void {
    this.#differences[this.#at] = server - local;
    this.#at = (this.#at + 1) % samples;
    this.#offset = Math.max(...this.#differences);
  }

  /** A time of the coordinator in that of this process. */
  toLocal(server: number): number {
    return server - this.#offset;
  }
}

const samples = 32;
