/** A runner runs the functions of jobs: in a child process, or in this process. */
import type { RunRequest } from "./child/invoke.ts";
import type { JobOutcome } from "./job.ts";

export interface RunOptions {
  /** The time limit of the job; Infinity is unlimited. */
  readonly timeoutMs: number;
  /** Stops the job, which ends as HALTED with the signal's reason as its message. */
  readonly signal: AbortSignal;
  /** Called when the job begins: jobs in a child process run one after the other. */
  readonly onBegun: () => void;
  readonly onProgress: (value: unknown) => void;
}

export interface Runner {
  /** The id of the process that the functions run in; 0 while there is none. */
  readonly pid: number;
  /** Whether a job can run at once. */
  readonly isReady: boolean;
  /** Resolves when a job can run, or when the signal aborts. */
  ready(signal: AbortSignal): Promise<void>;
  /** How many jobs may be given to the runner before the first has ended. */
  readonly maxQueued: number;
  /** Resolves to null when the job was not begun: the signal was aborted first, or the jobs before it took too long. Never rejects. */
  run(request: RunRequest, options: RunOptions): Promise<JobOutcome | null>;
  close(): Promise<void>;
}

/** The outcome of a job that timed out, crashed or was halted: a message without a stack. */
export const endedBy = (
  category: "TIMEOUT" | "CRASH" | "HALTED",
  message: string,
  detail = "",
): JobOutcome => ({
  state: "ERROR",
  category,
  error: { message, traceback: detail === "" ? message : `${message}\n${detail}` },
});

export const timeoutText = (timeoutMs: number): string => `the job ran longer than ${timeoutMs / 1000} s`;

export const haltText = (signal: AbortSignal): string =>
  signal.reason instanceof Error ? signal.reason.message : "the job was halted";
