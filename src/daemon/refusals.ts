/**
 * Limits the audit lines of callers without a valid token. Anyone can send such requests, and a line for each would fill the
 * disk. Within a minute, the first refusals of an address have a line each; the others are counted.
 */
const maxLines = 10;
/** Further addresses are counted together, under the empty address: an attacker may have any number of them. */
const maxAddresses = 100;
const minuteMs = 60_000;

export class Refusals {
  readonly #report: (address: string, count: number) => void;
  readonly #seen = new Map<string, { lines: number; omitted: number }>();
  #timer: NodeJS.Timeout | undefined;

  /** `report` is called at the end of a minute for each address with refusals that have no line. */
  constructor(report: (address: string, count: number) => void) {
    this.#report = report;
  }

  /** Counts a refusal. Returns whether it gets a line; never if the log `isFull`. */
  count(address: string, isFull: boolean): boolean {
    this.#timer ??= setTimeout(() => this.flush(), minuteMs).unref();
    const key = this.#seen.has(address) || this.#seen.size < maxAddresses ? address : "";
    const seen = this.#seen.get(key) ?? { lines: 0, omitted: 0 };
    this.#seen.set(key, seen);
    const hasLine = !isFull && seen.lines < maxLines;
    if (hasLine) seen.lines += 1;
    else seen.omitted += 1;
    return hasLine;
  }

  /** Ends the minute. */
  flush(): void {
    clearTimeout(this.#timer);
    this.#timer = undefined;
    const ended = [...this.#seen];
    this.#seen.clear();
    for (const [address, { omitted }] of ended) if (omitted > 0) this.#report(address, omitted);
  }
}
