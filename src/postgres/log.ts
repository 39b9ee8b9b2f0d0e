/** Who made which attempts: workers are made by their first claim, and every claim is a row of the log. */
import { nameToBytes, type AttemptKey } from "../core/index.ts";
import type { Session } from "./connection.ts";
import { byteas, int4s, int8s } from "./values.ts";

/** Makes workers that are not known. */
export async function knowWorkers(
  tx: Session,
  namespace: number,
  names: readonly string[],
  now: number,
  expiration: number,
): Promise<void> {
  await tx.rows(
    `INSERT INTO @worker (namespace, name, updated, expiration)
     SELECT $1, g.name, $3, $4 FROM unnest($2::bytea[]) AS g (name) ORDER BY g.name ON CONFLICT DO NOTHING`,
    [namespace, byteas([...new Set(names)].map(nameToBytes)), now, expiration],
  );
}

export async function writeLog(
  tx: Session,
  namespace: number,
  worker: string,
  attempts: readonly { id: string }[],
): Promise<void> {
  if (attempts.length === 0) return;
  const keys = readKeys(attempts.map(({ id }) => id).join(","));
  await tx.rows(
    "INSERT INTO @log (namespace, worker, units, numbers) VALUES ($1, $2, $3::bigint[], $4::int[])",
    [
      namespace,
      nameToBytes(worker),
      int8s(keys.map(({ unitId }) => unitId)),
      int4s(keys.map(({ number }) => number)),
    ],
  );
}

export const readKeys = (text: string): AttemptKey[] =>
  text.split(",").map((id) => {
    const [unitId = 0, number = 0] = id.split(".").map(Number);
    return { unitId, number };
  });
