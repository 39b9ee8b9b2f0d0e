/** Adds new units and updates existing ones. */
import { batchOf } from "./batch.ts";
import { findCycle } from "./dependency.ts";
import { CoordinateError } from "./errors.ts";
import { followBefore, needState, supersede, wait } from "./life.ts";
import { resolveConsequences } from "./batching.ts";
import type { WorkUnitPut } from "./store.ts";
import { addsInterleaved, interleaveByPartition } from "./partitions.ts";
import { agedPriority, ages, placeOf } from "./timing.ts";
import type { WorkSpecMeta } from "./work-spec.ts";
import type { AddedWorkUnit } from "./work-unit.ts";
import {
  extrasOfPut,
  noExtras,
  type Need,
  type Rule,
  type UnitState,
  type WorkingSet,
} from "./working-set.ts";

/** Units processed between two points where other calls may run. */
const unitsPerTurn = 100;

/**
 * Adds units, all or none: throws `name_exists`, `queue_full`, `too_large`, `bad_dependency` or `dependency_cycle` before
 * anything is changed.
 */
export function* addUnits<Unit extends UnitState>(
  set: WorkingSet<Unit>,
  spec: Unit["spec"],
  puts: readonly WorkUnitPut[],
): Rule<AddedWorkUnit[]> {
  if (puts.some(({ onConflict }) => onConflict === "refuse")) yield* refuseExisting(set, spec, puts);
  if (spec.meta.maxWaiting > 0) yield* refuseFull(set, spec, puts);
  const added = yield* putUnits(set, spec, puts);
  if (set.isUnresolved()) yield* resolveConsequences(set);
  return added;
}

function* refuseExisting<Unit extends UnitState>(
  set: WorkingSet<Unit>,
  spec: Unit["spec"],
  puts: readonly WorkUnitPut[],
): Rule<void> {
  yield set.loadNames(
    spec,
    puts.map(({ name }) => name),
  );
  const before = new Set<string>();
  for (const { name, onConflict } of puts) {
    if (onConflict === "refuse" && (before.has(name) || set.find(spec, name) !== undefined))
      throw new CoordinateError("name_exists", `work unit ${name} of work spec ${spec.name}`);
    before.add(name);
  }
}

/**
 * Enforces `max_waiting` on producers. Units that the work itself creates are always accepted: outputs, retries, scheduled runs.
 * The counts are exact, and no other call adds to the work spec until this one has ended.
 */
function* refuseFull<Unit extends UnitState>(
  set: WorkingSet<Unit>,
  spec: Unit["spec"],
  puts: readonly WorkUnitPut[],
): Rule<void> {
  yield set.loadCounts(spec);
  yield set.loadNames(
    spec,
    puts.map(({ name }) => name),
  );
  const { maxWaiting } = spec.meta;
  const waiting = set.count(spec, "available") + set.count(spec, "delayed") + set.count(spec, "blocked");
  const more = new Set<string>();
  for (const put of puts) {
    const unit = set.find(spec, put.name);
    if (unit === undefined || (isRequeued(unit, put) && !isUnchanged(unit, put, set.now))) more.add(put.name);
  }
  // `queue_full` means that waiting helps
  if (more.size > maxWaiting)
    throw new CoordinateError(
      "too_large",
      `${more.size} new work units for ${spec.name}, at most ${maxWaiting} may wait (max_waiting)`,
    );
  if (more.size > 0 && waiting + more.size > maxWaiting)
    throw new CoordinateError(
      "queue_full",
      `${spec.name} has ${waiting} waiting work units; ${more.size} more would exceed max_waiting (${maxWaiting})`,
    );
}

const isEnded = ({ status }: UnitState): boolean => status === "finished" || status === "failed";

/** Whether adding the unit again makes it wait, although it does not wait now. */
const isRequeued = (unit: UnitState, { onConflict }: WorkUnitPut): boolean =>
  isEnded(unit) || (unit.status === "pending" && onConflict === "replace");

/** Whether an add leaves the existing unit unchanged. Without a throttle the times do not matter: another daemon's clock may be ahead. */
const isUnchanged = (unit: UnitState, { onConflict, throttleMs = 0 }: WorkUnitPut, now: number): boolean =>
  onConflict === "ignore" || (throttleMs > 0 && Math.max(unit.created, unit.since) + throttleMs > now);

/** Whether an add changes nothing but the data of the unit. */
const keepsPlace = ({ onConflict }: WorkUnitPut, exists: boolean): boolean => exists && onConflict === "data";

/** Adds units as a step of a larger rule: does not enforce `refuse` and `max_waiting`, and leaves `resolveConsequences` to the caller. */
export function* putUnits<Unit extends UnitState>(
  set: WorkingSet<Unit>,
  spec: Unit["spec"],
  given: readonly WorkUnitPut[],
): Rule<AddedWorkUnit[]> {
  const puts = ages(spec.meta) ? given.map((put) => agedPut(spec.meta, put, set.now)) : given;
  const addNew = set.addNew(spec, puts);
  const allNew = addNew === null ? null : yield* addNew;
  if (allNew !== null) return allNew;
  yield set.loadNames(
    spec,
    puts.map(({ name }) => name),
  );
  yield set.reserve(puts.length);
  const added: AddedWorkUnit[] = [];
  const plan = puts.some(({ dependencies }) => dependencies !== null)
    ? yield* findNeeds(set, spec, puts)
    : null;
  // a unit may depend on a later one of the same add, so create all of them before processing any
  const fresh = new Set(plan?.fresh ?? makeInterleaved(set, spec, puts));
  for (const unit of fresh) set.add(unit);
  for (let i = 0; i < puts.length; i++) {
    let put = puts[i]!;
    if (i > 0 && i % unitsPerTurn === 0) yield undefined;
    let unit = set.find(spec, put.name);
    const created = unit === undefined || fresh.delete(unit);
    let again = false;
    if (unit === undefined) {
      unit = set.make(spec, put);
      set.add(unit);
    } else if (!created) {
      if (set.isUnresolved()) yield* followBefore(set, unit);
      if (isUnchanged(unit, put, set.now)) {
        added.push({ name: unit.name, id: unit.id, created, status: unit.status, ignored: true });
        continue;
      }
      set.leave(unit);
      again = isRequeued(unit, put);
      if (again) {
        supersede(set, unit, set.now);
        unit.tries = 0;
        unit.since = set.now;
        if (isEnded(unit)) set.noteEvent(unit, "added", -1);
      } else if (ages(spec.meta)) put = { ...put, priority: keptPlace(set, unit, put) };
      unit.data = put.data;
    }
    if (created) set.noteEvent(unit, "added", -1);
    if (!keepsPlace(put, !created)) {
      applyPut(set, unit, put);
      const needs = plan?.needs[i] ?? null;
      if (needs !== null) setNeeds(set, unit, needs);
    }
    if (!created && !again && unit.status === "pending") set.enter(unit, "pending");
    else wait(set, unit, set.now);
    added.push({ name: unit.name, id: unit.id, created, status: unit.status });
  }
  return added;
}

/** Makes the new units in the order in which their partitions take turns; none where that order does not matter. */
function makeInterleaved<Unit extends UnitState>(
  set: WorkingSet<Unit>,
  spec: Unit["spec"],
  puts: readonly WorkUnitPut[],
): Unit[] {
  if (!addsInterleaved(spec.meta, puts.length)) return [];
  const fresh = new Map<string, WorkUnitPut>();
  // a name may occur twice: the first put creates the unit, the second updates it
  for (const put of puts)
    if (!fresh.has(put.name) && set.find(spec, put.name) === undefined) fresh.set(put.name, put);
  return interleaveByPartition([...fresh.values()]).map((put) => set.make(spec, put));
}

/** For a work spec with `aging`: turns the priority into a place in the claim order that reflects when the unit begins to wait. */
const agedPut = (meta: WorkSpecMeta, put: WorkUnitPut, now: number): WorkUnitPut => ({
  ...put,
  priority: agedPriority(meta, put.priority, Math.max(now, put.notBefore)),
  timing: { ...put.timing, priority: put.priority },
});

/** The place in the claim order of a unit that is added again. Unless it is delayed anew, it keeps the priority gained by waiting. */
function keptPlace<Unit extends UnitState>(set: WorkingSet<Unit>, unit: Unit, put: WorkUnitPut): number {
  if (put.notBefore > set.now) return put.priority;
  const given = put.timing?.priority ?? put.priority;
  const timing = set.timing(unit);
  const gained = placeOf(unit.priority, timing) - (timing?.priority ?? unit.priority);
  return Math.max(given + gained, put.priority);
}

/** Applies everything in the put except the data. */
function applyPut<Unit extends UnitState>(set: WorkingSet<Unit>, unit: Unit, put: WorkUnitPut): void {
  const [before, after] = [batchOf(set.extras(unit).labels), batchOf(put.labels)];
  if (before !== after) {
    const { namespace } = unit.spec;
    if (before !== null) set.countInBatch(namespace, before, { total: -1 });
    if (after !== null) set.countInBatch(namespace, after, { total: 1 });
  }
  unit.priority = put.priority;
  unit.notBefore = put.notBefore;
  unit.partition = put.partition ?? "";
  if (put.origin !== undefined) unit.origin = put.origin;
  const extras = extrasOfPut(put);
  if (extras !== noExtras || set.extras(unit) !== noExtras) set.setExtras(unit, extras);
}

function setNeeds<Unit extends UnitState>(set: WorkingSet<Unit>, unit: Unit, needs: readonly Need[]): void {
  for (const need of needs) {
    need.met = needState(set, need) === "met";
    // another daemon's clock may be ahead: this unit must not begin before its dependency ended
    if (need.met) unit.since = Math.max(unit.since, set.unit(need.target)?.attempt?.end ?? 0);
  }
  set.setNeeds(unit, needs);
}

/**
 * Resolves the dependencies of an add, before anything is changed, to existing units or others of the same add. Returns one
 * list per put, null for a put that does not set dependencies.
 */
function* findNeeds<Unit extends UnitState>(
  set: WorkingSet<Unit>,
  spec: Unit["spec"],
  puts: readonly WorkUnitPut[],
): Rule<{ fresh: Unit[]; needs: (Need[] | null)[] }> {
  const wanted = new Map<string, Set<string>>();
  for (const { dependencies } of puts)
    for (const { workSpec, workUnit } of dependencies ?? []) {
      const names = wanted.get(workSpec);
      if (names === undefined) wanted.set(workSpec, new Set([workUnit]));
      else names.add(workUnit);
    }
  yield set.loadSpecs(spec.namespace, wanted.keys());
  for (const [name, names] of wanted) {
    const other = set.spec(spec.namespace, name);
    if (other !== undefined) yield set.loadNames(other, names);
  }
  const units = new Map<string, Unit>();
  const fresh: Unit[] = [];
  for (const put of puts) {
    if (units.has(put.name)) continue;
    let unit = set.find(spec, put.name);
    if (unit === undefined) fresh.push((unit = set.make(spec, put)));
    units.set(put.name, unit);
  }
  const needs = puts.map(({ name, dependencies }) =>
    dependencies === null
      ? null
      : dependencies.map(({ workSpec, workUnit, kind }): Need => {
          const other = set.spec(spec.namespace, workSpec);
          const target =
            (workSpec === spec.name ? units.get(workUnit) : undefined) ??
            (other === undefined ? undefined : set.find(other, workUnit));
          if (target === undefined)
            throw new CoordinateError(
              "bad_dependency",
              `${name} depends on ${workUnit} of work spec ${workSpec}, which does not exist`,
            );
          return { target: target.id, kind, workSpec, workUnit, met: false };
        }),
  );
  yield* refuseCycles(set, puts, units, fresh, needs);
  return { fresh, needs };
}

function* refuseCycles<Unit extends UnitState>(
  set: WorkingSet<Unit>,
  puts: readonly WorkUnitPut[],
  units: ReadonlyMap<string, Unit>,
  fresh: readonly Unit[],
  needs: readonly (readonly Need[] | null)[],
): Rule<void> {
  // only units of this add depend on its new units, so a cycle through other units must contain an existing one
  const isNew = new Set(fresh.map(({ id }) => id));
  const names = new Map<number, string>();
  for (const unit of units.values()) names.set(unit.id, unit.name);
  // a name may occur twice: the last put that sets dependencies counts
  const given = new Map<number, readonly Need[]>();
  const begun = new Set<number>();
  for (const [i, put] of puts.entries()) {
    const unit = units.get(put.name)!;
    const exists = begun.has(unit.id) || !isNew.has(unit.id);
    const throttled = begun.has(unit.id) && (put.throttleMs ?? 0) > 0;
    if (exists && (throttled || isUnchanged(unit, put, set.now))) continue;
    if (!exists || isRequeued(unit, put)) begun.add(unit.id);
    const list = needs[i] ?? null;
    if (list !== null && !keepsPlace(put, exists)) given.set(unit.id, list);
  }
  if ([...given.keys()].some((id) => !isNew.has(id)))
    yield set.loadReachable([...given.values()].flat().map(({ target }) => target));
  const targetsOf = (id: number): number[] =>
    (given.get(id) ?? (isNew.has(id) ? [] : set.needs(id))).map(({ target, workUnit }) => {
      names.set(target, workUnit);
      return target;
    });
  const cycle = findCycle(given.keys(), targetsOf);
  if (cycle !== null)
    throw new CoordinateError("dependency_cycle", cycle.map((one) => names.get(one) ?? "").join(" -> "));
}
