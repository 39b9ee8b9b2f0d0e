/** Waits for jobs to end. The requests are long polls: the coordinator answers when all jobs have ended. */
import {
  CoordinateError,
  isCoordinateError,
  type Clock,
  type Coordinate,
  type WorkUnitRow,
} from "../core/index.ts";
import { JobFailedError, WaitTimeoutError } from "./errors.ts";
import type { WaitOptions } from "./handle.ts";
import { isFinal, jobOf, type Job } from "./job.ts";

export interface Waited {
  readonly id: string;
  /** The work spec of the job. */
  readonly workSpec: string;
}

export interface Waiting {
  readonly verbs: Coordinate;
  readonly ns: string;
  readonly clock: Clock;
}

/** How long one request waits: shorter than the idle timeout of proxies. */
const waitMs = 30_000;
/** The delay before a retry when the coordinator does not answer. */
const pauseMs = 250;

/** With `failFast`, one request waits only this long, so that a failed job is noticed before all have ended. */
const failureLookMs = 500;

/** Resolves when all jobs have ended. Throws `gone` for a deleted job and, with `failFast`, a `JobFailedError` for a failed one. */
export async function settle(
  { verbs, ns, clock }: Waiting,
  jobs: readonly Waited[],
  { timeoutMs = Infinity, signal }: WaitOptions,
  failFast: boolean,
): Promise<Job[]> {
  if (!(timeoutMs >= 0))
    throw new CoordinateError("bad_argument", `timeoutMs: expected 0 or more, got ${timeoutMs}`);
  const deadline = clock.now() + timeoutMs;
  const rows = new Map<string, WorkUnitRow>();
  const workSpecs = new Set(jobs.map(({ workSpec }) => workSpec));
  // nearly always there is one work spec; then only the caller can end the wait
  const failed = workSpecs.size > 1 ? new AbortController() : null;
  const signals = [signal, failed?.signal].filter((one) => one !== undefined);
  const either = signals.length > 1 ? AbortSignal.any(signals) : signals[0];
  const roundMs = failFast && jobs.length > 1 ? failureLookMs : waitMs;
  const settleIn = async (workSpec: string): Promise<void> => {
    let open = [...new Set(jobs.filter((job) => job.workSpec === workSpec).map(({ id }) => id))];
    while (open.length > 0) {
      either?.throwIfAborted();
      const left = deadline - clock.now();
      const found = await look(verbs, ns, workSpec, open, Math.max(0, Math.min(left, roundMs)), either);
      if (found === null) {
        // the coordinator may be restarting: jobs survive that, and so does the wait
        if (left <= 0) throw new WaitTimeoutError(open, timeoutMs, "the coordinator to answer");
        await clock.waitUntil(Math.min(deadline, clock.now() + pauseMs), either);
        continue;
      }
      const names = open;
      found.forEach((row, i) => {
        if (row === null) throw new CoordinateError("gone", names[i] ?? "");
        if (failFast && row.status === "failed") throw new JobFailedError(jobOf(row));
        if (isFinal(row.status)) rows.set(row.name, row);
      });
      open = open.filter((id) => !rows.has(id));
      if (open.length > 0 && left <= 0) {
        either?.throwIfAborted();
        throw new WaitTimeoutError(
          open,
          timeoutMs,
          open.length === 1 ? `job ${open[0] ?? ""}` : `${open.length} jobs`,
        );
      }
    }
  };
  try {
    await Promise.all([...workSpecs].map(settleIn));
  } finally {
    // end the wait in the other work spec
    failed?.abort("another has failed");
  }
  return jobs.map(({ id }) => {
    const row = rows.get(id);
    if (row === undefined) throw new CoordinateError("gone", id);
    return jobOf(row);
  });
}

/** Null when the coordinator cannot be reached. */
async function look(
  verbs: Coordinate,
  ns: string,
  workSpec: string,
  names: readonly string[],
  wait: number,
  signal: AbortSignal | undefined,
): Promise<(WorkUnitRow | null)[] | null> {
  try {
    return await verbs.awaitWorkUnits(ns, workSpec, names, {
      waitMs: wait,
      ...(signal !== undefined && { signal }),
    });
  } catch (error) {
    if (isCoordinateError(error, "unavailable", "unknown_outcome")) return null;
    throw error;
  }
}
