export { actionKey, type Action, type ActionKind } from "./action.ts";
export { currentJob, type CurrentJob, type FinishedDependency } from "./current.ts";
export { JobFailedError, WaitTimeoutError } from "./errors.ts";
export type { EventCategory, JobEvent } from "./events.ts";
export { reference, type ModuleFunction } from "./function.ts";
export { JobHandle, type WaitAllOptions, type WaitOptions } from "./handle.ts";
export {
  jobStates,
  type ErrorCategory,
  type Job,
  type JobError,
  type JobErrorFrame,
  type JobState,
  type Outcome,
} from "./job.ts";
export { JobBatch, Jobs, openJobs, type JobRef, type JobsOptions } from "./jobs.ts";
export type { JobWorker } from "./job-worker.ts";
export type { JobQuery } from "./listing.ts";
export type { JobWorkerOptions } from "./options.ts";
export { JobPool, type PoolOptions, type StopOptions } from "./pool.ts";
export type { JobRetention } from "./queue.ts";
export { ReturnQueue } from "./return-queue.ts";
export type { DependencyRef, ScheduleItem, ScheduleOptions } from "./schedule.ts";
export { actionSchema, jobSchema, schemas, workerSchema, type Schema, type SchemaField } from "./schema.ts";
export { singleName, type SingleOptions } from "./single.ts";
export type { JobWorkerRecord, WorkerStateName, WorkerType } from "./worker-record.ts";
export { JobWorkers, type WorkerCheck } from "./workers.ts";
