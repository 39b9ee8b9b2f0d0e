/**
 * Exports a namespace, or some of its work specs, as lines of JSON, in constant memory:
 *
 *   {"kind":"export","version":1,"namespace":"…","exported":"2030-…"}
 *   {"kind":"namespace","policy":"python","share":"choices"}  unless it has the default settings
 *   {"kind":"limit","name":"…","maxRunning":1,"rate":{…}}     limits that the work specs may share
 *   {"kind":"batch","name":"…","sealed":true,"done":0,…}      only in an export of all units
 *   {"kind":"spec","name":"…","data":{…},"meta":{…}}          all of them before the units
 *   {"kind":"unit","spec":"…","name":"…","status":"…","data":{…},"priority":0,…}
 *   {"kind":"attempt","spec":"…","unit":"…","number":1,…}     with `attempts`, after their unit
 *   {"kind":"end","specs":1,"units":1,"attempts":1}           missing if the file was cut off
 *
 * JSON data is written verbatim, CBOR data as a string of base64. The export is not a snapshot: a unit that changes meanwhile is
 * exported as it was before or after the change. A reader refuses kinds of lines that it does not know; those that were added later
 * come first, so that an older reader has changed nothing by then.
 */
import type {
  AttemptRow,
  BatchRow,
  Coordinate,
  WorkSpecRow,
  WorkUnitQuery,
  WorkUnitRow,
} from "../core/index.ts";
import { CoordinateError, defaultNamespaceSettings, eachPage, eachRow } from "../core/index.ts";
import { writeLine } from "../rest/wire.ts";

export interface ExportOptions {
  /** All when absent. */
  workSpecs?: readonly string[];
  /** Only units that match. */
  query?: Pick<WorkUnitQuery, "statuses" | "prefix">;
  attempts?: boolean;
  /** Exports only the definitions of the work specs. */
  specsOnly?: boolean;
  now: number;
  onProgress?: (counts: ExportCounts) => void;
}

export interface ExportCounts {
  specs: number;
  units: number;
  attempts: number;
}

export const exportVersion = 1;
const pageSize = 500;

/** Yields pieces of text, each of whole lines. */
export async function* exportLines(
  coordinate: Coordinate,
  ns: string,
  options: ExportOptions,
): AsyncGenerator<string> {
  const counts: ExportCounts = { specs: 0, units: 0, attempts: 0 };
  const exported = new Date(options.now).toISOString();
  yield writeLine({ kind: "export", version: exportVersion, namespace: ns, exported });
  for await (const line of settingLines(coordinate, ns, options)) yield writeLine(line);
  const names: string[] = [];
  for await (const row of specsOf(coordinate, ns, options.workSpecs)) {
    names.push(row.name);
    counts.specs += 1;
    yield writeLine({ kind: "spec", name: row.name, data: row.data, meta: row.meta });
  }
  for (const name of options.specsOnly === true ? [] : names) {
    const pages = eachPage((from) =>
      coordinate.listWorkUnits(ns, name, { ...options.query, limit: pageSize, ...from }),
    );
    for await (const rows of pages) {
      const attempts = options.attempts === true ? await attemptsOf(coordinate, ns, name, rows) : [];
      let text = "";
      rows.forEach((row, i) => {
        text += writeLine(unitLine(row));
        for (const attempt of attempts[i] ?? []) text += writeLine(attemptLine(attempt));
        counts.attempts += attempts[i]?.length ?? 0;
      });
      counts.units += rows.length;
      options.onProgress?.({ ...counts });
      if (text !== "") yield text;
    }
  }
  yield writeLine({ kind: "end", ...counts });
}

async function* settingLines(
  coordinate: Coordinate,
  ns: string,
  { workSpecs, query = {}, specsOnly = false }: ExportOptions,
): AsyncGenerator<object> {
  if (workSpecs === undefined) {
    const { policy, share } = (await coordinate.getNamespace(ns)).settings;
    const usual = defaultNamespaceSettings;
    if (policy !== usual.policy || share !== usual.share) yield { kind: "namespace", policy, share };
  }
  for (const { name, maxRunning, rate, workSpecs: users } of await coordinate.listLimits(ns))
    if (workSpecs === undefined || users.some((one) => workSpecs.includes(one)))
      yield { kind: "limit", name, maxRunning, rate };
  // with a part of its units, an imported batch would end too early
  if (workSpecs !== undefined || specsOnly || Object.keys(query).length > 0) return;
  for await (const row of eachRow((from) => coordinate.listBatches(ns, from))) yield batchLine(row);
}

const batchLine = (row: BatchRow): object => ({
  kind: "batch",
  name: row.name,
  sealed: row.sealed,
  total: row.total,
  done: row.doneTime,
  ...(row.then !== null && { then: row.then }),
  ...(row.parent !== null && { parent: row.parent }),
});

async function* specsOf(
  coordinate: Coordinate,
  ns: string,
  names: readonly string[] | undefined,
): AsyncGenerator<WorkSpecRow> {
  if (names !== undefined) {
    const rows = await coordinate.getWorkSpecs(ns, names);
    const missing = names.find((_, i) => (rows[i] ?? null) === null);
    if (missing !== undefined) throw new CoordinateError("no_such_work_spec", missing);
    for (const row of rows) if (row !== null) yield row;
    return;
  }
  yield* eachRow((from) => coordinate.listWorkSpecs(ns, from));
}

function attemptsOf(
  coordinate: Coordinate,
  ns: string,
  workSpec: string,
  rows: readonly WorkUnitRow[],
): Promise<AttemptRow[][]> {
  return Promise.all(
    rows.map(async ({ name, attempts }) =>
      attempts === 0 ? [] : coordinate.listUnitAttempts(ns, workSpec, name),
    ),
  );
}

const unitLine = (row: WorkUnitRow): object => ({
  kind: "unit",
  spec: row.workSpec,
  name: row.name,
  status: row.status,
  ...(row.reason !== null && row.reason !== "error" && { reason: row.reason }),
  data: row.data,
  priority: row.priority,
  ...(row.notBefore > 0 && { notBefore: row.notBefore }),
  ...(row.deadline !== undefined && { deadline: row.deadline }),
  ...(row.expires !== undefined && { expires: row.expires }),
  created: row.createdTime,
  ...(row.attempts > 0 && { attempts: row.attempts }),
  ...(row.activeAttempt !== null && { worker: row.activeAttempt.worker }),
  ...(row.dependencies.length > 0 && { dependencies: row.dependencies }),
  ...(row.partition !== "" && { partition: row.partition }),
  ...(row.labels.length > 0 && { labels: row.labels }),
  ...(row.queues.length > 0 && { queues: row.queues }),
  ...(row.maxRetries !== undefined && { maxRetries: row.maxRetries }),
  ...(row.retry !== undefined && { retry: row.retry }),
});

const attemptLine = (row: AttemptRow): object => ({
  kind: "attempt",
  spec: row.workSpec,
  unit: row.workUnit,
  number: row.number,
  status: row.status,
  worker: row.worker,
  start: row.startTime,
  end: row.endTime,
  ...(row.late && { late: true }),
  ...(row.chainingErrors.length > 0 && { chainingErrors: row.chainingErrors }),
  data: row.data,
});
