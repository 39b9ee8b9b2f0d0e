/** Who asks, and what they may do: decided in one place, before any handler runs. */
import type { FastifyRequest } from "fastify";
import type { VerbScope } from "../core/index.ts";

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
