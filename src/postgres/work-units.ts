/** Finding, counting and reading units. */
import {
  emptyTally,
  nameToBytes,
  prefixEnd,
  unitRow,
  waitingSample,
  workUnitStatuses,
  type CountSlice,
  type DependencyRow,
  type WorkUnitRow,
  type WorkUnitStatus,
  type WorkUnitWhere,
} from "../core/index.ts";
import { isRow, type Session } from "./connection.ts";
import { labelKey } from "./extras.ts";
import { findKeys, keyUpTo } from "./long-names.ts";
import { readNeeds, type ReadNeed } from "./needs.ts";
import { idsOf } from "./standing.ts";
import { tallyOf } from "./tally.ts";
import { readUnit, statusCode, unitColumns, type Spec, type Unit } from "./units.ts";
import { byteas, keyPrefix, nameOf } from "./values.ts";

interface Range {
  conditions: string[];
  values: unknown[];
}

/** Conditions on names and end times. `$1` is the spec; `keys` is the alias of the table whose keys are compared. */
async function nameRange(session: Session, spec: Spec, where: WorkUnitWhere, keys = "u"): Promise<Range> {
  const conditions: string[] = [];
  const values: unknown[] = [];
  const value = (given: unknown): string => `$${values.push(given) + 1}`;
  if (where.names !== undefined) {
    const named = await findKeys(session, spec.id, [...new Set(where.names)]);
    conditions.push(`${keys}.key = ANY (${value(byteas(named))}::bytea[])`);
  }
  if (where.previous !== undefined)
    conditions.push(`${keys}.key > ${value(await keyUpTo(session, spec.id, where.previous))}::bytea`);
  if (where.prefix !== undefined) {
    const start = nameToBytes(where.prefix);
    const end = prefixEnd(where.prefix);
    conditions.push(`${keys}.key >= ${value(keyPrefix(start))}::bytea`);
    // the key of a very long name is not the whole name
    conditions.push(`coalesce(u.long_name, u.key) >= ${value(start)}::bytea`);
    if (end !== null) {
      const whole = value(end);
      if (start.length === keyPrefix(start).length) conditions.push(`${keys}.key < ${whole}::bytea`);
      conditions.push(`coalesce(u.long_name, u.key) < ${whole}::bytea`);
    }
  }
  if (where.endedSince !== undefined)
    conditions.push(`u.status >= 4 AND u.attempt_end >= ${value(where.endedSince)}::bigint`);
  return { conditions, values };
}

/** Up to this many units are read by their status and sorted, instead of searched for in name order. */
const fewEnough = 20_000;

/**
 * The first matching units in name order. For all statuses, scans the index of names. For some, reads the units by status if they
 * are few; otherwise scans the names, too, where it meets many of them.
 */
async function selectUnits<Found>(
  session: Session,
  spec: Spec,
  where: WorkUnitWhere,
  columns: string,
  limit: number,
  read: (row: readonly unknown[]) => Found,
): Promise<Found[]> {
  const { statuses } = where;
  if (where.label !== undefined || where.error !== undefined)
    return selectListed(session, spec, where, columns, limit, read);
  const { conditions, values } = await nameRange(session, spec, where);
  const given = [spec.id, ...values, limit];
  const tail = `ORDER BY u.key LIMIT $${given.length}`;
  const condition = conditions.map((one) => ` AND ${one}`).join("");
  if (statuses?.length === 0 || where.names?.length === 0) return [];
  const codes = statuses === undefined ? null : statusCodes(statuses);
  let from = `@unit u WHERE u.spec = $1${condition}`;
  if (codes !== null) {
    if (where.names === undefined && (await isRare(session, spec, statuses ?? []))) {
      // MATERIALIZED: keeps the planner from scanning the names instead
      const parts = codes.map(
        (code) =>
          `SELECT * FROM @unit u WHERE u.id = ANY (${idsOf("$1", code)}) AND u.status = ${code}${condition}`,
      );
      const few = `WITH few AS MATERIALIZED (${parts.join(" UNION ALL ")})`;
      return (await session.rows(`${few} SELECT ${columns} FROM few u ${tail}`, given)).map(read);
    }
    from += ` AND u.status IN (${codes.join(", ")})`;
  }
  return (await session.rows(`SELECT ${columns} FROM ${from} ${tail}`, given)).map(read);
}

/**
 * The same for units with a label or in a failure group, by the index of these. LATERAL and LIMIT keep the planner from beginning
 * with the units.
 */
async function selectListed<Found>(
  session: Session,
  spec: Spec,
  where: WorkUnitWhere,
  columns: string,
  limit: number,
  read: (row: readonly unknown[]) => Found,
): Promise<Found[]> {
  const { statuses, label, error, names } = where;
  if (statuses?.length === 0 || names?.length === 0) return [];
  const { conditions, values } = await nameRange(session, spec, where, "b");
  const given = [spec.id, ...values, error ?? labelKey(label ?? ""), limit];
  // with both conditions, begin with the failure group: it is the smaller one
  if (error !== undefined && label !== undefined) {
    given.splice(-1, 0, labelKey(label));
    conditions.push(
      `EXISTS (SELECT 1 FROM @label l WHERE l.spec = $1 AND l.label = $${given.length - 1}::bytea AND l.key = b.key)`,
    );
  }
  const listed = error === undefined ? `@label b CROSS JOIN LATERAL` : `@failed b CROSS JOIN LATERAL`;
  const at = values.length + 2;
  const which = error === undefined ? `b.label = $${at}::bytea` : `b.fingerprint = $${at}::text`;
  const standing = statuses === undefined ? "" : ` AND u.status IN (${statusCodes(statuses).join(", ")})`;
  const rows = await session.rows(
    `SELECT ${columns} FROM ${listed} (
       SELECT * FROM @unit u WHERE u.id = b.unit${standing} LIMIT 1
     ) u WHERE b.spec = $1 AND ${which}${conditions.map((one) => ` AND ${one}`).join("")}
     ORDER BY b.key LIMIT $${given.length}`,
    given,
  );
  return rows.map(read);
}

const statusCodes = (statuses: readonly WorkUnitStatus[]): number[] =>
  [...new Set(statuses)].map((status) => statusCode[status]).sort();

export async function countUnits(
  session: Session,
  spec: Spec,
  where: WorkUnitWhere,
  limit: number,
): Promise<CountSlice> {
  const read = (row: readonly unknown[]): [number, Buffer, Buffer | null] =>
    row as unknown as [number, Buffer, Buffer | null];
  const rows = await selectUnits(session, spec, where, "u.status, u.key, u.long_name", limit + 1, read);
  const more = rows.length > limit;
  if (more) rows.pop();
  const counts = emptyTally();
  for (const [code] of rows) counts[workUnitStatuses[code] ?? "available"]++;
  const last = rows.at(-1);
  return { counts, next: more && last !== undefined ? nameOf(last[1], last[2]) : null };
}

/** Since when units wait, among samples from both ends of the claim order of each work spec; see `availableSince` of core. */
export const waitingSinceSql = `
  SELECT n.name, s.name, c.available, least(first.since, last.since)
  FROM @namespace n JOIN @spec s ON s.namespace = n.id AND NOT s.dead, LATERAL ${tallyOf("s.id")} c,
    LATERAL (${oldestOf("w.at, w.key")}) first, LATERAL (${oldestOf("w.at DESC, w.key DESC")}) last
  WHERE NOT n.dead AND ($1::bytea IS NULL OR n.name = $1::bytea) AND c.available > 0 AND first.since IS NOT NULL
  ORDER BY n.name, s.name`;

function oldestOf(order: string): string {
  return `
    SELECT min(since) AS since FROM (
      SELECT greatest(coalesce(u.since, u.created), u.not_before, coalesce(u.attempt_end, 0)) AS since
      FROM (
        SELECT w.unit FROM @waiting w WHERE w.spec = s.id AND w.status = 0 ORDER BY ${order} LIMIT ${waitingSample}
      ) AS w JOIN @unit u ON ${isRow("u.id", "w.unit")}
    ) AS sampled`;
}

async function isRare(session: Session, spec: Spec, statuses: readonly WorkUnitStatus[]): Promise<boolean> {
  const [row] = await session.rows(
    `SELECT c.available, c.delayed, c.blocked, c.pending, c.finished, c.failed FROM ${tallyOf("$1")} c`,
    [spec.id],
  );
  const counts = row as number[];
  const matching = [...new Set(statuses)].reduce((sum, status) => sum + (counts[statusCode[status]] ?? 0), 0);
  const all = counts.reduce((sum, count) => sum + count, 0);
  return matching <= fewEnough && matching * 4 < all;
}

export async function readUnits(
  session: Session,
  spec: Spec,
  where: WorkUnitWhere,
  limit: number,
  now: number,
): Promise<WorkUnitRow[]> {
  const units = await selectUnits(session, spec, where, unitColumns, limit, (row) => readUnit(row, spec));
  return unitRows(session, units, now, where.asAdded);
}

async function unitRows(
  session: Session,
  units: readonly Unit[],
  now: number,
  asAdded = false,
): Promise<WorkUnitRow[]> {
  const needy = units.filter(({ needs }) => needs).map(({ id }) => id);
  const needs = needy.length === 0 ? null : await readNeeds(session, needy, now);
  return units.map((unit) =>
    unitRow(unit, (needs?.get(unit.id) ?? []).map(dependencyRow), unit.extras, asAdded),
  );
}

const dependencyRow = ({ workSpec, workUnit, kind, status }: ReadNeed): DependencyRow => ({
  workSpec,
  workUnit,
  kind,
  status,
});

/** The ids of the first matching units, and where to go on. */
export async function findSlice(
  session: Session,
  spec: Spec,
  where: WorkUnitWhere,
  limit: number,
): Promise<{ ids: number[]; next: string | null }> {
  const read = (row: readonly unknown[]): [number, Buffer, Buffer | null] =>
    row as unknown as [number, Buffer, Buffer | null];
  const rows = await selectUnits(session, spec, where, "u.id, u.key, u.long_name", limit + 1, read);
  const more = rows.length > limit;
  if (more) rows.pop();
  const last = rows.at(-1);
  return {
    ids: rows.map(([id]) => id),
    next: more && last !== undefined ? nameOf(last[1], last[2]) : null,
  };
}
