/** Scheduled runs: creates the units of a schedule when they are due. */
import { putUnits } from "./adding.ts";
import { latestTime } from "./check.ts";
import { encodeData } from "./data.ts";
import { resolveConsequences } from "./batching.ts";
import { dueRuns, isRunDue, nextRun, ranAhead, runDelay, runName } from "./schedule.ts";
import type { WorkUnitPut } from "./store.ts";
import type { Rule, UnitState, WorkingSet } from "./working-set.ts";

/**
 * Creates the units of the runs that are due, and saves when the next one is; starts the schedule again if a clock was ahead. A store
 * calls it while no other call changes the work spec, so that exactly one daemon creates each run. Returns how many units were created.
 */
export function* makeRuns<Unit extends UnitState>(set: WorkingSet<Unit>, spec: Unit["spec"]): Rule<number> {
  const { meta, name } = spec;
  if (!isRunDue(meta, set.now)) return 0;
  const { schedule } = meta;
  if (ranAhead(meta, set.now)) {
    set.setRuns(spec, nextRun(schedule, set.now), 0);
    return 0;
  }
  const { overlap = "allow" } = schedule;
  const times = dueRuns(meta, set.now);
  let last = meta.lastRun;
  yield set.loadNames(spec, [last, ...times].map(runName));
  let made = 0;
  for (const time of times) {
    const before = last === 0 ? undefined : set.find(spec, runName(last));
    const open = before !== undefined && before.status !== "finished" && before.status !== "failed";
    if (open && (overlap === "skip" || (overlap === "wait" && before.status === "blocked"))) continue;
    last = time;
    if (set.find(spec, runName(time)) !== undefined) continue;
    const delay = runDelay(name, schedule, time);
    const put: WorkUnitPut = {
      name: runName(time),
      data: encodeData({}),
      priority: 0,
      notBefore: delay > 0 ? Math.min(time + delay, latestTime) : 0,
      dependencies:
        open && overlap === "wait" ? [{ workSpec: name, workUnit: before.name, kind: "soft" }] : null,
    };
    yield* putUnits(set, spec, [put]);
    made++;
  }
  set.setRuns(spec, nextRun(schedule, set.now), last);
  yield* resolveConsequences(set);
  return made;
}
