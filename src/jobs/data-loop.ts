/**
 * The data loop publishes the reports of workers as events, after they are stored and in the order in which they were reported.
 * Many reports may be on their way to the store at once.
 */
import type { EventCategory, EventLog } from "./events.ts";

type EventData = Readonly<Record<string, unknown>>;

interface Report {
  readonly category: EventCategory;
  /** The id of the job or the worker. */
  readonly id: string;
  /** The data of the event; null for no event; undefined until the report is stored. */
  data: EventData | null | undefined;
}

export class DataLoop {
  readonly #events: EventLog;
  /** Reports that are not stored yet, and all reports after them. */
  readonly #waiting: Report[] = [];
  readonly #drained: (() => void)[] = [];

  constructor(events: EventLog) {
    this.#events = events;
  }

  /** Adds a report that is being stored. `stored` resolves to the data of the event, or to null for no event. Settles as `stored` does. */
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

  /** Adds an event that needs no storing. */
  tell(category: EventCategory, id: string, data: EventData): void {
    if (this.#waiting.length === 0) this.#events.append(category, id, data);
    else this.#waiting.push({ category, id, data });
  }

  /** Resolves when all reports have been published. */
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
