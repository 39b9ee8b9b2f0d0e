/**
 * Which work the active workers request, from what each reports in its record, and the rules of the scheduler that concern the
 * requesting worker.
 */
import { decodeData } from "./data.ts";
import type { Exclusion, ScheduleRequest } from "./scheduler.ts";
import { isWorkerLabel } from "./worker-labels.ts";
import type { WorkerRow } from "./worker.ts";

/** The exclusion rules that concern the requesting worker and not the work spec, in the scheduler's order. */
export const workerRules: readonly (Exclusion | null)[] = [
  "other_work_spec",
  "other_runtime",
  "no_task",
  "needs_memory",
  "needs_labels",
];

/** Leaves out slots and children whose parent reports its requests: they send the same requests. */
export function processesOf(workers: readonly WorkerRow[]): WorkerRow[] {
  const telling = new Set(workers.filter(({ data }) => data !== null).map(({ name }) => name));
  return workers.filter(({ parent }) => parent === null || !telling.has(parent));
}

/**
 * The requests of a worker; null when it does not report them. Our workers report `asks`. A Python worker reports its free memory
 * instead, and requests work specs without a runtime.
 */
export function requestsOf({ data }: WorkerRow): ScheduleRequest[] | null {
  if (data === null) return null;
  let report: Readonly<Record<string, unknown>>;
  try {
    report = decodeData(data);
  } catch {
    // any client may store a record: one that cannot be read reports nothing
    return null;
  }
  if (Array.isArray(report.asks)) return report.asks.map(readAsk);
  if (!Array.isArray(report.memory)) return null;
  const free = Number(report.memory[1]) / 1024 ** 3;
  return [{ runtimes: [""], labels: [], ...(free > 0 && { availableGb: Math.round(free * 10) / 10 }) }];
}

/** A worker record is arbitrary client data: values of the wrong type are dropped. */
function readAsk(given: unknown): ScheduleRequest {
  const ask = (typeof given === "object" && given !== null ? given : {}) as Readonly<Record<string, unknown>>;
  const texts = (value: unknown): string[] | undefined =>
    Array.isArray(value) ? value.filter((one) => typeof one === "string") : undefined;
  const runtimes = texts(ask.runtimes);
  const workSpecs = texts(ask.workSpecs);
  const tasks = texts(ask.tasks);
  const { availableGb } = ask;
  return {
    ...(runtimes !== undefined && { runtimes }),
    ...(workSpecs !== undefined && { workSpecs }),
    ...(tasks !== undefined && { tasks }),
    labels: (texts(ask.labels) ?? []).filter(isWorkerLabel),
    ...(ask.modules === true && { modules: true }),
    ...(typeof availableGb === "number" && availableGb > 0 && { availableGb }),
  };
}
