/**
 * The client side of every wire: all verbs over one function that sends a call. Requests carry ids so that they may be sent
 * twice, long waits are split into several calls, and a call whose answer was lost is sent again where that is safe.
 */
import { backOffMs } from "./back-off.ts";
import type { Random } from "./clock.ts";
import { describeValue } from "./describe-value.ts";
import { CoordinateError, isCoordinateError } from "./errors.ts";
import { optionsOf, signatures, verbNames, verbs, withOptions, type Verb, type Verbs } from "./verbs.ts";
import { hasEnded, type WorkUnitRow } from "./work-unit.ts";

export interface OutgoingCall {
  readonly verb: Verb;
  readonly args: readonly unknown[];
  /** How much longer than usual the answer may take. */
  readonly waitMs: number;
  /** Ends the wait. */
  readonly signal: AbortSignal | undefined;
}

export interface Link {
  /** Sends a call once and reads the answer. Throws `NoAnswer` when none came. */
  send(call: OutgoingCall): Promise<unknown>;
  isClosed(): boolean;
  pause(ms: number): Promise<void>;
  newId(): string;
  readonly random: Random;
  /** How often a call is sent again, where that is safe. */
  readonly retries: number;
  /** The delay before the first retry; doubled each time, at most 5 s, with jitter. */
  readonly backoffMs: number;
  /** Longer waits are split into several calls. */
  readonly longestWaitMs: number;
}

/** The factor on the timeout of calls that go through a whole work spec. */
const slowTimes = 40;

/** How long a call may go without an answer, if usual calls may take `timeoutMs`. */
export const answerMs = ({ verb, waitMs }: OutgoingCall, timeoutMs: number): number =>
  timeoutMs * (verbs[verb].slow === true ? slowTimes : 1) + waitMs;

/** No answer came, or the server answered that it cannot carry out the call now and that another try may succeed. */
export class NoAnswer extends Error {
  override readonly name: string = "NoAnswer";
  /** Whether the request may have arrived. */
  readonly sent: boolean;
  /** The error that the server sent, if any: thrown after the last try. */
  readonly refusal: Error | undefined;

  constructor(message: string, sent: boolean, options: ErrorOptions & { refusal?: Error } = {}) {
    super(message, options);
    this.sent = sent;
    this.refusal = options.refusal;
  }
}

/** The verbs, each a call over the link. */
export function verbsOver(link: Link): Verbs {
  const calls = verbNames.map((verb) => [verb, (...args: unknown[]) => call(link, verb, args)] as const);
  return Object.fromEntries(calls) as unknown as Verbs;
}

/** The base class of clients: implements the verbs over the link. */
export const VerbClient = function (this: object, link: Link): void {
  Object.assign(this, verbsOver(link));
} as unknown as new (link: Link) => Verbs;

async function call(link: Link, verb: Verb, given: readonly unknown[]): Promise<unknown> {
  const { namespace, repeat } = verbs[verb];
  if (namespace === undefined && typeof given[0] !== "string")
    throw new CoordinateError("bad_name", `namespace: expected a string, got ${describeValue(given[0])}`);
  const options = optionsOf(verb, given);
  const args =
    repeat === "id" && options.requestId === undefined
      ? withOptions(verb, given, { ...options, requestId: link.newId() })
      : given;
  if (signatures[verb].waits) return wait(link, verb, args);
  const answer = await ask(link, { verb, args, waitMs: 0, signal: undefined });
  return verbs[verb].answer.type === "null" ? undefined : answer;
}

async function wait(link: Link, verb: Verb, args: readonly unknown[]): Promise<unknown> {
  const { signal, ...options } = optionsOf(verb, args) as { signal?: AbortSignal; waitMs?: number };
  let left = options.waitMs ?? 0;
  for (;;) {
    const ended = signal?.aborted === true;
    // do not ask again: the server gives back attempts whose caller has stopped waiting
    if (ended && verb === "requestAttempts") return [];
    const waitMs = ended ? 0 : left > link.longestWaitMs ? link.longestWaitMs : left;
    const call = {
      verb,
      args: withOptions(verb, args, { ...options, ...(options.waitMs !== undefined && { waitMs }) }),
      waitMs,
      signal: ended ? undefined : signal,
    };
    const answer = await ask(link, call).catch((error: unknown) => {
      // no room yet: go on with the next call of the wait
      if (isCoordinateError(error, "queue_full") && left > waitMs && !ended) return [];
      throw error;
    });
    // The signal ended the wait before an answer came: ask once more, without waiting. The same request id gets the
    // messages that were taken meanwhile.
    if (answer === null) continue;
    left -= waitMs;
    if (isEnough(verb, answer) || !(left > 0) || signal?.aborted === true) return answer;
  }
}

const isEnough = (verb: Verb, answer: unknown): boolean =>
  verb === "awaitWorkUnits"
    ? (answer as (WorkUnitRow | null)[]).every(hasEnded)
    : (answer as unknown[]).length > 0;

/** Returns null when the signal ended the wait before an answer came. */
async function ask(link: Link, call: OutgoingCall): Promise<unknown> {
  for (let tries = 0; ; tries++) {
    if (link.isClosed()) throw new CoordinateError("closed");
    try {
      return await link.send(call);
    } catch (error) {
      if (!(error instanceof NoAnswer)) throw error;
      if (call.signal?.aborted === true) return null;
      if (link.isClosed()) throw new CoordinateError("closed");
      if (error.sent && verbs[call.verb].repeat === "never")
        throw new CoordinateError("unknown_outcome", error.message, { cause: error });
      if (tries >= link.retries) throw lastError(error);
      await link.pause(backOffMs(tries, link.backoffMs, 5000) * (0.5 + link.random() / 2));
    }
  }
}

/** A server that stops refuses with `closed`. For the caller this is an outage: `closed` means that its own client was closed. */
function lastError(error: NoAnswer): Error {
  const { refusal, message } = error;
  if (refusal !== undefined && !isCoordinateError(refusal, "closed")) return refusal;
  return new CoordinateError("unavailable", refusal === undefined ? message : "the server is stopping", {
    cause: error,
  });
}
