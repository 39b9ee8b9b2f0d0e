/** In a child process: runs a plain function for every unit of a claim, several at once. */
import type { Attempt } from "../../objects/index.ts";
import type { TaskLog } from "../log.ts";
import { settleEach, settleReturned, settleThrown } from "../outcome.ts";
import { endedByStop } from "../stops.ts";
import { readable } from "../traceback.ts";
import { Unit, type BulkContext, type UnitContext, type UnitTask } from "../task.ts";

/** When the signal aborts, units that have not begun are released. Resolves when every unit is settled. */
export async function runUnits(
  work: UnitTask,
  attempts: readonly Attempt[],
  context: BulkContext,
  concurrency: number,
  logOf: (attempt: Attempt) => TaskLog,
): Promise<void> {
  const settles: Promise<void>[] = [];
  const { signal } = context;
  let next = 0;
  const lane = async (): Promise<void> => {
    for (let attempt = attempts[next++]; attempt !== undefined; attempt = attempts[next++]) {
      const own = attempt;
      if (signal.aborted) {
        settles.push(settleEach([own], () => own.release()));
        continue;
      }
      try {
        const value = await work(new Unit(own, context.clock.now()), unitContext(own, context, logOf));
        if (own.status === "pending") settles.push(settleReturned(own, value));
      } catch (thrown) {
        const error = readable(thrown);
        const settle = (): Promise<unknown> =>
          endedByStop(error, signal.reason) ? own.release() : settleThrown(own, error);
        if (own.status === "pending") settles.push(settleEach([own], settle));
      }
    }
  };
  await Promise.all(Array.from({ length: Math.min(concurrency, attempts.length) }, lane));
  await Promise.all(settles);
}

const unitContext = (
  attempt: Attempt,
  context: BulkContext,
  logOf: (attempt: Attempt) => TaskLog,
): UnitContext => ({
  ...context,
  log: logOf(attempt),
  progress: (progress: number | object, note?: string) => context.progress(attempt, progress, note),
});
