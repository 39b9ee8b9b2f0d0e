/**
 * Claims. The fast path is one statement that is a transaction by itself. It does the whole claim or, in a case that it does not
 * cover, nothing; then the rules of core decide. A statement serves any number of callers of one work spec: concurrent claims of
 * several workers cost one statement and one commit.
 */
import {
  claimUnits as claimByRules,
  nameToBytes,
  openLane,
  type AttemptKey,
  type AttemptRow,
  type Claim,
  type Held,
  type Rule,
  type HistorySink,
} from "../core/index.ts";
import { readAttempts } from "./attempts.ts";
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
import type { Caution } from "./caution.ts";
import { catchUp, hasOverdue } from "./expiry.ts";
import { failUnless, isRow, isNotPlain, type Database, type Row, type Transaction } from "./connection.ts";
import { start, type Floors, type Place } from "./floor.ts";
import { claimFromLanes, mayBePlain } from "./lane-claims.ts";
import { readKeys, readRepeated, registerWorkers } from "./log.ts";
import { freedSql } from "./tally.ts";
import { readSpec, specColumns, type Spec } from "./units.ts";
import { byteas, int8s, keyPrefix, textKey } from "./values.ts";
import { apply, PostgresSet, type Allocate } from "./working-set.ts";

/** The parts that only some claims need: history for units that were tried before, and rows for new workers. */
const supersededAndKnown = `superseded AS (
    INSERT INTO @history (unit, number, status, late, start, "end", expiration, worker, errors, data)
    SELECT id, attempts - 1, old_status, old_late, old_start, old_end, old_expiration, old_worker, old_errors, old_data
    FROM claimed WHERE old_status IS NOT NULL
  ), known AS (
    INSERT INTO @worker (namespace, name, updated, expiration)
    SELECT DISTINCT spec.namespace, g.worker, $3::bigint, $3::bigint + $16::bigint FROM spec, unnest($5::bytea[]) AS g (worker)
    WHERE NOT (limited OR flow OR past OR stale) AND repeated IS NULL
      AND (SELECT true FROM @worker w WHERE w.namespace = spec.namespace AND w.name = g.worker) IS NULL
    ORDER BY 2
    ON CONFLICT DO NOTHING
  ), `;

/** Whether the earlier look at the namespace is outdated: see `Seen`. */
const isStale = `CASE WHEN $12::bigint IS NULL THEN false ELSE
        $13::text <> (SELECT md5(s.meta) || ' ' || count(*) || ' ' || max(o.id) FROM @spec o
          WHERE o.namespace = s.namespace AND NOT o.dead)
        OR $12::bigint <> (SELECT coalesce(sum(c.arrivals), 0) FROM @spec o CROSS JOIN LATERAL
          (SELECT sum(t.arrivals) AS arrivals FROM @tally t WHERE t.spec = o.id) c
          WHERE o.namespace = s.namespace AND NOT o.dead)
        OR EXISTS (SELECT 1 FROM @spec o WHERE o.namespace = s.namespace AND NOT o.dead AND o.id <> s.id
          AND (o.continuous OR ${hasOverdue("o", "$3::bigint")})) END`;

type ClaimKind = "plain" | "noted" | "whole";

/** The conditions that decide about the whole claim. Each row has them as one bit mask: nine columns took longer to write and to read. */
const flags = [
  "spec.repeated IS NOT NULL",
  "spec.stale",
  "spec.paused",
  "spec.limited",
  "spec.past",
  "spec.flow",
  "spec.continuous",
  "fit.exhausted",
  "fit.tried",
] as const;

/**
 * The units to claim. Locks the rows of both tables: a row of `waiting` that was deleted or replaced meanwhile is skipped at
 * once. With only the units locked, a claim that followed another one read the newest version of each unit that the other had
 * claimed, at 0.2 ms a unit.
 */
const candidates = `
      FROM @waiting w JOIN @unit u ON ${isRow("u.id", "w.unit")}
      WHERE w.spec = $1 AND w.status = 0 AND (w.at, w.key) >= ($10::float8, $11::bytea) AND u.status = 0
      ORDER BY w.at, w.key
      LIMIT coalesce((SELECT places FROM places), 0)
      FOR UPDATE SKIP LOCKED`;

/** Only with `max_running`: when the last attempt ended. */
const freed = "(SELECT freed FROM spec)";

/** Assigns each unit to a caller, by its turn among the picked units. */
const givenFrom = (source: string): string => `  ), given AS MATERIALIZED (
    SELECT *, ${callerOf} FROM (SELECT *, row_number() OVER () AS turn FROM ${source} AS p) AS p`;

/**
 * `picked` is fenced (MATERIALIZED): without that PostgreSQL may run it again for every row of the join and
 * lock more rows than LIMIT says (BUG #15715). The number of rows is checked once more where they are written.
 */
const careful = {
  given: `picked AS MATERIALIZED (
      SELECT w.ctid AS waiting, u.id, u.attempts, u.tries, u.attempt_status, ${isExhausted} AS exhausted,
        u.attempt_late, u.attempt_start, u.attempt_end, u.attempt_expiration, u.attempt_worker, u.attempt_errors,
        u.attempt_own, u.attempt_data, ${beginsAndWaits(freed)}${candidates}
  ), fit AS MATERIALIZED (
    SELECT count(*) AS picked, coalesce(bool_or(exhausted), false) AS exhausted,
      coalesce(bool_or(attempt_status IS NOT NULL), false) AS tried
    FROM picked
${givenFrom("picked")}`,
  from: `FROM given p, fit WHERE ${isRow("u.id", "p.id")} AND NOT fit.exhausted AND fit.picked <= $2::bigint`,
  columns: `,
      p.attempt_status AS old_status, p.attempt_late AS old_late, p.attempt_start AS old_start, p.attempt_end AS old_end,
      p.attempt_expiration AS old_expiration, p.attempt_worker AS old_worker, p.attempt_errors AS old_errors,
      CASE WHEN p.attempt_own THEN p.attempt_data ELSE u.data END AS old_data`,
  gone: "",
  sure: "",
};

/**
 * The optimistic variant: updates units by ctid, without checking them first. The statement fails if a unit was tried before, has no
 * try left, or was changed concurrently, so that its row or its row of `waiting` has another ctid.
 *
 * It locks the rows of `waiting` before it looks at their units, so that it passes those of other claims without reading their
 * units: six claims of a thousand units at once took twice the time of the server that single ones take. If a unit turns out to be
 * locked by another kind of change, the statement fails, too: the careful variant finds the units behind it.
 */
const quick = {
  given: `held AS MATERIALIZED (
    SELECT w.ctid AS waiting, w.unit, w.at, w.key FROM @waiting w
    WHERE w.spec = $1 AND w.status = 0 AND (w.at, w.key) >= ($10::float8, $11::bytea)
    ORDER BY w.at, w.key
    LIMIT coalesce((SELECT places FROM places), 0)
    FOR UPDATE SKIP LOCKED
  ), ${givenFrom(`(
      SELECT h.waiting, u.ctid AS row, u.attempts, u.tries, ${beginsAndWaits(freed)},
        u.attempt_status IS NOT NULL OR coalesce(${isExhausted}, false) AS odd
      FROM held h JOIN @unit u ON ${isRow("u.id", "h.unit")}
      WHERE u.status = 0
      ORDER BY h.at, h.key
      FOR UPDATE OF u SKIP LOCKED
    )`).replace("  ), ", "")}
  ), fit AS MATERIALIZED (
    SELECT count(*) AS picked, coalesce(bool_or(odd), false) AS odd FROM given`,
  from: "FROM given p WHERE u.ctid = p.row",
  columns: "",
  gone: " RETURNING 1",
  sure: `, (SELECT ${failUnless("picked = (SELECT count(*) FROM gone) AND picked = (SELECT count(*) FROM held) AND picked <= $2::bigint AND NOT odd", "picked")} FROM fit)`,
};

/**
 * The claim. Lists of units are sorted by turn, since a join does not guarantee an order.
 *
 * $1 spec, $2 limit of all callers, $3 now, $4 max retries, $5 workers, $6 lengths of their leases, $7 the first turn of each
 * caller, $8 whether the spec's row is locked, $9 namespace, $10 and $11 the place and key to begin at, $12 and $13 what an
 * earlier look saw, $14 ids for the lease rows of the callers, $15 request ids, $16 how long a new worker is active.
 */
const claimStatement = (kind: ClaimKind, { given, from, columns, gone, sure } = quick): string => `
  WITH spec AS MATERIALIZED (
    SELECT s.id, s.namespace, s.paused, (s.max_running > 0 OR s.continuous) AND NOT $8::boolean AS limited,
      s.continuous, s.flow, ${hasOverdue("s", "$3::bigint")} AS past,
      ${
        kind === "plain"
          ? "NULL::text"
          : `(SELECT r.answer FROM unnest($15::bytea[]) AS g (id) CROSS JOIN LATERAL ${requestOf("s.namespace", "g.id")} r LIMIT 1)`
      } AS repeated,
      ${isStale} AS stale,
      CASE WHEN s.max_running = 0 THEN $2::bigint
        ELSE s.max_running - (SELECT coalesce(sum(t.pending), 0) FROM @tally t WHERE t.spec = s.id) END AS room,
      CASE WHEN s.max_running = 0 THEN 0 ELSE ${freedSql("s.id", "$3::bigint")} END AS freed
    FROM @spec s JOIN @namespace n ON n.id = s.namespace
    WHERE s.id = $1 AND NOT s.dead AND n.name = $9
  ), places AS MATERIALIZED (
    SELECT CASE WHEN paused OR limited OR flow OR past OR stale OR repeated IS NOT NULL THEN 0
      ELSE greatest(0, least($2::bigint, room)) END AS places
    FROM spec
  ), ${given}
  ), state AS MATERIALIZED (
    SELECT ${flags
      .slice(0, kind === "whole" ? undefined : flags.indexOf("fit.exhausted"))
      .map((flag, i) => `(${flag})::int * ${1 << i}`)
      .join(" + ")} AS flags FROM spec CROSS JOIN fit
  ), ${claimUnit("p.caller", from, columns)}, gone AS (
    DELETE FROM @waiting w USING claimed c WHERE w.ctid = c.waiting${gone}
  ), ${kind === "whole" ? supersededAndKnown : ""}${dealt}, leased AS (
    INSERT INTO @lease (id, spec, expiration, needy, units)
    SELECT ($14::bigint[])[d.caller], $1, d.expiration, d.needy, d.units FROM dealt d
  ), ${recorded(kind !== "plain")}${dealtAnswer(sure)}`;

/**
 * The complete claim; one for units that were never tried and workers that exist, with request ids; and the same without request
 * ids. A statement opens all indexes of every table that it may write, needed or not, and that was the larger part of the cost of
 * a claim of one unit.
 */
export const claimSql = claimStatement("whole", careful);
export const notedClaimSql = claimStatement("noted");
export const plainClaimSql = claimStatement("plain");

const statements: Readonly<Record<ClaimKind, string>> = {
  plain: plainClaimSql,
  noted: notedClaimSql,
  whole: claimSql,
};

/**
 * The result of a look that makes the next one unnecessary: only one work spec has available units, so there is nothing to
 * choose. It is valid as long as no unit became available in the namespace, nothing is overdue, no spec generates its own units,
 * the metadata of this spec is the same, and so are the specs (otherwise the counts of a deleted spec and of a new one might add
 * up to the same number). The claim checks all that.
 */
export interface Seen {
  spec: number;
  /** How many units ever became available in the namespace. */
  arrivals: number;
  /** The spec's metadata as a digest, how many specs there are, and the newest of them. */
  specs: string;
}

/** What a daemon remembers of earlier claims. These are hints: the statements check them. */
export interface ClaimHints {
  floors: Floors;
  /** Specs with `max_running`, or continuous: their claims take a lock at once. */
  limited: Set<number>;
  /** Specs with flow rules, such as rates or rules for partitions: their claims go straight to the rules of core. */
  flow: Set<number>;
  /** Specs with units that were tried before: their claims use the complete statement. */
  tried: Caution<number>;
  /** Specs whose claims by partition were not plain: they go to the rules of core. */
  lanes: Caution<number>;
  /** When each worker was last known to exist. */
  workers: Map<string, number>;
}

/** How long a worker is assumed to exist. */
const knownMs = 60_000;

export interface Claimed {
  attempts: AttemptRow[];
  more: boolean;
  /** By the rules of core: other units may have become available. */
  freed?: boolean;
  /** The earlier look is outdated; nothing was claimed. */
  stale?: boolean;
}

/** The context of a claim. */
export interface Claiming {
  db: Database;
  ns: string;
  hints: ClaimHints;
  allocate: Allocate;
  /** How long a worker that its first claim creates is active. */
  workerLifetimeMs: number;
  fastPaths: boolean;
  /** Whether the claim runs in the caller's own transaction. */
  borrowed: boolean;
  /** The earlier look that the claims are based on; null after a fresh look. */
  seen: Seen | null;
  now: number;
}

/**
 * Claims units of one work spec for any number of callers: in one statement, or in a transaction that locks the spec's row if
 * `max_running` or `continuous` require it. All claims have the same `maxRetries`, and all or none of them have request ids.
 * Answers are in the order of the claims; if there are not enough units for all, the first claims are served.
 */
export async function claimUnits(claiming: Claiming, claims: readonly Claim[]): Promise<Claimed[]> {
  try {
    return await tryClaim(claiming, claims);
  } catch (error) {
    // the units that it had locked are free again, and other claims may have skipped them
    for (const { workSpec } of claims) claiming.hints.floors.reset(workSpec.id);
    throw error;
  }
}

async function tryClaim(claiming: Claiming, claims: readonly Claim[]): Promise<Claimed[]> {
  const { db, ns, hints, allocate, workerLifetimeMs, seen, now } = claiming;
  const [first] = claims;
  if (first === undefined) return [];
  const { workSpec, maxRetries, requestId } = first;
  const { id } = workSpec;
  const { floors, limited, flow, tried } = hints;
  const repeat = { repeatable: requestId !== null };
  const starts: number[] = [];
  let places = 0;
  for (const { limit } of claims) {
    starts.push(places + 1);
    places += limit;
  }
  const common = [
    byteas(claims.map(({ worker }) => nameToBytes(worker))),
    int8s(claims.map(({ lifetimeMs }) => lifetimeMs)),
    int8s(starts),
  ];
  // an id for the lease row of each claim; ids that are not used do no harm
  const leases = int8s(await allocate(claims.length, db));
  const requests = byteas(claims.map((one) => (one.requestId === null ? null : textKey(one.requestId))));
  const values = (kind: ClaimKind, locked: boolean, at: Place): unknown[] => [
    ...[id, places, now, maxRetries, ...common, locked, nameToBytes(ns), at.place, at.key],
    ...[seen?.arrivals ?? null, seen?.specs ?? null, leases],
    ...(kind === "plain" ? [] : [requests]),
    ...(kind === "whole" ? [workerLifetimeMs] : []),
  ];
  const byRule = (tx: Transaction): Promise<Claimed[]> => claimTogether(tx, claiming, claims);
  const locked = async (): Promise<Claimed[]> => {
    const claimed = await db.transaction(byRule, repeat);
    remember(hints, claims, now);
    return claimed;
  };
  const holding = async <Answer>(work: (tx: Transaction) => Promise<Answer>): Promise<Answer> =>
    db.transaction(async (tx) => {
      await tx.rows("SELECT 1 FROM @spec WHERE id = $1 FOR UPDATE", [id]);
      return work(tx);
    }, repeat);
  if (!claiming.fastPaths) {
    await catchUp(db, id, now, Infinity, { fast: false, allocate });
    return locked();
  }
  if (flow.has(id) && seen === null) return locked();
  const send = async (kind: ClaimKind, at: Place): Promise<ClaimAnswer> => {
    const sql = statements[kind];
    if (!limited.has(id))
      return readClaim(
        await db.write(sql, values(kind, false, at), repeat),
        claims,
        places,
        db.historyCounts,
        now,
      );
    return holding(async (tx) => {
      const rows = await tx.rows(sql, values(kind, true, at));
      const read = readClaim(rows, claims, places, tx.history, now);
      // an exhausted unit, or no unit in a spec that may generate one: decided here, while the spec's row is locked
      return read === "exhausted" || read === "generate" ? { claimed: await byRule(tx) } : read;
    });
  };
  for (let tries = 0; ; tries++) {
    const { at, raise } = floors.begin(id);
    const isKnown = areKnown(hints, claims, now);
    // optimistic statements may fail, and would abort the caller's own transaction
    const isWhole = tried.isNeeded(id) || !isKnown || claiming.borrowed;
    let kind: ClaimKind = isWhole ? "whole" : requestId === null ? "plain" : "noted";
    const answer = await send(kind, at).catch((error: unknown) => {
      if (kind === "whole" || !isNotPlain(error)) throw error;
      tried.failed(id);
      return send((kind = "whole"), at);
    });
    if (typeof answer === "object") {
      const { claimed, last } = answer;
      if (last !== undefined) raise(last);
      if (kind === "whole" && last !== undefined) {
        tried.used(id, answer.tried === true);
        remember(hints, claims, now);
      }
      const nothing = claimed.every(({ attempts, more }) => attempts.length === 0 && !more);
      // no unit from this place on: but there may be units before it that another claim had locked and released
      if (nothing && at !== start && floors.mayRestart(id)) continue;
      return claimed;
    }
    if (answer === "repeated") return repeated(claiming, claims);
    if (answer === "stale") return claims.map(() => ({ ...nothing(), stale: true }));
    if (tries > 5) return claims.map(nothing);
    if (answer === "past") {
      const { expired, due, generated } = await catchUp(db, id, now, 2000, { fast: true, allocate });
      floors.reset(id);
      // another transaction holds the overdue units: it must not keep the other units back
      if (tries === 5 && expired + due + generated === 0) return locked();
    } else if (answer === "limited") limited.add(id);
    else if (answer === "flow") flow.add(id);
    if (answer === "exhausted" || answer === "generate" || answer === "flow") return locked();
  }
}

/** By the spec's id: a namespace that is deleted and created again has other specs. */
const workerKey = ({ workSpec, worker }: Claim): string => `${workSpec.id} ${worker}`;

const areKnown = ({ workers }: ClaimHints, claims: readonly Claim[], now: number): boolean =>
  claims.every((claim) => (workers.get(workerKey(claim)) ?? -Infinity) > now - knownMs);

function remember({ workers }: ClaimHints, claims: readonly Claim[], now: number): void {
  if (workers.size > 10_000) workers.clear();
  for (const claim of claims) workers.set(workerKey(claim), now);
}

const nothing = (): Claimed => ({ attempts: [], more: false });

/** A repeated request id gets the attempts of the first call. Other requests claim as usual. */
async function repeated(claiming: Claiming, claims: readonly Claim[]): Promise<Claimed[]> {
  const { db, ns, now } = claiming;
  const answers: Claimed[] = [];
  for (const claim of claims) {
    const attempts = await readAnswer(db, ns, claim.requestId ?? "", now);
    if (attempts !== null) answers.push({ attempts, more: false });
    else answers.push(...(await tryClaim(claiming, [claim])));
  }
  return answers;
}

/** The attempts that an earlier request with this id was given; null if there was none. */
export async function readAnswer(
  db: Database,
  ns: string,
  requestId: string,
  now: number,
): Promise<AttemptRow[] | null> {
  const [row] = await db.rows(
    `SELECT r.answer FROM @namespace n JOIN @request r ON r.namespace = n.id AND r.spec = 0 AND r.id = $2
     WHERE n.name = $1 AND NOT n.dead`,
    [nameToBytes(ns), textKey(requestId)],
  );
  return row === undefined ? null : readAttempts(db, ns, readKeys(row[0] as string), now);
}

type ClaimAnswer =
  | {
      claimed: Claimed[];
      /** How far the claim came. */ last?: Place;
      /** Some were tried before. */ tried?: boolean;
    }
  | "repeated"
  | "stale"
  | "past"
  | "limited"
  | "exhausted"
  | "generate"
  | "flow";

function readClaim(
  rows: readonly Row[],
  claims: readonly Claim[],
  places: number,
  notes: HistorySink,
  now: number,
): ClaimAnswer {
  const claimed = claims.map(nothing);
  const bits = flagsOf(rows);
  if (bits === undefined) return { claimed };
  const is = (flag: (typeof flags)[number]): boolean => (bits & (1 << flags.indexOf(flag))) !== 0;
  if (is("spec.repeated IS NOT NULL")) return "repeated";
  if (is("spec.stale")) return "stale";
  if (is("spec.paused")) return { claimed };
  if (is("spec.limited")) return "limited";
  if (is("spec.past")) return "past";
  if (is("spec.flow")) return "flow";
  if (is("fit.exhausted")) return "exhausted";
  const answers = readDealt(rows, claims, places, notes, now);
  if (answers.length === 0) return is("spec.continuous") ? "generate" : { claimed };
  for (const { caller, attempts } of answers) claimed[caller]!.attempts = attempts;
  const last = answers.reduce((a, b) => (b.caller > a.caller ? b : a));
  // for a long name: a place at or before its own
  const key = keyPrefix(nameToBytes(last.attempts.at(-1)!.workUnit));
  return { claimed, last: { place: last.place, key }, tried: is("fit.tried") };
}

/**
 * The attempts that repeated requests were given, by position. Read under the lock of the spec's row, so that the claims of other
 * daemons are visible.
 */
async function claimedBefore(
  tx: Transaction,
  { namespaceId }: Spec,
  claims: readonly Claim[],
): Promise<Map<number, AttemptKey[]>> {
  if (claims.every(({ requestId }) => requestId === null)) return new Map();
  const [row] = await tx.rows(
    `SELECT string_agg(g.at || ':' || r.answer, ';') FROM unnest($2::bytea[]) WITH ORDINALITY AS g (id, at)
       CROSS JOIN LATERAL ${requestOf("$1", "g.id")} r`,
    [namespaceId, byteas(claims.map(({ requestId }) => (requestId === null ? null : textKey(requestId))))],
  );
  return readRepeated((row?.[0] ?? null) as string | null);
}

/**
 * Claims of one spec that the fast path does not cover. Locks the spec's row. Plain claims by partition are one statement;
 * others are made by the rules of core, one after the other, unit by unit.
 */
async function claimTogether(
  tx: Transaction,
  { ns, hints, allocate, fastPaths, now }: Claiming,
  claims: readonly Claim[],
): Promise<Claimed[]> {
  const [first] = claims;
  if (first === undefined) return [];
  const [row] = await tx.rows(
    `SELECT ${specColumns} FROM @spec s JOIN @namespace n ON n.id = s.namespace
     WHERE s.id = $1 AND NOT s.dead AND n.name = $2 FOR UPDATE OF s`,
    [first.workSpec.id, nameToBytes(ns)],
  );
  if (row === undefined) return claims.map(nothing);
  const spec = readSpec(first.workSpec.id, row);
  if (fastPaths && mayBePlain(spec.meta)) {
    if (hints.lanes.isNeeded(spec.id)) hints.lanes.used(spec.id, false);
    else {
      const answers = await claimFromLanes(tx, spec, claims, allocate, now);
      if (answers === null) hints.lanes.failed(spec.id);
      else {
        if (!areKnown(hints, claims, now)) {
          await registerWorkers(
            tx,
            spec.namespaceId,
            claims.map(({ worker }) => worker),
            now,
          );
        }
        return answers.map((attempts) => ({ attempts, more: false }));
      }
    }
  }
  const before = await claimedBefore(tx, spec, claims);
  const set = new PostgresSet(tx, now, allocate, 0);
  set.holds(spec);
  const answers = await apply(set, claimAll(set, spec, claims, before));
  for (const [i, keys] of before)
    answers[i] = { attempts: await readAttempts(tx, ns, keys, now), more: false };
  // workers that were given nothing are registered, too
  const idle = claims.filter((_, i) => !before.has(i) && answers[i]?.attempts.length === 0);
  if (idle.length > 0)
    await registerWorkers(tx, spec.namespaceId, [...new Set(idle.map(({ worker }) => worker))], now);
  for (const [i, { requestId }] of claims.entries())
    if (requestId !== null && !before.has(i) && (answers[i]?.attempts.length ?? 0) > 0)
      await tx.rows("INSERT INTO @request (namespace, spec, id, time, answer) VALUES ($1, 0, $2, $3, $4)", [
        spec.namespaceId,
        textKey(requestId),
        now,
        answers[i]?.attempts.map(({ id }) => id).join(","),
      ]);
  return answers;
}

function* claimAll(
  set: PostgresSet,
  spec: Spec,
  claims: readonly Claim[],
  before: ReadonlyMap<number, unknown>,
): Rule<Claimed[]> {
  const answers: Claimed[] = [];
  for (const [i, claim] of claims.entries())
    answers.push(before.has(i) ? nothing() : yield* claimByRules(set, spec, claim));
  return answers;
}

/** Whether all lanes of a spec are held, after folding its notes. Null if one is open. */
export async function heldLanes(tx: Transaction, id: number, now: number): Promise<Held | null> {
  const [row] = await tx.rows(
    `SELECT ${specColumns} FROM @spec s JOIN @namespace n ON n.id = s.namespace WHERE s.id = $1 AND NOT s.dead FOR UPDATE OF s`,
    [id],
  );
  if (row === undefined) return null;
  const set = new PostgresSet(tx, now, () => Promise.resolve([]));
  const open = await apply(set, openLane(set, readSpec(id, row), 1));
  if (open !== undefined) return null;
  const [until] = await tx.rows(
    "SELECT until FROM @lane WHERE spec = $1 AND state = 2 ORDER BY until LIMIT 1",
    [id],
  );
  return { reason: "partitions", until: (until?.[0] as number | undefined) ?? 0 };
}
