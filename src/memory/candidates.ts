/** What the scheduler needs of each work spec. The caller has brought the namespace up to date. */
import { hasFlowRules, nextToken, tokensOf, type Candidate, type Held } from "../core/index.ts";
import type { Space, Spec } from "./state.ts";

export function listCandidates(space: Space, now: number): Candidate[] {
  const candidates: Candidate[] = [];
  // every claim does this, and Array.from is slow with an iterator
  for (const spec of space.specs.values())
    candidates.push({
      id: spec.id,
      name: spec.name,
      meta: spec.meta,
      available: spec.units.counts.available,
      pending: spec.leases.size,
      topPriority: spec.topPriority,
      nextDue: earliest(spec.due.first()?.notBefore, spec.leases.first()?.attempt?.expiration),
      held: hasFlowRules(spec.meta) ? heldBack(spec, now) : null,
    });
  return candidates;
}

function heldBack(spec: Spec, now: number): Held | null {
  const { meta, full, lanes } = spec;
  if (tokensOf(meta.rate, full, now) < 1) return { reason: "rate", until: nextToken(meta.rate, full, now) };
  if (lanes === null || spec.units.counts.available === 0) return null;
  return lanes.lanes.mayServe(spec, now) ? null : { reason: "partitions", until: lanes.lanes.nextWake };
}

function earliest(a: number | undefined, b: number | undefined): number {
  if (a === undefined) return b ?? 0;
  return b === undefined ? a : Math.min(a, b);
}
