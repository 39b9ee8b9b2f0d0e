/** The context that all handles of a namespace share, and helpers for them. */
import {
  cborData,
  CoordinateError,
  encodeData,
  isCoordinateError,
  jsonData,
  type AttemptRow,
  type Coordinate,
  type Data,
  type WorkerRow,
  type WorkSpecRef,
  type WorkUnitRow,
} from "../core/index.ts";
import type { Attempt } from "./attempt.ts";
import type { WorkerHandle } from "./worker.ts";
import type { WorkUnit } from "./work-unit.ts";

/**
 * The verbs, the namespace, and factories for other handles. Handles make each other (a unit its attempts, an attempt its unit)
 * through these factories, so that their files have no circular imports.
 */
export interface Scope {
  readonly verbs: Coordinate;
  readonly ns: string;
  workUnit<Given extends object, Result extends object>(
    ref: WorkSpecRef,
    row: WorkUnitRow,
  ): WorkUnit<Given, Result>;
  attempt<Given extends object, Result extends object>(row: AttemptRow): Attempt<Given, Result>;
  worker(name: string, row?: WorkerRow): WorkerHandle;
  /** Called when an attempt has log lines to store. Set by workers, which then send the lines. */
  readonly wrote?: (attempt: Attempt) => void;
}

/** The implementation of the verbs checks the size: a limit here would refuse data that a daemon was configured to accept. */
const unlimited = { maxBytes: Infinity };

/**
 * Encodes the data of a caller: an object, or data that is already encoded (JSON text, or the bytes of a CBOR map), which is
 * checked and kept as it is.
 */
export function encode(data: object | Data): Data {
  if (typeof data === "string") return jsonData(data, unlimited);
  return data instanceof Uint8Array ? cborData(data, unlimited) : encodeData(data, unlimited);
}

export const encodeIfAny = (data: object | Data | null | undefined): Data | null =>
  data === undefined || data === null ? null : encode(data);

/** For handles of rows that existed: a missing work spec or unit was deleted meanwhile, so the error becomes `gone`. */
export async function orGone<Answer>(name: string, answer: Promise<Answer>): Promise<Answer> {
  try {
    return await answer;
  } catch (error) {
    const missing = isCoordinateError(error, "no_such_work_spec", "no_such_work_unit");
    throw missing ? new CoordinateError("gone", name, { cause: error }) : error;
  }
}

/** The answer to a batch of one. */
export function only<Answer>(answers: readonly Answer[]): Answer {
  const [answer] = answers;
  if (answer === undefined || answers.length !== 1)
    throw new Error(`a batch of one was answered with ${answers.length}`);
  return answer;
}

/** Maps `pageSize` to the `limit` of a verb. In a loop over everything, `limit` would read as "at most this many rows". */
export function pageLimit(pageSize: number | undefined): { limit?: number } {
  return pageSize === undefined ? {} : { limit: pageSize };
}

export interface PageOptions {
  /** Rows of one request; 1,000 when absent. */
  pageSize?: number;
}
