/** The reference store: obvious, fast, no durability. Every method runs without waiting, so every method is atomic. */
import {
  addUnits,
  appendLog,
  checkParents,
  changeUnits,
  claimUnits,
  compareNames,
  resolveConsequences,
  CoordinateError,
  defaultNamespaceSettings,
  deleteBatches,
  HistoryCounts,
  makeAttempts,
  missingWorkSpec,
  nothingSwept,
  putBatches,
  removeUnits,
  settleAttempts,
  workSpecName,
  Watches,
  type ActionInput,
  type ActionRow,
  type AddedWorkUnit,
  type AttemptChanged,
  type AttemptKey,
  type AttemptRow,
  type BatchInput,
  type BatchRow,
  type Candidates,
  type CandidatesRequest,
  type Claim,
  type CountSlice,
  type SharedLimit,
  type FailureRow,
  type HistoryKeeper,
  type HistoryRow,
  type ListedAttempt,
  type LogWrite,
  type LockDecision,
  type LockPath,
  type LaneRow,
  type LockView,
  type Make,
  type NamespaceRow,
  type NamespaceSettings,
  type QueueMessage,
  type QueueRow,
  type Settle,
  type Slice,
  type SpecTally,
  type Store,
  type StoredRecord,
  type Swept,
  type StoredLog,
  type SweepLimits,
  type UnitSlice,
  type WaitingSinceRow,
  type Watchable,
  type WorkerAttemptPage,
  type WorkerChange,
  type WorkerQuery,
  type WorkerRow,
  type WorkSpecPut,
  type WorkSpecRef,
  type WorkSpecRow,
  type WorkUnitUpdate,
  type WorkUnitPut,
  type WorkUnitRow,
  type WorkUnitWhere,
} from "../core/index.ts";
import { attemptsOf, findAttempt, heldAttempts, loggedAttempts } from "./attempts.ts";
import { innerBatches, listBatches } from "./batches.ts";
import { listCandidates } from "./candidates.ts";
import { catchUp, catchUpSpace } from "./expiry.ts";
import { decideLocks } from "./locks.ts";
import { listActions, listQueues, putActions, takeFrom, takeMessages } from "./queues.ts";
import { Space, Spec, UnitTable, type Unit } from "./state.ts";
import { sweepSpace } from "./sweep.ts";
import { countUnits, findUnits, readUnit, takeSlice, waitingSince } from "./work-units.ts";
import { findWorkers, putWorker } from "./workers.ts";
import { MemorySet, registerWorker, run } from "./working-set.ts";

export class MemoryStore implements Store, Watchable, HistoryKeeper {
  readonly #watches = new Watches();
  readonly #spaces = new Map<string, Space>();
  readonly #units = new UnitTable();
  readonly historyCounts = new HistoryCounts();
  readonly #set = new MemorySet(this.#spaces, this.#units, this.#watches, this.historyCounts);
  /** Deleted specs whose units have not been purged yet. */
  readonly #dead = new Set<Spec>();
  #lastSpecId = 0;

  watchWork(ns: string, wake: () => void): () => void {
    return this.#watches.watchWork(ns, wake);
  }

  watchEnds(_ns: string, units: readonly number[], wake: (unit: number) => void): () => void {
    return this.#watches.watchEnds(units, wake);
  }

  watchQueue(ns: string, queue: string, wake: () => void): () => void {
    return this.#watches.watchQueue(ns, queue, wake);
  }

  #changed(ns: string): void {
    this.#watches.changed(ns);
  }

  // ---- namespaces

  async listNamespaces(): Promise<NamespaceRow[]> {
    return [...this.#spaces.values()]
      .sort((a, b) => compareNames(a.name, b.name))
      .map(({ name, settings }) => ({ name, settings: { ...settings } }));
  }

  async getNamespace(ns: string): Promise<NamespaceRow | null> {
    const space = this.#spaces.get(ns);
    return space === undefined ? null : { name: ns, settings: { ...space.settings } };
  }

  async putNamespace(
    ns: string,
    change: (old: NamespaceSettings) => NamespaceSettings,
  ): Promise<NamespaceRow> {
    const settings = change(this.#spaces.get(ns)?.settings ?? defaultNamespaceSettings);
    this.#open(ns).settings = settings;
    this.#changed(ns);
    return { name: ns, settings: { ...settings } };
  }

  async deleteNamespace(ns: string): Promise<boolean> {
    const space = this.#spaces.get(ns);
    if (space === undefined) return false;
    this.#spaces.delete(ns);
    for (const spec of space.specs.values()) this.#markDeleted(spec);
    this.#watches.allEnded();
    return true;
  }

  #open(ns: string): Space {
    let space = this.#spaces.get(ns);
    if (space === undefined)
      this.#spaces.set(ns, (space = new Space(ns, { ...defaultNamespaceSettings }, this.#watches)));
    return space;
  }

  // ---- work specs

  async putWorkSpecs(ns: string, puts: readonly WorkSpecPut[]): Promise<WorkSpecRow[]> {
    const found = puts.map(({ ref, data }) => {
      const spec = this.#find(ns, ref);
      if (spec === undefined && (data === null || typeof ref !== "string")) throw missingWorkSpec(ref);
      return spec;
    });
    const metas = puts.map(({ meta }, i) => meta(found[i]?.meta ?? null));
    const space = this.#open(ns);
    const rows = puts.map((put, i) => {
      const name = workSpecName(put.ref);
      const meta = metas[i];
      if (meta === undefined) throw new Error("unreachable");
      // one name twice in a call: the later one finds what the earlier one made
      let spec = space.specs.get(name);
      if (spec === undefined) {
        if (put.data === null) throw missingWorkSpec(put.ref);
        spec = new Spec(++this.#lastSpecId, space, name, put.data, meta);
        space.specs.set(name, spec);
      }
      if (put.data !== null) spec.data = put.data;
      spec.setMeta(meta);
      spec.syncRetention();
      return spec.row();
    });
    this.#changed(ns);
    return rows;
  }

  async getWorkSpecs(ns: string, refs: readonly WorkSpecRef[]): Promise<(WorkSpecRow | null)[]> {
    return refs.map((ref) => this.#find(ns, ref)?.row() ?? null);
  }

  async listWorkSpecs(ns: string, previous: string | null, limit: number): Promise<WorkSpecRow[]> {
    return this.#specs(ns)
      .filter(({ name }) => previous === null || compareNames(name, previous) > 0)
      .slice(0, limit)
      .map((spec) => spec.row());
  }

  async deleteWorkSpecs(ns: string, refs: readonly WorkSpecRef[], now: number): Promise<boolean[]> {
    const answer = refs.map((ref) => {
      const spec = this.#find(ns, ref);
      if (spec === undefined) return false;
      catchUp(this.#set, spec, now);
      spec.space.specs.delete(spec.name);
      this.#markDeleted(spec);
      return true;
    });
    this.#watches.allEnded();
    this.#changed(ns);
    return answer;
  }

  #markDeleted(spec: Spec): void {
    spec.deleted = true;
    spec.space.history.forget(spec.id);
    this.#dead.add(spec);
  }

  async purge(limit: number, now: number): Promise<Slice> {
    let deleted = 0;
    for (const spec of this.#dead) {
      const units: Unit[] = [];
      for (const unit of spec.units) if (units.push(unit) >= limit - deleted) break;
      this.#remove(units, now);
      if (units.length > 0) this.#changed(spec.namespace);
      deleted += units.length;
      if (spec.units.size > 0) return { deleted, done: false };
      this.#dead.delete(spec);
    }
    return { deleted, done: true };
  }

  #remove(units: readonly Unit[], now: number): void {
    run(removeUnits(this.#set.at(now), units));
  }

  #find(ns: string, ref: WorkSpecRef): Spec | undefined {
    const spec = this.#spaces.get(ns)?.specs.get(workSpecName(ref));
    return typeof ref === "string" || spec?.id === ref.id ? spec : undefined;
  }

  /** The spec, brought up to date. */
  #spec(ns: string, ref: WorkSpecRef, now: number): Spec {
    const spec = this.#find(ns, ref);
    if (spec === undefined) throw missingWorkSpec(ref);
    catchUp(this.#set, spec, now);
    return spec;
  }

  #specs(ns: string): Spec[] {
    return [...(this.#spaces.get(ns)?.specs.values() ?? [])].sort((a, b) => compareNames(a.name, b.name));
  }

  async candidates(ns: string, { requestId }: CandidatesRequest, now: number): Promise<Candidates> {
    const space = this.#spaces.get(ns);
    if (space === undefined) return { settings: defaultNamespaceSettings, candidates: [], repeated: null };
    catchUpSpace(this.#set, space, now);
    const candidates = listCandidates(space, now);
    const repeated = this.#claimedBefore(space, requestId, now);
    const { settings } = space;
    if (space.limits.size === 0) return { settings, candidates, repeated };
    // copied: a claim may change them before the engine looks
    const limits = Array.from(space.limits.values(), (limit) => ({ ...limit }));
    return { settings, candidates, repeated, limits };
  }

  async listFailures(ns: string, workSpec: string | null, now: number): Promise<FailureRow[]> {
    const specs = workSpec === null ? this.#current(ns, now) : [this.#spec(ns, workSpec, now)];
    return specs.flatMap((spec) => spec.failures.rows(spec.name));
  }

  async listLanes(
    ns: string,
    ref: WorkSpecRef,
    previous: string | null,
    limit: number,
    now: number,
  ): Promise<LaneRow[]> {
    return this.#spec(ns, ref, now).lanes?.list(previous, limit) ?? [];
  }

  async tally(ns: string | null, now: number): Promise<SpecTally[]> {
    return this.#current(ns, now).map((spec) => ({
      id: spec.id,
      namespace: spec.namespace,
      workSpec: spec.name,
      counts: { ...spec.units.counts },
      removed: { ...spec.removed },
    }));
  }

  /** The specs of one namespace or of all, in order, brought up to date. */
  #current(ns: string | null, now: number): Spec[] {
    const names = ns === null ? [...this.#spaces.keys()].sort(compareNames) : [ns];
    for (const name of names) {
      const space = this.#spaces.get(name);
      if (space !== undefined) catchUpSpace(this.#set, space, now);
    }
    return names.flatMap((name) => this.#specs(name));
  }

  async waitingSince(ns: string | null, now: number): Promise<WaitingSinceRow[]> {
    return this.#current(ns, now)
      .filter(({ units }) => units.counts.available > 0)
      .map((spec) => ({ namespace: spec.namespace, workSpec: spec.name, ...waitingSince(spec) }));
  }

  // ---- work units

  async putWorkUnits(
    ns: string,
    ref: WorkSpecRef,
    puts: readonly WorkUnitPut[],
    requestId: string | null,
    now: number,
  ): Promise<AddedWorkUnit[]> {
    const spec = this.#spec(ns, ref, now);
    const before = requestId === null ? undefined : spec.space.requests.get(`add ${spec.id} ${requestId}`);
    if (before !== undefined) return [...(before.answer as AddedWorkUnit[])];
    const answer = run(addUnits(this.#set.at(now), spec, puts));
    // copied: the list belongs to the caller
    if (requestId !== null)
      spec.space.requests.set(`add ${spec.id} ${requestId}`, { time: now, answer: [...answer] });
    this.#changed(ns);
    return answer;
  }

  async getWorkUnits(
    ns: string,
    ref: WorkSpecRef,
    names: readonly string[],
    now: number,
    seen?: (rows: readonly (WorkUnitRow | null)[]) => void,
  ): Promise<(WorkUnitRow | null)[]> {
    const spec = this.#spec(ns, ref, now);
    const rows = names.map((name) => {
      const unit = spec.units.get(name);
      return unit === undefined ? null : readUnit(this.#units, unit);
    });
    seen?.(rows);
    return rows;
  }

  async listWorkUnits(
    ns: string,
    ref: WorkSpecRef,
    where: WorkUnitWhere,
    limit: number,
    now: number,
  ): Promise<WorkUnitRow[]> {
    const rows: WorkUnitRow[] = [];
    for (const unit of findUnits(this.#spec(ns, ref, now), where)) {
      if (rows.length === limit) break;
      rows.push(readUnit(this.#units, unit, where.asAdded));
    }
    return rows;
  }

  async countWorkUnits(
    ns: string,
    ref: WorkSpecRef,
    where: WorkUnitWhere,
    limit: number,
    now: number,
  ): Promise<CountSlice> {
    return countUnits(this.#spec(ns, ref, now), where, limit);
  }

  async updateWorkUnits(
    ns: string,
    ref: WorkSpecRef,
    { where, change, limit }: WorkUnitUpdate,
    now: number,
  ): Promise<UnitSlice> {
    const { units, next } = takeSlice(this.#spec(ns, ref, now), where, limit);
    const count = run(changeUnits(this.#set.at(now), units, change));
    this.#changed(ns);
    return { count, next };
  }

  async deleteWorkUnits(
    ns: string,
    ref: WorkSpecRef,
    where: WorkUnitWhere,
    limit: number,
    now: number,
  ): Promise<UnitSlice> {
    const { units, next } = takeSlice(this.#spec(ns, ref, now), where, limit);
    this.#remove(units, now);
    this.#changed(ns);
    return { count: units.length, next };
  }

  // ---- attempts

  async claim(ns: string, claim: Claim, now: number): Promise<{ attempts: AttemptRow[]; more: boolean }> {
    const spec = this.#find(ns, claim.workSpec);
    if (spec === undefined) return { attempts: [], more: false };
    catchUp(this.#set, spec, now);
    const repeated = this.#claimedBefore(spec.space, claim.requestId, now);
    if (repeated !== null) return { attempts: repeated, more: false };
    registerWorker(spec.space, claim.worker, now);
    const answer = run(claimUnits(this.#set.at(now), spec, claim));
    if (answer.freed) this.#changed(ns);
    if (claim.requestId !== null && answer.attempts.length > 0)
      spec.space.requests.set(`claim ${claim.requestId}`, {
        time: now,
        answer: answer.attempts.map(({ id }) => id),
      });
    return answer;
  }

  #claimedBefore(space: Space, requestId: string | null, now: number): AttemptRow[] | null {
    const before = requestId === null ? undefined : space.requests.get(`claim ${requestId}`);
    if (before === undefined) return null;
    return (before.answer as string[])
      .map((id) => {
        const [unitId = 0, number = 0] = id.split(".").map(Number);
        return this.#attempt(space.name, { unitId, number }, now);
      })
      .filter((row) => row?.status === "pending" && row.active) as AttemptRow[];
  }

  async makeAttempts(ns: string, makes: readonly Make[], now: number): Promise<AttemptRow[]> {
    const units = makes.map(({ workSpec, workUnit }) => {
      const unit = this.#spec(ns, workSpec, now).units.get(workUnit);
      if (unit === undefined) throw new CoordinateError("no_such_work_unit", workUnit);
      return unit;
    });
    const set = this.#set.at(now);
    const rows = makeAttempts(set, units, makes);
    run(resolveConsequences(set));
    return rows;
  }

  async settle(ns: string, changes: readonly Settle[], now: number): Promise<AttemptChanged[]> {
    const space = this.#spaces.get(ns);
    if (space !== undefined) this.#catchUpUnits(space, changes, now);
    const answers = run(settleAttempts(this.#set.at(now), ns, changes));
    this.#changed(ns);
    return answers;
  }

  /** Brings the specs of these units up to date. */
  #catchUpUnits(space: Space, keys: readonly AttemptKey[], now: number): void {
    let last: Spec | undefined;
    for (const { unitId } of keys) {
      const spec = this.#units.get(unitId)?.spec;
      if (spec === undefined || spec === last || spec.space !== space) continue;
      catchUp(this.#set, spec, now);
      last = spec;
    }
  }

  async getAttempts(ns: string, ids: readonly AttemptKey[], now: number): Promise<(AttemptRow | null)[]> {
    return ids.map((key) => this.#attempt(ns, key, now));
  }

  #attempt(ns: string, { unitId, number }: AttemptKey, now: number): AttemptRow | null {
    const unit = this.#units.get(unitId);
    if (unit === undefined || unit.spec.deleted || unit.spec.space.name !== ns) return null;
    catchUp(this.#set, unit.spec, now);
    return findAttempt(unit, number);
  }

  // ---- logs

  async writeLogs(ns: string, writes: readonly LogWrite[]): Promise<boolean[]> {
    return writes.map((write) => {
      const unit = this.#attempted(ns, write);
      if (unit === undefined) return false;
      const log = appendLog(unit.logs?.get(write.number) ?? null, write);
      if (log !== null) (unit.logs ??= new Map<number, StoredLog>()).set(write.number, log);
      return true;
    });
  }

  async readLogs(ns: string, keys: readonly AttemptKey[]): Promise<(StoredLog | null | undefined)[]> {
    return keys.map((key) => {
      const unit = this.#attempted(ns, key);
      return unit === undefined ? undefined : (unit.logs?.get(key.number) ?? null);
    });
  }

  /** The unit of an attempt; undefined when there is no such attempt. */
  #attempted(ns: string, { unitId, number }: AttemptKey): Unit | undefined {
    const unit = this.#units.get(unitId);
    if (unit === undefined || unit.spec.deleted || unit.spec.space.name !== ns) return undefined;
    return number <= unit.attempts ? unit : undefined;
  }

  async listUnitAttempts(ns: string, ref: WorkSpecRef, name: string, now: number): Promise<AttemptRow[]> {
    const unit = this.#spec(ns, ref, now).units.get(name);
    if (unit === undefined) throw new CoordinateError("no_such_work_unit", name);
    return attemptsOf(unit);
  }

  async listWorkerAttempts(
    ns: string,
    name: string,
    { which, previous, limit }: WorkerAttemptPage,
    now: number,
  ): Promise<ListedAttempt[]> {
    const space = this.#spaces.get(ns);
    const worker = space?.workers.get(name);
    if (space === undefined || worker === undefined) return [];
    if (which === "all") return loggedAttempts(worker, previous, limit, (key) => this.#attempt(ns, key, now));
    catchUpSpace(this.#set, space, now);
    const workers = (which === "active" ? [name] : [...worker.children]).map((one) => space.workers.get(one));
    return heldAttempts(this.#units, workers, previous, limit, now);
  }

  // ---- workers

  async putWorkers(ns: string, changes: readonly WorkerChange[], now: number): Promise<WorkerRow[]> {
    checkParents(changes, (name) => this.#spaces.get(ns)?.workers.get(name)?.parent);
    const space = this.#open(ns);
    return changes.map((change) => putWorker(space, change, now));
  }

  async getWorkers(ns: string, names: readonly string[], now: number): Promise<(WorkerRow | null)[]> {
    const space = this.#spaces.get(ns);
    return names.map((name) => space?.workers.get(name)?.row(space.settings, now) ?? null);
  }

  async listWorkers(ns: string, query: WorkerQuery, limit: number, now: number): Promise<WorkerRow[]> {
    const space = this.#spaces.get(ns);
    return space === undefined ? [] : findWorkers(space, query, limit, now);
  }

  // ---- queues and actions

  async takeMessages(
    ns: string,
    queue: string,
    max: number,
    requestId: string | null,
    now: number,
  ): Promise<QueueMessage[]> {
    const space = this.#withMessages(ns, now);
    return space === undefined ? [] : takeMessages(space, queue, max, requestId, now);
  }

  /** The namespace with all messages until now: units with dependencies or deadlines end by themselves, and have messages then. */
  #withMessages(ns: string, now: number): Space | undefined {
    const space = this.#spaces.get(ns);
    if (space !== undefined && (space.needy > 0 || space.timed)) catchUpSpace(this.#set, space, now);
    return space;
  }

  async countMessages(ns: string, queues: readonly string[], now: number): Promise<number[]> {
    const space = this.#withMessages(ns, now);
    return queues.map((queue) => space?.queues.get(queue)?.size ?? 0);
  }

  async listQueues(ns: string, previous: string | null, limit: number, now: number): Promise<QueueRow[]> {
    const space = this.#withMessages(ns, now);
    return space === undefined ? [] : listQueues(space, previous, limit);
  }

  async clearQueue(ns: string, queue: string, limit: number, now: number): Promise<Slice> {
    const space = this.#withMessages(ns, now);
    const deleted = space === undefined ? 0 : takeFrom(space, queue, limit).length;
    return { deleted, done: deleted < limit };
  }

  async putActions(ns: string, actions: readonly ActionInput[], now: number): Promise<boolean[]> {
    return putActions(this.#spaces.get(ns), () => this.#open(ns), actions, now);
  }

  async getActions(ns: string, keys: readonly string[]): Promise<(ActionRow | null)[]> {
    const space = this.#spaces.get(ns);
    return keys.map((key) => {
      const row = space?.actions.get(key);
      return row === undefined ? null : { ...row };
    });
  }

  async listActions(ns: string, previous: string | null, limit: number): Promise<ActionRow[]> {
    const space = this.#spaces.get(ns);
    return space === undefined ? [] : listActions(space, previous, limit);
  }

  async deleteActions(ns: string, keys: readonly string[]): Promise<boolean[]> {
    const space = this.#spaces.get(ns);
    return keys.map((key) => space?.actions.delete(key) ?? false);
  }

  // ---- batches

  async putBatches(ns: string, inputs: readonly BatchInput[], now: number): Promise<BatchRow[]> {
    this.#open(ns);
    const rows = run(putBatches(this.#set.at(now), ns, inputs));
    this.#changed(ns);
    return rows;
  }

  async getBatches(ns: string, names: readonly string[]): Promise<(BatchRow | null)[]> {
    return names.map((name) => this.#spaces.get(ns)?.batches.get(name) ?? null);
  }

  async listBatches(ns: string, previous: string | null, limit: number): Promise<BatchRow[]> {
    return listBatches(this.#spaces.get(ns), previous, limit);
  }

  async deleteBatches(ns: string, names: readonly string[], now: number): Promise<boolean[]> {
    const existed = run(deleteBatches(this.#set.at(now), ns, names));
    this.#changed(ns);
    return existed;
  }

  async innerBatches(ns: string, parents: readonly string[]): Promise<string[]> {
    return innerBatches(this.#spaces.get(ns), parents);
  }

  // ---- shared limits

  async putLimits(ns: string, limits: readonly SharedLimit[]): Promise<void> {
    const space = this.#open(ns);
    for (const limit of limits)
      space.limits.set(limit.name, { ...limit, full: space.limits.get(limit.name)?.full ?? limit.full });
    this.#changed(ns);
  }

  async listLimits(ns: string): Promise<SharedLimit[]> {
    return [...(this.#spaces.get(ns)?.limits.values() ?? [])].map((limit) => ({ ...limit }));
  }

  async deleteLimits(ns: string, names: readonly string[]): Promise<boolean[]> {
    const answer = names.map((name) => this.#spaces.get(ns)?.limits.delete(name) ?? false);
    this.#changed(ns);
    return answer;
  }

  // ---- locks

  async locks<Answer>(
    ns: string,
    paths: readonly LockPath[],
    decide: (view: LockView) => LockDecision<Answer>,
    now: number,
  ): Promise<Answer> {
    return decideLocks(this.#spaces.get(ns), () => this.#open(ns), paths, decide, now);
  }

  // ---- history

  #lastWriter = 0;

  newWriter(): number {
    return ++this.#lastWriter;
  }

  async putHistory(writer: number, rows: readonly HistoryRow[]): Promise<void> {
    const spaces = [...this.#spaces.values()];
    const live = new Set(spaces.flatMap(({ specs }) => [...specs.values()].map(({ id }) => id)));
    for (const row of rows)
      if (row.spec === 0 || live.has(row.spec)) this.#spaces.get(row.namespace)?.history.put(writer, row);
  }

  async readHistory(
    ns: string,
    specs: readonly number[],
    stepMs: number,
    from: number,
    to: number,
  ): Promise<StoredRecord[]> {
    const history = this.#spaces.get(ns)?.history;
    return specs.flatMap((spec) => history?.read(spec, stepMs, from, to) ?? []);
  }

  async dropHistory(stepMs: number, before: number, limit: number): Promise<number> {
    let count = 0;
    for (const { history } of this.#spaces.values()) count += history.drop(stepMs, before, limit - count);
    return count;
  }

  // ---- housekeeping

  async sweep(limits: SweepLimits, now: number): Promise<Swept> {
    const swept = nothingSwept();
    for (const space of this.#spaces.values())
      if (sweepSpace(this.#set, this.#units, space, limits, now, swept)) this.#changed(space.name);
    return swept;
  }

  async close(): Promise<void> {
    // nothing to release
  }
}
