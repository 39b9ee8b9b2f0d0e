/** The handle of a worker, by name: requests work and reports the state of the worker. */
import {
  eachRow,
  type PageStart,
  CoordinateError,
  decodeData,
  type AttemptRequest,
  type DataObject,
  type DesiredState,
  type WorkerAttemptQuery,
  type WorkerChange,
  type WorkerRow,
} from "../core/index.ts";
import type { Attempt } from "./attempt.ts";
import { encodeIfAny, only, pageLimit, orGone, type PageOptions, type Scope } from "./scope.ts";
import type { WorkUnit } from "./work-unit.ts";

/** The state of a worker, with its data (the environment that it last uploaded) decoded. */
export type WorkerState = Omit<WorkerRow, "data"> & { data: DataObject | null };

/** As a worker change, with data as a plain object. */
export type WorkerUpdate = Omit<WorkerChange, "name" | "data"> & { data?: object | null };

export type CheckIn = Pick<WorkerUpdate, "mode" | "data" | "lastUpdate" | "expiration" | "parent">;

/** A worker is created when it first requests work, checks in or is updated; a handle alone creates nothing. */
export class WorkerHandle {
  readonly name: string;
  readonly #scope: Scope;
  #row: WorkerRow | null;

  constructor(scope: Scope, name: string, row: WorkerRow | null = null) {
    this.name = name;
    this.#scope = scope;
    this.#row = row;
  }

  /** The last known state, without a request; null before any was read. */
  get last(): WorkerState | null {
    return this.#row === null ? null : readState(this.#row);
  }

  /** Reads the state. Throws `no_such_worker` for an unknown worker. */
  async state(): Promise<WorkerState> {
    const row = await this.#read();
    if (row === null) throw new CoordinateError("no_such_worker", this.name);
    return readState(row);
  }

  /**
   * Requests work: attempts of one work spec, or none. With `waitMs`, waits that long for work; `signal` ends the wait, which
   * then returns none.
   */
  async requestAttempts(request: Omit<AttemptRequest, "worker"> = {}): Promise<Attempt[]> {
    const { verbs, ns } = this.#scope;
    const rows = await verbs.requestAttempts(ns, { ...request, worker: this.name });
    return rows.map((row) => this.#scope.attempt(row));
  }

  /**
   * Makes an attempt for this unit, whatever its status and whatever the scheduler would decide. Its active attempt, if any,
   * loses its lease. Throws `gone` when the unit was deleted.
   */
  async makeAttempt(unit: WorkUnit, { lifetimeMs }: { lifetimeMs?: number } = {}): Promise<Attempt> {
    const { verbs, ns } = this.#scope;
    await unit.refresh();
    const make = {
      workSpec: unit.workSpecName,
      workUnit: unit.name,
      worker: this.name,
      ...(lifetimeMs !== undefined && { lifetimeMs }),
    };
    return this.#scope.attempt(only(await orGone(unit.name, verbs.makeAttempts(ns, [make]))));
  }

  /** Changes only the given fields; `active: true` makes it a check-in. Returns the resulting state. */
  async update({ data, ...change }: WorkerUpdate): Promise<WorkerState> {
    const { verbs, ns } = this.#scope;
    const encoded = data === undefined ? {} : { data: encodeIfAny(data) };
    const row = only(await verbs.updateWorkers(ns, [{ ...change, ...encoded, name: this.name }]));
    this.#row = row;
    return readState(row);
  }

  /** Reports that the worker is alive: active for another 15 minutes, or until `expiration`. */
  async checkIn(state: CheckIn = {}): Promise<WorkerState> {
    return this.update({ ...state, active: true });
  }

  /** Reports that the worker has stopped. */
  async deactivate(): Promise<WorkerState> {
    return this.update({ active: false });
  }

  /** Null clears the parent. An unknown parent is created; a worker cannot be its own ancestor (`worker_cycle`). */
  async setParent(parent: WorkerHandle | string | null): Promise<WorkerState> {
    return this.update({ parent: parent instanceof WorkerHandle ? parent.name : parent });
  }

  async parent(): Promise<WorkerHandle | null> {
    const parent = (await this.#read())?.parent ?? null;
    return parent === null ? null : this.#scope.worker(parent);
  }

  /** The child workers, in name order. */
  async *children(options: PageOptions = {}): AsyncGenerator<WorkerHandle, void, undefined> {
    const { verbs, ns } = this.#scope;
    const read = (from: PageStart) =>
      verbs.listWorkers(ns, { parent: this.name, ...pageLimit(options.pageSize), ...from });
    for await (const row of eachRow(read)) yield this.#scope.worker(row.name, row);
  }

  /** The desired state: the worker's own setting, else that of its namespace. An unknown worker has only the latter. */
  async desired(): Promise<DesiredState> {
    const { verbs, ns } = this.#scope;
    return (await this.#read())?.desired ?? (await verbs.getNamespace(ns)).settings.desired;
  }

  /** Null goes back to the namespace's setting. */
  async setDesired(desired: DesiredState | null): Promise<WorkerState> {
    return this.update({ desired });
  }

  /**
   * `active`: attempts that it holds now. `all`: all attempts that it ever made, newest first. `children`: active attempts
   * of its children.
   */
  async *attempts(
    which: WorkerAttemptQuery["which"] = "active",
    options: PageOptions = {},
  ): AsyncGenerator<Attempt, void, undefined> {
    const { verbs, ns } = this.#scope;
    const read = (from: PageStart) =>
      verbs.listWorkerAttempts(ns, this.name, { which, ...pageLimit(options.pageSize), ...from });
    for await (const row of eachRow(read)) yield this.#scope.attempt(row);
  }

  async #read(): Promise<WorkerRow | null> {
    const { verbs, ns } = this.#scope;
    this.#row = only(await verbs.getWorkers(ns, [this.name]));
    return this.#row;
  }
}

const readState = ({ data, ...row }: WorkerRow): WorkerState => ({
  ...row,
  data: data === null ? null : decodeData(data),
});
