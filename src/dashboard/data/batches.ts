/** Batches: units that belong together, their counts, and their work specs. */
import { useQuery, type UseQueryResult } from "@tanstack/react-query";
import { batchLabel, type BatchAction, type BatchRow, type Tally } from "../../core/index.ts";
import { client } from "./connection.ts";
import { every } from "./live.ts";
import { total } from "./units.ts";

const max = 1000;

export function useBatches(ns: string): UseQueryResult<{ rows: BatchRow[]; more: boolean }> {
  return useQuery({
    queryKey: ["batches", ns],
    queryFn: async () => {
      const { rows, next } = await client.listBatches(ns, { limit: max });
      return { rows, more: next !== null };
    },
    refetchInterval: every(5000),
  });
}

/** Requests at a time: there may be hundreds of work specs, and a browser has six connections. */
const atOnce = 4;

/** The counts of a batch by work spec, found by its label; work specs without any are left out. */
export function useBatchUnits(
  ns: string,
  batch: string,
  specs: readonly string[],
): UseQueryResult<{ spec: string; counts: Tally }[]> {
  return useQuery({
    queryKey: ["batchUnits", ns, batch, specs],
    queryFn: async ({ signal }) => {
      const label = batchLabel(batch);
      const counted: { spec: string; counts: Tally }[] = [];
      for (let at = 0; at < specs.length && !signal.aborted; at += atOnce)
        counted.push(
          ...(await Promise.all(
            specs
              .slice(at, at + atOnce)
              .map(async (spec) => ({ spec, counts: await client.countWorkUnits(ns, spec, { label }) })),
          )),
        );
      return counted.filter(({ counts }) => total(counts) > 0);
    },
    enabled: specs.length > 0,
  });
}

export const changeBatch = (ns: string, batch: string, action: BatchAction): Promise<number> =>
  client.changeBatch(ns, batch, action);
