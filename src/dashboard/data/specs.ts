/** Work specs: their definitions, their metadata, and the scheduler's explanations. */
import { useQuery, type UseQueryResult } from "@tanstack/react-query";
import {
  decodeData,
  firstRows,
  readWorkSpec,
  type DataObject,
  type Explained,
  type WorkSpecMeta,
  type WorkSpecMetaChange,
  type WorkSpecRow,
} from "../../core/index.ts";
import { client } from "./connection.ts";
import { every } from "./live.ts";

/** More than a user looks at; a namespace has dozens. */
export const maxSpecs = 5000;

export function useSpecs(ns: string): UseQueryResult<WorkSpecRow[]> {
  return useQuery({
    queryKey: ["specs", ns],
    queryFn: async () => {
      const { rows } = await firstRows(maxSpecs, (page) => client.listWorkSpecs(ns, page));
      return rows;
    },
    refetchInterval: ({ state }) => every(untilRun(state.data ?? [], Date.now()))(),
  });
}

/**
 * Time until shortly after the next scheduled run, at most half a minute. The first query after it creates the unit, and no event
 * reports that.
 */
function untilRun(specs: readonly WorkSpecRow[], now: number): number {
  const next = Math.min(
    ...specs.map(({ meta }) => (meta.nextRun > 0 && !meta.paused ? meta.nextRun : Infinity)),
  );
  return Math.min(30_000, Math.max(2000, next - now + 1000));
}

export function useExplain(ns: string): UseQueryResult<Explained[]> {
  return useQuery({
    queryKey: ["explain", ns, {}],
    queryFn: () => client.explain(ns, {}),
    refetchInterval: every(30_000),
  });
}

export const setMeta = (ns: string, spec: string, change: WorkSpecMetaChange): Promise<WorkSpecMeta> =>
  client.setWorkSpecMeta(ns, spec, change);

/** The parsed definition, to compare with the current settings; null when the data cannot be parsed. */
export function definitionOf(row: WorkSpecRow): { data: DataObject; meta: WorkSpecMeta } | null {
  try {
    return { data: decodeData(row.data), meta: readWorkSpec(row.data, true).meta };
  } catch {
    return null;
  }
}
