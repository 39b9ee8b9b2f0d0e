/** Locks on paths. Every decision locks the namespace's row, which suffices: path locks are few and short. */
import {
  lockAncestors,
  lockKey,
  nameToBytes,
  type Lock,
  type LockDecision,
  type LockPath,
  type LockView,
} from "../core/index.ts";
import type { Session } from "./connection.ts";
import { byteas, keyText, textKey } from "./values.ts";
import { openNamespace } from "./work-specs.ts";

/** How many bytes of a key the index covers; longer keys with the same beginning share an index entry. */
const headLength = 1000;

export async function decideLocks<Answer>(
  tx: Session,
  ns: string,
  paths: readonly LockPath[],
  decide: (view: LockView) => LockDecision<Answer>,
  now: number,
): Promise<Answer> {
  // reading does not create the namespace: the first lock that is set does
  const [found] = await tx.rows("SELECT id FROM @namespace WHERE name = $1 AND NOT dead FOR UPDATE", [
    nameToBytes(ns),
  ]);
  let namespace = (found?.[0] as number | undefined) ?? 0;
  let decision = decide(await readLocks(tx, namespace, paths, now));
  if (found === undefined && decision.set.length > 0) {
    // another transaction may have created it first: decide again, with its row locked
    namespace = await openNamespace(tx, ns, "FOR UPDATE");
    decision = decide(await readLocks(tx, namespace, paths, now));
  }
  const { set, release, answer } = decision;
  const remove = [...release.map(lockKey), ...set.map(({ path }) => lockKey(path))];
  if (remove.length > 0)
    await tx.rows(
      `DELETE FROM @lock l USING unnest($2::bytea[]) AS g (key)
       WHERE l.namespace = $1 AND substring(l.key FROM 1 FOR 1000) = substring(g.key FROM 1 FOR 1000) AND l.key = g.key`,
      [namespace, byteas([...new Set(remove)].map(textKey))],
    );
  const written = new Map(set.map((lock) => [lockKey(lock.path), lock]));
  for (const [key, { path, owner, deadline }] of written)
    await tx.rows("INSERT INTO @lock (namespace, key, path, owner, deadline) VALUES ($1, $2, $3, $4, $5)", [
      namespace,
      textKey(key),
      JSON.stringify(path),
      JSON.stringify(owner),
      deadline,
    ]);
  return answer;
}

/** The live locks at, above and below the paths. */
async function readLocks(
  tx: Session,
  namespace: number,
  paths: readonly LockPath[],
  now: number,
): Promise<LockView> {
  const above = [...new Set(paths.flatMap(lockAncestors))].map(textKey);
  const at = [...new Set(paths.map(lockKey))].map(textKey);
  const rows = await tx.rows(
    `SELECT l.key, l.path, l.owner, l.deadline FROM unnest($2::bytea[]) AS g (key) JOIN @lock l
       ON l.namespace = $1 AND substring(l.key FROM 1 FOR 1000) = substring(g.key FROM 1 FOR 1000) AND l.key = g.key
     WHERE l.deadline >= $5::float8
     UNION
     SELECT l.key, l.path, l.owner, l.deadline FROM unnest($3::bytea[], $4::bytea[]) AS g (low, high) JOIN @lock l
       ON l.namespace = $1 AND substring(l.key FROM 1 FOR 1000) >= substring(g.low FROM 1 FOR 1000)
       AND (g.high IS NULL OR substring(l.key FROM 1 FOR 1000) < g.high)
       AND substring(l.key FROM 1 FOR length(g.low)) = g.low
     WHERE l.deadline >= $5::float8`,
    [namespace, byteas(above), byteas(at), byteas(at.map(rangeEnd)), now],
  );
  return new Map(
    (rows as [Buffer, string, string, number][]).map(([key, path, owner, deadline]): [string, Lock] => [
      keyText(key),
      { path: JSON.parse(path) as string[], owner: JSON.parse(owner) as string, deadline },
    ]),
  );
}

/** The smallest bytes after all that begin with these, within the length that the index covers; null if there are none. */
function rangeEnd(start: Buffer): Buffer | null {
  const end = Buffer.from(start.subarray(0, headLength));
  for (let at = end.length - 1; at >= 0; at--) {
    if (end[at] === 0xff) continue;
    end[at] = (end[at] ?? 0) + 1;
    return end.subarray(0, at + 1);
  }
  return null;
}
