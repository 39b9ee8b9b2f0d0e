/** What a token lets a connection of CBOR-RPC do: the same as over REST. */
import type { RpcTokens } from "../cbor/index.ts";
import {
  around,
  CoordinateError,
  verbs,
  type Verb,
  type VerbScope,
  type WorkerChange,
} from "../core/index.ts";
import { HttpError, type Identity } from "../rest/index.ts";
import type { TokenAccess } from "./tokens.ts";

export const rpcTokens = (tokens: TokenAccess): RpcTokens => ({
  wanted: () => !tokens.isEmpty,
  admit(coordinate, token, address) {
    const identify = (): Identity => {
      try {
        return tokens.identityOf(token, address);
      } catch (error) {
        throw error instanceof HttpError ? refused(error.message) : error;
      }
    };
    const { id } = identify();
    const limited = around(coordinate, async (verb, args, next) => {
      // asked each time: a token that is revoked or expires ends what an open connection may do
      const identity = identify();
      const scope = scopeOf(verb, args);
      const ns = verbs[verb].namespace !== "none" && typeof args[0] === "string" ? args[0] : null;
      if (identity.may(scope, ns)) return next();
      throw refused(`it needs scope ${scope} in ${ns === null ? "all namespaces" : "that namespace"}`);
    });
    return { coordinate: limited, id };
  },
});

const refused = (why: string): CoordinateError => new CoordinateError("bad_argument", `token: ${why}`);

/** A worker may say how it is; what it should do is said by others. */
function scopeOf(verb: Verb, args: readonly unknown[]): VerbScope {
  if (verb !== "updateWorkers") return verbs[verb].scope;
  const changes = args[1] as readonly WorkerChange[];
  return changes.some(({ desired }) => desired !== undefined) ? "write" : verbs[verb].scope;
}
