/** The input of the scheduler: the work specs of a namespace. */
import {
  defaultNamespaceSettings,
  hasFlowRules,
  hasLanes,
  nextToken,
  tokensOf,
  type AttemptRow,
  type Candidate,
  type Candidates,
  type Held,
} from "../core/index.ts";
import { firstDue } from "./expiry.ts";
import { lanesOf } from "./lanes.ts";
import { readLimits } from "./limits.ts";
import { type Space, type Spec, type State, topPriority } from "./state.ts";

export const noCandidates = (): Candidates => ({
  settings: defaultNamespaceSettings,
  candidates: [],
  repeated: null,
});

export function listCandidates(
  state: State,
  space: Space,
  repeated: AttemptRow[] | null,
  now: number,
): Candidates {
  const candidates: Candidate[] = [];
  for (const spec of space.specs.values())
    candidates.push({
      id: spec.id,
      name: spec.name,
      meta: spec.meta,
      available: spec.counts.available,
      pending: spec.counts.pending,
      topPriority: topPriority(state, spec) ?? 0,
      nextDue: earliest(firstDue(state, spec), state.leases.first(spec.id)?.expiration ?? null),
      held: hasFlowRules(spec.meta) ? heldBack(state, spec, now) : null,
    });
  const limited = candidates.some(({ meta }) => meta.limits.length > 0);
  return {
    settings: space.settings,
    candidates,
    repeated,
    ...(limited && { limits: readLimits(state, space) }),
  };
}

function heldBack(state: State, spec: Spec, now: number): Held | null {
  const { meta, full } = spec;
  if (tokensOf(meta.rate, full, now) < 1) return { reason: "rate", until: nextToken(meta.rate, full, now) };
  if (!hasLanes(meta) || spec.counts.available === 0) return null;
  const lanes = lanesOf(state, spec);
  return lanes.mayServe(spec, now) ? null : { reason: "partitions", until: lanes.nextWake };
}

function earliest(a: number | null, b: number | null): number {
  if (a === null) return b ?? 0;
  return b === null ? a : Math.min(a, b);
}
