/** Claiming: the best available units of one work spec become attempts. */
import type { AttemptRow } from "./attempt.ts";
import { continuousName, mayGenerate, nextGeneration } from "./continuous.ts";
import { encodeData } from "./data.ts";
import { begin, exhaust, isExhausted } from "./life.ts";
import { conclude } from "./batching.ts";
import { putUnits } from "./adding.ts";
import type { Claim, Make } from "./store.ts";
import { attemptRow, type Rule, type UnitState, type WorkingSet } from "./working-set.ts";

/** Units between two places where others may have a turn. */
const unitsPerTurn = 500;

/**
 * Takes units one at a time, highest priority first, then in name order. A unit that was tried too often is failed instead and
 * takes up a place; what it frees may be next. `more` is set when only such units were met and others are left.
 */
export function* claimUnits<Unit extends UnitState>(
  set: WorkingSet<Unit>,
  spec: Unit["spec"],
  claim: Claim,
): Rule<{ attempts: AttemptRow[]; more: boolean }> {
  const attempts: AttemptRow[] = [];
  const { meta } = spec;
  if (meta.paused) return { attempts, more: false };
  let places = claim.limit;
  if (meta.maxRunning > 0 || meta.continuous) {
    yield set.loadCounts(spec);
    const pending = set.count(spec, "pending");
    if (meta.maxRunning > 0) places = Math.min(places, meta.maxRunning - pending);
    if (places > 0 && mayGenerate(meta, set.count(spec, "available"), pending, set.now)) {
      yield* generate(set, spec);
      places = 1;
    }
  }
  if (places > 0) yield set.loadReady(spec, places);
  let exhausted = 0;
  for (let met = 0; places > 0; places--) {
    if (++met % unitsPerTurn === 0) yield undefined;
    const unit = set.ready(spec);
    if (unit === undefined) break;
    if (isExhausted(unit, claim.maxRetries)) {
      exhaust(set, unit, claim.worker);
      exhausted++;
      if (!set.isUnresolved()) continue;
      yield* conclude(set);
      yield set.loadReady(spec, places - 1);
      continue;
    }
    attempts.push(attemptRow(unit, begin(set, unit, claim.worker, claim.lifetimeMs)));
  }
  if (exhausted === 0 || attempts.length > 0) return { attempts, more: false };
  yield set.loadReady(spec, 1);
  return { attempts, more: set.ready(spec) !== undefined };
}

/** Names tried in one look. */
const namesPerLook = 100;

/** Makes the unit of a continuous spec, under the first free name from now on. */
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

/** Gives units to workers wherever they stand; what was their attempt loses its lease. */
export function makeAttempts<Unit extends UnitState>(
  set: WorkingSet<Unit>,
  units: readonly Unit[],
  makes: readonly Make[],
): AttemptRow[] {
  // rows are made at once: a unit may be given twice, and then the first attempt is over when the second is made
  return units.map((unit, i) => {
    const { worker = "", lifetimeMs = 0 } = makes[i] ?? {};
    return attemptRow(unit, begin(set, unit, worker, lifetimeMs));
  });
}
