/** Identifies and authorises callers, in one place, before any handler runs. */
import type { FastifyRequest } from "fastify";
import { checkName, type VerbScope } from "../core/index.ts";
import { HttpError } from "./errors.ts";
import type { Route } from "./route.ts";
import { nameFromUrl } from "./url-name.ts";

export interface Identity {
  /** For logs and the audit; never the secret. */
  id: string;
  /** Whether the caller has this scope now: false after its token was revoked or has expired. `ns` null: in all namespaces. */
  may(scope: VerbScope, ns: string | null): boolean;
  /** Whether the caller has this scope in at least one namespace. */
  somewhere(scope: VerbScope): boolean;
}

export interface Access {
  /** Throws an `HttpError` for an unknown caller. */
  identify(request: FastifyRequest): Identity;
}

const included: Readonly<Record<VerbScope, readonly VerbScope[]>> = {
  read: ["read"],
  work: ["work", "read"],
  write: ["write", "read"],
  admin: ["admin", "write", "work", "read"],
};

/** Whether one of the scopes `granted` includes the scope `wanted`. */
export const includesScope = (granted: readonly VerbScope[], wanted: VerbScope): boolean =>
  granted.some((scope) => included[scope].includes(wanted));

/** The identity of all callers of a daemon without tokens, which listens on this machine only. */
export const anybody: Identity = { id: "anybody", may: () => true, somewhere: () => true };
export const isAnybody = ({ id }: Identity): boolean => id === anybody.id;
export const openAccess: Access = { identify: () => anybody };

/** What is known about the caller. It is filled in as far as possible even if the request is refused. */
export interface Asking {
  ns: string;
  identity: Identity | null;
}

/** Sets the caller and namespace of `asking`; `segment` is the namespace in the path. Throws if the caller lacks the scope. */
export function authorise(
  access: Access,
  { scope }: Route,
  request: FastifyRequest,
  segment: string | undefined,
  asking: Asking,
): void {
  if (segment !== undefined) asking.ns = checkName("namespace", nameFromUrl(segment));
  if (scope === "open") return;
  const identity = access.identify(request);
  asking.identity = identity;
  if (scope === "listed") {
    if (!identity.somewhere("read"))
      throw new HttpError("forbidden", "This requires scope read in at least one namespace");
  } else if (!identity.may(scope, segment === undefined ? null : asking.ns))
    throw new HttpError(
      "forbidden",
      `This requires scope ${scope} in ${segment === undefined ? "all namespaces" : "that namespace"}`,
    );
}
