/**
 * The representations of the Go server, as text: fields in alphabetical order, like Go, and links that a client follows
 * instead of building URLs. An object always has the same URL, since clients compare URLs.
 */
import {
  workSpecName,
  workUnitStatuses,
  type AttemptRow,
  type Tally,
  type TallyRow,
  type WorkerRow,
  type WorkSpecRow,
  type WorkUnitRow,
  type WorkUnitStatus,
} from "../core/index.ts";
import { goData, goDuration, goFloat, goInteger, goString, goTime, isEmptyData } from "./go-values.ts";
import { nameToUrl } from "./url-name.ts";

export const namespaceUrl = (ns: string): string => `/namespace/${nameToUrl(ns)}`;
export const workSpecUrl = (ns: string, spec: string): string =>
  `${namespaceUrl(ns)}/work_spec/${nameToUrl(spec)}`;
export const workUnitUrl = (ns: string, spec: string, unit: string): string =>
  `${workSpecUrl(ns, spec)}/work_unit/${nameToUrl(unit)}`;
const workerUrl = (ns: string, worker: string): string => `${namespaceUrl(ns)}/worker/${nameToUrl(worker)}`;
const attemptUrl = (ns: string, id: string): string => `${namespaceUrl(ns)}/attempt/${id}`;

export const rootText =
  '{"namespace_url":"/namespace/{namespace}","namespaces_url":"/namespace","summary_url":"/summary","url":""}';

const short = (name: string, url: string): string => `{"name":${goString(name)},"url":"${url}"}`;

/** Go writes a nil slice as null and an empty slice as []. Clients accept both. */
const list = (field: string, items: readonly string[], empty: "null" | "[]"): string =>
  `{"${field}":${items.length === 0 ? empty : `[${items.join(",")}]`}}`;

export const namespaceListText = (names: readonly string[]): string =>
  list(
    "namespaces",
    names.map((name) => short(name, namespaceUrl(name))),
    "null",
  );

export function namespaceText(ns: string): string {
  const url = namespaceUrl(ns);
  return (
    `{"name":${goString(ns)},"summary_url":"${url}/summary","url":"${url}",` +
    `"work_spec_url":"${url}/work_spec/{spec}","work_specs_url":"${url}/work_spec",` +
    `"worker_url":"${url}/worker/{worker}","workers_url":"${url}/worker"}`
  );
}

export const workSpecListText = (ns: string, names: readonly string[]): string =>
  list(
    "work_specs",
    names.map((name) => short(name, workSpecUrl(ns, name))),
    "[]",
  );

export function workSpecText(ns: string, { name, data }: WorkSpecRow): string {
  const url = workSpecUrl(ns, name);
  const query = "{?name*,status*,previous,limit}";
  return (
    `{"data":${goData(data)},"meta":"${url}/meta{?counts}","name":${goString(name)},"summary_url":"${url}/summary",` +
    `"url":"${url}","work_unit_adjust_url":"${url}/adjust${query}","work_unit_change_url":"${url}/change${query}",` +
    `"work_unit_counts_url":"${url}/counts","work_unit_query_url":"${url}/work_unit${query}",` +
    `"work_unit_url":"${url}/work_unit/{unit}","work_units_url":"${url}/work_unit"}`
  );
}

/** The Go client reads an int, but an operator may have set a fraction. A weight between 0 and 1 becomes 1, not 0. */
const goWeight = (weight: number): string => goInteger(weight > 0 ? Math.max(1, weight) : weight);

export function workSpecMetaText({ meta }: WorkSpecRow, counts: Tally | null): string {
  return (
    `{"available_count":${counts?.available ?? 0},"can_be_continuous":${meta.canBeContinuous},` +
    `"continuous":${meta.continuous},"interval":${goDuration(meta.intervalMs)},` +
    `"max_attempts_returned":${meta.maxGetwork},"max_retries":${meta.maxRetries},"max_running":${meta.maxRunning},` +
    (meta.minGb === 0 ? "" : `"min_memory_gb":${goFloat(meta.minGb)},`) +
    `"next_continuous":${goTime(meta.nextContinuous)},"next_work_spec_name":${goString(meta.nextWorkSpecName)},` +
    `"paused":${meta.paused},"pending_count":${counts?.pending ?? 0},"priority":${goInteger(meta.priority)},` +
    `"runtime":${goString(meta.runtime)},"weight":${goWeight(meta.weight)}}`
  );
}

/** Go has no status `blocked`, and its client fails on unknown statuses. */
const goStatus = (status: WorkUnitStatus): WorkUnitStatus => (status === "blocked" ? "delayed" : status);

/** The counts of the statuses that Go knows, without zeros. */
function goCounts(counts: Tally): [status: WorkUnitStatus, count: number][] {
  const sums = new Map<WorkUnitStatus, number>();
  for (const status of workUnitStatuses) {
    if (counts[status] > 0) sums.set(goStatus(status), (sums.get(goStatus(status)) ?? 0) + counts[status]);
  }
  return [...sums];
}

export const countsText = (counts: Tally): string =>
  `{${goCounts(counts)
    .map(([status, count]) => `"${status}":${count}`)
    .join(",")}}`;

export function summaryText(rows: readonly TallyRow[]): string {
  const items = rows.flatMap(({ namespace, workSpec, counts }) =>
    goCounts(counts).map(
      ([status, count]) =>
        `{"Count":${count},"Namespace":${goString(namespace)},"Status":"${status}","WorkSpec":${goString(workSpec)}}`,
    ),
  );
  return items.length === 0 ? "null" : `[${items.join(",")}]`;
}

export const workUnitListText = (ns: string, spec: string, names: readonly string[]): string =>
  list(
    "work_units",
    names.map((name) => short(name, workUnitUrl(ns, spec, name))),
    "null",
  );

export function workUnitText(ns: string, unit: WorkUnitRow): string {
  const spec = workSpecUrl(ns, workSpecName(unit.workSpec));
  const url = workUnitUrl(ns, unit.workSpec, unit.name);
  return (
    (unit.activeAttempt === null
      ? "{"
      : `{"active_attempt_url":"${attemptUrl(ns, unit.activeAttempt.id)}",`) +
    `"attempts_url":"${url}/attempts",` +
    (isEmptyData(unit.data) ? "" : `"data":${goData(unit.data)},`) +
    `"meta":{"not_before":${goTime(unit.notBefore)},"priority":${goFloat(unit.priority)}},"name":${goString(unit.name)},` +
    `"status":"${goStatus(unit.status)}","url":"${url}","work_spec_url":"${spec}"}`
  );
}

export const workerListText = (ns: string, names: readonly string[]): string =>
  list(
    "workers",
    names.map((name) => short(name, workerUrl(ns, name))),
    "[]",
  );

export function workerText(ns: string, worker: WorkerRow, children: readonly string[]): string {
  const url = workerUrl(ns, worker.name);
  const { parent } = worker;
  return (
    `{"active":${worker.active},"active_attempts_url":"${url}/active_attempts","all_attempts_url":"${url}/all_attempts",` +
    `"child_attempts_url":"${url}/child_attempts",` +
    (children.length === 0
      ? ""
      : `"child_urls":[${children.map((child) => `"${workerUrl(ns, child)}"`).join(",")}],`) +
    `"data":${goData(worker.data)},"expiration":${goTime(worker.expiration)},"last_update":${goTime(worker.lastUpdate)},` +
    `"make_attempt_url":"${url}/make_attempt","mode":${goString(worker.mode)},"name":${goString(worker.name)},` +
    (parent === null ? "" : `"parent":${goString(parent)},"parent_url":"${workerUrl(ns, parent)}",`) +
    `"request_attempts_url":"${url}/request_attempts","url":"${url}"}`
  );
}

export function attemptText(ns: string, attempt: AttemptRow): string {
  const url = attemptUrl(ns, attempt.id);
  return (
    (isEmptyData(attempt.data) ? "{" : `{"data":${goData(attempt.data)},`) +
    `"end_time":${goTime(attempt.endTime)},"expiration_time":${goTime(attempt.expirationTime)},` +
    `"expire_url":"${url}/expire","fail_url":"${url}/fail","finish_url":"${url}/finish","renew_url":"${url}/renew",` +
    `"retry_url":"${url}/retry","start_time":${goTime(attempt.startTime)},"status":"${attempt.status}","url":"${url}",` +
    `"work_unit_url":"${workUnitUrl(ns, attempt.workSpec, attempt.workUnit)}","worker_url":"${workerUrl(ns, attempt.worker)}"}`
  );
}

const attemptShort = (ns: string, attempt: AttemptRow): string =>
  `{"start_time":${goTime(attempt.startTime)},"url":"${attemptUrl(ns, attempt.id)}",` +
  `"work_unit_url":"${workUnitUrl(ns, attempt.workSpec, attempt.workUnit)}","worker_url":"${workerUrl(ns, attempt.worker)}"}`;

export const attemptListText = (ns: string, attempts: readonly AttemptRow[]): string =>
  list(
    "attempts",
    attempts.map((attempt) => attemptShort(ns, attempt)),
    "[]",
  );

export function attemptResponseText(ns: string, attempts: readonly AttemptRow[]): string {
  const [first] = attempts;
  if (first === undefined) return '{"attempts":null}';
  const items = attempts.map((attempt) => attemptText(ns, attempt)).join(",");
  return `{"attempts":[${items}],"work_spec_url":"${workSpecUrl(ns, first.workSpec)}"}`;
}
