import type { Clock } from "./clock.ts";
import { WaitedError } from "./errors.ts";

/** Leases, delays and ends count from when they are written. Work that had to wait for other transactions is retried with a later `now`. */
export function timely<Answer>(clock: Clock, work: (now: number) => Promise<Answer>): Promise<Answer> {
  let waited = 0;
  // not an async function: it wraps every claim and settle, and nearly none of them is retried
  const retry = (error: unknown): Promise<Answer> => {
    if (!(error instanceof WaitedError) || (waited += error.waitedMs) >= error.limitMs) throw error;
    return work(clock.now()).catch(retry);
  };
  return work(clock.now()).catch(retry);
}
