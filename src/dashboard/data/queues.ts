/** Queues of outcomes, and locks. */
import { useQuery, type UseQueryResult } from "@tanstack/react-query";
import type { Lock, QueueRow } from "../../core/index.ts";
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

/** The locks at and below a path, and the lock of a path above it, which covers it. */
export function useLocks(
  ns: string,
  path: readonly string[],
): UseQueryResult<{ above: { path: string[]; owner: string }[]; rows: Lock[]; more: boolean }> {
  return useQuery({
    queryKey: ["locks", ns, path],
    queryFn: async () => {
      const paths = path.slice(1).map((_label, i) => path.slice(0, i + 1));
      const [owners, { rows, next }] = await Promise.all([
        client.readLocks(ns, paths),
        client.listLocks(ns, { path, limit: 1000 }),
      ]);
      const above = paths.flatMap((one, i) => {
        const owner = owners[i] ?? null;
        return owner === null ? [] : [{ path: one, owner }];
      });
      return { above, rows, more: next !== null };
    },
    refetchInterval: every(2000),
  });
}

export const clearLocks = (ns: string, path: readonly string[]): Promise<void> => client.clearLocks(ns, path);
