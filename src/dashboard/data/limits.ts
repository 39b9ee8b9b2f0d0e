/** Limits that work specs share, with what runs under them. */
import { useQuery, type UseQueryResult } from "@tanstack/react-query";
import type { SharedLimitInput, SharedLimitRow } from "../../core/index.ts";
import { client } from "./connection.ts";
import { every } from "./live.ts";

export const useLimits = (ns: string): UseQueryResult<SharedLimitRow[]> =>
  useQuery({
    queryKey: ["limits", ns],
    queryFn: () => client.listLimits(ns),
    refetchInterval: every(5000),
  });

export const setLimit = (ns: string, limit: SharedLimitInput): Promise<SharedLimitRow[]> =>
  client.setLimits(ns, [limit]);
