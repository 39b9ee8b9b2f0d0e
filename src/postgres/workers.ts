/** Workers: rows by namespace and name, and which attempts they made. */
import {
  attemptRow,
  checkParents,
  nameFromBytes,
  nameToBytes,
  prefixEnd,
  workerLifetimeMs,
  type AttemptCursor,
  type AttemptKey,
  type AttemptRow,
  type ListedAttempt,
  type DesiredState,
  type WorkerChange,
  type WorkerQuery,
  type WorkerRow,
} from "../core/index.ts";
import { findAttempts } from "./attempts.ts";
import { isRow, type Row, type Session } from "./connection.ts";
import { asOf, fullColumns, pastColumns, readFullUnit, readPast, restOf } from "./units.ts";
import { byteas, bytesData, dataBytes, keyText, textKey } from "./values.ts";
import { openNamespace } from "./work-specs.ts";

const columns = `w.name, w.parent, w.deactivated, w.mode, w.data, w.updated, w.expiration, w.desired, n.desired`;

function readWorker(row: Row, now: number): WorkerRow {
  const [name, parent, deactivated, mode, data, updated, expiration, desired, general] = row as [
    Buffer,
    Buffer | null,
    boolean,
    Buffer,
    Buffer | null,
    number,
    number,
    DesiredState | null,
    DesiredState,
  ];
  return {
    name: nameFromBytes(name),
    parent: parent === null ? null : nameFromBytes(parent),
    active: !deactivated && expiration > now,
    mode: keyText(mode),
    data: bytesData(data),
    lastUpdate: updated,
    expiration,
    desired: desired ?? general,
  };
}

export async function readWorkers(
  session: Session,
  ns: string,
  names: readonly string[],
  now: number,
): Promise<(WorkerRow | null)[]> {
  const rows = await session.rows(
    `SELECT ${columns} FROM @namespace n JOIN @worker w ON w.namespace = n.id
     WHERE n.name = $1 AND NOT n.dead AND w.name = ANY ($2::bytea[])`,
    [nameToBytes(ns), byteas([...new Set(names)].map(nameToBytes))],
  );
  const found = new Map(rows.map((row) => [nameFromBytes(row[0] as Buffer), readWorker(row, now)]));
  return names.map((name) => found.get(name) ?? null);
}

export async function pageWorkers(
  session: Session,
  ns: string,
  query: WorkerQuery,
  limit: number,
  now: number,
): Promise<WorkerRow[]> {
  const values: unknown[] = [nameToBytes(ns)];
  const value = (given: unknown): string => `$${values.push(given)}`;
  const conditions: string[] = [];
  const { names, prefix = "", active, root, parent, previous } = query;
  if (names !== undefined)
    conditions.push(`w.name = ANY (${value(byteas(names.map(nameToBytes)))}::bytea[])`);
  if (prefix !== "") {
    conditions.push(`w.name >= ${value(nameToBytes(prefix))}::bytea`);
    const end = prefixEnd(prefix);
    if (end !== null) conditions.push(`w.name < ${value(end)}::bytea`);
  }
  if (active !== undefined)
    conditions.push(
      `(NOT w.deactivated AND w.expiration > ${value(now)}::bigint) = ${active ? "true" : "false"}`,
    );
  if (root === true) conditions.push("w.parent IS NULL");
  if (parent !== undefined) conditions.push(`w.parent = ${value(nameToBytes(parent))}::bytea`);
  if (previous !== undefined) conditions.push(`w.name > ${value(nameToBytes(previous))}::bytea`);
  const rows = await session.rows(
    `SELECT ${columns} FROM @namespace n JOIN @worker w ON w.namespace = n.id
     WHERE n.name = $1 AND NOT n.dead${conditions.map((one) => ` AND ${one}`).join("")}
     ORDER BY w.name LIMIT ${value(limit)}::bigint`,
    values,
  );
  return rows.map((row) => readWorker(row, now));
}

export async function writeWorkers(
  tx: Session,
  ns: string,
  changes: readonly WorkerChange[],
  now: number,
): Promise<WorkerRow[]> {
  // two concurrent changes of parents could close a cycle together: lock the namespace's row, since such changes are rare
  const rewired = changes.some(({ parent }) => parent !== undefined);
  const namespace = await openNamespace(tx, ns, rewired ? "FOR UPDATE" : "");
  if (rewired) await refuseCycles(tx, namespace, changes);
  const rows: WorkerRow[] = [];
  for (const change of changes) rows.push(await writeWorker(tx, namespace, change, now));
  return rows;
}

async function refuseCycles(tx: Session, namespace: number, changes: readonly WorkerChange[]): Promise<void> {
  const known = new Map<string, string | null>();
  const starts = changes.flatMap(({ parent }) =>
    parent === undefined || parent === null ? [] : [nameToBytes(parent)],
  );
  const rows = await tx.rows(
    `WITH RECURSIVE above (name) AS (
       SELECT * FROM unnest($2::bytea[])
       UNION SELECT w.parent FROM @worker w JOIN above a ON w.namespace = $1 AND w.name = a.name WHERE w.parent IS NOT NULL
     )
     SELECT w.name, w.parent FROM above a JOIN @worker w ON w.namespace = $1 AND w.name = a.name`,
    [namespace, byteas(starts)],
  );
  for (const [name, parent] of rows as [Buffer, Buffer | null][])
    known.set(nameFromBytes(name), parent === null ? null : nameFromBytes(parent));
  checkParents(changes, (name) => known.get(name));
}

/** Updates the fields that are given, and creates the worker if it does not exist. */
async function writeWorker(
  tx: Session,
  namespace: number,
  change: WorkerChange,
  now: number,
): Promise<WorkerRow> {
  const { name, parent, active, mode, data, lastUpdate, expiration, desired } = change;
  const checkIn = active === true;
  if (parent !== undefined && parent !== null)
    await tx.rows(
      `INSERT INTO @worker (namespace, name, updated, expiration) VALUES ($1, $2, $3, $4) ON CONFLICT DO NOTHING`,
      [namespace, nameToBytes(parent), now, now + workerLifetimeMs],
    );
  const [row] = await tx.rows(
    `WITH written AS (
       INSERT INTO @worker AS w (namespace, name, updated, expiration, deactivated, parent, mode, data, desired)
       VALUES ($1, $2, $3, $4, $5, $7, coalesce($9, ''::bytea), $11, $13)
       ON CONFLICT (namespace, name) DO UPDATE SET
         updated = CASE WHEN $14::boolean THEN excluded.updated ELSE w.updated END,
         expiration = CASE WHEN $14::boolean THEN excluded.expiration ELSE w.expiration END,
         deactivated = coalesce($6, w.deactivated),
         parent = CASE WHEN $8 THEN excluded.parent ELSE w.parent END,
         mode = CASE WHEN $14::boolean THEN coalesce($9, w.mode) ELSE w.mode END,
         data = CASE WHEN $10 THEN excluded.data ELSE w.data END,
         desired = CASE WHEN $12 THEN excluded.desired ELSE w.desired END
       RETURNING *
     )
     SELECT ${columns} FROM written w JOIN @namespace n ON n.id = w.namespace`,
    [
      namespace,
      nameToBytes(name),
      checkIn ? (lastUpdate ?? now) : now,
      checkIn ? (expiration ?? now + workerLifetimeMs) : now + workerLifetimeMs,
      active === false,
      active === undefined ? null : !active,
      parent === undefined || parent === null ? null : nameToBytes(parent),
      parent !== undefined,
      checkIn && mode !== undefined ? textKey(mode) : null,
      checkIn && data !== undefined,
      checkIn ? dataBytes(data ?? null) : null,
      desired !== undefined,
      desired ?? null,
      checkIn,
    ],
  );
  if (row === undefined) throw new Error("unreachable");
  return readWorker(row, now);
}

// ---- the attempts of workers

const heldBy = {
  active: "SELECT w.name FROM @worker w WHERE w.namespace = n.id AND w.name = $3",
  children: "SELECT w.name FROM @worker w WHERE w.namespace = n.id AND w.parent = $3",
} as const;

const heldSql = (which: "active" | "children"): string => `
  SELECT ${fullColumns}
  FROM @namespace n JOIN @spec s ON s.namespace = n.id AND NOT s.dead JOIN @lease l ON l.spec = s.id
    CROSS JOIN LATERAL unnest(l.units) AS g (id) JOIN @unit u ON ${isRow("u.id", "g.id")} AND u.status = 3 AND u.lease = l.id
  WHERE n.name = $1 AND NOT n.dead AND u.attempt_expiration > $2::bigint AND (u.id, u.attempts) > ($4::bigint, $5::int)
    AND u.attempt_worker IN (${heldBy[which]})
  ORDER BY u.id LIMIT $6`;

const lostSql = (which: "active" | "children"): string => `
  SELECT ${fullColumns}, ${pastColumns}
  FROM @namespace n CROSS JOIN LATERAL (${heldBy[which]}) w (name)
    JOIN @history h ON h.held AND h.worker = w.name AND h.expiration > $2::bigint AND (h.unit, h.number) > ($4::bigint, $5::int)
    JOIN @unit u ON ${isRow("u.id", "h.unit")} JOIN @spec s ON s.id = u.spec AND s.namespace = n.id AND NOT s.dead
  WHERE n.name = $1 AND NOT n.dead
  ORDER BY h.unit, h.number LIMIT $6`;

const heldStatements = {
  active: { held: heldSql("active"), lost: lostSql("active") },
  children: { held: heldSql("children"), lost: lostSql("children") },
} as const;

/**
 * The attempts that a worker, or its children, hold now, from all running units of the namespace; and those that they lost before
 * the lease ended.
 */
export async function heldAttempts(
  session: Session,
  ns: string,
  worker: string,
  which: "active" | "children",
  previous: AttemptKey | null,
  limit: number,
  now: number,
): Promise<AttemptRow[]> {
  const { unitId, number } = previous ?? { unitId: 0, number: 0 };
  const values = [nameToBytes(ns), now, nameToBytes(worker), unitId, number, limit];
  const { held, lost } = heldStatements[which];
  const found: { unitId: number; row: AttemptRow }[] = [];
  for (const row of await session.rows(held, values)) {
    const unit = asOf(readFullUnit(row), now);
    if (unit.attempt !== null) found.push({ unitId: unit.id, row: attemptRow(unit, unit.attempt) });
  }
  for (const row of await session.rows(lost, values)) {
    const unit = readFullUnit(row);
    found.push({ unitId: unit.id, row: attemptRow(unit, readPast(restOf(row))) });
  }
  return found
    .sort((a, b) => a.unitId - b.unitId || a.row.number - b.row.number)
    .slice(0, limit)
    .map(({ row }) => row);
}

/** The attempts of a worker, newest first. Skips those of deleted units. */
export async function loggedAttempts(
  session: Session,
  ns: string,
  worker: string,
  previous: AttemptCursor | null,
  limit: number,
  now: number,
): Promise<ListedAttempt[]> {
  const found: ListedAttempt[] = [];
  const place = previous?.position?.[0] ?? null;
  let skipping = previous !== null;
  for (let before = place === null ? null : place + 1; found.length < limit;) {
    const rows = (await session.rows(
      `SELECT l.at, l.units, l.numbers
       FROM @namespace n JOIN @worker w ON w.namespace = n.id JOIN @log l ON l.namespace = n.id AND l.worker = w.name
       WHERE n.name = $1 AND NOT n.dead AND w.name = $2 AND ($3::bigint IS NULL OR l.at < $3::bigint)
       ORDER BY l.at DESC LIMIT 200`,
      [nameToBytes(ns), nameToBytes(worker), before],
    )) as unknown as [number, number[], number[]][];
    const keys: (AttemptKey & { at: number })[] = [];
    for (const [at, units, numbers] of rows) {
      before = at;
      // the row where the previous page ended was deleted: this row comes after it
      if (place !== null && at !== place) skipping = false;
      for (let i = units.length - 1; i >= 0; i--) {
        const key = { unitId: units[i] ?? 0, number: numbers[i] ?? 0, at };
        if (!skipping) keys.push(key);
        else skipping = key.unitId !== previous?.unitId || key.number !== previous.number;
      }
    }
    for (let from = 0; from < keys.length && found.length < limit; from += 1000) {
      const some = keys.slice(from, from + 1000);
      for (const [i, row] of (await findAttempts(session, ns, some, now)).entries())
        if (row !== null && found.length < limit) found.push({ row, position: [some[i]?.at ?? 0] });
    }
    if (rows.length < 200) break;
  }
  return found;
}
