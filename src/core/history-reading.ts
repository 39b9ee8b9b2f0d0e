/** Reads the history of a namespace: picks the step length and the work specs for a query, and gathers the points. */
import { checkBoolean, checkCount, checkList, checkSpan, checkTime } from "./check.ts";
import { CoordinateError } from "./errors.ts";
import { finestStepMs, gatherPoints, planHistory, type History, type HistoryQuery } from "./history.ts";
import { checkName } from "./names.ts";
import { keepsHistory, stepOf, type StoredRecord } from "./recording.ts";
import type { Store } from "./store.ts";
import { missingWorkSpec } from "./work-spec.ts";

/** A step counts as recorded this long after it has ended. */
const recordingMs = 2000;
const defaultHistoryMs = 3_600_000;
const defaultPoints = 360;
const maxPoints = 3000;
const maxSeries = 1000;

export async function readHistory(
  store: Store,
  ns: string,
  query: HistoryQuery,
  now: number,
): Promise<History> {
  if (!keepsHistory(store)) throw new CoordinateError("not_supported", "this store keeps no history");
  const to = query.to === undefined ? now : Math.min(checkTime("to", query.to), now);
  if (query.from !== undefined && query.lastMs !== undefined)
    throw new CoordinateError("bad_argument", "lastMs: give either from or lastMs, not both");
  const lastMs = checkSpan("lastMs", query.lastMs, now, defaultHistoryMs);
  const from = query.from === undefined ? to - lastMs : checkTime("from", query.from);
  if (from >= to)
    throw new CoordinateError("bad_argument", `from: expected a time before ${to}, got ${from}`);
  const points = Math.min(checkCount("points", query.points, defaultPoints, 1), maxPoints);
  const each = query.each !== undefined && checkBoolean("each", query.each);
  const specs: { id: number; name: string | null }[] = [];
  if (query.workSpecs === undefined) specs.push({ id: 0, name: null });
  else {
    const names = checkList("workSpecs", query.workSpecs, maxSeries).map((one) =>
      checkName("work spec", one),
    );
    const rows = await store.getWorkSpecs(ns, names);
    for (const [i, row] of rows.entries()) {
      if (row === null) throw missingWorkSpec(names[i] ?? "");
      specs.push({ id: row.id, name: row.name });
    }
  }
  if (each) {
    const rows = await store.tally(ns, now);
    if (rows.length > maxSeries)
      throw new CoordinateError("too_large", `each: ${rows.length} work specs, at most ${maxSeries}`);
    for (const { id, workSpec } of rows) specs.push({ id, name: workSpec });
  }
  const plan = planHistory(from, to, points, now);
  const stepMs = plan.recordMs * plan.times;
  const end = Math.min(plan.to, stepOf(now - recordingMs, finestStepMs));
  const ids = [...new Set(specs.map(({ id }) => id))];
  const rows = await store.readHistory(ns, ids, plan.recordMs, plan.from, end);
  const bySpec = new Map<number, StoredRecord[]>(ids.map((id) => [id, []]));
  for (const row of rows) bySpec.get(row.spec)?.push(row);
  const series = specs.map(({ id, name }) => ({
    workSpec: name,
    points: gatherPoints(bySpec.get(id) ?? [], stepMs),
  }));
  return { from: plan.from, to: Math.max(plan.from, end), stepMs, series };
}
