/** Lets a running function read its job: `currentJob()` works inside the function, at any depth of calls. */
import { AsyncLocalStorage } from "node:async_hooks";

export interface CurrentJob {
  readonly id: string;
  readonly name: string;
  readonly category: string;
  /** The number of the try, from 1. */
  readonly attempt: number;
  /** The jobs that this job waited for, with their results. */
  readonly dependencies: readonly FinishedDependency[];
  /** Aborted when the job was cancelled or its worker stops. The process is killed soon after. */
  readonly signal: AbortSignal;
  /** Reports a progress value, which is kept with the job while it runs. JSON. */
  progress(value: unknown): void;
}

export interface FinishedDependency {
  readonly id: string;
  readonly name: string;
  readonly state: "OK" | "ERROR";
  readonly result: unknown;
}

// one per process, even when several copies of this package are loaded
const key = Symbol.for("coordinate.jobs.current");
const holder = globalThis as { [key]?: AsyncLocalStorage<CurrentJob> | undefined };
export const currentStorage: AsyncLocalStorage<CurrentJob> = (holder[key] ??= new AsyncLocalStorage());

/** Throws outside of a job. */
export function currentJob(): CurrentJob {
  const job = currentStorage.getStore();
  if (job === undefined) throw new Error("currentJob: called outside of a job");
  return job;
}
