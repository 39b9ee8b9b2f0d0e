/** Task logs: one row for each attempt with log lines. */
import { appendLog, nameToBytes, type AttemptKey, type LogWrite, type StoredLog } from "../core/index.ts";
import { isRow, type Database, type Session } from "./connection.ts";
import { int4s, int8s, texts } from "./values.ts";

export async function readLogs(
  session: Session,
  ns: string,
  keys: readonly AttemptKey[],
): Promise<(StoredLog | null | undefined)[]> {
  if (keys.length === 0) return [];
  const rows = await session.rows(
    `SELECT g.at, l.total, l.lines
     FROM unnest($1::bigint[], $2::bigint[]) WITH ORDINALITY AS g (unit, number, at)
     JOIN @unit u ON ${isRow("u.id", "g.unit")} AND u.attempts >= g.number
     JOIN @spec s ON s.id = u.spec AND NOT s.dead
     JOIN @namespace n ON n.id = s.namespace AND n.name = $3
     LEFT JOIN @attempt_log l ON ${isRow("l.unit", "g.unit")} AND ${isRow("l.number", "g.number")}`,
    [int8s(keys.map(({ unitId }) => unitId)), int8s(keys.map(({ number }) => number)), nameToBytes(ns)],
  );
  const logs: (StoredLog | null | undefined)[] = keys.map(() => undefined);
  for (const [at, total, text] of rows as [number, number | null, string | null][])
    logs[at - 1] = total === null || text === null ? null : { total, text };
  return logs;
}

/**
 * Writes a log if it is still as it was read; a log that another daemon has changed meanwhile is read again. The unit's row is
 * locked against deletion, so that no log outlives its unit.
 */
export async function writeLogs(db: Database, ns: string, writes: readonly LogWrite[]): Promise<boolean[]> {
  const answers = writes.map(() => false);
  let left = writes.map((write, at) => ({ write, at }));
  while (left.length > 0) {
    // several writes to one attempt in a call are done one after the other
    const seen = new Set<string>();
    const turn = left.filter(({ write }) => seen.size < seen.add(`${write.unitId}.${write.number}`).size);
    const olds = await readLogs(
      db,
      ns,
      turn.map(({ write }) => write),
    );
    const changed: { write: LogWrite; at: number; before: number; log: StoredLog }[] = [];
    const done = new Set<number>();
    turn.forEach(({ write, at }, i) => {
      const old = olds[i];
      const log = old === undefined ? null : appendLog(old, write);
      answers[at] = old !== undefined;
      if (log === null || log === old) done.add(at);
      else changed.push({ write, at, before: old?.total ?? -1, log });
    });
    for (const at of await putLogs(db, changed)) done.add(at);
    left = left.filter(({ at }) => !done.has(at));
  }
  return answers;
}

/** Returns the positions of the logs that were written. */
async function putLogs(
  db: Database,
  logs: readonly { write: LogWrite; at: number; before: number; log: StoredLog }[],
): Promise<number[]> {
  if (logs.length === 0) return [];
  const rows = await db.write(
    `WITH given AS MATERIALIZED (
       SELECT g.* FROM unnest($1::bigint[], $2::int[], $3::bigint[], $4::bigint[], $5::text[])
         AS g (unit, number, before, total, lines)
       JOIN @unit u ON ${isRow("u.id", "g.unit")}
       ORDER BY g.unit, g.number FOR KEY SHARE OF u
     ), changed AS (
       UPDATE @attempt_log l SET total = g.total, lines = g.lines FROM given g
       WHERE g.before >= 0 AND l.unit = g.unit AND l.number = g.number AND l.total = g.before
       RETURNING l.unit, l.number
     ), added AS (
       INSERT INTO @attempt_log (unit, number, total, lines)
       SELECT unit, number, total, lines FROM given WHERE before < 0
       ON CONFLICT (unit, number) DO NOTHING RETURNING unit, number
     )
     SELECT unit, number FROM changed UNION ALL SELECT unit, number FROM added`,
    [
      int8s(logs.map(({ write }) => write.unitId)),
      int4s(logs.map(({ write }) => write.number)),
      int8s(logs.map(({ before }) => before)),
      int8s(logs.map(({ log }) => log.total)),
      texts(logs.map(({ log }) => log.text)),
    ],
    { repeatable: true },
  );
  const written = new Set((rows as [number, number][]).map(([unit, number]) => `${unit}.${number}`));
  return logs.flatMap(({ write, at }) => (written.has(`${write.unitId}.${write.number}`) ? [at] : []));
}
