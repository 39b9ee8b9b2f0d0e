/**
 * The external checker: it shares no code with the store, reads the tables with its own statements, and compares them with a
 * ledger of requests and responses. A request without a response may or may not have been executed, but never partially.
 */
import { query } from "./server.ts";

export interface Ledger {
  /** Names whose addition was acknowledged, and names that may have been added. */
  added: Set<string>;
  maybeAdded: Set<string>;
  /** Attempts (unit.number) whose finish was acknowledged, with the requested outputs. */
  finished: Map<string, string>;
  /** Attempts that were handed out, by unit name. */
  claimed: Map<string, string>;
}

export const emptyLedger = (): Ledger => ({
  added: new Set(),
  maybeAdded: new Set(),
  finished: new Map(),
  claimed: new Map(),
});

interface Unit {
  id: number;
  spec: string;
  name: string;
  status: number;
  attempts: number;
  attempt_status: number | null;
  origin: string | null;
}

/** Returns the violations. */
export async function check(url: string, ledger: Ledger): Promise<string[]> {
  const wrong: string[] = [];
  const units = (await query(
    url,
    `SELECT u.id::int, convert_from(s.name, 'UTF8') AS spec, convert_from(u.key, 'UTF8') AS name, u.status, u.attempts,
       u.attempt_status, u.origin FROM coordinate.unit u JOIN coordinate.spec s ON s.id = u.spec`,
  )) as Unit[];
  const byId = new Map(units.map((unit) => [unit.id, unit]));
  const byName = new Map(units.map((unit) => [`${unit.spec}/${unit.name}`, unit]));
  if (byName.size !== units.length) wrong.push("two units have one name");
  // acknowledged changes are stored
  for (const name of ledger.added) if (!byName.has(`s/${name}`)) wrong.push(`${name} was added and is lost`);
  for (const [attempt, output] of ledger.finished) {
    const [id = 0, number = 0] = attempt.split(".").map(Number);
    const unit = byId.get(id);
    if (unit?.status !== 4 || unit.attempts !== number) wrong.push(`${attempt} was finished and is not`);
    if (output !== "" && byName.get(`next/${output}`)?.origin !== attempt)
      wrong.push(`${attempt} was finished without its output`);
  }
  for (const unit of units) {
    // there are no units that were not requested
    if (unit.spec === "s" && !ledger.added.has(unit.name) && !ledger.maybeAdded.has(unit.name))
      wrong.push(`nobody added ${unit.name}`);
    // a finish and its output are one transaction
    if (unit.spec === "next") {
      const maker = byId.get(Number(unit.origin?.split(".")[0]));
      if (maker?.status !== 4) wrong.push(`${unit.name} was made by a unit that is not finished`);
    }
    if (unit.spec === "s" && unit.status === 4 && !byName.has(`next/out ${unit.name}`))
      wrong.push(`${unit.name} is finished without its output`);
    if ((unit.status === 3) !== (unit.attempt_status === 0))
      wrong.push(`${unit.name}: pending and attempt differ`);
  }
  const numbers = (await query(
    url,
    `SELECT unit::int, count(*)::int AS n, min(number)::int AS min, max(number)::int AS max FROM (
       SELECT unit, number FROM coordinate.history UNION ALL SELECT id, attempts FROM coordinate.unit WHERE attempt_status IS NOT NULL
     ) AS a GROUP BY unit`,
  )) as { unit: number; n: number; min: number; max: number }[];
  for (const { unit, n, min, max } of numbers)
    if (min !== 1 || max !== n) wrong.push(`unit ${unit}: attempts are not numbered one by one`);
  const counts = await query(
    url,
    `SELECT s.id FROM coordinate.spec s WHERE (
       SELECT array[coalesce(sum(available), 0), coalesce(sum(pending), 0), coalesce(sum(finished), 0), coalesce(sum(failed), 0)]
       FROM coordinate.tally t WHERE t.spec = s.id
     ) <> (
       SELECT array[count(*) FILTER (WHERE status = 0), count(*) FILTER (WHERE status = 3), count(*) FILTER (WHERE status = 4),
         count(*) FILTER (WHERE status = 5)]::numeric[]
       FROM coordinate.unit u WHERE u.spec = s.id)`,
  );
  // the end of a unit and its messages are one transaction: each of its queues has exactly one message about it
  const odd = (await query(
    url,
    `SELECT coalesce(e.unit, m.unit)::int AS unit, coalesce(m.n, 0)::int AS n FROM (
       SELECT u.id AS unit, q.queue, u.attempts AS number, u.status
       FROM coordinate.unit u, unnest(u.queues) AS q (queue) WHERE u.status >= 4
     ) e FULL JOIN (
       SELECT unit, queue, number, status, count(*) AS n FROM coordinate.message GROUP BY 1, 2, 3, 4
     ) m ON m.unit = e.unit AND m.queue = e.queue AND m.number = e.number AND m.status = e.status
     WHERE e.unit IS NULL OR m.n IS DISTINCT FROM 1`,
  )) as { unit: number; n: number }[];
  for (const { unit, n } of odd) wrong.push(`unit ${unit}: ${n} messages of its end`);
  if (counts.length > 0) wrong.push("counts differ from a recount");
  return wrong;
}
