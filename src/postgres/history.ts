/** The records of the history. Each daemon writes its own rows, many per statement. */
import { nameToBytes, type HistoryRow, type StoredRecord } from "../core/index.ts";
import { isRow, type Database, type Session } from "./connection.ts";
import { byteas, int4s, int8s, texts } from "./values.ts";

/** Rows in one statement. */
const rowsAtOnce = 1000;

const putSql = `
  INSERT INTO @record (namespace, spec, step, time, writer, data)
  SELECT n.id, g.spec, g.step, g.time, $1::bigint, g.data
  FROM unnest($2::bytea[], $3::bigint[], $4::int[], $5::bigint[], $6::text[]) AS g (namespace, spec, step, time, data)
  JOIN @namespace n ON n.name = g.namespace AND NOT n.dead
  WHERE g.spec = 0 OR EXISTS (SELECT 1 FROM @spec s WHERE s.id = g.spec AND NOT s.dead)
  ON CONFLICT (namespace, spec, step, time, writer) DO UPDATE SET data = excluded.data`;

export async function putRecords(db: Database, writer: number, rows: readonly HistoryRow[]): Promise<void> {
  for (let at = 0; at < rows.length; at += rowsAtOnce) {
    const some = rows.slice(at, at + rowsAtOnce);
    await db.write(
      putSql,
      [
        writer,
        byteas(some.map(({ namespace }) => nameToBytes(namespace))),
        int8s(some.map(({ spec }) => spec)),
        int4s(some.map(({ stepMs }) => stepMs)),
        int8s(some.map(({ time }) => time)),
        texts(some.map(({ data }) => data)),
      ],
      { repeatable: true },
    );
  }
}

export async function readRecords(
  session: Session,
  ns: string,
  specs: readonly number[],
  stepMs: number,
  from: number,
  to: number,
): Promise<StoredRecord[]> {
  const rows = await session.rows(
    `SELECT r.spec, r.time, r.data
     FROM @namespace n, unnest($2::bigint[]) AS g (spec), LATERAL (
       SELECT * FROM @record o
       WHERE o.namespace = n.id AND o.spec = g.spec AND o.step = $3::int AND o.time >= $4::bigint AND o.time < $5::bigint
     ) r
     WHERE n.name = $1 AND NOT n.dead`,
    [nameToBytes(ns), int8s(specs), stepMs, from, to],
  );
  return (rows as [number, number, string][]).map(([spec, time, data]) => ({ spec, time, data }));
}

export async function dropOldRecords(
  db: Database,
  stepMs: number,
  before: number,
  limit: number,
): Promise<number> {
  const rows = await db.write(
    `WITH old AS MATERIALIZED (
       SELECT namespace, spec, step, time, writer FROM @record WHERE step = $1::int AND time < $2::bigint
       ORDER BY step, time LIMIT $3 FOR UPDATE SKIP LOCKED
     )
     DELETE FROM @record r USING old
     WHERE r.namespace = old.namespace AND r.spec = old.spec AND r.step = old.step AND r.time = old.time AND r.writer = old.writer
     RETURNING 1`,
    [stepMs, before, limit],
    { repeatable: true },
  );
  return rows.length;
}

/** Deletes the records of deleted work specs, and those of their namespaces if these are deleted, too. */
export async function dropRecords(
  tx: Session,
  gone: readonly (readonly [spec: number, namespace: number])[],
): Promise<void> {
  const specs = int8s(gone.map(([spec]) => spec));
  const namespaces = int8s(gone.map(([, namespace]) => namespace));
  await tx.rows(
    `DELETE FROM @record r USING unnest($1::bigint[], $2::bigint[]) AS g (spec, namespace)
     WHERE ${isRow("r.namespace", "g.namespace")} AND ${isRow("r.spec", "g.spec")}`,
    [specs, namespaces],
  );
  await tx.rows(
    `DELETE FROM @record r USING (
       SELECT DISTINCT n.id FROM unnest($1::bigint[]) AS g (id) JOIN @namespace n ON n.id = g.id AND n.dead
     ) d WHERE ${isRow("r.namespace", "d.id")} AND r.spec = 0`,
    [namespaces],
  );
}
