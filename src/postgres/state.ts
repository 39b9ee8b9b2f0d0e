/**
 * Units in the hands of one transaction. Whatever is not the plain course of things (dependencies, chaining, units that
 * exist already, retries used up) is decided here by the rules of core on rows that are locked, and written back in one
 * statement. `Batch` knows the units that were read, and what has to be written.
 *
 * Rows are locked in the order of their ids, so that two transactions that want the same rows wait and do not deadlock;
 * dependents are locked later, as they are found, and for them a deadlock is possible and tried again.
 */
import {
  attemptId,
  attemptStatuses,
  compareNames,
  CoordinateError,
  dataWithText,
  dependencyState,
  workUnitStatuses,
  type AttemptKey,
  type AttemptRow,
  type AttemptStatus,
  type Data,
  type DependencyState,
  type WorkUnitPut,
  type WorkUnitRow,
  type WorkUnitStatus,
} from "../core/index.ts";
import { isRow, type Row, type Session } from "./connection.ts";
import { comparePlaces, placeOf } from "./floor.ts";
import { emptyDelta, writeTallies, type Delta } from "./tally.ts";
import {
  bools,
  byteas,
  bytesData,
  dataBytes,
  float8s,
  int2s,
  int4s,
  int8s,
  nameKey,
  nameOf,
  texts,
} from "./values.ts";
import { nameFromBytes, nameToBytes } from "../core/index.ts";

export const statusCode = Object.fromEntries(workUnitStatuses.map((status, i) => [status, i])) as Record<
  WorkUnitStatus,
  number
>;
export const attemptCode = Object.fromEntries(attemptStatuses.map((status, i) => [status, i])) as Record<
  AttemptStatus,
  number
>;

/** What the rules need to know of a unit's work spec. */
export interface Spec {
  id: number;
  name: string;
  namespace: number;
  namespaceName: string;
  nextSpec: string;
  maxRunning: number;
  dead: boolean;
}

export interface Attempt {
  number: number;
  worker: string;
  status: AttemptStatus;
  start: number;
  end: number;
  expiration: number;
  late: boolean;
  errors: readonly string[];
  /** False: its data is the unit's. */
  own: boolean;
  data: Data | null;
}

export interface Need {
  target: number;
  hard: boolean;
  /** Once met it stays met, whatever becomes of the target. */
  met: boolean;
  targetSpec: string;
  targetName: string;
  /** Where the target stood when it was read; null when it is gone. */
  status: WorkUnitStatus | null;
}

export interface Unit {
  id: number;
  spec: Spec;
  name: string;
  status: WorkUnitStatus;
  priority: number;
  notBefore: number;
  created: number;
  attempts: number;
  tries: number;
  data: Data | null;
  origin: string | null;
  /** Whether it has rows in `need`, and whether others have rows there that name it. */
  needs: boolean;
  dependents: boolean;
  /** The latest attempt, until the unit is taken from it. */
  attempt: Attempt | null;
  /** When it became available, where nothing else says it; 0 elsewhere. */
  since: number;
  queues: readonly string[];
  labels: readonly string[];

  /** The status in the database; null for a unit that is not there yet. */
  stored: WorkUnitStatus | null;
  deleted: boolean;
  changed: boolean;
  dataChanged: boolean;
  attemptDataChanged: boolean;
  /** What it waits for, once read; and whether that has to be written. */
  needRows: Need[] | null;
  needsChanged: boolean;
  /** Queues or labels have to be written. */
  extrasChanged: boolean;
}

// ---- reading rows

/** The columns of a unit in the order `readUnit` wants them. Data may be left out where nobody will look at it. */
const columns = (data: boolean): string =>
  `u.id, u.spec, u.key, u.long_name, u.status, u.place, u.not_before, u.created, u.attempts, u.tries, u.origin,
   u.needs, u.dependents, u.attempt_status, u.attempt_worker, u.attempt_start, u.attempt_end, u.attempt_expiration,
   u.attempt_late, u.attempt_own, u.attempt_errors, ${data ? "u.data, u.attempt_data" : "NULL::bytea, NULL::bytea"},
   u.since, u.queues, u.labels`;

export const unitColumns = columns(true);
export const unitColumnCount = 26;
const specColumns = "s.name, s.namespace, n.name, s.next_spec, s.max_running, s.dead";

export function readUnit(row: Row, spec: Spec): Unit {
  const status = workUnitStatuses[row[4] as number];
  if (status === undefined) throw new Error(`unit ${String(row[0])}: status ${String(row[4])}`);
  const attempts = row[8] as number;
  const attemptStatus = row[13] === null ? undefined : attemptStatuses[row[13] as number];
  return {
    id: row[0] as number,
    spec,
    name: nameOf(row[2] as Buffer, row[3] as Buffer | null),
    status,
    priority: placeOf(row[5] as number),
    notBefore: row[6] as number,
    created: row[7] as number,
    attempts,
    tries: row[9] as number,
    data: bytesData(row[21] as Buffer | null),
    origin: row[10] as string | null,
    needs: row[11] as boolean,
    dependents: row[12] as boolean,
    attempt:
      attemptStatus === undefined
        ? null
        : {
            number: attempts,
            worker: nameFromBytes(row[14] as Buffer),
            status: attemptStatus,
            start: row[15] as number,
            end: row[16] as number,
            expiration: row[17] as number,
            late: row[18] as boolean,
            errors: readErrors(row[20] as string | null),
            own: row[19] as boolean,
            data: bytesData(row[22] as Buffer | null),
          },
    since: (row[23] as number | null) ?? 0,
    queues: readNames(row[24]),
    labels: readNames(row[25]),
    stored: status,
    deleted: false,
    changed: false,
    dataChanged: false,
    attemptDataChanged: false,
    needRows: null,
    needsChanged: false,
    extrasChanged: false,
  };
}

const noNames: readonly string[] = [];

const readNames = (value: unknown): readonly string[] =>
  value === null ? noNames : (value as Buffer[]).map(nameFromBytes);

export const readErrors = (text: string | null): readonly string[] =>
  text === null ? [] : (JSON.parse(text) as string[]);

export const writeErrors = (errors: readonly string[]): string | null =>
  errors.length === 0 ? null : JSON.stringify(errors);

export function newUnit(
  id: number,
  spec: Spec,
  put: Pick<WorkUnitPut, "name" | "data" | "priority" | "notBefore" | "queues" | "labels">,
  now: number,
): Unit {
  return {
    id,
    spec,
    name: put.name,
    status: "available",
    priority: put.priority,
    notBefore: put.notBefore,
    created: now,
    attempts: 0,
    tries: 0,
    data: put.data,
    origin: null,
    needs: false,
    dependents: false,
    attempt: null,
    since: 0,
    queues: put.queues ?? noNames,
    labels: put.labels ?? noNames,
    stored: null,
    deleted: false,
    changed: true,
    dataChanged: false,
    attemptDataChanged: false,
    needRows: [],
    needsChanged: false,
    extrasChanged: put.queues !== undefined || put.labels !== undefined,
  };
}

// ---- rows for the engine

const isActive = ({ status }: Attempt): boolean =>
  status === "pending" || status === "finished" || status === "failed";

const attemptData = (unit: Unit, attempt: Attempt): Data | null => (attempt.own ? attempt.data : unit.data);

export function attemptRow(unit: Unit, attempt: Attempt): AttemptRow {
  return {
    id: attemptId(unit.id, attempt.number),
    workSpec: unit.spec.name,
    workUnit: unit.name,
    worker: attempt.worker,
    number: attempt.number,
    status: attempt.status,
    active: attempt === unit.attempt && isActive(attempt),
    startTime: attempt.start,
    endTime: attempt.end,
    expirationTime: attempt.expiration,
    data: attemptData(unit, attempt),
    late: attempt.late,
    chainingErrors: attempt.errors,
  };
}

export function unitRow(unit: Unit): WorkUnitRow {
  const active = unit.attempt !== null && isActive(unit.attempt) ? unit.attempt : null;
  return {
    id: unit.id,
    workSpec: unit.spec.name,
    name: unit.name,
    status: unit.status,
    data: (active === null ? null : attemptData(unit, active)) ?? unit.data,
    priority: unit.priority,
    notBefore: unit.notBefore,
    createdTime: unit.created,
    attempts: unit.attempts,
    activeAttempt: active === null ? null : attemptRow(unit, active),
    origin: unit.origin,
    dependencies: (unit.needRows ?? []).map(({ targetSpec, targetName, hard, status }) => ({
      workSpec: targetSpec,
      workUnit: targetName,
      kind: hard ? "hard" : "soft",
      status,
    })),
    queues: unit.queues,
    labels: unit.labels,
  };
}

// ---- what may happen to a unit

export const needState = (need: Need): DependencyState =>
  need.met ? "met" : dependencyState(need.hard ? "hard" : "soft", need.status);

export function needsState(needs: readonly Need[]): DependencyState {
  let state: DependencyState = "met";
  for (const need of needs) {
    const one = needState(need);
    if (one === "broken") return "broken";
    if (one === "open") state = "open";
  }
  return state;
}

/** Sets where a unit stands. */
export function place(unit: Unit, status: WorkUnitStatus): void {
  unit.status = status;
  unit.changed = true;
}

/** Takes unit ids. */
export type Allocate = (count: number, session: Session) => Promise<number[]>;

/** Where a unit stands that nobody runs. What it waits for must have been read. */
export function waitingStatus(unit: Unit, now: number): WorkUnitStatus {
  if (unit.needs && needsState(unit.needRows ?? []) !== "met") return "blocked";
  return unit.notBefore > now ? "delayed" : "available";
}

// ---- the batch

interface Superseded {
  unit: number;
  attempt: Attempt;
  data: Data | null;
}

const loadSql = (data: boolean, condition: string): string => `
  SELECT ${columns(data)}, ${specColumns}
  FROM @unit u JOIN @spec s ON s.id = u.spec JOIN @namespace n ON n.id = s.namespace
  WHERE ${condition} ORDER BY u.id FOR UPDATE OF u`;

const byId = "u.id = ANY ($1::bigint[])";
const byName = "u.spec = $2 AND u.key = ANY ($1::bytea[])";
const loadById = { true: loadSql(true, byId), false: loadSql(false, byId) } as const;
const loadByName = { true: loadSql(true, byName), false: loadSql(false, byName) } as const;

export class Batch {
  readonly tx: Session;
  readonly now: number;
  readonly units = new Map<number, Unit>();
  readonly #specs = new Map<number, Spec>();
  readonly #byName = new Map<number, Map<string, Unit | null>>();
  readonly #superseded: Superseded[] = [];
  readonly #deltas = new Map<number, Delta>();
  readonly #allocate: Allocate;
  readonly #ids: number[] = [];

  constructor(tx: Session, now: number, allocate: Allocate) {
    this.tx = tx;
    this.now = now;
    this.#allocate = allocate;
  }

  spec(spec: Spec): Spec {
    const known = this.#specs.get(spec.id);
    if (known !== undefined) return known;
    this.#specs.set(spec.id, spec);
    return spec;
  }

  /** Reads and locks units; those that are here already are not read again. */
  async load(ids: readonly number[], { data = true } = {}): Promise<void> {
    const missing = [...new Set(ids)].filter((id) => !this.units.has(id));
    if (missing.length === 0) return;
    this.#keep(await this.tx.rows(loadById[`${data}`], [int8s(missing)]));
  }

  async loadNames(spec: Spec, names: Iterable<string>, { data = true } = {}): Promise<void> {
    const known = this.#names(spec);
    const missing = [...new Set(names)].filter((name) => !known.has(name));
    if (missing.length === 0) return;
    for (const name of missing) known.set(name, null);
    const keys = byteas(missing.map((name) => nameKey(name).key));
    this.#keep(await this.tx.rows(loadByName[`${data}`], [keys, spec.id]));
  }

  /** A unit by name; the name must have been loaded. */
  find(spec: Spec, name: string): Unit | undefined {
    const unit = this.#names(spec).get(name);
    return unit === null || unit?.deleted === true ? undefined : unit;
  }

  add(unit: Unit): void {
    this.units.set(unit.id, unit);
    this.#names(unit.spec).set(unit.name, unit);
  }

  #names(spec: Spec): Map<string, Unit | null> {
    let names = this.#byName.get(spec.id);
    if (names === undefined) this.#byName.set(spec.id, (names = new Map<string, Unit | null>()));
    return names;
  }

  #keep(rows: readonly Row[]): void {
    for (const row of rows) {
      if (this.units.has(row[0] as number)) continue;
      const spec = this.spec(readSpec(row[1] as number, row.slice(unitColumnCount)));
      this.add(readUnit(row, spec));
    }
  }

  async nextIds(count: number): Promise<void> {
    if (this.#ids.length < count)
      this.#ids.push(...(await this.#allocate(count - this.#ids.length, this.tx)));
  }

  takeId(): number {
    const id = this.#ids.shift();
    if (id === undefined) throw new Error("no unit id was allocated");
    return id;
  }

  /** Reads what the units wait for, with where the others stand now, in this batch or in the database. */
  async loadNeeds(units: readonly Unit[]): Promise<void> {
    const wanted = units.filter((unit) => unit.needs && !unit.needsChanged && unit.stored !== null);
    if (wanted.length > 0) {
      const rows = await readNeeds(this.tx, wanted, this.now);
      for (const unit of wanted) unit.needRows = rows.get(unit.id) ?? [];
    }
    for (const unit of units) {
      for (const need of unit.needRows ?? []) {
        const target = this.units.get(need.target);
        if (target !== undefined) need.status = standing(target);
      }
    }
  }

  /** The unit is taken from its latest attempt, which becomes history. */
  supersede(unit: Unit): void {
    const { attempt } = unit;
    if (attempt === null) return;
    if (attempt.status === "pending") {
      attempt.status = "expired";
      attempt.end = this.now;
    }
    this.#superseded.push({ unit: unit.id, attempt, data: attemptData(unit, attempt) });
    unit.attempt = null;
    unit.changed = true;
    unit.attemptDataChanged = true;
  }

  /** Makes the next attempt of a unit. */
  begin(unit: Unit, worker: string, expiration: number): Attempt {
    this.supersede(unit);
    unit.tries++;
    const attempt: Attempt = {
      number: ++unit.attempts,
      worker,
      status: "pending",
      start: this.now,
      end: 0,
      expiration,
      late: false,
      errors: [],
      own: false,
      data: null,
    };
    unit.attempt = attempt;
    place(unit, "pending");
    return attempt;
  }

  /** Fails a unit that cannot go on, by an attempt that nobody ran: its history and its data say why. */
  fail(unit: Unit, worker: string, traceback: string): void {
    this.supersede(unit);
    unit.attempt = {
      number: ++unit.attempts,
      worker,
      status: "failed",
      start: this.now,
      end: this.now,
      expiration: this.now,
      late: false,
      errors: [],
      own: true,
      data: dataWithText(unit.data, "traceback", traceback),
    };
    unit.attemptDataChanged = true;
    place(unit, "failed");
  }

  setData(unit: Unit, data: Data | null): void {
    const { attempt } = unit;
    // an attempt that goes on, or is over, keeps what it was given
    if (attempt !== null && !attempt.own) {
      attempt.own = true;
      attempt.data = unit.data;
      unit.attemptDataChanged = true;
    }
    unit.data = data;
    unit.dataChanged = true;
    unit.changed = true;
  }

  /** An attempt that was superseded in this very batch. */
  pastAttempt({ unitId, number }: AttemptKey): Attempt | undefined {
    return this.#superseded.find(({ unit, attempt }) => unit === unitId && attempt.number === number)
      ?.attempt;
  }

  async setPastData({ unitId, number }: AttemptKey, data: Data): Promise<void> {
    const past = this.#superseded.find(({ unit, attempt }) => unit === unitId && attempt.number === number);
    if (past !== undefined) past.data = data;
    else
      await this.tx.rows("UPDATE @history SET data = $3 WHERE unit = $1 AND number = $2", [
        unitId,
        number,
        dataBytes(data),
      ]);
  }

  /** In place of what the unit had. */
  setExtras(unit: Unit, queues: readonly string[] = noNames, labels: readonly string[] = noNames): void {
    if (isSame(unit.queues, queues) && isSame(unit.labels, labels)) return;
    unit.queues = queues;
    unit.labels = labels;
    unit.extrasChanged = true;
    unit.changed = true;
  }

  setAttemptData(unit: Unit, attempt: Attempt, data: Data): void {
    attempt.own = true;
    attempt.data = data;
    if (attempt === unit.attempt) unit.attemptDataChanged = true;
    unit.changed = true;
  }

  delta(spec: number): Delta {
    let delta = this.#deltas.get(spec);
    if (delta === undefined) this.#deltas.set(spec, (delta = emptyDelta()));
    return delta;
  }

  /** How much the units here change the number of a status, on top of what the database says. */
  shift(spec: Spec, status: WorkUnitStatus): number {
    let shift = 0;
    for (const unit of this.units.values()) {
      if (unit.spec.id !== spec.id) continue;
      if (unit.stored === status) shift--;
      if (unit.status === status && !unit.deleted) shift++;
    }
    return shift;
  }

  /** Writes everything that changed. */
  async flush(): Promise<void> {
    const changed = [...this.units.values()].filter((unit) => unit.changed && !unit.deleted);
    for (const unit of this.units.values()) {
      if (unit.stored === unit.status && !unit.deleted) continue;
      const delta = this.delta(unit.spec.id);
      if (unit.stored !== null) delta[unit.stored]--;
      if (!unit.deleted) delta[unit.status]++;
    }
    for (const unit of changed) {
      if (unit.status !== "available") continue;
      const delta = this.delta(unit.spec.id);
      const at = { place: placeOf(unit.priority), key: nameKey(unit.name).key };
      delta.arrivals++;
      if (delta.first === null || comparePlaces(at, delta.first) < 0) delta.first = at;
    }
    // in the order of names, as every add writes them: see inKeyOrder
    const fresh = changed
      .filter(({ stored }) => stored === null)
      .sort((a, b) => a.spec.id - b.spec.id || compareNames(a.name, b.name));
    if (fresh.length > 0) await this.#insert(fresh);
    // before anything ends: who hears of it is who is named now
    const named = changed.filter(({ extrasChanged }) => extrasChanged);
    if (named.length > 0) await this.#writeExtras(named);
    const updates = changed
      .filter(({ stored, attempt }) => stored !== null || attempt !== null)
      .sort((a, b) => a.id - b.id);
    if (updates.length > 0) await this.#update(updates);
    if (this.#superseded.length > 0) await this.#insertHistory();
    const rewired = changed.filter(({ needsChanged }) => needsChanged);
    if (rewired.length > 0) await this.#writeNeeds(rewired);
    await writeTallies(this.tx, this.#deltas);
  }

  async #insert(units: readonly Unit[]): Promise<void> {
    const keys = units.map(({ name }) => nameKey(name));
    await this.tx.rows(
      `INSERT INTO @unit (id, spec, key, long_name, status, place, not_before, created, data, origin, needs, dependents)
       SELECT * FROM unnest($1::bigint[], $2::bigint[], $3::bytea[], $4::bytea[], $5::smallint[], $6::float8[],
         $7::bigint[], $8::bigint[], $9::bytea[], $10::text[], $11::boolean[], $12::boolean[])`,
      [
        int8s(units.map(({ id }) => id)),
        int8s(units.map(({ spec }) => spec.id)),
        byteas(keys.map(({ key }) => key)),
        byteas(keys.map(({ long }) => long)),
        int2s(units.map(({ status }) => statusCode[status])),
        float8s(units.map(({ priority }) => placeOf(priority))),
        int8s(units.map(({ notBefore }) => notBefore)),
        int8s(units.map(({ created }) => created)),
        byteas(units.map(({ data }) => dataBytes(data))),
        texts(units.map(({ origin }) => origin)),
        bools(units.map(({ needs }) => needs)),
        bools(units.map(({ dependents }) => dependents)),
      ],
    );
  }

  async #writeExtras(units: readonly Unit[]): Promise<void> {
    const { ids, kinds, values } = extraArrays(
      [...units].sort((a, b) => a.id - b.id).map(({ id, queues, labels }) => ({ id, queues, labels })),
    );
    await this.tx.rows(
      `UPDATE @unit u SET queues = e.queues, labels = e.labels FROM (${extrasFrom(1)}) e WHERE ${isRow("u.id", "e.id")}`,
      [ids, kinds, values],
    );
  }

  async #update(units: readonly Unit[]): Promise<void> {
    const attempt = <Value>(read: (attempt: Attempt) => Value): (Value | null)[] =>
      units.map((unit) => (unit.attempt === null ? null : read(unit.attempt)));
    await this.tx.rows(
      `UPDATE @unit u SET
         status = c.status, place = c.place, not_before = c.not_before, attempts = c.attempts, tries = c.tries,
         origin = c.origin, needs = c.needs, dependents = c.dependents,
         attempt_status = c.attempt_status, attempt_worker = c.attempt_worker, attempt_start = c.attempt_start,
         attempt_end = c.attempt_end, attempt_expiration = c.attempt_expiration, attempt_late = c.attempt_late,
         attempt_own = c.attempt_own, attempt_errors = c.attempt_errors,
         data = CASE WHEN c.has_data THEN c.data ELSE u.data END,
         attempt_data = CASE WHEN c.has_attempt_data THEN c.attempt_data ELSE u.attempt_data END,
         since = c.since
       FROM unnest($1::bigint[], $2::smallint[], $3::float8[], $4::bigint[], $5::int[], $6::int[], $7::text[],
         $8::boolean[], $9::boolean[], $10::smallint[], $11::bytea[], $12::bigint[], $13::bigint[], $14::bigint[],
         $15::boolean[], $16::boolean[], $17::text[], $18::boolean[], $19::bytea[], $20::boolean[], $21::bytea[], $22::bigint[])
         AS c (id, status, place, not_before, attempts, tries, origin, needs, dependents, attempt_status,
           attempt_worker, attempt_start, attempt_end, attempt_expiration, attempt_late, attempt_own, attempt_errors,
           has_data, data, has_attempt_data, attempt_data, since)
       WHERE ${isRow("u.id", "c.id")}`,
      [
        int8s(units.map(({ id }) => id)),
        int2s(units.map(({ status }) => statusCode[status])),
        float8s(units.map(({ priority }) => placeOf(priority))),
        int8s(units.map(({ notBefore }) => notBefore)),
        int4s(units.map(({ attempts }) => attempts)),
        int4s(units.map(({ tries }) => tries)),
        texts(units.map(({ origin }) => origin)),
        bools(units.map(({ needs }) => needs)),
        bools(units.map(({ dependents }) => dependents)),
        int2s(attempt(({ status }) => attemptCode[status])),
        byteas(attempt(({ worker }) => nameToBytes(worker))),
        int8s(attempt(({ start }) => start)),
        int8s(attempt(({ end }) => end)),
        int8s(attempt(({ expiration }) => expiration)),
        bools(attempt(({ late }) => late)),
        bools(attempt(({ own }) => own)),
        texts(attempt(({ errors }) => writeErrors(errors))),
        bools(units.map(({ dataChanged }) => dataChanged)),
        byteas(units.map((unit) => (unit.dataChanged ? dataBytes(unit.data) : null))),
        bools(units.map(({ attemptDataChanged }) => attemptDataChanged)),
        byteas(
          units.map((unit) =>
            unit.attemptDataChanged && unit.attempt?.own === true ? dataBytes(unit.attempt.data) : null,
          ),
        ),
        int8s(units.map(({ since }) => (since > 0 ? since : null))),
      ],
    );
  }

  async #insertHistory(): Promise<void> {
    const rows = this.#superseded;
    await this.tx.rows(
      `INSERT INTO @history (unit, number, status, late, start, "end", expiration, worker, errors, data)
       SELECT * FROM unnest($1::bigint[], $2::int[], $3::smallint[], $4::boolean[], $5::bigint[], $6::bigint[],
         $7::bigint[], $8::bytea[], $9::text[], $10::bytea[])`,
      [
        int8s(rows.map(({ unit }) => unit)),
        int4s(rows.map(({ attempt }) => attempt.number)),
        int2s(rows.map(({ attempt }) => attemptCode[attempt.status])),
        bools(rows.map(({ attempt }) => attempt.late)),
        int8s(rows.map(({ attempt }) => attempt.start)),
        int8s(rows.map(({ attempt }) => attempt.end)),
        int8s(rows.map(({ attempt }) => attempt.expiration)),
        byteas(rows.map(({ attempt }) => nameToBytes(attempt.worker))),
        texts(rows.map(({ attempt }) => writeErrors(attempt.errors))),
        byteas(rows.map(({ data }) => dataBytes(data))),
      ],
    );
  }

  async #writeNeeds(units: readonly Unit[]): Promise<void> {
    const rows = units.flatMap((unit) =>
      (unit.needRows ?? []).map((need, position) => ({ unit: unit.id, position, ...need })),
    );
    await this.tx.rows("DELETE FROM @need WHERE unit = ANY ($1::bigint[])", [
      int8s(units.map(({ id }) => id)),
    ]);
    await this.tx.rows(
      `INSERT INTO @need (unit, position, target, hard, met, target_spec, target_name)
       SELECT * FROM unnest($1::bigint[], $2::int[], $3::bigint[], $4::boolean[], $5::boolean[], $6::bytea[], $7::bytea[])`,
      [
        int8s(rows.map(({ unit }) => unit)),
        int4s(rows.map(({ position }) => position)),
        int8s(rows.map(({ target }) => target)),
        bools(rows.map(({ hard }) => hard)),
        bools(rows.map(({ met }) => met)),
        byteas(rows.map(({ targetSpec }) => nameToBytes(targetSpec))),
        byteas(rows.map(({ targetName }) => nameToBytes(targetName))),
      ],
    );
  }
}

const isSame = (a: readonly string[], b: readonly string[]): boolean =>
  a.length === b.length && a.every((name, i) => name === b[i]);

/** Queues and labels of units as three arrays: lists of different lengths are not one array of PostgreSQL's. */
export function extraArrays(
  units: readonly { id: number; queues?: readonly string[]; labels?: readonly string[] }[],
): { ids: Buffer; kinds: Buffer; values: Buffer } {
  const rows = units.flatMap(({ id, queues = noNames, labels = noNames }) => [
    { id, kind: 2, value: null },
    ...queues.map((name) => ({ id, kind: 0, value: nameToBytes(name) })),
    ...labels.map((name) => ({ id, kind: 1, value: nameToBytes(name) })),
  ]);
  return {
    ids: int8s(rows.map(({ id }) => id)),
    kinds: int2s(rows.map(({ kind }) => kind)),
    values: byteas(rows.map(({ value }) => value)),
  };
}

/** The three arrays, from this parameter on, as rows of id, queues and labels. */
export const extrasFrom = (parameter: number): string => `
  SELECT x.id, array_agg(x.value ORDER BY x.at) FILTER (WHERE x.kind = 0) AS queues,
    array_agg(x.value ORDER BY x.at) FILTER (WHERE x.kind = 1) AS labels
  FROM unnest($${parameter}::bigint[], $${parameter + 1}::smallint[], $${parameter + 2}::bytea[])
    WITH ORDINALITY AS x (id, kind, value, at)
  GROUP BY x.id`;

/** Where a unit stands for those that wait for it. */
export const standing = (unit: Unit): WorkUnitStatus | null => (unit.deleted ? null : unit.status);

export function readSpec(id: number, row: Row): Spec {
  return {
    id,
    name: nameFromBytes(row[0] as Buffer),
    namespace: row[1] as number,
    namespaceName: nameFromBytes(row[2] as Buffer),
    nextSpec: nameFromBytes(row[3] as Buffer),
    maxRunning: row[4] as number,
    dead: row[5] as boolean,
  };
}

/** What units wait for, by unit id, in the order it was given. */
export async function readNeeds(
  session: Session,
  units: readonly { id: number }[],
  now: number,
): Promise<Map<number, Need[]>> {
  const needs = new Map<number, Need[]>();
  // what is past its time is shown as it stands by rule
  const rows = await session.rows(
    `SELECT d.unit, d.target, d.hard, d.met, d.target_spec, d.target_name,
       CASE WHEN u.status = 3 AND u.attempt_expiration <= $2::bigint THEN CASE WHEN u.not_before > $2::bigint THEN 1 ELSE 0 END
         WHEN u.status = 1 AND u.not_before <= $2::bigint THEN 0
         ELSE u.status END
     FROM @need d LEFT JOIN @unit u ON ${isRow("u.id", "d.target")}
     WHERE d.unit = ANY ($1::bigint[]) ORDER BY d.unit, d.position`,
    [int8s(units.map(({ id }) => id)), now],
  );
  for (const [unit, target, hard, met, spec, name, status] of rows as [
    number,
    number,
    boolean,
    boolean,
    Buffer,
    Buffer,
    number | null,
  ][]) {
    const list = needs.get(unit) ?? [];
    needs.set(unit, list);
    list.push({
      target,
      hard,
      met,
      targetSpec: nameFromBytes(spec),
      targetName: nameFromBytes(name),
      status: status === null ? null : (workUnitStatuses[status] ?? null),
    });
  }
  return needs;
}

export function missingUnit(name: string): CoordinateError {
  return new CoordinateError("no_such_work_unit", name);
}
