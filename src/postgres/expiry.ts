/**
 * Time passing: leases that ended and delays that are over hold by rule, and the rows are moved when somebody meets them.
 * Whether there are any is one probe of two small indexes, part of the statement that looks for the work spec.
 */
import { missingWorkSpec, nameToBytes, workSpecName, type WorkSpecRef } from "../core/index.ts";
import { isRow, type Database, type Session } from "./connection.ts";
import { park } from "./dependents.ts";
import { Batch, readSpec, type Attempt, type Spec, type Unit } from "./state.ts";
import { tallyConflict, tallyEpoch, tallyInsert } from "./tally.ts";

/** Rows moved in one statement: few enough that nobody waits long for them. */
const slice = 2000;

export const isPast = (spec: string, now: string): string => `(
  EXISTS (SELECT 1 FROM @unit p WHERE p.spec = ${spec} AND p.status = 3 AND p.attempt_expiration <= ${now})
  OR EXISTS (SELECT 1 FROM @unit p WHERE p.spec = ${spec} AND p.status = 1 AND p.not_before <= ${now}))`;

/** The work spec, with nothing in it past its time. Throws when it is not there. */
export async function lookUp(db: Database, ns: string, ref: WorkSpecRef, now: number): Promise<Spec> {
  const [row] = await db.rows(
    `SELECT s.id, ${isPast("s.id", "$3::bigint")}, s.name, s.namespace, n.name, s.next_spec, s.max_running, s.dead
     FROM @namespace n JOIN @spec s ON s.namespace = n.id AND NOT s.dead
     WHERE n.name = $1 AND NOT n.dead AND s.name = $2`,
    [nameToBytes(ns), nameToBytes(workSpecName(ref)), now],
  );
  if (row === undefined || (typeof ref !== "string" && ref.id !== row[0])) throw missingWorkSpec(ref);
  const spec = readSpec(row[0] as number, row.slice(2));
  if (row[1] === true) await catchUp(db, spec.id, now);
  return spec;
}

/** The attempt's lease has ended: the unit waits again, the attempt may still be settled late. */
export async function expire(batch: Batch, unit: Unit, attempt: Attempt, end: number): Promise<void> {
  attempt.status = "expired";
  attempt.end = end;
  await park(batch, unit);
}

/** Makes a locked unit what it is by rule. What it waits for must have been read. */
export async function catchUpUnit(batch: Batch, unit: Unit): Promise<void> {
  const { attempt, status } = unit;
  if (status === "pending" && attempt?.status === "pending" && attempt.expiration <= batch.now)
    await expire(batch, unit, attempt, attempt.expiration);
  else if (status === "delayed" && unit.notBefore <= batch.now) await park(batch, unit);
}

// a delayed unit waits for nobody: it would be blocked
export const moveSql = `
  WITH lapsed AS MATERIALIZED (
    SELECT id, needs FROM @unit WHERE spec = $1 AND status = 3 AND attempt_expiration <= $2::bigint
    ORDER BY attempt_expiration LIMIT $3 FOR UPDATE SKIP LOCKED
  ), due AS MATERIALIZED (
    SELECT id FROM @unit WHERE spec = $1 AND status = 1 AND not_before <= $2::bigint
    ORDER BY not_before LIMIT $3 FOR UPDATE SKIP LOCKED
  ), expired AS (
    UPDATE @unit u SET status = CASE WHEN u.not_before > $2::bigint THEN 1 ELSE 0 END, attempt_status = 1,
      attempt_end = u.attempt_expiration
    FROM lapsed WHERE ${isRow("u.id", "lapsed.id")} AND NOT lapsed.needs RETURNING u.status, u.place, u.key
  ), ready AS (
    UPDATE @unit u SET status = 0 FROM due WHERE ${isRow("u.id", "due.id")} RETURNING u.place, u.key
  ), moved AS MATERIALIZED (
    SELECT count(*) FILTER (WHERE status = 0) AS available, count(*) FILTER (WHERE status = 1) AS delayed,
      (SELECT count(*) FROM ready) AS due, (SELECT count(*) FROM lapsed WHERE needs) AS needy
    FROM expired
  ), first AS MATERIALIZED (
    SELECT place, key FROM (SELECT place, key FROM expired WHERE status = 0 UNION ALL SELECT place, key FROM ready) AS came
    ORDER BY place, key LIMIT 1
  ), tallied AS (
    ${tallyInsert}
    SELECT $1, pg_backend_pid(), available + due, delayed - due, 0, -(available + delayed), 0, 0, 0, 0,
      available + due, CASE WHEN available + due > 0 THEN ${tallyEpoch} ELSE 0 END,
      (SELECT place FROM first), (SELECT key FROM first)
    FROM moved WHERE available + delayed + due > 0
    ${tallyConflict}
  )
  SELECT available + delayed, due, needy FROM moved`;

/** Moves what is past its time in one work spec. Another daemon that does the same is not waited for. */
export async function catchUp(
  db: Database,
  spec: number,
  now: number,
  limit = Infinity,
): Promise<{ expired: number; due: number }> {
  const moved = { expired: 0, due: 0 };
  for (;;) {
    const most = Math.min(slice, limit - Math.max(moved.expired, moved.due));
    if (most <= 0) return moved;
    const [row] = await db.write(moveSql, [spec, now, most], { repeatable: true });
    const [expired = 0, due = 0, needy = 0] = row as number[];
    moved.expired += expired;
    moved.due += due;
    if (needy > 0)
      moved.expired += await db.transaction((tx) => expireNeedy(tx, spec, now), { repeatable: true });
    if (expired + needy < most && due < most) return moved;
  }
}

/** Those that wait for others may be blocked again: what they wait for must be looked at. */
async function expireNeedy(tx: Session, spec: number, now: number): Promise<number> {
  const rows = await tx.rows(
    `SELECT id FROM @unit WHERE spec = $1 AND status = 3 AND attempt_expiration <= $2 AND needs
     ORDER BY attempt_expiration LIMIT $3`,
    [spec, now, slice],
  );
  const batch = new Batch(tx, now, () => Promise.resolve([]));
  await batch.load((rows as [number][]).map(([id]) => id));
  const units = [...batch.units.values()];
  await batch.loadNeeds(units);
  for (const unit of units) await catchUpUnit(batch, unit);
  await batch.flush();
  return units.filter(({ changed }) => changed).length;
}
