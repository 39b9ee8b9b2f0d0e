/** Limits that work specs share. A claim under a limit locks its row, after that of the work spec, so that claims take turns. */
import {
  limitNames,
  nameFromBytes,
  nameToBytes,
  type SharedLimit,
  type SharedLimitState,
} from "../core/index.ts";
import type { Row, Session } from "./connection.ts";
import { isLapsed } from "./standing.ts";
import { lastFreed } from "./tally.ts";
import type { Spec } from "./units.ts";
import { byteas, int8s } from "./values.ts";
import { openNamespace } from "./work-specs.ts";

const read = ([name, rule, full]: Row): SharedLimit => ({
  ...(JSON.parse(rule as string) as Pick<SharedLimit, "maxRunning" | "rate">),
  name: nameFromBytes(name as Buffer),
  full: full as number,
});

export async function readLimits(session: Session, ns: string): Promise<SharedLimit[]> {
  const rows = await session.rows(
    `SELECT l.name, l.rule, l.full_at FROM @namespace n JOIN @shared_limit l ON l.namespace = n.id
     WHERE n.name = $1 AND NOT n.dead ORDER BY l.name`,
    [nameToBytes(ns)],
  );
  return rows.map(read);
}

export async function writeLimits(tx: Session, ns: string, limits: readonly SharedLimit[]): Promise<void> {
  const namespace = await openNamespace(tx, ns, "FOR SHARE");
  for (const { name, maxRunning, rate } of limits)
    await tx.rows(
      `INSERT INTO @shared_limit (namespace, name, rule, full_at) VALUES ($1, $2, $3, 0)
       ON CONFLICT (namespace, name) DO UPDATE SET rule = excluded.rule`,
      [namespace, nameToBytes(name), JSON.stringify({ maxRunning, rate })],
    );
}

export async function dropLimits(tx: Session, ns: string, names: readonly string[]): Promise<boolean[]> {
  const answers: boolean[] = [];
  for (const name of names) {
    const rows = await tx.rows(
      `DELETE FROM @shared_limit l USING @namespace n
       WHERE n.name = $1 AND NOT n.dead AND l.namespace = n.id AND l.name = $2 RETURNING 1`,
      [nameToBytes(ns), nameToBytes(name)],
    );
    answers.push(rows.length > 0);
  }
  return answers;
}

export const saveFull = (tx: Session, namespace: number, name: string, full: number): Promise<Row[]> =>
  tx.rows("UPDATE @shared_limit SET full_at = $3 WHERE namespace = $1 AND name = $2", [
    namespace,
    nameToBytes(name),
    full,
  ]);

/**
 * Locks and reads the limits of a spec, with the number of units that run under them in other work specs, and when the last
 * attempt under them ended.
 */
export async function holdLimits(
  tx: Session,
  spec: Spec,
  known: readonly number[],
  lapsedBy: number,
  now: number,
): Promise<{ limits: SharedLimitState[]; freed: number }> {
  const names = byteas(limitNames(spec.meta).map(nameToBytes));
  const rows = await tx.rows(
    `SELECT l.name, l.rule, l.full_at FROM @shared_limit l
     WHERE l.namespace = $1 AND l.name = ANY ($2::bytea[]) ORDER BY l.name FOR UPDATE`,
    [spec.namespaceId, names],
  );
  // a separate statement after the rows are locked: its snapshot has all earlier claims
  const used = await tx.rows(
    `SELECT g.name, coalesce(sum(c.pending) FILTER (WHERE s.id <> $3), 0)::bigint, coalesce(max(c.freed), 0)
     FROM unnest($2::bytea[]) AS g (name) JOIN @spec s ON s.namespace = $1 AND NOT s.dead AND g.name = ANY (s.limits)
       CROSS JOIN LATERAL (
         SELECT sum(t.pending) - (SELECT count(*) FROM @unit u WHERE ${isLapsed("s.id", "$4::bigint")}
             AND NOT u.id = ANY ($5::bigint[])) AS pending, ${lastFreed("$6::bigint")} AS freed
         FROM @tally t WHERE t.spec = s.id
       ) c
     GROUP BY g.name`,
    [spec.namespaceId, names, spec.id, lapsedBy, int8s(known), now],
  );
  const running = new Map(used.map(([name, count]) => [nameFromBytes(name as Buffer), count as number]));
  return {
    limits: rows.map(read).map((limit) => ({ ...limit, running: running.get(limit.name) ?? 0 })),
    freed: Math.max(0, ...used.map((row) => row[2] as number)),
  };
}
