import type { ServerResponse } from "node:http";

/**
 * Runs a callback once, when the answer has been sent or the caller has disconnected. At once if that has happened: a response
 * emits `close` only once, and what is released then would be kept for ever.
 */
export function whenAnswered(response: ServerResponse, run: () => void): void {
  if (response.closed || response.destroyed) run();
  else response.once("close", run);
}
