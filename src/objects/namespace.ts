/** A namespace by its name: the work specs, workers and locks of one application. */
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
  /** Everything that may be asked, as batches of rows. */
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

  /** A handle by name, without asking whether there is such a spec. */
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
   * Creates the spec that the object's `name` says or replaces its data; the handle is pinned to it. Throws `bad_work_spec` for
   * a key that is one slip away from a known one, such as `max_retires`; keys of your own may have any other name.
   */
  async setWorkSpec<Data extends object, Result extends object>(
    spec: SpecDefinition<Data, Result>,
    options?: SetWorkSpecOptions,
  ): Promise<WorkSpec<Data, Result>>;
  async setWorkSpec(spec: object, options?: SetWorkSpecOptions): Promise<WorkSpec>;
  async setWorkSpec(spec: object, options: SetWorkSpecOptions = {}): Promise<WorkSpec> {
    return only(await this.setWorkSpecs([spec], options));
  }

  /** All or none. Replacing resets the metadata to what the data derives, unless `keepMeta`. */
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

  /** In name order, each pinned. */
  async *workSpecs({ pageSize }: PageOptions = {}): AsyncGenerator<WorkSpec, void, undefined> {
    const read = (from: PageStart) =>
      this.#scope.verbs.listWorkSpecs(this.name, { ...pageLimit(pageSize), ...from });
    for await (const { name, id } of eachRow(read)) yield new WorkSpec(this.#scope, { name, id });
  }

  // ---- workers

  /** A handle by name, without asking whether there is such a worker. */
  worker(name: string): WorkerHandle {
    return new WorkerHandle(this.#scope, name);
  }

  /** In name order; `last` of each tells its state. */
  async *workers({ pageSize, ...query }: WorkerListing = {}): AsyncGenerator<WorkerHandle, void, undefined> {
    const read = (from: PageStart) =>
      this.#scope.verbs.listWorkers(this.name, { ...query, ...pageLimit(pageSize), ...from });
    for await (const row of eachRow(read)) yield new WorkerHandle(this.#scope, row.name, row);
  }

  // ---- queues and actions

  /** A handle by name, without asking whether there is anything in it. */
  queue(name: string): Queue {
    return new Queue(this.#scope, name);
  }

  /** A handle by name, without asking whether there is such a batch. */
  batch(name: string): Batch {
    return new Batch(this.#scope, name);
  }

  /** The batches, in name order. */
  async *batches({ pageSize }: PageOptions = {}): AsyncGenerator<BatchRow, void, undefined> {
    const read = (from: PageStart) =>
      this.#scope.verbs.listBatches(this.name, { ...pageLimit(pageSize), ...from });
    yield* eachRow(read);
  }

  /** The limits that work specs share, in name order, with what runs under them. */
  limits(): Promise<SharedLimitRow[]> {
    return this.#scope.verbs.listLimits(this.name);
  }

  /** Defines limits by name, or redefines them as a whole; null deletes one. Others stay. */
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

  /** Stores records by key; the same again is nothing, other data under a key is refused. Answers which were new. */
  async putActions(actions: Iterable<readonly [key: string, data: object]>): Promise<boolean[]> {
    const inputs = [...actions].map(([key, data]) => ({ key, data: encode(data) }));
    return this.#scope.verbs.putActions(this.name, inputs);
  }

  /** The records of these keys, decoded, null where there is none. */
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

  /** Answers per key whether it was there. */
  async deleteActions(keys: readonly string[]): Promise<boolean[]> {
    return this.#scope.verbs.deleteActions(this.name, keys);
  }

  // ---- looking in

  /** Exact numbers of units by work spec and status. */
  async tally(): Promise<TallyRow[]> {
    return this.#scope.verbs.tally(this.name);
  }

  /** Failed units in groups by what went wrong, of one work spec or of all. */
  async failures(query: FailureQuery = {}): Promise<FailureRow[]> {
    return this.#scope.verbs.listFailures(this.name, query);
  }

  /** Per work spec with available units, since when one of them has waited. */
  async waitingSince(): Promise<WaitingSinceRow[]> {
    return this.#scope.verbs.waitingSince(this.name);
  }

  /** What happened over time: in the namespace as a whole, in the work specs named, or in each. */
  async history(query: HistoryQuery = {}): Promise<History> {
    return this.#scope.verbs.history(this.name, query);
  }

  /** For every work spec, why such a request would or would not be given work from it. */
  async explain(request: ScheduleRequest = {}): Promise<Explained[]> {
    return this.#scope.verbs.explain(this.name, request);
  }

  async settings(): Promise<NamespaceSettings> {
    return (await this.#scope.verbs.getNamespace(this.name)).settings;
  }

  /** Changes what is given; answers the resulting settings. */
  async configure(settings: Partial<NamespaceSettings>): Promise<NamespaceSettings> {
    return (await this.#scope.verbs.setNamespace(this.name, settings)).settings;
  }

  /** Deletes all that is in it. Handles pinned to its work specs, its units and attempts are `gone`. */
  async delete(): Promise<void> {
    return this.#scope.verbs.deleteNamespace(this.name);
  }

  // ---- locks

  /** All paths or none; answers what was refused, or null. */
  async lock(request: LockRequest): Promise<LockRefusal | null> {
    return this.#scope.verbs.lock(this.name, request);
  }

  /** Each path by itself, in order; answers which were granted. */
  async lockSome(request: LockRequest): Promise<boolean[]> {
    return this.#scope.verbs.lockSome(this.name, request);
  }

  /** Every path must be held by the owner, else nothing changes; answers the first that is not, or null. */
  async renewLocks(request: LockRequest): Promise<LockRefusal | null> {
    return this.#scope.verbs.renewLocks(this.name, request);
  }

  /** As `renewLocks`. */
  async unlock(request: Pick<LockRequest, "owner" | "paths">): Promise<LockRefusal | null> {
    return this.#scope.verbs.unlock(this.name, request);
  }

  /** The owner of exactly each path, or null. */
  /** The locks that are held at and below a path, in the order of their labels; all of them without one. */
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

  async readLocks(paths: readonly LockPath[]): Promise<(string | null)[]> {
    return this.#scope.verbs.readLocks(this.name, paths);
  }

  /** Releases everything at and below a path, whoever holds it. */
  async clearLocks(path: LockPath): Promise<void> {
    return this.#scope.verbs.clearLocks(this.name, path);
  }
}
