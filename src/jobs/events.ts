/**
 * The events of a pool, in order. Workers report to the pool; the pool stores each report and then publishes it here. The latest
 * events are kept, so that a reader may start late or fall behind a little.
 */
import { CoordinateError } from "../core/index.ts";

/** J: a job changed. W: a worker changed. E: an error that belongs to no job. */
export type EventCategory = "J" | "W" | "E";

export interface JobEvent {
  /** 1 for the first event, then ascending by one. */
  readonly seq: number;
  readonly category: EventCategory;
  /** The id of the job or the worker. */
  readonly id: string;
  readonly data: Readonly<Record<string, unknown>>;
  readonly at: number;
}

const kept = 10_000;

export class EventLog {
  readonly #now: () => number;
  readonly #events: JobEvent[] = [];
  readonly #waiting = new Set<() => void>();
  #seq = 0;
  #ended = false;

  constructor(now: () => number) {
    this.#now = now;
  }

  /** The number of the last event. */
  get seq(): number {
    return this.#seq;
  }

  append(category: EventCategory, id: string, data: Readonly<Record<string, unknown>>): void {
    if (this.#ended) return;
    this.#events.push({ seq: ++this.#seq, category, id, data, at: this.#now() });
    // in slices: shifting an array of thousands for every event is expensive
    if (this.#events.length > 2 * kept) this.#events.splice(0, this.#events.length - kept);
    this.#wake();
  }

  /** Ends the log: readers finish after the last event. */
  end(): void {
    this.#ended = true;
    this.#wake();
  }

  /**
   * Yields the kept events after `since` (0 for all), then each new event, until the pool has stopped. Throws `gone` when the
   * next event is no longer kept: the reader was too slow, or `since` is too old.
   */
  async *read(since = 0): AsyncGenerator<JobEvent, void, undefined> {
    let next = since === 0 ? (this.#events[0]?.seq ?? this.#seq + 1) : since + 1;
    for (;;) {
      const [first] = this.#events;
      if (first !== undefined && next < first.seq)
        throw new CoordinateError("gone", `events before ${first.seq}`);
      const event = first === undefined ? undefined : this.#events[next - first.seq];
      if (event !== undefined) {
        next++;
        yield event;
      } else if (this.#ended) return;
      else await new Promise<void>((resolve) => this.#waiting.add(resolve));
    }
  }

  #wake(): void {
    if (this.#waiting.size === 0) return;
    const waiting = [...this.#waiting];
    this.#waiting.clear();
    for (const wake of waiting) wake();
  }
}
