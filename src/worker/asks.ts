/** The filters of a worker's claim requests, sent with every check-in so that others can see which work it can take. */
import type { ScheduleRequest } from "../core/index.ts";
import type { WorkerSettings } from "./options.ts";
import type { Runtime } from "./runtime.ts";

/** The filter of the requests for one runtime. */
export const askOf = ({ names, taskNames, modules }: Runtime): ScheduleRequest => ({
  runtimes: [...names],
  ...(taskNames !== undefined && { tasks: [...taskNames] }),
  ...(modules === true && { modules }),
});

/** One filter for each runtime, because each runtime has its own requests. */
export function asksOf({
  runtimes,
  workSpecs,
  availableGb,
  labels,
}: Pick<WorkerSettings, "runtimes" | "workSpecs" | "availableGb" | "labels">): ScheduleRequest[] {
  return runtimes.map((runtime) => ({
    ...askOf(runtime),
    ...(workSpecs.length > 0 && { workSpecs: [...workSpecs] }),
    ...(availableGb > 0 && { availableGb }),
    ...(labels.length > 0 && { labels: [...labels] }),
  }));
}
