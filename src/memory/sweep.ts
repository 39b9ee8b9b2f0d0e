/** Housekeeping: applies elapsed time, fails units that were tried too often, removes ended units and inactive workers. */
import {
  countRetired,
  exhaustUnits,
  removeUnits,
  unitsSwept,
  type Swept,
  type SweepLimits,
} from "../core/index.ts";
import { catchUpSpecs } from "./expiry.ts";
import { forgetTaken } from "./queues.ts";
import type { Space, Spec, UnitTable, Unit, Worker } from "./state.ts";
import { type MemorySet, run } from "./working-set.ts";
import { forgetWorker } from "./workers.ts";

/** Sweeps one namespace and adds to `swept`; true when units were changed. */
export function sweepSpace(
  set: MemorySet,
  units: UnitTable,
  space: Space,
  limits: SweepLimits,
  now: number,
  swept: Swept,
): boolean {
  const total = (): number => unitsSwept(swept) + swept.generated;
  const before = total();
  const left = Math.max(0, limits.units - unitsSwept(swept));
  const { expired, due, generated } = catchUpSpecs(set, space.specs.values(), now, left);
  swept.generated += generated;
  swept.expired += expired;
  swept.due += due;
  exhaust(set, space, limits, now, swept);
  for (const spec of space.specs.values()) sweepSpec(set, spec, limits, now, swept);
  forgetTaken(space, limits.requestsBefore);
  for (const [id, { time }] of space.requests) {
    if (time >= limits.requestsBefore) break;
    space.requests.delete(id);
  }
  for (const worker of space.workers.values()) trimLog(worker, units);
  for (const worker of space.workers.values())
    swept.workers += forgetWorker(space, worker, limits.workersBefore);
  return total() > before;
}

/** Removes attempts of deleted units, when the log has doubled since it was last trimmed. */
function trimLog(worker: Worker, units: UnitTable): void {
  if (worker.log.length < 2 * worker.trimmed + 3000) return;
  worker.log = worker.log.filter((_, i, log) => units.get(log[i - (i % 3) + 1] ?? 0) !== undefined);
  worker.trimmed = worker.log.length;
}

/** Goes through the work specs until none has exhausted units: failing one unit may unblock another that is exhausted as well. */
function exhaust(set: MemorySet, space: Space, limits: SweepLimits, now: number, swept: Swept): void {
  const left = (): number => limits.units - unitsSwept(swept);
  let stuck = 0;
  for (let before = -1; before !== swept.exhausted;) {
    before = swept.exhausted;
    stuck = 0;
    for (const spec of space.specs.values())
      while (spec.exhausted.size > 0 && left() > 0) {
        const units = [...spec.exhausted].slice(0, left());
        const failed = run(exhaustUnits(set.at(now), units));
        swept.exhausted += failed;
        if (failed > 0) continue;
        stuck += units.length;
        break;
      }
  }
  swept.stuck += stuck;
}

function sweepSpec(set: MemorySet, spec: Spec, limits: SweepLimits, now: number, swept: Swept): void {
  const left = (): number => limits.units - unitsSwept(swept);
  if (!spec.failures.group(limits.units)) swept.more = true;
  for (const status of ["finished", "failed"] as const) {
    const limit = spec.meta.retention[status];
    const ended = spec.ended?.[status];
    if (limit === undefined || ended === undefined) continue;
    const oldest: Unit[] = [];
    for (const unit of ended) if (oldest.push(unit) >= left()) break;
    const ends = oldest.map(({ attempt }) => attempt?.end ?? 0);
    const units = left() <= 0 ? [] : oldest.slice(0, countRetired(limit, ends, ended.size, now));
    run(removeUnits(set.at(now), units, true));
    spec.removed[status] += units.length;
    swept.retired += units.length;
  }
  if (left() <= 0) swept.more = true;
  spec.lanes?.lanes.prune(now);
}
