/** What every handle of a namespace holds, and the few steps that they share. */
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
 * The verbs, the namespace, and how to make other handles. The handles lead to one another (a unit to its attempts,
 * an attempt to its unit); they make each other through here, so that their files need not import in a circle.
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
  /** Told when an attempt has lines to store, where somebody sends them without being asked. */
  readonly wrote?: (attempt: Attempt) => void;
}

/** Its size is judged by whoever implements the verbs: a limit here would refuse what a daemon was configured to take. */
const unlimited = { maxBytes: Infinity };

/**
 * Data from what a caller wrote: an object, or data in the encoding it is carried in (JSON text, or the bytes of a CBOR
 * map), which is checked and kept as it is.
 */
export function encode(data: object | Data): Data {
  if (typeof data === "string") return jsonData(data, unlimited);
  return data instanceof Uint8Array ? cborData(data, unlimited) : encodeData(data, unlimited);
}

export const encodeIfAny = (data: object | Data | null | undefined): Data | null =>
  data === undefined || data === null ? null : encode(data);

/** For a handle of something that was seen: what is not there now has been deleted since. */
export async function seenBefore<Answer>(name: string, answer: Promise<Answer>): Promise<Answer> {
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

/** Renames the size of a page: `limit` of a loop over everything would read as "at most this many rows". */
export function pageLimit(pageSize: number | undefined): { limit?: number } {
  return pageSize === undefined ? {} : { limit: pageSize };
}

export interface PageOptions {
  /** Rows of one request; 1,000 when absent. */
  pageSize?: number;
}
