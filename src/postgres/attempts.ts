/** Reading attempts. */
import { attemptId, attemptRow, nameToBytes, type AttemptKey, type AttemptRow } from "../core/index.ts";
import { isRow, type Session } from "./connection.ts";
import { asOf, fullColumns, pastColumns, readFullUnit, readPast, restOf } from "./units.ts";
import { int8s } from "./values.ts";

/** Attempts by key, null where there is none, as they stand by rule. */
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

/** The attempts of a repeated request; with `held` only those that are still held. */
export async function readAttempts(
  session: Session,
  ns: string,
  keys: readonly AttemptKey[],
  now: number,
  held: boolean,
): Promise<AttemptRow[]> {
  const rows = await findAttempts(session, ns, keys, now);
  return rows.filter(
    (row) => row !== null && (!held || (row.status === "pending" && row.active)),
  ) as AttemptRow[];
}
