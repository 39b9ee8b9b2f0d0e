/** Units, work specs and attempts as rows of the tables. */
import {
  attemptStatuses,
  hasLanes,
  nameFromBytes,
  noExtras,
  workUnitStatuses,
  type AttemptProgress,
  type AttemptState,
  type AttemptStatus,
  type Data,
  type Extras,
  type FailReason,
  type SpecState,
  type UnitRetry,
  type UnitState,
  type UnitTiming,
  type WorkSpecMeta,
  type WorkUnitStatus,
} from "../core/index.ts";
import type { Row } from "./connection.ts";
import { placeOf } from "./floor.ts";
import { standingOf, type Standing } from "./standing.ts";
import { bytesData, laneKey, nameOf } from "./values.ts";
import { readMeta } from "./work-specs.ts";

export const statusCode = Object.fromEntries(workUnitStatuses.map((status, i) => [status, i])) as Record<
  WorkUnitStatus,
  number
>;
export const attemptCode = Object.fromEntries(attemptStatuses.map((status, i) => [status, i])) as Record<
  AttemptStatus,
  number
>;

export interface Spec extends SpecState {
  readonly namespaceId: number;
  meta: WorkSpecMeta;
  full: number;
  /** The partition that was served last, and how many units of its current turn it has received. */
  cursor: string;
  turn: number;
  /** When to look for partitions that have no lanes yet; 0 is never. */
  buildLanes: number;
  /** Whether its namespace was deleted. */
  readonly orphan: boolean;
}

export interface Unit extends UnitState {
  readonly spec: Spec;
  status: WorkUnitStatus;
  extras: Extras;
  /**
   * `needs`: the unit has rows in `need`, or a timer. `dependents`: other units have or had rows there that name it, or it is in
   * a batch.
   */
  needs: boolean;
  dependents: boolean;
  /** What is stored; null for a new unit. */
  readonly stored: Stored | null;
}

interface Stored {
  readonly status: WorkUnitStatus;
  readonly data: Data | null;
  /** Undefined if the attempt has no data of its own, but that of the unit. */
  readonly attemptData: Data | null | undefined;
  readonly labels: readonly string[];
  readonly partition: string;
  readonly begun: boolean;
  /** Whether the unit has retry settings, and time settings. */
  readonly retry: boolean;
  readonly timing: boolean;
  readonly standing: Standing;
}

/** The columns of a unit, in the order that `readUnit` expects them. */
export const unitColumns = `u.id, u.spec, u.key, u.long_name, u.status, u.place, u.not_before, u.created, u.attempts, u.tries,
   u.origin, u.needs, u.dependents, u.attempt_status, u.attempt_worker, u.attempt_start, u.attempt_end,
   u.attempt_expiration, u.attempt_late, u.attempt_own, u.attempt_errors, u.data, u.attempt_data, u.since, u.queues, u.labels,
   u.attempt_progress, u.reason, u.retry, coalesce(u.partition, u.lane), u.timing, u.lease`;
export const unitColumnCount = 32;

/** The columns of a unit's work spec and namespace, in the order that `readSpec` expects them. */
export const specColumns =
  "s.name, s.namespace, n.name, s.meta, s.next_continuous, s.dead, s.full_at, s.cursor, s.turn, s.breaker, s.build_lanes, n.dead";
export const specColumnCount = 12;

/** The columns of a unit and of its spec; `restOf` returns the columns after these. */
export const fullColumns = `${unitColumns}, ${specColumns}`;
export const restOf = (row: Row): Row => row.slice(unitColumnCount + specColumnCount);

export function readSpec(id: number, row: Row): Spec {
  return {
    id,
    name: nameFromBytes(row[0] as Buffer),
    namespaceId: row[1] as number,
    namespace: nameFromBytes(row[2] as Buffer),
    meta: readMeta(row[3] as string, row[4] as number, row[9] as string | null),
    deleted: row[5] as boolean,
    full: row[6] as number,
    cursor: nameFromBytes(row[7] as Buffer),
    turn: row[8] as number,
    buildLanes: row[10] as number,
    orphan: row[11] as boolean,
  };
}

/** The spec of a row of `fullColumns`. */
export const readSpecOf = (row: Row): Spec => readSpec(row[1] as number, row.slice(unitColumnCount));

/** A unit of a row of `fullColumns`. */
export const readFullUnit = (row: Row): Unit => readUnit(row, readSpecOf(row));

export function readUnit(row: Row, spec: Spec): Unit {
  const status = workUnitStatuses[row[4] as number];
  if (status === undefined) throw new Error(`unit ${String(row[0])}: status ${String(row[4])}`);
  const attempts = row[8] as number;
  const data = bytesData(row[21] as Buffer | null);
  const own = row[19] === true;
  const attempt = readCurrentAttempt(row, attempts, own ? bytesData(row[22] as Buffer | null) : data);
  const extras = readExtras(row[24], row[25], row[28] as string | null, row[30] as string | null);
  const partition = readPartition(row[29] as Buffer | null);
  const unit = {
    id: row[0] as number,
    spec,
    name: nameOf(row[2] as Buffer, row[3] as Buffer | null),
    status,
    priority: placeOf(row[5] as number),
    notBefore: row[6] as number,
    created: row[7] as number,
    attempts,
    tries: row[9] as number,
    data,
    origin: row[10] as string | null,
    needs: row[11] as boolean,
    dependents: row[12] as boolean,
    attempt,
    since: (row[23] as number | null) ?? 0,
    partition,
    extras,
  };
  return {
    ...unit,
    stored: {
      status,
      data,
      attemptData: own ? attempt?.data : undefined,
      labels: extras.labels,
      retry: extras.retry !== null,
      timing: extras.timing !== null,
      partition,
      begun: attempt !== null && status !== "finished" && status !== "failed",
      standing: standingOf(unit, row[31] as number | null),
    },
  };
}

function readCurrentAttempt(row: Row, number: number, data: Data | null): AttemptState | null {
  const status = row[13] === null ? undefined : attemptStatuses[row[13] as number];
  if (status === undefined) return null;
  return {
    number,
    worker: nameFromBytes(row[14] as Buffer),
    status,
    start: row[15] as number,
    end: row[16] as number,
    expiration: row[17] as number,
    data,
    late: row[18] as boolean,
    chainingErrors: readErrors(row[20] as string | null),
    progress: readProgress(row[26] as string | null),
    reason: row[27] as FailReason | null,
  };
}

/** The columns of an attempt that is history, in the order that `readPast` expects them. */
export const pastColumns =
  'h.number, h.status, h.late, h.start, h."end", h.expiration, h.worker, h.errors, h.data';

export function readPast(row: Row): AttemptState {
  const [number, status, late, start, end, expiration, worker, errors, data] = row as [
    number,
    number,
    boolean,
    number,
    number,
    number,
    Buffer,
    string | null,
    Buffer | null,
  ];
  return {
    number,
    worker: nameFromBytes(worker),
    status: attemptStatuses[status] ?? "expired",
    start,
    end,
    expiration,
    late,
    chainingErrors: readErrors(errors),
    reason: null,
    progress: null,
    data: bytesData(data),
  };
}

function readExtras(queues: unknown, labels: unknown, retry: string | null, timing: string | null): Extras {
  if (queues === null && labels === null && retry === null && timing === null) return noExtras;
  return {
    queues: readNames(queues),
    labels: readNames(labels),
    retry: retry === null ? null : (JSON.parse(retry) as UnitRetry),
    timing: timing === null ? null : (JSON.parse(timing) as UnitTiming),
  };
}

const readNames = (value: unknown): readonly string[] =>
  value === null ? noExtras.queues : (value as Buffer[]).map(nameFromBytes);

const readPartition = (bytes: Buffer | null): string => (bytes === null ? "" : nameFromBytes(bytes));

/** The lane of a unit, and its partition if that is long. Without a partition the lane is null, or empty if the spec has lanes. */
export function laneOf(
  partition: string | undefined,
  meta: WorkSpecMeta,
): { lane: Buffer | null; long: Buffer | null } {
  return partition === undefined || partition === ""
    ? { lane: hasLanes(meta) ? noLane : null, long: null }
    : laneKey(partition);
}

const noLane = Buffer.alloc(0);

const readErrors = (text: string | null): readonly string[] =>
  text === null ? [] : (JSON.parse(text) as string[]);

const readProgress = (text: string | null): AttemptProgress | null =>
  text === null ? null : (JSON.parse(text) as AttemptProgress);

export const writeErrors = (errors: readonly string[]): string | null =>
  errors.length === 0 ? null : JSON.stringify(errors);

/** Applies time to a unit that was only read: a pending attempt whose lease has ended is expired. */
export function asOf(unit: Unit, now: number): Unit {
  const { attempt } = unit;
  if (attempt?.status === "pending" && attempt.expiration <= now) {
    attempt.status = "expired";
    attempt.end = attempt.expiration;
  }
  return unit;
}
