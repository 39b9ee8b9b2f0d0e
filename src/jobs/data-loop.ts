/**
 * The data loop: takes what workers report, and tells it in the stream of events once it is stored, in the order in which it was reported.
 * Many may be on their way to the store at once.
 */
import type { EventCategory, EventLog } from "./events.ts";

type EventData = Readonly<Record<string, unknown>>;

interface Report {
  readonly category: EventCategory;
  /** Of the job or the worker. */
  readonly id: string;
  /** What the event tells, null when there is nothing to tell; undefined until it is stored. */
  data: EventData | null | undefined;
}

export class DataLoop {
  readonly #events: EventLog;
  /** Those that are not stored yet, and what was reported after them. */
  readonly #waiting: Report[] = [];
  readonly #drained: (() => void)[] = [];

  constructor(events: EventLog) {
    this.#events = events;
  }

  /** Something that is being stored: `stored` answers what is told of it then, or null. Resolves and rejects as that does. */
  async push(category: EventCategory, id: string, stored: Promise<EventData | null>): Promise<void> {
    const report: Report = { category, id, data: undefined };
    this.#waiting.push(report);
    try {
      report.data = await stored;
    } catch (error) {
      report.data = null;
      throw error;
    } finally {
      this.#flush();
    }
  }

  /** For what need not be stored. */
  tell(category: EventCategory, id: string, data: EventData): void {
    if (this.#waiting.length === 0) this.#events.append(category, id, data);
    else this.#waiting.push({ category, id, data });
  }

  /** Resolves when all that was reported has been told. */
  async drained(): Promise<void> {
    while (this.#waiting.length > 0) await new Promise<void>((resolve) => this.#drained.push(resolve));
  }

  #flush(): void {
    for (let first = this.#waiting[0]; first?.data !== undefined; first = this.#waiting[0]) {
      if (first.data !== null) this.#events.append(first.category, first.id, first.data);
      this.#waiting.shift();
    }
    if (this.#waiting.length === 0) for (const resolve of this.#drained.splice(0)) resolve();
  }
}
