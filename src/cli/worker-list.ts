/** Workers of a namespace, page after page, and who belongs to whom. */
import { eachPage, type Coordinate, type WorkerQuery, type WorkerRow } from "../core/index.ts";

/** At most `most` of them; `more` where there were others. */
export async function listWorkers(
  coordinate: Coordinate,
  ns: string,
  query: WorkerQuery,
  most: number,
): Promise<{ rows: WorkerRow[]; more: boolean }> {
  const rows: WorkerRow[] = [];
  const read = (from: { previous?: string }) =>
    coordinate.listWorkers(ns, { ...query, limit: Math.min(1000, most - rows.length), ...from });
  for await (const page of eachPage(read)) {
    rows.push(...page.rows);
    if (rows.length >= most) return { rows, more: page.next !== null };
  }
  return { rows, more: false };
}

export interface Branch {
  row: WorkerRow;
  /** The lines of a tree before its name. */
  lead: string;
}

/** Parents before their children; a worker whose parent is not listed stands at the root. */
export function tree(rows: readonly WorkerRow[]): Branch[] {
  const known = new Set(rows.map(({ name }) => name));
  const children = new Map<string | null, WorkerRow[]>();
  for (const row of rows) {
    const parent = row.parent !== null && known.has(row.parent) ? row.parent : null;
    const siblings = children.get(parent);
    if (siblings === undefined) children.set(parent, [row]);
    else siblings.push(row);
  }
  const branches: Branch[] = [];
  const add = (row: WorkerRow, lead: string, below: string): void => {
    branches.push({ row, lead });
    const own = children.get(row.name) ?? [];
    own.forEach((child, i) => {
      const last = i === own.length - 1;
      add(child, `${below}${last ? "└─ " : "├─ "}`, `${below}${last ? "   " : "│  "}`);
    });
  };
  for (const row of children.get(null) ?? []) add(row, "", "");
  return branches;
}
