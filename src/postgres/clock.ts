/**
 * The database's clock, so that every daemon judges leases and delays by the same one. Its offset from this machine's monotonic
 * clock is measured by queries, and measured again from time to time; the sample with the shortest round trip counts.
 */
import { systemClock, type Clock } from "../core/index.ts";
import type { Session } from "./connection.ts";

export interface DatabaseClock extends Clock {
  /** Measures the offset again. */
  sync(): Promise<void>;
}

const measureSql = "SELECT (extract(epoch FROM clock_timestamp()) * 1000)::double precision WHERE $1";

export async function databaseClock(session: Session, samples = 5): Promise<DatabaseClock> {
  // performance.now() does not jump when this machine's clock is set
  let offset = 0;
  let latest = 0;
  const sync = async (): Promise<void> => {
    let best = Infinity;
    for (let i = 0; i < samples; i++) {
      const sent = performance.now();
      const [row] = await session.rows(measureSql, [true]);
      const answered = performance.now();
      if (answered - sent >= best) continue;
      best = answered - sent;
      offset = (row?.[0] as number) - (sent + answered) / 2;
    }
  };
  await sync();
  const machine = systemClock();
  const now = (): number => {
    // the clock never goes back: a backward correction makes it stand still
    latest = Math.max(latest, Math.floor(performance.now() + offset));
    return latest;
  };
  return {
    now,
    sync,
    async waitUntil(time, signal) {
      while (now() < time && signal?.aborted !== true)
        await machine.waitUntil(machine.now() + Math.max(1, time - now()), signal);
    },
  };
}
