/** Jobs that were begun and never ended: their worker died. They are tried again only as often as they said. */
import type { AttemptRow, Coordinate } from "../core/index.ts";
import type { JobOutcome } from "./job.ts";
import { endedBy } from "./runner.ts";
import { leaseOf } from "./worker-record.ts";

/** The attempts of a job in which it was begun, before that of this number; Infinity: all. */
export async function triesOf(
  verbs: Coordinate,
  ns: string,
  workSpec: string,
  job: string,
  before: number,
): Promise<AttemptRow[]> {
  const all = await verbs.listUnitAttempts(ns, workSpec, job);
  const ended = all.filter(({ number, status }) => number < before && status !== "pending");
  const workers = ended.map(({ worker }) => worker.replace(/\/\d+$/, ""));
  const rows = ended.some(({ status }) => status === "expired") ? await verbs.getWorkers(ns, workers) : [];
  // one that was claimed and given back before it was begun has expired too, but did not last as long as its lease
  return ended.filter(({ status, startTime, expirationTime }, i) => {
    return status !== "expired" || expirationTime - startTime >= Math.floor(leaseOf(rows[i]));
  });
}

/** How a job ends that was lost once too often; null when it may be tried again, or was not lost. */
export function lostOutcome(tries: readonly AttemptRow[], retries: number): JobOutcome | null {
  const last = tries.at(-1);
  if (last?.status !== "expired" || tries.length <= retries) return null;
  return endedBy("CRASH", `worker ${last.worker} was lost while it ran the job`);
}
