/** The user's rights and the daemon's properties. */
import { useQuery, type UseQueryResult } from "@tanstack/react-query";
import { nameToUrl } from "../../rest/client.ts";
import { readText } from "./connection.ts";

export type Scope = "read" | "work" | "write" | "admin";

export interface Session {
  version: string;
  /** The kind of store: memory, sqlite or postgres. */
  store: string;
  /** When the daemon started, by its own clock. */
  started: number;
  now: number;
  /** Whether the daemon requires tokens. */
  secured: boolean;
  /** The id of the token; empty without one. */
  token: string;
  /** In the requested namespace. */
  scopes: readonly Scope[];
  /** In all namespaces. */
  everywhere: readonly Scope[];
  /** Whether the daemon serves /metrics. */
  metrics: boolean;
}

let offset = 0;

/** The time by the daemon's clock, which set all times of rows. */
export const daemonNow = (): number => Date.now() + offset;

export function useSession(ns: string | null, token: string | null): UseQueryResult<Session> {
  return useQuery({
    queryKey: ["session", ns, token],
    queryFn: async () => {
      const query = ns === null ? "" : `?namespace=${nameToUrl(ns)}`;
      const before = Date.now();
      const session = JSON.parse(await readText(`/v1/session${query}`)) as Session;
      // accurate to half the response time, which is enough for "2 s ago"
      offset = session.now - (before + Date.now()) / 2;
      return session;
    },
    staleTime: 60_000,
    refetchInterval: 60_000,
  });
}
