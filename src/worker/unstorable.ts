/** Results that cannot be stored: too large, not valid data, or with a getter or a `toJSON` that throws. */
import { isCoordinateError, type AttemptChanged } from "../core/index.ts";
import type { Attempt } from "../objects/index.ts";
import { messageOf } from "./traceback.ts";

/**
 * Returns the failure text for such a result. Null for other errors of the coordinator, which the worker has reported. An error that
 * is not the coordinator's was thrown while the result was encoded.
 */
export function whyUnstorable(error: unknown): string | null {
  if (isCoordinateError(error) && !isCoordinateError(error, "bad_data", "bad_argument", "too_large"))
    return null;
  return `the result cannot be stored: ${messageOf(error)}`;
}

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
