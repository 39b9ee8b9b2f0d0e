/** Results that the coordinator refuses: too large, or not valid data. */
import { isCoordinateError, type AttemptChanged } from "../core/index.ts";
import type { Attempt } from "../objects/index.ts";

/** Returns the failure text for such a result; null for any other error. */
export const whyUnstorable = (error: unknown): string | null =>
  isCoordinateError(error, "bad_data", "too_large") ? `the result cannot be stored: ${error.message}` : null;

/** Fails the attempt when its result cannot be stored, so that the error is visible. Otherwise the unit would run again after its lease. */
export async function orFail(attempt: Attempt, settle: Promise<AttemptChanged>): Promise<AttemptChanged> {
  try {
    return await settle;
  } catch (error) {
    const reason = whyUnstorable(error);
    if (reason === null) throw error;
    return attempt.failWith(reason);
  }
}
