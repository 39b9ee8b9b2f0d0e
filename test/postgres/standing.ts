/** Compares the tables that hold the state of units with the units themselves. Shares no code with the store. */
import { query } from "./server.ts";

/** Returns the differences. */
export async function checkStanding(url: string): Promise<string[]> {
  const wrong: string[] = [];
  const found = async (what: string, sql: string): Promise<void> => {
    for (const row of await query(url, sql)) wrong.push(`${what}: ${JSON.stringify(row)}`);
  };
  await found(
    "waiting and the units that wait",
    `SELECT * FROM (
       SELECT id::int, spec::int, CASE status WHEN 0 THEN place WHEN 1 THEN not_before ELSE 0 END AS at, status, tries, max_tries,
         attempt_status IS NOT NULL AS begun, key FROM coordinate.unit WHERE status < 3
     ) AS u FULL JOIN (
       SELECT unit::int AS id, spec::int, at, status, tries, max_tries, begun, key FROM coordinate.waiting
     ) AS w ON w.id = u.id AND w.spec = u.spec AND w.at = u.at AND w.status = u.status AND w.tries = u.tries AND w.begun = u.begun
       AND w.key = u.key AND w.max_tries IS NOT DISTINCT FROM u.max_tries
     WHERE u.id IS NULL OR w.id IS NULL`,
  );
  await found(
    "twice in waiting",
    "SELECT unit::int FROM coordinate.waiting GROUP BY unit HAVING count(*) > 1",
  );
  await found(
    "waiting in another lane",
    `SELECT u.id::int FROM coordinate.unit u JOIN coordinate.waiting w ON w.unit = u.id JOIN coordinate.spec s ON s.id = u.spec
     WHERE u.lane IS DISTINCT FROM w.lane AND s.build_lanes = 0`,
  );
  await found(
    "runs, and is in no list",
    `SELECT u.id::int FROM coordinate.unit u WHERE u.status = 3 AND NOT EXISTS (
       SELECT 1 FROM coordinate.lease l WHERE l.id = u.lease AND l.spec = u.spec AND u.id = ANY (l.units)
         AND l.expiration <= u.attempt_expiration AND (l.needy OR NOT u.needs)
         AND (l.lane IS NULL OR l.lane = u.lane))`,
  );
  await found(
    "has ended, and is in no list",
    `SELECT u.id::int FROM coordinate.unit u WHERE u.status > 3 AND NOT EXISTS (
       SELECT 1 FROM coordinate.ended e WHERE e.spec = u.spec AND e.status = u.status AND e.at = coalesce(u.attempt_end, 0)
         AND u.id = ANY (e.units))`,
  );
  return wrong;
}
