/** Writes units, many per statement, after the rules have changed them. */
import { hasTimer, nameToBytes, nextTimer, type AttemptState } from "../core/index.ts";
import { isRow, type Session } from "./connection.ts";
import { extraArrays, extrasFrom, labelRows, retryArrays } from "./extras.ts";
import { placeOf } from "./floor.ts";
import { attemptCode, laneOf, statusCode, writeErrors, type Unit } from "./units.ts";
import { bools, byteas, dataBytes, float8s, int2s, int4s, int8s, longestKey, texts } from "./values.ts";

/** The key of a unit: its name, or a shorter key for a long name. */
type KeyOf = (unit: Unit) => Buffer;

export async function insertUnits(tx: Session, units: readonly Unit[], keyOf: KeyOf): Promise<void> {
  const names = units.map(({ name }) => nameToBytes(name));
  const lanes = units.map(({ partition, spec }) => laneOf(partition, spec.meta));
  await tx.rows(
    `INSERT INTO @unit (id, spec, key, long_name, status, place, not_before, created, data, origin, needs, dependents,
       lane, partition)
     SELECT * FROM unnest($1::bigint[], $2::bigint[], $3::bytea[], $4::bytea[], $5::smallint[], $6::float8[],
       $7::bigint[], $8::bigint[], $9::bytea[], $10::text[], $11::boolean[], $12::boolean[], $13::bytea[], $14::bytea[])`,
    [
      int8s(units.map(({ id }) => id)),
      int8s(units.map(({ spec }) => spec.id)),
      byteas(units.map((unit) => keyOf(unit))),
      byteas(names.map((name) => (name.length > longestKey ? name : null))),
      int2s(units.map(({ status }) => statusCode[status])),
      float8s(units.map(({ priority }) => placeOf(priority))),
      int8s(units.map(({ notBefore }) => notBefore)),
      int8s(units.map(({ created }) => created)),
      byteas(units.map(({ data }) => dataBytes(data))),
      texts(units.map(({ origin }) => origin)),
      bools(units.map(({ needs }) => needs)),
      bools(units.map(({ dependents }) => dependents)),
      byteas(lanes.map(({ lane }) => lane)),
      byteas(lanes.map(({ long }) => long)),
    ],
  );
}

export async function writeExtras(tx: Session, units: readonly Unit[], keyOf: KeyOf): Promise<void> {
  const { ids, kinds, values } = extraArrays(units.map(({ id, extras }) => ({ id, ...extras })));
  await tx.rows(
    `UPDATE @unit u SET queues = e.queues, labels = e.labels FROM (${extrasFrom(1)}) e WHERE ${isRow("u.id", "e.id")}`,
    [ids, kinds, values],
  );
  const limited = units.filter(({ extras, stored }) => extras.retry !== null || stored?.retry === true);
  if (limited.length > 0)
    await tx.rows(
      `UPDATE @unit u SET retry = r.retry, max_tries = r.max_tries
       FROM unnest($1::bigint[], $2::text[], $3::int[]) AS r (id, retry, max_tries) WHERE ${isRow("u.id", "r.id")}`,
      retryArrays(limited.map(({ id, extras: { retry } }) => ({ id, retry }))),
    );
  const before = units.filter(({ stored }) => (stored?.labels.length ?? 0) > 0);
  if (before.length > 0) await dropLabels(tx, before, keyOf);
  const after = labelRows(
    units.map((unit) => ({ id: unit.id, spec: unit.spec.id, key: keyOf(unit), ...unit.extras })),
  );
  if (after.count > 0)
    await tx.rows(
      `INSERT INTO @label (spec, label, key, unit)
       SELECT * FROM unnest($1::bigint[], $2::bytea[], $3::bytea[], $4::bigint[])
       ON CONFLICT (spec, label, key) DO UPDATE SET unit = excluded.unit`,
      after.values,
    );
}

export async function writeTimers(tx: Session, units: readonly Unit[]): Promise<void> {
  const timers = units.map(({ status, priority, extras: { timing } }) =>
    hasTimer(timing) && (status === "available" || status === "delayed" || status === "blocked")
      ? nextTimer(timing, priority) || null
      : null,
  );
  await tx.rows(
    `UPDATE @unit u SET timing = t.timing, timer = t.timer
     FROM unnest($1::bigint[], $2::text[], $3::bigint[]) AS t (id, timing, timer) WHERE ${isRow("u.id", "t.id")}`,
    [
      int8s(units.map(({ id }) => id)),
      texts(units.map(({ extras: { timing } }) => (timing === null ? null : JSON.stringify(timing)))),
      int8s(timers),
    ],
  );
}

export async function updateUnits(
  session: Session,
  units: readonly Unit[],
  leaseOf: (unit: Unit) => number | null,
): Promise<void> {
  const attempt = <Value>(read: (attempt: AttemptState) => Value): (Value | null)[] =>
    units.map((unit) => (unit.attempt === null ? null : read(unit.attempt)));
  const own = units.map(({ attempt: one, data }) => (one === null ? null : one.data !== data));
  const lanes = units.map(({ partition, spec }) => laneOf(partition, spec.meta));
  const dataChanged = units.map(({ data, stored }) => stored?.data !== data);
  const attemptChanged = units.map(
    (unit, i) => (own[i] === true ? unit.attempt?.data : undefined) !== unit.stored?.attemptData,
  );
  await session.rows(
    `UPDATE @unit u SET
       status = c.status, place = c.place, not_before = c.not_before, attempts = c.attempts, tries = c.tries,
       origin = c.origin, needs = c.needs, dependents = c.dependents,
       attempt_status = c.attempt_status, attempt_worker = c.attempt_worker, attempt_start = c.attempt_start,
       attempt_end = c.attempt_end, attempt_expiration = c.attempt_expiration, attempt_late = c.attempt_late,
       attempt_own = c.attempt_own, attempt_errors = c.attempt_errors,
       data = CASE WHEN c.has_data THEN c.data ELSE u.data END,
       attempt_data = CASE WHEN c.has_attempt_data THEN c.attempt_data ELSE u.attempt_data END,
       since = c.since, attempt_progress = c.attempt_progress, lane = c.lane, partition = c.partition, reason = c.reason,
       lease = c.lease
     FROM unnest($1::bigint[], $2::smallint[], $3::float8[], $4::bigint[], $5::int[], $6::int[], $7::text[],
       $8::boolean[], $9::boolean[], $10::smallint[], $11::bytea[], $12::bigint[], $13::bigint[], $14::bigint[],
       $15::boolean[], $16::boolean[], $17::text[], $18::boolean[], $19::bytea[], $20::boolean[], $21::bytea[], $22::bigint[], $23::text[],
       $24::bytea[], $25::bytea[], $26::text[], $27::bigint[])
       AS c (id, status, place, not_before, attempts, tries, origin, needs, dependents, attempt_status,
         attempt_worker, attempt_start, attempt_end, attempt_expiration, attempt_late, attempt_own, attempt_errors,
         has_data, data, has_attempt_data, attempt_data, since, attempt_progress, lane, partition, reason, lease)
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
      bools(own),
      texts(attempt(({ chainingErrors }) => writeErrors(chainingErrors))),
      bools(dataChanged),
      byteas(units.map(({ data }, i) => (dataChanged[i] === true ? dataBytes(data) : null))),
      bools(attemptChanged),
      byteas(
        units.map((unit, i) =>
          attemptChanged[i] === true && own[i] === true ? dataBytes(unit.attempt?.data ?? null) : null,
        ),
      ),
      int8s(units.map(({ since }) => (since > 0 ? since : null))),
      texts(attempt(({ progress }) => (progress === null ? null : JSON.stringify(progress)))),
      byteas(lanes.map(({ lane }) => lane)),
      byteas(lanes.map(({ long }) => long)),
      texts(attempt(({ reason }) => reason)),
      int8s(units.map(leaseOf)),
    ],
  );
}

export async function deleteUnits(tx: Session, units: readonly Unit[], keyOf: KeyOf): Promise<void> {
  const ids = (some: readonly Unit[]): Buffer => int8s(some.map(({ id }) => id));
  await tx.rows("DELETE FROM @unit WHERE id = ANY ($1::bigint[])", [ids(units)]);
  const tried = units.filter(({ attempts }) => attempts > 0);
  if (tried.length > 0)
    await tx.rows(
      `WITH logs AS (DELETE FROM @attempt_log WHERE unit = ANY ($1::bigint[]))
       DELETE FROM @history WHERE unit = ANY ($1::bigint[])`,
      [ids(tried)],
    );
  const needy = units.filter(({ needs }) => needs);
  if (needy.length > 0) await tx.rows("DELETE FROM @need WHERE unit = ANY ($1::bigint[])", [ids(needy)]);
  const labelled = units.filter(({ stored }) => (stored?.labels.length ?? 0) > 0);
  if (labelled.length > 0) await dropLabels(tx, labelled, keyOf);
}

async function dropLabels(tx: Session, units: readonly Unit[], keyOf: KeyOf): Promise<void> {
  const { values } = labelRows(
    units.map((unit) => ({
      id: unit.id,
      spec: unit.spec.id,
      key: keyOf(unit),
      labels: unit.stored?.labels ?? [],
    })),
  );
  await tx.rows(
    `DELETE FROM @label b USING unnest($1::bigint[], $2::bytea[], $3::bytea[], $4::bigint[]) AS l (spec, label, key, unit)
     WHERE ${isRow("b.spec", "l.spec")} AND ${isRow("b.label", "l.label")} AND ${isRow("b.key", "l.key")} AND b.unit = l.unit`,
    values,
  );
}
