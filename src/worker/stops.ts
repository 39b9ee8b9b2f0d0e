/**
 * Why a task is asked to come to an end. A program that knows no signals is left alone while its lease ends, for it may
 * be done in time; when its worker stops it is ended, for nobody would wait for it.
 */
export function workerStops(signal: AbortSignal): boolean {
  const reason: unknown = signal.reason;
  return signal.aborted && reason instanceof Error && reason.message === "the worker stops";
}
