/** A task from a function of one unit: what it returns finishes the unit, what it throws fails it or gives it back. */
import { CoordinateError, isCoordinateError, type DataObject } from "../core/index.ts";
import type { Attempt } from "../objects/index.ts";
import type { Task, TaskContext } from "./task.ts";
import { traceback } from "./traceback.ts";

/** One unit as its function sees it. */
export class Unit {
  readonly attempt: Attempt;

  constructor(attempt: Attempt) {
    this.attempt = attempt;
  }

  get name(): string {
    return this.attempt.workUnitName;
  }

  /** Decoded when first asked for. */
  get data(): DataObject {
    return this.attempt.data;
  }
}

// `void` is what a function returns that returns nothing
/* eslint-disable @typescript-eslint/no-invalid-void-type */
type Result = object | null | undefined | void;
/* eslint-enable @typescript-eslint/no-invalid-void-type */

/** Returns the result, which becomes the unit's data, or nothing, and the data stays as it is. */
export type UnitFunction = (unit: Unit, context: TaskContext) => Promise<Result> | Result;

export interface EachOptions {
  /** How many units of a batch at once; 1. */
  concurrency?: number;
}

/** Thrown to give a unit back: it is tried again, later with a delay. Made by `retry`. */
export class Retry extends Error {
  override readonly name = "Retry";
  readonly delayMs: number;
  readonly data: object | undefined;

  constructor(delayMs: number, data?: object) {
    super(`to be tried again in ${delayMs} ms`);
    this.delayMs = delayMs;
    this.data = data;
  }
}

/**
 * `throw retry(5000)`: the unit is given back and waits so long before anybody tries it again. `data` is kept with this attempt; the
 * next one begins with the unit's own. Thrown out of a task, it holds for all its attempts that are still pending.
 */
export function retry(delayMs = 0, data?: object): Retry {
  return new Retry(delayMs, data);
}

/**
 * Runs a function for every unit of a batch, one after the other or as many at once as `concurrency` says. When the
 * signal aborts, units that were not begun are given back untried.
 *
 * A unit that its function has settled itself, through `unit.attempt`, is left so.
 */
export function each(work: UnitFunction, { concurrency = 1 }: EachOptions = {}): Task {
  if (!Number.isSafeInteger(concurrency) || concurrency < 1)
    throw new CoordinateError(
      "bad_argument",
      `concurrency: expected an integer of 1 or more, got ${concurrency}`,
    );
  return async (attempts, context) => {
    // each is stored with those that come at the same time, and the worker waits for all: nobody does in between
    const results: Promise<unknown>[] = [];
    const { signal } = context;
    let next = 0;
    const lane = async (): Promise<void> => {
      for (let attempt = attempts[next++]; attempt !== undefined; attempt = attempts[next++]) {
        if (signal.aborted) {
          void attempt.release();
          continue;
        }
        try {
          const result = work(new Unit(attempt), context);
          const value = result instanceof Promise ? await result : result;
          if (attempt.status !== "pending") continue;
          if (value === undefined || value === null) void attempt.finish();
          else results.push(finish(attempt, value));
        } catch (error) {
          if (attempt.status === "pending") void giveUp(attempt, error);
        }
      }
    };
    if (concurrency === 1) await lane();
    else await Promise.all(Array.from({ length: Math.min(concurrency, attempts.length) }, lane));
    await Promise.all(results);
  };
}

/** Finishes with a result; what cannot be stored is a fault of the task, and said where a person looks for faults. */
async function finish(attempt: Attempt, value: unknown): Promise<void> {
  try {
    if (typeof value !== "object" || value === null)
      void attempt.failWith(`the task returned a ${typeof value}; it may return an object, or nothing`);
    else await attempt.finish(value);
  } catch (error) {
    // any other refusal was logged by the worker
    if (isCoordinateError(error, "bad_data") || isCoordinateError(error, "too_large"))
      void attempt.failWith(`the task returned what cannot be stored: ${error.message}`);
  }
}

/** Gives back or fails an attempt, as what was thrown says. */
export function giveUp(attempt: Attempt, error: unknown): Promise<unknown> {
  if (!(error instanceof Retry)) return attempt.failWith(traceback(error));
  const { delayMs, data } = error;
  return attempt.retry({ delayMs, ...(data !== undefined && { data }) });
}
