/** Claiming and settling. */
import {
  actionStatus,
  attemptId,
  encodeData,
  freeContinuousName,
  judge,
  mayGenerate,
  nextGeneration,
  readOutputs,
  tooManyRetries,
  type AttemptChanged,
  type AttemptRow,
  type Claim,
  type Settle,
} from "../core/index.ts";
import { park, resolve } from "./dependents.ts";
import { expire } from "./expiry.ts";
import {
  attemptRow,
  begin,
  ended,
  failUnit,
  letGo,
  place,
  unplace,
  type Attempt,
  type Spec,
  type Unit,
  type UnitTable,
  type Worker,
} from "./state.ts";
import { putUnits } from "./work-units.ts";

export function claimUnits(
  table: UnitTable,
  spec: Spec,
  claim: Claim,
  worker: Worker,
  now: number,
): { attempts: AttemptRow[]; more: boolean } {
  const { meta } = spec;
  const attempts: AttemptRow[] = [];
  if (meta.paused) return { attempts, more: false };
  let places = claim.limit;
  if (meta.maxRunning > 0) places = Math.min(places, meta.maxRunning - spec.leases.size);
  if (places > 0 && mayGenerate(meta, spec.ready.size, spec.leases.size, now)) {
    const name = freeContinuousName(now, (taken) => spec.units.has(taken));
    putUnits(
      table,
      spec,
      [{ name, data: encodeData({}), priority: 0, notBefore: 0, dependencies: null }],
      now,
    );
    spec.meta = { ...meta, nextContinuous: nextGeneration(meta, now) };
    places = 1;
  }
  let exhausted = 0;
  for (; places > 0; places--) {
    const unit = spec.ready.first();
    if (unit === undefined) break;
    if (claim.maxRetries > 0 && unit.tries >= claim.maxRetries) {
      failUnit(unit, worker.name, tooManyRetries, now);
      resolve(unit, now);
      exhausted++;
      continue;
    }
    unplace(unit);
    const attempt = begin(unit, worker, claim.expiration, now);
    place(unit, "pending");
    attempts.push(attemptRow(unit, attempt));
  }
  return { attempts, more: exhausted > 0 && attempts.length === 0 && spec.ready.size > 0 };
}

export function settleUnit(table: UnitTable, unit: Unit, change: Settle, now: number): AttemptChanged {
  const current = unit.attempt?.number === change.number ? unit.attempt : null;
  const attempt = current ?? unit.history?.find(({ number }) => number === change.number);
  const id = attemptId(change.unitId, change.number);
  const answer: AttemptChanged = {
    attempt: id,
    error: null,
    changed: false,
    status: attempt?.status ?? null,
    expirationTime: attempt?.expiration ?? 0,
    outputs: 0,
    chainingErrors: [],
  };
  if (attempt === undefined) return { ...answer, error: "no_such_attempt" };
  let verdict = judge(attempt.status, current !== null, change.action);
  const { maxRunning } = unit.spec.meta;
  // an attempt that lost its place among `max_running` cannot take it back
  if (verdict === "apply" && change.action === "renew" && attempt.status === "expired" && change.time > now)
    if (maxRunning > 0 && unit.spec.leases.size >= maxRunning) verdict = "lost_lease";
  if (verdict === "nothing") return answer;
  if (verdict !== "apply") {
    // a renew that comes too late keeps what the worker found out, on its own attempt
    if (verdict === "lost_lease" && change.action === "renew" && change.data !== null)
      attempt.data = change.data;
    return { ...answer, error: verdict };
  }
  if (attempt.status === "expired" && isRelease(change, now) && change.data === null) return answer;
  apply(table, unit, attempt, change, now, answer);
  answer.changed = true;
  answer.status = attempt.status;
  answer.expirationTime = attempt.expiration;
  return answer;
}

/** Gives the unit back: to expire, or to renew for no time. */
const isRelease = ({ action, time }: Settle, now: number): boolean =>
  action === "expire" || (action === "renew" && time <= now);

function apply(
  table: UnitTable,
  unit: Unit,
  attempt: Attempt,
  change: Settle,
  now: number,
  answer: AttemptChanged,
): void {
  if (change.data !== null) attempt.data = change.data;
  const release = isRelease(change, now);
  if (attempt.status === "expired" && !release) attempt.late = true;
  if (release) {
    if (attempt.status === "pending") {
      unplace(unit);
      if (change.untried) unit.tries--;
      attempt.expiration = Math.min(attempt.expiration, now);
      place(unit, "pending");
      expire(unit, attempt, now, now);
    }
    return;
  }
  unplace(unit);
  attempt.status = actionStatus[change.action];
  if (change.action === "renew") {
    attempt.expiration = change.time;
    attempt.end = 0;
    unit.spec.space.workers.get(attempt.worker)?.holds.add(unit);
    place(unit, "pending");
    return;
  }
  attempt.end = now;
  letGo(unit, attempt);
  if (change.action === "retry") {
    unit.notBefore = change.time;
    park(unit, now);
    return;
  }
  place(unit, attempt.status === "finished" ? "finished" : "failed");
  ended(unit, now);
  if (unit.links !== null) resolve(unit, now);
  if (attempt.status === "finished") chain(table, unit, attempt, now, answer);
}

/** Creates the units of a finished attempt's `output`, in the same step. */
function chain(table: UnitTable, unit: Unit, attempt: Attempt, now: number, answer: AttemptChanged): void {
  const { nextWorkSpecName } = unit.spec.meta;
  if (nextWorkSpecName === "") return;
  const next = unit.spec.space.specs.get(nextWorkSpecName);
  if (next === undefined) return;
  const { units, errors } = readOutputs(attempt.data);
  const puts = units.map(({ name, data, priority, delayMs }) => ({
    name,
    data,
    priority,
    notBefore: delayMs > 0 ? now + delayMs : 0,
    dependencies: null,
  }));
  putUnits(table, next, puts, now, attemptId(unit.id, attempt.number));
  attempt.chainingErrors = errors;
  answer.outputs = units.length;
  answer.chainingErrors = errors;
}
