/**
 * Exports a namespace, or some of its work specs, as lines of JSON, in constant memory:
 *
 *   {"kind":"export","version":1,"namespace":"…","exported":"2030-…"}
 *   {"kind":"spec","name":"…","data":{…},"meta":{…}}          all of them first
 *   {"kind":"unit","spec":"…","name":"…","status":"…","data":{…},"priority":0,…}
 *   {"kind":"attempt","spec":"…","unit":"…","number":1,…}     with `attempts`, after their unit
 *   {"kind":"end","specs":1,"units":1,"attempts":1}           missing if the file was cut off
 *
 * JSON data is written verbatim, CBOR data as a string of base64. The export is not a snapshot: a unit that changes meanwhile is
 * exported as it was before or after the change.
 */
import type { AttemptRow, Coordinate, WorkSpecRow, WorkUnitQuery, WorkUnitRow } from "../core/index.ts";
import { CoordinateError, eachPage, eachRow } from "../core/index.ts";
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
