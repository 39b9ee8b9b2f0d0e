/** The workers of a namespace as records: who is there, what each does, and asking one to halt. */
import { CoordinateError, eachRow, type Coordinate, type WorkerRow } from "../core/index.ts";
import { isJobWorker, workerOf, type JobWorkerRecord } from "./worker-record.ts";

export interface WorkerCheck {
  workers: JobWorkerRecord[];
  healthy: number;
  errors: number;
}

export class JobWorkers {
  readonly #verbs: Coordinate;
  readonly #ns: string;
  readonly #now: () => number;

  constructor(verbs: Coordinate, ns: string, now: () => number) {
    this.#verbs = verbs;
    this.#ns = ns;
    this.#now = now;
  }

  /** In name order; those that have stopped too, until they are pruned, unless only `running` ones are asked for. */
  async list({ running, pool }: { running?: boolean; pool?: string } = {}): Promise<JobWorkerRecord[]> {
    const found: JobWorkerRecord[] = [];
    const query = pool === undefined ? {} : { parent: pool };
    for await (const row of eachRow((from) => this.#verbs.listWorkers(this.#ns, { ...query, ...from })))
      if (isJobWorker(row)) found.push(await this.#record(row));
    return running === undefined ? found : found.filter((worker) => worker.running === running);
  }

  /** Throws `no_such_worker`. */
  async get(id: string): Promise<JobWorkerRecord> {
    return this.#record(await this.#row(id));
  }

  /** Asks it to stop when the job that it runs has ended. It hears of it with its next heartbeat. */
  async halt(id: string): Promise<void> {
    await this.#row(id);
    await this.#verbs.updateWorkers(this.#ns, [{ name: id, desired: "terminate" }]);
  }

  /** Looks, and changes nothing. */
  async check(): Promise<WorkerCheck> {
    const workers = await this.list();
    return {
      workers,
      healthy: workers.filter(({ running }) => running).length,
      errors: workers.filter(({ state }) => state === "ERROR").length,
    };
  }

  /** Writes down that those which were not heard of for too long do not run; answers which. Their jobs need no help: a lease ends by itself. */
  async reap(): Promise<string[]> {
    const lost = (await this.list()).filter(({ state }) => state === "ERROR").map(({ id }) => id);
    const changes = lost.map((name) => ({ name, active: false, mode: "lost" }));
    if (changes.length > 0) await this.#verbs.updateWorkers(this.#ns, changes);
    return lost;
  }

  async #row(id: string): Promise<WorkerRow> {
    const [row] = await this.#verbs.getWorkers(this.#ns, [id]);
    if (row === undefined || row === null || !isJobWorker(row))
      throw new CoordinateError("no_such_worker", id);
    return row;
  }

  async #record(row: WorkerRow): Promise<JobWorkerRecord> {
    const { rows } = row.active
      ? await this.#verbs.listWorkerAttempts(this.#ns, row.name, { which: "children", limit: 1 })
      : { rows: [] };
    return workerOf(row, rows[0]?.workUnit ?? "", this.#now());
  }
}
