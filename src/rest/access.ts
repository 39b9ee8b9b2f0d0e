/** Who asks, and what they may do: decided in one place, before any handler runs. */
import type { FastifyRequest } from "fastify";
import { checkName, type VerbScope } from "../core/index.ts";
import { HttpError } from "./errors.ts";
import type { Route } from "./route.ts";
import { nameFromUrl } from "./url-name.ts";

export interface Identity {
  /** For logs and the audit; never the secret. */
  id: string;
  /** `ns` null: in all namespaces. */
  may(scope: VerbScope, ns: string | null): boolean;
  /** Has this scope in one namespace at least. */
  somewhere(scope: VerbScope): boolean;
}

export interface Access {
  /** Throws an `HttpError` for somebody who is not known. */
  identify(request: FastifyRequest): Identity;
}

const included: Readonly<Record<VerbScope, readonly VerbScope[]>> = {
  read: ["read"],
  work: ["work", "read"],
  write: ["write", "read"],
  admin: ["admin", "write", "work", "read"],
};

/** Whether somebody who was given `granted` may do what `wanted` names. */
export const includesScope = (granted: readonly VerbScope[], wanted: VerbScope): boolean =>
  granted.some((scope) => included[scope].includes(wanted));

/** A daemon without tokens, which listens on this machine only. */
const anybody: Identity = { id: "anybody", may: () => true, somewhere: () => true };
export const isAnybody = ({ id }: Identity): boolean => id === anybody.id;
export const openAccess: Access = { identify: () => anybody };

/** What is known of who asks: told of a request that was refused, too. */
export interface Asking {
  ns: string;
  identity: Identity | null;
}

/** Finds out who asks, and in which namespace; `segment` is that as the path has it. Throws when they may not. */
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
      throw new HttpError("forbidden", "This needs scope read in some namespace");
  } else if (!identity.may(scope, segment === undefined ? null : asking.ns))
    throw new HttpError(
      "forbidden",
      `This needs scope ${scope} in ${segment === undefined ? "all namespaces" : "that namespace"}`,
    );
}
