/** What units depend on, read with where that stands. */
import { nameFromBytes, workUnitStatuses, type Need, type WorkUnitStatus } from "../core/index.ts";
import { isRow, type Session } from "./connection.ts";
import { int8s } from "./values.ts";

export interface ReadNeed extends Need {
  /** Where the target stood by rule when it was read; null when it is gone. */
  readonly status: WorkUnitStatus | null;
}

/** By unit, in the order in which they were given. */
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
