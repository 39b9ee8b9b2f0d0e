/** Who looks, what they may do, and what daemon this is. */
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
  /** Whether it asks for tokens. */
  secured: boolean;
  /** The id of the token; empty without one. */
  token: string;
  /** In the namespace that was asked about. */
  scopes: readonly Scope[];
  /** In all namespaces. */
  everywhere: readonly Scope[];
  /** Whether it serves /metrics. */
  metrics: boolean;
}

let offset = 0;

/** The daemon's clock: all times of rows are its own. */
export const daemonNow = (): number => Date.now() + offset;

export function useSession(ns: string | null, token: string | null): UseQueryResult<Session> {
  return useQuery({
    queryKey: ["session", ns, token],
    queryFn: async () => {
      const query = ns === null ? "" : `?namespace=${nameToUrl(ns)}`;
      const before = Date.now();
      const session = JSON.parse(await readText(`/v1/session${query}`)) as Session;
      // to be right within the half of how long the answer took is enough for "2 s ago"
      offset = session.now - (before + Date.now()) / 2;
      return session;
    },
    staleTime: 60_000,
    refetchInterval: 60_000,
  });
}
