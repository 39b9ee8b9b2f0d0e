/**
 * Settling, and reading attempts. The plain course of a settle is one statement that is a transaction by itself; it does everything
 * or, when it meets what is not plain, nothing. Then the units are taken into a `Batch` and the rules of core decide.
 */
import {
  actionStatus,
  attemptId,
  judge,
  nameFromBytes,
  nameToBytes,
  readOutputs,
  type AttemptChanged,
  type AttemptKey,
  type AttemptRow,
  type Data,
  type Outputs,
  type Settle,
} from "../core/index.ts";
import { catchUpUnit, expire } from "./expiry.ts";
import { isRow, type Database, type Session } from "./connection.ts";
import { park, resolve } from "./dependents.ts";
import {
  attemptRow,
  Batch,
  place,
  readErrors,
  readSpec,
  readUnit,
  unitColumnCount,
  unitColumns,
  type Allocate,
  type Attempt,
  type Spec,
  type Unit,
} from "./state.ts";
import { tallyConflict, tallyEpoch, tallyInsert, tallyOf } from "./tally.ts";
import { attemptStatuses } from "../core/index.ts";
import { bools, byteas, bytesData, dataBytes, int2s, int4s, int8s } from "./values.ts";
import { findSpecs } from "./work-specs.ts";
import { prepareUnits, putLoadedUnits } from "./work-units.ts";

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
    FROM fit, given g WHERE ${isRow("u.id", "g.id")} AND ${plainUnit} AND fit.units = $3::bigint
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
     FROM unnest($1::bigint[], $2::int[]) AS g (unit, number)
       JOIN @history h ON ${isRow("h.unit", "g.unit")} AND ${isRow("h.number", "g.number")}`,
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
  // failed in this very batch, and finished after all: of the two ends only the second will be seen in the row
  if (attempt.status === "failed" && unit.stored !== "failed" && unit.queues.length > 0)
    await tellFailed(batch, unit, attempt);
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

async function tellFailed(batch: Batch, unit: Unit, attempt: Attempt): Promise<void> {
  await batch.tx.rows(
    `INSERT INTO @message (namespace, queue, spec, name, unit, number, status, at, data)
     SELECT $1, q.queue, $2, $3, $4, $5, 5, $6, $7 FROM unnest($8::bytea[]) WITH ORDINALITY AS q (queue, at) ORDER BY q.at`,
    [
      unit.spec.namespace,
      nameToBytes(unit.spec.name),
      nameToBytes(unit.name),
      unit.id,
      attempt.number,
      attempt.end,
      dataBytes(dataOf(unit) ?? unit.data),
      byteas(unit.queues.map(nameToBytes)),
    ],
  );
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
     JOIN @unit u ON ${isRow("u.id", "g.unit")} JOIN @spec s ON s.id = u.spec AND NOT s.dead
     JOIN @namespace n ON n.id = s.namespace AND n.name = $3
     LEFT JOIN @history h ON ${isRow("h.unit", "g.unit")} AND ${isRow("h.number", "g.number")}
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
