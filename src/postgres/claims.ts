/**
 * Claiming. The plain course is one statement that is a transaction by itself; it does everything or, when it meets what is
 * not plain, nothing. Then the rules of core decide. A statement serves any number of callers of one work spec: what several
 * workers ask at the same moment costs one statement and one commit.
 */
import {
  attemptId,
  claimUnits as claimByRules,
  nameToBytes,
  openLane,
  type AttemptKey,
  type AttemptRow,
  type Claim,
  type Held,
  type Rule,
  type Notes,
} from "../core/index.ts";
import { readAttempts } from "./attempts.ts";
import { catchUp, isPast } from "./expiry.ts";
import { isRow, type Database, type Row, type Transaction } from "./connection.ts";
import { comparePlaces, start, type Floors, type Place } from "./floor.ts";
import { readKeys, readRepeated, registerWorkers } from "./log.ts";
import { noArrivals, tallyConflict, tallyInsert } from "./tally.ts";
import { readSpec, specColumns, type Spec } from "./units.ts";
import { byteas, bytesData, int8s, nameOf, textKey } from "./values.ts";
import { apply, PostgresSet, type Allocate } from "./working-set.ts";

/** What only some claims need: history for units that were tried, and unknown workers. */
const supersededAndKnown = `  ), superseded AS (
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
`;

/** What each caller was given, in the order of turns: sorted once, for the list of those that run, the log and the request. */
const dealtTo = (noted: boolean): string => `  ), dealt AS MATERIALIZED (
    SELECT caller, array_agg(id) AS units, array_agg(attempts) AS numbers, min(attempt_expiration) AS expiration,
      bool_or(needs) AS needy${noted ? ", string_agg(id || '.' || attempts, ',') AS answer" : ""}
    FROM (SELECT caller, id, attempts, attempt_expiration, needs FROM claimed ORDER BY caller, turn) AS c GROUP BY caller
  ), leased AS (
    INSERT INTO @lease (id, spec, expiration, needy, units)
    SELECT ($14::bigint[])[d.caller], $1, d.expiration, d.needy, d.units FROM dealt d
`;

const notedRequests = `  ), noted AS (
    INSERT INTO @request (namespace, spec, id, time, answer)
    SELECT spec.namespace, 0, ($15::bytea[])[d.caller], $3::bigint, d.answer
    FROM spec, dealt d WHERE ($15::bytea[])[d.caller] IS NOT NULL
`;

/** Whether what was seen of the namespace no longer holds: see `Seen`. */
const isStale = `CASE WHEN $12::bigint IS NULL THEN false ELSE
        $13::text <> (SELECT md5(s.meta) || ' ' || count(*) || ' ' || max(o.id) FROM @spec o
          WHERE o.namespace = s.namespace AND NOT o.dead)
        OR $12::bigint <> (SELECT coalesce(sum(c.arrivals), 0) FROM @spec o CROSS JOIN LATERAL
          (SELECT sum(t.arrivals) AS arrivals FROM @tally t WHERE t.spec = o.id) c
          WHERE o.namespace = s.namespace AND NOT o.dead)
        OR EXISTS (SELECT 1 FROM @spec o WHERE o.namespace = s.namespace AND NOT o.dead AND o.id <> s.id
          AND (o.continuous OR ${isPast("o", "$3::bigint")})) END`;

/**
 * What an earlier claim of this request id was answered. LIMIT leaves the planner no other way than to look for the id; it would
 * else go through all requests of the namespace, those of ten minutes.
 */
export const requestOf = (namespace: string, id: string): string =>
  `(SELECT q.answer FROM @request q WHERE q.namespace = ${namespace} AND q.spec = 0 AND q.id = ${id} LIMIT 1)`;

type ClaimKind = "plain" | "noted" | "whole";

/** What decides about the claim as a whole. Each row carries all of it as one number, since nine columns took longer to write and to read. */
const flags = [
  "spec.repeated IS NOT NULL",
  "spec.stale",
  "spec.paused",
  "spec.limited",
  "spec.past",
  "spec.flow",
  "fit.exhausted",
  "fit.tried",
  "spec.continuous",
] as const;

/**
 * The claim. `picked` is fenced (MATERIALIZED): without that PostgreSQL may run it again for every row of the join and
 * lock more rows than LIMIT says (BUG #15715). It locks the rows of both tables: a row of `waiting` that was replaced meanwhile is
 * passed over. The number of rows is checked once more where they are written. Who of the callers gets a unit follows from its turn
 * among the picked, and from where each caller's places begin; what is noted of them is in the order of turns, as nothing promises
 * that a join keeps it.
 *
 * $1 spec, $2 limit of all callers, $3 now, $4 max retries, $5 workers, $6 lengths of their leases, $7 where the places of each caller
 * begin, $8 whether the spec's row is locked, $9 namespace, $10 and $11 where to begin, $12 and $13 what was seen, $14 ids for their
 * lists of what runs; $15 request ids, $16 how long a new worker is active.
 */
const claimStatement = (kind: ClaimKind): string => `
  WITH spec AS MATERIALIZED (
    SELECT s.id, s.namespace, s.paused, (s.max_running > 0 OR s.continuous) AND NOT $8::boolean AS limited,
      s.continuous, s.flow, ${isPast("s", "$3::bigint")} AS past,
      ${
        kind === "plain"
          ? "NULL::text"
          : `(SELECT r.answer FROM unnest($15::bytea[]) AS g (id) CROSS JOIN LATERAL ${requestOf("s.namespace", "g.id")} r LIMIT 1)`
      } AS repeated,
      ${isStale} AS stale,
      CASE WHEN s.max_running = 0 THEN $2::bigint
        ELSE s.max_running - (SELECT coalesce(sum(t.pending), 0) FROM @tally t WHERE t.spec = s.id) END AS room,
      CASE WHEN s.max_running = 0 THEN 0 ELSE (SELECT max(t.freed) FROM @tally t WHERE t.spec = s.id) END AS freed
    FROM @spec s JOIN @namespace n ON n.id = s.namespace
    WHERE s.id = $1 AND NOT s.dead AND n.name = $9
  ), places AS MATERIALIZED (
    SELECT CASE WHEN paused OR limited OR flow OR past OR stale OR repeated IS NOT NULL THEN 0
      ELSE greatest(0, least($2::bigint, room)) END AS places
    FROM spec
  ), picked AS MATERIALIZED (
    SELECT w.ctid AS waiting, u.id, u.attempts, u.tries, u.max_tries, u.attempt_status,${
      kind === "whole"
        ? `
      u.attempt_late, u.attempt_start, u.attempt_end, u.attempt_expiration, u.attempt_worker, u.attempt_errors,
      u.attempt_own, u.attempt_data,`
        : ""
    }
      greatest($3::bigint, u.since, u.attempt_end, (SELECT freed FROM spec)) AS begins,
      greatest(coalesce(u.since, u.created), u.not_before, u.attempt_end) AS waits
    FROM @waiting w JOIN @unit u ON ${isRow("u.id", "w.unit")}
    WHERE w.spec = $1 AND w.status = 0 AND (w.at, w.key) >= ($10::float8, $11::bytea) AND u.status = 0
    ORDER BY w.at, w.key
    LIMIT coalesce((SELECT places FROM places), 0)
    FOR UPDATE SKIP LOCKED
  ), fit AS MATERIALIZED (
    SELECT count(*) AS picked, coalesce(bool_or(tries >= nullif(coalesce(max_tries, $4::bigint), 0)), false) AS exhausted,
      ${kind === "whole" ? "false" : "coalesce(bool_or(attempt_status IS NOT NULL), false)"} AS tried
    FROM picked
  ), state AS MATERIALIZED (
    SELECT ${flags.map((flag, i) => `(${flag})::int * ${1 << i}`).join(" + ")} AS flags FROM spec CROSS JOIN fit
  ), given AS MATERIALIZED (
    SELECT *, width_bucket(turn, $7::bigint[]) AS caller FROM (SELECT *, row_number() OVER () AS turn FROM picked) AS p
  ), claimed AS (
    UPDATE @unit u SET status = 3, attempts = p.attempts + 1, tries = p.tries + 1,
      attempt_status = 0, attempt_worker = ($5::bytea[])[p.caller], attempt_start = p.begins, attempt_end = 0,
      attempt_expiration = p.begins + ($6::bigint[])[p.caller],
      attempt_late = false, attempt_own = false, attempt_errors = NULL, attempt_data = NULL, attempt_progress = NULL,
      timer = NULL, lease = ($14::bigint[])[p.caller]
    FROM given p, fit WHERE ${isRow("u.id", "p.id")} AND NOT fit.exhausted AND NOT fit.tried AND fit.picked <= $2::bigint
    RETURNING u.id, u.key, u.long_name, u.attempts, u.place, u.data, u.attempt_start, u.attempt_expiration, u.needs,
      p.caller, p.turn, p.waiting,
      p.begins - p.waits AS waited${
        kind === "whole"
          ? `,
      p.attempt_status AS old_status, p.attempt_late AS old_late, p.attempt_start AS old_start, p.attempt_end AS old_end,
      p.attempt_expiration AS old_expiration, p.attempt_worker AS old_worker, p.attempt_errors AS old_errors,
      CASE WHEN p.attempt_own THEN p.attempt_data ELSE u.data END AS old_data`
          : ""
      }
  ), gone AS (
    DELETE FROM @waiting w USING claimed c WHERE w.ctid = c.waiting
${kind === "whole" ? supersededAndKnown : ""}${dealtTo(kind !== "plain")}${kind === "plain" ? "" : notedRequests}  ), logged AS (
    INSERT INTO @log (namespace, worker, units, numbers)
    SELECT spec.namespace, ($5::bytea[])[d.caller], d.units, d.numbers FROM spec, dealt d
  ), tallied AS (
    ${tallyInsert}
    SELECT $1, pg_backend_pid(), -count(*), 0, 0, count(*), 0, 0, 0, 0, ${noArrivals} FROM claimed HAVING count(*) > 0
    ${tallyConflict}
  )
  SELECT state.flags, c.id, c.key, c.long_name, c.attempts, c.data, c.place, c.caller, c.attempt_start, c.waited
  FROM state LEFT JOIN claimed c ON true`;

/**
 * The whole claim; one for units that were never tried and workers that are known, with request ids; and one without. Each table
 * that a statement writes costs it the opening of all the table's indexes, needed or not, and of a claim of one unit that was
 * the larger part.
 */
export const claimSql = claimStatement("whole");
export const notedClaimSql = claimStatement("noted");
export const plainClaimSql = claimStatement("plain");

const statements: Readonly<Record<ClaimKind, string>> = {
  plain: plainClaimSql,
  noted: notedClaimSql,
  whole: claimSql,
};

/**
 * What a look found that makes the next one unnecessary: only this one work spec has anything, so there is nothing to choose.
 * It holds as long as nothing became available in the namespace, nothing is past its time, no spec generates its own, this
 * one's metadata is the same, and so are the specs (else what one that was deleted had and what a new one has might add up to
 * the same number); the claim checks all that.
 */
export interface Seen {
  spec: number;
  /** How many units ever became available in the namespace. */
  arrivals: number;
  /** The spec's metadata as a digest, how many specs there are, and the newest of them. */
  specs: string;
}

/** What a daemon remembers of earlier claims; right or wrong, the statements check. */
export interface ClaimHints {
  floors: Floors;
  /** Specs with `max_running`, or continuous: their claims take a lock at once. */
  limited: Set<number>;
  /** Specs with rates or rules for partitions: the rules of core decide at once. */
  flow: Set<number>;
  /** Specs that had units which were tried before, and how many more claims to expect so. */
  tried: Map<number, number>;
  /** Workers that were there a moment ago. */
  workers: Map<string, number>;
}

/** So long a worker is taken to be known. */
const knownMs = 60_000;

export interface Claimed {
  attempts: AttemptRow[];
  more: boolean;
  /** What was seen does not hold any more; nothing was claimed. */
  stale?: boolean;
}

/** What claims are made with. */
export interface Claiming {
  db: Database;
  ns: string;
  hints: ClaimHints;
  allocate: Allocate;
  /** How long a worker is active that is made by its first claim. */
  workerLifetimeMs: number;
  fastPaths: boolean;
  /** The earlier look that the claims were chosen from; null after a look of their own. */
  seen: Seen | null;
  now: number;
}

/**
 * Claims of one work spec, by any number of callers: in one statement, or in a transaction that holds the spec's row where
 * `max_running` or `continuous` need it. They agree in `maxRetries`, and in whether they have request ids. Answers each
 * in its place; when there is not enough for all, those who stand first are served.
 */
export async function claimUnits(claiming: Claiming, claims: readonly Claim[]): Promise<Claimed[]> {
  try {
    return await tryClaim(claiming, claims);
  } catch (error) {
    // what it had locked is free again, and others may have passed it by
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
  const { floors, limited, flow, tried, workers } = hints;
  // by the spec's id: that of a namespace which was deleted and made again is another
  const who = claims.map(({ worker }) => `${id} ${worker}`);
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
  // each claim has a list for what it is given; an id that is not used is of no concern
  const leases = int8s(await allocate(claims.length, db));
  const requests = byteas(claims.map((one) => (one.requestId === null ? null : textKey(one.requestId))));
  const values = (kind: ClaimKind, locked: boolean, at: Place): unknown[] => [
    ...[id, places, now, maxRetries, ...common, locked, nameToBytes(ns), at.place, at.key],
    ...[seen?.arrivals ?? null, seen?.specs ?? null, leases],
    ...(kind === "plain" ? [] : [requests]),
    ...(kind === "whole" ? [workerLifetimeMs] : []),
  ];
  const byRule = (tx: Transaction): Promise<Claimed[]> => claimTogether(tx, ns, claims, allocate, now);
  const holding = async <Answer>(work: (tx: Transaction) => Promise<Answer>): Promise<Answer> =>
    db.transaction(async (tx) => {
      await tx.rows("SELECT 1 FROM @spec WHERE id = $1 FOR UPDATE", [id]);
      return work(tx);
    }, repeat);
  if (!claiming.fastPaths) {
    await catchUp(db, id, now, Infinity, { fast: false, allocate });
    return db.transaction(byRule, repeat);
  }
  if (flow.has(id) && seen === null) return db.transaction(byRule, repeat);
  for (let tries = 0; ; tries++) {
    const { at, raise } = floors.begin(id);
    const expected = tried.get(id) ?? 0;
    if (expected > 0) tried.set(id, expected - 1);
    const isKnown = who.every((one) => (workers.get(one) ?? -Infinity) > now - knownMs);
    const kind = expected > 0 || !isKnown ? "whole" : requestId === null ? "plain" : "noted";
    const sql = statements[kind];
    const answer = limited.has(id)
      ? await holding(async (tx) => {
          const rows = await tx.rows(sql, values(kind, true, at));
          const read = readClaim(rows, claims, places, tx.noted, now);
          // an exhausted unit, or none for a spec that may make its own: decided here, while the row is held
          return read === "exhausted" || read === "generate" ? { claimed: await byRule(tx) } : read;
        })
      : readClaim(await db.write(sql, values(kind, false, at), repeat), claims, places, db.happened, now);
    if (typeof answer === "object") {
      const { claimed, last } = answer;
      if (last !== undefined) raise(last);
      if (kind === "whole" && last !== undefined) {
        if (workers.size > 10_000) workers.clear();
        for (const one of who) workers.set(one, now);
      }
      const nothing = claimed.every(({ attempts, more }) => attempts.length === 0 && !more);
      // nothing from here on: but there may be something before it that another claim had locked and gave back
      if (nothing && at !== start && floors.mayRestart(id)) continue;
      return claimed;
    }
    if (answer === "repeated") return repeated(claiming, claims);
    if (answer === "stale") return claims.map(() => ({ ...nothing(), stale: true }));
    // others may lock what is past its time, and then it is not ours to wait for
    if (tries > 5) return claims.map(nothing);
    if (answer === "past") {
      await catchUp(db, id, now, 2000, { fast: true, allocate });
      floors.reset(id);
    } else if (answer === "limited") limited.add(id);
    else if (answer === "tried") tried.set(id, 50);
    else if (answer === "flow") flow.add(id);
    if (answer === "exhausted" || answer === "generate" || answer === "flow")
      return db.transaction(byRule, repeat);
  }
}

const nothing = (): Claimed => ({ attempts: [], more: false });

/** Somebody asks again: who asked before is given what they were given, the others go by themselves. */
async function repeated(claiming: Claiming, claims: readonly Claim[]): Promise<Claimed[]> {
  const { db, ns, now } = claiming;
  const answers: Claimed[] = [];
  for (const claim of claims) {
    const [row] = await db.rows(
      `SELECT r.answer FROM @namespace n JOIN @request r ON r.namespace = n.id AND r.spec = 0 AND r.id = $2
       WHERE n.name = $1 AND NOT n.dead`,
      [nameToBytes(ns), textKey(claim.requestId ?? "")],
    );
    if (row !== undefined)
      answers.push({
        attempts: await readAttempts(db, ns, readKeys(row[0] as string), now, true),
        more: false,
      });
    else answers.push(...(await tryClaim(claiming, [claim])));
  }
  return answers;
}

type ClaimAnswer =
  | { claimed: Claimed[]; /** How far the claim came. */ last?: Place }
  | "repeated"
  | "stale"
  | "past"
  | "limited"
  | "tried"
  | "exhausted"
  | "generate"
  | "flow";

function readClaim(
  rows: readonly Row[],
  claims: readonly Claim[],
  places: number,
  notes: Notes,
  now: number,
): ClaimAnswer {
  const claimed = claims.map(nothing);
  const [first] = rows;
  if (first === undefined) return { claimed };
  const [bits, id] = first as [number, number | null];
  const is = (flag: (typeof flags)[number]): boolean => (bits & (1 << flags.indexOf(flag))) !== 0;
  if (is("spec.repeated IS NOT NULL")) return "repeated";
  if (is("spec.stale")) return "stale";
  if (is("spec.paused")) return { claimed };
  if (is("spec.limited")) return "limited";
  if (is("spec.past")) return "past";
  if (is("spec.flow")) return "flow";
  if (is("fit.exhausted")) return "exhausted";
  if (is("fit.tried")) return "tried";
  if (id === null) return is("spec.continuous") ? "generate" : { claimed };
  if (rows.length > places) throw new Error(`claimed ${rows.length} units where ${places} were asked for`);
  // they come as they were picked, and nothing promises that: to look is cheaper than to let the server sort them
  const isSorted = rows.every((row, i) => i === 0 || comparePlaces(placeIn(rows[i - 1]!), placeIn(row)) <= 0);
  const placed = isSorted ? rows : [...rows].sort((a, b) => comparePlaces(placeIn(a), placeIn(b)));
  for (const row of placed) {
    const [, id, key, long, number, data, , turn, startTime, waited] = row as ClaimedRow;
    const caller = turn - 1;
    const claim = claims[caller];
    if (claim === undefined) throw new Error("unreachable");
    notes.note(claim.workSpec.id, "started", now, Math.max(0, waited), 1);
    claimed[caller]?.attempts.push({
      id: attemptId(id, number),
      workSpec: claim.workSpec.name,
      workUnit: nameOf(key, long),
      worker: claim.worker,
      number,
      status: "pending",
      active: true,
      startTime,
      endTime: 0,
      expirationTime: startTime + claim.lifetimeMs,
      data: bytesData(data),
      late: false,
      chainingErrors: [],
      progress: null,
    });
  }
  return { claimed, last: placeIn(placed.at(-1)!) };
}

/** Flags, id, key, long name, number, data, place, caller, start, and how long it waited. */
type ClaimedRow = [
  number,
  number,
  Buffer,
  Buffer | null,
  number,
  Buffer | null,
  number,
  number,
  number,
  number,
];

const placeIn = (row: Row): Place => ({ place: row[6] as number, key: row[2] as Buffer });

/** What those that ask again were given, by their place. Read when the spec's row is locked: what another daemon gave them is seen. */
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

/** Claims of one spec as the rules say it, one after the other, unit by unit. Locks the spec's row. */
async function claimTogether(
  tx: Transaction,
  ns: string,
  claims: readonly Claim[],
  allocate: Allocate,
  now: number,
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
  const before = await claimedBefore(tx, spec, claims);
  const set = new PostgresSet(tx, now, allocate, 0);
  set.holds(spec);
  const answers = await apply(set, claimAll(set, spec, claims, before));
  for (const [i, keys] of before)
    answers[i] = { attempts: await readAttempts(tx, ns, keys, now, true), more: false };
  // one that was given nothing is known all the same
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

/** Whether all lanes of a spec are held, with the notes that there are. */
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
