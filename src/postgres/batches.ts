/** Batches: one row each, by name. A transaction that changes a batch locks its row until it ends. */
import { nameFromBytes, nameToBytes, newBatch, type BatchRow } from "../core/index.ts";
import type { Session } from "./connection.ts";
import { byteas } from "./values.ts";

const parse = (state: unknown): BatchRow => JSON.parse(state as string) as BatchRow;
const from = `FROM @namespace n JOIN @batch b ON b.namespace = n.id WHERE n.name = $1 AND NOT n.dead`;

/** Locks and reads the batch. With `create`, a missing batch is inserted, so that concurrent creators wait for each other. */
export async function holdBatch(
  tx: Session,
  ns: string,
  name: string,
  create: boolean,
  now: number,
): Promise<BatchRow | undefined> {
  const key = [nameToBytes(ns), nameToBytes(name)];
  if (create)
    await tx.rows(
      `INSERT INTO @batch (namespace, name, state) SELECT n.id, $2, $3 FROM @namespace n
       WHERE n.name = $1 AND NOT n.dead ON CONFLICT DO NOTHING`,
      [...key, JSON.stringify(newBatch(name, now))],
    );
  const [row] = await tx.rows(`SELECT b.state ${from} AND b.name = $2 FOR UPDATE OF b`, key);
  return row === undefined ? undefined : parse(row[0]);
}

export async function writeBatch(tx: Session, ns: string, batch: BatchRow): Promise<void> {
  await tx.rows(
    `UPDATE @batch b SET state = $3, parent = $4 FROM @namespace n
     WHERE n.name = $1 AND NOT n.dead AND b.namespace = n.id AND b.name = $2`,
    [
      nameToBytes(ns),
      nameToBytes(batch.name),
      JSON.stringify(batch),
      batch.parent === null ? null : nameToBytes(batch.parent),
    ],
  );
}

export async function readBatches(
  session: Session,
  ns: string,
  names: readonly string[],
): Promise<(BatchRow | null)[]> {
  const rows = await session.rows(`SELECT b.state ${from} AND b.name = ANY ($2::bytea[])`, [
    nameToBytes(ns),
    byteas(names.map(nameToBytes)),
  ]);
  const found = new Map(rows.map(([state]) => parse(state)).map((row) => [row.name, row]));
  return names.map((name) => found.get(name) ?? null);
}

export async function pageBatches(
  session: Session,
  ns: string,
  previous: string | null,
  limit: number,
): Promise<BatchRow[]> {
  const rows = await session.rows(
    `SELECT b.state ${from} AND ($2::bytea IS NULL OR b.name > $2::bytea) ORDER BY b.name LIMIT $3`,
    [nameToBytes(ns), previous === null ? null : nameToBytes(previous), limit],
  );
  return rows.map(([state]) => parse(state));
}

export async function findInner(session: Session, ns: string, parents: readonly string[]): Promise<string[]> {
  const rows = await session.rows(
    `SELECT b.name ${from} AND b.parent IS NOT NULL AND b.parent = ANY ($2::bytea[]) ORDER BY b.name`,
    [nameToBytes(ns), byteas(parents.map(nameToBytes))],
  );
  return rows.map(([name]) => nameFromBytes(name as Buffer));
}

export async function dropBatch(tx: Session, ns: string, name: string): Promise<void> {
  await tx.rows(
    `DELETE FROM @batch b USING @namespace n
     WHERE n.name = $1 AND NOT n.dead AND b.namespace = n.id AND b.name = $2`,
    [nameToBytes(ns), nameToBytes(name)],
  );
}
