/** Downloads units as a file, one line of JSON each. */
import { client } from "../data/connection.ts";
import type { BulkTarget } from "../data/bulk.ts";
import { queryOf, unitsNamed, type UnitFilter } from "../data/units.ts";
import { dataToJson, type WorkUnitRow } from "../../core/index.ts";

/** The line format of `coordinate export`: the fields to add the unit again, and its status. */
function line(unit: WorkUnitRow): string {
  const data = unit.data === null ? "null" : dataToJson(unit.data).text.replace(/[\n\r]/g, " ");
  const { name, status, priority, attempts, createdTime, labels } = unit;
  const rest = JSON.stringify({ status, priority, attempts, createdTime, labels }).slice(1);
  return `{"name":${JSON.stringify(name)},"data":${data},${rest}\n`;
}

export async function exportUnits({ ns, spec, names }: BulkTarget, filter: UnitFilter): Promise<void> {
  const parts: string[] = [];
  if (names === undefined) {
    for await (const unit of client.exportWorkUnits(ns, spec, queryOf(filter))) parts.push(line(unit));
  } else {
    for (let at = 0; at < names.length; at += 500) {
      for (const unit of await unitsNamed(ns, spec, names.slice(at, at + 500)))
        if (unit !== null) parts.push(line(unit));
    }
  }
  save(
    `${spec.replace(/[^\w.-]+/g, "_").slice(0, 80)}.jsonl`,
    new Blob(parts, { type: "application/x-ndjson" }),
  );
}

function save(name: string, blob: Blob): void {
  const url = URL.createObjectURL(blob);
  const link = document.createElement("a");
  link.href = url;
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(url), 60_000);
}
