/** Claiming and settling: the hot path. Ordinary cases go many at a time, the rest one by one by the rules of core. */
import {
  actionStatus,
  attemptId,
  encodeData,
  freeContinuousName,
  judge,
  mayGenerate,
  nextGeneration,
  nameFromBytes,
  readOutputs,
  tooManyRetries,
  type AttemptChanged,
  type AttemptRow,
  type Claim,
  type Data,
  type Settle,
} from "../core/index.ts";
import { park, resolve } from "./dependents.ts";
import type { Value } from "./driver.ts";
import { expire } from "./expiry.ts";
import { ended } from "./extras.ts";
import type { Lease } from "./leases.ts";
import { addMessage } from "./queues.ts";
import { attemptCode, unitState } from "./schema.ts";
import {
  dataValue,
  exactName,
  failUnit,
  findUnit,
  nameValue,
  pastAttempt,
  place,
  readData,
  saveUnit,
  unplace,
  type Attempt,
  type Spec,
  type State,
  type Unit,
} from "./state.ts";
import { putUnits, type Put, type Steps } from "./work-units.ts";
import { logAttempts } from "./workers.ts";

const mostAtOnce = 500;

// ---- claiming

export function* claimUnits(
  state: State,
  spec: Spec,
  claim: Claim,
  worker: number,
  now: number,
): Steps<{ attempts: AttemptRow[]; more: boolean }> {
  const { meta } = spec;
  const attempts: AttemptRow[] = [];
  if (meta.paused) return { attempts, more: false };
  let places = claim.limit;
  if (meta.maxRunning > 0) places = Math.min(places, meta.maxRunning - spec.counts.pending);
  if (places > 0 && mayGenerate(meta, spec.counts.available, spec.counts.pending, now)) {
    yield* generate(state, spec, now);
    places = 1;
  }
  let exhausted = 0;
  while (places > 0 && spec.counts.available > 0) {
    const before = attempts.length;
    const taken = claimSome(state, spec, claim, worker, Math.min(places, mostAtOnce), now, attempts);
    if (taken === 0) break;
    exhausted += taken - (attempts.length - before);
    places -= taken;
    if (places > 0 && spec.counts.available > 0) yield;
  }
  if (attempts.length > 0)
    logAttempts(
      state,
      worker,
      attempts.map(({ id, number }) => [Number.parseInt(id, 10), number]),
      now,
    );
  return { attempts, more: exhausted > 0 && attempts.length === 0 && spec.counts.available > 0 };
}

function* generate(state: State, spec: Spec, now: number): Steps<void> {
  const { meta } = spec;
  const name = freeContinuousName(
    now,
    (taken) => state.sql.unitId.get(spec.id, nameValue(taken)) !== undefined,
  );
  yield* putUnits(
    state,
    spec,
    [{ name, data: encodeData({}), priority: 0, notBefore: 0, dependencies: null }],
    now,
  );
  state.undo(() => {
    spec.meta = meta;
  });
  spec.meta = { ...meta, nextContinuous: nextGeneration(meta, now) };
  state.sql.setSpecMeta.run(JSON.stringify(spec.meta), spec.id);
}

/** Claims the first units; answers how many places they took. Stops at one that was tried too often, and fails it. */
function claimSome(
  state: State,
  spec: Spec,
  claim: Claim,
  worker: number,
  limit: number,
  now: number,
  attempts: AttemptRow[],
): number {
  const { sql } = state;
  const rows = (state.counters.extras === 0 ? sql.claimable : sql.claimableQueued).all(spec.id, limit);
  if (rows.length === 0) return 0;
  const { maxRetries } = claim;
  const expiration = now + claim.lifetimeMs;
  // units by the number of their next attempt: nearly always the first
  const ids = new Map<number, number[]>();
  const superseded: number[] = [];
  let lastPlace: Value = null;
  let lastName = "";
  let spent = 0;
  let taken = 0;
  for (const [unit, text, at, data, made, tries, status, queued] of rows) {
    const id = unit as number;
    if (maxRetries > 0 && (tries as number) >= maxRetries) {
      spent = id;
      break;
    }
    const name = exactName(state, spec, id, text);
    const number = (made as number) + 1;
    const list = ids.get(number);
    if (list === undefined) ids.set(number, [id]);
    else list.push(id);
    if (status !== null) superseded.push(id);
    attempts.push({
      id: attemptId(id, number),
      workSpec: spec.name,
      workUnit: name,
      worker: claim.worker,
      number,
      status: "pending",
      active: true,
      startTime: now,
      endTime: 0,
      expirationTime: expiration,
      data: readData(data),
      late: false,
      chainingErrors: [],
    });
    state.setLease(id, {
      unit: id,
      spec: spec.id,
      number,
      worker,
      start: now,
      expiration,
      late: false,
      own: false,
      queued: queued === 1,
    });
    lastPlace = at ?? null;
    lastName = name;
    taken++;
  }
  if (taken > 0) {
    state.touch(spec);
    state.writes++;
    if (superseded.length > 0) sql.supersedeMany.run(JSON.stringify(superseded));
    if (rows[0]?.[2] !== lastPlace) sql.dropPlacesBefore.run(spec.id, lastPlace);
    sql.dropClaimed.run(spec.id, lastPlace, nameValue(lastName));
    for (const [number, list] of ids) {
      if (list.length > 1) sql.addLeases.run(spec.id, number, worker, now, expiration, JSON.stringify(list));
      else sql.addLease.run(list[0]!, spec.id, number, worker, now, expiration, 0, 0, null);
    }
    spec.counts.available -= taken;
    spec.counts.pending += taken;
    spec.top = undefined;
  }
  if (spent === 0) return taken;
  const unit = findUnit(state, spent);
  if (unit !== undefined) {
    failUnit(state, unit, claim.worker, tooManyRetries, now);
    resolve(state, spent, now);
  }
  return taken + 1;
}

// ---- settling

export function* settleUnits(
  state: State,
  ns: string,
  changes: readonly Settle[],
  now: number,
): Steps<AttemptChanged[]> {
  const batch = new Batch(state, now);
  const answers: AttemptChanged[] = [];
  let steps = 0;
  for (const change of changes) {
    if (++steps % mostAtOnce === 0) {
      yield* batch.flush();
      yield;
    }
    const spec = state.specs.get(state.leases.get(change.unitId)?.spec ?? 0);
    const here = spec !== undefined && !spec.deleted && spec.space.name === ns;
    // an output may be the very unit that is settled next: only when it is written is the lease what it will be
    if (here && batch.hasOutputsInto(spec)) yield* batch.flush();
    const lease = state.leases.get(change.unitId);
    const ordinary = here && lease !== undefined ? batch.add(spec, lease, change) : null;
    if (ordinary !== null) {
      answers.push(ordinary);
      continue;
    }
    yield* batch.flush();
    answers.push(yield* settleOne(state, ns, change, now));
  }
  yield* batch.flush();
  return answers;
}

const answerFor = (change: Settle): AttemptChanged => ({
  attempt: attemptId(change.unitId, change.number),
  error: null,
  changed: false,
  status: null,
  expirationTime: 0,
  outputs: 0,
  chainingErrors: [],
});

/** Ends of running attempts, gathered so that those that differ in nothing but the unit are one statement. */
class Batch {
  readonly #state: State;
  readonly #now: number;
  #units: number[] = [];
  #alike: { spec: Spec; lease: Lease; action: "finish" | "fail"; units: number[] }[] = [];
  /** Finishes with outputs, in order. Their units are written when the outputs are. */
  #outputs: { next: Spec; puts: Put[] }[] = [];

  constructor(state: State, now: number) {
    this.#state = state;
    this.#now = now;
  }

  hasOutputsInto(spec: Spec): boolean {
    return this.#outputs.some(({ next }) => next === spec);
  }

  /** Takes an ordinary case and answers it; null for one that is to be looked at more closely. */
  add(spec: Spec, lease: Lease, change: Settle): AttemptChanged | null {
    const { action, data } = change;
    const state = this.#state;
    if (lease.number !== change.number || lease.expiration <= this.#now || (lease.own && data === null))
      return null;
    if (action !== "finish" && action !== "fail") return null;
    // who waits for the unit must see it end
    if (state.counters.needs > 0) return null;
    const answer = answerFor(change);
    const next = action === "finish" ? nextSpec(spec) : undefined;
    let errors: readonly string[] = [];
    if (next !== undefined) {
      const outputs = readOutputs(data ?? readData(state.sql.unitData.get(lease.unit)?.[0]));
      const origin = { unit: lease.unit, number: lease.number };
      const puts = outputs.units.map((unit) => output(unit, origin, this.#now));
      if (puts.length > 0) this.#outputs.push({ next, puts });
      ({ errors } = outputs);
      answer.outputs = outputs.units.length;
      answer.chainingErrors = errors;
    }
    const status = actionStatus[action];
    state.touch(spec);
    state.writes++;
    spec.counts.pending--;
    spec.counts[status]++;
    state.setLease(lease.unit, undefined);
    this.#units.push(lease.unit);
    state.noteEnd(lease.unit);
    if (lease.queued) this.#tell(spec, lease, status, data);
    if (data === null && errors.length === 0) this.#gather(spec, lease, action);
    else this.#end(spec, lease, action, data, errors);
    return { ...answer, changed: true, status, expirationTime: lease.expiration };
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
        at: this.#now,
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
    // attempts from everywhere, each by itself: there is nothing to gather, and looking for it would cost more and more
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
    sql.endOne.run(
      unitState[status],
      attemptCode[status],
      number,
      worker,
      start,
      this.#now,
      expiration,
      Number(late),
      errors.length === 0 ? null : JSON.stringify(errors),
      Number(data !== null),
      dataValue(data),
      unit,
    );
    if (spec.retained > 0) sql.addEnded.run(spec.id, unitState[status], this.#now, unit);
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
      sql.endMany.run(
        unitState[status],
        attemptCode[status],
        number,
        worker,
        start,
        this.#now,
        expiration,
        Number(late),
        ids,
      );
      if (spec.retained > 0) sql.endedMany.run(ids);
    }
    this.#alike = [];
  }

  /** Writes what was gathered. */
  *flush(): Steps<void> {
    const { sql } = this.#state;
    const [first] = this.#units;
    if (this.#units.length === 1) sql.dropLease.run(first!);
    else if (first !== undefined) sql.dropLeases.run(JSON.stringify(this.#units));
    this.#endAlike();
    this.#units = [];
    const outputs = this.#outputs;
    this.#outputs = [];
    for (let i = 0; i < outputs.length;) {
      const { next } = outputs[i]!;
      const puts: Put[] = [];
      for (; outputs[i]?.next === next; i++) puts.push(...outputs[i]!.puts);
      yield* putUnits(this.#state, next, puts, this.#now);
    }
  }
}

const nextSpec = ({ meta, space }: Spec): Spec | undefined =>
  meta.nextWorkSpecName === "" ? undefined : space.specs.get(meta.nextWorkSpecName);

const output = (
  { name, data, priority, delayMs }: { name: string; data: Data | null; priority: number; delayMs: number },
  origin: { unit: number; number: number },
  now: number,
): Put => ({ name, data, priority, notBefore: delayMs > 0 ? now + delayMs : 0, dependencies: null, origin });

function* settleOne(state: State, ns: string, change: Settle, now: number): Steps<AttemptChanged> {
  const unit = findUnit(state, change.unitId);
  if (unit !== undefined && !unit.spec.deleted && unit.spec.space.name === ns)
    return yield* settleUnit(state, unit, change, now);
  // a unit of another namespace does not exist here, and none that was never made can be gone
  const gone = unit === undefined ? change.unitId <= state.counters.unit : unit.spec.space.name === ns;
  return { ...answerFor(change), error: gone ? "gone" : "no_such_attempt" };
}

function* settleUnit(state: State, unit: Unit, change: Settle, now: number): Steps<AttemptChanged> {
  // past its time by rule, though in a great many nobody has come to it yet
  if (unit.attempt?.status === "pending" && unit.attempt.expiration <= now) {
    expire(state, unit, unit.attempt, unit.attempt.expiration, now);
  }
  const current = unit.attempt?.number === change.number ? unit.attempt : null;
  const attempt = current ?? pastAttempt(state, unit.id, change.number);
  const answer = answerFor(change);
  if (attempt === undefined) return { ...answer, error: "no_such_attempt" };
  answer.status = attempt.status;
  answer.expirationTime = attempt.expiration;
  let verdict = judge(attempt.status, current !== null, change.action);
  const { maxRunning } = unit.spec.meta;
  // an attempt that lost its place among `max_running` cannot take it back
  if (verdict === "apply" && change.action === "renew" && attempt.status === "expired" && change.time > now)
    if (maxRunning > 0 && unit.spec.counts.pending >= maxRunning) verdict = "lost_lease";
  if (verdict === "nothing") return answer;
  if (verdict !== "apply") {
    // a renew that comes too late keeps what the worker found out, on its own attempt
    if (verdict === "lost_lease" && change.action === "renew" && change.data !== null) {
      attempt.data = change.data;
      state.writes++;
      if (current === null) state.sql.setHistoryData.run(dataValue(change.data), unit.id, attempt.number);
      else saveUnit(state, unit);
    }
    return { ...answer, error: verdict };
  }
  if (attempt.status === "expired" && isRelease(change, now) && change.data === null) return answer;
  yield* apply(state, unit, attempt, change, now, answer);
  answer.changed = true;
  answer.status = attempt.status;
  answer.expirationTime = attempt.expiration;
  return answer;
}

/** Gives the unit back: to expire, or to renew for no time. */
const isRelease = ({ action, time }: Settle, now: number): boolean =>
  action === "expire" || (action === "renew" && time <= now);

function* apply(
  state: State,
  unit: Unit,
  attempt: Attempt,
  change: Settle,
  now: number,
  answer: AttemptChanged,
): Steps<void> {
  if (change.data !== null) attempt.data = change.data;
  const release = isRelease(change, now);
  if (attempt.status === "expired" && !release) attempt.late = true;
  if (release) {
    if (attempt.status === "pending") {
      if (change.untried) unit.tries--;
      attempt.expiration = Math.min(attempt.expiration, now);
      expire(state, unit, attempt, now, now);
    } else saveUnit(state, unit);
    return;
  }
  unplace(state, unit);
  attempt.status = actionStatus[change.action];
  if (change.action === "renew") {
    attempt.expiration = change.time;
    attempt.end = 0;
    place(state, unit, "pending");
    saveUnit(state, unit);
    return;
  }
  attempt.end = now;
  if (change.action === "retry") {
    unit.notBefore = change.time;
    park(state, unit, now);
    return;
  }
  place(state, unit, attempt.status === "finished" ? "finished" : "failed");
  const next = attempt.status === "finished" ? nextSpec(unit.spec) : undefined;
  const outputs = next === undefined ? undefined : readOutputs(attempt.data);
  if (outputs !== undefined) {
    attempt.chainingErrors = outputs.errors;
    answer.outputs = outputs.units.length;
    answer.chainingErrors = outputs.errors;
  }
  saveUnit(state, unit);
  ended(state, unit, now);
  resolve(state, unit.id, now);
  if (next === undefined || outputs === undefined) return;
  const origin = { unit: unit.id, number: attempt.number };
  yield* putUnits(
    state,
    next,
    outputs.units.map((one) => output(one, origin, now)),
    now,
  );
}
