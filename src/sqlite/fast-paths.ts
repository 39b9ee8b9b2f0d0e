/**
 * Fast paths for the common cases of add, claim, settle, expire and delete: many units per statement. Each does what the rules of
 * core would do, or nothing. `State.fastPaths` switches all of them off; tests run the same random histories with and without them.
 * No other code in this store decides the state of a unit. Where units have deadlines, claims and expired leases go by the rules.
 *
 * | path          | when it is taken                                                                        |
 * | ------------- | --------------------------------------------------------------------------------------- |
 * | `addNew`      | all units are new, have usual names, no dependencies, no batch and no timers            |
 * | `claimPlain`  | no claimed unit has reached its try limit, none has to be generated, no shared limits,  |
 * |               | no tripped breaker, no partition in which a started unit goes first                     |
 * | `settlePlain` | finish and fail of running attempts outside of batches, in a store without dependencies |
 * | `expirePlain` | a store without dependencies, a work spec without partitions                            |
 * | `releasePlain`| a work spec without partitions; the dependencies of a delayed unit are all met          |
 * | `deletePlain` | units outside of batches, a store without dependencies, a work spec without partitions  |
 */
import {
  addsInterleaved,
  interleaveByPartition,
  actionStatus,
  attemptId,
  begunFirst,
  hasBreaker,
  hasLanes,
  hasRate,
  hasTimer,
  holdOf,
  isTripped,
  countedAt,
  finishedKey,
  batchOf,
  availableSince,
  extrasOfPut,
  mayGenerate,
  nameFromBytes,
  nextTurnOf,
  outputPut,
  parseAttemptId,
  putUnits,
  readOutputs,
  resolveConsequences,
  takeTokens,
  tokensOf,
  unchanged,
  type AddedWorkUnit,
  type AttemptChanged,
  type AttemptRow,
  type Claim,
  type Data,
  type Lane,
  type Rule,
  type Settle,
  type WorkUnitPut,
} from "../core/index.ts";
import type { Row, Value } from "./driver.ts";
import { addExtras, anyInBatch, dropExtras, extrasOf } from "./extras.ts";
import { dropFailed } from "./failures.ts";
import { lanesOf, laneValue } from "./lanes.ts";
import type { Lease } from "./leases.ts";
import { addOutcomes } from "./outcomes.ts";
import { dropLogs } from "./logs.ts";
import { addMessage } from "./queues.ts";
import { attemptCode, unitState } from "./schema.ts";
import type { Spec, State } from "./state.ts";
import { manyRows } from "./statements.ts";
import { exactName } from "./units.ts";
import { dataValue, isUsualName, nameValue, partitionValue, readData } from "./values.ts";
import type { Steps } from "./work-units.ts";
import { logAttempts } from "./workers.ts";
import { applied, type SqliteSet } from "./working-set.ts";

/** Units in one statement of a claim or a deletion. */
const unitsAtOnce = 500;

// ---- adding

/** Adds units with a few statements for all of them. Null, with nothing written, unless all are new and plain. */
export function* addNew(
  state: State,
  spec: Spec,
  given: readonly WorkUnitPut[],
  now: number,
): Steps<AddedWorkUnit[] | null> {
  const plain = (put: WorkUnitPut): boolean =>
    put.dependencies === null &&
    isUsualName(put.name) &&
    batchOf(put.labels) === null &&
    !hasTimer(put.timing ?? null);
  if (!state.fastPaths || !given.every(plain)) return null;
  const sorted = addsInterleaved(spec.meta, given.length);
  const puts = sorted ? interleaveByPartition(given) : given;
  const first = state.counters.unit + 1;
  state.writes++;
  for (let at = 0; at < puts.length; at += manyRows) {
    if (at > 0) yield;
    const some = puts.slice(at, at + manyRows);
    if (insert(state, spec, some, first + at, now) === some.length) continue;
    // some units exist already, or a name occurs twice
    state.sql.dropUnitRange.run(first, first + at + some.length - 1);
    return null;
  }
  const added = yield* enterNew(state, spec, puts, first, now);
  return sorted ? asGiven(given, added) : added;
}

function asGiven(given: readonly WorkUnitPut[], added: readonly AddedWorkUnit[]): AddedWorkUnit[] {
  const byName = new Map(added.map((one) => [one.name, one]));
  return given.map(({ name }) => byName.get(name)!);
}

function insert(state: State, spec: Spec, puts: readonly WorkUnitPut[], first: number, now: number): number {
  const { sql } = state;
  if (puts.length < manyRows) {
    let created = 0;
    for (const [i, { name, data, priority, notBefore, origin, partition }] of puts.entries())
      created += sql.addOneUnit.run(
        first + i,
        spec.id,
        name,
        priority,
        notBefore,
        now,
        dataValue(data),
        ...originValues(origin),
        partitionValue(partition ?? ""),
      );
    return created;
  }
  const values: Value[] = [first, spec.id, now];
  if (
    puts.every(
      ({ priority, notBefore, origin, partition }) =>
        priority === 0 && notBefore === 0 && origin === undefined && partition === undefined,
    )
  ) {
    for (const { name, data } of puts) values.push(name, dataValue(data));
    return sql.addPlainUnits.run(...values);
  }
  for (const { name, data, priority, notBefore, origin, partition } of puts)
    values.push(
      name,
      dataValue(data),
      priority,
      notBefore,
      ...originValues(origin),
      partitionValue(partition ?? ""),
    );
  return sql.addUnits.run(...values);
}

function originValues(origin: string | undefined): [unit: Value, number: Value] {
  const key = origin === undefined ? null : parseAttemptId(origin);
  return key === null ? [null, null] : [key.unitId, key.number];
}

function* enterNew(
  state: State,
  spec: Spec,
  puts: readonly WorkUnitPut[],
  first: number,
  now: number,
): Steps<AddedWorkUnit[]> {
  const { sql } = state;
  const last = first + puts.length - 1;
  state.nextId("unit", puts.length);
  state.touch(spec);
  const [one] = puts;
  let available = 1;
  if (hasLanes(spec.meta)) available = enterLanes(state, spec, puts, first, now);
  else if (puts.length === 1 && one!.notBefore <= now)
    sql.addReady.run(spec.id, 0 - one!.priority, one!.name, first, 0);
  else available = sql.readyRange.run(first, last, now);
  if (available < puts.length) sql.delayRange.run(first, last, now);
  spec.counts.available += available;
  spec.counts.delayed += puts.length - available;
  state.history.note(spec.id, "added", now, -1, puts.length);
  const added: AddedWorkUnit[] = [];
  for (const [i, put] of puts.entries()) {
    if (i > 0 && i % unitsAtOnce === 0) yield;
    const { name, priority, notBefore } = put;
    const id = first + i;
    const delayed = notBefore > now;
    addExtras(state, { id, spec, name }, extrasOfPut(put));
    if (delayed && spec.due !== undefined) spec.due = Math.min(spec.due ?? notBefore, notBefore);
    if (!delayed && spec.top !== undefined) spec.top = Math.max(spec.top ?? priority, priority);
    added.push({ name, id, created: true, status: delayed ? "delayed" : "available" });
  }
  return added;
}

/** Returns how many of the units are available. */
function enterLanes(
  state: State,
  spec: Spec,
  puts: readonly WorkUnitPut[],
  first: number,
  now: number,
): number {
  const lanes = lanesOf(state, spec);
  for (const { partition = "", priority, notBefore } of puts)
    if (notBefore <= now) lanes.enter({ partition, priority, attempt: null }, "available");
  return state.sql.readyLaneRange.run(first, first + puts.length - 1, now);
}

// ---- claiming

/** Claims the next units. Stops at a unit that has reached its try limit. */
export function* claimPlain(state: State, spec: Spec, claim: Claim, now: number): Steps<AttemptRow[]> {
  const { meta, counts } = spec;
  const attempts: AttemptRow[] = [];
  if (
    !state.fastPaths ||
    meta.paused ||
    meta.limits.length > 0 ||
    isTripped(meta) ||
    spec.timed ||
    mayGenerate(meta, counts.available, counts.pending, now)
  )
    return attempts;
  const room = meta.maxRunning > 0 ? meta.maxRunning - counts.pending : Infinity;
  let places = Math.min(claim.limit, room, tokensOf(meta.rate, spec.full, now));
  if (places <= 0 || counts.available === 0) return attempts;
  const worker = state.worker(spec.space, claim.worker, now);
  while (places > 0 && spec.counts.available > 0) {
    const wanted = Math.min(places, unitsAtOnce);
    const giving = new ClaimWriter(state, spec, claim, worker, now, attempts);
    const taken = hasLanes(meta) ? claimFromLanes(giving, wanted) : claimFirst(giving, wanted);
    giving.flush();
    places -= taken;
    if (taken < wanted) break;
    if (places > 0) yield;
  }
  if (attempts.length === 0) return attempts;
  if (hasRate(meta.rate)) spec.full = takeTokens(meta.rate, spec.full, now, attempts.length);
  logAttempts(
    state,
    worker,
    attempts.map(({ id, number }) => [Number.parseInt(id, 10), number]),
    now,
  );
  return attempts;
}

/** Claims the first units in claim order. Returns how many. */
function claimFirst(giving: ClaimWriter, limit: number): number {
  const { state, spec } = giving;
  const { sql } = state;
  const rows = (state.counters.extras === 0 ? sql.claimable : sql.claimableQueued).all(spec.id, limit);
  let taken = 0;
  for (const row of rows) {
    if (!giving.give(row, undefined)) break;
    taken++;
  }
  const last = rows[taken - 1];
  if (last === undefined) return 0;
  const [, , place = null] = last;
  if (rows[0]?.[2] !== place) sql.dropPlacesBefore.run(spec.id, place);
  sql.dropClaimed.run(spec.id, place, nameValue(giving.lastName));
  return taken;
}

/** Claims units from the lanes in turn. Returns how many. */
function claimFromLanes(giving: ClaimWriter, limit: number): number {
  const { state, spec, now } = giving;
  const { sql } = state;
  const { meta } = spec;
  const lanes = lanesOf(state, spec);
  const find = state.counters.extras === 0 ? sql.claimableInLane : sql.claimableInLaneQueued;
  // `read` has the rows of a lane that are not claimed yet; `share` rows are read at once, so that one query per lane is mostly enough
  const share = Math.ceil(limit / Math.max(1, lanes.open));
  const ahead = share === 1 && limit >= manyRows ? lanes.ahead(spec, now, limit) : [];
  const read = readFirst(state, spec, ahead);
  const paid = new Set<Lane>();
  let taken = 0;
  while (taken < limit) {
    const lane = lanes.next(spec, now);
    if (lane === undefined) break;
    const { partition } = lane;
    const hold = holdOf(meta, lane, now);
    if (hold !== null) {
      lanes.hold(lane, hold);
      continue;
    }
    if (begunFirst(meta, lane)) break;
    const key = laneValue(partition);
    let rows = read.get(lane);
    if (rows === undefined || rows.length === 0)
      read.set(lane, (rows = find.all(spec.id, key, share).reverse()));
    const row = rows.pop();
    if (row === undefined || !giving.give(row, partition)) break;
    const place = row[2] as number;
    sql.dropReadyLane.run(spec.id, key, place, nameValue(giving.lastName));
    lanes.begin(lane, 0 - place, row[6] !== null);
    const { cursor, turn } = nextTurnOf(meta, spec, partition);
    spec.cursor = cursor;
    spec.turn = turn;
    if (hasRate(meta.ratePerPartition)) {
      lane.full = takeTokens(meta.ratePerPartition, lane.full, now, 1);
      paid.add(lane);
    }
    const after = holdOf(meta, lane, now);
    if (after !== null) lanes.hold(lane, after);
    taken++;
  }
  saveBuckets(state, spec, [...paid]);
  return taken;
}

/** Writes the rate buckets of lanes that were served, many in one statement. */
function saveBuckets({ sql }: State, spec: Spec, lanes: readonly Lane[]): void {
  let at = 0;
  for (; at + manyRows <= lanes.length; at += manyRows)
    sql.setLanes.run(
      ...lanes.slice(at, at + manyRows).flatMap(({ partition, full }) => [laneValue(partition), full]),
      spec.id,
    );
  for (const { partition, full } of lanes.slice(at)) sql.setLane.run(spec.id, laneValue(partition), full);
}

/** Reads the first unit of each of these lanes, `manyRows` lanes per statement. Skips the rest, which do not fill a statement. */
function readFirst(state: State, spec: Spec, lanes: readonly Lane[]): Map<Lane, Row[]> {
  const { sql } = state;
  const find = state.counters.extras === 0 ? sql.claimableFirst : sql.claimableFirstQueued;
  const read = new Map<Lane, Row[]>();
  for (let at = 0; at + manyRows <= lanes.length; at += manyRows) {
    const some = lanes.slice(at, at + manyRows);
    for (const row of find.all(...some.map(({ partition }) => laneValue(partition)), spec.id))
      read.set(some[row[13] as number]!, [row]);
  }
  return read;
}

/** Collects the units of one claim, so that one statement writes all leases with the same number and start. */
class ClaimWriter {
  readonly state: State;
  readonly spec: Spec;
  readonly now: number;
  /** The name of the unit that was claimed last. */
  lastName = "";
  readonly #claim: Claim;
  readonly #worker: number;
  readonly #attempts: AttemptRow[];
  /** Units by the number and start of their new attempt: nearly always the first attempt, starting now. */
  readonly #alike: { number: number; start: number; units: number[] }[] = [];
  readonly #superseded: number[] = [];
  #given = 0;

  constructor(state: State, spec: Spec, claim: Claim, worker: number, now: number, attempts: AttemptRow[]) {
    this.state = state;
    this.spec = spec;
    this.now = now;
    this.#claim = claim;
    this.#worker = worker;
    this.#attempts = attempts;
    // must precede every change of the spec
    state.touch(spec);
  }

  /** Returns false for a unit that has reached its try limit: the rules fail it. */
  give(row: Row, partition: string | undefined): boolean {
    const { state, spec, now } = this;
    const { lifetimeMs, maxRetries } = this.#claim;
    const [unit, text, , data, made, tries, status, given, ended, created, delayed, queued, own] = row;
    const id = unit as number;
    const limit = (own as number | null | undefined) ?? maxRetries;
    if (limit > 0 && (tries as number) >= limit) return false;
    const name = exactName(state, spec, id, text);
    const number = (made as number) + 1;
    const since = (given as number | null) ?? 0;
    const attemptEnd = (ended as number | null) ?? 0;
    const notBefore = delayed as number;
    const start = Math.max(now, since, attemptEnd);
    const expiration = start + lifetimeMs;
    const waiting = availableSince({ created: created as number, since, notBefore, attemptEnd });
    state.history.note(spec.id, "started", now, Math.max(0, start - waiting), 1);
    const group = this.#alike.find((one) => one.number === number && one.start === start);
    if (group === undefined) this.#alike.push({ number, start, units: [id] });
    else group.units.push(id);
    if (status !== null) this.#superseded.push(id);
    this.#attempts.push({
      id: attemptId(id, number),
      workSpec: spec.name,
      workUnit: name,
      worker: this.#claim.worker,
      number,
      status: "pending",
      active: true,
      startTime: start,
      endTime: 0,
      expirationTime: expiration,
      data: readData(data),
      late: false,
      chainingErrors: [],
      progress: null,
    });
    state.setLease(id, {
      unit: id,
      spec: spec.id,
      number,
      worker: this.#worker,
      start,
      expiration,
      late: false,
      own: false,
      queued: queued === 1,
      partition,
    });
    this.lastName = name;
    this.#given++;
    return true;
  }

  /** Writes the collected leases. */
  flush(): void {
    const { state, spec } = this;
    const { sql } = state;
    if (this.#given === 0) return;
    state.writes++;
    if (this.#superseded.length > 0) sql.supersedeMany.run(JSON.stringify(this.#superseded));
    for (const { number, start, units } of this.#alike) {
      const expiration = start + this.#claim.lifetimeMs;
      if (units.length > 1)
        sql.addLeases.run(spec.id, number, this.#worker, start, expiration, JSON.stringify(units));
      else sql.addLease.run(units[0]!, spec.id, number, this.#worker, start, expiration, 0, 0, null, null);
    }
    spec.counts.available -= this.#given;
    spec.counts.pending += this.#given;
    spec.top = undefined;
  }
}

// ---- settling

interface Plain {
  spec: Spec;
  lease: Lease;
  change: Settle;
  /** Of a finish: the next work spec, and the outputs that become its units. */
  next: Spec | undefined;
  outputs: ReturnType<typeof readOutputs> | null;
}

/** Settles the changes if all of them are plain; otherwise returns null and changes nothing. */
export function* settlePlain(
  state: State,
  ns: string,
  changes: readonly Settle[],
  now: number,
): Steps<AttemptChanged[] | null> {
  if (!state.fastPaths || state.counters.needs > 0) return null;
  const plain: Plain[] = [];
  for (const [i, change] of changes.entries()) {
    if (i > 0 && i % unitsAtOnce === 0) yield;
    const one = readPlain(state, ns, change, now);
    if (one === null) return null;
    plain.push(one);
  }
  if (plain.length > 1 && new Set(changes.map(({ unitId }) => unitId)).size < plain.length) return null;
  // an output may be a unit that this call settles as well
  const chained = plain.filter(({ next }) => next !== undefined);
  const from = chained.length === 0 ? null : new Set(plain.map(({ spec }) => spec));
  if (chained.some(({ next }) => next !== undefined && from?.has(next) === true)) return null;
  const ends = new Ends(state, now);
  const answers: AttemptChanged[] = [];
  for (const [i, one] of plain.entries()) {
    if (i > 0 && i % unitsAtOnce === 0) yield;
    answers.push(ends.add(one));
  }
  ends.flush();
  countFinished(state, plain, now);
  if (chained.length > 0) yield* applied(state, now, (set) => addOutputs(set, chained, now));
  return answers;
}

/** Counts finished attempts for breakers, none of which has tripped. */
function countFinished(state: State, plain: readonly Plain[], now: number): void {
  const counts = new Map<Spec, number>();
  for (const { spec } of plain) if (hasBreaker(spec.meta)) counts.set(spec, (counts.get(spec) ?? 0) + 1);
  for (const [spec, count] of counts)
    addOutcomes(state, spec, countedAt(spec.meta, now), new Map([[finishedKey, count]]), now);
}

/** Adds the outputs as units. Consecutive changes with the same next work spec share one put. */
function* addOutputs(set: SqliteSet, plain: readonly Plain[], now: number): Rule<void> {
  for (let i = 0; i < plain.length;) {
    const next = plain[i]?.next;
    const puts: WorkUnitPut[] = [];
    for (; i < plain.length && plain[i]?.next === next; i++) {
      const { change, outputs } = plain[i]!;
      const origin = attemptId(change.unitId, change.number);
      for (const unit of outputs?.units ?? []) puts.push(outputPut(unit, origin, now));
    }
    if (next !== undefined && puts.length > 0) yield* putUnits(set, next, puts);
  }
  // an output may be a unit of a batch, which it leaves
  if (set.isUnresolved()) yield* resolveConsequences(set);
}

function readPlain(state: State, ns: string, change: Settle, now: number): Plain | null {
  const lease = state.leases.get(change.unitId);
  const spec = state.specs.get(lease?.spec ?? 0);
  if (lease === undefined || spec === undefined || spec.deleted || spec.namespace !== ns) return null;
  // the partition is unknown for leases that are older than the partition rules, or were loaded when the store was opened
  if (hasLanes(spec.meta) && lease.partition === undefined) return null;
  const { action, data } = change;
  // a failure may trip the breaker, and a probe may close it
  if (hasBreaker(spec.meta) && (action !== "finish" || isTripped(spec.meta))) return null;
  if (lease.number !== change.number || lease.expiration <= now || (lease.own && data === null)) return null;
  if ((action !== "finish" && action !== "fail") || change.reason !== undefined) return null;
  if (lease.queued && batchOf(extrasOf(state, lease.unit).labels) !== null) return null;
  const { nextWorkSpecName } = spec.meta;
  const next =
    action === "finish" && nextWorkSpecName !== "" ? spec.space.specs.get(nextWorkSpecName) : undefined;
  const outputs =
    next === undefined ? null : readOutputs(data ?? readData(state.sql.unitData.get(lease.unit)?.[0]));
  return { spec, lease, change, next, outputs };
}

/** Collects ends of running attempts, so that one statement writes all that differ only in the unit. */
class Ends {
  readonly #state: State;
  readonly #now: number;
  #units: number[] = [];
  #alike: { spec: Spec; lease: Lease; action: "finish" | "fail"; units: number[] }[] = [];

  constructor(state: State, now: number) {
    this.#state = state;
    this.#now = now;
  }

  add({ spec, lease, change, outputs }: Plain): AttemptChanged {
    const state = this.#state;
    const { data } = change;
    const action = change.action === "finish" ? "finish" : "fail";
    const status = actionStatus[action];
    const errors = outputs?.errors ?? [];
    state.touch(spec);
    state.writes++;
    spec.counts.pending--;
    spec.counts[status]++;
    state.setLease(lease.unit, undefined);
    if (hasLanes(spec.meta))
      lanesOf(state, spec).leave(
        { partition: lease.partition ?? "", priority: 0, attempt: lease },
        "pending",
      );
    this.#units.push(lease.unit);
    state.noteEnd(lease.unit);
    state.history.note(spec.id, status, this.#now, Math.max(this.#now, lease.start) - lease.start, 1);
    if (lease.queued) this.#tell(spec, lease, status, data);
    if (data === null && errors.length === 0) this.#gather(spec, lease, action);
    else this.#end(spec, lease, action, data, errors);
    return {
      ...unchanged(change),
      changed: true,
      status,
      expirationTime: lease.expiration,
      outputs: outputs?.units.length ?? 0,
      chainingErrors: errors,
    };
  }

  #tell(spec: Spec, lease: Lease, status: "finished" | "failed", data: Data | null): void {
    const [name, own, queues] = this.#state.sql.unitForMessage.get(lease.unit) ?? [];
    if (typeof queues !== "string") return;
    for (const queue of JSON.parse(queues) as string[])
      addMessage(this.#state, spec.space, {
        queue,
        workSpec: spec.name,
        workUnit: nameFromBytes(name as Uint8Array),
        attempt: attemptId(lease.unit, lease.number),
        status,
        data: data ?? readData(own),
        at: Math.max(this.#now, lease.start),
      });
  }

  #gather(spec: Spec, lease: Lease, action: "finish" | "fail"): void {
    const { number, worker, start, expiration, late } = lease;
    const found = this.#alike.find(
      (one) =>
        one.lease.start === start &&
        one.lease.worker === worker &&
        one.lease.number === number &&
        one.lease.expiration === expiration &&
        one.lease.late === late &&
        one.action === action &&
        one.spec === spec,
    );
    if (found === undefined) this.#alike.unshift({ spec, lease, action, units: [lease.unit] });
    else found.units.push(lease.unit);
    // the attempts have little in common: grouping does not pay, and searching the groups would take longer and longer
    if (this.#alike.length > 20) this.#endAlike();
  }

  #end(
    spec: Spec,
    lease: Lease,
    action: "finish" | "fail",
    data: Data | null,
    errors: readonly string[],
  ): void {
    const { sql } = this.#state;
    const { unit, number, worker, start, expiration, late } = lease;
    const status = actionStatus[action];
    const end = Math.max(this.#now, start);
    sql.endOne.run(
      unitState[status],
      attemptCode[status],
      number,
      worker,
      start,
      end,
      expiration,
      Number(late),
      errors.length === 0 ? null : JSON.stringify(errors),
      Number(data !== null),
      dataValue(data),
      unit,
    );
    if (action === "fail") sql.noteFailed.run(unit);
    if (spec.retained > 0) sql.addEnded.run(spec.id, unitState[status], end, unit);
  }

  #endAlike(): void {
    const { sql } = this.#state;
    for (const { spec, lease, action, units } of this.#alike) {
      if (units.length === 1) {
        this.#end(spec, lease, action, null, []);
        continue;
      }
      const status = actionStatus[action];
      const { number, worker, start, expiration, late } = lease;
      const ids = JSON.stringify(units);
      const end = Math.max(this.#now, start);
      sql.endMany.run(
        unitState[status],
        attemptCode[status],
        number,
        worker,
        start,
        end,
        expiration,
        Number(late),
        ids,
      );
      if (action === "fail") sql.noteFailedMany.run(ids);
      if (spec.retained > 0) sql.endedMany.run(ids);
    }
    this.#alike = [];
  }

  /** Writes the collected ends. */
  flush(): void {
    const { sql } = this.#state;
    const [first] = this.#units;
    if (this.#units.length === 1) sql.dropLease.run(first!);
    else if (first !== undefined) sql.dropLeases.run(JSON.stringify(this.#units));
    this.#endAlike();
    this.#units = [];
  }
}

// ---- time

/** Ends expired leases, in a store without dependencies. False, with nothing changed, if the rules have to do it. */
export function expirePlain(state: State, spec: Spec, leases: readonly Lease[], now: number): boolean {
  if (!state.fastPaths || state.counters.needs > 0 || hasLanes(spec.meta) || spec.timed) return false;
  const { sql } = state;
  const ids = JSON.stringify(leases.map(({ unit }) => unit));
  state.touch(spec);
  state.writes++;
  sql.expireMany.run(ids);
  sql.dropLeases.run(ids);
  const available = (state.counters.extras === 0 ? sql.waitAgain : sql.waitAgainLimited).run(ids, now);
  const delayed = available < leases.length ? sql.delayAgain.run(ids, now) : 0;
  for (const { unit } of leases) state.setLease(unit, undefined);
  state.history.note(spec.id, "expired", now, -1, leases.length);
  spec.counts.pending -= leases.length;
  spec.counts.available += available;
  spec.counts.delayed += delayed;
  spec.top = spec.due = undefined;
  return true;
}

/** Makes units available whose delay is over: the first ones in order of time. `last` is the time of the last one. */
export function releasePlain(state: State, spec: Spec, units: readonly number[], last: number): boolean {
  if (!state.fastPaths || hasLanes(spec.meta)) return false;
  state.touch(spec);
  state.writes++;
  (state.counters.extras === 0 ? state.sql.readyMany : state.sql.readyManyLimited).run(JSON.stringify(units));
  state.sql.dropDue.run(spec.id, last, units.at(-1)!);
  spec.counts.delayed -= units.length;
  spec.counts.available += units.length;
  spec.top = spec.due = undefined;
  return true;
}

// ---- deleting

/** Deletes units of one spec, in a store without dependencies. */
export function* deletePlain(state: State, spec: Spec, ids: readonly number[]): Steps<boolean> {
  if (!state.fastPaths || state.counters.needs > 0 || hasLanes(spec.meta) || anyInBatch(state, ids))
    return false;
  state.noteEnds(ids);
  for (let at = 0; at < ids.length; at += unitsAtOnce) {
    if (at > 0) yield;
    deleteSome(state, spec, ids.slice(at, at + unitsAtOnce));
  }
  return true;
}

function deleteSome(state: State, spec: Spec, ids: readonly number[]): void {
  const { sql } = state;
  const { counts } = spec;
  const list = JSON.stringify(ids);
  const { failed } = counts;
  state.touch(spec);
  state.writes++;
  for (const [stored, count] of sql.countStates.all(list)) {
    if (stored === unitState.finished) counts.finished -= count as number;
    else if (stored === unitState.failed) counts.failed -= count as number;
    else if (stored === unitState.blocked) counts.blocked -= count as number;
  }
  for (const id of ids) if (state.leases.get(id) !== undefined) state.setLease(id, undefined);
  counts.pending -= sql.dropLeases.run(list);
  counts.available -= sql.dropReadyMany.run(list);
  counts.delayed -= sql.dropDelayedMany.run(list);
  if (spec.retained > 0) sql.dropEndedMany.run(list);
  if (spec.timed) {
    sql.dropTimers.run(spec.id, list);
    spec.ring = undefined;
  }
  dropExtras(state, spec, ids);
  if (spec.counts.failed < failed) dropFailed(state, spec, ids);
  sql.dropHistoryMany.run(list);
  dropLogs(state, ids);
  sql.dropUnits.run(list);
  spec.top = spec.due = undefined;
}
