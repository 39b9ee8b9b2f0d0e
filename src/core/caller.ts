/**
 * Serving a verb over a wire: what every server does for a caller that may hang up while it waits, written once. Waits
 * end with the caller or with the server, and a claim whose answer cannot be heard any more is given back.
 */
import type { AttemptRow } from "./attempt.ts";
import type { Coordinate } from "./coordinate.ts";
import { CoordinateError } from "./errors.ts";
import { callVerb, isWait, optionsOf, withOptions, type Verb } from "./verbs.ts";
import { hasEnded, type WorkUnitRow } from "./work-unit.ts";

export interface Caller {
  /** Aborts when the caller has hung up or has cancelled the call, or the server stops. Asked for waits only. */
  waiting(): AbortSignal;
  /** Whether nobody is left to hear the answer. */
  hasHungUp(): boolean;
  /** Whether the server is about to stop: then a wait ends before its time. */
  isStopping(): boolean;
}

export async function serveVerb<V extends Verb>(
  coordinate: Coordinate,
  verb: V,
  args: readonly unknown[],
  caller: Caller,
): Promise<Awaited<ReturnType<Coordinate[V]>>> {
  const asked = isWait(verb, args)
    ? withOptions(verb, args, { ...optionsOf(verb, args), signal: caller.waiting() })
    : args;
  const answer = await callVerb(coordinate, verb, asked);
  if (caller.hasHungUp()) {
    // Nobody began the attempts. Without this their units wait for the end of a lease, and have used up a try.
    // Messages that were taken need nothing: the request id gets them again.
    if (verb === "requestAttempts") await giveBack(coordinate, String(args[0]), answer as AttemptRow[]);
    throw new CoordinateError("closed");
  }
  // The caller asks another server; rows that say "not yet" would look like the end of its wait.
  if (
    verb === "awaitWorkUnits" &&
    caller.isStopping() &&
    !isOver(answer as (WorkUnitRow | null)[], optionsOf(verb, asked))
  )
    throw new CoordinateError("closed");
  return answer as Awaited<ReturnType<Coordinate[V]>>;
}

const isOver = (rows: readonly (WorkUnitRow | null)[], { any }: { any?: unknown }): boolean =>
  any === true ? rows.some(hasEnded) : rows.every(hasEnded);

async function giveBack(coordinate: Coordinate, ns: string, attempts: readonly AttemptRow[]): Promise<void> {
  if (attempts.length === 0) return;
  await coordinate.settleAttempts(
    ns,
    attempts.map(({ id }) => ({ attempt: id, action: "expire", untried: true })),
  );
}
