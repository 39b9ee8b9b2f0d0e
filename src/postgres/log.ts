/** The attempts of each worker: its first claim creates the worker, and every claim is a row of the log. */
import { nameToBytes, workerLifetimeMs, type AttemptKey } from "../core/index.ts";
import type { Session } from "./connection.ts";
import { byteas, int4s, int8s } from "./values.ts";

/** Creates the workers that do not exist. */
export async function registerWorkers(
  tx: Session,
  namespaceId: number,
  names: readonly string[],
  now: number,
): Promise<void> {
  await tx.rows(
    `INSERT INTO @worker (namespace, name, updated, expiration)
     SELECT $1, g.name, $3, $4 FROM unnest($2::bytea[]) AS g (name) ORDER BY g.name ON CONFLICT DO NOTHING`,
    [namespaceId, byteas([...new Set(names)].map(nameToBytes)), now, now + workerLifetimeMs],
  );
}

export async function writeLog(
  tx: Session,
  namespaceId: number,
  worker: string,
  keys: readonly AttemptKey[],
): Promise<void> {
  if (keys.length === 0) return;
  await tx.rows(
    "INSERT INTO @log (namespace, worker, units, numbers) VALUES ($1, $2, $3::bigint[], $4::int[])",
    [
      namespaceId,
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

/** The attempts that earlier requests were given, by position of the request id. */
export function readRepeated(text: string | null): Map<number, AttemptKey[]> {
  const found = new Map<number, AttemptKey[]>();
  for (const one of text === null ? [] : text.split(";")) {
    const [at = "", keys = ""] = one.split(":");
    found.set(Number(at) - 1, readKeys(keys));
  }
  return found;
}
