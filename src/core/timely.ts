import type { Clock } from "./clock.ts";
import { WaitedError } from "./errors.ts";

/** Leases, delays and ends count from when they are written. Work that had to wait for other transactions is retried with a later `now`. */
export async function timely<Answer>(clock: Clock, work: (now: number) => Promise<Answer>): Promise<Answer> {
  for (let waited = 0; ;) {
    try {
      return await work(clock.now());
    } catch (error) {
      if (!(error instanceof WaitedError) || (waited += error.waitedMs) >= error.limitMs) throw error;
    }
  }
}
