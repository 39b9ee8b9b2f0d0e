/** Workers: their tree, and the attempts that each holds. */
import { useQuery, type UseQueryResult } from "@tanstack/react-query";
import {
  decodeData,
  firstRows,
  requestsOf,
  type AttemptRow,
  type DesiredState,
  type NamespaceRow,
  type ScheduleRequest,
  type WorkerRow,
} from "../../core/index.ts";
import { client } from "./connection.ts";
import { every } from "./live.ts";

const max = 2000;

export function useWorkers(ns: string): UseQueryResult<WorkerRow[]> {
  return useQuery({
    queryKey: ["workers", ns, "active"],
    queryFn: async () => {
      const { rows } = await firstRows(max, (page) => client.listWorkers(ns, { active: true, ...page }));
      return rows;
    },
    refetchInterval: every(30_000),
  });
}

/** Workers that no longer check in, the last seen first; from the first thousand by name. */
export function useGone(ns: string, enabled: boolean): UseQueryResult<WorkerRow[]> {
  return useQuery({
    queryKey: ["workers", ns, "gone"],
    queryFn: async () => {
      const { rows } = await client.listWorkers(ns, { active: false, limit: 1000 });
      return rows.sort((a, b) => b.lastUpdate - a.lastUpdate);
    },
    enabled,
    refetchInterval: every(15_000),
  });
}

export interface Held {
  /** By worker. */
  readonly byWorker: ReadonlyMap<string, readonly AttemptRow[]>;
  readonly all: readonly AttemptRow[];
  /** Top-level workers whose attempts were not read, because there are too many. */
  readonly unread: ReadonlySet<string>;
}

/**
 * The attempts that workers hold are read for at most this many top-level workers: one request for a worker, and one for its
 * children.
 */
const maxRoots = 200;

/** Workers at the top of the tree: those without a parent, and those whose parent no longer checks in. */
export function rootsOf(workers: readonly WorkerRow[]): WorkerRow[] {
  const names = new Set(workers.map(({ name }) => name));
  return workers.filter(({ parent }) => parent === null || !names.has(parent));
}

export function useHeld(ns: string, workers: readonly WorkerRow[] = []): UseQueryResult<Held> {
  const tops = rootsOf(workers);
  const roots = tops.slice(0, maxRoots);
  const parents = new Set(workers.map(({ parent }) => parent));
  return useQuery({
    queryKey: ["held", ns, roots.map(({ name }) => name)],
    queryFn: async () => {
      const pages = await Promise.all(
        roots.flatMap(({ name }) => [
          client.listWorkerAttempts(ns, name, { which: "active", limit: 500 }),
          ...(parents.has(name)
            ? [client.listWorkerAttempts(ns, name, { which: "children", limit: 500 })]
            : []),
        ]),
      );
      const byWorker = new Map<string, AttemptRow[]>();
      const all = [...new Map(pages.flatMap(({ rows }) => rows).map((row) => [row.id, row])).values()];
      for (const attempt of all) {
        const list = byWorker.get(attempt.worker) ?? [];
        byWorker.set(attempt.worker, list);
        list.push(attempt);
      }
      return { byWorker, all, unread: new Set(tops.slice(maxRoots).map(({ name }) => name)) };
    },
    enabled: workers.length > 0,
    refetchInterval: every(30_000),
  });
}

/** What a worker reports about itself; every part is optional. */
export interface WorkerReport {
  host?: string;
  pid?: number;
  platform?: string;
  version?: string;
  node?: string;
  rss?: number;
  totalMemory?: number;
  slots?: number;
  /** Its requests to the scheduler, one for each of its runtimes. */
  asks?: readonly ScheduleRequest[];
}

export function reportOf(worker: WorkerRow): WorkerReport {
  const { data } = worker;
  if (data === null) return {};
  let report: Record<string, unknown>;
  try {
    report = decodeData(data);
  } catch {
    return {};
  }
  const inside = (key: string): Record<string, unknown> =>
    typeof report[key] === "object" && report[key] !== null ? (report[key] as Record<string, unknown>) : {};
  const text = (value: unknown): string | undefined => (typeof value === "string" ? value : undefined);
  const number = (value: unknown): number | undefined => (typeof value === "number" ? value : undefined);
  const found = {
    host: text(report.host),
    pid: number(report.pid),
    platform: text(report.platform),
    version: text(inside("versions").coordinate),
    node: text(inside("versions").node),
    rss: number(inside("memory").rss),
    totalMemory: number(inside("memory").total),
    slots: number(report.slots),
    asks: Array.isArray(report.asks) ? (requestsOf(worker) ?? undefined) : undefined,
  };
  return Object.fromEntries(Object.entries(found).filter(([, value]) => value !== undefined));
}

export const desire = (
  ns: string,
  names: readonly string[],
  desired: DesiredState | null,
): Promise<WorkerRow[]> =>
  client.updateWorkers(
    ns,
    names.map((name) => ({ name, desired })),
  );

export function useNamespace(ns: string): UseQueryResult<NamespaceRow> {
  return useQuery({
    queryKey: ["namespaces", ns],
    queryFn: () => client.getNamespace(ns),
    refetchInterval: every(15_000),
  });
}

export function useNamespaces(): UseQueryResult<NamespaceRow[]> {
  return useQuery({
    queryKey: ["namespace list"],
    queryFn: () => client.listNamespaces(),
    refetchInterval: every(60_000),
  });
}

export const giveBack = (ns: string, attempts: readonly string[]): Promise<unknown> =>
  client.settleAttempts(
    ns,
    attempts.map((attempt) => ({ attempt, action: "expire" })),
  );
