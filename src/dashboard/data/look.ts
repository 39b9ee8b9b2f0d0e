/** A namespace at a glance: its work specs with all data about each, sorted by need. Home, flow and the rail use it. */
import { useMemo } from "react";
import {
  emptyTally,
  hasSchedule,
  type AttemptRow,
  type TallyRow,
  type WorkSpecRow,
} from "../../core/index.ts";
import { aroundOf, byNeed, conditionOf, type Condition, type SpecLook } from "../attention.ts";
import { rates, useCounts, useWaiting } from "./counts.ts";
import { daemonNow } from "./session.ts";
import { useExplain, useSpecs } from "./specs.ts";
import { useNow } from "../parts/text.tsx";
import { total } from "./units.ts";
import { useHeld, useWorkers } from "./workers.ts";

export interface SpecRow extends SpecLook {
  readonly condition: Condition | null;
  /** Whether it has, had, or is going to create units. */
  readonly isUsed: boolean;
  readonly row: WorkSpecRow;
}

export interface NamespaceLook {
  /** Undefined before the first answer. */
  readonly specs: readonly SpecRow[] | undefined;
  readonly byName: ReadonlyMap<string, SpecRow>;
  readonly attention: readonly SpecRow[];
  readonly workers: number | undefined;
  /** Units in all statuses. */
  readonly units: number;
  /** The error of the newest read, if it failed. */
  readonly error: Error | null;
  readonly updatedAt: number;
}

export function useLook(ns: string): NamespaceLook {
  const specs = useSpecs(ns);
  const counts = useCounts(ns);
  const waiting = useWaiting(ns);
  const explain = useExplain(ns);
  const workers = useWorkers(ns);
  const held = useHeld(ns, workers.data);
  // where nothing happens no data changes, but rates end, and what has waited for a minute needs attention
  const beat = Math.floor(useNow() / 5000);
  const look = useMemo(() => {
    if (specs.data === undefined || counts.data === undefined) return undefined;
    const tally = new Map(counts.data.map((row): [string, TallyRow] => [row.workSpec, row]));
    const explained = new Map(explain.data?.map((one) => [one.workSpec, one]));
    const around = aroundOf(workers.data, daemonNow());
    const heldBySpec = new Map<string, AttemptRow[]>();
    for (const attempt of held.data?.all ?? []) {
      const list = heldBySpec.get(attempt.workSpec) ?? [];
      heldBySpec.set(attempt.workSpec, list);
      list.push(attempt);
    }
    return specs.data
      .map((row): SpecRow => {
        const spec: SpecLook = {
          name: row.name,
          meta: row.meta,
          counts: tally.get(row.name)?.counts ?? emptyTally(),
          explained: explained.get(row.name),
          waitingSince: waiting.data?.get(row.name)?.since ?? 0,
          rates: rates(ns, row.name),
          held: heldBySpec.get(row.name) ?? [],
        };
        const { finished = 0, failed = 0 } = tally.get(row.name)?.removed ?? {};
        const isUsed =
          total(spec.counts) + finished + failed > 0 || hasSchedule(row.meta.schedule) || row.meta.continuous;
        return { ...spec, row, isUsed, condition: conditionOf(spec, around) };
      })
      .sort(byNeed);
  }, [ns, specs.data, counts.data, waiting.data, explain.data, workers.data, held.data, beat]);
  const error = counts.error ?? specs.error;
  return useMemo(
    () => ({
      specs: look,
      byName: new Map(look?.map((spec) => [spec.name, spec])),
      attention: look?.filter(({ condition }) => condition !== null) ?? [],
      workers: workers.data?.length,
      units: (counts.data ?? []).reduce(
        (sum, row) => sum + Object.values(row.counts).reduce((a, b) => a + b, 0),
        0,
      ),
      error,
      updatedAt: counts.dataUpdatedAt,
    }),
    [look, workers.data, counts.data, counts.dataUpdatedAt, error],
  );
}
