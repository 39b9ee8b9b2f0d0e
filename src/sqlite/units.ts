/** Loading and saving units and their attempts. */
import {
  attemptId,
  attemptStatuses,
  nameFromBytes,
  parseAttemptId,
  type AttemptState,
  type FailReason,
  type UnitState,
  type WorkUnitStatus,
} from "../core/index.ts";
import type { Row, Value } from "./driver.ts";
import { attemptCode, unitState } from "./schema.ts";
import type { Spec, State } from "./state.ts";
import {
  dataValue,
  errorsValue,
  nameValue,
  partitionValue,
  readData,
  readErrors,
  readPartition,
  readProgress,
} from "./values.ts";

export interface Unit extends UnitState {
  readonly spec: Spec;
  status: WorkUnitStatus;
  /** Includes the current lease, if any. The row counts an attempt only when its lease has ended. */
  attempts: number;
}

const stateOf = (status: WorkUnitStatus): number =>
  status === "blocked" || status === "finished" || status === "failed"
    ? unitState[status]
    : unitState.waiting;

export function findUnit(state: State, id: number): Unit | undefined {
  const row = state.sql.unit.get(id);
  return row === undefined ? undefined : readUnit(state, row);
}

export function findUnitByName(state: State, spec: Spec, name: string): Unit | undefined {
  const row = state.sql.unitByName.get(spec.id, nameValue(name));
  return row === undefined ? undefined : readUnit(state, row);
}

/** The exact name of a unit. The driver may have cut `read` at a zero byte or replaced bytes that are not UTF-8. */
export function exactName(state: State, spec: Spec, id: number, read: Value | undefined): string {
  if (spec.plain) return read as string;
  return nameFromBytes((state.sql.unitNameBytes.get(id)?.[0] ?? new Uint8Array()) as Uint8Array);
}

function readUnit(state: State, row: Row): Unit {
  const id = row[0] as number;
  const spec = state.specs.get(row[1] as number);
  if (spec === undefined) throw new Error(`unit ${id} has no work spec ${String(row[1])}`);
  const data = readData(row[19]);
  const leased = row[21] !== null;
  let attempt: AttemptState | null = null;
  if (leased)
    attempt = {
      number: row[21] as number,
      worker: state.workerName(row[22] as number),
      status: "pending",
      start: row[23] as number,
      end: 0,
      expiration: row[24] as number,
      late: row[25] === 1,
      chainingErrors: [],
      reason: null,
      progress: readProgress(row[30]),
      data: row[26] === 1 ? readData(row[27]) : data,
    };
  else if (row[11] !== null)
    attempt = {
      number: row[7] as number,
      worker: state.workerName(row[12] as number),
      status: attemptStatuses[row[11] as number] ?? "expired",
      start: row[13] as number,
      end: row[14] as number,
      expiration: row[15] as number,
      late: row[16] === 1,
      chainingErrors: readErrors(row[17]),
      reason: row[31] as FailReason | null,
      progress: null,
      data: row[18] === 1 ? readData(row[20]) : data,
    };
  return {
    id,
    spec,
    name: exactName(state, spec, id, row[2]),
    status: statusOf(row[3] as number, leased, row[28] === 1),
    data,
    priority: row[4] as number,
    notBefore: row[5] as number,
    created: row[6] as number,
    attempts: (row[7] as number) + (leased ? 1 : 0),
    tries: (row[8] as number) + (leased ? 1 : 0),
    origin: row[9] === null ? null : attemptId(row[9] as number, row[10] as number),
    attempt,
    since: (row[29] as number | null) ?? 0,
    partition: readPartition(row[32]),
  };
}

function statusOf(stored: number, leased: boolean, delayed: boolean): WorkUnitStatus {
  switch (stored) {
    case unitState.blocked:
      return "blocked";
    case unitState.finished:
      return "finished";
    case unitState.failed:
      return "failed";
    default:
      return leased ? "pending" : delayed ? "delayed" : "available";
  }
}

/** Writes the row of a unit, but not its lease: `SqliteSet.enter` writes that. */
export function saveUnit(state: State, unit: Unit, now: number): void {
  const { attempt } = unit;
  const origin = unit.origin === null ? null : parseAttemptId(unit.origin);
  const ended = attempt === null || attempt.status === "pending" ? null : attempt;
  const counted = attempt?.status === "pending" ? 1 : 0;
  const own = ended !== null && ended.data !== unit.data;
  state.writes++;
  state.sql.setUnit.run(
    stateOf(unit.status),
    unit.priority,
    unit.notBefore,
    unit.attempts - counted,
    unit.tries - counted,
    origin?.unitId ?? null,
    origin?.number ?? null,
    ended === null ? null : attemptCode[ended.status],
    ended === null ? null : state.workerForName(unit.spec.space, ended.worker, now),
    ended?.start ?? null,
    ended?.end ?? null,
    ended?.expiration ?? null,
    ended === null ? null : Number(ended.late),
    ended === null ? null : errorsValue(ended.chainingErrors),
    ended === null ? null : Number(own),
    dataValue(unit.data),
    own ? dataValue(ended.data) : null,
    unit.since > 0 ? unit.since : null,
    partitionValue(unit.partition),
    ended?.reason ?? null,
    unit.id,
  );
}

/** The superseded attempts of a unit (table `history`), oldest first. */
export function pastAttempts(state: State, unit: number): AttemptState[] {
  return state.sql.history.all(unit).map((row) => readPast(state, row));
}

export function pastAttempt(state: State, unit: number, number: number): AttemptState | undefined {
  const row = state.sql.pastAttempt.get(unit, number);
  return row === undefined ? undefined : readPast(state, row);
}

function readPast(state: State, row: Row): AttemptState {
  const [number, status, worker, start, end, expiration, late, errors, data] = row;
  return {
    number: number as number,
    status: attemptStatuses[status as number] ?? "expired",
    worker: state.workerName(worker as number),
    start: start as number,
    end: end as number,
    expiration: expiration as number,
    late: late === 1,
    chainingErrors: readErrors(errors),
    reason: null,
    progress: null,
    data: readData(data),
  };
}

/** The status of a unit; null if the unit or its work spec was deleted. */
export function standing(state: State, unit: number): WorkUnitStatus | null {
  const row = state.sql.unitStanding.get(unit);
  if (row === undefined || state.specs.get(row[3] as number)?.deleted !== false) return null;
  return statusOf(row[0] as number, row[1] === 1, row[2] === 1);
}
