/**
 * Jobs: schedule a function and wait for its result. A layer on top of any Coordinate: a job is a work unit and each run of it is
 * an attempt, so every tool that shows units and attempts shows jobs.
 */
import type { KeyLike } from "node:crypto";
import {
  askTogether,
  CoordinateError,
  decodeData,
  eachRow,
  isCoordinateError,
  systemClock,
  throwChanged,
  type AddedWorkUnit,
  type Asked,
  type AttemptRow,
  type Clock,
  type Coordinate,
  type WorkUnitInput,
  type WorkUnitRow,
} from "../core/index.ts";
import { Namespace, type CoordinateHandle } from "../objects/index.ts";
import { isActionKey, readAction, signAction, type Action } from "./action.ts";
import { Actions } from "./actions.ts";
import { JobFailedError } from "./errors.ts";
import type { ModuleFunction } from "./function.ts";
import { JobHandle, type JobKeeper, type WaitAllOptions, type WaitOptions } from "./handle.ts";
import {
  isFinal,
  jobData,
  jobOf,
  outcomeData,
  readJobData,
  type Job,
  type JobOutcome,
  type Outcome,
} from "./job.ts";
import { isJobId, JobIds } from "./job-id.ts";
import { isCountable, labelOf, listJobs, statusesFor, type JobQuery } from "./listing.ts";
import { jobsNamed, withNames } from "./names.ts";
import { JobPool, type PoolOptions } from "./pool.ts";
import { Queue, type JobRetention } from "./queue.ts";
import { ReturnQueue } from "./return-queue.ts";
import { endedBy } from "./runner.ts";
import { labelsOf, readItem, type ReadItem, type ScheduleItem, type ScheduleOptions } from "./schedule.ts";
import { runSingle, type SingleOptions } from "./single.ts";
import { settle, type Waited } from "./waiting.ts";
import { JobWorkers } from "./workers.ts";

export interface JobsOptions {
  /** The default namespace when absent. */
  namespace?: string;
  /** The work spec of the jobs; "jobs" by default. The queues of a namespace are independent of each other. */
  queue?: string;
  /** Whether inline functions may be scheduled. The namespace and the workers must allow them too. */
  inline?: boolean;
  /** How long the records of jobs that ended are kept, in milliseconds; for ever when absent. Set on the queue's work specs. */
  retention?: JobRetention;
  /** An Ed25519 private key that signs inline functions, for workers that run only signed ones. */
  signingKey?: KeyLike;
  clock?: Clock;
}

/** A job by its id or its handle. */
export type JobRef = string | { readonly id: string };

/** Opens the jobs of a namespace, on any implementation of the verbs. */
export function openJobs(coordinate: Coordinate | CoordinateHandle, options: JobsOptions = {}): Jobs {
  return new Jobs("verbs" in coordinate ? coordinate.verbs : coordinate, options);
}

export class Jobs implements JobKeeper {
  readonly namespace: string;
  readonly workers: JobWorkers;
  readonly #verbs: Coordinate;
  readonly #clock: Clock;
  readonly #queue: Queue;
  readonly #actions: Actions;
  readonly #ids: JobIds;
  readonly #inline: boolean;
  readonly #signingKey: KeyLike | undefined;
  readonly #returnQueues = new Map<string, ReturnQueue>();
  readonly #pools = new Set<JobPool>();
  /** Jobs that are about to be added, by work spec. */
  readonly #gathered = new Map<string, Asked<WorkUnitInput, AddedWorkUnit>[]>();
  #ensured: Promise<void> | null = null;

  constructor(verbs: Coordinate, options: JobsOptions) {
    const { namespace = "", queue = "jobs", inline = false, retention, signingKey } = options;
    const { clock = systemClock() } = options;
    this.namespace = namespace;
    this.#verbs = verbs;
    this.#clock = clock;
    this.#queue = new Queue(verbs, namespace, queue, retention);
    this.#actions = new Actions(verbs, namespace);
    this.#ids = new JobIds(() => clock.now());
    this.#inline = inline;
    this.#signingKey = signingKey;
    this.workers = new JobWorkers(verbs, namespace, () => clock.now());
  }

  // ---- scheduling

  /**
   * Stores a job and returns its handle; the function runs when a worker claims the job. Throws `bad_argument` for an invalid
   * option, `name_exists`, `bad_dependency` or `dependency_cycle`; no job is stored then.
   */
  async schedule<Args extends readonly unknown[], Result>(
    fn: ModuleFunction<Args, Result> | ((...args: Args) => Result),
    options: ScheduleOptions<Partial<Args>> = {},
  ): Promise<JobHandle<Awaited<Result>>> {
    const [handle] = await this.scheduleAll([{ ...options, fn }]);
    if (handle === undefined) throw new CoordinateError("internal");
    return handle as JobHandle<Awaited<Result>>;
  }

  /**
   * Schedules many jobs, all or none. One call takes either functions of modules or inline functions, not both. A dependency may
   * be the name of another job of the same call.
   */
  async scheduleAll(items: readonly ScheduleItem[]): Promise<JobHandle[]> {
    const read = items.map((item) => readItem(item, this.#inline));
    if (read.length === 0) return [];
    const inline = read.filter(({ content }) => content.kind === "inline").length;
    if (inline > 0 && inline < read.length)
      throw new CoordinateError(
        "bad_argument",
        "fn: module functions and inline functions cannot be scheduled in one call",
      );
    const names = read.flatMap(({ name }) => (name === null ? [] : [name]));
    const twice = names.find((name, i) => names.indexOf(name) !== i);
    if (twice !== undefined) throw new CoordinateError("name_exists", `${twice} (given twice in one call)`);
    await this.#ensure(inline > 0);
    const workSpec = inline > 0 ? this.#queue.inlineWorkSpec : this.#queue.workSpec;
    return withNames(this.#verbs, this.namespace, this.#clock, this.#queue, names, () =>
      this.#add(read, workSpec, names),
    );
  }

  /** A group of jobs: all jobs that are scheduled through it can be awaited together. */
  batch(): JobBatch {
    return new JobBatch(this);
  }

  async #add(items: readonly ReadItem[], workSpec: string, names: readonly string[]): Promise<JobHandle[]> {
    const taken = await jobsNamed(this.#verbs, this.namespace, this.#queue, names);
    for (const { name, onConflict } of items)
      if (name !== null && onConflict === "reject" && taken.has(name))
        throw new CoordinateError("name_exists", name);
    const ids = items.flatMap(({ id }) => (id === null ? [] : [id]));
    const there = (await this.#queue.find(ids)).find((found) => found !== null);
    if (there !== undefined) throw new CoordinateError("name_exists", `job ${there.row.name}`);
    const added = items.map((item) => {
      const named = item.name === null ? undefined : taken.get(item.name);
      const stays = item.onConflict === "return" && named !== undefined;
      return {
        item,
        id: stays ? named.id : (item.id ?? this.#ids.next()),
        workSpec: stays ? named.workSpec : workSpec,
        isNew: !stays,
      };
    });
    const fresh = added.filter(({ isNew }) => isNew);
    const own = new Map(
      fresh.flatMap(({ item: { name }, id }) => (name === null ? [] : [[name, id] as const])),
    );
    const keys = await this.#actions.put(
      fresh.map(({ item }) => item.content),
      this.#clock.now(),
    );
    const dependencies = await this.#resolve(
      fresh.map(({ item }) => item),
      own,
      workSpec,
    );
    const units = fresh.map(({ item, id }, i) => this.#unit(item, id, keys[i] ?? "", dependencies[i] ?? []));
    // replaced jobs are deleted last, after the new ones are stored; their running attempts are deleted with them
    const replaced = fresh.flatMap(({ item: { name } }) =>
      name === null ? [] : [taken.get(name)?.id ?? ""],
    );
    for (const queue of new Set(items.flatMap((one) => (one.resetReturnQueues ? one.returnQueues : []))))
      await this.returnQueue(queue).reset();
    if (units.length > 0) await this.#addUnits(workSpec, units);
    await this.delete(replaced.filter((id) => id !== ""));
    return added.map(
      ({ item, id, workSpec: place }) => new JobHandle(this, { id, name: item.name ?? id, workSpec: place }),
    );
  }

  #unit(
    item: ReadItem,
    id: string,
    action: string,
    dependencies: NonNullable<WorkUnitInput["dependencies"]>,
  ): WorkUnitInput {
    const { name, category, args, kwargs, timeout, retries, retryDelay, content } = item;
    const isSigned = content.kind === "inline" && this.#signingKey !== undefined;
    return {
      name: id,
      data: jobData({
        job: name ?? "",
        category,
        action,
        args,
        kwargs,
        timeout,
        retries,
        retryDelay,
        dependencies: dependencies.map(({ workUnit }) => workUnit),
        signature: isSigned ? signAction(action, this.#signingKey) : "",
      }),
      labels: labelsOf(item, action),
      // without retries, the limit of the queue's work spec applies: one attempt
      ...(retries > 0 && {
        retry: { attempts: retries + 1, backoff: { kind: "fixed", delayMs: retryDelay * 1000 } },
      }),
      ...(item.priority !== 0 && { priority: item.priority }),
      ...(item.delayMs > 0 && { delayMs: item.delayMs }),
      ...(item.returnQueues.length > 0 && { queues: item.returnQueues }),
      ...(dependencies.length > 0 && { dependencies }),
    };
  }

  /** Adds units. If a reset has deleted the work spec meanwhile, it is created again. */
  async #addUnits(workSpec: string, units: readonly WorkUnitInput[]): Promise<void> {
    try {
      await (units.length > maxGathered
        ? this.#verbs.addWorkUnits(this.namespace, workSpec, units)
        : this.#gather(workSpec, units));
    } catch (error) {
      if (!isCoordinateError(error, "no_such_work_spec") || workSpec !== this.#queue.workSpec) throw error;
      this.#ensured = null;
      await this.#ensure(false);
      await this.#verbs.addWorkUnits(this.namespace, workSpec, units);
    }
  }

  /** Adds jobs that are scheduled at the same moment in one call. Callers whose jobs ended together schedule the next ones together. */
  #gather(workSpec: string, units: readonly WorkUnitInput[]): Promise<AddedWorkUnit[]> {
    return new Promise((resolve, reject) => {
      const caller = { items: units, resolve, reject };
      const gathered = this.#gathered.get(workSpec);
      if (gathered !== undefined) {
        gathered.push(caller);
        return;
      }
      const callers = [caller];
      this.#gathered.set(workSpec, callers);
      process.nextTick(() => {
        this.#gathered.delete(workSpec);
        void askTogether(callers, (all) => this.#verbs.addWorkUnits(this.namespace, workSpec, all));
      });
    });
  }

  /** Resolves the dependencies of each item to units. Throws `bad_dependency` for an unknown job. */
  async #resolve(
    items: readonly ReadItem[],
    own: ReadonlyMap<string, string>,
    workSpec: string,
  ): Promise<NonNullable<WorkUnitInput["dependencies"]>[]> {
    const refs = [...new Set(items.flatMap(({ dependencies }) => dependencies.map(({ ref }) => ref)))];
    if (refs.length === 0) return items.map(() => []);
    const places = new Map<string, { workUnit: string; workSpec: string }>();
    for (const [name, id] of own) places.set(name, { workUnit: id, workSpec });
    const ids = refs.filter((ref) => isJobId(ref) && !places.has(ref));
    for (const found of await this.#queue.find(ids))
      if (found !== null) places.set(found.row.name, { workUnit: found.row.name, workSpec: found.workSpec });
    const names = refs.filter((ref) => !places.has(ref) && !isJobId(ref));
    for (const [name, found] of await jobsNamed(this.#verbs, this.namespace, this.#queue, names))
      places.set(name, { workUnit: found.id, workSpec: found.workSpec });
    return items.map(({ dependencies }) =>
      dependencies.map(({ ref, kind }) => {
        const place = places.get(ref);
        if (place === undefined) throw new CoordinateError("bad_dependency", `job ${ref} does not exist`);
        return { ...place, kind };
      }),
    );
  }

  async #ensure(inline: boolean): Promise<void> {
    this.#ensured ??= this.#queue.ensure();
    try {
      await this.#ensured;
    } catch (error) {
      this.#ensured = null;
      throw error;
    }
    if (inline && !(await this.#queue.allowsInline()))
      throw new CoordinateError(
        "not_supported",
        `inline functions in namespace ${JSON.stringify(this.namespace)}; allow them with allowInline()`,
      );
  }

  /** Allows or forbids inline functions in this queue. Forbidding them deletes their work spec with all its jobs. */
  async allowInline(allow = true): Promise<void> {
    await this.#queue.allowInline(allow);
  }

  // ---- waiting

  /**
   * Waits until all jobs have ended and returns their records, in the order of `jobs`. Throws a `WaitTimeoutError` that names the
   * jobs that have not ended in time.
   */
  async settled(jobs: readonly JobRef[], options: WaitOptions = {}): Promise<Job[]> {
    return this.settle(await this.#places(jobs), options);
  }

  /** As `settled`, but throws a `JobFailedError` as soon as one job has failed; with `failFast: false`, after all have ended. */
  async wait(jobs: readonly JobRef[], { failFast = true, ...options }: WaitAllOptions = {}): Promise<Job[]> {
    const waited = await this.#places(jobs);
    const settled = await this.#settle(waited, options, failFast);
    const failed = settled.find(({ state }) => state === "ERROR");
    if (failed !== undefined) throw new JobFailedError(failed);
    return settled;
  }

  /** The results, in the order of `jobs`. Throws as `wait` does. */
  async results(jobs: readonly JobRef[], options: WaitAllOptions = {}): Promise<unknown[]> {
    return (await this.wait(jobs, options)).map(({ result }) => result);
  }

  async settle(jobs: readonly Waited[], options: WaitOptions): Promise<Job[]> {
    return this.#settle(jobs, options, false);
  }

  async #settle(jobs: readonly Waited[], options: WaitOptions, failFast: boolean): Promise<Job[]> {
    const waiting = {
      verbs: this.#verbs,
      ns: this.namespace,
      clock: this.#clock,
    };
    return settle(waiting, jobs, options, failFast);
  }

  async #places(jobs: readonly JobRef[]): Promise<Waited[]> {
    const known = jobs.map((job) =>
      job instanceof JobHandle ? { id: job.id, workSpec: job.workSpec } : null,
    );
    const ids = jobs.filter((_, i) => known[i] === null).map(idOf);
    const found = new Map((await this.#queue.find(ids)).map((one, i) => [ids[i], one]));
    return jobs.map((job, i) => {
      const id = idOf(job);
      const place = known[i] ?? found.get(id);
      if (place === null || place === undefined) throw new CoordinateError("no_such_work_unit", id);
      return { id, workSpec: place.workSpec };
    });
  }

  /** The return queue of this name. The same name always gets the same object. */
  returnQueue(name: string): ReturnQueue {
    const known = this.#returnQueues.get(name);
    if (known !== undefined) return known;
    const made = new ReturnQueue(this.#verbs, this.namespace, name, this.#clock);
    this.#returnQueues.set(name, made);
    return made;
  }

  /**
   * Takes all outcomes that are in these queues now, in the order in which the jobs ended. A job that named several of the queues
   * is returned once.
   */
  async takeAll(queues: readonly string[]): Promise<Outcome[]> {
    const returnQueues = [...new Set(queues)].map((name) => this.returnQueue(name));
    const drained = await Promise.allSettled(returnQueues.map((queue) => queue.drain()));
    const taken = drained.map((one) => (one.status === "fulfilled" ? one.value : []));
    for (const one of drained)
      if (one.status === "rejected") {
        returnQueues.forEach((queue, i) => queue.keep(taken[i]!));
        throw one.reason;
      }
    const byJob = new Map(taken.flat().map((outcome) => [`${outcome.id} ${outcome.at}`, outcome]));
    return [...byJob.values()].sort((a, b) => a.seq - b.seq);
  }

  /** Makes an id to pass to a later `schedule` as `id`. */
  newId(): string {
    return this.#ids.next();
  }

  // ---- looking

  /** Reads a job by its id, else by its name. Throws `no_such_work_unit`. */
  async load(idOrName: string): Promise<Job> {
    const [found] = await this.#queue.find([idOrName]);
    if (found !== undefined && found !== null) return jobOf(found.row);
    const named = (await jobsNamed(this.#verbs, this.namespace, this.#queue, [idOrName])).get(idOrName);
    if (named === undefined) throw new CoordinateError("no_such_work_unit", idOrName);
    return this.load(named.id);
  }

  /** A handle of an existing job, by id or name. Throws `no_such_work_unit`. */
  async get(idOrName: string): Promise<JobHandle> {
    const { id, name } = await this.load(idOrName);
    const [place] = await this.#places([id]);
    return new JobHandle(this, { id, name, workSpec: place?.workSpec ?? this.#queue.workSpec });
  }

  /** Lists jobs in the order they were scheduled. */
  list(query: JobQuery = {}): AsyncGenerator<Job, void, undefined> {
    return listJobs(this.#verbs, this.namespace, this.#queue.workSpecs, query);
  }

  /** Counts jobs. Does so without reading them if the query has at most a state and one of `name`, `action` and `category`. */
  async count(query: JobQuery = {}): Promise<number> {
    if (!isCountable(query)) {
      let count = 0;
      for await (const _ of this.list(query)) count++;
      return count;
    }
    const label = labelOf(query);
    const selection = { ...statusesFor(query), ...(label === undefined ? { all: true } : { label }) };
    const { all: _all, ...named } = selection as typeof selection & { all?: boolean };
    const asked = query.state === undefined && label === undefined ? { all: true } : named;
    let count = 0;
    for (const workSpec of this.#queue.workSpecs) {
      try {
        const tally = await this.#verbs.countWorkUnits(this.namespace, workSpec, asked);
        for (const number of Object.values(tally)) count += number;
      } catch (error) {
        if (!isCoordinateError(error, "no_such_work_spec")) throw error;
      }
    }
    return count;
  }

  /** Throws `bad_argument` for an unknown key. */
  async action(key: string): Promise<Action> {
    return this.#actions.get(key);
  }

  async *actions(): AsyncGenerator<Action, void, undefined> {
    for await (const row of eachRow((from) => this.#verbs.listActions(this.namespace, from)))
      if (isActionKey(row.key)) yield readAction(row);
  }

  /** How many jobs wait for a worker. */
  async queueSize(): Promise<number> {
    const rows = await this.#verbs.tally(this.namespace);
    return rows
      .filter(({ workSpec }) => this.#queue.workSpecs.includes(workSpec))
      .reduce((sum, { counts }) => sum + counts.available, 0);
  }

  // ---- changing

  /**
   * Ends a job in the state ERROR with the category HALTED; returns false when it had already ended. The worker that runs it
   * loses its lease, and can no longer store an outcome.
   */
  async cancel(id: string, reason = "the job was cancelled"): Promise<boolean> {
    const [found] = await this.#queue.find([id]);
    if (found === undefined || found === null) throw new CoordinateError("no_such_work_unit", id);
    if (isFinal(found.row.status)) return false;
    if (!(await this.#end(found, endedBy("HALTED", reason)))) return false;
    for (const pool of this.#pools) pool.haltJob(id, reason);
    return true;
  }

  /** Ends the job through a new attempt; returns false when the job ended meanwhile. */
  async #end(
    { row, workSpec }: { row: WorkUnitRow; workSpec: string },
    outcome: JobOutcome,
  ): Promise<boolean> {
    const { namespace: ns } = this;
    const make = { workSpec, workUnit: row.name, worker: "jobs-cancel", lifetimeMs: cancelMs };
    const [attempt] = await this.#verbs.makeAttempts(ns, [make]);
    if (attempt === undefined) throw new CoordinateError("internal");
    const all = await this.#verbs.listUnitAttempts(ns, workSpec, row.name);
    const before = all.filter((one) => one.number < attempt.number).at(-1);
    if (before !== undefined && (await this.#putBack(attempt, before))) return false;
    const data = outcomeData(readJobData(row.data === null ? {} : decodeData(row.data)), outcome);
    for (const changed of await this.#verbs.settleAttempts(ns, [
      { attempt: attempt.id, action: "fail", data },
    ]))
      throwChanged(changed);
    return true;
  }

  /** If the job ended between the read and the new attempt, stores that outcome again. */
  async #putBack(attempt: AttemptRow, before: AttemptRow): Promise<boolean> {
    if (before.status !== "finished" && before.status !== "failed") return false;
    const action = before.status === "finished" ? "finish" : "fail";
    await this.#verbs.settleAttempts(this.namespace, [{ attempt: attempt.id, action, data: before.data }]);
    return true;
  }

  /** Deletes jobs with their attempts and returns how many there were. A running function is not stopped, but its outcome is discarded. */
  async delete(ids: readonly string[]): Promise<number> {
    if (ids.length === 0) return 0;
    let count = 0;
    for (const workSpec of this.#queue.workSpecs) {
      try {
        count += await this.#verbs.deleteWorkUnits(this.namespace, workSpec, { names: ids });
      } catch (error) {
        if (!isCoordinateError(error, "no_such_work_spec")) throw error;
      }
    }
    return count;
  }

  /** Deletes all jobs of the queue, and all actions and all return queues of the namespace. */
  async reset({ confirm }: { confirm: true }): Promise<void> {
    // also checked at run time: callers without types must not reset by mistake
    if ((confirm as unknown) !== true)
      throw new CoordinateError("bad_argument", "reset: say { confirm: true }");
    const inline = await this.#queue.allowsInline();
    await this.#verbs.deleteWorkSpecs(this.namespace, this.#queue.workSpecs);
    const keys: string[] = [];
    for await (const { key } of this.actions()) keys.push(key);
    if (keys.length > 0) await this.#verbs.deleteActions(this.namespace, keys);
    for (let page = await this.#verbs.listQueues(this.namespace); page.rows.length > 0;) {
      for (const { name } of page.rows) await this.returnQueue(name).reset();
      page = await this.#verbs.listQueues(this.namespace);
    }
    this.#actions.forget();
    this.#ensured = null;
    await this.#ensure(false);
    if (inline) await this.#queue.allowInline(true);
  }

  // ---- running

  /** Starts a pool of worker processes; resolves when the first of them has started. */
  async startPool(options: PoolOptions = {}): Promise<JobPool> {
    await this.#ensure(false);
    const pool = new JobPool(new Namespace(this.#verbs, this.namespace), this.#queue, this.#clock, options);
    this.#pools.add(pool);
    void pool.stopped.then(() => this.#pools.delete(pool));
    try {
      await pool.start();
    } catch (error) {
      this.#pools.delete(pool);
      throw error;
    }
    return pool;
  }

  /** Runs one worker until it is stopped, or for one job (`onetime`): for a dedicated process, for tests, for debugging. */
  async work(options: SingleOptions = {}): Promise<void> {
    await this.#ensure(false);
    await runSingle(new Namespace(this.#verbs, this.namespace), this.#queue, this.#clock, options);
  }
}

/** Calls with more jobs than this are not combined with other calls. */
const maxGathered = 100;

/** The lease of an attempt that cancels a job: long enough to store the outcome. */
const cancelMs = 10_000;

const idOf = (job: JobRef): string => (typeof job === "string" ? job : job.id);

export class JobBatch {
  readonly #jobs: Jobs;
  readonly #handles: JobHandle[] = [];

  constructor(jobs: Jobs) {
    this.#jobs = jobs;
  }

  async schedule<Args extends readonly unknown[], Result>(
    fn: ModuleFunction<Args, Result> | ((...args: Args) => Result),
    options?: ScheduleOptions<Partial<Args>>,
  ): Promise<JobHandle<Awaited<Result>>> {
    const handle = await this.#jobs.schedule(fn, options);
    this.#handles.push(handle);
    return handle;
  }

  async scheduleAll(items: readonly ScheduleItem[]): Promise<JobHandle[]> {
    const handles = await this.#jobs.scheduleAll(items);
    this.#handles.push(...handles);
    return handles;
  }

  /** The ids of the scheduled jobs, in order. */
  get ids(): readonly string[] {
    return this.#handles.map(({ id }) => id);
  }

  async settled(options: WaitOptions = {}): Promise<Job[]> {
    return this.#jobs.settled(this.#handles, options);
  }

  async wait(options: WaitAllOptions = {}): Promise<Job[]> {
    return this.#jobs.wait(this.#handles, options);
  }

  async results(options: WaitAllOptions = {}): Promise<unknown[]> {
    return this.#jobs.results(this.#handles, options);
  }
}
