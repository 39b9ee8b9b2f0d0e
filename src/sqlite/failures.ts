/** Failure groups. A failed unit gets a row in `failed`, without a fingerprint. The sweep, or a query for groups, sets it later. */
import {
  failureOf,
  noFailures,
  nameFromBytes,
  nameToBytes,
  summarize,
  type FailurePoint,
  type FailureRow,
} from "../core/index.ts";
import type { Value } from "./driver.ts";
import type { Spec, State } from "./state.ts";
import { findUnit } from "./units.ts";

type Group = Omit<FailureRow, "workSpec">;

function readGroups(state: State, spec: Spec): Map<string, Group> {
  const groups = new Map<string, Group>();
  for (const [fingerprint, error, count, first, last, tries, example, trend] of state.sql.failures.all(
    spec.id,
  ))
    groups.set(fingerprint as string, {
      fingerprint: fingerprint as string,
      error: error as string,
      count: count as number,
      firstTime: first as number,
      lastTime: last as number,
      tries: tries as number,
      example: nameFromBytes(example as Uint8Array),
      trend: typeof trend === "string" ? (JSON.parse(trend) as FailurePoint[]) : [],
    });
  return groups;
}

/** Assigns at most `limit` failed units of a spec to their groups. Returns whether all of them are grouped. */
export function groupFailures(state: State, spec: Spec, limit: number): boolean {
  if (spec.counts.failed === 0) return true;
  const ids = state.sql.ungrouped.all(spec.id, limit).map(([id]) => id as number);
  if (ids.length === 0) return true;
  const groups = readGroups(state, spec);
  const changed = new Set<Group>();
  for (const id of ids) {
    const unit = findUnit(state, id);
    if (unit === undefined) continue;
    const { attempt, data, tries, name } = unit;
    const end = attempt?.end ?? 0;
    const { fingerprint, error } = failureOf(attempt?.data ?? data, attempt?.reason ?? null, groups);
    let group = groups.get(fingerprint);
    if (group === undefined) {
      group = { fingerprint, error, count: 0, ...noFailures() };
      groups.set(fingerprint, group);
    }
    group.count++;
    summarize(group, { name, end, tries });
    changed.add(group);
    state.sql.setGroup.run(fingerprint, id);
  }
  for (const { fingerprint, error, count, firstTime, lastTime, tries, example, trend } of changed)
    state.sql.putFailure.run(
      spec.id,
      fingerprint,
      error,
      count,
      firstTime,
      lastTime,
      tries,
      nameToBytes(example),
      JSON.stringify(trend),
    );
  state.writes++;
  return ids.length < limit;
}

export const failureRows = (state: State, spec: Spec): FailureRow[] =>
  [...readGroups(state, spec).values()].map((group) => ({ workSpec: spec.name, ...group }));

/** Records that the unit has failed. */
export function noteFailed(state: State, unit: number): void {
  state.sql.noteFailed.run(unit);
}

/** Removes units from their failure groups: they are no longer failed, or are deleted. */
export function dropFailed(state: State, spec: Spec, units: readonly number[]): void {
  const list = JSON.stringify(units);
  const left = new Map<Value, number>();
  for (const [fingerprint = null] of state.sql.groupsOf.all(list))
    left.set(fingerprint, (left.get(fingerprint) ?? 0) + 1);
  for (const [fingerprint, count] of left) {
    state.sql.lessFailures.run(count, spec.id, fingerprint);
    state.sql.dropEmptyFailure.run(spec.id, fingerprint);
  }
  state.sql.dropFailed.run(list);
}
