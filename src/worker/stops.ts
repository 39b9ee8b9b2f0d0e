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

/** Reads a cause that came as text from another process. */
export const isStopCause = (text: unknown): text is StopCause =>
  typeof text === "string" && Object.hasOwn(sentences, text);

/**
 * Whether a task ended because its worker stops: it threw the reason of its signal, or the `AbortError` of a function that it gave the
 * signal to, possibly as the cause of another error. Such a unit is given back: it has not failed.
 */
export function endedByStop(thrown: unknown, reason: unknown): boolean {
  if (!isWorkerStop(reason)) return false;
  const seen = new Set<unknown>();
  for (let at = thrown; at instanceof Error && !seen.has(at); at = at.cause) {
    if (at === reason || at.name === "AbortError") return true;
    seen.add(at);
  }
  return false;
}

const isWorkerStop = (reason: unknown): boolean => reason instanceof Stop && reason.reason === "worker stops";

/**
 * Whether the signal was aborted because the worker stops. Programs that cannot react to the signal are stopped in this case, since
 * no worker would wait for them. When only their lease is about to end, they go on, because they may finish in time.
 */
export const workerStops = ({ aborted, reason }: AbortSignal): boolean => aborted && isWorkerStop(reason);
