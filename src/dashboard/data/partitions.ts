/** The partitions of a work spec, page by page in name order. */
import { useQuery, type UseQueryResult } from "@tanstack/react-query";
import type { Page, PartitionRow } from "../../core/index.ts";
import { client } from "./connection.ts";
import { every } from "./live.ts";

const pageSize = 15;

/** The page after a name; the first page when the name is empty. */
export function usePartitions(ns: string, spec: string, after: string): UseQueryResult<Page<PartitionRow>> {
  return useQuery({
    queryKey: ["partitions", ns, spec, after],
    queryFn: () =>
      client.listPartitions(ns, spec, { limit: pageSize, ...(after !== "" && { previous: after }) }),
    // keep the previous page until the next one has loaded
    placeholderData: (before, query) => (query?.queryKey[2] === spec ? before : undefined),
    refetchInterval: every(30_000),
  });
}
