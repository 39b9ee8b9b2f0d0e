/** Reads attempts, and writes an attempt to the history when it is no longer the latest of its unit. */
import {
  attemptId,
  attemptRow,
  nameToBytes,
  type AttemptKey,
  type AttemptRow,
  type AttemptState,
} from "../core/index.ts";
import { isRow, type Session } from "./connection.ts";
import {
  asOf,
  attemptCode,
  fullColumns,
  pastColumns,
  readFullUnit,
  readPast,
  restOf,
  writeErrors,
  type Unit,
} from "./units.ts";
import { bools, byteas, dataBytes, int2s, int4s, int8s, texts } from "./values.ts";

/** Attempts by key, null if there is none. A pending attempt whose lease has ended is returned as expired. */
export async function findAttempts(
  session: Session,
  ns: string,
  keys: readonly AttemptKey[],
  now: number,
): Promise<(AttemptRow | null)[]> {
  if (keys.length === 0) return [];
  const rows = await session.rows(
    `SELECT ${fullColumns}, ${pastColumns}
     FROM unnest($1::bigint[], $2::bigint[]) WITH ORDINALITY AS g (unit, number, at)
     JOIN @unit u ON ${isRow("u.id", "g.unit")} JOIN @spec s ON s.id = u.spec AND NOT s.dead
     JOIN @namespace n ON n.id = s.namespace AND n.name = $3
     LEFT JOIN @history h ON ${isRow("h.unit", "g.unit")} AND ${isRow("h.number", "g.number")}
     ORDER BY g.at`,
    [int8s(keys.map(({ unitId }) => unitId)), int8s(keys.map(({ number }) => number)), nameToBytes(ns)],
  );
  const found = new Map<string, AttemptRow>();
  for (const row of rows) {
    const unit = asOf(readFullUnit(row), now);
    if (unit.attempt !== null) keep(found, attemptRow(unit, unit.attempt));
    const past = restOf(row);
    if (past[0] !== null) keep(found, attemptRow(unit, readPast(past)));
  }
  return keys.map(({ unitId, number }) => found.get(attemptId(unitId, number)) ?? null);
}

const keep = (found: Map<string, AttemptRow>, row: AttemptRow): unknown => found.set(row.id, row);

/** The attempts that a repeated request was given before, if they are still pending and active. */
export async function readAttempts(
  session: Session,
  ns: string,
  keys: readonly AttemptKey[],
  now: number,
): Promise<AttemptRow[]> {
  const rows = await findAttempts(session, ns, keys, now);
  return rows.filter((row) => row !== null && row.status === "pending" && row.active) as AttemptRow[];
}

/** An attempt that is no longer the latest of its unit. */
export interface Archived {
  unit: Unit;
  attempt: AttemptState;
  /** Taken from its worker before the lease ended. */
  lost: boolean;
}

export async function insertHistory(tx: Session, rows: readonly Archived[]): Promise<void> {
  await tx.rows(
    `INSERT INTO @history (unit, number, status, late, start, "end", expiration, worker, errors, data, held)
     SELECT * FROM unnest($1::bigint[], $2::int[], $3::smallint[], $4::boolean[], $5::bigint[], $6::bigint[],
       $7::bigint[], $8::bytea[], $9::text[], $10::bytea[], $11::boolean[])`,
    [
      int8s(rows.map(({ unit }) => unit.id)),
      int4s(rows.map(({ attempt }) => attempt.number)),
      int2s(rows.map(({ attempt }) => attemptCode[attempt.status])),
      bools(rows.map(({ attempt }) => attempt.late)),
      int8s(rows.map(({ attempt }) => attempt.start)),
      int8s(rows.map(({ attempt }) => attempt.end)),
      int8s(rows.map(({ attempt }) => attempt.expiration)),
      byteas(rows.map(({ attempt }) => nameToBytes(attempt.worker))),
      texts(rows.map(({ attempt }) => writeErrors(attempt.chainingErrors))),
      byteas(rows.map(({ attempt }) => dataBytes(attempt.data))),
      bools(rows.map(({ lost }) => lost)),
    ],
  );
}

export async function updateHistory(tx: Session, rows: readonly Omit<Archived, "lost">[]): Promise<void> {
  await tx.rows(
    `UPDATE @history h SET status = g.status, data = g.data
     FROM unnest($1::bigint[], $2::int[], $3::smallint[], $4::bytea[]) AS g (unit, number, status, data)
     WHERE ${isRow("h.unit", "g.unit")} AND ${isRow("h.number", "g.number")}`,
    [
      int8s(rows.map(({ unit }) => unit.id)),
      int4s(rows.map(({ attempt }) => attempt.number)),
      int2s(rows.map(({ attempt }) => attemptCode[attempt.status])),
      byteas(rows.map(({ attempt }) => dataBytes(attempt.data))),
    ],
  );
}

/** Clears the `held` mark of attempts whose workers know now that they have lost them. */
export async function dropHeld(tx: Session, keys: readonly AttemptKey[]): Promise<void> {
  await tx.rows(
    `UPDATE @history h SET held = false FROM unnest($1::bigint[], $2::int[]) AS g (unit, number)
     WHERE ${isRow("h.unit", "g.unit")} AND ${isRow("h.number", "g.number")} AND h.held`,
    [int8s(keys.map(({ unitId }) => unitId)), int4s(keys.map(({ number }) => number))],
  );
}
