/** Tokens for CBOR-RPC connections: a token has the same rights as over REST. */
import type { RpcTokens } from "../cbor/index.ts";
import {
  around,
  checkAfterWait,
  CoordinateError,
  endsWithRights,
  optionsOf,
  verbs,
  withOptions,
  type Verb,
  type VerbScope,
  type WorkerChange,
} from "../core/index.ts";
import { HttpError, whilePermitted, type Identity } from "../rest/index.ts";
import type { TokenAccess } from "./tokens.ts";

export const rpcTokens = (tokens: TokenAccess): RpcTokens => ({
  wanted: () => tokens.required,
  admit(coordinate, token, address) {
    const identify = (): Identity => {
      try {
        return tokens.identityOf(token, address);
      } catch (error) {
        throw error instanceof HttpError ? new RefusedToken(401, error.message) : error;
      }
    };
    const { id } = identify();
    const check = (verb: Verb, args: readonly unknown[]): void => {
      const scope = scopeOf(verb, args);
      const ns = verbs[verb].namespace !== "none" && typeof args[0] === "string" ? args[0] : null;
      if (identify().may(scope, ns)) return;
      throw new RefusedToken(
        403,
        `it needs scope ${scope} in ${ns === null ? "all namespaces" : "that namespace"}`,
      );
    };
    const limited = around(coordinate, async (verb, args, next) => {
      // checked on every call: a revoked or expired token must stop working on open connections, too
      const checkNow = (): void => check(verb, args);
      checkNow();
      if (endsWithRights(verb, args)) {
        const options = optionsOf(verb, args);
        return whilePermitted(
          options.signal as AbortSignal,
          checkNow,
          (signal) => next(withOptions(verb, args, { ...options, signal })) as Promise<unknown[]>,
        );
      }
      const answer = await next();
      await checkAfterWait(coordinate, verb, args, answer, checkNow);
      return answer;
    });
    return { coordinate: limited, id };
  },
});

/** To callers this is `bad_argument`. The status is that of the same refusal over REST, for the audit. */
class RefusedToken extends CoordinateError {
  readonly #status: 401 | 403;

  constructor(status: 401 | 403, why: string) {
    super("bad_argument", `token: ${why}`);
    this.#status = status;
  }

  override get status(): number {
    return this.#status;
  }
}

/** The scope of a verb. Setting a worker's desired state needs scope `write`. */
function scopeOf(verb: Verb, args: readonly unknown[]): VerbScope {
  if (verb !== "updateWorkers") return verbs[verb].scope;
  const changes = args[1] as readonly WorkerChange[];
  return changes.some(({ desired }) => desired !== undefined) ? "write" : verbs[verb].scope;
}
