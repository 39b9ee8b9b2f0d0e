/** Queues of outcomes, and locks, which can be read only by their path. */
import { useQuery, type UseQueryResult } from "@tanstack/react-query";
import type { QueueRow } from "../../core/index.ts";
import { client } from "./connection.ts";
import { every } from "./live.ts";

export function useQueues(ns: string): UseQueryResult<{ rows: QueueRow[]; more: boolean }> {
  return useQuery({
    queryKey: ["queues", ns],
    queryFn: async () => {
      const { rows, next } = await client.listQueues(ns, { limit: 1000 });
      return { rows, more: next !== null };
    },
    refetchInterval: every(5000),
  });
}

export const clearQueue = (ns: string, queue: string): Promise<number> => client.clearQueue(ns, queue);

/** The owner of the path and of every path above it, from the root down. */
export function useLocks(
  ns: string,
  path: readonly string[],
): UseQueryResult<{ path: string[]; owner: string | null }[]> {
  return useQuery({
    queryKey: ["locks", ns, path],
    queryFn: async () => {
      const paths = path.map((_label, i) => path.slice(0, i + 1));
      const owners = await client.readLocks(ns, paths);
      return paths.map((one, i) => ({ path: one, owner: owners[i] ?? null }));
    },
    enabled: path.length > 0,
    refetchInterval: every(2000),
  });
}

export const clearLocks = (ns: string, path: readonly string[]): Promise<void> => client.clearLocks(ns, path);
