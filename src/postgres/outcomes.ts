/** The counts and the states of the breakers of work specs. */
import {
  countedFrom,
  countStepMs,
  hasFlowRules,
  isTripped,
  type OutcomeCounts,
  type WorkSpecMeta,
} from "../core/index.ts";
import type { Database, Session } from "./connection.ts";
import type { Spec } from "./units.ts";
import { int8s, texts } from "./values.ts";
import { readBreaker } from "./work-specs.ts";

const outcomeInsert = "INSERT INTO @outcome AS o (spec, at, kind, shard, count)";
const outcomeConflict = "ON CONFLICT (spec, at, kind, shard) DO UPDATE SET count = o.count + excluded.count";

/** For the fast path of settle, which covers finished attempts of work specs whose breaker has not tripped. */
export const countedSql = `counted AS (
    ${outcomeInsert}
    SELECT c.spec, greatest(s.count_from, $2::bigint - $2::bigint % s.count_ms), '', pg_backend_pid(), count(*)
    FROM changed c JOIN @spec s ON s.id = c.spec WHERE s.count_ms > 0 AND c.status = 4 GROUP BY c.spec, s.count_from, s.count_ms
    ${outcomeConflict}
  ), `;

/** Locks the spec's row, reads the state of its breaker into `spec`, and returns the counts in its window. */
export async function loadBreaker(tx: Session, spec: Spec, now: number): Promise<OutcomeCounts> {
  const [row] = await tx.rows("SELECT breaker FROM @spec WHERE id = $1 FOR UPDATE", [spec.id]);
  spec.meta = { ...spec.meta, breakerState: readBreaker((row?.[0] as string | null | undefined) ?? null) };
  const rows = await tx.rows(
    "SELECT kind, sum(count)::bigint FROM @outcome WHERE spec = $1 AND at >= $2 GROUP BY kind",
    [spec.id, countedFrom(spec.meta, now)],
  );
  return new Map(rows as [string, number][]);
}

/** By work spec, and then by time. */
type NewOutcomes = ReadonlyMap<number, ReadonlyMap<number, OutcomeCounts>>;

export async function writeOutcomes(tx: Session, outcomes: NewOutcomes): Promise<void> {
  const rows = [...outcomes].flatMap(([spec, times]) =>
    [...times].flatMap(([at, counts]) => [...counts].map(([kind, count]) => ({ spec, at, kind, count }))),
  );
  await tx.rows(
    `${outcomeInsert} SELECT g.spec, g.at, g.kind, pg_backend_pid(), g.count
     FROM unnest($1::bigint[], $2::bigint[], $3::text[], $4::bigint[]) AS g (spec, at, kind, count) ${outcomeConflict}`,
    [
      int8s(rows.map(({ spec }) => spec)),
      int8s(rows.map(({ at }) => at)),
      texts(rows.map(({ kind }) => kind)),
      int8s(rows.map(({ count }) => count)),
    ],
  );
}

/** The columns of a work spec that follow from its breaker: see the schema. */
export function breakerValues(
  meta: WorkSpecMeta,
): [breaker: string | null, countMs: number, countFrom: number] {
  const { breakerState } = meta;
  return [
    Object.keys(breakerState).length === 0 ? null : JSON.stringify(breakerState),
    isTripped(meta) ? -countStepMs(meta) : countStepMs(meta),
    breakerState.from ?? 0,
  ];
}

export async function writeBreaker(tx: Session, { id, meta }: Spec): Promise<void> {
  await tx.rows("UPDATE @spec SET breaker = $2, count_ms = $3, count_from = $4, flow = $5 WHERE id = $1", [
    id,
    ...breakerValues(meta),
    hasFlowRules(meta),
  ]);
}

/** Deletes counts that are before the window of their breaker. */
export async function dropOldOutcomes(db: Database, now: number): Promise<void> {
  await db.write(
    "DELETE FROM @outcome o USING @spec s WHERE s.id = o.spec AND o.at < $1::bigint - 11 * abs(s.count_ms)",
    [now],
    { repeatable: true },
  );
}
