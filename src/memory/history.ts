/** The records of a namespace's history. */
import { historySteps, type HistoryRow, type StoredRecord } from "../core/index.ts";

export class SpaceHistory {
  /** By spec and step, then by time and writer. */
  readonly #records = new Map<string, Map<string, StoredRecord>>();

  put(writer: number, { spec, stepMs, time, data }: HistoryRow): void {
    const key = `${spec} ${stepMs}`;
    let records = this.#records.get(key);
    if (records === undefined) this.#records.set(key, (records = new Map<string, StoredRecord>()));
    records.set(`${time} ${writer}`, { spec, time, data });
  }

  read(spec: number, stepMs: number, from: number, to: number): StoredRecord[] {
    const records = this.#records.get(`${spec} ${stepMs}`)?.values() ?? [];
    return [...records].filter(({ time }) => time >= from && time < to);
  }

  drop(stepMs: number, before: number, limit: number): number {
    let count = 0;
    for (const [key, records] of this.#records)
      if (key.endsWith(` ${stepMs}`))
        for (const [at, { time }] of records)
          if (time < before && count < limit && records.delete(at)) count++;
    return count;
  }

  forget(spec: number): void {
    for (const { stepMs } of historySteps) this.#records.delete(`${spec} ${stepMs}`);
  }
}
