/**
 * Serves a verb over a wire, for all servers. The caller may disconnect while it waits: a wait ends when the caller
 * disconnects or the server stops, and attempts that can no longer be delivered are given back.
 */
import type { AttemptRow } from "./attempt.ts";
import type { Coordinate } from "./coordinate.ts";
import { CoordinateError } from "./errors.ts";
import { callVerb, isWait, optionsOf, withOptions, type Verb } from "./verbs.ts";
import { hasEnded, type WorkUnitRow } from "./work-unit.ts";

export interface Caller {
  /** Aborts when the caller disconnects or cancels the call, or the server stops. Only called for waits. */
  waiting(): AbortSignal;
  /** Waits until the answer to a wait, of so many rows, may be sent; undefined if it may be sent at once. */
  turn(rows: number): Promise<void> | undefined;
  /** Whether the caller has disconnected, so that the answer cannot be delivered. */
  hasHungUp(): boolean;
  /** Whether the server is stopping: then waits end early. */
  isStopping(): boolean;
}

/**
 * A longer wait ends after this time, as if the caller had asked for no more. A caller that vanished without closing its connection
 * must not wait for ever. Our clients never notice: they ask again every ten minutes.
 */
const maxWaitMs = 3_600_000;

export async function serveVerb<V extends Verb>(
  coordinate: Coordinate,
  verb: V,
  args: readonly unknown[],
  caller: Caller,
): Promise<Awaited<ReturnType<Coordinate[V]>>> {
  const waits = isWait(verb, args);
  const asked = waits ? withOptions(verb, args, waitOf(optionsOf(verb, args), caller)) : args;
  const answer = await callVerb(coordinate, verb, asked);
  const turn = waits ? caller.turn(Array.isArray(answer) ? answer.length : 1) : undefined;
  if (turn !== undefined) await turn;
  if (caller.hasHungUp()) {
    // Without this, the units would wait for their leases to end and lose a try, although no worker began them.
    // Taken messages need no such step: the same request id gets them again.
    if (verb === "requestAttempts") await giveBack(coordinate, String(args[0]), answer as AttemptRow[]);
    throw new CoordinateError("closed");
  }
  // `closed` makes the caller ask another server; rows of open units would look like the end of its wait
  if (
    verb === "awaitWorkUnits" &&
    caller.isStopping() &&
    !isOver(answer as (WorkUnitRow | null)[], optionsOf(verb, asked))
  )
    throw new CoordinateError("closed");
  return answer as Awaited<ReturnType<Coordinate[V]>>;
}

const waitOf = (options: Readonly<Record<string, unknown>>, caller: Caller): object => ({
  ...options,
  waitMs: Math.min(options.waitMs as number, maxWaitMs),
  signal: caller.waiting(),
});

const isOver = (rows: readonly (WorkUnitRow | null)[], { any }: { any?: unknown }): boolean =>
  any === true ? rows.some(hasEnded) : rows.every(hasEnded);

/** Waits whose answer can be withheld: units that were added or messages that were taken would be lost to their caller. */
const withheld: ReadonlySet<Verb> = new Set<Verb>(["requestAttempts", "awaitWorkUnits"]);

/** Whether the call is a wait that must end when its caller loses its rights, since its answer cannot be withheld. */
export const endsWithRights = (
  verb: Verb,
  args: readonly unknown[],
): verb is "addWorkUnits" | "takeMessages" => isWait(verb, args) && !withheld.has(verb);

/** Calls `check` after a wait, since a caller may lose its rights meanwhile. If it throws, attempts are given back. */
export async function checkAfterWait(
  coordinate: Coordinate,
  verb: Verb,
  args: readonly unknown[],
  answer: unknown,
  check: () => void,
): Promise<void> {
  if (!withheld.has(verb) || !isWait(verb, args)) return;
  try {
    check();
  } catch (error) {
    if (verb === "requestAttempts") await giveBack(coordinate, String(args[0]), answer as AttemptRow[]);
    throw error;
  }
}

async function giveBack(coordinate: Coordinate, ns: string, attempts: readonly AttemptRow[]): Promise<void> {
  if (attempts.length === 0) return;
  await coordinate.settleAttempts(
    ns,
    attempts.map(({ id }) => ({ attempt: id, action: "expire", untried: true })),
  );
}
