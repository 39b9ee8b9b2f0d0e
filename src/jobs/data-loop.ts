/**
 * The data loop: takes what workers report, in the order it came, stores it, and then says so in the stream of events. What comes
 * while one lot is being stored is the next lot, so that many results cost few writes.
 */
import type { EventCategory, EventLog } from "./events.ts";

export interface Report {
  readonly category: EventCategory;
  /** Of the job or the worker. */
  readonly id: string;
  /** Stores it; answers what the event tells, or null when there is nothing to tell. Absent: `data` is told as it is. */
  readonly store?: () => Promise<Readonly<Record<string, unknown>> | null>;
  readonly data?: Readonly<Record<string, unknown>>;
}

interface Waiting {
  readonly report: Report;
  readonly resolve: () => void;
  readonly reject: (error: unknown) => void;
}

export class DataLoop {
  readonly #events: EventLog;
  #waiting: Waiting[] = [];
  /** Null while there is nothing to do. */
  #running: Promise<void> | null = null;

  constructor(events: EventLog) {
    this.#events = events;
  }

  /** Resolves when it is stored and told; rejects as `store` does. */
  async push(report: Report): Promise<void> {
    return new Promise((resolve, reject) => {
      this.#waiting.push({ report, resolve, reject });
      this.#running ??= this.#run();
    });
  }

  /** For what need not be stored: nobody waits for it, and it cannot fail. */
  tell(category: EventCategory, id: string, data: Readonly<Record<string, unknown>>): void {
    void this.push({ category, id, data });
  }

  /** Resolves when all that was pushed has been dealt with. */
  async drained(): Promise<void> {
    while (this.#running !== null) await this.#running;
  }

  async #run(): Promise<void> {
    // the one who started it has not noted yet that it runs
    await Promise.resolve();
    while (this.#waiting.length > 0) {
      const lot = this.#waiting;
      this.#waiting = [];
      const stored = await Promise.allSettled(
        lot.map(async ({ report }) => (report.store === undefined ? (report.data ?? null) : report.store())),
      );
      lot.forEach(({ report, resolve, reject }, i) => {
        const result = stored[i];
        if (result?.status === "rejected") {
          reject(result.reason);
          return;
        }
        const data = result?.value ?? null;
        if (data !== null) this.#events.append(report.category, report.id, data);
        resolve();
      });
    }
    // in the same step as the last look: what is pushed after it starts another run
    this.#running = null;
  }
}
