/** Updates the breakers of work specs when attempts end. */
import { afterProbes, countedAt, countsOf, finishedKey, isTripped, tripBy } from "./breaker.ts";
import type { Rule, UnitState, WorkingSet } from "./working-set.ts";

/** Counts the outcomes of this verb's attempts. Failures may trip the breakers of their work specs, and probes may close them. */
export function* countOutcomes<Unit extends UnitState>(set: WorkingSet<Unit>): Rule<void> {
  const specs = set.takeOutcomes();
  if (specs === null) return;
  // always in the same order, so that two transactions wait for each other and do not deadlock
  const inOrder = specs.size > 1 ? [...specs].sort(([a], [b]) => a.id - b.id) : specs;
  for (const [spec, outcomes] of inOrder) {
    if (outcomes.failed.length === 0 && !isTripped(spec.meta)) {
      const counts = new Map([[finishedKey, outcomes.finished.length]]);
      set.addCounts(spec, countedAt(spec.meta, set.now), counts);
      continue;
    }
    yield set.loadBreaker(spec);
    const { meta } = spec;
    if (isTripped(meta)) {
      const state = afterProbes(meta, outcomes, set.now);
      if (state !== meta.breakerState) set.changeBreaker(spec, state);
      continue;
    }
    set.addCounts(spec, countedAt(meta, set.now), countsOf(meta.breaker, outcomes, set.counts(spec)));
    const tripped = tripBy(meta, outcomes, set.counts(spec), set.now);
    if (tripped !== null) set.changeBreaker(spec, tripped);
  }
}
