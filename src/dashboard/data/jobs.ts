/** Jobs: the units of work specs that hold jobs, read as job records. */
import { useMemo } from "react";
import { useQuery, type UseQueryResult } from "@tanstack/react-query";
import { decodeData, type Page, type WorkUnitRow, type WorkUnitStatus } from "../../core/index.ts";
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
/** Fewer jobs than this are shown only if there are no more. */
const enough = 250;
const maxLooks = 12;

/**
 * The newest units of a work spec of jobs. Units are listed from the oldest on, so with more than `max` of them the age from which
 * the list is short enough is searched: by the geometric mean, since jobs may be seconds or months apart.
 */
async function newest(
  ns: string,
  spec: string,
  { sinceMs, status, label }: JobFilter,
): Promise<{ rows: readonly WorkUnitRow[]; more: boolean }> {
  const now = daemonNow();
  const look = (ageMs: number): Promise<Page<WorkUnitRow>> =>
    client.listWorkUnits(ns, spec, {
      limit: max,
      ...(ageMs < now && { previous: firstIdAt(now - ageMs) }),
      ...(status !== "" && { statuses: [status] }),
      ...(label !== "" && { label }),
    });
  let old = sinceMs > 0 ? sinceMs : now;
  const whole = await look(old);
  if (whole.next === null) return { rows: whole.rows, more: false };
  let young = 1;
  let { rows } = whole;
  for (let looks = 1; looks < maxLooks; looks++) {
    const age = Math.sqrt(young * old);
    const page = await look(age);
    if (page.next !== null) {
      old = age;
      continue;
    }
    ({ rows } = page);
    if (rows.length >= enough) break;
    young = age;
  }
  return { rows, more: true };
}

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
          const found = await newest(ns, spec, filter);
          if (found.more) more = true;
          return found.rows.map((unit) => jobOf(spec, unit));
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
