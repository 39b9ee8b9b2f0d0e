/**
 * The fast path of claims by partition: one statement for the whole claim, in a transaction that has locked the work spec's row.
 * It covers the plain course, in which every lane that is visited hands out its share: the places are dealt to the lanes in
 * turn, each lane may begin that many units now, and none of these units was tried before. Otherwise it writes nothing, and the
 * rules of core decide.
 */
import {
  burstOf,
  longestSkewMs,
  hasLanes,
  hasRate,
  hasWeights,
  isTripped,
  nameToBytes,
  takeTokens,
  tokenMs,
  tokensOf,
  type AttemptRow,
  type Claim,
  type WorkSpecMeta,
} from "../core/index.ts";
import {
  beginsAndWaits,
  callerOf,
  claimUnit,
  dealt,
  dealtAnswer,
  flagsOf,
  isExhausted,
  readDealt,
  recorded,
  requestOf,
} from "./claim-answers.ts";
import { isRow, type Transaction } from "./connection.ts";
import { begunIds, foldNotes, idsInLane, waits } from "./lanes.ts";
import { freedSql, tallyOf } from "./tally.ts";
import type { Spec } from "./units.ts";
import { byteas, int8s, textKey } from "./values.ts";
import type { Allocate } from "./working-set.ts";

/** Whether claims of the work spec may be plain. */
export const mayBePlain = (meta: WorkSpecMeta): boolean =>
  hasLanes(meta) &&
  !hasWeights(meta) &&
  !meta.paused &&
  !meta.continuous &&
  meta.limits.length === 0 &&
  !isTripped(meta);

/** The rules of a work spec that its statement checks, and whether the callers have request ids. */
interface LaneClaimKind {
  fair: boolean;
  ordered: boolean;
  limited: boolean;
  rated: boolean;
  /** Whether attempts take places that others have left, and so begin no earlier than those ended. */
  takesPlaces: boolean;
  /** Whether the work spec has a `rate`. */
  paced: boolean;
  noted: boolean;
}

const ringColumns = "l.ctid AS row, l.lane, l.partition, l.rank, l.full_at, l.place, l.key";

const ringSide = (condition: string): string => `
      (SELECT ${ringColumns} FROM @lane l WHERE l.spec = $1 AND l.state = 1 AND l.rank = (SELECT rank FROM first)
         AND ${condition} ORDER BY l.partition LIMIT $2::bigint)`;

/** The units of a lane that have begun, as far as the rules count them. */
const begunIn = ({ ordered, limited }: LaneClaimKind): string =>
  ordered
    ? `CROSS JOIN LATERAL (
      SELECT count(*) AS begun, count(*) FILTER (WHERE u.status = 3) AS running FROM @unit u
      WHERE u.id = ANY (${begunIds("ring.lane")}) AND u.lane = ring.lane AND u.status < 4 AND u.attempt_status IS NOT NULL) b`
    : limited
      ? `CROSS JOIN LATERAL (
      SELECT count(*) AS running FROM @unit u
      WHERE u.id = ANY (ARRAY(${idsInLane("$1", "ring.lane")})) AND u.lane = ring.lane AND u.status = 3) b`
      : "";

/** When the attempts begin. */
const begins = "(SELECT at FROM begins)";

/** A token bucket as in `partitions.ts` of core: `full` as `fillTime` and `tokensOf` read it. */
const fillTime = (full: string): string =>
  `CASE WHEN ${full} > ${begins} + $11::float8 * $10::float8 + ${longestSkewMs} THEN ${begins} + ($11 - 1) * $10
     ELSE greatest(${full}, ${begins}) END`;
const tokens = (full: string): string => `floor($11 - ((${fillTime(full)}) - ${begins}) / $10 + 1e-6)`;
const nextToken = (full: string): string =>
  `greatest(${begins}, ceil((${fillTime(full)}) - ($11 - 1) * $10 - 1e-6))`;

/** Conditions on every lane `g`. */
const mayServe = ({ ordered, limited, rated }: LaneClaimKind): string =>
  [
    ordered && "g.begun = 0 AND g.share = 1",
    limited && "g.running + g.share <= $12::bigint",
    rated && `${tokens("g.full_at")} >= g.share`,
  ]
    .filter((condition) => condition !== false)
    .map((condition) => ` AND coalesce((SELECT bool_and(${condition}) FROM lanes g), false)`)
    .join("");

/** The state of a lane `h` that was served: held by the order or the limit, held until it has a token, or open. */
const stateAfter = ({ ordered, limited, rated }: LaneClaimKind): string =>
  ordered
    ? "0"
    : `CASE WHEN h.next_place IS NULL${limited ? " OR h.running + h.share >= $12::bigint" : ""} THEN 0
        ${rated ? `WHEN ${tokens("h.full_after")} < 1 THEN 2 ` : ""}ELSE 1 END`;

/** 0 unless the lane waits for a token: the column has an index, so a value for each turn would cost each turn three index entries. */
const untilAfter = ({ rated }: LaneClaimKind): string =>
  rated ? `CASE WHEN ${tokens("h.full_after")} < 1 THEN ${nextToken("h.full_after")} ELSE 0 END` : "0";

/**
 * $1 spec, $2 places, $3 now, $4 max retries, $5 workers, $6 lengths of their leases, $7 the first turn of each caller, $8 the
 * cursor, $9 when the attempts begin at the earliest, $10 the time of a token and $11 the burst of `rate_per_partition`, $12
 * `max_running_per_partition`, $13 the bucket of the work spec's `rate` after units that begin at $9, $14 ids for the lease rows,
 * $15 request ids. A rule that the work spec does not have passes null.
 *
 * The end of the last attempt is read here, in the snapshot in which the running units are counted: an attempt that ends between
 * two statements of a claim frees a place, and the one that takes it begins no earlier.
 */
const laneClaimStatement = (kind: LaneClaimKind): string => `
  WITH given_rules AS (SELECT $10::float8, $11::float8, $12::bigint${kind.noted ? "" : ", $15::bytea[]"}
  ), spec AS MATERIALIZED (
    SELECT s.id, s.namespace FROM @spec s WHERE s.id = $1
  ), begins AS MATERIALIZED (
    SELECT greatest($9::float8${kind.takesPlaces ? `, ${freedSql("$1", "$3::bigint")}` : ""}) AS at
  ), first AS MATERIALIZED (
    SELECT l.rank FROM @lane l WHERE l.spec = $1 AND l.state = 1 ORDER BY l.spec, l.rank, l.partition LIMIT 1
  ), ring AS MATERIALIZED (
    SELECT r.*, row_number() OVER () AS number, count(*) OVER () AS lanes FROM (${ringSide("l.partition > $8::bytea")}
      UNION ALL${ringSide("l.partition <= $8::bytea")}
      LIMIT $2::bigint) AS r
  ), lanes AS MATERIALIZED (
    SELECT *, $2::bigint / ring.lanes + (ring.number <= $2::bigint % ring.lanes)::int AS share FROM ring ${begunIn(kind)}
  ), seen AS MATERIALIZED (
    SELECT g.row, g.number, g.share, g.rank, g.full_at${kind.limited ? ", g.running" : ""}, w.*, row_number() OVER lane AS round,
      lead(w.place) OVER lane AS next_place, lead(w.key) OVER lane AS next_key
    FROM lanes g CROSS JOIN LATERAL (
      SELECT w.ctid AS waiting, w.unit, w.at AS place, w.key FROM @waiting w
      WHERE w.spec = $1 AND w.lane = g.lane AND ${waits} AND (w.at, w.key) >= (g.place, g.key)
      ORDER BY w.at, w.key LIMIT g.share + 1
    ) w WINDOW lane AS (PARTITION BY g.number ORDER BY w.place, w.key)
  ), picked AS MATERIALIZED (
    SELECT s.number, s.round, w.ctid AS waiting, u.id, u.attempts, u.tries, ${beginsAndWaits(`${begins}::bigint`)},
      u.attempt_status IS NOT NULL OR coalesce(${isExhausted}, false)${kind.fair ? "" : " OR s.place <> s.rank"} AS odd
    FROM seen s JOIN @waiting w ON w.ctid = s.waiting JOIN @unit u ON ${isRow("u.id", "s.unit")}
    WHERE s.round <= s.share AND u.status = 0
    FOR UPDATE OF w, u SKIP LOCKED
  ), given AS MATERIALIZED (
    SELECT *, dense_rank() OVER (ORDER BY caller, number) AS list FROM (
      SELECT *, ${callerOf} FROM (SELECT *, row_number() OVER (ORDER BY round, number) AS turn FROM picked) AS p
    ) AS p
  ), fit AS MATERIALIZED (
    SELECT count(*) = $2::bigint AND NOT coalesce(bool_or(odd), true)${mayServe(kind)} AS plain FROM given
  ), state AS MATERIALIZED (
    SELECT (NOT plain)::int AS flags FROM fit
  ), ${claimUnit("p.list", `FROM given p, fit WHERE ${isRow("u.id", "p.id")} AND fit.plain`, ", u.lane, u.lease")}, gone AS (
    DELETE FROM @waiting w USING claimed c WHERE w.ctid = c.waiting
  ), leased AS (
    INSERT INTO @lease (id, spec, expiration, needy, lane, units)
    SELECT c.lease, $1, min(c.attempt_expiration), bool_or(c.needs), c.lane, array_agg(c.id) FROM claimed c GROUP BY c.lease, c.lane
  ), served AS (
    UPDATE @lane l SET place = h.next_place, key = h.next_key, rank = ${kind.fair ? "0" : "coalesce(h.next_place, 0)"},
      state = ${stateAfter(kind)}, full_at = h.full_after, until = ${untilAfter(kind)}
    FROM fit, (
      SELECT s.*, ${kind.rated ? `(${fillTime("s.full_at")}) + s.share * $10` : "s.full_at"} AS full_after
      FROM seen s WHERE s.round = s.share
    ) AS h
    WHERE l.ctid = h.row AND fit.plain
  ), turned AS (
    UPDATE @spec s SET cursor = (SELECT g.partition FROM lanes g ORDER BY g.share DESC, g.number DESC LIMIT 1), turn = 1,
      full_at = $13::float8${kind.paced ? ` + ${begins} - $9` : ""}
    FROM fit WHERE s.id = $1 AND fit.plain
  ), ${dealt}, ${recorded(kind.noted)}${dealtAnswer("")}`;

const statements = new Map<string, string>();

export function laneClaimSql(kind: LaneClaimKind): string {
  const key = JSON.stringify(Object.values(kind));
  let sql = statements.get(key);
  if (sql === undefined) statements.set(key, (sql = laneClaimStatement(kind)));
  return sql;
}

/** The available and the pending units of a spec, when its last attempt ended, and an answer to one of the requests. */
const countsSql = `
  SELECT c.available, c.pending, ${freedSql("$1", "$2::bigint")},
    (SELECT r.answer FROM unnest($6::bytea[]) AS g (id) CROSS JOIN LATERAL ${requestOf("$5", "g.id")} r LIMIT 1)
  FROM ${tallyOf("$1")} c`;

/** The attempts of each claim; null if the claims are not plain, and then nothing is written but the notes that were folded. */
export async function claimFromLanes(
  tx: Transaction,
  spec: Spec,
  claims: readonly Claim[],
  allocate: Allocate,
  now: number,
): Promise<AttemptRow[][] | null> {
  const { meta } = spec;
  const { maxRunning, maxRunningPerPartition, ratePerPartition, rate, order, fair } = meta;
  const requests = byteas(claims.map(({ requestId }) => (requestId === null ? null : textKey(requestId))));
  const [row] = await foldNotes(tx, spec, now, countsSql, [spec.namespaceId, requests]);
  const [available, pending, freed, repeated] = row as [number, number, number, string | null];
  if (repeated !== null) return null;
  const paced = hasRate(rate);
  const takesPlaces = maxRunning > 0 || maxRunningPerPartition > 0 || order !== "" || paced;
  const earliest = takesPlaces ? Math.max(now, freed) : now;
  const places = Math.min(
    claims.reduce((sum, { limit }) => sum + limit, 0),
    available,
    maxRunning > 0 ? maxRunning - pending : Infinity,
    tokensOf(rate, spec.full, earliest),
  );
  if (places <= 0) return null;
  const starts: number[] = [];
  let turn = 1;
  for (const { limit } of claims) {
    starts.push(turn);
    turn += limit;
  }
  const rated = hasRate(ratePerPartition);
  const kind: LaneClaimKind = {
    fair: fair !== "",
    ordered: order !== "",
    limited: maxRunningPerPartition > 0,
    rated,
    takesPlaces,
    paced,
    noted: claims.some(({ requestId }) => requestId !== null),
  };
  const rows = await tx.rows(laneClaimSql(kind), [
    ...[spec.id, places, now, claims[0]?.maxRetries ?? 0],
    byteas(claims.map(({ worker }) => nameToBytes(worker))),
    int8s(claims.map(({ lifetimeMs }) => lifetimeMs)),
    int8s(starts),
    ...[nameToBytes(spec.cursor), earliest],
    ...(rated ? [tokenMs(ratePerPartition), burstOf(ratePerPartition)] : [null, null]),
    maxRunningPerPartition,
    takeTokens(rate, spec.full, earliest, places),
    int8s(await allocate(places, tx)),
    requests,
  ]);
  if (flagsOf(rows) !== 0) return null;
  const answers = claims.map((): AttemptRow[] => []);
  for (const { caller, attempts } of readDealt(rows, claims, places, tx.history, now))
    answers[caller] = attempts;
  return answers;
}
