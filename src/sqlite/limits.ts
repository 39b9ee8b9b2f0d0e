/** Shared limits of work specs: one row per limit, by name. */
import {
  limitNames,
  nameFromBytes,
  nameToBytes,
  refersTo,
  type SharedLimit,
  type SharedLimitState,
} from "../core/index.ts";
import type { Space, Spec, State } from "./state.ts";

export const readLimits = (state: State, space: Space): SharedLimit[] =>
  state.sql.limits.all(space.id).map(([name, rule, full]) => ({
    ...(JSON.parse(rule as string) as Pick<SharedLimit, "maxRunning" | "rate">),
    name: nameFromBytes(name as Uint8Array),
    full: full as number,
  }));

export function putLimits(state: State, space: Space, limits: readonly SharedLimit[]): void {
  for (const { name, maxRunning, rate } of limits) {
    state.writes++;
    state.sql.setLimit.run(space.id, nameToBytes(name), JSON.stringify({ maxRunning, rate }));
  }
}

export function deleteLimit(state: State, space: Space, name: string): boolean {
  state.writes++;
  return state.sql.dropLimit.run(space.id, nameToBytes(name)) > 0;
}

/** The shared limits of a spec, each with the number of units that run under it. */
export function limitsOf(state: State, spec: Spec, now: number): SharedLimitState[] {
  const names = limitNames(spec.meta);
  return readLimits(state, spec.space)
    .filter(({ name }) => names.includes(name))
    .map((limit) => {
      let running = 0;
      for (const one of spec.space.specs.values())
        if (refersTo(one.meta, limit.name))
          running += one.counts.pending - state.leases.ended(one.id, now, Infinity).length;
      return { ...limit, running };
    });
}
