/** Settles an attempt when its task returns or throws. */
import { CoordinateError, describeValue } from "../core/index.ts";
import type { Attempt } from "../objects/index.ts";
import { traceback } from "./traceback.ts";
import { whyUnstorable } from "./unstorable.ts";

/** Thrown by a task to decide the outcome of its unit. Made by `retry`, `snooze` and `fail`. */
export abstract class Decision extends Error {}

export class Retry extends Decision {
  override readonly name = "Retry";
  readonly delayMs: number;
  readonly data: object | undefined;

  constructor(delayMs: number, data?: object) {
    super(`retry in ${delayMs} ms`);
    this.delayMs = delayMs;
    this.data = data;
  }
}

export class Snooze extends Decision {
  override readonly name = "Snooze";
  readonly delayMs: number;

  constructor(delayMs: number) {
    super(`snooze for ${delayMs} ms`);
    this.delayMs = delayMs;
  }
}

export class Fail extends Decision {
  override readonly name = "Fail";
}

/**
 * `throw retry(5000)`: the unit is tried again after this many milliseconds, and the attempt counts as a try. `data` is stored with
 * this attempt; the next attempt starts with the unit's data. Thrown by a bulk task, it applies to all pending attempts.
 */
export function retry(afterMs = 0, data?: object): Retry {
  return new Retry(checkedDelay("retry", afterMs), data);
}

/** `throw snooze(60_000)`: the unit runs again after this many milliseconds, and the attempt does not count as a try. */
export function snooze(afterMs: number): Snooze {
  return new Snooze(checkedDelay("snooze", afterMs));
}

/** `throw fail("no such customer")`: the unit fails with this reason and is not retried, whatever the retry policy says. */
export function fail(reason: string): Fail {
  return new Fail(reason);
}

function checkedDelay(what: string, afterMs: number): number {
  if (Number.isFinite(afterMs) && afterMs >= 0) return afterMs;
  throw new CoordinateError(
    "bad_argument",
    `${what}: expected a finite number of milliseconds, 0 or more, got ${describeValue(afterMs)}`,
  );
}

/**
 * Settles an attempt whose task threw. A `Decision` is carried out; for any other error the retry policy of the unit decides, and
 * the stack becomes the `traceback`.
 */
export function settleThrown(attempt: Attempt, thrown: unknown): Promise<unknown> {
  if (isDecision(thrown, "Retry"))
    return attempt.retry({
      delayMs: thrown.delayMs,
      ...(thrown.data !== undefined && { data: thrown.data }),
    });
  if (isDecision(thrown, "Snooze")) return attempt.snooze(thrown.delayMs);
  if (isDecision(thrown, "Fail")) return attempt.failWith(thrown.message);
  return attempt.error(traceback(thrown));
}

interface Decisions {
  Retry: Retry;
  Snooze: Snooze;
  Fail: Fail;
}

/** Checks the shape, because a file of tasks may use another copy of this package. */
export function isDecision<Name extends keyof Decisions>(
  thrown: unknown,
  name: Name,
): thrown is Decisions[Name] {
  if (!(thrown instanceof Error) || thrown.name !== name) return false;
  return name === "Fail" || ("delayMs" in thrown && typeof thrown.delayMs === "number");
}

/**
 * Settles an attempt whose task returned. A returned error counts as thrown: users may write `return retry(5000)`. A result that
 * cannot be stored is an error of the task and fails the unit.
 */
export async function settleReturned(attempt: Attempt, value: unknown): Promise<void> {
  try {
    if (value instanceof Error) await settleThrown(attempt, value);
    else if (value === undefined || value === null) await attempt.finish();
    else if (typeof value === "object" && !Array.isArray(value)) await attempt.finish(value);
    else {
      const what = Array.isArray(value) ? "an array" : `a ${typeof value}`;
      await attempt.failWith(`the task returned ${what}; expected an object or nothing`);
    }
  } catch (error) {
    await failUnstorable(attempt, error);
  }
}

/** Settles each attempt with `how`. An outcome that cannot be stored, as with `retry(ms, data)`, fails the attempt. Never rejects. */
export async function settleEach(
  attempts: readonly Attempt[],
  how: (attempt: Attempt) => Promise<unknown>,
): Promise<void> {
  await Promise.all(
    attempts.map(async (attempt) => {
      try {
        await how(attempt);
      } catch (error) {
        await failUnstorable(attempt, error);
      }
    }),
  );
}

/** Fails an attempt whose outcome cannot be stored, with the reason; without it if the data is too large for a traceback. Never rejects. */
async function failUnstorable(attempt: Attempt, error: unknown): Promise<void> {
  const reason = whyUnstorable(error);
  if (reason === null) return;
  try {
    await attempt.failWith(reason);
  } catch (refusal) {
    // the worker has reported any other refusal
    if (whyUnstorable(refusal) !== null) await attempt.fail().catch(() => undefined);
  }
}
