/** A caller may lose its rights during a request: its token is revoked, or expires. */
import { isCoordinateError, type VerbScope } from "../core/index.ts";
import { HttpError } from "./errors.ts";
import type { Call } from "./route.ts";

const checkMs = 1000;

/** Throws if the caller no longer has the scope that its request began with. */
export function checkRights({ identity, ns }: Pick<Call, "identity" | "ns">, scope: VerbScope): void {
  if (!identity.may(scope, ns))
    throw new HttpError(
      "unauthorized",
      "This needs a token: the one of this request was revoked or has expired",
    );
}

/**
 * Runs a wait, and ends it within a second after `check` throws. The error of `check` is then thrown, unless the wait has an answer
 * by then.
 */
export async function whilePermitted(
  signal: AbortSignal,
  check: () => void,
  wait: (signal: AbortSignal) => Promise<readonly unknown[]>,
): Promise<readonly unknown[]> {
  const end = new AbortController();
  const abort = (): void => end.abort();
  let refusal = null as Error | null;
  const timer = setInterval(() => {
    try {
      check();
    } catch (error) {
      refusal = error as Error;
      abort();
    }
  }, checkMs);
  signal.addEventListener("abort", abort);
  if (signal.aborted) abort();
  try {
    const answer = await wait(end.signal);
    if (answer.length > 0 || refusal === null) return answer;
  } catch (error) {
    if (refusal === null || !isCoordinateError(error, "queue_full")) throw error;
  } finally {
    clearInterval(timer);
    signal.removeEventListener("abort", abort);
  }
  throw refusal;
}
