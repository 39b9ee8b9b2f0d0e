/**
 * Logs unhandled promise rejections while a worker runs. By default Node ends the process on one, which would take down all other
 * units of the worker. Other `unhandledRejection` listeners of the program are still called.
 */
import type { Logger } from "./log.ts";

const logs = new Set<Logger>();

function report(reason: unknown): void {
  for (const log of logs) {
    log.error({ err: reason }, "unhandled promise rejection");
    return;
  }
}

/** Guards until the returned function is called. */
export function guardRejections(log: Logger): () => void {
  // two workers may share a logger: a child logger gives each its own entry in the set
  const own = log.child({});
  if (logs.size === 0) process.on("unhandledRejection", report);
  logs.add(own);
  return () => {
    logs.delete(own);
    if (logs.size === 0) process.off("unhandledRejection", report);
  };
}
