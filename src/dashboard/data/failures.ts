/** Failure groups: the failed units of a work spec by error, with the counts that the daemon keeps. */
import { useQuery, type UseQueryResult } from "@tanstack/react-query";
import type { FailureRow } from "../../core/index.ts";
import { client } from "./connection.ts";
import { every } from "./live.ts";

/** A group, and how fast it grows, as seen by this tab. */
export interface FailureGroup extends FailureRow {
  readonly perMinute: number;
}

const rememberedMs = 300_000;
const seen = new Map<string, { at: number; count: number }[]>();

/** Units a minute, over the last five minutes in this tab. When a count decreases, because units were retried, it starts anew. */
function grown(key: string, count: number, now: number): number {
  const before = (seen.get(key) ?? []).filter(({ at }) => now - at < rememberedMs);
  const kept = (before.at(-1)?.count ?? 0) > count ? [] : before;
  seen.set(key, [...kept, { at: now, count }]);
  const first = kept[0];
  if (first === undefined || now - first.at < 5000) return 0;
  return ((count - first.count) / (now - first.at)) * 60_000;
}

/** The largest group first. */
export function useFailures(ns: string, spec: string, enabled: boolean): UseQueryResult<FailureGroup[]> {
  return useQuery({
    queryKey: ["failures", ns, spec],
    queryFn: async () => {
      const groups = await client.listFailures(ns, { workSpec: spec });
      const now = Date.now();
      return groups.map((group) => ({
        ...group,
        perMinute: grown(`${ns}\n${spec}\n${group.fingerprint}`, group.count, now),
      }));
    },
    enabled,
    refetchInterval: every(30_000),
  });
}
