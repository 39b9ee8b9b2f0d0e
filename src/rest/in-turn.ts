/** The turns of REST requests, over either kind of connection. */
import { CoordinateError } from "../core/index.ts";
import { rowsAsked, type RequestTurn } from "../traffic/index.ts";
import type { Answer, Call, Route } from "./route.ts";

/** Serves a request, in its turn if it is large. */
export async function inTurn(route: Route, call: Call, turn: RequestTurn): Promise<Answer> {
  try {
    // a long body has the turn already
    if (takesTurnLater(route, call)) turn.end();
    else {
      const started = turn.take(rowsOf(route, call), 0);
      if (started !== undefined) await started;
      // the caller may have disconnected during the wait for a turn
      if (started !== undefined && call.request.raw.socket.destroyed) throw new CoordinateError("closed");
    }
    return await route.handle(call);
  } finally {
    turn.end();
  }
}

/** A verb that waits takes its turn when it has its answer, and a stream for each piece: both may last for hours. */
const takesTurnLater = ({ family }: Route, { body }: Call): boolean =>
  family === "stream" || (family === "verb" && Number(body.waitMs ?? 0) > 0);

function rowsOf({ id, family, query }: Route, call: Call): number {
  if (family === "verb") return rowsAsked(id, [call.body]);
  // lists of the Go routes have no limit by default
  return query?.limit === undefined ? 0 : Number(call.query("limit")[0] ?? Infinity);
}
