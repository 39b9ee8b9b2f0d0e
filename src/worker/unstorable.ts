/** A result that the coordinator does not take: too large, or not data. */
import { isCoordinateError, type AttemptChanged } from "../core/index.ts";
import type { Attempt } from "../objects/index.ts";

/** That is a fault of the job, and is said where a person looks for faults; without it the unit would run again when its lease has passed. */
export async function orFail(attempt: Attempt, settle: Promise<AttemptChanged>): Promise<AttemptChanged> {
  try {
    return await settle;
  } catch (error) {
    if (!isCoordinateError(error, "bad_data") && !isCoordinateError(error, "too_large")) throw error;
    return attempt.failWith(`the result cannot be stored: ${error.message}`);
  }
}
