/** Claiming: the best available units of one work spec become attempts. */
import type { AttemptRow } from "./attempt.ts";
import { continuousName, mayGenerate, nextGeneration } from "./continuous.ts";
import { encodeData } from "./data.ts";
import { begin, exhaust, isExhausted } from "./life.ts";
import { resolveConsequences } from "./batching.ts";
import { afterClaim, isTripped, probesLeft } from "./breaker.ts";
import { putUnits } from "./adding.ts";
import {
  begunFirst,
  hasFlowRules,
  hasLanes,
  hasRate,
  holdOf,
  takeTokens,
  tokensOf,
  type LaneState,
} from "./partitions.ts";
import { placesUnder } from "./limits.ts";
import type { Claim, Make } from "./store.ts";
import { attemptRow, type Rule, type UnitState, type WorkingSet } from "./working-set.ts";

/** Units processed between two points where other calls may run. */
const unitsPerTurn = 500;

export interface Claimed {
  attempts: AttemptRow[];
  /** Only units without tries left were met, and others are left. */
  more: boolean;
  /** Units of this or other work specs may have become available: callers that wait for work must be woken. */
  freed: boolean;
}

/**
 * Claims units one at a time, highest priority first, then in name order. A unit without tries left is failed instead and counts
 * against the limit; units that this unblocks may be claimed next.
 */
export function* claimUnits<Unit extends UnitState>(
  set: WorkingSet<Unit>,
  spec: Unit["spec"],
  claim: Claim,
): Rule<Claimed> {
  const attempts: AttemptRow[] = [];
  const { meta } = spec;
  if (meta.paused) return { attempts, more: false, freed: false };
  let places = claim.limit;
  if (meta.maxRunning > 0 || meta.continuous || hasFlowRules(meta)) {
    yield set.loadCounts(spec);
    const pending = set.count(spec, "pending");
    if (meta.maxRunning > 0) places = Math.min(places, meta.maxRunning - pending);
    if (meta.limits.length > 0) {
      yield set.loadLimits(spec);
      places = Math.min(places, placesUnder(set.limits(spec), beginning(set, spec)));
    }
    places = Math.min(places, tokensOf(meta.rate, spec.full, beginning(set, spec)));
    places = Math.min(places, probesLeft(meta, set.now));
    if (places > 0 && mayGenerate(meta, set.count(spec, "available"), pending, set.now)) {
      yield* generate(set, spec);
      places = 1;
    }
  }
  const lanes = hasLanes(meta);
  if (places > 0) yield lanes ? set.loadLanes(spec, places) : set.loadReady(spec, places);
  let exhausted = 0;
  let freed = false;
  for (let met = 0; places > 0; places--) {
    if (++met % unitsPerTurn === 0) yield undefined;
    let open = lanes ? lookForLane(set, spec, places) : undefined;
    while (open instanceof Promise) {
      yield open;
      open = lookForLane(set, spec, places);
    }
    const unit = lanes ? open?.unit : set.ready(spec);
    if (unit === undefined) break;
    if (isExhausted(set, unit, claim.maxRetries)) {
      exhaust(set, unit, claim.worker);
      exhausted++;
      if (!set.isUnresolved()) continue;
      yield* resolveConsequences(set);
      freed = true;
      if (!lanes) yield set.loadReady(spec, places - 1);
      continue;
    }
    attempts.push(attemptRow(unit, begin(set, unit, claim.worker, claim.lifetimeMs)));
    if (open !== undefined) serve(set, spec, open.lane);
  }
  if (hasRate(meta.rate) && attempts.length > 0)
    set.setFull(spec, takeTokens(meta.rate, spec.full, beginning(set, spec), attempts.length));
  if (isTripped(meta) && attempts.length > 0)
    set.changeBreaker(spec, afterClaim(meta, attempts.length, set.now));
  if (meta.limits.length > 0 && attempts.length > 0)
    for (const limit of set.limits(spec))
      if (hasRate(limit.rate))
        set.setLimitFull(
          spec,
          limit.name,
          takeTokens(limit.rate, limit.full, beginning(set, spec), attempts.length),
        );
  if (exhausted === 0 || attempts.length > 0) return { attempts, more: false, freed };
  if (lanes) return { attempts, more: (yield* openLane(set, spec, 1)) !== undefined, freed };
  yield set.loadReady(spec, 1);
  return { attempts, more: set.ready(spec) !== undefined, freed };
}

/** The earliest start of the next attempt. Tokens are taken at this time, so that the start times of attempts respect the rates. */
const beginning = <Unit extends UnitState>(set: WorkingSet<Unit>, spec: Unit["spec"]): number =>
  Math.max(set.now, set.lastFreedAt(spec));

interface OpenLane<Unit> {
  lane: LaneState;
  unit: Unit;
}

/** The next lane that may be served, and its next unit. Puts lanes before it that may not be served on hold. */
export function* openLane<Unit extends UnitState>(
  set: WorkingSet<Unit>,
  spec: Unit["spec"],
  count: number,
): Rule<OpenLane<Unit> | undefined> {
  for (;;) {
    const found = lookForLane(set, spec, count);
    if (!(found instanceof Promise)) return found;
    yield found;
  }
}

/** `openLane` without a generator, which would cost as much as the lookup. If it returns a promise, await that and call again. */
function lookForLane<Unit extends UnitState>(
  set: WorkingSet<Unit>,
  spec: Unit["spec"],
  count: number,
): OpenLane<Unit> | Promise<unknown> | undefined {
  for (;;) {
    const loading = set.loadLanes(spec, count);
    if (loading !== undefined) return loading;
    const lane = set.nextLane(spec);
    if (lane === undefined) return undefined;
    const hold = holdOf(spec.meta, lane, beginning(set, spec));
    const unit = hold === null ? set.nextInLane(spec, lane, begunFirst(spec.meta, lane)) : undefined;
    if (unit !== undefined) return { lane, unit };
    set.hold(spec, lane, hold ?? { reason: "nothing", until: 0 });
  }
}

/** Takes a token from the lane for the unit that has just begun, and holds the lane at once if it may not begin another now. */
function serve<Unit extends UnitState>(set: WorkingSet<Unit>, spec: Unit["spec"], lane: LaneState): void {
  lane.full = takeTokens(spec.meta.ratePerPartition, lane.full, beginning(set, spec), 1);
  set.served(spec, lane);
  const hold = holdOf(spec.meta, lane, beginning(set, spec));
  if (hold !== null) set.hold(spec, lane, hold);
}

/** Names looked up at once. */
const namesPerLook = 100;

/** Creates the unit of a continuous work spec; its name is the first free one from the current time on. */
function* generate<Unit extends UnitState>(set: WorkingSet<Unit>, spec: Unit["spec"]): Rule<void> {
  for (let from = set.now; ; from += namesPerLook) {
    const names = Array.from({ length: namesPerLook }, (_, i) => continuousName(from + i));
    yield set.loadNames(spec, names);
    const name = names.find((one) => set.find(spec, one) === undefined);
    if (name === undefined) continue;
    yield* putUnits(set, spec, [
      { name, data: encodeData({}), priority: 0, notBefore: 0, dependencies: null },
    ]);
    break;
  }
  set.setNextContinuous(spec, nextGeneration(spec.meta, set.now));
}

/** Makes attempts for the given units, whatever their status; their previous attempts lose their leases. */
export function makeAttempts<Unit extends UnitState>(
  set: WorkingSet<Unit>,
  units: readonly Unit[],
  makes: readonly Make[],
): AttemptRow[] {
  // build each row right away: a unit may be given twice, and its first attempt ends when the second is made
  return units.map((unit, i) => {
    const { worker = "", lifetimeMs = 0 } = makes[i] ?? {};
    return attemptRow(unit, begin(set, unit, worker, lifetimeMs));
  });
}
