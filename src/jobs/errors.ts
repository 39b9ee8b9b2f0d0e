/** The errors that waiting for a job may throw, besides those of the coordinator. */
import type { Job } from "./job.ts";

/** The job ended in ERROR. `job` is its record; the message contains the message of the job's error. */
export class JobFailedError extends Error {
  override readonly name = "JobFailedError";
  readonly job: Job;

  constructor(job: Job) {
    super(`job ${job.name} failed (${job.error_cat}): ${job.error?.message ?? "no reason given"}`);
    this.job = job;
  }
}

/** No job failed: the wait took longer than the caller allowed. */
export class WaitTimeoutError extends Error {
  override readonly name = "WaitTimeoutError";
  /** What has not ended: job ids, or the name of the queue. */
  readonly waitedFor: readonly string[];

  constructor(waitedFor: readonly string[], timeoutMs: number, what: string) {
    super(`waited ${timeoutMs} ms for ${what}`);
    this.waitedFor = waitedFor;
  }
}
