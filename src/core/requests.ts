/**
 * Checks every value of a request and converts it to the form that stores take, before anything is done. An error names the field,
 * and in a list the item.
 */
import type { ActionInput } from "./action.ts";
import {
  attemptActions,
  defaultLifetimeMs,
  givenReasons,
  longestNote,
  parseAttemptId,
  type AttemptChange,
  type AttemptProgress,
} from "./attempt.ts";
import { checkLines, type AttemptLines, type LogWrite } from "./attempt-log.ts";
import { batchConditions, batchLabel, batchOf, type BatchInput } from "./batch.ts";
import {
  checkBoolean,
  checkCount,
  checkData,
  checkList,
  checkNumber,
  checkObject,
  checkOneOf,
  checkPriority,
  checkSpan,
  checkText,
  checkTime,
} from "./check.ts";
import type { Random } from "./clock.ts";
import type { AttemptMake, AttemptRequest, LockRequest } from "./coordinate.ts";
import type { Data } from "./data.ts";
import { describeValue } from "./describe-value.ts";
import { CoordinateError } from "./errors.ts";
import { defaultLockMs, longestLockMs, type CheckedLockRequest } from "./lock.ts";
import { checkName, type NameKind } from "./names.ts";
import { checkRetry, type UnitRetry } from "./retry.ts";
import type { ScheduleRequest } from "./scheduler.ts";
import type { AttemptCursor, ListedAttempt, Settle, WorkUnitPut, WorkUnitWhere } from "./store.ts";
import type { UnitTiming } from "./timing.ts";
import { workSpecName, type WorkSpecRef } from "./work-spec.ts";
import {
  conflictPolicies,
  maxLabels,
  maxQueues,
  workUnitStatuses,
  type ConflictPolicy,
  type WorkUnitInput,
  type WorkUnitQuery,
  type WorkUnitSelection,
} from "./work-unit.ts";
import { isWorkerLabel, maxWorkerLabels } from "./worker-labels.ts";
import { desiredStates, type WorkerChange, type WorkerQuery } from "./worker.ts";

/** A request for work, checked. */
export interface Ask {
  worker: string;
  number: number;
  lifetimeMs: number;
  requestId: string | null;
  schedule: ScheduleRequest;
}

export class Requests {
  readonly maxDataBytes: number;
  readonly maxItems: number;

  constructor(maxDataBytes: number, maxItems: number) {
    this.maxDataBytes = maxDataBytes;
    this.maxItems = maxItems;
  }

  /** Reads each item; an error says which one was bad, unless there is only one. */
  items<Item, Read>(
    field: string,
    items: readonly Item[],
    read: (item: Item, index: number) => Read,
  ): Read[] {
    return checkList(field, items, this.maxItems).map((item, i) => {
      try {
        return read(item, i);
      } catch (error) {
        if (!(error instanceof CoordinateError) || items.length === 1) throw error;
        throw new CoordinateError(error.code, `item ${i}: ${error.value}`, { cause: error });
      }
    });
  }

  names(field: string, kind: NameKind, names: readonly string[]): string[] {
    return this.items(field, names, (name) => checkName(kind, name));
  }

  data(field: string, data: Data | null | undefined): Data | null {
    return checkData(field, data, this.maxDataBytes);
  }

  unit(unit: WorkUnitInput, spec: string, now: number, onConflict: ConflictPolicy): WorkUnitPut {
    checkObject("work unit", unit);
    const notBefore = checkTime("notBefore", unit.notBefore);
    const delayMs = checkSpan("delayMs", unit.delayMs, now);
    if (notBefore > 0 && delayMs > 0)
      throw new CoordinateError("bad_argument", "delayMs: give either notBefore or delayMs, not both");
    const debounceMs = checkSpan("debounceMs", unit.debounceMs, now);
    if (debounceMs > 0 && (notBefore > 0 || delayMs > 0))
      throw new CoordinateError("bad_argument", "debounceMs: cannot be combined with notBefore or delayMs");
    const later = Math.max(delayMs, debounceMs);
    const put: WorkUnitPut = {
      name: checkName("work unit", unit.name),
      data: this.data("data", unit.data),
      priority: unit.priority === undefined ? 0 : checkPriority(unit.priority),
      notBefore: later > 0 ? now + later : notBefore,
      dependencies:
        unit.dependencies === undefined
          ? null
          : checkList("dependencies", unit.dependencies, this.maxItems).map((dependency) => {
              const { workSpec, workUnit, kind } = checkObject("dependencies", dependency);
              return {
                workSpec: workSpec === undefined ? spec : checkName("work spec", workSpec),
                workUnit: checkName("work unit", workUnit),
                kind: kind === undefined ? "hard" : checkOneOf("dependency kind", kind, ["hard", "soft"]),
              };
            }),
    };
    if (unit.queues !== undefined) {
      const queues = checkNames("queues", "queue", unit.queues);
      checkLength("queues", queues.length, maxQueues);
      if (queues.length > 0) put.queues = queues;
    }
    if (unit.labels !== undefined || unit.batch !== undefined) {
      const own = unit.batch === undefined ? [] : [batchLabel(checkBatch(unit.batch))];
      const given = unit.labels === undefined ? [] : checkList("labels", unit.labels, 1000);
      const labels = checkNames("labels", "label", [...own, ...given]);
      // the label of its batch is not counted: the caller need not know that a batch is a label
      checkLength("labels", labels.length - (batchOf(labels) === null ? 0 : 1), maxLabels);
      if (labels.length > 0) put.labels = labels;
    }
    if (unit.partition !== undefined && unit.partition !== "")
      put.partition = checkName("partition", unit.partition);
    if (unit.maxRetries !== undefined || unit.retry !== undefined) {
      const retry: UnitRetry = {};
      if (unit.maxRetries !== undefined) retry.maxRetries = checkCount("maxRetries", unit.maxRetries, 0);
      if (unit.retry !== undefined) retry.retry = checkRetry(unit.retry, now);
      put.retry = retry;
    }
    const timing = checkTiming(unit, now);
    if (timing !== null) put.timing = timing;
    const policy = unit.onConflict === undefined ? onConflict : checkConflict(unit.onConflict);
    if (policy !== "update") put.onConflict = policy;
    const throttleMs = checkSpan("throttleMs", unit.throttleMs, now);
    if (throttleMs > 0) put.throttleMs = throttleMs;
    return put;
  }

  /** Checks which units to change. Without conditions, it is refused unless `all` is set. */
  selection(selection: WorkUnitSelection): WorkUnitWhere {
    const where = this.where(selection);
    if (Object.keys(where).length === 0 && selection.all !== true) throw new CoordinateError("empty_query");
    return where;
  }

  /** Checks a query. Without conditions, it matches all units. */
  where(query: WorkUnitSelection | WorkUnitQuery): WorkUnitWhere {
    const where: WorkUnitWhere = {};
    if (query.names !== undefined) where.names = this.names("names", "work unit", query.names);
    if (query.statuses !== undefined)
      where.statuses = this.items("statuses", query.statuses, (status) =>
        checkOneOf("statuses", status, workUnitStatuses),
      );
    // a prefix is a piece of a name: it may end in the middle of a character's bytes
    if (query.prefix !== undefined && query.prefix !== "") where.prefix = checkText("prefix", query.prefix);
    if (query.label !== undefined) where.label = checkName("label", query.label);
    if (query.endedSince !== undefined) where.endedSince = checkTime("endedSince", query.endedSince);
    if (query.error !== undefined) {
      where.error = checkText("error", query.error);
      const failed = where.statuses === undefined || where.statuses.includes("failed");
      where.statuses = failed ? ["failed"] : [];
    }
    return where;
  }

  ask(request: AttemptRequest, now: number): Ask {
    return {
      worker: checkName("worker", checkObject("request", request).worker),
      number: checkCount("number", request.number, 1, 0) || 1,
      lifetimeMs: checkSpan("lifetimeMs", request.lifetimeMs, now) || defaultLifetimeMs,
      requestId: checkRequestId(request.requestId),
      schedule: { labels: [], ...checkSchedule(request) },
    };
  }

  make(request: AttemptMake, now: number): Required<AttemptMake> {
    const { workSpec, workUnit, worker, lifetimeMs } = checkObject("request", request);
    return {
      workSpec: checkName("work spec", workSpec),
      workUnit: checkName("work unit", workUnit),
      worker: checkName("worker", worker),
      lifetimeMs: checkSpan("lifetimeMs", lifetimeMs, now) || defaultLifetimeMs,
    };
  }

  /** Null for an attempt id of a form that is never issued. `chance` is for the delay of a retry. */
  change(change: AttemptChange, chance: Random, now: number): Settle | null {
    const { action } = checkObject("change", change);
    checkOneOf("action", action, attemptActions);
    const data = this.data("data", change.data);
    const delay = checkSpan("delayMs", change.delayMs, now);
    const lifetime = checkSpan("lifetimeMs", change.lifetimeMs, now, defaultLifetimeMs, -Infinity);
    const untried = change.untried !== undefined && checkBoolean("untried", change.untried);
    if (untried && action !== "expire" && action !== "retry")
      throw new CoordinateError(
        "bad_argument",
        `untried: allowed only with expire and retry, not with ${action}`,
      );
    if (change.error !== undefined && action !== "error")
      throw new CoordinateError(
        "bad_argument",
        `error: allowed only with the action error, not with ${action}`,
      );
    if (change.reason !== undefined && action !== "error" && action !== "fail")
      throw new CoordinateError(
        "bad_argument",
        `reason: allowed only with fail and error, not with ${action}`,
      );
    const progress = change.progress === undefined ? null : checkProgress(change.progress);
    if (progress !== null && action !== "renew")
      throw new CoordinateError("bad_argument", `progress: allowed only with renew, not with ${action}`);
    const recordTaken = change.recordTaken !== undefined && checkBoolean("recordTaken", change.recordTaken);
    const key = parseAttemptId(change.attempt);
    if (key === null) return null;
    const time =
      action === "renew" ? now + Math.max(0, lifetime) : action === "retry" && delay > 0 ? now + delay : 0;
    const settle: Settle = {
      unitId: key.unitId,
      number: key.number,
      action,
      data,
      time,
      untried,
      progress,
      recordTaken,
    };
    if (action === "error") settle.random = chance();
    if (change.error !== undefined) settle.error = this.#errorText(change.error);
    if (change.reason !== undefined) settle.reason = checkOneOf("reason", change.reason, givenReasons);
    return settle;
  }

  #errorText(given: string): string {
    const text = checkText("error", given);
    if (text.length > this.maxDataBytes)
      throw new CoordinateError(
        "too_large",
        `error: ${text.length} characters, at most ${this.maxDataBytes}`,
      );
    return text;
  }

  log(attempt: string, lines: AttemptLines, now: number): LogWrite | null {
    return checkLines("log", attempt, lines, now, this.maxItems);
  }

  worker(change: WorkerChange): WorkerChange {
    const read: WorkerChange = { name: checkName("worker", checkObject("worker", change).name) };
    if (change.parent !== undefined)
      read.parent = change.parent === null ? null : checkName("worker", change.parent);
    if (change.active !== undefined) read.active = checkBoolean("active", change.active);
    if (change.mode !== undefined) read.mode = checkText("mode", change.mode);
    if (change.data !== undefined) read.data = this.data("data", change.data);
    if (change.lastUpdate !== undefined) read.lastUpdate = checkTime("lastUpdate", change.lastUpdate);
    if (change.expiration !== undefined) read.expiration = checkTime("expiration", change.expiration);
    if (change.desired !== undefined)
      read.desired = change.desired === null ? null : checkOneOf("desired", change.desired, desiredStates);
    return read;
  }

  workerQuery(query: WorkerQuery): WorkerQuery {
    const where: WorkerQuery = {};
    if (query.names !== undefined) where.names = this.names("names", "worker", query.names);
    if (query.prefix !== undefined) where.prefix = checkText("prefix", query.prefix);
    if (query.active !== undefined) where.active = checkBoolean("active", query.active);
    if (query.root !== undefined) where.root = checkBoolean("root", query.root);
    if (query.parent !== undefined) where.parent = checkName("worker", query.parent);
    if (query.previous !== undefined) where.previous = checkName("worker", query.previous);
    return where;
  }

  action(action: ActionInput): ActionInput {
    const data = this.data("data", checkObject("action", action).data);
    if (data === null) throw new CoordinateError("bad_data", "action: data is missing");
    return { key: checkName("action", action.key), data };
  }

  batch(input: BatchInput): BatchInput {
    const { name, then, sealed, parent } = checkObject("batch", input);
    const read: BatchInput = { name: checkBatch(name) };
    if (sealed !== undefined) read.sealed = checkBoolean("sealed", sealed);
    if (parent !== undefined) read.parent = checkBatch(parent);
    if (parent === name)
      throw new CoordinateError("bad_argument", "parent: a batch cannot be its own parent");
    if (then === null) read.then = null;
    else if (then !== undefined) {
      const { workSpec, workUnit = name, on } = checkObject("then", then);
      read.then = {
        workSpec: checkName("work spec", workSpec),
        workUnit: checkName("work unit", workUnit),
        on: on === undefined ? "ended" : checkOneOf("on", on, batchConditions),
      };
    }
    return read;
  }

  lock(request: LockRequest, now: number): CheckedLockRequest {
    const timeout = checkNumber("timeoutMs", request.timeoutMs) || defaultLockMs;
    const paths = this.items("paths", request.paths, (path) =>
      checkList("path", path, 1000).map((label) => checkText("path label", label)),
    );
    return {
      owner: checkText("owner", request.owner),
      paths,
      deadline: now + Math.min(timeout, longestLockMs),
    };
  }
}

export function checkRef(ref: WorkSpecRef): WorkSpecRef {
  const name = checkName("work spec", workSpecName(ref));
  return typeof ref === "string" ? name : { name, id: ref.id };
}

/** Names without repetitions, in the order they were given. */
function checkNames(field: string, kind: NameKind, names: readonly string[]): string[] {
  return [...new Set(checkList(field, names, 1000).map((name) => checkName(kind, name)))];
}

function checkLength(field: string, length: number, max: number): void {
  if (length > max) throw new CoordinateError("too_large", `${field}: ${length} items, at most ${max}`);
}

/** The name of a batch must fit in a label. */
export const checkBatch = (name: unknown): string =>
  batchOf([checkName("label", batchLabel(checkText("batch", name)))]) ?? "";

export const checkConflict = (policy: ConflictPolicy | undefined): ConflictPolicy =>
  policy === undefined ? "update" : checkOneOf("onConflict", policy, conflictPolicies);

export function checkRequestId(id: string | undefined): string | null {
  if (id === undefined) return null;
  if (checkText("requestId", id).length > 200)
    throw new CoordinateError("too_large", `requestId: ${id.length} characters, at most 200`);
  return id;
}

/** The deadline and expiry of a unit; null when it has neither. */
function checkTiming(unit: WorkUnitInput, now: number): UnitTiming | null {
  const timing: UnitTiming = {};
  for (const [key, span] of [
    ["deadline", "deadlineMs"],
    ["expires", "expiresMs"],
  ] as const) {
    if (unit[key] === undefined && unit[span] === undefined) continue;
    if (unit[key] !== undefined && unit[span] !== undefined)
      throw new CoordinateError("bad_argument", `${span}: give either ${key} or ${span}, not both`);
    const time = checkTime(key, unit[key]);
    const at = unit[span] === undefined ? time : now + checkSpan(span, unit[span], now);
    if (at > 0) timing[key] = at;
  }
  return timing.deadline === undefined && timing.expires === undefined ? null : timing;
}

function checkProgress(progress: AttemptProgress): AttemptProgress {
  const { done, note } = checkObject("progress", progress);
  if (typeof done !== "number" || !(done >= 0 && done <= 1))
    throw new CoordinateError(
      "bad_argument",
      `progress.done: expected a number from 0 to 1, got ${describeValue(done)}`,
    );
  return { done, note: checkNote("progress.note", note) };
}

/** A few words for people; empty when absent. */
export function checkNote(field: string, text: string | undefined): string {
  if (text === undefined) return "";
  if (checkText(field, text).length > longestNote)
    throw new CoordinateError("too_large", `${field}: ${text.length} characters, at most ${longestNote}`);
  return text;
}

export function checkSchedule({
  workSpecs,
  runtimes,
  tasks,
  modules,
  availableGb,
  labels,
}: ScheduleRequest): ScheduleRequest {
  const schedule: ScheduleRequest = {};
  if (workSpecs !== undefined)
    schedule.workSpecs = checkList("workSpecs", workSpecs, 10_000).map((one) => checkText("workSpecs", one));
  if (runtimes !== undefined)
    schedule.runtimes = checkList("runtimes", runtimes, 1000).map((one) => checkText("runtimes", one));
  if (tasks !== undefined)
    schedule.tasks = checkList("tasks", tasks, 10_000).map((one) => checkText("tasks", one));
  if (modules !== undefined) schedule.modules = checkBoolean("modules", modules);
  if (availableGb !== undefined) schedule.availableGb = checkNumber("availableGb", availableGb);
  if (labels !== undefined) {
    schedule.labels = checkList("labels", labels, maxWorkerLabels).map((one) => checkText("labels", one));
    const wrong = schedule.labels.find((one) => !isWorkerLabel(one));
    if (wrong !== undefined)
      throw new CoordinateError(
        "bad_argument",
        `labels: expected name or name=value, got ${describeValue(wrong)}`,
      );
  }
  return schedule;
}

/** The cursor of a list of attempts is the id of the last one, and its position in the worker's log if it has one. */
export const writeCursor = ({ row, position }: ListedAttempt): string =>
  position === null ? row.id : `${row.id}@${position.join(",")}`;

export function readCursor(cursor: string): AttemptCursor {
  const at = typeof cursor === "string" ? cursor.indexOf("@") : -1;
  const key = parseAttemptId(at === -1 ? cursor : cursor.slice(0, at));
  const position =
    at === -1
      ? null
      : cursor
          .slice(at + 1)
          .split(",")
          .map(Number);
  if (key === null || position?.every(Number.isSafeInteger) === false)
    throw new CoordinateError("no_such_attempt", cursor);
  return { ...key, position };
}
