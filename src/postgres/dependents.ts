/** What hangs on a unit: units that wait for it. */
import { brokenDependency, CoordinateError, findCycle, type WorkUnitPut } from "../core/index.ts";
import { isRow } from "./connection.ts";
import {
  needState,
  needsState,
  place,
  standing,
  waitingStatus,
  type Batch,
  type Need,
  type Spec,
  type Unit,
} from "./state.ts";
import { findSpecs } from "./work-specs.ts";
import { int8s } from "./values.ts";

/**
 * Finds what the units of an add wait for, before anything is changed: units that exist, or others of the same add.
 * Throws for unknown ones and for cycles.
 */
export async function findNeeds(
  batch: Batch,
  spec: Spec,
  puts: readonly WorkUnitPut[],
  units: ReadonlyMap<string, Unit>,
): Promise<Map<Unit, Need[]>> {
  const names = new Map<string, Set<string>>();
  for (const put of puts)
    for (const { workSpec, workUnit } of put.dependencies ?? []) {
      const wanted = names.get(workSpec) ?? new Set<string>();
      names.set(workSpec, wanted.add(workUnit));
    }
  const specs = new Map<string, Spec>();
  const others = [...names.keys()].filter((name) => name !== spec.name);
  for (const other of await findSpecs(batch.tx, spec.namespaceName, others))
    specs.set(other.name, batch.spec(other));
  specs.set(spec.name, spec);
  for (const [name, wanted] of names) {
    const other = specs.get(name);
    if (other !== undefined) await batch.loadNames(other, wanted);
  }
  const found = new Map<Unit, Need[]>();
  for (const put of puts) {
    const unit = units.get(put.name);
    if (unit === undefined || put.dependencies === null) continue;
    const needs = put.dependencies.map(({ workSpec, workUnit, kind }): Need => {
      const other = specs.get(workSpec);
      const target =
        (other === spec ? units.get(workUnit) : undefined) ??
        (other === undefined ? undefined : batch.find(other, workUnit));
      if (target === undefined)
        throw new CoordinateError(
          "bad_dependency",
          `${put.name} waits for ${workUnit} of work spec ${workSpec}, which does not exist`,
        );
      return {
        target: target.id,
        hard: kind === "hard",
        met: false,
        targetSpec: workSpec,
        targetName: workUnit,
        status: standing(target),
      };
    });
    found.set(unit, needs);
  }
  await refuseCycles(batch, found, units);
  return found;
}

async function refuseCycles(
  batch: Batch,
  found: ReadonlyMap<Unit, Need[]>,
  units: ReadonlyMap<string, Unit>,
): Promise<void> {
  const edges = new Map<number, number[]>();
  const names = new Map<number, string>();
  for (const unit of units.values()) names.set(unit.id, unit.name);
  // only through units that exist already can an add close a circle that leaves it
  const existing = [...found.keys()].filter((unit) => unit.stored !== null);
  if (existing.length > 0) {
    // one at a time: two adds could close a circle together that neither of them sees
    const [spec] = existing.map((unit) => unit.spec);
    await batch.tx.rows("SELECT 1 FROM @namespace WHERE id = $1 FOR UPDATE", [spec?.namespace]);
    const targets = [...found.values()].flat().map(({ target }) => target);
    const rows = await batch.tx.rows(
      `WITH RECURSIVE reached (id) AS (
         SELECT * FROM unnest($1::bigint[])
         UNION SELECT d.target FROM reached r JOIN @need d ON ${isRow("d.unit", "r.id")}
       )
       SELECT d.unit, d.target, d.target_name FROM reached r JOIN @need d ON ${isRow("d.unit", "r.id")} ORDER BY d.unit, d.position`,
      [int8s(targets)],
    );
    for (const [unit, target] of rows as [number, number][]) {
      const list = edges.get(unit) ?? [];
      edges.set(unit, list);
      list.push(target);
    }
    for (const [, target, name] of rows as [number, number, Buffer][])
      if (!names.has(target)) names.set(target, name.toString());
  }
  for (const [unit, needs] of found) {
    edges.set(
      unit.id,
      needs.map(({ target }) => target),
    );
    for (const { target, targetName } of needs) names.set(target, targetName);
  }
  for (const [unit, needs] of found) {
    const cycle = needs.length === 0 ? null : findCycle(unit.id, (id) => edges.get(id) ?? []);
    if (cycle !== null)
      throw new CoordinateError("dependency_cycle", cycle.map((id) => names.get(id) ?? id).join(" -> "));
  }
}

export function setNeeds(batch: Batch, unit: Unit, needs: Need[]): void {
  unit.needRows = needs;
  unit.needs = needs.length > 0;
  unit.needsChanged = true;
  unit.changed = true;
  for (const need of needs) {
    const other = batch.units.get(need.target);
    if (other !== undefined) need.status = standing(other);
    need.met = needState(need) === "met";
    if (other === undefined || other.dependents) continue;
    other.dependents = true;
    other.changed = true;
  }
}

/**
 * Units ended or were deleted: what they meet stays met, their dependents go on or fail, and then theirs. Dependents are locked, wherever they stand, before it is read what they wait for: of two transactions that each end one of
 * the last two, the later one sees what the earlier one did.
 */
export async function resolve(batch: Batch, ended: readonly Unit[]): Promise<void> {
  let work = ended.filter(({ dependents }) => dependents);
  while (work.length > 0) {
    const ids = new Set(work.map(({ id }) => id));
    const meets = (test: (unit: Unit) => boolean): Buffer => int8s(work.filter(test).map(({ id }) => id));
    await batch.tx.rows(
      `UPDATE @need SET met = true
       WHERE NOT met AND (target = ANY ($1::bigint[]) OR (NOT hard AND target = ANY ($2::bigint[])))`,
      [
        meets((unit) => standing(unit) === "finished"),
        meets((unit) => unit.deleted || unit.status === "failed"),
      ],
    );
    const rows = await batch.tx.rows("SELECT DISTINCT unit FROM @need WHERE target = ANY ($1::bigint[])", [
      int8s([...ids]),
    ]);
    const waiting = new Set((rows as [number][]).map(([unit]) => unit));
    // those of this transaction are not in the table yet
    for (const unit of batch.units.values())
      if (unit.needsChanged)
        if (unit.needRows?.some(({ target }) => ids.has(target)) === true) waiting.add(unit.id);
        else waiting.delete(unit.id);
    await batch.load([...waiting]);
    const dependents = [...waiting]
      .map((id) => batch.units.get(id))
      .filter((unit) => unit !== undefined && !unit.deleted) as Unit[];
    await batch.loadNeeds(dependents);
    for (const { needRows } of dependents)
      for (const need of needRows ?? []) need.met = needState(need) === "met";
    work = [];
    for (const dependent of dependents) if (unblock(batch, dependent)) work.push(dependent);
    work = work.filter((unit) => unit.dependents);
  }
}

/** Places a unit that nobody runs: where it waits, or failed when what it waits for is broken. That must have been read. */
export async function park(batch: Batch, unit: Unit): Promise<void> {
  place(unit, waitingStatus(unit, batch.now));
  if (unit.status === "blocked" && unblock(batch, unit)) await resolve(batch, [unit]);
}

/** True when the unit failed over it. What it waits for must have been read. */
function unblock(batch: Batch, unit: Unit): boolean {
  if (unit.deleted || unit.status !== "blocked" || unit.needRows === null || !unit.needs) return false;
  for (const need of unit.needRows) {
    const target = batch.units.get(need.target);
    if (target !== undefined) need.status = standing(target);
  }
  const state = needsState(unit.needRows);
  if (state === "open") return false;
  if (state === "broken") {
    const broken = unit.needRows.find((need) => needState(need) === "broken");
    if (broken === undefined) return false;
    batch.fail(unit, "", brokenDependency(broken.targetSpec, broken.targetName, broken.status));
    return true;
  }
  unit.since = batch.now;
  place(unit, waitingStatus(unit, batch.now));
  return false;
}

/** Units that are gone wait for nobody. */
export async function forgetNeeds(batch: Batch, units: readonly Unit[]): Promise<void> {
  const needy = units.filter(({ needs }) => needs).map(({ id }) => id);
  if (needy.length > 0)
    await batch.tx.rows("DELETE FROM @need WHERE unit = ANY ($1::bigint[])", [int8s(needy)]);
}
