/** Waits for units to end, for as long as it takes: each request waits at most half a minute, and is followed by the next. */
import {
  checkOptions,
  CoordinateError,
  hasEnded,
  isCoordinateError,
  systemClock,
  type Coordinate,
  type WorkSpecRef,
  type WorkUnitRow,
} from "../core/index.ts";

export interface WaitForOptions {
  /** How long to wait at most; for ever when absent. */
  waitMs?: number;
  signal?: AbortSignal;
}

/** `unavailable`, because units have not ended within `waitMs`. In an outage the code is the same, but not the class. */
export class NotEndedError extends CoordinateError {
  /** The units that have not ended. */
  readonly names: readonly string[];

  constructor(names: readonly string[], waitMs: number) {
    const [first = ""] = names;
    const which = names.length === 1 ? `${JSON.stringify(first)} has` : `${names.length} units have`;
    super("unavailable", `${which} not ended after ${waitMs} ms`);
    this.names = names;
  }
}

/** Shorter than the idle timeout of proxies. */
const longestRoundMs = 30_000;

/** The delay before a retry when the coordinator does not answer. */
const pauseMs = 250;

/** The time of an outage is real time: a coordinator that does not answer does not tell its own. */
const realClock = systemClock();

/**
 * Returns the rows of the units once all have ended, or when one is missing, which is null. Throws a `NotEndedError` after the
 * timeout. While the coordinator does not answer, it keeps trying: it may be restarting, and units survive that.
 */
export async function waitForEnds(
  verbs: Coordinate,
  ns: string,
  ref: WorkSpecRef,
  names: readonly string[],
  options: WaitForOptions,
): Promise<(WorkUnitRow | null)[]> {
  checkOptions("a wait", options, ["waitMs", "signal"]);
  const { waitMs = Infinity, signal } = options;
  if (!(waitMs >= 0))
    throw new CoordinateError("bad_argument", `waitMs: expected 0 or more, got ${String(waitMs)}`);
  let left = waitMs;
  // the wait for several units does not end because one of them is missing: look once without waiting
  let waits = names.length === 1;
  for (;;) {
    signal?.throwIfAborted();
    const roundMs = waits ? Math.min(left, longestRoundMs) : 0;
    const round = { waitMs: roundMs, ...(signal !== undefined && { signal }) };
    const began = realClock.now();
    try {
      const rows = await verbs.awaitWorkUnits(ns, ref, names, round);
      if (rows.includes(null) || rows.every(hasEnded)) return rows;
      signal?.throwIfAborted();
      left -= roundMs;
      waits = true;
      if (left <= 0)
        throw new NotEndedError(
          names.filter((_name, i) => !hasEnded(rows[i] ?? null)),
          waitMs,
        );
    } catch (error) {
      if (error instanceof NotEndedError || !isCoordinateError(error, "unavailable", "unknown_outcome"))
        throw error;
      await realClock.waitUntil(realClock.now() + Math.min(pauseMs, left), signal);
      left -= realClock.now() - began;
      if (left <= 0) throw error;
    }
  }
}
