/** Who runs the function of a job: a process of its own, or this one. */
import type { RunRequest } from "./child/invoke.ts";
import type { JobOutcome } from "./job.ts";

export interface RunOptions {
  /** It is ended after this long; Infinity is never. */
  readonly timeoutMs: number;
  /** Stop: its reason says why. The job is then HALTED. */
  readonly signal: AbortSignal;
  /** Called when it begins: those that are run in a process of their own wait for each other. */
  readonly onBegun: () => void;
  readonly onProgress: (value: unknown) => void;
}

export interface Runner {
  /** The process that the functions run in; 0 while there is none. */
  readonly pid: number;
  /** Whether it can run something now. */
  readonly isReady: boolean;
  /** Resolves when it can run something, or when the signal aborts. */
  ready(signal: AbortSignal): Promise<void>;
  /** How many may be given to it before the first has ended. */
  readonly inARow: number;
  /** Null when it was not begun: the signal was aborted first, or others took too long. Never rejects. */
  run(request: RunRequest, options: RunOptions): Promise<JobOutcome | null>;
  close(): Promise<void>;
}

/** The outcome of a job that somebody ended: with a message, and no stack. */
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
