/** Work units: found by work spec, prefix, status, label and failure group, a page at a time in name order. */
import {
  useInfiniteQuery,
  useQuery,
  type InfiniteData,
  type UseInfiniteQueryResult,
  type UseQueryResult,
} from "@tanstack/react-query";
import {
  errorLine,
  dataGetText,
  isCoordinateError,
  type AttemptLog,
  type AttemptRow,
  type Data,
  type Page,
  type Tally,
  type WorkUnitQuery,
  type WorkUnitRow,
  type WorkUnitSelection,
  type WorkUnitStatus,
} from "../../core/index.ts";
import { client } from "./connection.ts";
import { every } from "./live.ts";
import { daemonNow } from "./session.ts";

export interface UnitFilter {
  readonly statuses: readonly WorkUnitStatus[];
  readonly prefix: string;
  readonly label: string;
  /** The fingerprint of a failure group. */
  readonly error: string;
  /** Only units that ended within this time; 0 is no restriction. */
  readonly withinMs: number;
}

export const everyUnit: UnitFilter = { statuses: [], prefix: "", label: "", error: "", withinMs: 0 };

/** Whether the stored counts tell how many units match. */
export const isCounted = ({ prefix, label, error, withinMs }: UnitFilter): boolean =>
  prefix === "" && label === "" && error === "" && withinMs === 0;

const pageSize = 100;

export function queryOf({ statuses, prefix, label, error, withinMs }: UnitFilter): WorkUnitQuery {
  return {
    ...(statuses.length > 0 && { statuses }),
    ...(prefix !== "" && { prefix }),
    ...(label !== "" && { label }),
    ...(error !== "" && { error }),
    ...(withinMs > 0 && { endedSince: Math.floor(daemonNow() - withinMs) }),
  };
}

/** All units that match. An empty filter becomes an explicit `all`. */
export function selectionOf(filter: UnitFilter): WorkUnitSelection {
  const query = queryOf(filter);
  return Object.keys(query).length === 0 ? { all: true } : query;
}

export type UnitPages = UseInfiniteQueryResult<InfiniteData<Page<WorkUnitRow>>>;

export function useUnits(ns: string, spec: string, filter: UnitFilter): UnitPages {
  return useInfiniteQuery({
    queryKey: ["units", ns, spec, filter],
    queryFn: ({ pageParam }) =>
      client.listWorkUnits(ns, spec, {
        ...queryOf(filter),
        limit: pageSize,
        ...(pageParam !== null && { previous: pageParam }),
      }),
    initialPageParam: null as string | null,
    getNextPageParam: ({ next }: Page<WorkUnitRow>) => next,
    placeholderData: (before) => before,
    // for lists with many pages, which an event may not have read again
    refetchInterval: every(30_000),
    refetchOnMount: true,
  });
}

/** Counts the matches of a prefix, a label or a failure group, for which no counts are stored. */
export function useMatching(
  ns: string,
  spec: string,
  filter: UnitFilter,
  enabled: boolean,
): UseQueryResult<Tally> {
  return useQuery({
    queryKey: ["matching", ns, spec, filter],
    queryFn: () => client.countWorkUnits(ns, spec, selectionOf(filter)),
    enabled,
    staleTime: 10_000,
  });
}

export const total = (tally: Tally): number => Object.values(tally).reduce((sum, one) => sum + one, 0);

export interface UnitLook {
  readonly unit: WorkUnitRow;
  readonly attempts: readonly AttemptRow[];
}

/** Null when there is no such unit. */
export function useUnit(ns: string, spec: string, name: string): UseQueryResult<UnitLook | null> {
  return useQuery({
    queryKey: ["unit", ns, spec, name],
    queryFn: async () => {
      try {
        const [[unit], attempts] = await Promise.all([
          client.getWorkUnits(ns, spec, [name]),
          client.listUnitAttempts(ns, spec, name),
        ]);
        return unit === undefined || unit === null ? null : { unit, attempts };
      } catch (error) {
        if (isCoordinateError(error) && error.status === 404) return null;
        throw error;
      }
    },
    refetchInterval: every(10_000),
  });
}

/** What the task of an attempt logged; read every second while it runs. */
export function useLog(ns: string, attempt: AttemptRow): UseQueryResult<AttemptLog | null> {
  return useQuery({
    // the status is in the key, so that the last lines are read when the attempt ends
    queryKey: ["log", ns, attempt.id, attempt.status],
    queryFn: async () => (await client.getAttemptLogs(ns, [attempt.id]))[0] ?? null,
    placeholderData: (before) => (before?.attempt === attempt.id ? before : undefined),
    refetchInterval: attempt.status === "pending" ? every(1000) : false,
  });
}

/** Units of another work spec by name: null for a missing unit, or when the work spec is missing. */
export async function unitsNamed(
  ns: string,
  spec: string,
  names: readonly string[],
): Promise<(WorkUnitRow | null)[]> {
  try {
    return await client.getWorkUnits(ns, spec, names);
  } catch (error) {
    if (isCoordinateError(error, "no_such_work_spec")) return names.map(() => null);
    throw error;
  }
}

/** The error in the data of an attempt; null when there is none. */
export const errorOf = (data: Data | null): string | null =>
  data === null ? null : (dataGetText(data, "traceback") ?? dataGetText(data, "error"));

export { errorLine };
