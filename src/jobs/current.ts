/** What a running function may know of its job: `currentJob()` inside of it, at any depth of calls. */
import { AsyncLocalStorage } from "node:async_hooks";

export interface CurrentJob {
  readonly id: string;
  readonly name: string;
  readonly category: string;
  /** 1 when it is run for the first time. */
  readonly attempt: number;
  /** Those that it waited for, with what they returned. */
  readonly dependencies: readonly FinishedDependency[];
  /** Aborted when the job was cancelled or its worker stops; soon after that the process is ended. */
  readonly signal: AbortSignal;
  /** Tells how far it is; kept with the job while it runs. JSON. */
  progress(value: unknown): void;
}

export interface FinishedDependency {
  readonly id: string;
  readonly name: string;
  readonly state: "OK" | "ERROR";
  readonly result: unknown;
}

// one for the process, also where several copies of this package are loaded in it
const key = Symbol.for("coordinate.jobs.current");
const holder = globalThis as { [key]?: AsyncLocalStorage<CurrentJob> | undefined };
export const currentStorage: AsyncLocalStorage<CurrentJob> = (holder[key] ??= new AsyncLocalStorage());

/** Throws outside of a job. */
export function currentJob(): CurrentJob {
  const job = currentStorage.getStore();
  if (job === undefined) throw new Error("currentJob: no job runs here");
  return job;
}
