/** Finding jobs: by state, category, action, name and time, in the order they were scheduled. */
import {
  isCoordinateError,
  type Coordinate,
  type Page,
  type WorkUnitQuery,
  type WorkUnitRow,
} from "../core/index.ts";
import { jobOf, statusesOf, type ErrorCategory, type Job, type JobState } from "./job.ts";
import { firstIdAt } from "./job-id.ts";

/** Conditions are combined with "and". Times are epoch milliseconds; `After` is inclusive, `Before` is not. */
export interface JobQuery {
  state?: JobState | readonly JobState[];
  category?: string;
  /** The key of an action. */
  action?: string;
  name?: string;
  errorCategory?: ErrorCategory;
  scheduledAfter?: number;
  scheduledBefore?: number;
  /** Jobs that began in this time. The listing reads all jobs that were scheduled before `startedBefore`. */
  startedAfter?: number;
  startedBefore?: number;
  /** The maximum number of jobs. */
  limit?: number;
  /** Jobs that were scheduled after the job with this id: the cursor of the next page. */
  previous?: string;
}

export function labelOf({ name, action, category }: JobQuery): string | undefined {
  // the most selective label
  if (name !== undefined) return `name:${name}`;
  if (action !== undefined) return `action:${action}`;
  return category === undefined || category === "" ? undefined : `category:${category}`;
}

export function statusesFor({ state }: JobQuery): { statuses?: ReturnType<typeof statusesOf> } {
  if (state === undefined) return {};
  return { statuses: statusesOf(typeof state === "string" ? [state] : state) };
}

/** Whether the store's counts answer the query, so that no jobs need to be read. */
export const isCountable = (query: JobQuery): boolean =>
  query.category !== "" &&
  [query.name, query.action, query.category].filter((one) => one !== undefined).length <= 1 &&
  query.errorCategory === undefined &&
  query.scheduledAfter === undefined &&
  query.scheduledBefore === undefined &&
  query.startedAfter === undefined &&
  query.startedBefore === undefined &&
  query.previous === undefined;

export async function* listJobs(
  verbs: Coordinate,
  ns: string,
  workSpecs: readonly string[],
  query: JobQuery,
): AsyncGenerator<Job, void, undefined> {
  const { limit = Infinity } = query;
  let given = 0;
  const rows = merged(workSpecs.map((workSpec) => unitsOf(verbs, ns, workSpec, query)));
  for await (const row of rows) {
    if (given >= limit) return;
    const job = jobOf(row);
    if (!matches(job, query)) continue;
    given++;
    yield job;
  }
}

async function* unitsOf(
  verbs: Coordinate,
  ns: string,
  workSpec: string,
  query: JobQuery,
): AsyncGenerator<WorkUnitRow, void, undefined> {
  const label = labelOf(query);
  const {
    scheduledAfter = 0,
    scheduledBefore = Infinity,
    startedBefore = Infinity,
    limit = Infinity,
  } = query;
  const before = Math.min(scheduledBefore, startedBefore);
  const end = before === Infinity ? null : firstIdAt(before);
  const after = scheduledAfter > 0 ? firstIdAt(scheduledAfter) : "";
  const units: WorkUnitQuery = {
    ...statusesFor(query),
    ...(label !== undefined && { label }),
    limit: Math.min(1000, limit + 1),
  };
  let from = [after, query.previous ?? ""].sort().at(-1) ?? "";
  for (;;) {
    let page: Page<WorkUnitRow>;
    try {
      page = await verbs.listWorkUnits(ns, workSpec, { ...units, ...(from !== "" && { previous: from }) });
    } catch (error) {
      if (isCoordinateError(error, "no_such_work_spec")) return;
      throw error;
    }
    for (const row of page.rows) {
      if (end !== null && row.name >= end) return;
      yield row;
    }
    if (page.next === null) return;
    from = page.next;
  }
}

function matches(job: Job, query: JobQuery): boolean {
  const { name, action, category, errorCategory, startedAfter, startedBefore } = query;
  if (name !== undefined && job.name !== name) return false;
  if (action !== undefined && job.action_id !== action) return false;
  if (category !== undefined && job.category !== category) return false;
  if (errorCategory !== undefined && job.error_cat !== errorCategory) return false;
  if (startedAfter === undefined && startedBefore === undefined) return true;
  return (
    job.time_start > 0 &&
    job.time_start >= (startedAfter ?? 0) &&
    job.time_start < (startedBefore ?? Infinity)
  );
}

/** Merges listings that are in name order into one listing in name order. */
async function* merged(
  sources: readonly AsyncGenerator<WorkUnitRow, void, undefined>[],
): AsyncGenerator<WorkUnitRow, void, undefined> {
  const heads = await Promise.all(sources.map((source) => source.next()));
  for (;;) {
    let first = -1;
    heads.forEach((head, i) => {
      if (head.done === true) return;
      const best = heads[first];
      if (best === undefined || best.done === true || head.value.name < best.value.name) first = i;
    });
    const head = heads[first];
    const source = sources[first];
    if (head === undefined || head.done === true || source === undefined) return;
    yield head.value;
    heads[first] = await source.next();
  }
}
