/** Repeats a call at an interval until the user interrupts it. */
import { setTimeout as wait } from "node:timers/promises";

/** Calls `look` at once and then every `ms`, at most `times` times, until the signal aborts. */
export async function every(
  ms: number,
  times: number,
  signal: AbortSignal,
  look: (n: number) => Promise<void>,
): Promise<void> {
  const stopped = (): boolean => signal.aborted;
  for (let n = 0; n < times && !stopped(); n++) {
    if (n > 0) await wait(ms, undefined, { signal }).catch(() => undefined);
    if (!stopped()) await look(n);
  }
}
