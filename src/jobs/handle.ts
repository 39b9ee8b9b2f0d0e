/** The handle of a scheduled job. */
import { CoordinateError } from "../core/index.ts";
import { JobFailedError } from "./errors.ts";
import type { Job } from "./job.ts";

export interface WaitOptions {
  /** How long to wait at most; for ever when absent. */
  timeoutMs?: number;
  /** Ends the wait; it then rejects with the signal's reason. */
  signal?: AbortSignal;
}

export interface WaitAllOptions extends WaitOptions {
  /** Whether the first failure ends the wait for the others; true by default. */
  failFast?: boolean;
}

/** The methods of `Jobs` that a handle uses. */
export interface JobKeeper {
  settle(handles: readonly { id: string; workSpec: string }[], options: WaitOptions): Promise<Job[]>;
  cancel(id: string, reason: string): Promise<boolean>;
  load(id: string): Promise<Job>;
  delete(ids: readonly string[]): Promise<number>;
}

export class JobHandle<Result = unknown> {
  readonly id: string;
  readonly name: string;
  /** The work spec of the job. */
  readonly workSpec: string;
  readonly #keeper: JobKeeper;

  constructor(keeper: JobKeeper, job: { id: string; name: string; workSpec: string }) {
    this.#keeper = keeper;
    this.id = job.id;
    this.name = job.name;
    this.workSpec = job.workSpec;
  }

  /**
   * Waits for the result. Throws a `JobFailedError` when the job failed, a `WaitTimeoutError` after the timeout, `gone` when
   * it was deleted.
   */
  async wait(options: WaitOptions = {}): Promise<Result> {
    const job = await this.settled(options);
    if (job.state === "ERROR") throw new JobFailedError(job);
    return job.result as Result;
  }

  /** Waits until the job has ended, in OK or ERROR, and returns its record. Throws as `wait` does, but not for a failed job. */
  async settled(options: WaitOptions = {}): Promise<Job> {
    const [job] = await this.#keeper.settle([this], options);
    if (job === undefined) throw new CoordinateError("gone", this.id);
    return job;
  }

  /** `await job.result` is `await job.wait()`. */
  get result(): Promise<Result> {
    return this.wait();
  }

  /** Reads the current record. */
  async load(): Promise<Job> {
    return this.#keeper.load(this.id);
  }

  /**
   * Ends the job in the state ERROR with the category HALTED; returns false when it had already ended. A running function is
   * notified by its signal and then killed: at once if its pool is in this process, else when its lease is next renewed.
   */
  async cancel(reason = "the job was cancelled"): Promise<boolean> {
    return this.#keeper.cancel(this.id, reason);
  }

  async delete(): Promise<boolean> {
    return (await this.#keeper.delete([this.id])) > 0;
  }
}
