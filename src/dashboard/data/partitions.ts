/** The partitions of a work spec, a page at a time in the order of their names. */
import { useQuery, type UseQueryResult } from "@tanstack/react-query";
import type { Page, PartitionRow } from "../../core/index.ts";
import { client } from "./connection.ts";
import { every } from "./live.ts";

const pageSize = 15;

/** Those after a name; from the first on when it is empty. */
export function usePartitions(ns: string, spec: string, after: string): UseQueryResult<Page<PartitionRow>> {
  return useQuery({
    queryKey: ["partitions", ns, spec, after],
    queryFn: () =>
      client.listPartitions(ns, spec, { limit: pageSize, ...(after !== "" && { previous: after }) }),
    // the page before stays while the next one is on its way
    placeholderData: (before, query) => (query?.queryKey[2] === spec ? before : undefined),
    refetchInterval: every(30_000),
  });
}
