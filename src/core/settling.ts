/** Settling: finish, fail, error, retry, expire and renew, each guarded by `judge`. */
import { actionStatus, attemptId, judge, type AttemptAction, type AttemptChanged } from "./attempt.ts";
import { readOutputs, type OutputUnit } from "./chaining.ts";
import { dataWith, dataWithout, type Data } from "./data.ts";
import { putUnits } from "./adding.ts";
import { batchLabel, batchOf } from "./batch.ts";
import { resolveConsequences } from "./batching.ts";
import { countOutcomes } from "./breaking.ts";
import {
  catchUpUnit,
  endAttempt,
  endInError,
  expire,
  failureKeys,
  follow,
  followBefore,
  releaseUnit,
  renewLease,
  retryUnit,
} from "./life.ts";
import { mayRunUnder } from "./limits.ts";
import { hasLanes, mayRunAgain } from "./partitions.ts";
import type { AttemptKey, Settle, WorkUnitPut } from "./store.ts";
import { byExpiration } from "./sweeping.ts";
import type { AttemptState, Rule, UnitState, WorkingSet } from "./working-set.ts";

/** The rule yields after this many changes, so that the store can run other work. */
const changesPerTurn = 100;

/**
 * Settles attempts of one namespace in the order given. Their dependents are resolved after all changes, or before a change that
 * touches a unit still to be resolved.
 */
export function* settleAttempts<Unit extends UnitState>(
  set: WorkingSet<Unit>,
  namespace: string,
  changes: readonly Settle[],
): Rule<AttemptChanged[]> {
  yield set.loadUnits(changes.map(({ unitId }) => unitId));
  catchUpUnits(set, changes);
  if (set.isUnresolved()) yield* follow(set);
  yield set.loadPast(changes.filter(({ unitId, number }) => set.unit(unitId)?.attempt?.number !== number));
  if (set.readsAhead) yield* loadOutputs(set, changes);
  const answers: AttemptChanged[] = [];
  for (let i = 0; i < changes.length; i++) {
    const change = changes[i]!;
    if (i > 0 && i % changesPerTurn === 0) yield undefined;
    const unit = set.unit(change.unitId);
    if (unit === undefined || unit.spec.deleted || unit.spec.namespace !== namespace) {
      // a unit of another namespace does not exist here, and one that was never made cannot be gone
      const gone = unit === undefined ? set.everMade(change.unitId) : unit.spec.namespace === namespace;
      answers.push({ ...unchanged(change), error: gone ? "gone" : "no_such_attempt" });
      continue;
    }
    if (set.isUnresolved()) yield* followBefore(set, unit);
    if (mayTakePlace(unit, change, set.now)) {
      yield set.loadLapsed(unit.spec);
      expireLapsed(set, unit.spec);
      yield set.loadCounts(unit.spec);
      if (hasLanes(unit.spec.meta)) yield set.loadRunning(unit.spec, unit.partition);
      if (unit.spec.meta.limits.length > 0) yield set.loadLimits(unit.spec);
    }
    const answer = unchanged(change);
    const finished = settleOne(set, unit, change, answer);
    const next = finished === null ? undefined : nextSpec(set, unit);
    if (finished !== null && next !== undefined) yield* chain(set, next, unit, finished, answer);
    answers.push(answer);
  }
  if (set.isUnresolved()) yield* resolveConsequences(set);
  if (set.hasOutcomes) yield* countOutcomes(set);
  return answers;
}

/** Applies elapsed time to the units of these changes. */
function catchUpUnits<Unit extends UnitState>(set: WorkingSet<Unit>, changes: readonly Settle[]): void {
  for (const { unitId } of changes) {
    const unit = set.unit(unitId);
    if (unit !== undefined) catchUpUnit(set, unit);
  }
}

export const unchanged = ({ unitId, number }: AttemptKey): AttemptChanged => ({
  attempt: attemptId(unitId, number),
  error: null,
  changed: false,
  status: null,
  expirationTime: 0,
  outputs: 0,
  chainingErrors: [],
});

/** Whether the change renews an expired attempt of a limited work spec: another unit may have taken its place. */
const mayTakePlace = (unit: UnitState, { action, number, time }: Settle, now: number): boolean =>
  action === "renew" &&
  time > now &&
  (unit.spec.meta.maxRunning > 0 || hasLanes(unit.spec.meta) || unit.spec.meta.limits.length > 0) &&
  unit.attempt?.number === number &&
  unit.attempt.status === "expired";

/**
 * Writes that lapsed leases have expired before their places are taken: otherwise an engine whose clock is behind, or a call that
 * waited, would renew them without checking the limits.
 */
function expireLapsed<Unit extends UnitState>(set: WorkingSet<Unit>, spec: Unit["spec"]): void {
  for (const unit of [...set.lapsed(spec)].sort(byExpiration))
    if (unit.attempt?.status === "pending") expire(set, unit, unit.attempt, unit.attempt.expiration);
}

function hasPlace<Unit extends UnitState>(set: WorkingSet<Unit>, { spec, partition }: Unit): boolean {
  const { meta } = spec;
  if (meta.maxRunning > 0 && set.count(spec, "pending") >= meta.maxRunning) return false;
  if (meta.limits.length > 0 && !mayRunUnder(set.limits(spec))) return false;
  return !hasLanes(meta) || mayRunAgain(meta, set.running(spec, partition));
}

/** Whether the attempt lost its unit before its lease ended. A unit that the worker gave back does not count: that ends the lease. */
const wasTaken = ({ status, end, expiration }: AttemptState): boolean =>
  status === "expired" && end < expiration;

const isOutcome = (action: AttemptAction): boolean =>
  action === "finish" || action === "fail" || action === "retry";

/** Whether the task failed; a cancelled or late task does not count. */
const isFailure = ({ action, reason }: Settle): boolean =>
  (action === "fail" || action === "error") && reason !== "cancelled" && reason !== "late";

/** Whether the change gives the unit back: `expire`, or `renew` for no time. */
const isRelease = ({ action, time }: Settle, now: number): boolean =>
  action === "expire" || (action === "renew" && time <= now);

/** Carries out one change and fills in the answer. Returns the attempt if it has finished now. */
function settleOne<Unit extends UnitState>(
  set: WorkingSet<Unit>,
  unit: Unit,
  change: Settle,
  answer: AttemptChanged,
): AttemptState | null {
  const current = unit.attempt?.number === change.number ? unit.attempt : null;
  const attempt = current ?? set.past(unit, change.number);
  if (attempt === undefined) {
    answer.error = "no_such_attempt";
    return null;
  }
  const { action } = change;
  // a worker that renews still runs the task; one that settles learns now that it lost the unit
  if (current === null && action !== "renew") set.released(unit, attempt);
  answer.status = attempt.status;
  answer.expirationTime = attempt.expiration;
  let verdict = judge(attempt.status, current !== null, action);
  if (verdict === "apply" && mayTakePlace(unit, change, set.now) && !hasPlace(set, unit))
    verdict = "lost_lease";
  if (verdict === "nothing") return null;
  if (
    verdict === "lost_lease" &&
    current === null &&
    change.recordTaken &&
    isOutcome(action) &&
    wasTaken(attempt)
  ) {
    attempt.status = actionStatus[action];
    if (change.data !== null) attempt.data = change.data;
    set.savePast(unit, attempt);
    answer.changed = true;
    answer.status = attempt.status;
    return null;
  }
  if (verdict !== "apply") {
    // a renewal that comes too late still saves the worker's data, on its own attempt
    if (verdict === "lost_lease" && action === "renew" && change.data !== null) {
      attempt.data = change.data;
      if (current === null) set.savePast(unit, attempt);
      else set.save(unit);
    }
    answer.error = verdict;
    return null;
  }
  const release = isRelease(change, set.now);
  if (attempt.status === "expired" && release && change.data === null) return null;
  if (change.data !== null) attempt.data = change.data;
  // a finish overrides a failure: remove the keys that the failure added
  else if (attempt.status === "failed" && attempt.data !== null && attempt.data !== unit.data)
    attempt.data = dataWithout(attempt.data, failureKeys(attempt.reason));
  if (attempt.status === "expired" && !release) attempt.late = true;
  if (release) {
    if (attempt.status === "pending") releaseUnit(set, unit, attempt, change.untried);
    else set.save(unit);
  } else if (action === "renew") renewLease(set, unit, attempt, change.time, change.progress);
  else if (action === "retry") retryUnit(set, unit, attempt, change.time, change.untried);
  else if (action === "error") {
    if (change.error !== undefined) attempt.data = dataWith(attempt.data, "traceback", change.error);
    const retry = endInError(set, unit, attempt, change.reason ?? "error", change.random ?? 0);
    if (retry !== null) answer.retry = retry;
  } else if (action !== "expire") endAttempt(set, unit, attempt, action, change.reason);
  if (action === "finish") set.attemptEnded(unit, attempt, true);
  else if (isFailure(change)) set.attemptEnded(unit, attempt, false);
  answer.changed = true;
  answer.status = attempt.status;
  answer.expirationTime = attempt.expiration;
  return action === "finish" ? attempt : null;
}

// ---- chaining

/** A unit that the output of a finished attempt asks for. */
export const outputPut = (
  { name, data, priority, delayMs, partition, deadlineMs = 0, expiresMs = 0 }: OutputUnit,
  origin: string,
  now: number,
  batch: string | null = null,
): WorkUnitPut => ({
  name,
  data,
  priority,
  notBefore: delayMs > 0 ? now + delayMs : 0,
  dependencies: null,
  ...(partition !== "" && { partition }),
  ...((deadlineMs > 0 || expiresMs > 0) && {
    timing: {
      ...(deadlineMs > 0 && { deadline: now + deadlineMs }),
      ...(expiresMs > 0 && { expires: now + expiresMs }),
    },
  }),
  origin,
  ...(batch !== null && { labels: [batchLabel(batch)] }),
});

/** The work spec that gets the output of the unit. */
function nextSpec<Unit extends UnitState>(set: WorkingSet<Unit>, unit: Unit): Unit["spec"] | undefined {
  const { namespace, meta } = unit.spec;
  return meta.nextWorkSpecName === "" ? undefined : set.spec(namespace, meta.nextWorkSpecName);
}

/** Makes the units of a finished attempt's `output`, in the same step. */
function* chain<Unit extends UnitState>(
  set: WorkingSet<Unit>,
  next: Unit["spec"],
  unit: Unit,
  attempt: AttemptState,
  answer: AttemptChanged,
): Rule<void> {
  const { units, errors } = readOutputs(attempt.data);
  answer.outputs = units.length;
  answer.chainingErrors = errors;
  if (errors.length > 0) {
    attempt.chainingErrors = errors;
    set.save(unit);
  }
  if (units.length === 0) return;
  const batch = batchOf(set.extras(unit).labels);
  const puts = units.map((one) => outputPut(one, answer.attempt, set.now, batch));
  yield* putUnits(set, next, puts);
}

/** Loads at once what the outputs of all changes may touch. */
function* loadOutputs<Unit extends UnitState>(set: WorkingSet<Unit>, changes: readonly Settle[]): Rule<void> {
  const finishing: { unit: Unit; data: Data | null }[] = [];
  const specs = new Map<string, Set<string>>();
  for (const { action, unitId, data } of changes) {
    const unit = action === "finish" ? set.unit(unitId) : undefined;
    if (unit === undefined || unit.spec.deleted || unit.spec.meta.nextWorkSpecName === "") continue;
    finishing.push({ unit, data: data ?? unit.attempt?.data ?? null });
    const { namespace, meta } = unit.spec;
    const names = specs.get(namespace);
    if (names === undefined) specs.set(namespace, new Set([meta.nextWorkSpecName]));
    else names.add(meta.nextWorkSpecName);
  }
  if (finishing.length === 0) return;
  for (const [namespace, names] of specs) yield set.loadSpecs(namespace, names);
  const wanted = new Map<Unit["spec"], string[]>();
  for (const { unit, data } of finishing) {
    const next = nextSpec(set, unit);
    if (next === undefined) continue;
    const names = wanted.get(next) ?? [];
    wanted.set(next, names);
    for (const { name } of readOutputs(data).units) names.push(name);
  }
  let count = 0;
  for (const [spec, names] of wanted) {
    count += names.length;
    yield set.loadNames(spec, names);
  }
  yield set.reserve(count);
}
