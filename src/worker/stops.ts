/** Why a task should end: the `reason` of its abort signals. */
export type StopCause = "lease ends" | "timed out" | "cancelled" | "lost" | "worker stops" | "worker stopped";

const sentences: Readonly<Record<StopCause, string>> = {
  "lease ends": "the lease ends soon",
  "timed out": "timed out",
  cancelled: "cancelled",
  lost: "the unit was lost",
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
 * Whether the signal was aborted because the worker stops. Programs that cannot react to the signal are stopped in this case, since
 * no worker would wait for them. When only their lease is about to end, they go on, because they may finish in time.
 */
export const workerStops = ({ aborted, reason }: AbortSignal): boolean =>
  aborted && reason instanceof Stop && reason.reason === "worker stops";
