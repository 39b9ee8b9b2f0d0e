/** Work specs: their definitions, their metadata, and what the scheduler says of them. */
import { useQuery, type UseQueryResult } from "@tanstack/react-query";
import {
  decodeData,
  firstRows,
  readWorkSpec,
  type DataObject,
  type Explained,
  type ScheduleRequest,
  type WorkSpecMeta,
  type WorkSpecMetaChange,
  type WorkSpecRow,
} from "../../core/index.ts";
import { client } from "./connection.ts";
import { every } from "./live.ts";

/** More than anybody looks at; a namespace has dozens. */
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

/** Until shortly after the next run of a schedule, which whoever looks first makes and nobody tells; half a minute at most. */
function untilRun(specs: readonly WorkSpecRow[], now: number): number {
  const next = Math.min(
    ...specs.map(({ meta }) => (meta.nextRun > 0 && !meta.paused ? meta.nextRun : Infinity)),
  );
  return Math.min(30_000, Math.max(2000, next - now + 1000));
}

export function useExplain(ns: string, request: ScheduleRequest = {}): UseQueryResult<Explained[]> {
  return useQuery({
    queryKey: ["explain", ns, request],
    queryFn: () => client.explain(ns, request),
    refetchInterval: every(30_000),
  });
}

export const setMeta = (ns: string, spec: string, change: WorkSpecMetaChange): Promise<WorkSpecMeta> =>
  client.setWorkSpecMeta(ns, spec, change);

/** What the definition says, to compare with what holds now; null for data that cannot be read. */
export function definitionOf(row: WorkSpecRow): { data: DataObject; meta: WorkSpecMeta } | null {
  try {
    return { data: decodeData(row.data), meta: readWorkSpec(row.data).meta };
  } catch {
    return null;
  }
}
