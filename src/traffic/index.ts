/** Limits what callers may cost the process that serves them: connections, memory, and turns of the event loop. */
export { limitConnections, limiterOf, type ConnectionCaps, type ConnectionLimiter } from "./connections.ts";
export { HeldBytes } from "./held-bytes.ts";
export { keepAlive } from "./keep-alive.ts";
export { LargeRequests, longAnswer, type LargeRequestOptions, type RequestTurn } from "./large-requests.ts";
export { rowsAsked } from "./rows-asked.ts";
export { clearSocket } from "./socket-file.ts";
