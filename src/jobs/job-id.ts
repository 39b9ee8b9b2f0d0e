/**
 * Ids of jobs: UUIDs of version 7, which begin with the time. They sort in the order in which they were made, and the coordinator
 * hands out units of equal priority in the order of their names: first in, first out.
 *
 * Within a process the order is exact. For jobs that several machines schedule at the same moment, it depends on their clocks.
 */
import { randomBytes } from "node:crypto";

const drawn = 128;

const form = /^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/;

export const isJobId = (text: string): boolean => form.test(text);

/** The smallest id of a millisecond: all ids that were made earlier sort before it. */
export const firstIdAt = (time: number): string => layOut(Math.max(0, Math.floor(time)), 0, Buffer.alloc(8));

export class JobIds {
  readonly #now: () => number;
  #time = 0;
  #count = 0;
  /** Random bytes, generated for many ids at once. */
  #random = Buffer.alloc(0);

  constructor(now: () => number) {
    this.#now = now;
  }

  next(): string {
    const now = Math.floor(this.#now());
    if (now > this.#time) [this.#time, this.#count] = [now, 0];
    // after 4,096 ids in one millisecond, use the next millisecond
    else if (++this.#count > 0xfff) [this.#time, this.#count] = [this.#time + 1, 0];
    if (this.#random.length === 0) this.#random = randomBytes(8 * drawn);
    const random = this.#random.subarray(0, 8);
    this.#random = this.#random.subarray(8);
    return layOut(this.#time, this.#count, random);
  }
}

function layOut(time: number, count: number, random: Buffer): string {
  const hex = time.toString(16).padStart(12, "0");
  const tail = Buffer.from(random);
  tail[0] = ((tail[0] ?? 0) & 0x3f) | 0x80;
  const rest = tail.toString("hex");
  const version = `7${count.toString(16).padStart(3, "0")}`;
  return `${hex.slice(0, 8)}-${hex.slice(8)}-${version}-${rest.slice(0, 4)}-${rest.slice(4)}`;
}
