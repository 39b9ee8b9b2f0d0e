/** The outcomes of attempts, as counted by the breakers of work specs. */
import { countedFrom, type OutcomeCounts } from "../core/index.ts";
import type { Spec, State } from "./state.ts";

export function readOutcomes(state: State, spec: Spec, now: number): OutcomeCounts {
  const rows = state.sql.outcomes.all(spec.id, countedFrom(spec.meta, now));
  return new Map(rows.map(([kind, count]) => [String(kind), Number(count)]));
}

export function addOutcomes(state: State, spec: Spec, at: number, counts: OutcomeCounts, now: number): void {
  state.writes++;
  if (spec.countedAt !== at) {
    // the first count of a new time slot deletes counts that are too old
    state.sql.dropOutcomes.run(spec.id, countedFrom(spec.meta, now));
    spec.countedAt = at;
  }
  for (const [kind, count] of counts) state.sql.addOutcome.run(spec.id, at, kind, count);
}
