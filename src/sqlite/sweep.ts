/** Housekeeping in bounded slices: applies expired leases and elapsed delays, deletes old ended units, purges what deletions left. */
import {
  countRetired,
  exhaustUnits,
  hasLanes,
  nothingSwept,
  removeUnits,
  specTryLimit,
  unitsSwept,
  type Slice,
  type Swept,
  type SweepLimits,
} from "../core/index.ts";
import type { Value } from "./driver.ts";
import { catchUp, maxMoved } from "./expiry.ts";
import { groupFailures } from "./failures.ts";
import { deletePlain } from "./fast-paths.ts";
import { pruneLanes } from "./lanes.ts";
import { forgetTaken, purgeQueues } from "./queues.ts";
import { unitState } from "./schema.ts";
import { spentTries } from "./statements.ts";
import type { Space, Spec, State } from "./state.ts";
import type { Steps } from "./work-units.ts";
import { forgetWorkers, unpackAttempts } from "./workers.ts";
import { applied } from "./working-set.ts";

/** Where the next call continues: at which expiration among old workers, after which row of the log. */
export interface SweepCursor {
  worker: number;
  log: readonly [worker: number, time: number, number: number];
}

/** Before all rows of the log. */
export const logStart = [0, 0, 0] as const;

export function* sweep(state: State, cursor: SweepCursor, limits: SweepLimits, now: number): Steps<Swept> {
  const swept = nothingSwept();
  for (const space of state.spaces.values()) {
    const total = (): number => unitsSwept(swept) + swept.generated;
    const before = total();
    const left = (): number => limits.units - unitsSwept(swept);
    for (let done = false; !done && left() > 0;) {
      const moved = catchUp(state, [...space.specs.values()], now, Math.min(maxMoved, left()));
      swept.expired += moved.expired;
      swept.due += moved.due;
      swept.generated += moved.generated;
      ({ done } = moved);
      if (!done) yield;
    }
    yield* exhaust(state, space, limits, now, swept);
    for (const spec of space.specs.values()) yield* sweepSpec(state, spec, limits, now, swept);
    if (total() > before) state.changed.add(space.name);
  }
  const old = state.sql.oldRequests.all(limits.requestsBefore, 1000);
  for (const [namespace, id] of old) {
    state.writes++;
    state.sql.dropRequest.run(namespace!, id!);
  }
  if (old.length === 1000) swept.more = true;
  if (!forgetTaken(state, limits.requestsBefore, 1000)) swept.more = true;
  if (state.sql.dropPassedLocks.run(now) > 0) state.writes++;
  const { forgotten, next } = forgetWorkers(state, limits.workersBefore, cursor.worker, 1000);
  swept.workers = forgotten;
  cursor.worker = next;
  if (!trimLog(state, cursor)) swept.more = true;
  return swept;
}

/**
 * Fails units that reached their try limit. Repeats over all work specs until none has any: a failure may release dependents that
 * reached their limit as well.
 */
function* exhaust(state: State, space: Space, limits: SweepLimits, now: number, swept: Swept): Steps<void> {
  const left = (): number => limits.units - unitsSwept(swept);
  let stuck = 0;
  for (let before = -1; before !== swept.exhausted;) {
    before = swept.exhausted;
    stuck = 0;
    for (const spec of space.specs.values()) {
      const limit = specTryLimit(spec.meta);
      while ((limit > 0 || state.counters.extras > 0) && left() > 0) {
        const ids = (hasLanes(spec.meta) ? state.sql.spentInLanes : state.sql.spent)
          .all(spec.id, Math.min(limit || spentTries, spentTries), left())
          .map(([id]) => id as number);
        if (ids.length === 0) break;
        const failed = yield* applied(state, now, (set) => exhaustUnits(set, set.units(ids)));
        swept.exhausted += failed;
        if (failed > 0) continue;
        stuck += ids.length;
        break;
      }
    }
  }
  swept.stuck += stuck;
}

function* sweepSpec(state: State, spec: Spec, limits: SweepLimits, now: number, swept: Swept): Steps<void> {
  const left = (): number => limits.units - unitsSwept(swept);
  pruneLanes(state, spec, now);
  if (!groupFailures(state, spec, limits.units)) swept.more = true;
  if (!syncEnded(state, spec)) swept.more = true;
  for (const status of ["finished", "failed"] as const) {
    const kept = spec.meta.retention[status];
    if (kept === undefined || spec.retained !== 2 || left() <= 0) continue;
    const rows = state.sql.firstEnded.all(spec.id, unitState[status], left());
    const ends = rows.map(([, time]) => time as number);
    const ids = rows.slice(0, countRetired(kept, ends, spec.counts[status], now)).map(([id]) => id as number);
    if (ids.length === 0) continue;
    yield* deleteUnits(state, spec, ids, now, true);
    spec.removed[status] += ids.length;
    swept.retired += ids.length;
  }
  if (left() <= 0) swept.more = true;
}

/** Deletes units of one spec, by id. */
export function* deleteUnits(
  state: State,
  spec: Spec,
  ids: readonly number[],
  now: number,
  retired = false,
): Steps<void> {
  if (yield* deletePlain(state, spec, ids)) return;
  yield* applied(state, now, (set) => removeUnits(set, set.units(ids), retired));
}

const filledAtOnce = 2000;
const allNames = Buffer.alloc(0);

/**
 * Keeps table `ended` filled while a spec has retention, and empty otherwise. It is filled in slices, since a spec may have millions
 * of ended units; units that end meanwhile are added when they end. Returns false while there is more to do.
 */
function syncEnded(state: State, spec: Spec): boolean {
  const { finished, failed } = spec.meta.retention;
  const wanted = finished !== undefined || failed !== undefined;
  if (!wanted) {
    if (spec.retained === 0) return true;
    fillUpTo(state, spec, null);
    const rows = state.sql.someEnded.all(spec.id, filledAtOnce);
    for (const [kind, time, unit] of rows) state.sql.dropEnded.run(spec.id, kind!, time!, unit!);
    state.writes++;
    if (rows.length === filledAtOnce) return false;
    setRetained(state, spec, 0);
    return true;
  }
  if (spec.retained === 2) return true;
  const { sql } = state;
  state.writes++;
  const from: Value = spec.filled ?? allNames;
  const rows = sql.unitsByName.all(spec.id, from, Buffer.alloc(4097, 0xff), filledAtOnce);
  const last = rows.at(-1)?.[0];
  if (typeof last === "number") {
    const name = sql.unitNameBytes.get(last)?.[0] ?? allNames;
    sql.fillEnded.run(spec.id, from, name);
    fillUpTo(state, spec, Buffer.concat([name as Uint8Array, Buffer.of(0)]));
  }
  if (rows.length === filledAtOnce) return false;
  setRetained(state, spec, 2);
  return true;
}

function fillUpTo(state: State, spec: Spec, name: Uint8Array | null): void {
  const before = spec.filled;
  state.undo(() => (spec.filled = before));
  spec.filled = name;
}

export function setRetained(state: State, spec: Spec, retained: 0 | 1 | 2): void {
  const old = spec.retained;
  if (old === retained) return;
  state.undo(() => {
    spec.retained = old;
    spec.filled = null;
  });
  spec.retained = retained;
  spec.filled = null;
  state.writes++;
  state.sql.setSpecRetained.run(retained, spec.id);
}

/** How many rows of the log, and how many of their units, one sweep looks at. */
const logRowsAtOnce = 200;
const logUnitsAtOnce = 2000;

/**
 * Deletes log rows whose units were all deleted or whose worker was forgotten, among the next rows of the log. Returns false if at
 * least half of them were deleted: a busy worker logs more rows in a second than one call looks at.
 */
function trimLog(state: State, cursor: SweepCursor): boolean {
  const rows = state.sql.logFrom.all(...cursor.log, logRowsAtOnce);
  let units = 0;
  const isLive = (attempts: Value | undefined): boolean =>
    unpackAttempts(attempts as Uint8Array).some(({ unitId }) => {
      units++;
      return state.sql.unitExists.get(unitId) !== undefined;
    });
  let seen = 0;
  let dropped = 0;
  for (const [worker, time, number, attempts] of rows as [number, number, number, Uint8Array][]) {
    if (units >= logUnitsAtOnce) break;
    cursor.log = [worker, time, number];
    seen++;
    if (state.sql.workerKnown.get(worker)?.[0] === 1 && isLive(attempts)) continue;
    state.writes++;
    dropped++;
    state.sql.dropLog.run(worker, time, number);
  }
  if (seen < rows.length || rows.length === logRowsAtOnce) return dropped * 2 < seen;
  cursor.log = logStart;
  return true;
}

// ---- after deletions

/** Removes rows of deleted specs and namespaces, about `limit` units of them. */
export function* purge(state: State, limit: number, now: number): Steps<Slice> {
  let deleted = 0;
  for (const spec of state.deadSpecs) {
    deleted += yield* purgeSpec(state, spec, limit - deleted, now);
    if (deleted >= limit) return { deleted, done: false };
  }
  for (const space of state.deadSpaces) if (!purgeSpace(state, space, limit)) return { deleted, done: false };
  return { deleted, done: true };
}

function* purgeSpec(state: State, spec: Spec, limit: number, now: number): Steps<number> {
  const { sql } = state;
  const rows = sql.unitsOfSpec.all(spec.id, limit);
  yield* deleteUnits(
    state,
    spec,
    rows.map(([id]) => id as number),
    now,
  );
  if (rows.length > 0) state.changed.add(spec.namespace);
  if (rows.length >= limit) return rows.length;
  state.writes++;
  sql.dropSpec.run(spec.id);
  sql.dropTally.run(spec.id);
  sql.clearLanes.run(spec.id);
  sql.dropFailures.run(spec.id);
  sql.dropAllOutcomes.run(spec.id);
  sql.dropSpecRecords.run(spec.space.id, spec.id);
  state.specs.delete(spec.id);
  state.deadSpecs.delete(spec);
  state.undo(() => {
    state.specs.set(spec.id, spec);
    state.deadSpecs.add(spec);
  });
  return rows.length;
}

function purgeSpace(state: State, space: number, limit: number): boolean {
  const { sql } = state;
  let left = limit;
  state.writes++;
  left -= purgeQueues(state, space, left);
  for (const [id] of sql.requestsOf.all(space, left)) {
    sql.dropRequest.run(space, id!);
    left--;
  }
  for (const [path] of sql.locksOf.all(space, left)) {
    sql.dropLock.run(space, path!);
    left--;
  }
  for (const [worker] of sql.workersOf.all(space, left)) {
    for (const [time, number] of sql.logOf.all(worker!, left)) {
      sql.dropLog.run(worker!, time!, number!);
      left--;
    }
    if (left <= 0) return false;
    sql.dropWorker.run(worker!);
    left--;
  }
  if (left <= 0) return false;
  sql.dropSpaceRecords.run(space);
  sql.dropNamespace.run(space);
  state.deadSpaces.delete(space);
  state.undo(() => state.deadSpaces.add(space));
  return true;
}
