/** Namespaces and work specs: few rows, read by name. */
import {
  defaultNamespaceSettings,
  breakerRules,
  hasFlowRules,
  hasLanes,
  laneRules,
  limitNames,
  missingWorkSpec,
  nameFromBytes,
  nameToBytes,
  readStoredMeta,
  workSpecName,
  type BreakerState,
  type DesiredState,
  type NamespaceRow,
  type NamespaceSettings,
  type SchedulingPolicy,
  type ShareKind,
  type WorkSpecMeta,
  type WorkSpecPut,
  type WorkSpecRef,
  type WorkSpecRow,
} from "../core/index.ts";
import type { Row, Session } from "./connection.ts";
import { breakerValues } from "./outcomes.ts";
import { readSpec, specColumns, type Spec } from "./units.ts";
import { byteas, bytesData, dataBytes, int8s } from "./values.ts";

// ---- namespaces

export async function readNamespaces(session: Session, ns: string | null): Promise<NamespaceRow[]> {
  const rows = await session.rows(
    `SELECT name, policy, share, desired FROM @namespace
     WHERE NOT dead AND ($1::bytea IS NULL OR name = $1::bytea) ORDER BY name`,
    [ns === null ? null : nameToBytes(ns)],
  );
  return (rows as [Buffer, SchedulingPolicy, ShareKind, DesiredState][]).map(
    ([name, policy, share, desired]) => ({ name: nameFromBytes(name), settings: { policy, share, desired } }),
  );
}

/**
 * The id of the namespace, which is created if it does not exist. With `lock` its row is locked; FOR SHARE keeps it from being
 * deleted, so that what the transaction adds to it is deleted with it.
 */
export async function openNamespace(
  tx: Session,
  ns: string,
  lock: "FOR SHARE" | "FOR UPDATE" | "" = "",
): Promise<number> {
  const name = nameToBytes(ns);
  const select = `SELECT id FROM @namespace WHERE name = $1 AND NOT dead ${lock}`;
  for (;;) {
    const [found] = await tx.rows(select, [name]);
    if (found !== undefined) return found[0] as number;
    const { policy, share, desired } = defaultNamespaceSettings;
    await tx.rows(
      `INSERT INTO @namespace (name, policy, share, desired) VALUES ($1, $2, $3, $4)
       ON CONFLICT (name) WHERE NOT dead DO NOTHING`,
      [name, policy, share, desired],
    );
  }
}

export async function writeNamespace(
  tx: Session,
  ns: string,
  change: (old: NamespaceSettings) => NamespaceSettings,
): Promise<NamespaceRow> {
  const id = await openNamespace(tx, ns, "FOR UPDATE");
  const [row] = await tx.rows("SELECT policy, share, desired FROM @namespace WHERE id = $1", [id]);
  const [policy, share, desired] = row as [SchedulingPolicy, ShareKind, DesiredState];
  const settings = change({ policy, share, desired });
  await tx.rows("UPDATE @namespace SET policy = $2, share = $3, desired = $4 WHERE id = $1", [
    id,
    settings.policy,
    settings.share,
    settings.desired,
  ]);
  return { name: ns, settings };
}

export async function killNamespace(tx: Session, ns: string): Promise<boolean> {
  const [row] = await tx.rows("UPDATE @namespace SET dead = true WHERE name = $1 AND NOT dead RETURNING id", [
    nameToBytes(ns),
  ]);
  if (row === undefined) return false;
  const id = row[0] as number;
  await tx.rows("UPDATE @spec SET dead = true, died = now() WHERE namespace = $1 AND NOT dead", [id]);
  for (const table of ["worker", "log", "lock", "request", "batch", "shared_limit"])
    await tx.rows(`DELETE FROM @${table} WHERE namespace = $1`, [id]);
  return true;
}

// ---- work specs

/** Parsed metadata by its text: a claim reads the same few texts again and again. */
const parsed = new Map<string, WorkSpecMeta>();

/** Reads the column `breaker`. */
export const readBreaker = (text: string | null): BreakerState =>
  text === null ? noBreakerState : (JSON.parse(text) as BreakerState);

const noBreakerState: BreakerState = {};

export function readMeta(
  text: string,
  nextContinuous: number,
  breaker: string | null,
  nextRun: number | null = null,
  lastRun: number | null = null,
): WorkSpecMeta {
  let meta = parsed.get(text);
  if (meta === undefined) {
    if (parsed.size > 10_000) parsed.clear();
    parsed.set(text, (meta = readStoredMeta(text)));
  }
  const breakerState = readBreaker(breaker);
  return { ...meta, nextContinuous, nextRun: nextRun ?? 0, lastRun: lastRun ?? 0, breakerState };
}

/** Without the fields that claims, schedules and breakers change, so that the text stays the same. */
const writeMeta = (meta: WorkSpecMeta): string =>
  JSON.stringify({ ...meta, nextContinuous: 0, nextRun: 0, lastRun: 0, breakerState: {} });

const rowColumns = "s.id, s.name, s.data, s.meta, s.next_continuous, s.breaker, s.next_run, s.last_run";

const readRow = (row: Row): WorkSpecRow => {
  const data = bytesData(row[2] as Buffer);
  if (data === null) throw new Error("a work spec has no data");
  return {
    id: row[0] as number,
    name: nameFromBytes(row[1] as Buffer),
    data,
    meta: readMeta(
      row[3] as string,
      row[4] as number,
      row[5] as string | null,
      row[6] as number | null,
      row[7] as number | null,
    ),
  };
};

const matching = (ref: WorkSpecRef, row: WorkSpecRow | undefined): WorkSpecRow | null =>
  row !== undefined && (typeof ref === "string" || ref.id === row.id) ? row : null;

export async function readWorkSpecs(
  session: Session,
  ns: string,
  refs: readonly WorkSpecRef[],
  lock = "",
): Promise<(WorkSpecRow | null)[]> {
  const rows = await session.rows(
    `SELECT ${rowColumns} FROM @namespace n JOIN @spec s ON s.namespace = n.id AND NOT s.dead
     WHERE n.name = $1 AND NOT n.dead AND s.name = ANY ($2::bytea[]) ORDER BY s.id ${lock}`,
    [nameToBytes(ns), byteas([...new Set(refs.map(workSpecName))].map(nameToBytes))],
  );
  const found = new Map(rows.map((row) => [nameFromBytes(row[1] as Buffer), readRow(row)]));
  return refs.map((ref) => matching(ref, found.get(workSpecName(ref))));
}

export async function pageWorkSpecs(
  session: Session,
  ns: string,
  previous: string | null,
  limit: number,
): Promise<WorkSpecRow[]> {
  const rows = await session.rows(
    `SELECT ${rowColumns} FROM @namespace n JOIN @spec s ON s.namespace = n.id AND NOT s.dead
     WHERE n.name = $1 AND NOT n.dead AND ($2::bytea IS NULL OR s.name > $2::bytea) ORDER BY s.name LIMIT $3`,
    [nameToBytes(ns), previous === null ? null : nameToBytes(previous), limit],
  );
  return rows.map(readRow);
}

export async function writeWorkSpecs(
  tx: Session,
  ns: string,
  puts: readonly WorkSpecPut[],
): Promise<WorkSpecRow[]> {
  const refs = puts.map(({ ref }) => ref);
  // before the rows of its work specs, in the order of `killNamespace`
  const namespace = await openNamespace(tx, ns, "FOR SHARE");
  const found = await readWorkSpecs(tx, ns, refs, "FOR UPDATE OF s");
  puts.forEach(({ ref, data }, i) => {
    if (found[i] === null && (data === null || typeof ref !== "string")) throw missingWorkSpec(ref);
  });
  const metas = puts.map(({ meta }, i) => meta(found[i]?.meta ?? null));
  const specs = new Map<string, WorkSpecRow>();
  for (const row of found) if (row !== null) specs.set(row.name, row);
  const rows: WorkSpecRow[] = [];
  for (const [i, put] of puts.entries()) {
    const name = workSpecName(put.ref);
    const meta = metas[i];
    if (meta === undefined) throw new Error("unreachable");
    // a name that occurs twice in a call: the later put sees the result of the earlier one
    const old = specs.get(name);
    const data = put.data ?? old?.data;
    if (data === undefined) throw missingWorkSpec(put.ref);
    const values = [
      dataBytes(data),
      writeMeta(meta),
      meta.paused,
      meta.continuous,
      meta.maxRunning,
      meta.nextContinuous,
      nameToBytes(meta.nextWorkSpecName),
      meta.nextRun > 0 ? meta.nextRun : null,
      meta.lastRun > 0 ? meta.lastRun : null,
      hasFlowRules(meta),
      hasLanes(meta),
      ...breakerValues(meta),
      meta.limits.length === 0 ? null : byteas(limitNames(meta).map(nameToBytes)),
    ];
    const hadLanes = old !== undefined && hasLanes(old.meta);
    const build = hasLanes(meta) && (old === undefined || laneRules(meta) !== laneRules(old.meta));
    const [written] = await tx.rows(
      old === undefined
        ? `INSERT INTO @spec (data, meta, paused, continuous, max_running, next_continuous, next_spec, next_run, last_run,
             flow, laned, breaker, count_ms, count_from, limits, namespace, name, build_lanes)
           VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18) RETURNING id`
        : `UPDATE @spec SET data = $1, meta = $2, paused = $3, continuous = $4, max_running = $5, next_continuous = $6,
             next_spec = $7, next_run = $8, last_run = $9, flow = $10, laned = $11,
             breaker = $12, count_ms = $13, count_from = $14, limits = $15,
             build_lanes = CASE WHEN $17::bigint = 0 THEN build_lanes ELSE $17 END
           WHERE id = $16 RETURNING id`,
      old === undefined
        ? [...values, namespace, nameToBytes(name), build ? 1 : 0]
        : [...values, old.id, build ? 1 : 0],
    );
    if (hadLanes && !hasLanes(meta))
      for (const table of ["lane", "note"]) await tx.rows(`DELETE FROM @${table} WHERE spec = $1`, [old.id]);
    if (old !== undefined && breakerRules(meta) !== breakerRules(old.meta))
      await tx.rows("DELETE FROM @outcome WHERE spec = $1", [old.id]);
    const row = { id: written?.[0] as number, name, data, meta };
    specs.set(name, row);
    rows.push(row);
  }
  return rows;
}

export async function killWorkSpecs(
  tx: Session,
  ns: string,
  refs: readonly WorkSpecRef[],
): Promise<boolean[]> {
  const found = await readWorkSpecs(tx, ns, refs, "FOR UPDATE OF s");
  const dead = new Set<number>();
  const answer = found.map((row) => {
    if (row === null || dead.has(row.id)) return false;
    dead.add(row.id);
    return true;
  });
  if (dead.size > 0)
    await tx.rows("UPDATE @spec SET dead = true, died = now() WHERE id = ANY ($1::bigint[])", [
      int8s([...dead]),
    ]);
  return answer;
}

// ---- what the rules need of a spec

export async function findSpecs(session: Session, ns: string, names: readonly string[]): Promise<Spec[]> {
  if (names.length === 0) return [];
  const rows = await session.rows(
    `SELECT s.id, ${specColumns}
     FROM @namespace n JOIN @spec s ON s.namespace = n.id AND NOT s.dead
     WHERE n.name = $1 AND NOT n.dead AND s.name = ANY ($2::bytea[])`,
    [nameToBytes(ns), byteas([...new Set(names)].map(nameToBytes))],
  );
  return rows.map((row) => readSpec(row[0] as number, row.slice(1)));
}
