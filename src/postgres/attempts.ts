/**
 * Claiming and settling. The plain course of both is one statement that is a transaction by itself; it does everything
 * or, when it meets what is not plain, nothing. Then the units are taken into a `Batch` and the rules of core decide.
 */
import {
  actionStatus,
  attemptId,
  encodeData,
  continuousName,
  judge,
  mayGenerate,
  nameFromBytes,
  nameToBytes,
  readOutputs,
  tooManyRetries,
  type AttemptChanged,
  type AttemptKey,
  type AttemptRow,
  type Claim,
  type Data,
  type Outputs,
  type Settle,
} from "../core/index.ts";
import { catchUp, catchUpUnit, expire, isPast } from "./expiry.ts";
import type { Database, Session } from "./connection.ts";
import { park, resolve } from "./dependents.ts";
import { comparePlaces, start, type Floors, type Place } from "./floor.ts";
import {
  attemptRow,
  Batch,
  place,
  readErrors,
  readSpec,
  readUnit,
  unitColumnCount,
  unitColumns,
  type Attempt,
  type Spec,
  type Unit,
} from "./state.ts";
import { noArrivals, tallyConflict, tallyEpoch, tallyInsert, tallyOf } from "./tally.ts";
import { attemptStatuses } from "../core/index.ts";
import { bools, byteas, bytesData, dataBytes, int2s, int4s, int8s, nameOf, textKey } from "./values.ts";
import { findSpecs, readMeta } from "./work-specs.ts";
import { prepareUnits, putLoadedUnits, putUnits } from "./work-units.ts";

export type Allocate = (count: number) => Promise<number[]>;

// ---- claiming

/** What only some claims need: history for units that were tried, an unknown worker, a request id. */
const wholeClaim = `  ), superseded AS (
    INSERT INTO @history (unit, number, status, late, start, "end", expiration, worker, errors, data)
    SELECT id, attempts - 1, old_status, old_late, old_start, old_end, old_expiration, old_worker, old_errors, old_data
    FROM claimed WHERE old_status IS NOT NULL
  ), known AS (
    INSERT INTO @worker (namespace, name, updated, expiration)
    SELECT namespace, $5, $3::bigint, $3::bigint + $12::bigint FROM spec
    WHERE NOT (limited OR past) AND repeated IS NULL
      AND NOT EXISTS (SELECT 1 FROM @worker w WHERE w.namespace = spec.namespace AND w.name = $5)
    ON CONFLICT DO NOTHING
  ), noted AS (
    INSERT INTO @request (namespace, spec, id, time, answer)
    SELECT spec.namespace, 0, $7::bytea, $3::bigint,
      string_agg(c.id || '.' || c.attempts, ',')
    FROM claimed c, spec WHERE $7::bytea IS NOT NULL GROUP BY spec.namespace
`;

/**
 * The claim. `picked` is fenced (MATERIALIZED): without that PostgreSQL may run it again for every row of the join and
 * lock more rows than LIMIT says (BUG #15715). The number of rows is checked once more where they are written.
 *
 * $1 spec, $2 limit, $3 now, $4 expiration, $5 worker, $6 max retries, $7 request id, $8 whether the spec's row is locked,
 * $9 namespace, $10 and $11 where to begin, $12 how long a new worker is active.
 */
const claimStatement = (whole: boolean): string => `
  WITH spec AS MATERIALIZED (
    SELECT s.id, s.namespace, s.paused, (s.max_running > 0 OR s.continuous) AND NOT $8::boolean AS limited,
      s.continuous, ${isPast("s.id", "$3::bigint")} AS past,
      (SELECT r.answer FROM @request r WHERE r.namespace = s.namespace AND r.spec = 0 AND r.id = $7::bytea) AS repeated,
      CASE WHEN s.max_running = 0 THEN $2::bigint
        ELSE s.max_running - (SELECT coalesce(sum(t.pending), 0) FROM @tally t WHERE t.spec = s.id) END AS room
    FROM @spec s JOIN @namespace n ON n.id = s.namespace
    WHERE s.id = $1 AND NOT s.dead AND n.name = $9
  ), places AS MATERIALIZED (
    SELECT CASE WHEN paused OR limited OR past OR repeated IS NOT NULL THEN 0
      ELSE greatest(0, least($2::bigint, room)) END AS places
    FROM spec
  ), picked AS MATERIALIZED (
    SELECT u.id, u.attempts, u.tries, u.attempt_status, u.attempt_late, u.attempt_start, u.attempt_end,
      u.attempt_expiration, u.attempt_worker, u.attempt_errors, u.attempt_own, u.attempt_data
    FROM @unit u WHERE u.spec = $1 AND u.status = 0
      AND (u.place, u.key) >= ($10::float8, $11::bytea)
    ORDER BY u.place, u.key
    LIMIT coalesce((SELECT places FROM places), 0)
    FOR UPDATE SKIP LOCKED
  ), fit AS MATERIALIZED (
    SELECT count(*) AS picked, coalesce(bool_or(tries >= $6::bigint) AND $6::bigint > 0, false) AS exhausted,
      ${whole ? "false" : "coalesce(bool_or(attempt_status IS NOT NULL), false)"} AS tried
    FROM picked
  ), claimed AS (
    UPDATE @unit u SET status = 3, attempts = p.attempts + 1, tries = p.tries + 1,
      attempt_status = 0, attempt_worker = $5, attempt_start = $3::bigint, attempt_end = 0, attempt_expiration = $4::bigint,
      attempt_late = false, attempt_own = false, attempt_errors = NULL, attempt_data = NULL
    FROM picked p, fit WHERE u.id = p.id AND u.status = 0 AND NOT fit.exhausted AND NOT fit.tried AND fit.picked <= $2::bigint
    RETURNING u.id, u.key, u.long_name, u.attempts, u.place, u.data,
      p.attempt_status AS old_status, p.attempt_late AS old_late, p.attempt_start AS old_start, p.attempt_end AS old_end,
      p.attempt_expiration AS old_expiration, p.attempt_worker AS old_worker, p.attempt_errors AS old_errors,
      CASE WHEN p.attempt_own THEN p.attempt_data ELSE u.data END AS old_data
${whole ? wholeClaim : ""}  ), logged AS (
    INSERT INTO @log (namespace, worker, units, numbers)
    SELECT spec.namespace, $5, array_agg(c.id), array_agg(c.attempts)
    FROM claimed c, spec GROUP BY spec.namespace
  ), tallied AS (
    ${tallyInsert}
    SELECT $1, pg_backend_pid(), -count(*), 0, 0, count(*), 0, 0, 0, 0, ${noArrivals} FROM claimed HAVING count(*) > 0
    ${tallyConflict}
  )
  SELECT spec.paused, spec.limited, spec.past, fit.exhausted, spec.continuous, spec.repeated,
    c.id, c.key, c.long_name, c.attempts, c.data, c.place, fit.tried
  FROM spec CROSS JOIN fit LEFT JOIN claimed c ON true`;

/**
 * The whole claim, and one for the plain case: each table that a statement writes costs it the opening of all the table's
 * indexes, needed or not, and of a claim of one unit that was the larger part.
 */
export const claimSql = claimStatement(true);
export const plainClaimSql = claimStatement(false);

/** What a daemon remembers of earlier claims; right or wrong, the statements check. */
export interface ClaimHints {
  floors: Floors;
  /** Specs with `max_running`, or continuous: their claims take a lock at once. */
  limited: Set<number>;
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
  /** How far the claim came. */
  last?: Place;
}

/** Claims in one statement, or in a transaction that holds the spec's row where `max_running` or `continuous` need it. */
export async function claimUnits(
  db: Database,
  ns: string,
  claim: Claim,
  hints: ClaimHints,
  allocate: Allocate,
  workerLifetimeMs: number,
  now: number,
): Promise<Claimed> {
  try {
    return await tryClaim(db, ns, claim, hints, allocate, workerLifetimeMs, now);
  } catch (error) {
    // what it had locked is free again, and others may have passed it by
    hints.floors.reset(claim.workSpec.id);
    throw error;
  }
}

async function tryClaim(
  db: Database,
  ns: string,
  claim: Claim,
  hints: ClaimHints,
  allocate: Allocate,
  workerLifetimeMs: number,
  now: number,
): Promise<Claimed> {
  const { id } = claim.workSpec;
  const { floors, limited, tried, workers } = hints;
  // by the spec's id: that of a namespace which was deleted and made again is another
  const who = `${id} ${claim.worker}`;
  const repeat = { repeatable: claim.requestId !== null };
  const values = (plain: boolean, locked: boolean, at: Place): unknown[] => [
    id,
    claim.limit,
    now,
    claim.expiration,
    nameToBytes(claim.worker),
    claim.maxRetries,
    claim.requestId === null ? null : textKey(claim.requestId),
    locked,
    nameToBytes(ns),
    at.place,
    at.key,
    ...(plain ? [] : [workerLifetimeMs]),
  ];
  for (let tries = 0; ; tries++) {
    const { at, raise } = floors.begin(id);
    const expected = tried.get(id) ?? 0;
    if (expected > 0) tried.set(id, expected - 1);
    const plain =
      expected === 0 &&
      claim.requestId === null &&
      (workers.get(who) ?? -Infinity) > performance.now() - knownMs;
    const sql = plain ? plainClaimSql : claimSql;
    const answer = limited.has(id)
      ? await db.transaction(async (tx) => {
          await tx.rows("SELECT 1 FROM @spec WHERE id = $1 FOR UPDATE", [id]);
          const read = readClaim(await tx.rows(sql, values(plain, true, at)), claim, now);
          // an exhausted unit, or none for a spec that may make its own: decided here, while the row is held
          return read === "exhausted" || read === "generate"
            ? claimByRule(tx, ns, claim, allocate, now)
            : read;
        }, repeat)
      : readClaim(await db.write(sql, values(plain, false, at), repeat), claim, now);
    if (typeof answer === "object" && "attempts" in answer) {
      if (answer.last !== undefined) raise(answer.last);
      if (!plain && answer.attempts.length > 0) {
        if (workers.size > 10_000) workers.clear();
        workers.set(who, performance.now());
      }
      // nothing from here on: but there may be something before it that another claim had locked and gave back
      if (answer.attempts.length === 0 && at !== start && floors.mayRestart(id)) continue;
      return { attempts: answer.attempts, more: answer.more };
    }
    if (typeof answer === "object")
      return { attempts: await readAttempts(db, ns, answer.repeated, now, true), more: false };
    // others may lock what is past its time, and then it is not ours to wait for
    if (tries > 5) return { attempts: [], more: false };
    if (answer === "past") {
      await catchUp(db, id, now, 2000);
      floors.reset(id);
    } else if (answer === "limited") limited.add(id);
    else if (answer === "tried") tried.set(id, 50);
    else
      return db.transaction(async (tx) => {
        await tx.rows("SELECT 1 FROM @spec WHERE id = $1 FOR UPDATE", [id]);
        return claimByRule(tx, ns, claim, allocate, now);
      }, repeat);
  }
}

type ClaimAnswer =
  Claimed | { repeated: AttemptKey[] } | "past" | "limited" | "tried" | "exhausted" | "generate";

function readClaim(rows: readonly (readonly unknown[])[], claim: Claim, now: number): ClaimAnswer {
  const nothing = { attempts: [], more: false };
  const [first] = rows;
  if (first === undefined) return nothing;
  const [paused, limited, past, exhausted, continuous, repeated] = first as [
    boolean,
    boolean,
    boolean,
    boolean,
    boolean,
    string | null,
  ];
  if (repeated !== null) return { repeated: readKeys(repeated) };
  if (paused) return nothing;
  if (limited) return "limited";
  if (past) return "past";
  if (exhausted) return "exhausted";
  if (first[12] === true) return "tried";
  if (first[6] === null) return continuous ? "generate" : nothing;
  // they come as they were picked, and nothing promises that: to look is cheaper than to let the server sort them
  const placed = rows.map((row) => ({ row, at: { place: row[11] as number, key: row[7] as Buffer } }));
  if (placed.some(({ at }, i) => i > 0 && comparePlaces(placed[i - 1]!.at, at) > 0))
    placed.sort((a, b) => comparePlaces(a.at, b.at));
  if (rows.length > claim.limit)
    throw new Error(`claimed ${rows.length} units where ${claim.limit} were asked for`);
  const attempts = placed.map(({ row }): AttemptRow => {
    const id = row[6] as number;
    const number = row[9] as number;
    return {
      id: attemptId(id, number),
      workSpec: claim.workSpec.name,
      workUnit: nameOf(row[7] as Buffer, row[8] as Buffer | null),
      worker: claim.worker,
      number,
      status: "pending",
      active: true,
      startTime: now,
      endTime: 0,
      expirationTime: claim.expiration,
      data: bytesData(row[10] as Buffer | null),
      late: false,
      chainingErrors: [],
    };
  });
  return { attempts, more: false, last: placed.at(-1)!.at };
}

export const readKeys = (text: string): AttemptKey[] =>
  text.split(",").map((id) => {
    const [unitId = 0, number = 0] = id.split(".").map(Number);
    return { unitId, number };
  });

/** The claim as the rules say it, unit by unit; the spec's row is locked. */
async function claimByRule(
  tx: Session,
  ns: string,
  claim: Claim,
  allocate: Allocate,
  now: number,
): Promise<Claimed> {
  const attempts: AttemptRow[] = [];
  const nothing = { attempts, more: false };
  const [row] = await tx.rows(
    `SELECT s.name, s.namespace, n.name, s.next_spec, s.max_running, s.dead, s.meta, s.next_continuous, c.available, c.pending
     FROM @spec s JOIN @namespace n ON n.id = s.namespace, LATERAL ${tallyOf("s.id")} c
     WHERE s.id = $1 AND NOT s.dead AND n.name = $2`,
    [claim.workSpec.id, nameToBytes(ns)],
  );
  if (row === undefined) return nothing;
  const batch = new Batch(tx, now, allocate);
  const spec = batch.spec(readSpec(claim.workSpec.id, row));
  const meta = readMeta(row[6] as string, row[7] as number);
  const [available, pending] = [row[8] as number, row[9] as number];
  if (meta.paused) return nothing;
  let places = claim.limit;
  if (meta.maxRunning > 0) places = Math.min(places, meta.maxRunning - pending);
  if (places <= 0) return nothing;
  let units: Unit[];
  if (mayGenerate(meta, available, pending, now)) {
    units = [await generate(batch, spec, now)];
    await tx.rows("UPDATE @spec SET next_continuous = $2 WHERE id = $1", [spec.id, now + meta.intervalMs]);
  } else {
    const picked = await tx.rows(
      `SELECT id FROM @unit WHERE spec = $1 AND status = 0 ORDER BY place, key LIMIT $2 FOR UPDATE SKIP LOCKED`,
      [spec.id, places],
    );
    const ids = (picked as [number][]).map(([id]) => id);
    await batch.load(ids);
    units = ids.map((id) => batch.units.get(id)).filter((unit) => unit !== undefined);
  }
  let exhausted = 0;
  for (const unit of units) {
    if (claim.maxRetries > 0 && unit.tries >= claim.maxRetries) {
      batch.fail(unit, claim.worker, tooManyRetries);
      await resolve(batch, [unit]);
      exhausted++;
      continue;
    }
    const attempt = batch.begin(unit, claim.worker, claim.expiration);
    attempts.push(attemptRow(unit, attempt));
  }
  await batch.flush();
  await knowWorkers(tx, spec.namespace, [claim.worker], now, now + claimWorkerMs);
  await writeLog(tx, spec.namespace, claim.worker, attempts);
  if (claim.requestId !== null && attempts.length > 0)
    await tx.rows("INSERT INTO @request (namespace, spec, id, time, answer) VALUES ($1, 0, $2, $3, $4)", [
      spec.namespace,
      textKey(claim.requestId),
      now,
      attempts.map(({ id }) => id).join(","),
    ]);
  if (exhausted === 0 || attempts.length > 0) return nothing;
  const [left] = await tx.rows("SELECT 1 FROM @unit WHERE spec = $1 AND status = 0 LIMIT 1", [spec.id]);
  return { attempts, more: left !== undefined };
}

const claimWorkerMs = 15 * 60 * 1000;

/** The generated unit, under a name that is free. */
async function generate(batch: Batch, spec: Spec, now: number): Promise<Unit> {
  for (let from = now; ; from += 100) {
    const names = Array.from({ length: 100 }, (_, i) => continuousName(from + i));
    await batch.loadNames(spec, names, { data: false });
    const name = names.find((one) => batch.find(spec, one) === undefined);
    if (name === undefined) continue;
    const put = { name, data: encodeData({}), priority: 0, notBefore: 0, dependencies: null };
    await putUnits(batch, spec, [put]);
    const unit = batch.find(spec, name);
    if (unit === undefined) throw new Error("unreachable");
    return unit;
  }
}

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

// ---- settling

const plainUnit = `u.attempts = g.number AND u.attempt_status = 0 AND u.attempt_expiration > $2::bigint
      AND NOT (u.needs AND g.action = 2) AND NOT (u.dependents AND g.action < 2)`;

const fastActions = { finish: 0, fail: 1, retry: 2, renew: 3 } as const;

/**
 * Settles what is plain: current attempts whose lease has not ended, nothing to chain, nobody who waits. When one of them
 * is not like that, none; `judge` says "apply" to all that is done here. The guards stand a second time where the rows are
 * written: what changed between look and write is left alone, and not answered.
 *
 * `attempt_status = 0` says the same as `status = 3` without suggesting the index of leases, which the planner believes to
 * be nearly empty and then reads in full for each change; LATERAL and LIMIT keep it from joining the other way round. Units come sorted by id, and are locked in that order.
 *
 * $1 namespace, $2 now, $3 how many; then per change the unit, number, action, time, data, and whether it may chain.
 */
export const settleSql = `
  WITH given AS MATERIALIZED (
    SELECT * FROM unnest($4::bigint[], $5::int[], $6::smallint[], $7::bigint[], $8::bytea[], $9::boolean[])
      WITH ORDINALITY AS g (id, number, action, time, data, chains, at)
  ), found AS MATERIALIZED (
    SELECT f.spec, count(*) AS units, bool_or(g.chains) AS chains
    FROM given g CROSS JOIN LATERAL (SELECT u.spec FROM @unit u WHERE u.id = g.id AND ${plainUnit} LIMIT 1) f
    GROUP BY f.spec
  ), fit AS MATERIALIZED (
    SELECT sum(f.units) AS units FROM found f JOIN @spec s ON s.id = f.spec JOIN @namespace n ON n.id = s.namespace
    WHERE NOT s.dead AND n.name = $1 AND NOT (f.chains AND s.next_spec <> '')
  ), changed AS (
    UPDATE @unit u SET
      status = CASE g.action WHEN 0 THEN 4 WHEN 1 THEN 5 WHEN 3 THEN 3 ELSE CASE WHEN g.time > $2::bigint THEN 1 ELSE 0 END END,
      not_before = CASE WHEN g.action = 2 THEN g.time ELSE u.not_before END,
      attempt_status = CASE g.action WHEN 0 THEN 2 WHEN 1 THEN 3 WHEN 2 THEN 4 ELSE 0 END,
      attempt_end = CASE WHEN g.action = 3 THEN 0 ELSE $2::bigint END,
      attempt_expiration = CASE WHEN g.action = 3 THEN g.time ELSE u.attempt_expiration END,
      attempt_own = u.attempt_own OR g.data IS NOT NULL,
      attempt_data = coalesce(g.data, u.attempt_data)
    FROM fit, given g WHERE u.id = g.id AND ${plainUnit} AND fit.units = $3::bigint
    RETURNING u.spec, u.status, u.attempt_expiration, u.place, u.key, g.at
  ), tallied AS (
    ${tallyInsert}
    SELECT spec, pg_backend_pid(), count(*) FILTER (WHERE status = 0), count(*) FILTER (WHERE status = 1), 0,
      -count(*) FILTER (WHERE status <> 3), count(*) FILTER (WHERE status = 4), count(*) FILTER (WHERE status = 5), 0, 0,
      count(*) FILTER (WHERE status = 0), CASE WHEN bool_or(status = 0) THEN ${tallyEpoch} ELSE 0 END,
      (array_agg(place ORDER BY place, key) FILTER (WHERE status = 0))[1],
      (array_agg(key ORDER BY place, key) FILTER (WHERE status = 0))[1]
    FROM changed WHERE status <> 3 GROUP BY spec
    ${tallyConflict}
  )
  SELECT at, attempt_expiration FROM changed`;

export async function settleUnits(
  db: Database,
  ns: string,
  changes: readonly Settle[],
  allocate: Allocate,
  now: number,
): Promise<AttemptChanged[]> {
  const byRule = (some: readonly Settle[]): Promise<AttemptChanged[]> =>
    db.transaction((tx) => settleByRule(tx, ns, some, allocate, now), { repeatable: true });
  const sorted = changes
    .map((change, i) => ({ change, i }))
    .sort((a, b) => a.change.unitId - b.change.unitId);
  const plain = plainValues(
    ns,
    sorted.map(({ change }) => change),
    now,
  );
  if (plain === null) return byRule(changes);
  const rows = await db.write(settleSql, plain, { repeatable: true });
  if (rows.length === 0) return byRule(changes);
  const answers = new Array<AttemptChanged | undefined>(changes.length).fill(undefined);
  for (const [at, expirationTime] of rows as [number, number][]) {
    const { change, i } = sorted[at - 1]!;
    answers[i] = { ...unchanged(change), changed: true, status: actionStatus[change.action], expirationTime };
  }
  // what somebody else changed at the same moment
  const left = changes.filter((_, i) => answers[i] === undefined);
  const late = left.length === 0 ? [] : await byRule(left);
  return answers.map((answer) => answer ?? late.shift()!);
}

/** The values of the plain statement; null when some change is not plain by itself. */
function plainValues(ns: string, changes: readonly Settle[], now: number): unknown[] | null {
  const actions: number[] = [];
  const units = new Set<number>();
  for (const { action, time, unitId, number } of changes) {
    if (action === "expire" || (action === "renew" && time <= now)) return null;
    if (units.has(unitId)) return null;
    if (number > 0x7fffffff) return null;
    units.add(unitId);
    actions.push(fastActions[action]);
  }
  return [
    nameToBytes(ns),
    now,
    changes.length,
    int8s(changes.map(({ unitId }) => unitId)),
    int4s(changes.map(({ number }) => number)),
    int2s(actions),
    int8s(changes.map(({ time }) => time)),
    byteas(changes.map(({ data }) => dataBytes(data))),
    bools(changes.map(mayChain)),
  ];
}

/** Whether the attempt's data may have outputs. Data that is not given was written before, and is not known here. */
const mayChain = ({ action, data }: Settle): boolean =>
  action === "finish" &&
  (data === null || (typeof data === "string" ? /"output"|\\u/.test(data) : hasOutputs(readOutputs(data))));

const hasOutputs = ({ units, errors }: Outputs): boolean => units.length > 0 || errors.length > 0;

interface Past {
  status: Attempt["status"];
  expiration: number;
}

async function settleByRule(
  tx: Session,
  ns: string,
  changes: readonly Settle[],
  allocate: Allocate,
  now: number,
): Promise<AttemptChanged[]> {
  const batch = new Batch(tx, now, allocate);
  await batch.load(changes.map(({ unitId }) => unitId));
  const units = [...batch.units.values()];
  await batch.loadNeeds(units);
  for (const unit of units) await catchUpUnit(batch, unit);
  const history = await readPast(batch, changes);
  const lastId = changes.some(({ unitId }) => !batch.units.has(unitId)) ? await lastUnitId(tx) : 0;
  const nextSpecs = await prepareOutputs(batch, ns, changes);
  const answers: AttemptChanged[] = [];
  for (const change of changes) {
    const unit = batch.units.get(change.unitId);
    if (unit !== undefined && !unit.spec.dead && unit.spec.namespaceName === ns)
      answers.push(await settleUnit(batch, unit, change, history, nextSpecs));
    else {
      // a unit of another namespace does not exist here, and none that was never made can be gone
      const gone = unit === undefined ? change.unitId <= lastId : unit.spec.namespaceName === ns;
      answers.push({ ...unchanged(change), error: gone ? "gone" : "no_such_attempt" });
    }
  }
  await batch.flush();
  return answers;
}

const unchanged = ({ unitId, number }: AttemptKey): AttemptChanged => ({
  attempt: attemptId(unitId, number),
  error: null,
  changed: false,
  status: null,
  expirationTime: 0,
  outputs: 0,
  chainingErrors: [],
});

const pastKey = ({ unitId, number }: AttemptKey): string => `${unitId}.${number}`;

/** Superseded attempts that are asked about. */
async function readPast(batch: Batch, changes: readonly Settle[]): Promise<Map<string, Past>> {
  const asked = changes.filter(({ unitId, number }) => {
    const unit = batch.units.get(unitId);
    return unit !== undefined && unit.attempt?.number !== number && number <= unit.attempts;
  });
  if (asked.length === 0) return new Map();
  const rows = await batch.tx.rows(
    `SELECT h.unit, h.number, h.status, h.expiration
     FROM unnest($1::bigint[], $2::int[]) AS g (unit, number) JOIN @history h ON h.unit = g.unit AND h.number = g.number`,
    [int8s(asked.map(({ unitId }) => unitId)), int4s(asked.map(({ number }) => number))],
  );
  return new Map(
    (rows as [number, number, number, number][]).map(([unitId, number, status, expiration]) => [
      pastKey({ unitId, number }),
      { status: attemptStatuses[status] ?? "expired", expiration },
    ]),
  );
}

async function lastUnitId(tx: Session): Promise<number> {
  const [row] = await tx.rows("SELECT last_value, is_called FROM @unit_block WHERE $1", [true]);
  const [last, called] = row as [number, boolean];
  return called ? last * unitBlock : 0;
}

/** Unit ids are taken from a sequence by the block, and are known before anything is written. */
export const unitBlock = 1000;

/** Reads, in few statements, everything that the outputs of these changes may touch. */
async function prepareOutputs(
  batch: Batch,
  ns: string,
  changes: readonly Settle[],
): Promise<Map<string, Spec>> {
  const specs = new Map<string, Spec>();
  const chained = changes.flatMap((change) => {
    const unit = change.action === "finish" ? batch.units.get(change.unitId) : undefined;
    return unit === undefined || unit.spec.nextSpec === "" || unit.spec.dead ? [] : [{ change, unit }];
  });
  if (chained.length === 0) return specs;
  for (const spec of await findSpecs(
    batch.tx,
    ns,
    chained.map(({ unit }) => unit.spec.nextSpec),
  ))
    specs.set(spec.name, batch.spec(spec));
  const names = new Map<Spec, string[]>();
  for (const { change, unit } of chained) {
    const next = specs.get(unit.spec.nextSpec);
    if (next === undefined) continue;
    const data = change.data ?? dataOf(unit);
    const list = names.get(next) ?? [];
    names.set(next, list);
    for (const { name } of readOutputs(data).units) list.push(name);
  }
  for (const [spec, list] of names) await prepareUnits(batch, spec, list);
  return specs;
}

const dataOf = (unit: Unit): Data | null => (unit.attempt?.own === true ? unit.attempt.data : unit.data);

async function settleUnit(
  batch: Batch,
  unit: Unit,
  change: Settle,
  history: ReadonlyMap<string, Past>,
  nextSpecs: ReadonlyMap<string, Spec>,
): Promise<AttemptChanged> {
  const { now } = batch;
  const current = unit.attempt?.number === change.number ? unit.attempt : null;
  const attempt = current ?? history.get(pastKey(change)) ?? batch.pastAttempt(change);
  if (attempt === undefined) return { ...unchanged(change), error: "no_such_attempt" };
  const answer = { ...unchanged(change), status: attempt.status, expirationTime: attempt.expiration };
  let verdict = judge(attempt.status, current !== null, change.action);
  const { maxRunning } = unit.spec;
  // an attempt that lost its place among `max_running` cannot take it back
  if (verdict === "apply" && change.action === "renew" && attempt.status === "expired" && change.time > now)
    if (maxRunning > 0 && (await countPending(batch, unit.spec)) >= maxRunning) verdict = "lost_lease";
  if (verdict === "nothing") return answer;
  if (verdict !== "apply") {
    // a renew that comes too late keeps what the worker found out, on its own attempt
    if (verdict === "lost_lease" && change.action === "renew" && change.data !== null) {
      if (current !== null) batch.setAttemptData(unit, current, change.data);
      else await batch.setPastData(change, change.data);
    }
    return { ...answer, error: verdict };
  }
  if (current === null) throw new Error("unreachable");
  if (current.status === "expired" && isRelease(change, now) && change.data === null) return answer;
  await apply(batch, unit, current, change, nextSpecs, answer);
  return { ...answer, changed: true, status: current.status, expirationTime: current.expiration };
}

/** Gives the unit back: to expire, or to renew for no time. */
const isRelease = ({ action, time }: Settle, now: number): boolean =>
  action === "expire" || (action === "renew" && time <= now);

/** How many run, exactly: under the spec's lock, which every claim of a spec with `max_running` takes. */
async function countPending(batch: Batch, spec: Spec): Promise<number> {
  await batch.tx.rows("SELECT 1 FROM @spec WHERE id = $1 FOR UPDATE", [spec.id]);
  const [row] = await batch.tx.rows(
    `SELECT c.pending - (SELECT count(*) FROM @unit u WHERE u.spec = $1 AND u.status = 3
       AND u.attempt_expiration <= $2::bigint AND NOT u.id = ANY ($3::bigint[]))
     FROM ${tallyOf("$1")} c`,
    [spec.id, batch.now, int8s([...batch.units.keys()])],
  );
  return (row?.[0] as number) + batch.shift(spec, "pending");
}

async function apply(
  batch: Batch,
  unit: Unit,
  attempt: Attempt,
  change: Settle,
  nextSpecs: ReadonlyMap<string, Spec>,
  answer: AttemptChanged,
): Promise<void> {
  const { now } = batch;
  if (change.data !== null) batch.setAttemptData(unit, attempt, change.data);
  unit.changed = true;
  const release = isRelease(change, now);
  if (attempt.status === "expired" && !release) attempt.late = true;
  if (release) {
    if (attempt.status === "pending") {
      if (change.untried) unit.tries--;
      attempt.expiration = Math.min(attempt.expiration, now);
      await expire(batch, unit, attempt, now);
    }
    return;
  }
  attempt.status = actionStatus[change.action];
  if (change.action === "renew") {
    attempt.expiration = change.time;
    attempt.end = 0;
    place(unit, "pending");
    return;
  }
  attempt.end = now;
  if (change.action === "retry") {
    unit.notBefore = change.time;
    await park(batch, unit);
    return;
  }
  place(unit, attempt.status === "finished" ? "finished" : "failed");
  await resolve(batch, [unit]);
  if (attempt.status === "finished") await chain(batch, unit, attempt, nextSpecs, answer);
}

/** Creates the units of a finished attempt's `output`, in the same step. */
async function chain(
  batch: Batch,
  unit: Unit,
  attempt: Attempt,
  nextSpecs: ReadonlyMap<string, Spec>,
  answer: AttemptChanged,
): Promise<void> {
  const next = nextSpecs.get(unit.spec.nextSpec);
  if (unit.spec.nextSpec === "" || next === undefined) return;
  const { units, errors } = readOutputs(dataOf(unit));
  const puts = units.map(({ name, data, priority, delayMs }) => ({
    name,
    data,
    priority,
    notBefore: delayMs > 0 ? batch.now + delayMs : 0,
    dependencies: null,
  }));
  await prepareUnits(
    batch,
    next,
    puts.map(({ name }) => name),
  );
  await putLoadedUnits(batch, next, puts, attemptId(unit.id, attempt.number));
  attempt.errors = errors;
  answer.outputs = units.length;
  answer.chainingErrors = errors;
}

// ---- reading

/** Attempts by key, null where there is none, as they stand by rule. */
export async function findAttempts(
  session: Session,
  ns: string,
  keys: readonly AttemptKey[],
  now: number,
): Promise<(AttemptRow | null)[]> {
  if (keys.length === 0) return [];
  const rows = await session.rows(
    `SELECT ${unitColumns}, s.name, s.namespace, n.name, s.next_spec, s.max_running, s.dead,
       h.number, h.status, h.late, h.start, h."end", h.expiration, h.worker, h.errors, h.data
     FROM unnest($1::bigint[], $2::bigint[]) WITH ORDINALITY AS g (unit, number, at)
     JOIN @unit u ON u.id = g.unit JOIN @spec s ON s.id = u.spec AND NOT s.dead
     JOIN @namespace n ON n.id = s.namespace AND n.name = $3
     LEFT JOIN @history h ON h.unit = g.unit AND h.number = g.number
     ORDER BY g.at`,
    [int8s(keys.map(({ unitId }) => unitId)), int8s(keys.map(({ number }) => number)), nameToBytes(ns)],
  );
  const found = new Map<string, AttemptRow>();
  for (const row of rows) {
    const unit = currentUnit(readUnit(row, readSpec(row[1] as number, row.slice(unitColumnCount))), now);
    if (unit.attempt !== null) keep(found, attemptRow(unit, unit.attempt));
    const past = row.slice(unitColumnCount + 6);
    if (past[0] !== null) keep(found, attemptRow(unit, readPastAttempt(past)));
  }
  return keys.map(({ unitId, number }) => found.get(attemptId(unitId, number)) ?? null);
}

const keep = (found: Map<string, AttemptRow>, row: AttemptRow): unknown => found.set(row.id, row);

/** What the rule of time says of a unit that was only read. */
export function currentUnit(unit: Unit, now: number): Unit {
  const { attempt } = unit;
  if (attempt?.status === "pending" && attempt.expiration <= now) {
    attempt.status = "expired";
    attempt.end = attempt.expiration;
  }
  return unit;
}

export function readPastAttempt(row: readonly unknown[]): Attempt {
  const [number, status, late, start, end, expiration, worker, errors, data] = row as [
    number,
    number,
    boolean,
    number,
    number,
    number,
    Buffer,
    string | null,
    Buffer | null,
  ];
  return {
    number,
    worker: nameFromBytes(worker),
    status: attemptStatuses[status] ?? "expired",
    start,
    end,
    expiration,
    late,
    errors: readErrors(errors),
    own: true,
    data: bytesData(data),
  };
}

/** The attempts of a repeated request; with `held` only those that are still held. */
export async function readAttempts(
  session: Session,
  ns: string,
  keys: readonly AttemptKey[],
  now: number,
  held: boolean,
): Promise<AttemptRow[]> {
  const rows = await findAttempts(session, ns, keys, now);
  return rows.filter(
    (row) => row !== null && (!held || (row.status === "pending" && row.active)),
  ) as AttemptRow[];
}
