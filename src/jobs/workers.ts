/** The job workers of a namespace as records: list them, see which job each one runs, and ask one to stop. */
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

  /**
   * Lists workers in name order, including stopped ones until they are pruned. `running` keeps only the workers that run, or
   * that do not.
   */
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

  /** Asks a worker to stop after its current job. The worker sees the request with its next heartbeat. */
  async halt(id: string): Promise<void> {
    await this.#row(id);
    await this.#verbs.updateWorkers(this.#ns, [{ name: id, desired: "terminate" }]);
  }

  /** Counts the running workers and those in state ERROR. Changes nothing. */
  async check(): Promise<WorkerCheck> {
    const workers = await this.list();
    return {
      workers,
      healthy: workers.filter(({ running }) => running).length,
      errors: workers.filter(({ state }) => state === "ERROR").length,
    };
  }

  /**
   * Marks the workers in state ERROR as inactive, with the mode `lost`, and returns their ids. Their jobs need no cleanup:
   * the leases expire.
   */
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
