/** Jobs: the units of work specs that hold jobs, read as job records. */
import { useMemo } from "react";
import { useQuery, type UseQueryResult } from "@tanstack/react-query";
import { decodeData, type WorkUnitRow, type WorkUnitStatus } from "../../core/index.ts";
import { useHere } from "../here.ts";
import { client } from "./connection.ts";
import { every } from "./live.ts";
import { daemonNow } from "./session.ts";

/** Work specs of these runtimes hold jobs. */
const runtimes = ["jobs", "jobs-inline"];

export function useJobQueues(): readonly string[] {
  const { look } = useHere();
  return useMemo(
    () =>
      (look.specs ?? [])
        .filter(({ meta }) => runtimes.includes(meta.runtime))
        .map(({ name }) => name)
        .sort(),
    [look.specs],
  );
}

export interface JobLook {
  readonly id: string;
  readonly spec: string;
  readonly name: string;
  readonly category: string;
  readonly action: string;
  readonly errorCategory: string;
  readonly unit: WorkUnitRow;
}

/** The smallest id of a point in time: ids begin with their creation time. */
const firstIdAt = (time: number): string => {
  const hex = Math.max(0, Math.floor(time)).toString(16).padStart(12, "0");
  return `${hex.slice(0, 8)}-${hex.slice(8)}-7000-8000-000000000000`;
};

export interface JobFilter {
  /** How far back; 0 is unlimited. */
  readonly sinceMs: number;
  readonly status: WorkUnitStatus | "";
  readonly label: string;
}

const max = 500;

/** Jobs scheduled in that time, newest first, at most `max` of each work spec. */
export function useJobs(
  ns: string,
  specs: readonly string[],
  filter: JobFilter,
): UseQueryResult<{ jobs: JobLook[]; more: boolean }> {
  return useQuery({
    queryKey: ["units", ns, "jobs", specs, filter],
    queryFn: async () => {
      let more = false;
      const pages = await Promise.all(
        specs.map(async (spec) => {
          const page = await client.listWorkUnits(ns, spec, {
            limit: max,
            ...(filter.sinceMs > 0 && { previous: firstIdAt(daemonNow() - filter.sinceMs) }),
            ...(filter.status !== "" && { statuses: [filter.status] }),
            ...(filter.label !== "" && { label: filter.label }),
          });
          if (page.next !== null) more = true;
          return page.rows.map((unit) => jobOf(spec, unit));
        }),
      );
      const jobs = pages.flat().sort((a, b) => (a.id < b.id ? 1 : -1));
      return { jobs, more };
    },
    enabled: specs.length > 0,
    refetchInterval: every(10_000),
    placeholderData: (before) => before,
  });
}

function jobOf(spec: string, unit: WorkUnitRow): JobLook {
  const data = unit.data === null ? {} : decodeData(unit.data);
  const text = (value: unknown): string => (typeof value === "string" ? value : "");
  return {
    id: unit.name,
    spec,
    name: text(data.job),
    category: text(data.category),
    action: text(data.action),
    errorCategory: text(data.error_cat),
    unit,
  };
}
