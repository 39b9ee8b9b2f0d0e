/** Why a task is told to come to an end: the `reason` of its signals. */
export type StopCause = "lease ends" | "timed out" | "cancelled" | "lost" | "worker stops" | "worker stopped";

const sentences: Readonly<Record<StopCause, string>> = {
  "lease ends": "the lease ends soon",
  "timed out": "timed out",
  cancelled: "cancelled",
  lost: "the unit was taken away",
  "worker stops": "the worker stops",
  "worker stopped": "the worker has stopped",
};

export class Stop extends Error {
  override readonly name = "Stop";
  readonly reason: StopCause;

  constructor(reason: StopCause, message: string = sentences[reason]) {
    super(message);
    this.reason = reason;
  }
}

/**
 * A program that knows no signals is left alone while its lease ends, because it may be done in time. When its worker stops it is ended: no
 * worker would wait for it.
 */
export const workerStops = ({ aborted, reason }: AbortSignal): boolean =>
  aborted && reason instanceof Stop && reason.reason === "worker stops";
