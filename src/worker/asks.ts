/** What a worker asks the coordinator for, told with every check-in: so that others can say which work it can take. */
import type { ScheduleRequest } from "../core/index.ts";
import type { WorkerSettings } from "./options.ts";
import type { Runtime } from "./runtime.ts";

/** What is requested for a runtime. */
export const askOf = ({ names, taskNames, modules }: Runtime): ScheduleRequest => ({
  runtimes: [...names],
  ...(taskNames !== undefined && { tasks: [...taskNames] }),
  ...(modules === true && { modules }),
});

/** One for each runtime, as the requests are. */
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
