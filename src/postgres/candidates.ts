/** Reads what the scheduler needs for a choice, in one statement for all concurrent requests. */
import { createHash } from "node:crypto";
import {
  hasFlowRules,
  isRunDue,
  nameFromBytes,
  nameToBytes,
  nextToken,
  runsDue,
  tokensOf,
  type AttemptKey,
  type Candidate,
  type DesiredState,
  type Held,
  type NamespaceSettings,
  type SchedulingPolicy,
  type ShareKind,
} from "../core/index.ts";
import { requestOf } from "./claim-answers.ts";
import type { Seen } from "./claims.ts";
import type { Row, Session } from "./connection.ts";
import { readRepeated } from "./log.ts";
import { tallyOf } from "./tally.ts";
import { byteas, int8s, textKey } from "./values.ts";
import { readMeta } from "./work-specs.ts";

/** How far to look ahead. Every waiting caller looks again within a minute, so later due times do not matter. */
const horizonMs = 61_000;

/** The highest priority among the available units of a spec `s`. */
const topPriority =
  "(SELECT -w.at FROM @waiting w WHERE w.spec = s.id AND w.status = 0 ORDER BY w.at, w.key LIMIT 1)";

/**
 * Reads everything that a choice needs. $3 is how far to look ahead: only the beginning of the indexes of leases and delays is
 * read. Priorities of units are read only for the policy that uses them.
 */
export const candidatesSql = `
  SELECT n.policy, n.desired, s.id, s.name, s.meta, s.next_continuous, c.available, c.pending,
    CASE WHEN c.available > 0 AND n.policy = 'python' THEN
      ${topPriority} END,
    (SELECT l.expiration FROM @lease l WHERE l.spec = s.id AND l.expiration <= $3::bigint ORDER BY l.expiration LIMIT 1),
    (SELECT w.at FROM @waiting w WHERE w.spec = s.id AND w.status = 1 AND w.at <= $3::bigint ORDER BY w.at LIMIT 1),
    (SELECT string_agg(g.at || ':' || r.answer, ';') FROM unnest($2::bytea[]) WITH ORDINALITY AS g (id, at)
     CROSS JOIN LATERAL ${requestOf("n.id", "g.id")} r WHERE $2::bytea[] IS NOT NULL),
    c.arrivals, s.next_run, s.last_run, s.full_at,
    CASE WHEN s.laned THEN EXISTS (SELECT 1 FROM @lane l WHERE l.spec = s.id AND l.state = 1)
      OR EXISTS (SELECT 1 FROM @note e WHERE e.spec = s.id) OR (s.build_lanes > 0 AND s.build_lanes <= $4::bigint) END,
    CASE WHEN s.laned THEN (SELECT l.until FROM @lane l WHERE l.spec = s.id AND l.state = 2 ORDER BY l.until LIMIT 1) END,
    s.breaker,
    EXISTS (SELECT 1 FROM @unit u WHERE u.timer IS NOT NULL AND u.timer <= $4::bigint), n.share
  FROM @namespace n LEFT JOIN @spec s ON s.namespace = n.id AND NOT s.dead
    LEFT JOIN LATERAL ${tallyOf("s.id")} c ON true
  WHERE n.name = $1 AND NOT n.dead`;

interface CandidatesRead {
  settings: NamespaceSettings;
  candidates: Candidate[];
  /** The attempts that earlier requests with the same id were given, by position in `requestIds`. */
  repeated: Map<number, AttemptKey[]>;
  /** How many units of each spec ever became available. */
  arrivals: Map<number, number>;
  /** The only spec with available units, if the next claims need no look of their own; otherwise null. */
  only: Seen | null;
}

/** With more specs than this, checking an earlier look costs a claim too much. */
const fewSpecs = 16;

/** Null when there is no such namespace. */
export async function readCandidates(
  session: Session,
  ns: string,
  requestIds: readonly (string | null)[],
  now: number,
): Promise<CandidatesRead | null> {
  const given = requestIds.some((id) => id !== null)
    ? byteas(requestIds.map((id) => (id === null ? null : textKey(id))))
    : null;
  const rows = await session.rows(candidatesSql, [nameToBytes(ns), given, now + horizonMs, now]);
  const [first] = rows;
  if (first === undefined) return null;
  const candidates: Candidate[] = [];
  const arrivals = new Map<number, number>();
  for (const row of rows) {
    if (row[2] === null) continue;
    arrivals.set(row[2] as number, row[12] as number);
    const [lease, delay] = [row[9] as number | null, row[10] as number | null];
    const meta = readMeta(
      row[4] as string,
      row[5] as number,
      row[18] as string | null,
      row[13] as number | null,
      row[14] as number | null,
    );
    // elapsed timers are handled for all specs at once, so only the first candidate reports them
    const rung = row[19] === true && candidates.length === 0 ? now : Infinity;
    const run = isRunDue(meta, now) ? now : runsDue(meta) || Infinity;
    const due = Math.min(lease ?? Infinity, delay ?? Infinity, run, rung);
    candidates.push({
      id: row[2] as number,
      name: nameFromBytes(row[3] as Buffer),
      meta,
      available: row[6] as number,
      pending: row[7] as number,
      topPriority: (row[8] as number | null) ?? 0,
      nextDue: due === Infinity ? 0 : due,
    });
    const candidate = candidates.at(-1);
    if (candidate !== undefined && hasFlowRules(candidate.meta))
      candidate.held = heldBack(row, candidate, now);
  }
  return {
    settings: {
      policy: first[0] as SchedulingPolicy,
      share: first[20] as ShareKind,
      desired: first[1] as DesiredState,
    },
    candidates,
    repeated: readRepeated(first[11] as string | null),
    arrivals,
    only: first[0] === "python" || rows.length > fewSpecs ? null : onlyOne(rows, candidates),
  };
}

/** Reads the top priorities of candidates with available units. The look leaves them out unless its policy uses them. */
export async function readTopPriorities(session: Session, candidates: readonly Candidate[]): Promise<void> {
  const ready = candidates.filter(({ available }) => available > 0);
  if (ready.length === 0) return;
  const rows = await session.rows(`SELECT s.id, ${topPriority} FROM unnest($1::bigint[]) AS s (id)`, [
    int8s(ready.map(({ id }) => id)),
  ]);
  const tops = new Map(rows as [number, number | null][]);
  for (const candidate of ready) candidate.topPriority = tops.get(candidate.id) ?? 0;
}

/**
 * Why the spec is held back, as far as this is known without a claim. Notes that are not folded yet count as an open lane,
 * although they may change nothing.
 */
function heldBack(row: Row, { meta, available }: Candidate, now: number): Held | null {
  const [full, open, until] = row.slice(15) as [number, boolean | null, number | null];
  if (tokensOf(meta.rate, full, now) < 1) return { reason: "rate", until: nextToken(meta.rate, full, now) };
  if (open !== false || available === 0 || (until ?? Infinity) <= now) return null;
  return { reason: "partitions", until: until ?? 0 };
}

function onlyOne(rows: readonly Row[], candidates: readonly Candidate[]): Seen | null {
  const ready = candidates.filter(({ available }) => available > 0);
  const [one] = ready;
  if (one === undefined || ready.length > 1 || one.meta.maxRunning > 0 || hasFlowRules(one.meta)) return null;
  if (candidates.some(({ meta }) => meta.continuous)) return null;
  const row = rows.find((each) => each[2] === one.id);
  if (row === undefined) return null;
  const digest = createHash("md5")
    .update(row[4] as string)
    .digest("hex");
  const newest = Math.max(...candidates.map(({ id }) => id));
  return {
    spec: one.id,
    arrivals: rows.reduce((sum, each) => sum + (each[12] as number), 0),
    specs: `${digest} ${candidates.length} ${newest}`,
  };
}
