/** Waits for units to end, for as long as it takes: each request waits at most half a minute, and is followed by the next. */
import {
  checkOptions,
  CoordinateError,
  hasEnded,
  type Coordinate,
  type WorkSpecRef,
  type WorkUnitRow,
} from "../core/index.ts";

export interface WaitForOptions {
  /** How long to wait at most; for ever when absent. */
  waitMs?: number;
  signal?: AbortSignal;
}

/** Shorter than the idle timeout of proxies. */
const roundMs = 30_000;

/** Returns the rows of the units once all have ended; null for a deleted one. Throws `unavailable` after the timeout. */
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
  for (let left = waitMs; ; left -= roundMs) {
    signal?.throwIfAborted();
    const round = { waitMs: Math.min(left, roundMs), ...(signal !== undefined && { signal }) };
    const rows = await verbs.awaitWorkUnits(ns, ref, names, round);
    if (rows.every(hasEnded)) return rows;
    signal?.throwIfAborted();
    if (left <= roundMs) throw new CoordinateError("unavailable", notYet(names, rows, waitMs));
  }
}

function notYet(names: readonly string[], rows: readonly (WorkUnitRow | null)[], waitMs: number): string {
  const open = names.filter((_name, i) => !hasEnded(rows[i] ?? null));
  const [first = ""] = open;
  const which = open.length === 1 ? `${JSON.stringify(first)} has` : `${open.length} units have`;
  return `${which} not ended after ${waitMs} ms`;
}
