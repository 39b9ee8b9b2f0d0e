/**
 * The life cycle of a unit: its state transitions, and their effects on the units that depend on it. Every store runs these
 * rules. A store's fast paths implement the common cases separately, and are tested against these rules.
 *
 *   add -> blocked | delayed | available -> pending -> finished | failed
 *                       ^                     |
 *                       +-- retried, expired -+
 */
import {
  actionStatus,
  tooManyRetries,
  type AttemptProgress,
  type FailReason,
  type NextTry,
} from "./attempt.ts";
import { latestTime } from "./check.ts";
import { dataGetText, dataWith, type Data } from "./data.ts";
import { brokenDependency, dependencyState, type DependencyState } from "./dependency.ts";
import { isSpent, ownTryLimit, retryAfter, specTryLimit } from "./retry.ts";
import {
  agedPriority,
  ages,
  isLate,
  latePriority,
  lateText,
  nextTimer,
  placeOf,
  type UnitTiming,
} from "./timing.ts";
import type { WorkUnitChange } from "./store.ts";
import { availableSince } from "./work-unit.ts";
import type { AttemptState, Need, Rule, UnitState, WorkingSet } from "./working-set.ts";

const noErrors: readonly string[] = [];

/** Dependents processed between two points where other calls may run. */
const unitsPerTurn = 100;

const newAttempt = (
  number: number,
  worker: string,
  status: "pending" | "failed",
  start: number,
  expiration: number,
  data: Data | null,
): AttemptState => ({
  number,
  worker,
  status,
  start,
  end: status === "pending" ? 0 : start,
  expiration,
  data,
  late: false,
  chainingErrors: noErrors,
  reason: null,
  progress: null,
});

/**
 * When an attempt of the unit begins: not before the end of the previous attempt or of a dependency, so that the history never
 * shows two at once. `at` may be earlier: clocks of daemons differ, and requests may have waited.
 */
const startOf = (unit: UnitState, at: number): number => Math.max(at, unit.since, unit.attempt?.end ?? 0);

/** How long a unit waited before an attempt that begins at `start`; negative for a unit that was not available. */
function waitedMs({ status, created, since, notBefore, attempt }: UnitState, start: number): number {
  if (status !== "available") return -1;
  return Math.max(0, start - availableSince({ created, since, notBefore, attemptEnd: attempt?.end ?? 0 }));
}

/** Starts an attempt of the unit by a worker, whatever the status of the unit. */
export function begin<Unit extends UnitState>(
  set: WorkingSet<Unit>,
  unit: Unit,
  worker: string,
  lifetimeMs: number,
): AttemptState {
  const start = startOf(unit, Math.max(set.now, set.lastFreedAt(unit.spec)));
  set.noteEvent(unit, "started", waitedMs(unit, start));
  set.leave(unit);
  supersede(set, unit, set.now);
  unit.tries++;
  const attempt = newAttempt(++unit.attempts, worker, "pending", start, start + lifetimeMs, unit.data);
  unit.attempt = attempt;
  set.began(unit, attempt, true);
  set.enter(unit, "pending");
  return attempt;
}

/** Moves the unit's latest attempt to the history; a pending one expires. Requires `set.leave(unit)` first. */
export function supersede<Unit extends UnitState>(set: WorkingSet<Unit>, unit: Unit, at: number): void {
  const { attempt } = unit;
  if (attempt === null) return;
  set.reopened(unit);
  const lost = attempt.status === "pending";
  if (lost) {
    attempt.status = "expired";
    attempt.end = Math.max(at, attempt.start);
  }
  set.archive(unit, attempt, lost);
  unit.attempt = null;
}

/** Fails a unit without running it: adds a failed attempt whose reason and data say why. Requires `set.leave(unit)` first. */
function failUnrun<Unit extends UnitState>(
  set: WorkingSet<Unit>,
  unit: Unit,
  worker: string,
  reason: FailReason,
  data: Data,
  at: number,
): void {
  const time = startOf(unit, at);
  supersede(set, unit, at);
  unit.attempt = newAttempt(++unit.attempts, worker, "failed", time, time, data);
  unit.attempt.reason = reason;
  set.noteEvent(unit, "failed", -1);
  set.enter(unit, "failed");
  set.ended(unit, "failed", time);
}

/** Whether a unit was tried too often; `limit` is that of its work spec. */
export const isExhausted = <Unit extends UnitState>(
  set: WorkingSet<Unit>,
  unit: Unit,
  limit: number,
): boolean => unit.tries > 0 && isSpent(unit.tries, set.extras(unit).retry, limit);

/** The data of a unit that was tried too often: with its last error, where there was one, and the number of tries. */
function exhaustedData(data: Data | null, lastError: string | null, tries: number): Data {
  const failed = dataWith(data, "traceback", tooManyRetries);
  return dataWith(lastError === null ? failed : dataWith(failed, "last_error", lastError), "tries", tries);
}

/** The keys that a failure adds to the data, by its reason. */
export const failureKeys = (reason: FailReason | null): readonly string[] => {
  if (reason === "exhausted") return ["traceback", "last_error", "tries"];
  return reason === "dependency" ? ["traceback", "failed_dependency"] : ["traceback"];
};

/** Fails a unit that was tried too often. */
export function exhaust<Unit extends UnitState>(set: WorkingSet<Unit>, unit: Unit, worker: string): void {
  const data = exhaustedData(unit.data, lastError(unit.attempt), unit.tries);
  set.leave(unit);
  failUnrun(set, unit, worker, "exhausted", data, set.now);
}

/** The error of an attempt after which the unit was to be tried again. */
function lastError(attempt: AttemptState | null): string | null {
  if (attempt === null) return null;
  if (attempt.status === "expired") return `the lease of worker ${attempt.worker} ended`;
  return attempt.data === null ? null : dataGetText(attempt.data, "traceback");
}

// ---- waiting

export const needState = <Unit extends UnitState>(set: WorkingSet<Unit>, need: Need): DependencyState =>
  need.met ? "met" : dependencyState(need.kind, set.targetStatus(need));

function needsState<Unit extends UnitState>(set: WorkingSet<Unit>, needs: readonly Need[]): DependencyState {
  let state: DependencyState = "met";
  for (const need of needs) {
    const one = needState(set, need);
    if (one === "broken") return "broken";
    if (one === "open") state = "open";
  }
  return state;
}

/**
 * Makes a unit blocked, delayed or available; or fails it when a dependency is broken or its expiry has passed. The unit must be
 * new or have left its list (`set.leave`).
 */
export function wait<Unit extends UnitState>(set: WorkingSet<Unit>, unit: Unit, at: number): void {
  const needs = set.needs(unit.id);
  const state = needs.length === 0 ? "met" : needsState(set, needs);
  const timing = set.timing(unit);
  if (state === "broken") failBroken(set, unit, needs, at);
  else if (timing?.expires !== undefined && timing.expires <= set.now) failLate(set, unit, timing.expires);
  else {
    if (timing?.deadline !== undefined && timing.deadline <= set.now) goFirst(set, unit, timing);
    set.enter(unit, state === "open" ? "blocked" : unit.notBefore > set.now ? "delayed" : "available");
  }
}

function failBroken<Unit extends UnitState>(
  set: WorkingSet<Unit>,
  unit: Unit,
  needs: readonly Need[],
  at: number,
): void {
  const broken = needs.find((need) => needState(set, need) === "broken");
  if (broken === undefined) throw new Error("unreachable");
  const traceback = brokenDependency(broken.workSpec, broken.workUnit, set.targetStatus(broken));
  const data = dataWith(dataWith(unit.data, "traceback", traceback), "failed_dependency", broken.workUnit);
  failUnrun(set, unit, "", "dependency", data, at);
}

/** Fails a unit that did not begin in time. The failure is dated to `expires`, but not before the unit was added or last tried. */
function failLate<Unit extends UnitState>(set: WorkingSet<Unit>, unit: Unit, expires: number): void {
  // a unit that is past its deadline was counted then
  if (!isLate(unit.priority)) set.noteEvent(unit, "late", -1);
  const data = dataWith(unit.data, "traceback", lateText(expires));
  failUnrun(set, unit, "", "late", data, Math.max(expires, unit.created));
}

/** Moves a unit whose deadline has passed before all that are not late. Requires `set.leave(unit)` first. */
function goFirst<Unit extends UnitState>(set: WorkingSet<Unit>, unit: Unit, timing: UnitTiming): void {
  if (isLate(unit.priority)) return;
  const { priority: place } = unit;
  unit.priority = latePriority(timing.deadline ?? 0);
  moveTo(set, unit, place, timing.priority ?? place);
  set.noteEvent(unit, "late", -1);
}

/** Handles the timer of a waiting unit: past its deadline it goes first, past its expiry it fails. */
export function ring<Unit extends UnitState>(set: WorkingSet<Unit>, unit: Unit): void {
  const timing = set.timing(unit);
  const timer = timing === null ? 0 : nextTimer(timing, unit.priority);
  if (timer === 0 || timer > set.now) return;
  set.leave(unit);
  wait(set, unit, timer);
}

/** Ends the lease of the unit's attempt at this time. The unit waits again, and the attempt may still be settled late. */
export function expire<Unit extends UnitState>(
  set: WorkingSet<Unit>,
  unit: Unit,
  attempt: AttemptState,
  at: number,
): void {
  set.leave(unit);
  attempt.status = "expired";
  attempt.end = Math.max(at, attempt.start);
  set.noteEvent(unit, "expired", -1);
  set.released(unit, attempt);
  wait(set, unit, attempt.end);
}

/** Applies elapsed time to one unit: expires its lease or ends its delay. */
export function catchUpUnit<Unit extends UnitState>(set: WorkingSet<Unit>, unit: Unit): void {
  const { attempt, status } = unit;
  if (status === "pending" && attempt?.status === "pending" && attempt.expiration <= set.now)
    expire(set, unit, attempt, attempt.expiration);
  else if (status === "delayed" && unit.notBefore <= set.now) {
    set.leave(unit);
    wait(set, unit, set.now);
  }
}

// ---- settling

/** Finishes or fails the unit by its attempt. The caller has checked `judge`. */
export function endAttempt<Unit extends UnitState>(
  set: WorkingSet<Unit>,
  unit: Unit,
  attempt: AttemptState,
  action: "finish" | "fail",
  reason: FailReason = "error",
): void {
  // a finish may override an earlier failure
  set.reopened(unit);
  set.leave(unit);
  attempt.status = actionStatus[action];
  attempt.reason = reason === "error" ? null : reason;
  attempt.end = Math.max(set.now, attempt.start);
  set.released(unit, attempt);
  const status = action === "finish" ? "finished" : "failed";
  set.noteEvent(unit, status, attempt.end - attempt.start);
  set.enter(unit, status);
  set.ended(unit, status, attempt.end);
}

/**
 * Ends the attempt with an error: the unit is tried again by its retry policy, or fails. Returns the next try; null when the unit
 * fails. The caller has checked `judge`.
 */
export function endInError<Unit extends UnitState>(
  set: WorkingSet<Unit>,
  unit: Unit,
  attempt: AttemptState,
  reason: FailReason,
  random: number,
): NextTry | null {
  const { meta } = unit.spec;
  const own = set.extras(unit).retry;
  const after = retryAfter(meta, own, unit.tries, random);
  if (typeof after === "number") {
    retryUnit(set, unit, attempt, after > 0 ? Math.min(set.now + after, latestTime) : 0);
    // it is too late for another try
    if (unit.status === "failed") return null;
    const limit = ownTryLimit(own) ?? specTryLimit(meta);
    return { delayMs: after, left: limit === 0 ? null : limit - unit.tries };
  }
  if (after === "exhausted") {
    const error = attempt.data === null ? null : dataGetText(attempt.data, "traceback");
    attempt.data = exhaustedData(attempt.data, error, unit.tries);
  }
  endAttempt(set, unit, attempt, "fail", after === "exhausted" ? "exhausted" : reason);
  return null;
}

export function retryUnit<Unit extends UnitState>(
  set: WorkingSet<Unit>,
  unit: Unit,
  attempt: AttemptState,
  notBefore: number,
  untried = false,
): void {
  if (untried) unit.tries--;
  set.leave(unit);
  attempt.status = actionStatus.retry;
  attempt.end = Math.max(set.now, attempt.start);
  set.noteEvent(unit, "retried", untried ? -1 : attempt.end - attempt.start);
  set.released(unit, attempt);
  unit.notBefore = notBefore;
  wait(set, unit, attempt.end);
}

export function renewLease<Unit extends UnitState>(
  set: WorkingSet<Unit>,
  unit: Unit,
  attempt: AttemptState,
  expiration: number,
  progress: AttemptProgress | null,
): void {
  const lapsed = attempt.status === "expired";
  set.leave(unit);
  attempt.status = "pending";
  attempt.expiration = expiration;
  attempt.end = 0;
  if (lapsed) attempt.progress = null;
  if (progress !== null) attempt.progress = progress;
  if (lapsed) set.began(unit, attempt, false);
  set.enter(unit, "pending");
}

/** Gives the unit back before its lease has ended. */
export function releaseUnit<Unit extends UnitState>(
  set: WorkingSet<Unit>,
  unit: Unit,
  attempt: AttemptState,
  untried: boolean,
): void {
  if (untried) unit.tries--;
  set.leave(unit);
  attempt.expiration = Math.min(attempt.expiration, set.now);
  set.enter(unit, "pending");
  expire(set, unit, attempt, set.now);
}

// ---- changes by an operator

/** Changes one unit; false when the change does not apply to its status. */
export function changeUnit<Unit extends UnitState>(
  set: WorkingSet<Unit>,
  unit: Unit,
  change: WorkUnitChange,
): boolean {
  const { status } = unit;
  const waits = status === "available" || status === "delayed" || status === "blocked";
  if (change.kind === "reset") {
    if (waits) return false;
    set.leave(unit);
    supersede(set, unit, set.now);
    unit.tries = 0;
    unit.since = set.now;
    // it is wanted now: neither a delay nor its expiry may keep it from running
    unit.notBefore = Math.min(unit.notBefore, set.now);
    dropExpiry(set, unit);
    setPlace(set, unit, set.now);
    // it depends on units that may be reset in the same call: see `changeUnits`
    if (set.needs(unit.id).length > 0) set.enter(unit, "blocked");
    else wait(set, unit, set.now);
    return true;
  }
  if (change.kind === "cancel") {
    if (status === "finished" || status === "failed") return false;
    // superseded, so that a task that ends at the same moment cannot finish what was cancelled
    set.leave(unit);
    failUnrun(set, unit, "", "cancelled", dataWith(unit.data, "traceback", change.traceback), set.now);
    return true;
  }
  if (change.kind === "set-delay" && !waits) return false;
  set.leave(unit);
  if (change.kind === "set-priority") setPriority(set, unit, change.priority);
  else if (change.kind === "adjust-priority")
    setPriority(set, unit, (set.timing(unit)?.priority ?? unit.priority) + change.by);
  else setDelay(set, unit, change.notBefore);
  if (waits) wait(set, unit, set.now);
  else set.enter(unit, status);
  return true;
}

/** Sets the given priority. A unit that gains priority by waiting moves by the difference. */
function setPriority<Unit extends UnitState>(set: WorkingSet<Unit>, unit: Unit, priority: number): void {
  const timing = set.timing(unit);
  if (timing?.priority === undefined) unit.priority = priority;
  else moveTo(set, unit, placeOf(unit.priority, timing) + priority - timing.priority, priority);
}

/** Delays a unit, or ends its delay. As when it is added again, it keeps the priority gained by waiting unless it is delayed anew. */
function setDelay<Unit extends UnitState>(set: WorkingSet<Unit>, unit: Unit, notBefore: number): void {
  unit.notBefore = notBefore;
  if (notBefore > set.now) setPlace(set, unit, notBefore);
  else setPlace(set, unit, set.now, placeOf(unit.priority, set.timing(unit)));
}

/** For a work spec with `aging`: the unit gains priority from this time on. It keeps `place` if that is higher. */
function setPlace<Unit extends UnitState>(
  set: WorkingSet<Unit>,
  unit: Unit,
  at: number,
  place = -Infinity,
): void {
  const { meta } = unit.spec;
  if (!ages(meta)) return;
  const priority = set.timing(unit)?.priority ?? unit.priority;
  moveTo(set, unit, Math.max(place, agedPriority(meta, priority, at)), priority);
}

/** Moves a unit in the claim order. A late unit stays first, and takes the place when it is no longer late. */
function moveTo<Unit extends UnitState>(
  set: WorkingSet<Unit>,
  unit: Unit,
  place: number,
  priority: number,
): void {
  const { place: _before, ...timing } = set.timing(unit) ?? {};
  const late = isLate(unit.priority);
  if (!late) unit.priority = place;
  const kept = late && place !== priority ? { place } : {};
  set.setExtras(unit, { ...set.extras(unit), timing: { ...timing, priority, ...kept } });
}

/** Removes the expiry of a unit that is reset: otherwise it would fail as late. */
function dropExpiry<Unit extends UnitState>(set: WorkingSet<Unit>, unit: Unit): void {
  const timing = set.timing(unit);
  if (timing?.expires === undefined) return;
  const { expires: _never, ...rest } = timing;
  const left = Object.keys(rest).length === 0 ? null : rest;
  set.setExtras(unit, { ...set.extras(unit), timing: left });
}

/** Deletes a unit. Its dependents are resolved after all units of the call are deleted, so that none fails that is deleted too. */
export function removeUnit<Unit extends UnitState>(
  set: WorkingSet<Unit>,
  unit: Unit,
  retired: boolean,
): void {
  if (unit.attempt?.status === "pending") set.released(unit, unit.attempt);
  set.leave(unit);
  set.removed(unit, set.now, retired);
  set.remove(unit);
}

// ---- consequences

/**
 * Resolves the dependents of all units that have ended: marks needs as met and unblocks or fails the units; then their dependents.
 * Goes level by level, each in the order of ids, which is also the order of their messages.
 */
export function* follow<Unit extends UnitState>(set: WorkingSet<Unit>): Rule<void> {
  for (let level = set.takeUnresolved(); level !== null; level = set.takeUnresolved()) {
    yield set.loadDependents([...level.keys()]);
    const concerned = new Map<Unit, number>();
    let seen = 0;
    for (const [unit, at] of level)
      for (const dependent of set.dependents(unit)) {
        concerned.set(dependent, Math.max(at, concerned.get(dependent) ?? 0));
        if (++seen % unitsPerTurn === 0) yield undefined;
      }
    const inOrder = concerned.size > 1 ? [...concerned].sort(([a], [b]) => a.id - b.id) : concerned;
    for (const [dependent, at] of inOrder) {
      resolve(set, dependent, at);
      if (++seen % unitsPerTurn === 0) yield undefined;
    }
  }
}

/** Checks a unit again after one of its dependencies has ended or was deleted, or after it was reset. */
export function resolve<Unit extends UnitState>(set: WorkingSet<Unit>, unit: Unit, at: number): void {
  const needs = set.needs(unit.id);
  for (const need of needs) if (!need.met && needState(set, need) === "met") set.meet(unit, need);
  if (unit.status !== "blocked" || unit.spec.deleted) return;
  const state = needsState(set, needs);
  if (state === "open") return;
  set.leave(unit);
  if (state === "broken") failBroken(set, unit, needs, at);
  else {
    unit.since = Math.max(unit.since, at);
    wait(set, unit, at);
  }
}

/**
 * Call before a rule changes a unit. If units that ended earlier in the same verb still affect it or its dependents, resolves all
 * of them first.
 */
export function* followBefore<Unit extends UnitState>(set: WorkingSet<Unit>, unit: Unit): Rule<void> {
  if (unit.status === "blocked") {
    yield set.loadReachable([unit.id]);
    if (!dependsOnUnresolved(set, unit)) return;
  } else {
    if (!set.isUnresolved(unit)) return;
    yield set.loadDependents([unit]);
    if (isEmpty(set.dependents(unit))) return;
  }
  yield* follow(set);
}

/** Whether a blocked unit depends, directly or through other blocked units, on one that has ended or was deleted and is not resolved yet. */
function dependsOnUnresolved<Unit extends UnitState>(set: WorkingSet<Unit>, unit: Unit): boolean {
  const seen = new Set<number>();
  const blocked = [unit.id];
  for (let id = blocked.pop(); id !== undefined; id = blocked.pop())
    for (const need of set.needs(id)) {
      if (need.met || seen.has(need.target)) continue;
      seen.add(need.target);
      if (set.isUnresolvedId(need.target)) return true;
      if (set.targetStatus(need) === "blocked") blocked.push(need.target);
    }
  return false;
}

const isEmpty = (items: Iterable<unknown>): boolean => items[Symbol.iterator]().next().done === true;
