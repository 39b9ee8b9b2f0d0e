/** Data for administrators of the daemon: its tokens and its audit log. */
import {
  useInfiniteQuery,
  useQuery,
  type InfiniteData,
  type UseInfiniteQueryResult,
  type UseQueryResult,
} from "@tanstack/react-query";
import { nameToUrl } from "../../rest/client.ts";
import { send, readText } from "./connection.ts";
import { every } from "./live.ts";
import type { Scope } from "./session.ts";

export interface TokenRow {
  readonly id: string;
  readonly name: string;
  /** The scopes in a namespace; `*` for all namespaces. */
  readonly grants: readonly { readonly namespace: string; readonly scopes: readonly Scope[] }[];
  readonly created: number;
  /** 0: never. */
  readonly expires: number;
}

interface AuditRow {
  readonly time: string;
  readonly request: string | null;
  readonly token: string | null;
  readonly address: string;
  readonly namespace: string;
  readonly action: string | null;
  readonly path: string | null;
  readonly status: number;
  /** Of a line that stands for several requests. */
  readonly count?: number;
}

interface AuditPage {
  readonly rows: readonly AuditRow[];
  readonly next: string | null;
}

export function useTokens(): UseQueryResult<TokenRow[]> {
  return useQuery({
    queryKey: ["tokens"],
    queryFn: async () => JSON.parse(await readText("/v1/tokens")) as TokenRow[],
    refetchInterval: every(10_000),
  });
}

export async function revoke(id: string): Promise<void> {
  await send("DELETE", `/v1/tokens/${nameToUrl(id)}`);
}

/** Pages of the audit log, newest lines first. */
export function useAudit(): UseInfiniteQueryResult<InfiniteData<AuditPage>> {
  return useInfiniteQuery({
    queryKey: ["audit"],
    queryFn: async ({ pageParam }) =>
      JSON.parse(
        await readText(`/v1/audit?limit=200${pageParam === null ? "" : `&before=${pageParam}`}`),
      ) as AuditPage,
    initialPageParam: null as string | null,
    getNextPageParam: ({ next }: AuditPage) => next,
    refetchInterval: every(10_000),
  });
}
