/** A result that the coordinator does not take: too large, or not data. */
import { isCoordinateError, type AttemptChanged } from "../core/index.ts";
import type { Attempt } from "../objects/index.ts";

/** What to say of it, as an error of the job; null when the error is another. */
export const whyUnstorable = (error: unknown): string | null =>
  isCoordinateError(error, "bad_data", "too_large") ? `the result cannot be stored: ${error.message}` : null;

/** That is a fault of the job, and is said where a person looks for faults; without it the unit would run again when its lease has passed. */
export async function orFail(attempt: Attempt, settle: Promise<AttemptChanged>): Promise<AttemptChanged> {
  try {
    return await settle;
  } catch (error) {
    const reason = whyUnstorable(error);
    if (reason === null) throw error;
    return attempt.failWith(reason);
  }
}
