/** The handle of a namespace, by name: the work specs, workers and locks of one application. */
import {
  eachRow,
  type PageStart,
  decodeData,
  missingWorkSpec,
  type ActionRow,
  type BatchRow,
  type Coordinate,
  type DataObject,
  type Explained,
  type FailureQuery,
  type FailureRow,
  type History,
  type HistoryQuery,
  type Lock,
  type LockPath,
  type LockRefusal,
  type LockRequest,
  type NamespaceSettings,
  type SharedLimitInput,
  type SharedLimitRow,
  type QueueRow,
  type ScheduleRequest,
  type SetWorkSpecOptions,
  type TallyRow,
  type WaitingSinceRow,
  type WorkerQuery,
} from "../core/index.ts";
import { Attempt } from "./attempt.ts";
import { Batch } from "./batch.ts";
import { checkSlips, SpecDefinition } from "./define-spec.ts";
import { Queue } from "./queue.ts";
import { encode, only, pageLimit, type PageOptions, type Scope } from "./scope.ts";
import { WorkSpec } from "./work-spec.ts";
import { WorkUnit } from "./work-unit.ts";
import { WorkerHandle } from "./worker.ts";

export type WorkerListing = Omit<WorkerQuery, "limit"> & PageOptions;

/** A namespace exists once something was put into it; a handle alone creates nothing. */
export class Namespace {
  readonly name: string;
  /** The complete low-level API, in batches of rows. */
  readonly verbs: Coordinate;
  readonly #scope: Scope;

  constructor(verbs: Coordinate, name: string) {
    this.name = name;
    this.verbs = verbs;
    const scope: Scope = {
      verbs,
      ns: name,
      workUnit: (ref, row) => new WorkUnit(scope, ref, row),
      attempt: (row) => new Attempt(scope, row),
      worker: (worker, row) => new WorkerHandle(scope, worker, row),
    };
    this.#scope = scope;
  }

  // ---- work specs

  /** A handle by name; does not check that the spec exists. */
  workSpec(name: string): WorkSpec;
  workSpec<Data extends object, Result extends object>(
    spec: SpecDefinition<Data, Result>,
  ): WorkSpec<Data, Result>;
  workSpec(spec: string | SpecDefinition): WorkSpec {
    if (typeof spec === "string") return new WorkSpec(this.#scope, spec);
    return new WorkSpec(this.#scope, spec.name, spec.schemas.data);
  }

  /** A handle pinned to the spec that has this name now. Throws `no_such_work_spec`. */
  async getWorkSpec(name: string): Promise<WorkSpec> {
    const row = only(await this.#scope.verbs.getWorkSpecs(this.name, [name]));
    if (row === null) throw missingWorkSpec(name);
    return new WorkSpec(this.#scope, { name: row.name, id: row.id });
  }

  /**
   * Creates the spec with the object's `name`, or replaces its data; the handle is pinned to it. Throws `bad_work_spec` for a key
   * that is one typo away from a known one, such as `max_retires`; your own keys may have any other name.
   */
  async setWorkSpec<Data extends object, Result extends object>(
    spec: SpecDefinition<Data, Result>,
    options?: SetWorkSpecOptions,
  ): Promise<WorkSpec<Data, Result>>;
  async setWorkSpec(spec: object, options?: SetWorkSpecOptions): Promise<WorkSpec>;
  async setWorkSpec(spec: object, options: SetWorkSpecOptions = {}): Promise<WorkSpec> {
    return only(await this.setWorkSpecs([spec], options));
  }

  /** Sets all specs or none. Replacing resets the metadata to the values that the data gives, unless `keepMeta`. */
  async setWorkSpecs(specs: readonly object[], options: SetWorkSpecOptions = {}): Promise<WorkSpec[]> {
    const inputs = specs.map((spec) => {
      const data = spec instanceof SpecDefinition ? spec.spec : spec;
      checkSlips(data);
      return { data: encode(data) };
    });
    const rows = await this.#scope.verbs.setWorkSpecs(this.name, inputs, options);
    return rows.map(({ name, id }, i) => {
      const spec = specs[i];
      const schema = spec instanceof SpecDefinition ? spec.schemas.data : undefined;
      return new WorkSpec(this.#scope, { name, id }, schema);
    });
  }

  /** Pinned handles of all work specs, in name order. */
  async *workSpecs({ pageSize }: PageOptions = {}): AsyncGenerator<WorkSpec, void, undefined> {
    const read = (from: PageStart) =>
      this.#scope.verbs.listWorkSpecs(this.name, { ...pageLimit(pageSize), ...from });
    for await (const { name, id } of eachRow(read)) yield new WorkSpec(this.#scope, { name, id });
  }

  // ---- workers

  /** A handle by name; does not check that the worker exists. */
  worker(name: string): WorkerHandle {
    return new WorkerHandle(this.#scope, name);
  }

  /** The workers, in name order; `last` has the state of each. */
  async *workers({ pageSize, ...query }: WorkerListing = {}): AsyncGenerator<WorkerHandle, void, undefined> {
    const read = (from: PageStart) =>
      this.#scope.verbs.listWorkers(this.name, { ...query, ...pageLimit(pageSize), ...from });
    for await (const row of eachRow(read)) yield new WorkerHandle(this.#scope, row.name, row);
  }

  // ---- queues and actions

  /** A handle by name; does not check that the queue has messages. */
  queue(name: string): Queue {
    return new Queue(this.#scope, name);
  }

  /** A handle by name; does not check that the batch exists. */
  batch(name: string): Batch {
    return new Batch(this.#scope, name);
  }

  /** The batches, in name order. */
  async *batches({ pageSize }: PageOptions = {}): AsyncGenerator<BatchRow, void, undefined> {
    const read = (from: PageStart) =>
      this.#scope.verbs.listBatches(this.name, { ...pageLimit(pageSize), ...from });
    yield* eachRow(read);
  }

  /** The limits that work specs share, in name order, with the number of units that run under each. */
  limits(): Promise<SharedLimitRow[]> {
    return this.#scope.verbs.listLimits(this.name);
  }

  /** Creates limits, or replaces them completely, by name; null deletes a limit. Other limits do not change. */
  async setLimits(limits: Readonly<Record<string, Omit<SharedLimitInput, "name"> | null>>): Promise<void> {
    const given = Object.entries(limits);
    const inputs = given.flatMap(([name, limit]) => (limit === null ? [] : [{ ...limit, name }]));
    const gone = given.filter(([, limit]) => limit === null).map(([name]) => name);
    if (inputs.length > 0) await this.#scope.verbs.setLimits(this.name, inputs);
    if (gone.length > 0) await this.#scope.verbs.deleteLimits(this.name, gone);
  }

  /** The queues that have messages, in name order. */
  async *queues({ pageSize }: PageOptions = {}): AsyncGenerator<QueueRow, void, undefined> {
    const read = (from: PageStart) =>
      this.#scope.verbs.listQueues(this.name, { ...pageLimit(pageSize), ...from });
    yield* eachRow(read);
  }

  /**
   * Stores records by key. Storing the same data again has no effect; other data under an existing key is refused. Returns
   * which were new.
   */
  async putActions(actions: Iterable<readonly [key: string, data: object]>): Promise<boolean[]> {
    const inputs = [...actions].map(([key, data]) => ({ key, data: encode(data) }));
    return this.#scope.verbs.putActions(this.name, inputs);
  }

  /** The records of these keys, decoded; null for a missing one. */
  async getActions(keys: readonly string[]): Promise<(DataObject | null)[]> {
    const rows = await this.#scope.verbs.getActions(this.name, keys);
    return rows.map((row) => (row === null ? null : decodeData(row.data)));
  }

  /** Every record, in the order of keys. */
  async *actions({ pageSize }: PageOptions = {}): AsyncGenerator<ActionRow, void, undefined> {
    const read = (from: PageStart) =>
      this.#scope.verbs.listActions(this.name, { ...pageLimit(pageSize), ...from });
    yield* eachRow(read);
  }

  /** Returns per key whether it existed. */
  async deleteActions(keys: readonly string[]): Promise<boolean[]> {
    return this.#scope.verbs.deleteActions(this.name, keys);
  }

  // ---- inspection

  /** Exact numbers of units by work spec and status. */
  async tally(): Promise<TallyRow[]> {
    return this.#scope.verbs.tally(this.name);
  }

  /** Failed units, grouped by error, of one work spec or of all. */
  async failures(query: FailureQuery = {}): Promise<FailureRow[]> {
    return this.#scope.verbs.listFailures(this.name, query);
  }

  /** For each work spec with available units, since when they have waited; see `WaitingSinceRow`. */
  async waitingSince(): Promise<WaitingSinceRow[]> {
    return this.#scope.verbs.waitingSince(this.name);
  }

  /** What happened over time: in the namespace as a whole, in the work specs named, or in each. */
  async history(query: HistoryQuery = {}): Promise<History> {
    return this.#scope.verbs.history(this.name, query);
  }

  /** For every work spec, why this request would or would not get work from it. */
  async explain(request: ScheduleRequest = {}): Promise<Explained[]> {
    return this.#scope.verbs.explain(this.name, request);
  }

  async settings(): Promise<NamespaceSettings> {
    return (await this.#scope.verbs.getNamespace(this.name)).settings;
  }

  /** Changes the given settings; returns all resulting settings. */
  async configure(settings: Partial<NamespaceSettings>): Promise<NamespaceSettings> {
    return (await this.#scope.verbs.setNamespace(this.name, settings)).settings;
  }

  /** Deletes everything in the namespace. Handles of its units and attempts, and pinned handles of its work specs, then throw `gone`. */
  async delete(): Promise<void> {
    return this.#scope.verbs.deleteNamespace(this.name);
  }

  // ---- locks

  /** Locks all paths or none; returns the refusal, or null. */
  async lock(request: LockRequest): Promise<LockRefusal | null> {
    return this.#scope.verbs.lock(this.name, request);
  }

  /** Locks each path separately, in order; returns which were granted. */
  async lockSome(request: LockRequest): Promise<boolean[]> {
    return this.#scope.verbs.lockSome(this.name, request);
  }

  /** Renews locks. The owner must hold every path, else nothing changes; returns the first that it does not hold, or null. */
  async renewLocks(request: LockRequest): Promise<LockRefusal | null> {
    return this.#scope.verbs.renewLocks(this.name, request);
  }

  /** Releases locks; refuses as `renewLocks` does. */
  async unlock(request: Pick<LockRequest, "owner" | "paths">): Promise<LockRefusal | null> {
    return this.#scope.verbs.unlock(this.name, request);
  }

  /** The locks that are held at and below a path, in the order of their labels; all locks without a path. */
  async *locks({ path, pageSize }: { path?: LockPath } & PageOptions = {}): AsyncGenerator<
    Lock,
    void,
    undefined
  > {
    const below = path === undefined ? {} : { path };
    yield* eachRow((from) =>
      this.#scope.verbs.listLocks(this.name, { ...below, ...pageLimit(pageSize), ...from }),
    );
  }

  /** The owner of each path itself, or null. */
  async readLocks(paths: readonly LockPath[]): Promise<(string | null)[]> {
    return this.#scope.verbs.readLocks(this.name, paths);
  }

  /** Releases all locks at and below a path, whoever holds them. */
  async clearLocks(path: LockPath): Promise<void> {
    return this.#scope.verbs.clearLocks(this.name, path);
  }
}
