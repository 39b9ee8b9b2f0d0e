/** Expired leases and elapsed delays take effect by rule. Rows are moved here, when a verb meets them, a bounded piece at a time. */
import { expireUnits, releaseDue } from "../core/index.ts";
import { expirePlain, releasePlain } from "./fast-paths.ts";
import type { Spec, State } from "./state.ts";
import { apply, type SqliteSet } from "./working-set.ts";

/** What one call moves at most: about 10 ms of work. */
export const maxMoved = 1000;

export interface Moved {
  expired: number;
  due: number;
  /** Nothing is past its time any more. */
  done: boolean;
}

/** Whether anything in the spec is past its time: a comparison or two. */
export function isBehind(state: State, spec: Spec, now: number): boolean {
  const lease = state.leases.first(spec.id);
  if (lease !== undefined && lease.expiration <= now) return true;
  const due = firstDue(state, spec);
  return due !== null && due <= now;
}

export function firstDue(state: State, spec: Spec): number | null {
  if (spec.due === undefined)
    spec.due =
      spec.counts.delayed === 0
        ? null
        : ((state.sql.firstDelayed.get(spec.id)?.[0] ?? null) as number | null);
  return spec.due;
}

export function catchUp(state: State, spec: Spec, now: number, limit = maxMoved): Moved {
  if (!isBehind(state, spec, now)) return { expired: 0, due: 0, done: true };
  const expired = expireLeases(state, spec, now, limit);
  const due = releaseDelayed(state, spec, now, limit);
  return { expired, due, done: expired < limit && due < limit ? true : !isBehind(state, spec, now) };
}

const unitsOf = (set: SqliteSet, ids: readonly number[]) =>
  ids.map((id) => set.unit(id)).filter((unit) => unit !== undefined);

function expireLeases(state: State, spec: Spec, now: number, limit: number): number {
  const leases = state.leases.ended(spec.id, now, limit);
  if (leases.length === 0 || expirePlain(state, spec, leases, now)) return leases.length;
  const ids = leases.map(({ unit }) => unit);
  apply(state, now, (set) => expireUnits(set, unitsOf(set, ids)));
  return leases.length;
}

function releaseDelayed(state: State, spec: Spec, now: number, limit: number): number {
  const first = firstDue(state, spec);
  if (first === null || first > now || limit <= 0) return 0;
  const rows = state.sql.due.all(spec.id, now, limit);
  const ids = rows.map(([id]) => id as number);
  if (!releasePlain(state, spec, ids, rows.at(-1)?.[1] as number))
    apply(state, now, (set) => releaseDue(set, unitsOf(set, ids)));
  return ids.length;
}
