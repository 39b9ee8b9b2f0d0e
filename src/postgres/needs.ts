/** Reads the dependencies of units, with the status of their targets, and writes them. */
import {
  nameFromBytes,
  nameToBytes,
  workUnitStatuses,
  type Need,
  type WorkUnitStatus,
} from "../core/index.ts";
import { isRow, type Session } from "./connection.ts";
import type { Unit } from "./units.ts";
import { bools, byteas, int4s, int8s } from "./values.ts";

export interface ReadNeed extends Need {
  /** The status of the target when it was read, with expired leases and elapsed delays applied; null if the target is gone. */
  readonly status: WorkUnitStatus | null;
}

/** The dependencies of each unit, in the order in which they were given. */
export async function readNeeds(
  session: Session,
  units: readonly number[],
  now: number,
): Promise<Map<number, ReadNeed[]>> {
  const needs = new Map<number, ReadNeed[]>();
  const rows = await session.rows(
    `SELECT d.unit, d.target, d.hard, d.met, d.target_spec, d.target_name,
       CASE WHEN s.dead THEN NULL
         WHEN u.status = 3 AND u.attempt_expiration <= $2::bigint THEN CASE WHEN u.not_before > $2::bigint THEN 1 ELSE 0 END
         WHEN u.status = 1 AND u.not_before <= $2::bigint THEN 0
         ELSE u.status END
     FROM @need d LEFT JOIN @unit u ON ${isRow("u.id", "d.target")} LEFT JOIN @spec s ON s.id = u.spec
     WHERE d.unit = ANY ($1::bigint[]) ORDER BY d.unit, d.position`,
    [int8s(units), now],
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
      kind: hard ? "hard" : "soft",
      met,
      workSpec: nameFromBytes(spec),
      workUnit: nameFromBytes(name),
      status: status === null ? null : (workUnitStatuses[status] ?? null),
    });
  }
  return needs;
}

/** Replaces all dependencies of these units. */
export async function writeNeeds(
  tx: Session,
  units: readonly Unit[],
  needsOf: (unit: number) => readonly Need[],
): Promise<void> {
  const rows = units.flatMap(({ id }) =>
    needsOf(id).map((need, position) => ({ unit: id, position, ...need })),
  );
  const before = units.filter(({ stored }) => stored !== null).map(({ id }) => id);
  if (before.length > 0) await tx.rows("DELETE FROM @need WHERE unit = ANY ($1::bigint[])", [int8s(before)]);
  if (rows.length === 0) return;
  await tx.rows(
    `INSERT INTO @need (unit, position, target, hard, met, target_spec, target_name)
     SELECT * FROM unnest($1::bigint[], $2::int[], $3::bigint[], $4::boolean[], $5::boolean[], $6::bytea[], $7::bytea[])`,
    [
      int8s(rows.map(({ unit }) => unit)),
      int4s(rows.map(({ position }) => position)),
      int8s(rows.map(({ target }) => target)),
      bools(rows.map(({ kind }) => kind === "hard")),
      bools(rows.map(({ met }) => met)),
      byteas(rows.map(({ workSpec }) => nameToBytes(workSpec))),
      byteas(rows.map(({ workUnit }) => nameToBytes(workUnit))),
    ],
  );
}

export async function meetNeeds(
  tx: Session,
  met: readonly { unit: Unit; position: number }[],
): Promise<void> {
  await tx.rows(
    `UPDATE @need d SET met = true FROM unnest($1::bigint[], $2::int[]) AS g (unit, position)
     WHERE ${isRow("d.unit", "g.unit")} AND ${isRow("d.position", "g.position")}`,
    [int8s(met.map(({ unit }) => unit.id)), int4s(met.map(({ position }) => position))],
  );
}
