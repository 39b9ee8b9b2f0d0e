/** Work units: found by work spec, prefix, status and label, a page at a time in name order. */
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

export interface UnitFilter {
  readonly statuses: readonly WorkUnitStatus[];
  readonly prefix: string;
  readonly label: string;
}

const pageSize = 100;

export function queryOf({ statuses, prefix, label }: UnitFilter): WorkUnitQuery {
  return {
    ...(statuses.length > 0 && { statuses }),
    ...(prefix !== "" && { prefix }),
    ...(label !== "" && { label }),
  };
}

/** All that match. A filter that names nothing means everything, and says so. */
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
    // all pages are read again in turn: beyond a few that would be more than a look is worth
    refetchOnMount: true,
  });
}

/** Read from kept counts where it can be; a prefix or a label is counted by looking at what it names. */
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
    placeholderData: (before) => before,
  });
}

export const total = (tally: Tally): number => Object.values(tally).reduce((sum, one) => sum + one, 0);

export interface UnitLook {
  readonly unit: WorkUnitRow;
  readonly attempts: readonly AttemptRow[];
}

/** Null: there is no such unit. */
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

/** Units by name, of another work spec: null where there is none, or no such work spec. */
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

/** What went wrong, as the data of an attempt tells it; null when it does not. */
export const errorOf = (data: Data | null): string | null =>
  data === null ? null : (dataGetText(data, "traceback") ?? dataGetText(data, "error"));

export { errorLine };

export interface ErrorGroup {
  readonly line: string;
  readonly names: readonly string[];
  /** Units of the sample that failed so, with the attempts that did. */
  readonly workers: number;
  readonly lastEnd: number;
  readonly example: string;
}

const sampleSize = 200;

export interface ErrorSample {
  readonly groups: readonly ErrorGroup[];
  readonly looked: number;
  /** Whether all failed units were looked at. */
  readonly complete: boolean;
}

/** What the failed units of a work spec failed with, by looking at the first of them in name order. */
export function useErrors(ns: string, spec: string, failed: number): UseQueryResult<ErrorSample> {
  return useQuery({
    queryKey: ["errors", ns, spec, failed > 0],
    queryFn: async () => {
      const page = await client.listWorkUnits(ns, spec, { statuses: ["failed"], limit: sampleSize });
      return { ...groupErrors(page.rows), complete: page.next === null };
    },
    enabled: failed > 0,
    refetchInterval: every(15_000),
  });
}

function groupErrors(rows: readonly WorkUnitRow[]): Omit<ErrorSample, "complete"> {
  const groups = new Map<string, { names: string[]; workers: Set<string>; lastEnd: number }>();
  for (const { name, data, activeAttempt } of rows) {
    const text = errorLine(errorOf(data) ?? "");
    const line = text === "" ? "No error was written" : text;
    const group = groups.get(line) ?? { names: [], workers: new Set(), lastEnd: 0 };
    groups.set(line, group);
    group.names.push(name);
    if (activeAttempt !== null) {
      group.workers.add(activeAttempt.worker);
      group.lastEnd = Math.max(group.lastEnd, activeAttempt.endTime);
    }
  }
  const sorted = [...groups].map(([line, { names, workers, lastEnd }]) => ({
    line,
    names,
    workers: workers.size,
    lastEnd,
    example: names[0] ?? "",
  }));
  return { groups: sorted.sort((a, b) => b.names.length - a.names.length), looked: rows.length };
}
