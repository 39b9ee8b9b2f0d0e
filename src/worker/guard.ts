/**
 * Promises of tasks that reject and that nobody waits for. Node ends the process for one; a worker that holds a hundred
 * other units must not end for it. While a worker runs they are logged instead. Whoever else
 * listens for them in the program is told as well.
 */
import type { Logger } from "./log.ts";

const logs = new Set<Logger>();

function report(reason: unknown): void {
  for (const log of logs) {
    log.error({ err: reason }, "a promise was rejected, and nobody waited for it");
    return;
  }
}

/** From now until the returned function is called. */
export function guardRejections(log: Logger): () => void {
  // a set, and a logger of its own for each caller: two workers may share theirs
  const own = log.child({});
  if (logs.size === 0) process.on("unhandledRejection", report);
  logs.add(own);
  return () => {
    logs.delete(own);
    if (logs.size === 0) process.off("unhandledRejection", report);
  };
}
